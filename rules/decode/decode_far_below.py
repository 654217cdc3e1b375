"""Decode is far slower than this machine should be, and no other rule says why.

What it looks at:
    The time per token of requests that ran alone. On a GPU with fitted constants beside the prediction; on
    other GPUs beside the slowest that any class of GPU needs for such a model; on a CPU by the share of the
    given bandwidth. It stays silent where another rule explains slow decode.

Why it matters:
    A factor of two or more is never a matter of taste. Something is wrong, and one measurement halves the
    list of what it can be.

When not to worry:
    Where the device or the bandwidth that was given is not this machine's. Mixtures of experts, drafts and
    requests that ran side by side are not judged, nor are contexts so deep that a token reads more than a
    quarter as much KV cache as weights: there the attention kernel decides (decode-slope-attention).

What to change:
    Run llama-bench with the same file. If it is fast, look at the server's options and its neighbours on the
    machine; if it is slow too, at driver, build, clocks and memory. The saving is an upper bound: decode as
    predicted.

Sources:
    Constants fitted to github.com/XiongjieDai/GPU-Benchmarks-on-LLM-Inference and llama.cpp#4167; no healthy
    row behind them is slower than 0.76 of its prediction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rules.catalogue import all_rules
from rules.rule import CannotTell, Confidence, Finding, NotApplicable, Phase, Rule, Threshold
from rules.savings import decode_limited
from rules.words import percent

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.rule import Answer

RULE = Rule(
    id="decode-far-below",
    phase=Phase.DECODE,
    title="Decode is far slower than this machine should be",
    needs=("weights_bytes", "decode_ms"),
    remedies=("measure-decode", "cool-down"),
    verify="llama-bench -p 512 -n 128 -d 0,8192 with the same file: if it gives the predicted speed, the "
    "server or its neighbours are slow; if not, driver, build, clocks or memory.",
    sources=("github.com/XiongjieDai/GPU-Benchmarks-on-LLM-Inference", "llama.cpp#4167"),
    thresholds={
        "health_below": Threshold(
            0.6, "measured over predicted speed below which decode is suspect; healthy rows stay above 0.75"
        ),
        "reached_below": Threshold(
            0.2, "share of main memory's bandwidth below which decode on a CPU is suspect, 0-1; a guess"
        ),
    },
)

EXPLAINING = (
    "cpu-only",
    "decode-slope-attention",
    "decode-slope-kv",
    "eager-mode",
    "host-limited-gpu",
    "kv-in-main-memory",
    "kv-type-fallback",
    "moe-on-cpu",
    "multi-gpu-no-gain",
    "numa",
    "paging-from-disk",
    "partial-offload",
    "prefill-stalls-decode",
    "thermal-or-power",
    "threads-too-few",
    "threads-too-many",
    "vram-spill-sysmem",
)
"""Rules that name a cause of slow decode."""


class _Expected(NamedTuple):
    """What a token should take, in ms, the least it can take, and both in words."""

    ms: float
    least_ms: float
    said: str


def check(m: Measures) -> Answer:
    """Ask whether slow decode is left unexplained."""
    d = m.decoding
    if d.speculative:
        return NotApplicable("with speculation, ms per token is no measure of the machine")
    if d.split:
        return NotApplicable("part of the model is on the CPU, and that comes first")
    expected = _expected(m)
    if d.ms_per_token is None or expected is None:
        return CannotTell(
            "what decode should give here is not known (--device or --bandwidth, --gguf, shorter contexts)"
        )
    if expected.ms >= _least_health(m) * d.ms_per_token:
        return NotApplicable("decode is not far below what this machine should give")
    change = decode_limited(m.ledger, expected.least_ms / d.ms_per_token)
    saving = m.saving(change, bound="at_most")
    rows = m.generations.drop_nulls("decode_ms")
    if not m.worth(saving.ms, rows.height):
        return NotApplicable("too little time to matter")
    if cause := _explained(m):
        return NotApplicable(f"{cause} explains it")
    return RULE.finding(
        confidence=Confidence.POSSIBLE,
        title=f"Decode runs at {percent(expected.ms / d.ms_per_token)} of what this machine should give",
        why=f"A token takes {d.ms_per_token:,.1f} ms; {expected.said} {expected.ms:,.1f}. What is left to "
        f"look at: {_suspects(m)}.",
        evidence=(
            m.evidence("time per token alone, median", round(d.ms_per_token, 2), "ms", rows=d.alone),
            m.evidence(expected.said, round(expected.ms, 2), "ms"),
            m.stated("weights_bytes", "weights, read once for each token", unit="bytes"),
            m.evidence("memory bandwidth on paper", m.bandwidth_gb_s, "GB/s"),
        ),
        requests=rows.height,
        change=change,
        saving=saving,
        fixes=(m.fix("measure-decode"), *([] if m.hardware.on_cpu else [m.fix("cool-down")])),
        wont_help=("A smaller quantization, before the cause is found.",),
    )


def _expected(m: Measures) -> _Expected | None:
    """On the processor that holds the weights, as far as the log hides nothing of it."""
    d = m.decoding
    if m.hardware.on_cpu:
        if m.cpu.reached is None or d.ms_per_token is None:
            return None
        full_ms = d.ms_per_token * m.cpu.reached
        return _Expected(full_ms, full_ms, "at the memory's full bandwidth it would take")
    if d.gpu is None or not d.shallow:
        return None
    if (predicted := d.predicted_ms()) is not None:
        return _Expected(predicted, predicted, f"predicted for {d.gpu.name} are")
    if d.slowest_ms is None or d.reached is None or d.ms_per_token is None:
        return None
    said = f"no healthy GPU with the bandwidth of {d.gpu.name} needs more than"
    return _Expected(d.slowest_ms, d.ms_per_token * d.reached, said)


def _least_health(m: Measures) -> float:
    return m.thresholds(RULE)["reached_below" if m.hardware.on_cpu else "health_below"]


def _explained(m: Measures) -> str | None:
    """The rule that names a cause, if one does."""
    for loaded in all_rules():
        if loaded.rule.id in EXPLAINING and m.asks(loaded.rule):
            answer = m.asked(loaded.check)
            if isinstance(answer, Finding) and answer.fault:
                return answer.rule
    return None


def _suspects(m: Measures) -> str:
    if m.hardware.on_cpu:
        return "other programs on the CPU, a limit on CPU time (a container's quota), a build without AVX2"
    hidden = (
        "" if m.setup.layers_offloaded is not None else "layers on the CPU, which this log does not show; "
    )
    return (
        f"{hidden}another program on the GPU (nvidia-smi); clocks held down by heat or power; a build "
        "without this GPU's kernels; a link of few lanes to a slow host"
    )
