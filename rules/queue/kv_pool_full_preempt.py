"""The KV cache fills up, and running requests are thrown out and start again.

What it looks at:
    The lines in which the engine says so: vLLM's preemptions (in its stats line, or a warning for each
    fiftieth of older versions, with the count so far), SGLang's retracted requests. At least five, and not
    all within one burst of ten seconds.

Why it matters:
    A request that is thrown out loses its cache: its prompt and all it had generated are read again before
    the next token comes. Its user sees an answer that stops in the middle, and the engine does the same work
    twice.

When not to worry:
    A single burst, as when a batch job starts. A full cache alone is no fault either: it is what a busy
    engine should have, and nothing is lost until requests are thrown out.

What to change:
    More room for the KV cache, as far as the log shows that some is left, or fewer requests at once, about
    three quarters of those that ran when it happened: then each finishes without a restart. No time is
    claimed, since the log doesn't say how long the requests were.

Sources:
    vLLM docs/configuration/optimization.md (preemption); SGLang docs/advanced_features (hyperparameter
    tuning).
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import polars as pl

from rules.kv_pool import larger_pool
from rules.rule import CannotTell, Confidence, NotApplicable, Phase, Rule, Threshold
from rules.samples import median

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rules.measures import Measures
    from rules.remedies import Fix
    from rules.rule import Answer, Evidence

RULE = Rule(
    id="kv-pool-full-preempt",
    phase=Phase.QUEUE,
    title="Running requests are thrown out of the KV cache",
    remedies=("larger-kv-pool", "quantise-kv", "fewer-sequences", "more-replicas"),
    verify="Under the same load, the log should show no more preempted or retracted requests.",
    sources=(
        "vLLM docs/configuration/optimization.md",
        "SGLang docs/advanced_features/hyperparameter_tuning",
    ),
    thresholds={
        "requests": Threshold(5, "requests thrown out, in all; first guess"),
        "burst_s": Threshold(10.0, "seconds within which all of them count as one burst; first guess"),
    },
)

KEPT = 0.75
"""Of the requests that ran: enough room for each to grow by a third before the cache is full again."""


def check(m: Measures) -> Answer:
    """Ask how many requests the engine threw out for want of KV cache."""
    if not m.intervals.height and not m.generations.height:
        return CannotTell("no work is logged")
    t = m.thresholds(RULE)
    thrown = m.events.filter(pl.col("kind") == "preempted")
    count = int(thrown["value"].fill_null(1).sum())
    if count < t["requests"]:
        return NotApplicable(f"{count or 'no'} requests were thrown out of the KV cache")
    if _burst_s(thrown) <= t["burst_s"] < _covered_s(m.intervals["time"]):
        return NotApplicable("all were thrown out in one burst")
    running = _running(m, thrown)
    at_once = f", with about {running:.0f} running at once" if running else ""
    least = "at least " if m.engine == "vllm" and thrown["request_id"].count() else ""
    return RULE.finding(
        confidence=Confidence.CERTAIN,
        why=f"The KV cache was full, and {least}{count:,} requests were thrown out{at_once}. Each had to "
        "read its prompt and all it had generated once more.",
        evidence=tuple(_evidence(m, thrown, count, running)),
        requests=count,
        fixes=_fixes(m, running),
        wont_help=("More requests at once: they would push each other out more often.",),
    )


def _burst_s(thrown: pl.DataFrame) -> float:
    """Seconds from the first to the last; endless where the lines have no clock."""
    if thrown["time"].null_count() or thrown.select("source", "run").n_unique() > 1:
        return float("inf")
    return _covered_s(thrown["time"])


def _covered_s(times: pl.Series) -> float:
    """Seconds from the first of these times to the last; 0 where there is none."""
    first, last = times.min(), times.max()
    if not isinstance(first, datetime) or not isinstance(last, datetime):
        return 0.0
    return (last - first).total_seconds()


def _running(m: Measures, thrown: pl.DataFrame) -> float | None:
    """Requests that ran in the intervals printed last before, or else in all that worked."""
    rows = m.intervals.filter(pl.col("running") > 0).sort("line")
    near = thrown.sort("line").join_asof(
        rows.select("source", "run", "line", "running"),
        on="line",
        by=["source", "run"],
        strategy="backward",
        check_sortedness=False,
    )
    return median(near.select("running")) or median(rows.select("running"))


def _evidence(m: Measures, thrown: pl.DataFrame, count: int, running: float | None) -> Iterator[Evidence]:
    yield m.evidence("requests thrown out of the KV cache", count, "requests", rows=thrown)
    full = m.intervals.drop_nulls("kv_usage").sort("kv_usage", descending=True)
    if full.height:
        yield m.evidence("KV cache in use, most", round(float(full["kv_usage"][0]), 4), "share", rows=full)
    if running:
        yield m.evidence("running at once when it happened, median", running, "requests")
    if m.setup.max_running is not None:
        yield m.stated("max_running", "allowed to run at once", unit="requests")
    if m.setup.context_total is not None:
        yield m.stated("context_total", "tokens that the KV cache holds", unit="tokens")


def _fixes(m: Measures, running: float | None) -> tuple[Fix, ...]:
    fewer = (m.fix("fewer-sequences", slots=max(int(KEPT * running), 1)),) if running and running > 1 else ()
    return (*larger_pool(m), *fewer) or (m.fix("more-replicas"),)
