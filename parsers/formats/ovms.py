"""OpenVINO Model Server: how full its LLM engine is, every ten steps. It times nothing.

``All requests`` run or wait, ``Scheduled`` ones run. The cache usage is a share of a pool of fixed size, or
of one that grows with its use (``dynamic``): of that the share tells nothing. When nothing is left to do, a
line with two zeros follows. The seconds between two lines are ten steps only while requests run, so no span
is given.

Read in src/llm/language_model/continuous_batching/llm_executor.hpp of model_server at 08a7e22c (2026); the
shorter cache usage is that of 2024.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from parsers.formats.base import Format, Reader, line
from parsers.formats.vllm.stats import share
from parsers.records import Interval

if TYPE_CHECKING:
    import re

    from parsers.formats.base import At

_ENGINE = "ovms"
_HEAD = rb"\[(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3})\]\[\d+\]\[\w+\]\[\w+\]\[[\w.]+:\d+\] "
_SIZES = {b"B": 0, b"KB": 10, b"MB": 20, b"GB": 30, b"TB": 40}

LINES = (
    line(
        "load",
        b"; Scheduled requests: ",
        _HEAD + rb"All requests: (?P<all>\d{1,9}); Scheduled requests: (?P<scheduled>\d{1,9});"
        rb"(?: Cache usage (?P<dynamic>dynamic )?(?:static )?(?P<usage>[\d.]+)%"
        rb"(?: of (?P<size>[\d.]+) (?P<unit>[KMGT]?B))?;)?\s*$",
    ),
    line("banner", b" OpenVINO Model Server ", _HEAD + rb"OpenVINO Model Server (?P<version>\d[\w.]*)\s*$"),
)


class OvmsReader(Reader):
    """One line is a look at the engine."""

    engine = _ENGINE

    def banner(self, m: re.Match[bytes], at: At) -> None:
        """``[...][1][serving][info][server.cpp:115] OpenVINO Model Server 2026.3.0.6f3df706b``."""
        self.process.start(at)
        self.process.learn(at, engine=_ENGINE, engine_version=m["version"].decode())

    def load(self, m: re.Match[bytes], at: At) -> None:
        """``All requests: 50; Scheduled requests: 25; Cache usage static 23.9% of 8.0 GB;``."""
        together, running = int(m["all"]), int(m["scheduled"])
        row = Interval(line=at.number, engine=_ENGINE, time=_time(m["time"], at), running=running)
        row.waiting = together - running if together >= running else None
        if m["usage"] and not m["dynamic"]:
            row.kv_usage = share(m["usage"])
        if m["size"] and not m["dynamic"]:
            self.process.learn(
                at, engine=_ENGINE, kv_bytes=round(float(m["size"]) * (1 << _SIZES[m["unit"]]))
            )
        if not together:
            row.phase = "idle"
        elif row.waiting and row.waiting >= running:
            row.phase = "queue"
        self.process.emit(row)


def _time(printed: bytes, at: At) -> datetime | None:
    """The carrier's clock, else the line's own, which names no zone and is taken as UTC."""
    if at.time is not None:
        return at.time
    try:
        return datetime.fromisoformat(printed.decode("ascii")).replace(tzinfo=UTC)
    except ValueError:
        return None


FORMAT = Format(
    engine=_ENGINE,
    title="OpenVINO Model Server",
    versions="2024.3 and newer",
    grain="interval",
    identify=(b"[llm_executor]", b" OpenVINO Model Server "),
    lines=LINES,
    reader=OvmsReader,
    splits="none: requests running and waiting, KV cache in use",
)
