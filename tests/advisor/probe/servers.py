"""A server that plays an engine with known times, so that what a probe finds can be checked."""

from __future__ import annotations

import json
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.advisor.stand import Stand, standing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from http.server import BaseHTTPRequestHandler

CHAT, COMPLETIONS, OLLAMA = "/v1/chat/completions", "/v1/completions", "/api/chat"
CHARACTERS = 5
"""Of one of its tokens."""


@dataclass
class Engine:
    """How it behaves; times in s."""

    fixed_s: float = 0.01
    token_s: float = 2e-4
    step_s: float = 0.004
    lanes: int = 1
    counts: bool = True
    caches: bool = False
    per_event: int = 1
    key: str = "content"
    hangs: bool = False
    gate: threading.Semaphore = field(init=False)
    known: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.gate = threading.Semaphore(self.lanes)

    def answer(self, stand: Stand, handler: BaseHTTPRequestHandler) -> None:
        """Answer a chat or a completion as a stream."""
        path, asked = next((path, said) for path, said in reversed(stand.posted) if path == handler.path)
        prompt = asked["prompt"] if path == COMPLETIONS else asked["messages"][0]["content"]
        output = asked["options"]["num_predict"] if path == OLLAMA else asked["max_tokens"]
        tokens = len(prompt) // CHARACTERS
        stream = Stream(handler)
        with self.gate:
            cached = tokens - 1 if self.caches and prompt in self.known else 0
            self.known.add(prompt)
            time.sleep(self.fixed_s + self.token_s * (tokens - cached))
            if self.hangs:
                time.sleep(30)
            for left in range(output, 0, -self.per_event):
                stream.event(_piece(path, self.key, "word " * min(left, self.per_event)))
                time.sleep(self.step_s * self.per_event if left > self.per_event else 0)
        if path == OLLAMA:
            stream.line(_done(tokens, output, self))
        else:
            stream.event({"choices": [_ended(path)]})
            usage = {"prompt_tokens": tokens, "completion_tokens": output}
            details = {"prompt_tokens_details": {"cached_tokens": cached}} if self.caches else {}
            stream.event({"choices": [], "usage": usage | details if self.counts else None})
            stream.text("data: [DONE]\n\n")
        stream.end()


class Stream:
    """An answer in chunks."""

    def __init__(self, handler: BaseHTTPRequestHandler) -> None:
        self._handler = handler
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        self._lines = handler.path == OLLAMA

    def event(self, said: dict[str, Any]) -> None:
        if self._lines:
            self.line(said)
        else:
            self.text(f"data: {json.dumps(said)}\n\n")

    def line(self, said: dict[str, Any]) -> None:
        self.text(json.dumps(said) + "\n")

    def text(self, text: str) -> None:
        data = text.encode()
        self._handler.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def end(self) -> None:
        self._handler.wfile.write(b"0\r\n\r\n")


def _piece(path: str, key: str, text: str) -> dict[str, Any]:
    if path == OLLAMA:
        return {"message": {"role": "assistant", key: text}, "done": False}
    return {"choices": [{"text": text} if path == COMPLETIONS else {"delta": {key: text}}]}


def _ended(path: str) -> dict[str, Any]:
    return {"finish_reason": "length", **({} if path == COMPLETIONS else {"delta": {}})}


def _done(tokens: int, output: int, engine: Engine) -> dict[str, Any]:
    """What Ollama says at the end, in ns."""
    prefill_s, decode_s = engine.fixed_s + engine.token_s * tokens, engine.step_s * (output - 1)
    return {
        "model": "tiny",
        "created_at": "2026-11-30T09:00:00Z",
        "message": {"role": "assistant", "content": ""},
        "done": True,
        "done_reason": "length",
        "total_duration": round(1e9 * (prefill_s + decode_s)),
        "load_duration": 1_000_000,
        "prompt_eval_count": tokens,
        "prompt_eval_duration": round(1e9 * prefill_s),
        "eval_count": output,
        "eval_duration": round(1e9 * decode_s),
    }


@contextmanager
def playing(engine: Engine, path: str = CHAT, models: tuple[str, ...] = ("tiny",)) -> Iterator[Stand]:
    """Let it listen: at this path alone."""
    with standing() as stand:
        stand.pages[path] = lambda handler: engine.answer(stand, handler)
        stand.says("/v1/models", {"data": [{"id": name} for name in models]})
        if path == OLLAMA:
            stand.says("/api/version", {"version": "0.31.2"})
            stand.says("/api/ps", {"models": []})
        yield stand
