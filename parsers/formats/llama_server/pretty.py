"""The same answers printed over many lines, as ``jq`` does; streams can't be.

Only the fields inside ``"timings": {`` are read: they follow each other, and the newest come last.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from parsers.formats.base import line

if TYPE_CHECKING:
    import re
    from collections.abc import Callable

    from parsers.formats.base import At

_FIELD = (
    rb'\s+"(?P<key>(?:cache|prompt|predicted|draft)_n|(?:prompt|predicted)_(?:ms|per_second)'
    rb'|draft_n_accepted)": ?'
    rb"(?P<value>\d{1,17}(?:\.\d+)?(?:e[+-]?\d+)?),?$"
)

LINES = (
    line("timings", b'"timings":', rb'\s+"timings": ?\{$'),
    line("timing", b'"cache_n":', _FIELD),
    line("timing", b'"prompt_', _FIELD),
    line("timing", b'"predicted_', _FIELD),
    line("timing", b'"draft_n', _FIELD),
)

_NEXT_LINES = 3
"""Two fields that aren't read may stand between two that are."""


class PrettyTimings:
    """The block of timings that stands open.

    Args:
        take: gets each block as an answer of its own, with its first and its last line.
    """

    def __init__(self, take: Callable[[dict[str, object], At, At], None]) -> None:
        self._take = take
        self._fields: dict[str, object] = {}
        self._first: At | None = None
        self._last: At | None = None

    def open(self, at: At) -> None:
        """``"timings": {`` begins a block."""
        self.flush()
        self._first = self._last = at

    def add(self, m: re.Match[bytes], at: At) -> None:
        """``"prompt_ms": 50.0,``; one that stands apart belongs to something else."""
        key = m["key"].decode()
        if self._last is None or at.own_number - self._last.own_number > _NEXT_LINES or key in self._fields:
            self.flush()
        else:
            self._fields[key] = json.loads(m["value"])
            self._last = self._last if key.endswith("_second") else at

    def flush(self) -> None:
        """The block is over."""
        fields, first, last = self._fields, self._first, self._last
        self._fields, self._first, self._last = {}, None, None
        if first is not None and last is not None:
            self._take({"timings": fields}, first, last)
