"""Rows that this project wrote are read back as they were: engines, nulls, clocks and rates."""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

import parsers.formats
from advisor.export import json_lines
from parsers import Stream
from parsers.formats import ENGINES
from parsers.formats.phasewise_rows import decode_steps
from parsers.formats.possible import leave_out_impossible
from parsers.records import Interval, Request, columns
from parsers.source import SourceReader
from tests.advisor.helpers import SAMPLES, phasewise
from tests.parsers.reading import read

FORMAT_SAMPLES = sorted((Path(parsers.formats.__file__).parent / "samples").glob("*.log"))
PLACE = ("source", "line")
MOVED = (*PLACE, "first_line", "offset", "run", "clock_start_ms", "clock_end_ms")


def written(row: Request | Interval, **more: Any) -> str:
    """A row as `export` writes it, one by one."""
    told = {name: getattr(row, name) for name in columns(type(row))} | more
    clocks = {
        name: value.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        for name, value in told.items()
        if isinstance(value, datetime)
    }
    return json.dumps(told | clocks)


def values(row: Request | Interval, *without: str) -> dict[str, Any]:
    return {f.name: getattr(row, f.name) for f in fields(row) if f.name not in (*MOVED, *without)}


def _any_of(kind: type) -> st.SearchStrategy[Any]:
    moments = st.datetimes(min_value=datetime(1990, 1, 1), max_value=datetime(2090, 1, 1))  # noqa: DTZ001
    return {
        str: st.text(min_size=1, max_size=20),
        int: st.integers(0, 1 << 53),
        float: st.floats(0, 2e9),
        bool: st.booleans(),
        datetime: moments.map(lambda at: at.replace(tzinfo=UTC)),
    }[kind]


_HINTS = get_type_hints(Request)
_MAY_BE_NULL = {
    name: st.none() | _any_of(get_args(_HINTS[name])[0])
    for name in columns(Request)
    if type(None) in get_args(_HINTS[name])
}
REQUESTS = st.builds(
    Request,
    **_MAY_BE_NULL
    | {
        "engine": st.sampled_from(ENGINES),
        "kind": st.sampled_from(["generation", "embedding", "rerank", "benchmark"]),
        "ttft_from": st.sampled_from([None, "arrival", "slot"]),
        "decode_steps": st.none() | st.integers(0, 1 << 53),
    },
)


@given(st.lists(REQUESTS, min_size=1, max_size=4))
def test_any_row_comes_back(rows: list[Request]) -> None:
    """Also with lone surrogates and with values that contradict each other, which are left out both times."""
    text = "\n".join(written(row, decode_steps=row.decode_steps) for row in rows)
    back = read(text.encode() + b"\n").requests
    for row in rows:
        if row.decode_steps is None and row.decode_ms is not None:
            row.decode_steps = decode_steps(row)
        leave_out_impossible(row)
    assert [values(row) for row in back] == [values(row) for row in rows]
    assert [row.line for row in back] == list(range(1, len(rows) + 1))


@pytest.mark.parametrize("log", FORMAT_SAMPLES, ids=lambda path: path.stem)
def test_rows_of_every_engine_come_back(log: Path) -> None:
    """The rate of each too, except where only the log settles whether it has one."""
    reader = SourceReader(Stream("log"))
    told = reader.feed(log.read_bytes()) + reader.close()
    rows = [row for row in told if isinstance(row, (Request, Interval))]
    again = read("".join(f"{written(row)}\n" for row in rows).encode())
    back = [row for row in again.rows if isinstance(row, (Request, Interval))]
    assert [values(row, "decode_steps") for row in back] == [values(row, "decode_steps") for row in rows]
    assert again.stream.counts.impossible_values == 0
    for before, after in zip(rows, back, strict=True):
        if isinstance(before, Request) and isinstance(after, Request) and before.decode_ms is not None:
            assert after.decode_steps in _steps(before)


def _steps(row: Request) -> tuple[int | None, ...]:
    """What a row may say that is read back without its steps."""
    if row.output_tokens is None or (row.kind == "benchmark" and row.engine == "mlx-lm"):
        return (None,)
    if row.engine in ("mlx-vlm", "sglang") and row.decode_steps is None:
        return (row.output_tokens - 1,)
    if row.engine == "invented-1.0":
        return (None,)
    if row.engine in ("llama-cpp-python", "lmstudio") and row.decode_steps == row.output_tokens:
        return (row.output_tokens, row.output_tokens - 1)
    return (row.decode_steps,)


@pytest.mark.parametrize("log", sorted(SAMPLES.glob("*.log")), ids=lambda path: path.stem)
def test_an_export_gives_the_same_analysis(log: Path, tmp_path: Path) -> None:
    """Beside what only the log says: its setup, its events, and how the engine's own clock ran."""
    table = "intervals" if log.stem == "vllm" else "requests"
    file = tmp_path / "rows.jsonl"
    assert phasewise("export", log, "--table", table, "-o", file).status == 0
    again = phasewise("export", file, "--table", table)
    assert (again.status, again.err) == (0, "")
    assert [_unplaced(line) for line in again.raw.splitlines()] == [
        _unplaced(line) for line in file.read_bytes().splitlines()
    ]
    before, after = (json.loads(phasewise("analyze", path, "--format", "json").out) for path in (log, file))
    same = (
        "requests",
        "wall_ms",
        "phase_ms",
        "ttft_ms",
        "tpot_ms",
        "decode_tok_s",
        "prefill_tok_s",
        "windows",
    )
    assert {key: after["summary"][key] for key in same} == {key: before["summary"][key] for key in same}
    assert after["verdict"]["phase"] == before["verdict"]["phase"]


def _unplaced(line: bytes) -> dict[str, Any]:
    return {name: value for name, value in json.loads(line).items() if name not in PLACE}


def test_other_programs_objects_are_none() -> None:
    """A client that logs a time to first token, and an object with a few of the names."""
    others = (
        b'{"source":"proxy","ttft_from":"arrival","prefill_ms":3.5,"line":1}\n'
        b'{"level":"info","source":"x","line":1,"engine":"vllm","ttft_from":"slot","prefill_ms":1}\n'
        b'{"source":["x"],"prefix_hit_rate":0.5,"accept_length":1.2}\n'
    )
    log = read(others)
    assert (log.rows, log.stream.engine) == ([], None)


def test_a_row_may_hold_numbers_too_large_for_any() -> None:
    row = Request(engine="vllm", output_tokens=3, decode_ms=5.0)
    text = written(
        row, prefill_ms=10**400, prompt_tokens=10**400, ttft_ms=float("nan"), total_ms=float("inf")
    )
    log = read(text.encode() + b"\n")
    assert [values(back) for back in log.requests] == [values(row) | {"decode_steps": 2}]
    assert log.stream.counts.impossible_values == 4


def test_frames_and_rows_are_written_alike() -> None:
    import polars as pl

    from parsers.records import schema

    row = Request(
        engine="vllm", line=1, source="log", started_at=datetime(2026, 1, 2, tzinfo=UTC), prefill_ms=1.5
    )
    frame = pl.DataFrame([row], schema=schema(Request)).select(columns(Request))
    assert json.loads(json_lines(frame)) == json.loads(written(row))
