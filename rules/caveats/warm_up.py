"""The first request after a start is slower than those after it.

What it looks at:
    The first request of each process start that the log shows, beside the others of the same model and
    settings: its prefill against their fit, its time per token against their median.

Why it matters:
    Weights are read from disk for the first time, kernels are compiled, graphs are captured. A comparison of
    two settings by one request each measures that.

When not to worry:
    Totals keep it, since somebody waited for it. Rates are medians and fits leave outliers out, so it does
    not move them.

What to change:
    Send one request after a start before measuring.

Sources:
    llama.cpp `--warmup`; vLLM captures graphs at start; Ollama docs/faq.mdx (preload a model).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from rules.deployments import deployments
from rules.measures import FEW
from rules.rule import Caveat
from rules.samples import IS_VALID_DECODE, IS_VALID_PREFILL
from rules.words import duration

if TYPE_CHECKING:
    from rules.measures import Measures

ID = "warm-up"

SLOWER = 1.5
"""Requests of one kind on one machine differ by a tenth or two."""

MATTERS_MS = 100.0


def check(m: Measures) -> Caveat | None:
    """Say how much slower the first one was, in the phase where it shows most."""
    slower = [found for part in deployments(m) for found in _slower_first(part)]
    if not slower:
        return None
    what, expected_ms, ms = max(slower, key=lambda found: found[2] / found[1])
    return Caveat(
        ID,
        f"The first request after a start took {duration(ms)} {what} where {duration(expected_ms)} would be "
        "usual here: it warms the machine up. Totals hold it; rates and fits do not follow it.",
    )


def _slower_first(m: Measures) -> list[tuple[str, float, float]]:
    shown = [run for run, setup in enumerate(m.setups) if setup.origin]
    places = m.generations.select("source", "run", "line").with_row_index("at")
    earliest = places.group_by("source", "run").agg(pl.col("at").get(pl.col("line").arg_min()))
    first = m.generations[earliest["at"].sort()].filter(pl.col("run").is_in(shown))
    return [found for found in (_prefill(m, first), _decode(m, first)) if found is not None]


def _prefill(m: Measures, first: pl.DataFrame) -> tuple[str, float, float] | None:
    fit = m.prefill_fit
    rows = first.filter(IS_VALID_PREFILL)
    if fit is None or m.prefill_samples < FEW or not rows.height:
        return None
    expected = fit.model.predict_ms(
        rows["prefill_tokens"].cast(pl.Float64).to_numpy(),
        rows["cached_tokens"].fill_null(0).cast(pl.Float64).to_numpy(),
    )
    return _slower("to read its prompt", rows.select("prefill_ms", expected_ms=pl.Series(expected)))


def _decode(m: Measures, first: pl.DataFrame) -> tuple[str, float, float] | None:
    usual = m.ms_per_token
    rows = first.filter(IS_VALID_DECODE)
    if usual is None or m.decode_samples < FEW or m.decoding.speculative:
        return None
    return _slower(
        "to generate its answer", rows.select("decode_ms", expected_ms=pl.col("decode_steps") * usual)
    )


def _slower(what: str, pairs: pl.DataFrame) -> tuple[str, float, float] | None:
    """The worst of these, if it is slower than chance makes it."""
    worst = max(
        ((expected, ms) for ms, expected in pairs.iter_rows()), key=lambda p: p[1] / p[0], default=None
    )
    if worst is None or worst[1] < SLOWER * worst[0] or worst[1] - worst[0] < MATTERS_MS:
        return None
    return what, *worst
