"""GPU memory ran out, or so little is left that a long prompt may do it.

What it looks at:
    Lines of a failed allocation. Without one: weights on the GPU, KV cache and compute buffers beside the
    GPU's memory, where less than half a GiB is left on each GPU.

Why it matters:
    A failed allocation ends a load or the whole server. Attention on a long prompt, a second model, a
    projector for images or the display need some more while it runs.

When not to worry:
    Engines that take their share at the start and keep to it (vLLM, SGLang). Memory that the machine
    shares. A server that ran its longest prompts already, with nothing else on the GPU.

What to change:
    Fewer slots or a smaller context if more is reserved than used, an 8-bit KV cache, or fewer layers on the
    GPU. No time is claimed: this prevents failures.

Sources:
    ggml-cuda (the message); llama.cpp tools/server/README.md (`--fit-target`, 1024 MiB by default).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from rules.rule import CannotTell, Confidence, NotApplicable, Phase, Rule, Threshold
from rules.words import plural, size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rules.measures import Measures
    from rules.remedies import Fix
    from rules.rule import Answer, Evidence, Finding

RULE = Rule(
    id="kv-oom-risk",
    phase=Phase.MEMORY,
    title="GPU memory may run out",
    remedies=("fewer-slots", "smaller-context", "quantise-kv", "free-vram"),
    verify="Send the longest prompt, with as many at once as will come: it should be answered.",
    sources=("llama.cpp tools/server/README.md",),
    quality=True,
    thresholds={
        "left_gib": Threshold(0.5, "GiB of each GPU that should be left: half of llama.cpp's --fit-target"),
    },
)

_UNKNOWN = "<longest prompt + answer>"

PREALLOCATING = ("vllm", "sglang", "tgi", "tensorrt-llm", "lmdeploy")


def check(m: Measures) -> Answer:
    """Ask whether memory failed, or is about to."""
    failed = m.events.filter(pl.col("kind") == "out_of_memory")
    if failed.height:
        return _failed(m, failed)
    if m.engine in PREALLOCATING or m.hardware.on_cpu or m.hardware.shared_memory:
        return NotApplicable("nothing is allocated beside a fixed share of the memory")
    needed, vram = m.room.needed_bytes, m.room.vram_bytes
    if needed is None or vram is None:
        return CannotTell("the GPU's memory, or what is on it, is not known (--vram gives the first)")
    least = m.thresholds(RULE)["left_gib"] * 2**30 * max(len(m.hardware.gpus), 1)
    if not 0 <= vram - needed < least:
        return NotApplicable("more is left" if needed < vram else "it is overfull and runs nevertheless")
    return RULE.finding(
        confidence=Confidence.POSSIBLE,
        why=f"Weights, KV cache and buffers take {size(needed)} of the GPU's {size(vram)}, as far as the log "
        f"states them. {size(vram - needed)} are left for all that comes on top while it runs.",
        evidence=tuple(_evidence(m)),
        requests=m.generations.height,
        fixes=tuple(_fixes(m)),
        fault=False,
    )


def _failed(m: Measures, failed: pl.DataFrame) -> Finding:
    asked = failed["detail"].drop_nulls()
    last = failed.group_by("source").agg(failed_at=pl.col("line").max())
    later = m.generations.join(last, on="source").filter(pl.col("line") > pl.col("failed_at"))
    served = " It went on serving." if later.height else ""
    return RULE.finding(
        title="Memory ran out",
        confidence=Confidence.CERTAIN,
        why=f"{plural(failed.height, 'allocation')} failed for lack of memory"
        f"{f' ({asked[0]})' if asked.len() else ''}.{served}",
        evidence=(m.evidence("failed allocations", failed.height, rows=failed), *_evidence(m)),
        requests=failed.height,
        fixes=tuple(_fixes(m)),
    )


def _evidence(m: Measures) -> Iterator[Evidence]:
    room, s = m.room, m.setup
    if room.vram_bytes is not None:
        yield m.evidence("GPU memory", room.vram_bytes, "bytes")
    if room.gpu_weights_bytes is not None:
        yield m.evidence("weights on the GPU", round(room.gpu_weights_bytes), "bytes")
    for fact, label in (("kv_bytes", "KV cache"), ("compute_bytes", "compute buffers")):
        if getattr(s, fact) is not None:
            yield m.stated(fact, label, unit="bytes")


def _fixes(m: Measures) -> Iterator[Fix]:
    if m.room.used_context is None and not m.room.cut:
        yield m.fix("smaller-context", tokens=_UNKNOWN, total=_UNKNOWN)
    yield from m.room.smaller_cache()
    if not m.hardware.on_cpu and (m.hardware.gpus or m.hardware.gpu):
        yield m.fix("free-vram")
