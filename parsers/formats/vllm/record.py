"""The head of a vLLM record, the records of one line, and the clock without a year.

A line may hold several records glued together, or something else before the first (a progress bar, another
logger's prefix). A head counts only outside quotes: vLLM prints prompts as Python strings, and a prompt may
quote a whole log.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING

from parsers.formats.clocks import Years, parse_yearless

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from parsers.formats.process import Process

WRAPPED = (
    rb"[\w.@-]+ +\| |(?=[a-z.-]*\d)[a-z\d.]+(?:-[a-z\d.]+)+ [a-z\d][a-z\d-]* "
    rb"|\[pod/|\[ *\d{2,5}\] |[><] ?|\(\w+ pid=\d+, ip=|\(\w+:[\w.:-]+ pid="
    rb"|<\d{1,3}>|MESSAGE=|(?:[\dT:-]{19}: ?)?\d{1,4}\|[\w.@/-]+ +\| "
    rb"|\d{4}-\d\d-\d\d[T ][\d:.,]+(?:Z|[+-]\d\d:?\d\d) "
    rb"|(?:[A-Z][a-z]{2} (?:[ \d]\d|\d{4}-\d\d-\d\d) [\d:.]+(?: [A-Z+-][\w:]*)?"
    rb"|\[ *\d+\.\d{6}(?: <[ \d.]*>)?\]|\d{10}\.\d{6})"
    rb" \S+ \S+\[\d+\]: "
)
"""Carriers, which are to be taken off before a line is read: the text before a head may be anything else."""

_BEFORE = rb"(?:[^\"'`\\\n]|\"(?:[^\"\\\n]|\\.)*\"){0,2000}?"
"""Text before a head: no open quote, no backslash, which would be a piece of a quoted string, and no gap."""

_HEAD = (
    rb"(?:\((?P<process>[\w.-]+ pid=\d+)\) *)?(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) +"
    rb"(?:(?P<year>\d{4})-)?(?P<month>\d\d)-(?P<day>\d\d) (?P<clock>\d\d:\d\d:\d\d)(?P<fraction>[.,]\d+)? +"
    rb"\[?[\w./-]+\.py:\d+\]? ?"
)

NEEDLE = b".py:"
"""Every head ends with the place in the source; never which, since that moves with each release."""

RECORD = rb"(?!" + WRAPPED + rb")" + _BEFORE + rb"(?P<head>" + _HEAD + rb")"

_NEXT = re.compile(_BEFORE + rb"(?P<head>" + _HEAD + rb")")


def records(body: bytes, head: re.Match[bytes]) -> Iterator[tuple[re.Match[bytes], bytes]]:
    """The head and the message of each record in a line, from its first head on."""
    following: re.Match[bytes] | None = head
    while following:
        head = following
        begin = head.end("head")
        following = _NEXT.match(body, begin) if NEEDLE in body[begin:] else None
        yield head, body[begin : following.start("head") if following else len(body)]


class Clock:
    """Reads ``11-29 19:39:17``: no year, no zone, so taken as UTC; the year rolls over.

    Args:
        process: whose log it is.
    """

    def __init__(self, process: Process) -> None:
        self._years = Years(process)

    def read(self, head: re.Match[bytes]) -> datetime | None:
        """The time of a record; ``None`` for a day that is none."""
        month, day, clock = int(head["month"]), int(head["day"]), head["clock"].decode()
        if head["year"]:
            time = parse_yearless(month, day, clock, int(head["year"]))
        else:
            time = self._years.place(month, lambda year: parse_yearless(month, day, clock, year))
        if time is None or head["fraction"] is None:
            return time
        return time + timedelta(seconds=float(b"0." + head["fraction"][1:]))
