"""Decode runs as fast as the memory delivers the weights: nothing is wrong with it.

What it looks at:
    The time per token of requests that ran alone, beside the prediction for this device: weights and KV
    cache over the bandwidth that decode reaches there, plus a time per layer. For devices without fitted
    constants, the share of the given bandwidth that the reads take. Generating must take at least 40 % of
    the time.

Why it matters:
    It says where not to look. At this point no setting makes a token cheaper; only reading fewer bytes,
    generating fewer tokens, accepting several tokens per read, or faster memory does.

When not to worry:
    This is no fault. It says nothing of mixtures of experts (how many bytes a token reads is not logged),
    of speculative runs, or of overlapping requests, which share each read.

What to change:
    A smaller quantization down to about 4.9 bits, speculative decoding (on a CPU last, since it gains little
    there), a smaller model, shorter answers; of a model that thinks first, fewer thoughts and no cap.

Sources:
    Pope et al. 2022, arXiv:2211.05102; constants fitted to XiongjieDai/GPU-Benchmarks-on-LLM-Inference and
    llama.cpp#4167; bandwidth and not threads as the limit on CPUs: llama.cpp#12966.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.decode import output_long, thinking_tokens, threads_too_many
from rules.decoding import REACHED_LEAST, REACHED_MOST
from rules.rule import CannotTell, Confidence, NotApplicable, Phase, Rule, Threshold
from rules.samples import median
from rules.savings import decode_scaled, output_capped
from rules.thinking import thinks
from rules.words import percent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rules.measures import Measures
    from rules.remedies import Fix
    from rules.rule import Answer, Evidence

RULE = Rule(
    id="at-bandwidth-ceiling",
    phase=Phase.DECODE,
    title="Decode runs at what the memory allows",
    needs=("weights_bytes", "decode_ms"),
    remedies=("smaller-quant", "speculate", "smaller-model", "cap-output", "reasoning-budget"),
    verify="llama-bench -n 128 with the same file gives about the same tokens per second.",
    sources=(
        "arXiv:2211.05102",
        "github.com/XiongjieDai/GPU-Benchmarks-on-LLM-Inference",
        "llama.cpp#4167",
        "llama.cpp#12966",
    ),
    fault=False,
    thresholds={"decode_share": Threshold(0.4, "least share of all time that generating takes")},
)

USUAL_REACH = 0.65
"""Most devices without a fit read at this share of their paper bandwidth or more; a few at half of it."""

_MAY_BE = (
    "That may be all that this machine gets, but most devices get two thirds or more, so threads, memory "
    "channels or clocks may hold it back."
)


def check(m: Measures) -> Answer:
    """Ask whether decode is as fast as its bytes let it be."""
    if missing := _missing(m):
        return CannotTell(missing)
    d, share = m.decoding, m.share(Phase.DECODE)
    if d.speculative:
        return NotApplicable("with speculation, ms per token is no measure of bandwidth")
    if d.split:
        return NotApplicable("the weights are read from two memories")
    if share < m.thresholds(RULE)["decode_share"]:
        return NotApplicable(f"generating takes {percent(share)} of the time")
    if not d.alone.height:
        return CannotTell("no long enough answer was generated alone")
    speed = d.health if d.fitted else d.reached
    if speed is None:
        return CannotTell("the log lacks the model's layers, or the model is too small to tell")
    healthy = d.band == "healthy" if d.fitted else REACHED_LEAST <= speed <= REACHED_MOST
    if not healthy:
        return NotApplicable("decode is not where the memory would put it")
    if m.finds(threads_too_many):
        return NotApplicable("there are more threads than cores, and that comes first")
    limit = "what the memory allows" if d.fitted else f"the memory's bandwidth {m.bandwidth_is}"
    likely = d.fitted or speed >= USUAL_REACH
    return RULE.finding(
        confidence=Confidence.LIKELY if likely else Confidence.POSSIBLE,
        title=f"Decode runs at {percent(min(speed, 1.0))} of {limit}",
        why=_why(m, likely=likely),
        evidence=tuple(_evidence(m)),
        requests=d.alone.height,
        fixes=tuple(_fixes(m)),
        wont_help=tuple(_vain(m)) if likely else (),
        verify=None if likely else _IS_IT_MEMORY,
    )


def _missing(m: Measures) -> str | None:
    if m.setup.weights_bytes is None:
        return "the model's size is not logged (--gguf FILE gives it)"
    if m.bandwidth_gb_s is None:
        return "the memory bandwidth is not known (--device or --bandwidth gives it)"
    if m.decoding.mixture:
        return "how many bytes a token of a mixture of experts reads is not logged"
    return None


_IS_IT_MEMORY = (
    "llama-bench -p 0 -n 64 with the same file, and on a CPU with a few numbers of threads (-t): if nothing "
    "is faster, it is the memory."
)


def _why(m: Measures, *, likely: bool) -> str:
    d = m.decoding
    weights_gb, now = (m.setup.weights_bytes or 0) / 1e9, d.ms_per_token or 0.0
    then = "Only fewer bytes, fewer tokens, speculation or faster memory would make it quicker."
    if not d.fitted:
        return (
            f"Each token takes {now:,.1f} ms and reads {weights_gb:,.1f} GB of weights: {d.read_gb_s:,.0f} "
            f"of the {m.bandwidth_gb_s:,.0f} GB/s that the memory has {m.bandwidth_is}, and no engine gets "
            f"all of that. {then if likely else _MAY_BE}"
        )
    expected = d.predicted_ms() or 0.0
    return (
        f"Each token takes {now:,.1f} ms. Reading {weights_gb:,.1f} GB of weights at "
        f"{m.bandwidth_gb_s:,.0f} GB/s, with the usual time per layer, should take {expected:,.1f} ms. {then}"
    )


def _evidence(m: Measures) -> Iterator[Evidence]:
    d = m.decoding
    yield m.evidence("time per token alone, median", round(d.ms_per_token or 0.0, 2), "ms", rows=d.alone)
    if d.fitted:
        yield m.evidence("predicted for this device", round(d.predicted_ms() or 0.0, 2), "ms")
    yield m.stated("weights_bytes", "weights, read once for each token", unit="bytes")
    if d.kv_read_bytes is not None:
        yield m.evidence("KV cache read for each token", round(d.kv_read_bytes), "bytes")
    yield m.evidence(f"memory bandwidth {m.bandwidth_is}", m.bandwidth_gb_s, "GB/s")
    if d.reached is not None:
        yield m.evidence("of it in use", round(d.reached, 4), "share")
    if d.smaller_quant and (ratio := d.shrink(d.smaller_quant)):
        saved = m.saving(decode_scaled(_factor(m, ratio))).ms
        yield m.evidence(f"a {d.smaller_quant} file would save{'' if d.fitted else ' at most'}", saved, "ms")
    cap_tokens = int(m.thresholds(output_long.RULE)["cap_tokens"])
    if not thinks(m.setup) and (saved := m.saving(output_capped(cap_tokens)).ms):
        yield m.evidence(f"answers of at most {cap_tokens} tokens would save", saved, "ms")


def _factor(m: Measures, ratio: float) -> float:
    """Time per token with a file of ``ratio`` times the size, over the time now."""
    now, then = m.decoding.predicted_ms(), m.decoding.predicted_ms((m.setup.weights_bytes or 0) * ratio)
    return then / now if now and then else ratio


def _fixes(m: Measures) -> Iterator[Fix]:
    """Speculation last on a CPU, which has little arithmetic to spare for checking drafts."""
    if quant := m.decoding.smaller_quant:
        yield m.fix("smaller-quant", to=quant)
    if not m.hardware.on_cpu:
        yield m.fix("speculate")
    yield m.fix("smaller-model")
    yield from _shorter(m)
    if m.hardware.on_cpu:
        yield m.fix("speculate")


def _shorter(m: Measures) -> Iterator[Fix]:
    """Fewer tokens: fewer thoughts of a model that thinks first, since a cap may leave it no answer."""
    thinking, long = m.thresholds(thinking_tokens.RULE), m.thresholds(output_long.RULE)
    answer = median(m.generations.select("output_tokens")) or 0
    if thinks(m.setup):
        if answer >= thinking["long_tokens"]:
            yield m.fix("reasoning-budget", tokens=int(thinking["budget_tokens"]))
    elif answer >= long["long_tokens"]:
        yield m.fix("cap-output", to=int(long["cap_tokens"]))


def _vain(m: Measures) -> Iterator[str]:
    yield "More FLOPs: a processor with more compute and the same memory generates no faster."
    yield "A larger batch size (-b, -ub): it is for reading prompts, not for generating."
    if m.decoding.gpu is None:
        yield "More threads for generating (-t): the memory is the limit. Prefill does use them (-tb)."
    if m.decoding.bits is not None and m.decoding.smaller_quant is None:
        yield "A quantization below 4.9 bits: it saves few bytes and costs quality."
