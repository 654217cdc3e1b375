"""GPU memory ran out, or so little is left that a long prompt may do it.

What it looks at:
    Lines of a failed allocation. Without one: weights on the GPU, KV cache and compute buffers beside the
    GPU's memory, where less than half a GiB is left on each GPU.

Why it matters:
    A failed allocation ends a load or the whole server. Attention on a long prompt, a second model, a
    projector for images or the display need some more while it runs. Engines that reserve their KV cache at
    the start measure what a step needs beside it, but not all of it, and die when that is too little.

When not to worry:
    Engines that take their share at the start and keep to it (vLLM, SGLang), as long as no allocation fails.
    Memory that the machine shares. A server that ran its longest prompts already, with nothing else on the
    GPU.

What to change:
    Fewer slots or a smaller context if more is reserved than used, an 8-bit KV cache, or fewer layers on the
    GPU. Where the engine fills its share of the memory whatever these are, a smaller share, smaller steps, or
    fewer requests at once; weights that don't fit by themselves need fewer bits, or more GPUs. No time is
    claimed: this prevents failures.

Sources:
    ggml-cuda (the message); llama.cpp tools/server/README.md (`--fit-target`, 1024 MiB by default).
    vLLM docs/configuration/conserving_memory.md, vllm#1298 (what it measures), vllm#15105, vllm#46803; SGLang
    docs/advanced_features (hyperparameter tuning).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from parsers.setup import Setup
from rules.deaths import NOT_STARTED, in_order
from rules.remedies import fix
from rules.rule import CannotTell, Confidence, NotApplicable, Phase, Rule, Threshold
from rules.stalls import largest
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
    remedies=(
        "fewer-slots",
        "smaller-context",
        "quantise-kv",
        "free-vram",
        "smaller-memory-share",
        "smaller-steps",
        "fewer-sequences",
        "smaller-quant",
        "smaller-model",
    ),
    verify="Send the longest prompt, with as many at once as will come: it should be answered.",
    sources=(
        "llama.cpp tools/server/README.md",
        "vLLM docs/configuration/conserving_memory.md",
        "vllm#1298",
        "SGLang docs/advanced_features/hyperparameter_tuning",
    ),
    quality=True,
    thresholds={
        "left_gib": Threshold(0.5, "GiB of each GPU that should be left: half of llama.cpp's --fit-target"),
    },
)

_UNKNOWN = "<longest prompt + answer>"

PREALLOCATING = ("vllm", "sglang", "tgi", "tensorrt-llm", "lmdeploy")

LESS_SHARE = 0.05
"""Of a device's memory: a GiB and more of any that such engines run on."""

LEAST_STEP = 512
"""Tokens of a prompt read at a time; of less, reading is slow."""

_LESS, _HALF = f"<{LESS_SHARE:g} less than now>", "<half of now>"
_BITS_16 = ("BF16", "F16", "F32")
_IN_VAIN = (
    "A shorter context or fewer bits for the KV cache: the engine fills its share of the memory all the same."
)


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
    death = _Death(m, failed)
    filled = death.engine in PREALLOCATING
    return RULE.finding(
        title="Memory ran out",
        confidence=Confidence.CERTAIN,
        why=f"{plural(failed.height, 'allocation')} failed for lack of memory"
        f"{f' ({asked[0]})' if asked.len() else ''}.{served}{death.cause if filled else ''}",
        evidence=(m.evidence("failed allocations", failed.height, rows=failed), *_evidence(m)),
        requests=failed.height,
        fixes=tuple(death.fixes() if filled else _fixes(m)),
        wont_help=(_IN_VAIN,) if filled else (),
    )


class _Death:
    """The last failure of an engine that reserves its KV cache at the start, and how it had been started."""

    def __init__(self, m: Measures, failed: pl.DataFrame) -> None:
        self._event = in_order(failed).row(-1, named=True)
        self.engine = str(self._event["engine"])
        source, line = self._event["source"], self._event["line"]
        starts = [s for s in m.setups if s.engine == self.engine and s.source == source and s.line <= line]
        self._setup = max(starts, key=lambda s: s.line, default=Setup())
        since = pl.col("line").is_between(self._setup.line, line)
        self._ran = largest(m.intervals.filter((pl.col("source") == source) & since)["running"])

    @property
    def _weights_fit(self) -> bool:
        """Whether it ran, or said at least that they were loaded."""
        started = not str(self._event["detail"]).startswith(NOT_STARTED)
        return started or self._setup.weights_bytes is not None

    @property
    def cause(self) -> str:
        """What ran short, as the end of the explanation."""
        if self._weights_fit:
            return (
                " The KV cache was reserved at the start: what ran short is the memory beside it, which the "
                "work of a step needs and other programs may take."
            )
        return (
            " If the log does not say before that the model was loaded, its weights alone do not fit; else "
            "what ran short is the memory beside them, which the work of a step needs."
        )

    def fixes(self) -> Iterator[Fix]:
        """What leaves more room beside the KV cache, then less to load where that may not fit."""
        share = self._setup.memory_share
        less = _LESS if share is None or share <= LESS_SHARE else f"{share - LESS_SHARE:.2g}"
        yield self._fix("smaller-memory-share", share=less)
        yield from self._smaller_steps()
        yield from self._fewer_requests()
        if not self._weights_fit and self._setup.quantization in _BITS_16:
            yield self._fix("smaller-quant", to="4-bit")
        elif not self._weights_fit:
            yield self._fix("smaller-model")

    def _smaller_steps(self) -> Iterator[Fix]:
        now = self._setup.chunk_tokens
        if now is None:
            yield self._fix("smaller-steps", tokens=_HALF)
            return
        tokens = max(now // 2, self._setup.max_running or 0)
        if LEAST_STEP <= tokens < now:
            yield self._fix("smaller-steps", tokens=tokens)

    def _fewer_requests(self) -> Iterator[Fix]:
        """Half of those that ran, or may run where that is not logged."""
        known = [n for n in (self._ran, self._setup.max_running) if n is not None]
        if not known:
            yield self._fix("fewer-sequences", slots=_HALF)
        elif min(known) > 1:
            yield self._fix("fewer-sequences", slots=min(known) // 2)

    def _fix(self, remedy: str, **values: object) -> Fix:
        return fix(remedy, self.engine, self._setup.engine_version, **values)


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
