"""Rows as this project writes them: what `export` wrote as JSON Lines, and the runner's own rows.

Each object is a row of the table `requests` or `intervals` in the columns of [columns.md](columns.md); other
keys, such as the runner's ``inter_token_ms``, are left aside. A row keeps its engine, so that one file may
hold several. ``source`` and ``line`` say where the row stands now; of the export of several logs that is one
file. A value of the wrong type is unknown and counted. A row without an engine or of an unknown kind is none.

An export doesn't say how many tokens the decode time paid for (``decode_steps``, which the runner writes).
It follows from the engine: all of the answer where the decode clock starts before the first token, one fewer
where it starts after it. Of an engine that is not read here it is unknown, and so is the decode rate.
"""

from __future__ import annotations

import re
from datetime import datetime
from functools import cache
from typing import Any, get_args, get_type_hints

from parsers.cut import json_object
from parsers.formats.base import At, Format, Reader, line
from parsers.formats.json_records import moment
from parsers.formats.json_values import text
from parsers.formats.possible import LARGEST
from parsers.records import Interval, Request, columns

_ENGINE = "phasewise"
_BODY = rb'(?P<body>\{"(?:source|type)":.*\})\s*$'
LINES = (
    line("request", b'"ttft_from":', _BODY, b'"prefill_ms":'),
    line("interval", b'"prefix_hit_rate":', _BODY, b'"accept_length":'),
)

FIRST_TOKEN_INSIDE = frozenset(
    {"lemonade", "llama-batched-bench", "llama-bench", "llama-sweep-bench", "llamafile", "tabbyapi"}
)
"""Engines whose decode time holds the step of the first token too."""

COUNTS_LONE_TOKEN_AS_DECODE = frozenset({"llama-cpp-python", "lmstudio"})
"""Engines that book a prompt of one evaluated token as a decode step: then the first token is inside."""

_OF_BATCH_OR_ALONE = frozenset({"mlx-lm"})
"""Engines whose benchmarks time either a batch, first tokens included, or one answer, without it."""

_NAME = re.compile(r"[\w.+-]{1,40}")
_KINDS = {
    Request: frozenset({"generation", "embedding", "rerank", "benchmark"}),
    Interval: frozenset({"window", "prefill_batch", "decode_batch", "iteration"}),
}
_NEEDED = {
    Request: {
        "source",
        "line",
        "engine",
        "kind",
        "prompt_tokens",
        "prefill_ms",
        "output_tokens",
        "decode_ms",
    },
    Interval: {"source", "line", "engine", "kind", "running", "waiting", "prefix_hit_rate", "phase"},
}
"""What every row of a table has, null or not, and no other program's objects do."""

_CLOCKS = frozenset({None, "arrival", "slot"})
_PHASES = frozenset({"prefill", "decode", "mixed", "queue", "idle", "unknown"})
_OWN = {"source", "line"}
_MORE = {"decode_steps"}


def _types(row_type: type[Request | Interval]) -> dict[str, type]:
    """What each column that a row states of itself holds."""
    hints = get_type_hints(row_type)
    stated = {*columns(row_type), *_MORE & hints.keys()} - _OWN
    return {name: _bare(hints[name]) for name in stated}


def _bare(hint: Any) -> type:
    bare: type = next(t for t in (*get_args(hint), hint) if t is not type(None))
    return bare


_TYPES = {row_type: _types(row_type) for row_type in (Request, Interval)}


class RowsReader(Reader):
    """Each line is a row."""

    engine = _ENGINE

    def request(self, m: re.Match[bytes], at: At) -> bool | None:
        """``{"source":"server.log","line":12,"engine":"llama-server",...,"kind":"generation"}``."""
        if (values := self._values(Request, m["body"])) is None:
            return False
        row = Request(line=at.number, first_line=at.number, offset=at.offset, **values)
        if row.ttft_from not in _CLOCKS:
            row.ttft_from = None
            self.process.counts.impossible_values += 1
        if row.decode_steps is None and row.decode_ms is not None:
            row.decode_steps = decode_steps(row)
        self.process.emit(row)
        return None

    def interval(self, m: re.Match[bytes], at: At) -> bool | None:
        """``{"source":"vllm.log","line":30,"engine":"vllm","time":"...","kind":"window",...}``."""
        if (values := self._values(Interval, m["body"])) is None:
            return False
        if values.get("phase") not in _PHASES:
            values["phase"] = "unknown"
            self.process.counts.impossible_values += 1
        self.process.emit(Interval(line=at.number, **values))
        return None

    def _values(self, row_type: type[Request | Interval], body: bytes) -> dict[str, Any] | None:
        """The columns of a row by name; ``None`` for an object that is none, or has no engine or kind."""
        found = json_object(body)
        if found is None or not found.keys() >= _NEEDED[row_type]:
            return None
        engine, kind = text(found, "engine"), text(found, "kind")
        if not _NAME.fullmatch(engine or "") or kind not in _KINDS[row_type]:
            return None
        types = _TYPES[row_type]
        told = {name: found[name] for name in types if found.get(name) is not None}
        values = {name: _typed(value, types[name]) for name, value in told.items()}
        self.process.counts.impossible_values += sum(value is None for value in values.values())
        return values


def decode_steps(row: Request) -> int | None:
    """Tokens that a row's decode time paid for, where its engine settles it."""
    output = row.output_tokens
    if output is None or row.engine not in _known():
        return None
    if row.kind == "benchmark" and row.engine in _OF_BATCH_OR_ALONE:
        return None
    was_lone = row.prefill_tokens == 1 and row.prefill_ms is None
    if row.engine in FIRST_TOKEN_INSIDE or (was_lone and row.engine in COUNTS_LONE_TOKEN_AS_DECODE):
        return output
    return max(output - 1, 0)


@cache
def _known() -> frozenset[str]:
    """Engines whose decode clock is known."""
    from parsers.formats import ENGINES

    return frozenset(ENGINES) - {_ENGINE}


def _typed(value: object, kind: type) -> Any:
    """A value if it is of its column's type; ``None`` if not."""
    if kind is datetime:
        return moment(value) if isinstance(value, str) else None
    if kind is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value) if abs(value) <= LARGEST else None
    if kind is str:
        return text({"value": value}, "value")
    return value if type(value) is kind else None


FORMAT = Format(
    engine=_ENGINE,
    title="rows of phasewise, JSON Lines",
    versions="all",
    grain="request",
    identify=(b'"ttft_from":', b'"prefix_hit_rate":'),
    lines=LINES,
    reader=RowsReader,
    splits="what their engine's log timed",
)
