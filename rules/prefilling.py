"""Prefill as this log shows it: whether its rate fits the machine, and what other prompts say of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from rules.fits import alone
from rules.physics.prefill import ANY_GPU_RATE_RATIO, fit_prefill, least_rate_ratio
from rules.samples import median
from rules.savings import prefill_scaled

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.savings import Array, Change

FAR_BELOW = 0.5
"""Of the lowest ratio that was measured: clocks, drivers and longer prompts explain less than that."""

EXPERTS_SHARE = 0.1
"""Of a mixture's weights on the CPU: above this they are experts, the embedding table alone is less."""

COMPARABLE_TOKENS = 8_192
"""In longer prompts attention slows prefill more than decode."""


def rate_ratio(m: Measures) -> float | None:
    """Prefill over decode rate of requests that ran alone; ``None`` where one of them is not known.

    Prompts that are read beside other requests share their batches, and say nothing of the machine.
    """
    rows = alone(m, m.valid_prefill)
    prefill_tok_s = median(rows.select(1000 * pl.col("prefill_tokens") / pl.col("prefill_ms")))
    decode_ms = m.decoding.ms_per_token
    return None if prefill_tok_s is None or decode_ms is None else prefill_tok_s * decode_ms / 1000


def plausible_rate(m: Measures) -> bool | None:
    """Whether prompts are read about as fast as this machine can, judged beside its decode.

    False where a GPU reads prompts far slower than its decode rate promises: then something is wrong with
    prefill (it runs on the CPU, or attention fell back to slow kernels), and prompts are not to blame.
    ``None`` where the log can't tell: with layers, experts or the KV cache in main memory, both rates are
    slow, and their ratio says nothing of the prompts.
    """
    ratio = rate_ratio(m)
    if ratio is None:
        return None
    if m.hardware.on_cpu:
        return True
    usual = None if _cpu_takes_part(m) else True
    if not m.hardware.gpus and m.hardware.gpu is None:
        return usual if ratio >= FAR_BELOW * ANY_GPU_RATE_RATIO else None
    if ratio >= FAR_BELOW * least_ratio(m):
        return usual
    evaluated = median(m.valid_prefill.select("prefill_tokens")) or 0.0
    return None if m.decoding.speculative or evaluated > COMPARABLE_TOKENS else False


def _cpu_takes_part(m: Measures) -> bool:
    """Layers, experts or the KV cache of a model on a GPU are in main memory."""
    d = m.decoding
    experts = (
        d.mixture
        and not m.hardware.shared_memory
        and (d.cpu_bytes or 0.0) > EXPERTS_SHARE * (m.setup.weights_bytes or 0)
    )
    return d.split or experts or m.room.kv_in_main_memory


def least_ratio(m: Measures) -> float:
    """Lowest `rate_ratio` that was measured on a healthy GPU of this kind."""
    gpu = m.hardware.gpu
    return least_rate_ratio(gpu.device_class if gpu else None, mixture=m.decoding.mixture)


def usual_ms(samples: pl.DataFrame, rows: pl.DataFrame) -> Array | None:
    """What the prefill of each of ``rows`` should take by that of ``samples``; ``None`` without samples.

    Unknown cached tokens count as none on both sides.
    """
    fit = fit_prefill(*(_column(samples, name) for name in ("prefill_tokens", "cached_tokens", "prefill_ms")))
    if fit is None:
        return None
    return fit.model.predict_ms(_column(rows, "prefill_tokens"), _column(rows, "cached_tokens"))


def shorter_prefill(m: Measures, rows: pl.DataFrame, saved_share: pl.Expr | Array) -> Change:
    """This share of their prefill falls away for ``rows``; other requests stay as they are."""
    share = saved_share if isinstance(saved_share, pl.Expr) else pl.Series(saved_share)
    shares = rows.select("source", "line", share=share).unique(["source", "line"])
    by_request = m.generations.join(shares, on=["source", "line"], how="left", maintain_order="left")
    return prefill_scaled(1 - by_request["share"].fill_null(0.0).to_numpy())


def _column(rows: pl.DataFrame, name: str) -> Array:
    values: Array = rows[name].cast(pl.Float64).fill_null(0.0).to_numpy()
    return values
