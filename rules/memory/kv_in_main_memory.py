"""The KV cache was told to stay in main memory, while the layers that read it are on the GPU.

What it looks at:
    The lines that give the size of each KV buffer: all of it in main memory although half of the layers or
    more are on a GPU with memory of its own. By itself the cache of a layer lies where the layer is.

Why it matters:
    Attention then runs on the CPU for every layer and every token, and reads the cache at the speed of main
    memory; each layer waits for it. The deeper the context, the slower the token. Prompts are read more
    slowly for the same reason.

When not to worry:
    The cache does not fit the GPU in any form, and fewer layers there were measured to be slower than this.
    Where decode is as fast as the GPU allows nevertheless, the rule is silent.

What to change:
    Leave out `--no-kv-offload`. Where the GPU has no room for the cache: fewer slots if more are kept than
    were ever in use, a context of the size that is used, an 8-bit KV cache, and then leave it out. The
    saving is an upper bound: decode as predicted for this GPU, or what the context adds to a token in this
    log; for prompts none is given.

Sources:
    llama.cpp tools/server/README.md (`--no-kv-offload`); llama.cpp src/llama-kv-cache.cpp (the buffers).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.decode.decode_slope_kv import context_shares
from rules.rule import CannotTell, Confidence, NotApplicable, Phase, Rule
from rules.savings import decode_limited, decode_scaled
from rules.words import size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rules.measures import Measures
    from rules.remedies import Fix
    from rules.rule import Answer, Evidence
    from rules.savings import Change

RULE = Rule(
    id="kv-in-main-memory",
    explains=(
        "decode-slope-attention",
        "decode-slope-kv",
        "prefill-dominates-long-prompt",
        "rag-chunks-too-many",
    ),
    phase=Phase.DECODE,
    title="The KV cache is kept in main memory",
    needs=("kv_cpu_bytes", "kv_bytes", "layers_offloaded", "layers_offloadable"),
    remedies=("kv-on-gpu", "fewer-slots", "smaller-context", "quantise-kv"),
    verify="The header should state the KV buffer on the GPU, and ms per token fall, most at long contexts.",
    sources=("llama.cpp tools/server/README.md",),
)


def check(m: Measures) -> Answer:
    """Ask whether a GPU's layers read a KV cache that is not beside them."""
    if m.setup.kv_cpu_bytes is None or not m.setup.kv_bytes:
        return CannotTell("the log does not say where the KV cache is")
    if not m.room.kv_in_main_memory:
        return NotApplicable("the KV cache is where the layers are")
    rows = m.generations.drop_nulls("decode_ms")
    change = _change(m)
    saving = m.saving(change, bound="at_most") if change else None
    if rows.height and not m.worth(saving.ms if saving else float(rows["decode_ms"].sum()), rows.height):
        return NotApplicable("generating takes too little time, or is as fast as with the cache on the GPU")
    return RULE.finding(
        confidence=Confidence.CERTAIN,
        why=_why(m),
        evidence=tuple(_evidence(m)),
        requests=rows.height,
        saving=saving,
        change=change,
        fixes=tuple(_fixes(m)),
        wont_help=("Prefix caching or a larger batch: the cache stays where it is read slowly.",),
    )


def _change(m: Measures) -> Change | None:
    """Decode as predicted for this GPU, else without what the context adds; ``None`` if neither is known."""
    d = m.decoding
    predicted_ms = d.predicted_ms()
    if predicted_ms is not None and d.ms_per_token is not None and not (d.speculative or d.split):
        return decode_limited(m.ledger, predicted_ms / d.ms_per_token)
    slope = m.decode_slope
    return None if slope is None else decode_scaled(1 - context_shares(m, slope))


def _free_bytes(m: Measures) -> float | None:
    """GPU memory that is left, a GiB on each GPU aside; ``None`` where it is not known."""
    needed, usable = m.room.needed_bytes, m.room.usable_bytes
    return None if needed is None or usable is None else max(usable - needed, 0.0)


def _why(m: Measures) -> str:
    s, d, free = m.setup, m.decoding, _free_bytes(m)
    said = (
        f"All {size(m.room.kv_bytes)} of KV cache are in main memory, while {s.layers_offloaded} of "
        f"{s.layers_offloadable} layers are on the GPU: their attention runs on the CPU for every token."
    )
    if d.ms_per_token is not None:
        said += f" A token takes {d.ms_per_token:,.1f} ms"
        predicted_ms = d.predicted_ms()
        said += f"; predicted with the cache on the GPU are {predicted_ms:,.1f}." if predicted_ms else "."
    if free is not None:
        room = "has room for it" if free >= m.room.kv_bytes else "has no room for all of it"
        said += f" The GPU {room}: about {size(free)} are free."
    return said


def _evidence(m: Measures) -> Iterator[Evidence]:
    d = m.decoding
    yield m.stated("kv_cpu_bytes", "KV cache in main memory", unit="bytes")
    yield m.stated("kv_bytes", "all of the KV cache", unit="bytes")
    yield m.stated("layers_offloaded", f"layers on the GPU, of {m.setup.layers_offloadable}", unit="layers")
    if m.room.vram_bytes is not None:
        yield m.evidence("GPU memory", m.room.vram_bytes, "bytes")
    if m.room.needed_bytes is not None:
        yield m.evidence("of it taken by weights and buffers", round(m.room.needed_bytes), "bytes")
    if d.ms_per_token is not None:
        yield m.evidence("time per token alone, median", round(d.ms_per_token, 2), "ms", rows=d.alone)
    if (predicted_ms := d.predicted_ms()) is not None:
        yield m.evidence("predicted with the cache on the GPU", round(predicted_ms, 2), "ms")


def _fixes(m: Measures) -> Iterator[Fix]:
    """The switch; what makes the cache smaller before it, where there is no room for all of it."""
    free = _free_bytes(m)
    if free is not None and free < m.room.kv_bytes:
        yield from m.room.smaller_cache()
    yield m.fix("kv-on-gpu")
