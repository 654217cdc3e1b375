"""An answer that comes in events, each with its moment: server-sent events, or a JSON object a line."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from advisor.redact import clean
from advisor.sources.served.web import parts, whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from advisor.sources.served.web import Answer, Web

_SENT = "http11.send_request_headers.started"
END = "[DONE]"
_LONG = 300


class Event(NamedTuple):
    """One event.

    Attributes:
        at_s: when its last byte came, on `time.perf_counter`.
        data: its JSON; ``None`` where it is none; `END` where the server says that this was all.
    """

    at_s: float
    data: Any


@dataclass(slots=True)
class Reply:
    """What comes back for one request.

    Attributes:
        sent_s: when the connection stood and the request began to be sent, on `time.perf_counter`.
        refused: the whole answer where its status is not 200; ``None`` where events come.
        events: what comes, to be read once.
    """

    sent_s: float
    refused: Answer | None
    events: Iterator[Event]


@contextmanager
def streamed(web: Web, path: str, said: Any) -> Iterator[Reply]:
    """Ask with a JSON body, and read what comes while the block lasts.

    Raises:
        advisor.sources.served.web.NoAnswerError: nothing came, or it broke off; also while it is read.
    """
    sent_s = time.perf_counter()

    def trace(event: str) -> None:
        nonlocal sent_s
        if event == _SENT:
            sent_s = time.perf_counter()

    with web.post(path, said, trace) as answer:
        refused = whole(answer) if answer.status_code != 200 else None
        yield Reply(sent_s, refused, iter(()) if refused else events(parts(answer)))


def events(parts: Iterable[bytes]) -> Iterator[Event]:
    """The events of a stream; what ends without a line break still counts, a comment does not."""
    pieces, data = list[bytes](), list[bytes]()
    at_s = time.perf_counter()
    for part in parts:
        at_s = time.perf_counter()
        pieces.append(part)
        if b"\n" in part:
            *lines, rest = b"".join(pieces).split(b"\n")
            pieces = [rest]
            for line in lines:
                yield from _line(line.rstrip(b"\r"), data, at_s)
    for line in (b"".join(pieces), b""):
        yield from _line(line, data, at_s)


def error_of(said: Any) -> str | None:
    """What an engine says went wrong, as the end of a sentence; ``None`` where it says nothing of that."""
    if not isinstance(said, dict):
        return None
    error = said.get("error", said.get("detail", said.get("message")))
    if isinstance(error, dict):
        error = error.get("message")
    if not isinstance(error, str):
        return None
    return clean(error).strip().rstrip(".")[:_LONG] or None


def _line(line: bytes, data: list[bytes], at_s: float) -> Iterator[Event]:
    """What a line completes; lines of ``data`` are kept until an empty one."""
    if line.startswith(b"data:"):
        data.append(line.removeprefix(b"data:").strip())
    elif line.startswith(b"{"):
        yield Event(at_s, _json(line))
    elif not line and data:
        text = b"\n".join(data)
        data.clear()
        yield Event(at_s, END if text == END.encode() else _json(text))


def _json(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
