"""Makes the rows that `analyze.py` times: what a fleet of llama-servers and a vLLM logged, always the same.

Conversations of a few turns take their turns on each server's slots. A turn repeats the prompt before it, the
answer, and adds a question; most of it comes from the cache, one in twenty finds nothing there. Prefill and
decode cost what a GPU takes for that many tokens at that context, and other answers beside one slow it down.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from advisor.model import Source
from advisor.reading import Reading
from parsers.formats.process import Counts
from parsers.records import TABLES, schema
from parsers.setup import Device, Setup

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

SLOTS, CONTEXT = 4, 32_768
RUN_REQUESTS = 100_000
"""Requests until a server restarts."""

LINES = 7
"""Of a log, for each request."""

_SYSTEM_TOKENS, _TURNS = 420, 6
_MISSES = 0.05
_A_WINDOW = 20
"""Requests for each window that the vLLM prints."""

_BEGIN_US = int(datetime(2026, 11, 29, tzinfo=UTC).timestamp()) * 1_000_000


class Server(NamedTuple):
    """A llama-server: its log, its model, and what a token costs it.

    Attributes:
        share: of all requests.
        prefill_ms, decode_ms: for a token.
    """

    source: str
    model: str
    share: float
    prefill_ms: float
    decode_ms: float


SERVERS = (
    Server("/var/log/gpu-a/llama-server.log", "Qwen2.5-14B-Instruct-Q4_K_M.gguf", 0.7, 0.55, 17.0),
    Server("/var/log/gpu-b/llama-server.log", "Llama-3.1-8B-Instruct-Q4_K_M.gguf", 0.3, 0.3, 9.5),
)
VLLM = "/var/log/gpu-c/vllm.log"


def reading(rows: int) -> Reading:
    """A reading of this many requests, with the events and windows beside them."""
    read = Reading()
    for number, server in enumerate(SERVERS):
        _serve(server, round(rows * server.share), np.random.default_rng(number), read)
    _windows(max(rows // _A_WINDOW, 1), read)
    return read


def _serve(server: Server, rows: int, rng: np.random.Generator, read: Reading) -> None:
    """One server's requests and events, process by process."""
    lines = events = 0
    for begin in range(0, rows, RUN_REQUESTS):
        count = min(RUN_REQUESTS, rows - begin)
        run, line = len(read.setups), 1 + lines
        read.setups.append(_setup(server, line))
        requests = _requests(server, count, line + 40, _BEGIN_US + begin * 3_000_000, run, rng)
        told = _events(requests, rng)
        read.tables.add("requests", requests)
        read.tables.add("events", told)
        lines += 40 + count * LINES
        events += told.height
    _add_source(read, server.source, lines, requests=rows, events=events)


def _add_source(read: Reading, path: str, lines: int, **held: int) -> None:
    setup, counts = read.setups[-1], Counts(**held)
    read.counts.add(counts)
    read.sources.append(
        Source(
            path=path,
            engine=setup.engine,
            engine_version=setup.engine_version,
            bytes=lines * 120,
            lines=lines,
            requests=counts.requests,
            intervals=counts.intervals,
            events=counts.events,
            aggregates=0,
            incomplete_requests=0,
            aborted_requests=0,
            failed_requests=0,
        )
    )


def _setup(server: Server, line: int) -> Setup:
    setup = Setup(source=server.source, line=line, engine="llama-server", engine_version="b6900")
    setup.learn(
        f"log line {line + 3}",
        model=server.model,
        layers=48,
        layers_offloaded=49,
        layers_offloadable=49,
        context=CONTEXT // SLOTS,
        context_total=CONTEXT,
        slots=SLOTS,
        batch=2048,
        ubatch=512,
        flash_attention=True,
        kv_heads=8,
        head_dim_k=128,
        head_dim_v=128,
        kv_bytes_per_token=196_608.0,
        weights_bytes=8_988_110_848,
        gpu_weights_bytes=8_988_110_848,
        threads=16,
        devices=[Device(name="NVIDIA GeForce RTX 4090", backend="CUDA", memory_bytes=25_757_220_864)],
    )
    return setup


def _requests(
    server: Server, count: int, line: int, begin_us: int, run: int, rng: np.random.Generator
) -> pl.DataFrame:
    """A process's requests in the order in which they end."""
    slots = [_slot(server, len(range(slot, count, SLOTS)), slot, rng) for slot in range(SLOTS)]
    rows = pl.concat(slots).sort("clock_end_ms").with_columns(pl.col(pl.Float64).round(2))
    number = pl.int_range(pl.len(), dtype=pl.Int64)
    at = (begin_us + pl.col("clock_end_ms") * 1000).cast(pl.Int64).cast(pl.Datetime("us", "UTC"))
    took = (pl.col("total_ms") * 1000).cast(pl.Int64).cast(pl.Duration("us"))
    told = rows.with_columns(
        source=pl.lit(server.source),
        line=line + number * LINES + LINES - 2,
        first_line=line + number * LINES,
        offset=(line + number * LINES) * 120,
        engine=pl.lit("llama-server"),
        model=pl.lit(server.model),
        kind=pl.lit("generation"),
        request_id=(number * 3 + 1).cast(pl.String),
        started_at=at - took,
        finished_at=at,
        ttft_ms=pl.col("prefill_ms"),
        ttft_from=pl.lit("slot"),
        finish_reason=pl.when(number % 50 == 7).then(pl.lit("length")).otherwise(pl.lit("stop")),
        truncated=pl.lit(value=False),
        run=pl.lit(run, pl.Int64),
    )
    return _complete(told, "requests")


def _complete(rows: pl.DataFrame, table: str) -> pl.DataFrame:
    """The rows with all columns of their table; what is not there is unknown."""
    dtypes = schema(TABLES[table])
    return rows.select(
        (pl.col(name) if name in rows.columns else pl.lit(None)).cast(dtype).alias(name)
        for name, dtype in dtypes.items()
    )


def _slot(server: Server, count: int, slot: int, rng: np.random.Generator) -> pl.DataFrame:
    """A slot's requests one after the other: conversations of a few turns."""
    asked, output = rng.integers(30, 900, count), rng.integers(8, 500, count)
    begins = rng.random(count) < 1 / _TURNS
    begins[:1] = True
    held = np.concatenate([[0], np.cumsum(asked + output)[:-1]])
    since = held - np.maximum.accumulate(np.where(begins, held, 0))
    kept = _SYSTEM_TOKENS + since % (CONTEXT // SLOTS - 2_000)
    prompt = kept + asked
    cached = np.where(rng.random(count) < _MISSES, _SYSTEM_TOKENS // 2, kept - 1)
    new = prompt - cached
    noise = rng.lognormal(0.0, 0.06, (2, count))
    prefill_ms = (18 + new * server.prefill_ms * (1 + (cached + new / 2) / 40_000)) * noise[0]
    decode_ms = output * server.decode_ms * (1 + (prompt + output / 2) / 60_000) * noise[1]
    pause_ms = rng.exponential(4_000, count)
    end = np.cumsum(pause_ms + prefill_ms + decode_ms)
    return pl.DataFrame(
        {
            "slot": np.full(count, slot),
            "prompt_tokens": prompt,
            "cached_tokens": cached,
            "prefill_tokens": new,
            "prefill_ms": prefill_ms,
            "output_tokens": output,
            "decode_ms": decode_ms,
            "decode_steps": output - 1,
            "total_ms": prefill_ms + decode_ms,
            "context_tokens": prompt + output - 1,
            "clock_start_ms": end - prefill_ms - decode_ms,
            "clock_end_ms": end,
        }
    )


_EVENTS = {"cache_miss": 0.05, "full_reprocess": 0.002, "aborted": 0.004, "cache_state": 0.05}
"""Kinds of events, and the share of requests that one comes before."""


def _events(requests: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Some of what a log tells beside its requests."""
    edges = np.cumsum(list(_EVENTS.values()))
    chance = np.searchsorted(edges, rng.random(requests.height), side="right")
    kinds = dict(enumerate(_EVENTS))
    happened = (
        requests.with_columns(chance=pl.Series(chance))
        .filter(pl.col("chance") < len(_EVENTS))
        .with_columns(
            kind=pl.col("chance").replace_strict(kinds, return_dtype=pl.String),
            line=pl.col("first_line") + 1,
            time="started_at",
            value=pl.lit(0.5),
        )
    )
    return _complete(happened, "events")


def _windows(count: int, read: Reading) -> None:
    """A vLLM's lines, one each ten seconds."""
    rng = np.random.default_rng(99)
    setup = Setup(source=VLLM, engine="vllm", engine_version="0.11.0")
    setup.learn("log line 4", model="Qwen/Qwen2.5-32B-Instruct", max_running=256, prefix_caching=True)
    run = len(read.setups)
    read.setups.append(setup)
    running = rng.integers(0, 40, count)
    reads = rng.random(count) < 0.3
    number = pl.int_range(count, dtype=pl.Int64, eager=True)
    rows = pl.DataFrame(
        {
            "line": 20 + number,
            "time": (_BEGIN_US + number * 10_000_000).cast(pl.Datetime("us", "UTC")),
            "span_ms": np.full(count, 10_000.0),
            "prefill_tok_s": np.where(reads & (running > 0), rng.integers(500, 9_000, count), 0).astype(
                float
            ),
            "decode_tok_s": running * 24.0,
            "running": running,
            "waiting": np.where(running > 36, rng.integers(0, 9, count), 0),
            "kv_usage": running / 50,
            "prefix_hit_rate": np.full(count, 0.42),
            "phase": np.where(running == 0, "idle", np.where(reads, "mixed", "decode")),
        }
    ).with_columns(
        source=pl.lit(VLLM), engine=pl.lit("vllm"), kind=pl.lit("window"), run=pl.lit(run, pl.Int64)
    )
    read.tables.add("intervals", _complete(rows, "intervals"))
    _add_source(read, VLLM, count + 20, intervals=count)
