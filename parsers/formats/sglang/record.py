"""The head of a line: ``[2026-08-23 09:05:37 DP0 TP1]``, with a local clock and the ranks of the process.

The ranks of one data-parallel replica (tensor, pipeline, context, expert) work on the same batch; those of
different replicas (``DP``) do not.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from parsers.times import parse_iso

if TYPE_CHECKING:
    from datetime import datetime

    from parsers.formats.base import At

HEAD = (
    rb"(?:\(\w+ pid=\d+\) )?\[(?:(?P<clock>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d{1,6})?)"
    rb"(?P<ranks>(?: [A-Z_]+\d+)*)|gpu=(?P<gpu>\d+))\] "
)
"""Every line but tracebacks has it; Ray's actor before it. 0.2 names the first GPU of a replica instead."""

_RANK = re.compile(rb"(?<![A-Z_])([A-Z_]+)(\d+)")
_PLACES = (b"PP", b"ATTN_CP", b"MOE_DP", b"TP", b"EP")


class Rank(NamedTuple):
    """Which process wrote a line: its data-parallel replica, and its place in it."""

    replica: int
    place: tuple[int, ...]


def rank(m: re.Match[bytes]) -> Rank:
    """The rank in a line's head; a name that is not there is 0."""
    return _rank(m["ranks"] or b"", m["gpu"])


@lru_cache(maxsize=1024)
def _rank(ranks: bytes, gpu: bytes | None) -> Rank:
    named = {name: int(number) for name, number in _RANK.findall(ranks)}
    replica = int(gpu) if gpu else named.pop(b"DP", 0)
    return Rank(replica, tuple(named.get(name, 0) for name in _PLACES))


def timed(m: re.Match[bytes], at: At) -> At:
    """Where the line stands, with its own clock, read as UTC, unless the carrier knows the time."""
    return at if at.time or not m["clock"] else at._replace(time=clock(m["clock"]))


def time_of(m: re.Match[bytes], at: At) -> datetime | None:
    """The carrier's clock where it has one, else the line's own."""
    return at.time or (clock(printed) if (printed := m["clock"]) else None)


@lru_cache(maxsize=64)
def clock(printed: bytes) -> datetime | None:
    """A printed time without a zone, read as UTC."""
    return parse_iso(printed + b"Z")
