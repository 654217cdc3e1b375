"""Requests that went wrong: aborted by the client, refused or failed, preempted."""

from __future__ import annotations

import re
from collections import deque

from parsers.formats.base import line

_ROUTES = (
    rb"/v1/chat/completions|/v1/completions|/v1/responses|/v1/messages|/inference/v1/generate|/generate"
    rb"|/invocations"
)
_FAILED = (
    rb"(?:\([\w.-]+ pid=\d+\) *)?INFO: +\S+ - \"POST (?:/[\w.-]+)*?(?P<route>"
    + _ROUTES
    + rb")(?:\?\S*)? HTTP/[\d.]+\" (?P<status>[45]\d\d)\b"
)

HTTP = (line("failed", b' HTTP/1.1" 4', _FAILED), line("failed", b' HTTP/1.1" 5', _FAILED))
"""uvicorn's access lines; they have no head, no clock and no request id, and other servers print them too."""

ABORTED = (
    line("aborted", b"Aborted request", rb"Aborted request(?:\(s\))? (?P<ids>\S+)\.(?:\s|$)"),
    line("aborted", b" aborted.", rb"Request (?P<ids>\S+) aborted\."),
)

PREEMPTED = line(
    "preempted",
    b"is preempted by ",
    rb"Sequence group (?P<id>\S+) is preempted by PreemptionMode\.(?P<mode>[A-Z]+)"
    rb"(?:.*?\btotal_\w+=(?P<total>\d+))?",
)

EXCEEDED = line(
    "exceeded",
    b"This model's maximum context length is ",
    rb"(?:[\w.]{1,80}Error: )?"
    rb"(?:'max_tokens' or 'max_completion_tokens' is too large: (?P<output>\d{1,12})\. )?"
    rb"This model's maximum context length is (?P<context>\d{1,12}) tokens(?:\. However,)?(?: and)? (?:"
    rb"you requested (?P<total>\d{1,12}) tokens"
    rb"|you requested \d+ output tokens and your prompt contains (?:at least )?\d+ input tokens, "
    rb"for a total of (?P<least>at least )?(?P<sum>\d{1,12}) tokens"
    rb"|your request has (?P<input>\d{1,12}) input tokens)",
)
"""The last line of a traceback; the answer to the client is an access line of its own."""


def exceeding(m: re.Match[bytes]) -> tuple[int, int]:
    """The tokens that such a request needs, and the context."""
    return int(m["total"] or m["sum"] or m["input"]) + int(m["output"] or 0), int(m["context"])


_INTERNAL = re.compile(r"(?P<outer>.+)-[0-9a-f]{8}")
_REMEMBERED = 1024


class Aborts:
    """Tells a new abort from one that was logged before.

    vLLM may say the same abort twice: once with its internal id, ``chatcmpl-x-1a2b3c4d``, and once with the
    client's, ``chatcmpl-x``. Only the last thousand are remembered; the two lines follow each other.
    """

    def __init__(self) -> None:
        self._seen: deque[str] = deque(maxlen=_REMEMBERED)
        self._outer: deque[str | None] = deque(maxlen=_REMEMBERED)

    def is_new(self, request_id: str) -> bool:
        """True the first time; the id is remembered."""
        internal = _INTERNAL.fullmatch(request_id)
        outer = internal["outer"] if internal else None
        if request_id in self._seen or request_id in self._outer or outer in self._seen:
            return False
        self._seen.append(request_id)
        self._outer.append(outer)
        return True
