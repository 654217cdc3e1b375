"""Changes to the text of a log that change nothing about what it tells."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from parsers import Stream, Tables
from tests.diagnosis.cases import CASES
from tests.diagnosis.cases.healthy import LLAMA_8B
from tests.diagnosis.facts import Machine, asked
from tests.diagnosis.writers.llama_server import prefixed
from tests.rules.helpers import LOGS

if TYPE_CHECKING:
    import polars as pl

SAMPLES = Path(__file__).parents[2] / "sample_logs"

_TAKEN = (b"processing task", b"slot is processing task")
_LEFT = (b"stop processing: n_", b"] slot released")
_ACCESS = b"[GIN] "
_BEGINS = (
    b"server_strea: conv_id",
    b"get_availabl: ",
    b" launch_slot",
    b"layers.requested=",
    b'msg="starting ',
    b"using llama-server for model",
)
_OWN_CLOCK = re.compile(rb"^(\d+)\.(\d\d)\.(\d{3}\.\d{3}) ")
_SLOG_TIME = re.compile(rb"^time=(\S+) ")
_GIN_TIME = re.compile(rb"^\[GIN\] (\d{4}/\d\d/\d\d - \d\d:\d\d:\d\d) ")


def real_logs() -> dict[str, bytes]:
    """Logs of requests: the sample logs, real ones with several requests, and the cases' own."""
    names = (
        "llama-server-b11434/b_rag_default",
        "llama-server-b11434/c1_multiturn_stable_prefix",
        "llama-server-b11434/c2_multiturn_timestamp_first",
        "llama-server-b11434/k_multiturn_lv4",
        "llama-server-mid2025/b_rag_default",
        "llama-server-mid2025/c1_multiturn_stable_prefix",
        "pairs/rag_chunks/before",
        "pairs/output_cap/before",
    )
    logs = {path.name: path.read_bytes() for path in sorted(SAMPLES.glob("*.log"))}
    return logs | {name: (LOGS / name / "server.log").read_bytes() for name in names}


def made_logs() -> dict[str, bytes]:
    """The logs of the cases that are one file, and one that is long enough to cut anywhere."""
    made = {case.id: case.files() for case in CASES}
    logs = {name: next(iter(files.values())).encode() for name, files in made.items() if len(files) == 1}
    return logs | {"long conversation": _long_conversation()}


def _long_conversation() -> bytes:
    """Two dozen turns whose system prompt changes near its start."""
    turns = [
        asked(2_000 + 260 * i, 200, cached=12 if i else 0, prefill_tok_s=900, decode_tok_s=45)
        for i in range(24)
    ]
    return prefixed(LLAMA_8B, Machine(), turns).encode()


@cache
def requests(name: str) -> pl.DataFrame:
    """The rows of a real log."""
    stream, tables = Stream(name, year=2026), Tables()
    tables.extend(stream.feed(real_logs()[name]))
    tables.extend(stream.close())
    return tables.requests


def boundaries(log: bytes) -> list[int]:
    """Byte offsets between two requests, with none in the works."""
    offset, busy, ended = 0, 0, False
    found = []
    hosted = _ACCESS in log
    for line in log.splitlines(keepends=True):
        if ended and not busy and any(word in line for word in _BEGINS):
            found.append(offset)
            ended = False
        busy += any(word in line for word in _TAKEN) - any(word in line for word in _LEFT)
        ended = ended or ((_ACCESS if hosted else _LEFT[0]) in line) or (not hosted and _LEFT[1] in line)
        offset += len(line)
    return found


def with_idle(log: bytes, offset: int, seconds: int) -> bytes:
    """All clocks after the offset are later."""
    later = b"".join(_later(line, seconds) for line in log[offset:].splitlines(keepends=True))
    return log[:offset] + later


def _later(line: bytes, seconds: int) -> bytes:
    if own := _OWN_CLOCK.match(line):
        minutes, rest = divmod(int(own[1]) * 60 + int(own[2]) + seconds, 60)
        return b"%d.%02d.%s " % (minutes, rest, own[3]) + line[own.end() :]
    if slog := _SLOG_TIME.match(line):
        time = datetime.fromisoformat(slog[1].decode()) + timedelta(seconds=seconds)
        return b"time=" + time.isoformat(timespec="milliseconds").encode() + line[slog.end(1) :]
    if gin := _GIN_TIME.match(line):
        time = datetime.strptime(gin[1].decode(), "%Y/%m/%d - %H:%M:%S") + timedelta(seconds=seconds)  # noqa: DTZ007
        return b"[GIN] " + f"{time:%Y/%m/%d - %H:%M:%S}".encode() + line[gin.end(1) :]
    return line


def renamed(log: bytes) -> bytes:
    """Every model file and name in it has another one."""
    log = re.sub(rb"[\w.-]+\.gguf", b"weights-a7.gguf", log)
    log = re.sub(rb"(general\.name +(?:str +)?= )[^\r\n]+", rb"\1Weights A7", log)
    return re.sub(rb"(registry\.ollama\.ai/library/)\S+", rb"\1weights:a7", log)
