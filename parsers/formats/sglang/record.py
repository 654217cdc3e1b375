"""The head of a line: ``[2026-08-23 09:05:37 DP0 TP1]``, with a local clock and the ranks of the process.

The ranks of one data-parallel replica (tensor, pipeline, context, expert) work on the same batch; those of
different replicas (``DP``) do not.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from parsers.carriers import parse_iso

if TYPE_CHECKING:
    from datetime import datetime

    from parsers.formats.base import At

HEAD = (
    rb"(?:\(\w+ pid=\d+\) )?\[(?:(?P<clock>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d{1,6})?)"
    rb"(?P<ranks>(?: [A-Z_]+\d+)*)|gpu=(?P<gpu>\d+))\] "
)
"""Every line but tracebacks has it; Ray's actor before it. 0.2 names the first GPU of a replica instead."""

_RANK = re.compile(rb"([A-Z_]+)(\d+)")


class Rank(NamedTuple):
    """Which process wrote a line: its data-parallel replica, and its place in it."""

    replica: int
    place: tuple[int, ...]


def rank(m: re.Match[bytes]) -> Rank:
    """The rank in a line's head; a name that is not there is 0."""
    named = {name: int(number) for name, number in _RANK.findall(m["ranks"] or b"")}
    replica = int(m["gpu"]) if m["gpu"] else named.pop(b"DP", 0)
    return Rank(replica, tuple(named.get(name, 0) for name in (b"PP", b"ATTN_CP", b"MOE_DP", b"TP", b"EP")))


def timed(m: re.Match[bytes], at: At) -> At:
    """Where the line stands, with its own clock, read as UTC, unless the carrier knows the time."""
    return at if at.time or not m["clock"] else at._replace(time=clock(m["clock"]))


def clock(printed: bytes) -> datetime | None:
    """A printed time without a zone, read as UTC."""
    return parse_iso(printed + b"Z")
