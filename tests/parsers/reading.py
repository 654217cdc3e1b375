"""Reading bytes in tests: every row and count of a log, however it is cut."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from parsers import Stream
from parsers.records import Aggregate, Event, Interval, Request

if TYPE_CHECKING:
    from collections.abc import Iterable

    from parsers.records import Row
    from parsers.setup import Setup

TIMED = (
    "slot print_timing: id  0 | task 7 | ",
    "prompt eval time =     100.00 ms /    50 tokens (    2.00 ms per token,   500.00 tokens per second)",
    "       eval time =      90.00 ms /    10 tokens (    9.00 ms per token,   111.11 tokens per second)",
    "      total time =     190.00 ms /    60 tokens",
)
QUOTED = (
    "slot launch_slot_: id  0 | task 7 | processing task",
    *TIMED,
    "slot      release: id  0 | task 7 | stop processing: n_tokens = 59, truncated = 0",
    "slot print_timing: id  0 | task 8 | prompt eval time =     100.00 ms /    50 tokens (    2.00 ms per",
    "slot print_timing: id  0 | task 8 |        eval time =     100.00 ms /    50 tokens (    2.00 ms per",
    "slot print_timing: id  0 | task 8 |       total time =     200.00 ms /   100 tokens",
)
"""A log of one request, and timing lines of another as they are printed since b9230."""

TIMES = ("started_at", "finished_at", "time")


@dataclass(frozen=True)
class Read:
    """What a log gave."""

    stream: Stream
    rows: list[Row]

    @property
    def requests(self) -> list[Request]:
        return [row for row in self.rows if isinstance(row, Request)]

    @property
    def events(self) -> list[Event]:
        return [row for row in self.rows if isinstance(row, Event)]

    @property
    def intervals(self) -> list[Interval]:
        return [row for row in self.rows if isinstance(row, Interval)]

    @property
    def aggregates(self) -> list[Aggregate]:
        return [row for row in self.rows if isinstance(row, Aggregate)]

    @property
    def setup(self) -> Setup:
        return self.stream.setups[-1]

    def told(self, *without: str) -> list[dict[str, Any]]:
        """Every field of every row, as they came, but those named."""
        return [
            {"row": type(row).__name__}
            | {f.name: getattr(row, f.name) for f in fields(row) if f.name not in without}
            for row in self.rows
        ]


def read(*pieces: bytes) -> Read:
    """Feed the pieces and close."""
    stream = Stream("log")
    rows: list[Row] = []
    for piece in pieces:
        rows += stream.feed(piece)
    return Read(stream, rows + stream.close())


def bytewise(data: bytes) -> Read:
    """Feed one byte at a time."""
    return read(*(data[i : i + 1] for i in range(len(data))))


def wrap(data: bytes, prefix: bytes) -> bytes:
    """Put a prefix before every line."""
    return b"".join(prefix + line for line in lines_of(data))


def lines_of(data: bytes) -> list[bytes]:
    """Its lines, newlines kept; a lone carriage return ends none."""
    return [line for line in re.split(rb"(?<=\n)", data) if line]


def join(lines: Iterable[str]) -> bytes:
    """Lines of text as the bytes of a log."""
    return "".join(f"{line}\n" for line in lines).encode()
