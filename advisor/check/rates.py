"""Rates of prefill and decode, over requests long enough to give one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from advisor.check.log import Measured, line_of, not_told, number, quantile
from rules.measures import FEW
from rules.words import plural

if TYPE_CHECKING:
    from advisor.check.log import Log
    from rules.measures import Measures

_TOKENS = {"prefill": "prefill_tokens", "decode": "decode_steps"}


def rate_of(log: Log, phase: str, stat: str) -> Measured:
    """Tokens per second; where only sums are known, their mean for the median."""
    m = log.measures
    tokens, ms = _TOKENS[phase], f"{phase}_ms"
    if not m.generations.height and m.sums.rows.height:
        value = m.sums.per_second(tokens, ms) if stat == "p50" else None
        if value is None:
            return Measured(None, reason=_no_summed_rate(phase, stat))
        counted = m.sums.total("requests")
        return Measured(value, int(counted) if counted else None, notes=("mean: only sums are known",))
    tests = m.requests.filter(pl.col("kind") == "benchmark")
    valid = m.valid_prefill if phase == "prefill" else m.valid_decode
    rows = valid if m.generations.height else tests
    known = rows.with_columns(value=1000 * pl.col(tokens) / pl.col(ms)).drop_nulls("value")
    if not known.height:
        return Measured(None, reason=_no_rate(log, phase))
    return Measured(
        number(quantile(known["value"], stat)),
        known.height,
        m.generations.height or None,
        line_of(known.sort("value", maintain_order=True)),
        _rough(m, known.height),
    )


def _rough(m: Measures, n: int) -> tuple[str, ...]:
    if not m.generations.height:
        return ("of a benchmark's tests, each a mean of its own",)
    few = [f"of {plural(n, 'request')} only: rough"] if n < FEW else []
    most = m.overlap.most
    return (*few, *([f"up to {most} requests shared the machine"] if most is not None and most > 1 else []))


def _no_summed_rate(phase: str, stat: str) -> str:
    if stat != "p50":
        return f"These are sums, so the {phase} rate is only known as a mean: --min-{phase}-tok-s holds it."
    return f"These sums don't tell the {phase} rate."


def _no_rate(log: Log, phase: str) -> str:
    if log.measures.generations[f"{phase}_ms"].count():
        enough = "256 evaluated tokens and 50 ms" if phase == "prefill" else "32 tokens and 300 ms"
        return f"No request is long enough to give a {phase} rate: that takes {enough}."
    return not_told(log, f"the {phase} rate")
