"""The rows every format produces: one definition, from which schemas and docs come.

Rows follow one rule above all: unknown is ``None``, never 0. Fields marked ``inside`` travel with a row
through the analysis and are never exported.
"""

from __future__ import annotations

from dataclasses import Field, dataclass, field, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias, get_type_hints

# ruff: noqa: RUF009

if TYPE_CHECKING:
    import polars as pl


def _column(doc: str, *, default: Any = None, inside: bool = False) -> Any:
    return field(default=default, metadata={"doc": doc, "inside": inside})


@dataclass(slots=True)
class Request:
    """One request as the engine logged it."""

    source: str = _column("the path as given (`-` for standard input)", default="")
    line: int = _column("1-based line where the request's last timing line stands", default=0)
    engine: str = _column("the engine that logged it", default="")
    request_id: str | None = _column("the engine's own id (task id, request id)")
    slot: int | None = _column("the slot that served it")
    model: str | None = _column("model name as the log gives it")
    started_at: datetime | None = _column("UTC; null where the log has no clock")
    finished_at: datetime | None = _column("UTC; null where the log has no clock")
    prompt_tokens: int | None = _column("all tokens of the prompt, cached ones included")
    cached_tokens: int | None = _column("of those, reused from a cache")
    prefill_tokens: int | None = _column("of those, evaluated in this request")
    prefill_ms: float | None = _column("time spent evaluating the prompt")
    output_tokens: int | None = _column("generated tokens")
    decode_ms: float | None = _column("time spent generating")
    queue_ms: float | None = _column("waiting for a slot")
    load_ms: float | None = _column("loading the model for this request")
    ttft_ms: float | None = _column(
        "time to first token: stated, else queue + load + prefill of those logged"
    )
    ttft_from: str | None = _column("where that clock starts: `arrival` or `slot`")
    total_ms: float | None = _column("the engine's own total, else the sum of the phases")
    context_tokens: int | None = _column("tokens in the context when it ended")
    draft_tokens: int | None = _column("tokens the draft proposed")
    accepted_tokens: int | None = _column("of those, accepted")
    finish_reason: str | None = _column("`stop`, `length`, `abort`, ...")
    truncated: bool | None = _column("the prompt or the context was cut")
    kind: str = _column("`generation`, `embedding`, `rerank` or `benchmark`", default="generation")
    decode_steps: int | None = _column("tokens that decode_ms paid for", inside=True)
    run: int = _column("which process start of the source served it", default=0, inside=True)
    first_line: int = _column("1-based line where the request was first seen", default=0, inside=True)
    offset: int = _column("byte offset of that line", default=0, inside=True)
    clock_start_ms: float | None = _column("start on the process's own clock", inside=True)
    clock_end_ms: float | None = _column("end on the process's own clock", inside=True)


@dataclass(slots=True)
class Interval:
    """A window or batch of an engine that logs those instead of requests."""

    source: str = _column("the path as given", default="")
    line: int = _column("1-based line", default=0)
    engine: str = _column("the engine that logged it", default="")
    time: datetime | None = _column("when the line was printed")
    kind: str = _column("`window`, `prefill_batch`, `decode_batch` or `iteration`", default="window")
    span_ms: float | None = _column("how long it lasted")
    prefill_tokens: int | None = _column("prompt tokens evaluated")
    cached_tokens: int | None = _column("prompt tokens reused")
    decode_tokens: int | None = _column("tokens generated")
    prefill_tok_s: float | None = _column("as printed: over the whole span, idle time included")
    decode_tok_s: float | None = _column("as printed: over the whole span, idle time included")
    running: int | None = _column("requests running when it was printed")
    waiting: int | None = _column("requests waiting when it was printed")
    kv_usage: float | None = _column("share of the KV cache in use, 0-1")
    prefix_hit_rate: float | None = _column("prefix cache hit rate, 0-1, over the engine's own window")
    accept_length: float | None = _column("mean accepted length of speculation")
    phase: str = _column("`prefill`, `decode`, `mixed`, `queue`, `idle` or `unknown`", default="unknown")
    run: int = _column("which process start of the source", default=0, inside=True)


@dataclass(slots=True)
class Event:
    """Something that happened and matters to the diagnosis. `detail` never holds prompt text.

    The kinds, and what ``value`` is, where it is known:

    - ``aborted``: a client left; ms until its slot was free. ``error``, ``out_of_memory``: no value.
    - ``cache_evicted``: a prompt was removed from the host's full prompt cache; its size in MiB.
    - ``cache_miss``: what a slot held was of little use to the prompt it took; the share of the prompt that
      it held (0-1). Not told of a slot's first prompt, nor where the host's cache held a better one.
    - ``cache_state``: the host's prompt cache after an update; the share of its limit that is used (0-1).
    - ``context_exceeded``: a request is longer than its context; tokens too many. Without a value also: the
      KV cache had no room for a batch, told once for each burst of retries.
    - ``context_shift``: the context was full and part of it dropped; tokens dropped.
    - ``draft``: time spent on drafting since the last such event, in ms.
    - ``fallback``: something asked for or usual is not used; ``detail`` names it.
    - ``full_reprocess``: the cached prefix could not be used.
    - ``media``: an image or a piece of audio was encoded; ms.
    - ``model_load``: a model was loaded, at its first line; ms, where a request waited for it or the engine
      says so. Where it is known which request waited, its ``load_ms`` says the same again.
    - ``model_unload``: a model was unloaded; ``detail`` says which and why, as far as it is told.
    - ``preempted``: requests gave up their KV cache; how many.
    - ``prompt_repeated``: the slot that was chosen held the whole prompt; the share of it (1).
    - ``prompt_truncated``: a prompt was cut; tokens lost.
    """

    source: str = _column("the path as given", default="")
    line: int = _column("1-based line", default=0)
    engine: str = _column("the engine that logged it", default="")
    time: datetime | None = _column("UTC; null where the log has no clock")
    kind: str = _column("`full_reprocess`, `prompt_truncated`, `aborted`, `model_load`, ...", default="")
    slot: int | None = _column("the slot it happened on")
    request_id: str | None = _column("the request it happened to")
    detail: str | None = _column("numbers in words; never prompt or completion text")
    value: float | None = _column("the event's own number, where it has one", inside=True)
    run: int = _column("which process start of the source", default=0, inside=True)


@dataclass(slots=True)
class Aggregate:
    """Sums over many requests, from engines and benchmarks that tell no single one.

    A mean is a sum divided by how many requests it is of: ``ttft_ms / ttft_requests``, else by ``requests``.
    """

    source: str = _column("the path as given", default="")
    line: int = _column("1-based line where the numbers begin", default=0)
    engine: str = _column("the engine that served the requests", default="")
    kind: str = _column(
        "`since_start` (all since the engine started), `between` (two snapshots' difference) or `benchmark`",
        default="since_start",
    )
    model: str | None = _column("model name as it is given")
    time: datetime | None = _column("when the numbers were taken, UTC")
    span_ms: float | None = _column("wall-clock time that they cover")
    requests: int | None = _column("requests that finished")
    prompt_tokens: int | None = _column("all tokens of their prompts, cached ones included")
    cached_tokens: int | None = _column("of those, reused from a cache")
    prefill_tokens: int | None = _column("of those, evaluated")
    output_tokens: int | None = _column("generated tokens")
    queue_ms: float | None = _column("sum: waiting to be scheduled")
    prefill_ms: float | None = _column("sum: evaluating prompts")
    decode_ms: float | None = _column("sum: generating")
    other_ms: float | None = _column("sum: what the totals have beyond the phases")
    total_ms: float | None = _column("sum of the requests' totals")
    ttft_ms: float | None = _column("sum of the times to first token")
    ttft_requests: int | None = _column("requests that `ttft_ms` sums up")
    ttft_from: str | None = _column("where that clock starts: `arrival` or `slot`")
    ttft_p50_ms: float | None = _column("time to first token: stated, or interpolated in its bucket")
    ttft_p90_ms: float | None = _column("the same, 90th percentile")
    ttft_p95_ms: float | None = _column("the same, 95th percentile")
    ttft_p99_ms: float | None = _column("the same, 99th percentile")
    tpot_p50_ms: float | None = _column("time per output token: stated, or interpolated in its bucket")
    tpot_p90_ms: float | None = _column("the same, 90th percentile")
    tpot_p95_ms: float | None = _column("the same, 95th percentile")
    tpot_p99_ms: float | None = _column("the same, 99th percentile")
    decode_steps: int | None = _column("tokens that decode_ms paid for", inside=True)
    since: datetime | None = _column("since when the sums count, UTC", inside=True)
    run: int = _column("which process start of the source", default=0, inside=True)


Row: TypeAlias = Request | Interval | Event | Aggregate


@dataclass(slots=True)
class Columns:
    """Many rows of a kind.

    Attributes:
        kind: what they are.
        count: how many.
        values: by column, an array or a tuple with one for each row, or what all of them have; a column that
            is not there has its default.
    """

    kind: type[Row]
    count: int
    values: dict[str, Any]


TABLES: dict[str, type[Row]] = {
    "requests": Request,
    "intervals": Interval,
    "events": Event,
    "aggregates": Aggregate,
}


def columns(row_type: type[Row], *, inside: bool = False) -> list[str]:
    """Names of the columns a row type exports, in order; with ``inside`` also the internal ones."""
    return [f.name for f in fields(row_type) if inside or not f.metadata["inside"]]


_SCHEMAS: dict[type[Row], dict[str, pl.DataType]] = {}


def schema(row_type: type[Row]) -> dict[str, pl.DataType]:
    """The polars schema of a row type, internal columns included."""
    if row_type not in _SCHEMAS:
        import polars as pl

        dtypes: dict[type, pl.DataType] = {
            str: pl.String(),
            int: pl.Int64(),
            float: pl.Float64(),
            bool: pl.Boolean(),
            datetime: pl.Datetime("us", "UTC"),
        }
        hints = get_type_hints(row_type)
        _SCHEMAS[row_type] = {name: dtypes[_bare(hints[name])] for name in columns(row_type, inside=True)}
    return _SCHEMAS[row_type]


def columns_page() -> str:
    """The page that documents the exported columns, `docs/columns.md`."""
    said = "What `phasewise export --table NAME` writes. `?` marks what may be unknown: then it is null."
    parts = [f"# Columns\n\n{said}\n"]
    for table, row_type in TABLES.items():
        summary = (row_type.__doc__ or "").splitlines()[0]
        head = f"## {table}\n\n{summary}\n\n| column | type | meaning |\n|---|---|---|"
        rows = [
            _columns_row(f, get_type_hints(row_type)) for f in fields(row_type) if not f.metadata["inside"]
        ]
        parts.append("\n".join([head, *rows, ""]))
    return "\n".join(parts)


def _columns_row(column: Field[Any], hints: dict[str, Any]) -> str:
    unknown = "?" if column.default is None else ""
    return f"| `{column.name}` | {_bare(hints[column.name]).__name__}{unknown} | {column.metadata['doc']} |"


def _bare(hint: Any) -> type:
    """The type of a field without its ``| None``."""
    options = [t for t in getattr(hint, "__args__", ()) if t is not type(None)]
    bare: type = options[0] if options else hint
    return bare
