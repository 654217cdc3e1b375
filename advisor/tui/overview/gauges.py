"""The overview's numbers: what is measured now, in words."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import polars as pl

from advisor.live.history import PLACED_AT
from advisor.live.view import RECENT
from advisor.report.tables import measured
from advisor.tui.overview.together import together
from advisor.tui.overview.trend import lasting
from rules.words import count, duration, percent, plural, rate

if TYPE_CHECKING:
    from collections import Counter

    from advisor.live.view import View

Pair = tuple[str, str]

LAST_MINUTES = f"last {lasting(RECENT)}"

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
_STATES = (("running / waiting", count, ("running", "waiting")), ("KV cache in use", percent, ("kv_usage",)))
_LISTED = ("generation", "benchmark")
_OF_ONE = ("running, at most", "waiting, at most")
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
    told = view.requests.select(_MEASURED)
    is_recent = not view.ended and view.recent_requests > 0 and view.now is not None
    if is_recent and view.now is not None:
        told = told.filter(pl.col(PLACED_AT) > view.now - RECENT)
    rows = told.filter(pl.col("kind") == "generation")
    at_once = together(view.intervals)
    pairs = [
        *_amounts(view, told, at_least=is_recent and view.recent_cut),
        *(_engines(at_once) or ([] if is_recent else _concurrency(view))),
        *(_speeds(rows) if rows.height else _measured(view, apart=at_once.height < view.intervals.height)),
        *_cache(rows),
        *_wrong(view.totals.events),
    ]
    return Gauges(LAST_MINUTES.capitalize() if is_recent else _kept(view, rows.height), tuple(pairs))


def recent_title(view: View) -> str:
    """``Last 5 min, 12 requests``, and what is not known of how many they are."""
    title = LAST_MINUTES.capitalize()
    if view.now is None or not (view.recent_requests or not view.recent_unplaced):
        return title
    requests, unplaced = plural(view.recent_requests, "request"), view.recent_unplaced
    if view.recent_cut:
        return f"{title}, at least {requests}: older ones of them are no longer kept"
    return f"{title}, {f'at least {requests}: {unplaced:,} more have no clock' if unplaced else requests}"


def _kept(view: View, kept: int) -> str:
    requests = view.totals.requests
    if requests:
        return all_of(requests) if kept == requests else f"The last {plural(kept, 'request')}"
    means = view.judged.analysis.summary.means if view.judged else None
    return "What this log tells" if means is None else "What this log tells, as means"


def all_of(requests: int) -> str:
    """``All 12 requests``."""
    return f"All {plural(requests, 'request')}" if requests > 1 else plural(requests, "request")


def _amounts(view: View, told: pl.DataFrame, *, at_least: bool) -> list[Pair]:
    """Requests, how many come in a minute, and rows of other kinds."""
    of_kind = dict(told["kind"].value_counts().sort("kind").iter_rows())
    pairs: list[Pair] = []
    if view.totals.requests:
        number = count(of_kind.get("generation", 0))
        pairs.append(("requests", f"at least {number}" if at_least else number))
        pairs += _per_minute(view)
    return pairs + [(f"{kind} requests", count(n)) for kind, n in of_kind.items() if kind not in _LISTED]


def _per_minute(view: View) -> list[Pair]:
    """How many came in the last minutes; where less is known, after its first moment.

    Nothing over less than half a minute, nor where requests have no clock.
    """
    if view.now is None or view.recent_unplaced:
        return []
    known = (
        (view.requests,) if view.recent_cut else (view.requests, view.intervals, view.events, view.aggregates)
    )
    firsts = [first for frame in known if isinstance(first := frame[PLACED_AT].min(), datetime)]
    since = max(view.now - RECENT, min(firsts, default=view.now))
    generations = view.requests.filter(pl.col("kind") == "generation")
    came, span = int((generations[PLACED_AT] > since).sum()), view.now - since
    if span.total_seconds() < _LEAST_S or not came:
        return []
    over = LAST_MINUTES if span == RECENT else f"over {lasting(span)}"
    return [(f"a minute, {over}", f"{came / span.total_seconds() * _MINUTE_S:.1f}")]


def _engines(at_once: pl.DataFrame) -> list[Pair]:
    """What the last windows saw of all engines together."""
    told: list[Pair] = []
    for label, say, names in _STATES:
        values = [at_once[name].drop_nulls().tail(1).to_list() for name in names]
        if values[0]:
            told.append((f"{label}, last", " / ".join(say(*value) if value else "?" for value in values)))
    return told


def _concurrency(view: View) -> list[Pair]:
    """Of a log of requests, how many ran at once."""
    most = view.judged.analysis.summary.concurrency if view.judged else None
    return [] if most is None else [("ran at once, at most", count(most))]


def _speeds(rows: pl.DataFrame) -> list[Pair]:
    """Time to first token and rates of these requests; what none of them tells is left out."""
    ttft = rows["ttft_ms"].drop_nulls()
    starts = rows.filter(pl.col("ttft_ms").is_not_null())["ttft_from"].unique().to_list()
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


def _measured(view: View, *, apart: bool) -> list[Pair]:
    """The report's table of a log without requests: of tests, sums, steps or windows.

    The most that ran is of one engine's windows: left out where those of several are told ``apart``.
    """
    table = measured(view.judged.analysis) if view.judged else []
    if not table:
        return []
    header, *rows = table
    if header[0] == "test":
        return [(row[0], _fastest(header, row)) for row in rows]
    return [(_short(name), value) for name, value, *_ in rows if value and not (apart and name in _OF_ONE)]


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
