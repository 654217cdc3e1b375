"""The overview's numbers: what is measured now, in words."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import polars as pl

from advisor.live.history import PLACED_AT
from advisor.live.view import RECENT
from advisor.report.tables import measured
from rules.words import count, duration, percent, plural, rate

if TYPE_CHECKING:
    from collections import Counter

    from advisor.live.view import View

Pair = tuple[str, str]

LAST_MINUTES = f"last {RECENT.seconds // 60} min"

_MINUTE_S, _LEAST_S = 60.0, 30.0
_STARTS = {"slot": " (from slot)", "arrival": " (from arrival)"}
_MEASURED = (
    "kind",
    PLACED_AT,
    "prompt_tokens",
    "cached_tokens",
    "ttft_ms",
    "ttft_from",
    "prefill_tok_s",
    "decode_tok_s",
)
_LISTED = ("generation", "benchmark")
_WRONG = {
    "aborted": "aborted",
    "error": "failed",
    "out_of_memory": "out of memory",
    "context_exceeded": "longer than the context",
    "preempted": "preempted",
}


@dataclass(frozen=True, slots=True)
class Gauges:
    """Numbers, and which requests they are of."""

    title: str
    pairs: tuple[Pair, ...]


def gauges(view: View) -> Gauges:
    """Of the last minutes while a source goes on and requests come; else of all that are kept."""
    rows = view.requests.select(_MEASURED).filter(pl.col("kind") == "generation")
    title = _kept(view, rows.height)
    if not view.ended and view.recent_requests and view.now is not None:
        rows, title = rows.filter(pl.col(PLACED_AT) > view.now - RECENT), LAST_MINUTES.capitalize()
    pairs = [
        *_amounts(view, rows.height),
        *_engine(view),
        *(_speeds(rows) if rows.height else _measured(view)),
        *_cache(rows),
        *_wrong(view.totals.events),
    ]
    return Gauges(title, tuple(pairs))


def _kept(view: View, kept: int) -> str:
    requests = view.totals.requests
    if requests:
        return all_of(requests) if kept == requests else f"The last {plural(kept, 'request')}"
    means = view.judged.analysis.summary.means if view.judged else None
    return "What this log tells" if means is None else "What this log tells, as means"


def all_of(requests: int) -> str:
    """``All 12 requests``."""
    return f"All {plural(requests, 'request')}" if requests > 1 else plural(requests, "request")


def _amounts(view: View, requests: int) -> list[Pair]:
    """Requests, how many come in a minute, and rows of other kinds."""
    told: list[Pair] = []
    if view.totals.requests:
        told.append(("requests", count(requests)))
        per_minute = _per_minute(view)
        if per_minute is not None:
            told.append((f"a minute, {LAST_MINUTES}", f"{per_minute:.1f}"))
    others = view.requests["kind"].value_counts().sort("kind").iter_rows()
    return told + [(f"{kind} requests", count(n)) for kind, n in others if kind not in _LISTED]


def _per_minute(view: View) -> float | None:
    """Over the last minutes, or over as many as there are; unknown over less than half of one."""
    first = view.requests[PLACED_AT].min()
    if view.now is None or not isinstance(first, datetime):
        return None
    span_s = min((view.now - first).total_seconds(), RECENT.total_seconds())
    return view.recent_requests / span_s * _MINUTE_S if span_s >= _LEAST_S else None


def _engine(view: View) -> list[Pair]:
    """What the last window saw; of a log of requests, how many ran at once."""
    told: list[Pair] = []
    for names, say in ((("running", "waiting"), count), (("kv_usage",), percent)):
        last = view.intervals.select(pl.col(name).drop_nulls().last() for name in names)
        values = [last[name].item() for name in names]
        if values[0] is not None:
            label = " / ".join(names) if names[0] == "running" else "KV cache in use"
            told.append((f"{label}, last", " / ".join(say(value) for value in values)))
    most = view.judged.analysis.summary.concurrency if view.judged else None
    return told if told or most is None else [("ran at once, at most", count(most))]


def _speeds(rows: pl.DataFrame) -> list[Pair]:
    """Time to first token and rates of these requests; what none of them tells is left out."""
    ttft = rows["ttft_ms"].drop_nulls()
    starts = rows["ttft_from"].drop_nulls().unique().to_list()
    start = _STARTS.get(starts[0], "") if len(starts) == 1 else ""
    told: list[Pair] = []
    if ttft.len():
        p50, p95 = (duration(ttft.quantile(q, interpolation="linear")) for q in (0.5, 0.95))
        told += [(f"TTFT, p50{start}", p50), ("TTFT, p95", p95)]
    for phase in ("prefill", "decode"):
        tok_s = rows[f"{phase}_tok_s"].median()
        if isinstance(tok_s, float):
            told.append((f"{phase}, p50", rate(tok_s)))
    return told


def _measured(view: View) -> list[Pair]:
    """The report's table of a log without requests: of tests, sums, steps or windows."""
    table = measured(view.judged.analysis) if view.judged else []
    if not table:
        return []
    header, *rows = table
    if header[0] == "test":
        return [(row[0], _fastest(header, row)) for row in rows]
    return [(_short(row[0]), row[1]) for row in rows if row[1]]


def _fastest(header: tuple[str, ...], row: tuple[str, ...]) -> str:
    told = dict(zip(header, row, strict=True))
    return ", ".join(f"{phase} {told[phase]}" for phase in ("prefill", "decode") if told.get(phase))


def _short(name: str) -> str:
    return name.replace("time to first token", "TTFT").replace("time per token (TPOT)", "TPOT")


def _cache(rows: pl.DataFrame) -> list[Pair]:
    """Share of prompt tokens from a cache, where both are known."""
    known = rows.drop_nulls(["prompt_tokens", "cached_tokens"])
    prompt, cached = (int(known[name].sum()) for name in ("prompt_tokens", "cached_tokens"))
    return [("prompt tokens from cache", percent(cached / prompt))] if prompt else []


def _wrong(events: Counter[str]) -> list[Pair]:
    """What went wrong, over everything that was read."""
    told = [f"{events[kind]:,} {word}" for kind, word in _WRONG.items() if events[kind]]
    return [("went wrong, in all", ", ".join(told))] if told else []
