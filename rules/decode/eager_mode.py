"""CUDA graphs are off, so the CPU launches each kernel of each token one by one.

What it looks at:
    `enforce_eager=True` in vLLM's header, `disable_cuda_graph=True` in SGLang's. How much it costs: the time
    of a step for one request, beside the time that reading the weights takes at the GPU's full bandwidth.

Why it matters:
    A token of a small batch takes hundreds of small kernels. Launched one by one they take longer than they
    run, and the GPU waits: 11.2 tok/s with eager mode and 45.9 without on an RTX A6000 behind an ARM host,
    22 and 13 ms a token for 7B on A800s.

When not to worry:
    Large models and large batches, whose kernels run longer than their launch takes; a model that CUDA graphs
    don't support; a GPU whose memory leaves no room for them. On a CPU there are none.

What to change:
    Take the switch out. If memory then runs short, give the KV cache a little less. The saving is an upper
    bound: a step can't be faster than its weights are read. In a log of windows it is a share of those in
    which one request ran all the time.

Sources:
    vllm#4449, vllm#1926, VLM-Surgical-Agent-Framework#5 and vllm-omni#7960 (measured).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from rules.concurrency import steady_windows
from rules.rule import CannotTell, Confidence, NotApplicable, Phase, Rule, Saving, Threshold
from rules.samples import median
from rules.savings import decode_limited, significant
from rules.words import percent

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.rule import Answer

RULE = Rule(
    id="eager-mode",
    phase=Phase.DECODE,
    title="CUDA graphs are off: eager mode",
    needs=("eager",),
    engines=("vllm", "sglang"),
    remedies=("no-eager",),
    verify="Start without the switch and send one request: ms per token should fall, most for small models.",
    sources=("vllm#4449", "vllm#1926", "VLM-Surgical-Agent-Framework#5", "vllm-omni#7960"),
    thresholds={
        "near_memory": Threshold(
            0.7,
            "share of the GPU's bandwidth, 0-1, from which there is little to gain: 8B on GeForce reaches "
            "0.64 to 0.8 with graphs",
        ),
    },
)


class _Steps(NamedTuple):
    """Decode steps for one request: their rows, the median time of one, and all time they fill, in ms."""

    rows: pl.DataFrame
    ms: float
    busy_ms: float


def check(m: Measures) -> Answer:
    """Ask whether kernels are launched one by one."""
    if m.setup.eager is None:
        return CannotTell("this log does not say whether CUDA graphs are used")
    if not m.setup.eager:
        return NotApplicable("CUDA graphs are on")
    if m.hardware.on_cpu:
        return NotApplicable("there are no CUDA graphs on a CPU")
    if not m.generations.height and not m.intervals.height:
        return NotApplicable("nothing was served")
    steps, floor = _steps(m), _floor_ms(m)
    if steps is None or floor is None:
        return _unpriced(m, steps)
    if floor >= m.thresholds(RULE)["near_memory"] * steps.ms:
        return NotApplicable(
            f"decode reads at {percent(floor / steps.ms)} of the GPU's bandwidth all the same"
        )
    requests = m.generations.drop_nulls("decode_ms")
    change = decode_limited(m.ledger, floor / steps.ms) if requests.height else None
    saving = m.saving(change, bound="at_most") if change else _of_windows(steps, floor)
    if change and saving and not m.worth(saving.ms, requests.height):
        return NotApplicable("generating takes too little time to matter")
    return RULE.finding(
        confidence=Confidence.CERTAIN,
        why=f"Eager mode is on: a token of a request alone takes {steps.ms:,.1f} ms ({1000 / steps.ms:,.1f} "
        f"tok/s), and reading its weights takes {floor:,.1f} ms at the GPU's bandwidth. The rest is up to "
        f"{percent(1 - floor / steps.ms)} of decode, and launching kernels one by one is in it.",
        evidence=(
            m.stated("eager", "eager mode"),
            m.evidence(
                "time per token of a request alone, median", round(steps.ms, 2), "ms", rows=steps.rows
            ),
            m.stated("weights_bytes", "weights, read once for each token", unit="bytes"),
            m.evidence("memory bandwidth on paper", m.bandwidth_gb_s, "GB/s"),
            m.evidence("reading the weights takes at least", round(floor, 2), "ms"),
        ),
        requests=requests.height,
        change=change,
        saving=saving,
        fixes=(m.fix("no-eager"),),
        wont_help=("A smaller quantization, while launches and not bytes take the time.",),
    )


def _unpriced(m: Measures, steps: _Steps | None) -> Answer:
    """Eager mode where the log doesn't tell what it costs."""
    seen = "" if steps is None else f" A token of a request alone takes {steps.ms:,.1f} ms."
    return RULE.finding(
        confidence=Confidence.POSSIBLE,
        why=f"Eager mode is on, so each kernel of each token is launched by the CPU.{seen} What that costs "
        "this log can't tell; elsewhere tokens took 1.1 to 4 times as long, the longer the smaller model and "
        "batch.",
        evidence=(
            m.stated("eager", "eager mode"),
            *(
                [
                    m.evidence(
                        "time per token of a request alone, median", round(steps.ms, 2), "ms", rows=steps.rows
                    )
                ]
                if steps
                else []
            ),
        ),
        requests=m.generations.height,
        fixes=(m.fix("no-eager"),),
    )


def _floor_ms(m: Measures) -> float | None:
    """Reading the weights once at all of the GPU's bandwidth, ms: no step of a dense model is faster."""
    weights, bandwidth = m.setup.weights_bytes, m.bandwidth_gb_s
    if weights is None or bandwidth is None or m.decoding.mixture or m.decoding.speculative:
        return None
    return weights / (bandwidth * 1e6 * (m.setup.tensor_parallel or 1))


def _steps(m: Measures) -> _Steps | None:
    """From requests that ran alone, else from steps and windows with one request."""
    if m.decoding.ms_per_token is not None:
        alone = m.decoding.alone
        return _Steps(alone, m.decoding.ms_per_token, float(alone["decode_ms"].sum()))
    one = m.intervals.filter((pl.col("running") == 1) & (pl.col("phase") == "decode"))
    exact = one.filter(pl.col("kind") == "iteration").with_columns(ms="span_ms")
    batches = one.filter(pl.col("kind") == "decode_batch").with_columns(ms=1000 / pl.col("decode_tok_s"))
    windows = steady_windows(m.intervals).filter(pl.col("running") == 1)
    windows = windows.with_columns(ms=1000 / pl.col("decode_tok_s"))
    rows = next((frame for frame in (exact, batches, windows) if frame["ms"].count()), None)
    ms = None if rows is None else median(rows.select("ms"))
    return None if rows is None or not ms else _Steps(rows, ms, float(rows["span_ms"].sum()))


def _of_windows(steps: _Steps, floor: float) -> Saving | None:
    """Of the time in which one request generated; ``None`` where no row says how long it was."""
    share = 1 - floor / steps.ms
    return (
        Saving(significant(share * steps.busy_ms, 2), round(share, 4), "at_most") if steps.busy_ms else None
    )
