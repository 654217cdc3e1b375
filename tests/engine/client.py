"""A small chat client that keeps the server's own accounts and measures its own wait."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

REQUEST_TIMEOUT_S = 120.0

Messages = list[dict[str, str]]


@dataclass(frozen=True)
class Answer:
    """One request as its client saw it.

    Attributes:
        label: The scenario's name for the request.
        streamed: Whether the answer came in chunks.
        total_ms: From just before the connection is made to the last byte read.
        ttft_ms: From the same start to the first chunk with text; None where not streamed.
        finish_reason: As the server says it; None where the client left before the end.
        timings: The server's `timings` object; empty where the client left before the end.
        usage: The server's `usage` object; empty where the client left before the end.
    """

    label: str
    streamed: bool
    total_ms: float
    ttft_ms: float | None
    finish_reason: str | None
    timings: dict[str, float] = field(default_factory=dict)
    usage: dict[str, Any] = field(default_factory=dict)

    @property
    def completed(self) -> bool:
        """Whether the client stayed until the server's accounts arrived."""
        return bool(self.timings)

    def expected_row(self) -> dict[str, float]:
        """The server's accounts under the names of the project's request columns."""
        return {
            "prompt_tokens": self.usage["prompt_tokens"],
            "cached_tokens": self.timings["cache_n"],
            "prefill_tokens": self.timings["prompt_n"],
            "prefill_ms": self.timings["prompt_ms"],
            "output_tokens": self.timings["predicted_n"],
            "decode_ms": self.timings["predicted_ms"],
        }


@dataclass(frozen=True)
class Request:
    """One chat request; `leave_after` hangs up once that many chunks with text arrived."""

    label: str
    messages: Messages
    max_tokens: int
    stream: bool = False
    leave_after: int | None = None

    def body(self) -> bytes:
        """The request's JSON: greedy, and of exactly `max_tokens` tokens."""
        return json.dumps(
            {
                "messages": self.messages,
                "max_tokens": self.max_tokens,
                "stream": self.stream,
                "stream_options": {"include_usage": True} if self.stream else None,
                "temperature": 0,
                "ignore_eos": True,
            }
        ).encode()


def ask(address: str, request: Request) -> Answer:
    """Send one request and read its answer.

    Raises:
        RuntimeError: The server answered with another status than 200.
        OSError: The connection failed or timed out.
    """
    start_s = time.perf_counter()
    connection = HTTPConnection(urlsplit(address).netloc, timeout=REQUEST_TIMEOUT_S)
    try:
        connection.request(
            "POST", "/v1/chat/completions", request.body(), {"Content-Type": "application/json"}
        )
        with connection.getresponse() as response:
            if response.status != 200:
                raise RuntimeError(f"{request.label}: HTTP {response.status} {response.read(500)!r}")
            chunks = _events(response) if request.stream else iter([json.loads(response.read())])
            return _collect(request, chunks, start_s)
    finally:
        connection.close()


def _events(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """The JSON payloads of a server-sent event stream."""
    for line in lines:
        if line.startswith(b"data: {"):
            yield json.loads(line.removeprefix(b"data: "))


def _collect(request: Request, chunks: Iterator[dict[str, Any]], start_s: float) -> Answer:
    texts, ttft_ms, finish_reason, last = 0, None, None, {}
    for last in chunks:
        for choice in last["choices"]:
            finish_reason = choice["finish_reason"] or finish_reason
            if choice.get("delta", {}).get("content"):
                texts += 1
                ttft_ms = ttft_ms or _ms_since(start_s)
        if texts == request.leave_after:
            break
    return Answer(
        label=request.label,
        streamed=request.stream,
        total_ms=_ms_since(start_s),
        ttft_ms=ttft_ms,
        finish_reason=finish_reason,
        timings=last.get("timings", {}),
        usage=last.get("usage", {}),
    )


def _ms_since(start_s: float) -> float:
    return 1000 * (time.perf_counter() - start_s)
