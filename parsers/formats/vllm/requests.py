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
    rb"(?:\([^()]* pid=\d+[^()]*\) *)?INFO: +\S+ - \"POST (?:/[\w.-]+)*?(?P<route>"
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
