"""Times of requests: to the first token, for each token, in all, in the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from advisor.check.log import QUANTILES, THE, Measured, line_of, not_told, number, quantile
from rules.measures import FEW
from rules.words import plural

if TYPE_CHECKING:
    from advisor.check.log import Log


def time_of(log: Log, quantity: str, stat: str) -> Measured:
    """A figure of the requests that tell this time, in ms."""
    m = log.measures
    if not m.generations.height and m.sums.rows.height:
        return _summed_time(log, quantity, stat)
    if quantity == "tpot":
        timed = m.valid_decode.with_columns(value=pl.col("decode_ms") / pl.col("decode_steps"))
    else:
        timed = m.generations.with_columns(value=pl.col(f"{quantity}_ms"))
    known = timed.drop_nulls("value")
    if not known.height:
        return Measured(None, reason=_no_time(log, quantity))
    value = known["value"].mean() if stat == "mean" else quantile(known["value"], stat)
    return Measured(
        number(value),
        known.height,
        m.generations.height,
        line_of(known.sort("value", descending=True, maintain_order=True)),
        (*_thin(stat, known.height), *_from_slot(known, quantity)),
    )


def _summed_time(log: Log, quantity: str, stat: str) -> Measured:
    m, summary = log.measures, log.analysis.summary
    buckets = {"ttft": summary.ttft_ms, "tpot": summary.tpot_ms}
    means = {
        "ttft": ("ttft_ms", "ttft_requests"),
        "tpot": ("decode_ms", "decode_steps"),
        "total": ("total_ms", "requests"),
        "queue": ("queue_ms", "requests"),
    }
    if stat == "mean":
        value, counted = m.sums.per(*means[quantity]), m.sums.total("requests")
        notes: tuple[str, ...] = ()
    else:
        value = getattr(buckets[quantity], stat) if quantity in buckets else None
        counted = buckets[quantity].n if quantity in buckets else None
        notes = ("from the buckets of a histogram",)
    if value is not None:
        return Measured(value, int(counted) if counted else None, notes=notes)
    known_mean = stat != "mean" and m.sums.per(*means[quantity]) is not None
    what = THE[quantity]
    if known_mean:
        return Measured(
            None, reason=f"These are sums, so {what} is only known as a mean: --max-{quantity}-mean holds it."
        )
    return Measured(None, reason=f"These sums don't tell {what}.")


def _no_time(log: Log, quantity: str) -> str:
    m = log.measures
    if quantity == "tpot" and m.generations["decode_ms"].count():
        return "No answer is long enough (32 tokens, 300 ms) to time its tokens."
    return not_told(log, THE[quantity])


def _from_slot(rows: pl.DataFrame, quantity: str) -> tuple[str, ...]:
    """Where the clock starts only when a slot takes the request, a client waits longer than that."""
    unseen = rows.filter((pl.col("ttft_from") == "slot") & pl.col("queue_ms").is_null()).height
    if quantity not in ("ttft", "total") or not unseen:
        return ()
    return ("counted from the slot: a client that waited for one waited longer",)


def _thin(stat: str, n: int) -> tuple[str, ...]:
    """Where less than one request lies beyond a percentile, it is nearly the slowest one."""
    beyond = 1 - QUANTILES[stat] if stat in ("p90", "p95", "p99") else 1.0
    if n < FEW:
        return (f"of {plural(n, 'request')} only: one of them decides",)
    if round(n * beyond, 9) < 1:
        return (f"{stat} of {n} requests is little else than the slowest of them",)
    return ()
