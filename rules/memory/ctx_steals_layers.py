"""The KV cache is larger than this load needs, and takes the GPU memory that layers on the CPU would need.

What it looks at:
    Logs where only a part of the layers is on the GPU. The KV cache that is reserved, beside the one that
    the requests of this log needed: the slots that ran at once, each with a context that holds 99 of 100
    requests. What that would free, in layers: at least a tenth of those on the CPU.

Why it matters:
    The cache is reserved for every slot and all of the context, used or not. Each layer that it pushes to the
    CPU is read from main memory for every token, ten times slower.

When not to worry:
    Long prompts that are still to come. The rule is silent where prompts were cut or refused, since then
    the context is too small and not too large, and where caches of sliding windows hide what a token takes.
    Where all layers would fit beside the cache as it is, nothing is stolen: `partial-offload` says it. Of a
    mixture of experts, layers on the CPU are a matter of `moe-on-cpu` unless all of it would fit.

What to change:
    Fewer slots if more are kept than were ever in use, then a context of the size that is used, then an
    8-bit KV cache. Ollama multiplies the context by `OLLAMA_NUM_PARALLEL`. Where the weights alone leave no
    room, this adds layers, and only a smaller file puts all of them on the GPU.

Sources:
    ollama#5756 (64 slots, 15 of 33 layers); ollama#9181 (19.5 GiB of KV cache, 44 of 81 layers); ollama#9246.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.decode import moe_on_cpu
from rules.decode.partial_offload import decode_factor, fitting
from rules.room import gib
from rules.rule import CannotTell, Confidence, NotApplicable, Phase, Rule, Threshold
from rules.savings import decode_limited
from rules.words import count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rules.measures import Measures
    from rules.remedies import Fix
    from rules.rule import Answer, Evidence

RULE = Rule(
    id="ctx-steals-layers",
    explains=("partial-offload", "moe-on-cpu"),
    phase=Phase.MEMORY,
    title="An oversized KV cache keeps layers off the GPU",
    needs=("layers_offloaded", "layers_offloadable", "kv_bytes", "kv_bytes_per_token"),
    remedies=(
        "fewer-slots",
        "smaller-context",
        "quantise-kv",
        "more-layers",
        "weights-that-fit",
        "model-that-fits",
        "few-bits",
        "smaller-quant",
        "smaller-model",
    ),
    verify="The log should say that more layers are offloaded, and ms per token should fall.",
    sources=("ollama#5756", "ollama#9181", "ollama#9246"),
    thresholds={
        "requests": Threshold(5, "requests from which their length says how much context is used"),
        "freed_share": Threshold(0.1, "of the layers on the CPU, 0-1: what the freed memory must hold"),
    },
)


def check(m: Measures) -> Answer:
    """Ask whether unused KV cache stands where layers could."""
    on_gpu, layers = m.setup.layers_offloaded, m.setup.layers_offloadable
    if on_gpu is None or layers is None:
        return CannotTell("the log does not say how many layers are on the GPU")
    if not 0 < on_gpu < layers:
        return NotApplicable("all layers are in one memory")
    t, room = m.thresholds(RULE), m.room
    if room.cut:
        return NotApplicable("prompts were cut or refused: the context is too small, not too large")
    if room.all_fits:
        return NotApplicable("all layers would fit beside the KV cache of now")
    if room.kv_in_main_memory:
        return NotApplicable("the KV cache takes none of the GPU's memory")
    if not room.kv_bytes or m.setup.kv_bytes_per_token is None:
        return CannotTell("the log does not say what the KV cache takes per token")
    if room.used_context is None or m.generations.height < t["requests"]:
        return CannotTell("too few requests tell how much context is used")
    missing = layers - on_gpu
    freed = min(_freed_layers(m, on_gpu, layers), missing)
    if freed < max(1, t["freed_share"] * missing):
        return NotApplicable("a cache for what is used would make room for too few layers")
    if freed < missing and m.finds(moe_on_cpu):
        return NotApplicable("only experts should be on the CPU; moe-on-cpu says it")
    factor, bound = decode_factor(m, missing - freed)
    change = decode_limited(m.ledger, factor)
    saving = m.saving(change, bound=bound)
    rows = m.generations.drop_nulls("decode_ms")
    if not m.worth(saving.ms, rows.height):
        return NotApplicable("generating takes too little time to matter")
    return RULE.finding(
        confidence=Confidence.LIKELY,
        why=_why(m, missing, freed),
        evidence=tuple(_evidence(m, missing, freed)),
        requests=rows.height,
        saving=saving,
        change=change,
        fixes=tuple(_fixes(m, all_layers=freed == missing)),
        wont_help=("A smaller quantization first: what is in the way is memory that nobody uses.",)
        if freed == missing
        else (),
    )


def _freed_layers(m: Measures, on_gpu: int, layers: int) -> int:
    """Layers of those on the CPU for which the smaller cache makes room.

    What is on the GPU now does fit it, so the size of the GPU need not be known: the cache of the layers on
    the GPU shrinks, and each further layer brings its weights and its part of the smaller cache.
    """
    room, then = m.room, m.room.used_kv_bytes
    if room.fits_beside(then):
        return layers - on_gpu
    on_cpu = m.decoding.cpu_bytes
    if on_cpu is None:
        return 0
    freed = room.kv_vram_bytes - then * on_gpu / layers
    freed_layers = int(freed / (on_cpu / (layers - on_gpu) + then / layers))
    return freed_layers if room.fits_beside(then) is None else min(freed_layers, layers - on_gpu - 1)


def _why(m: Measures, missing: int, freed: int) -> str:
    room, on_cpu = m.room, m.decoding.cpu_bytes
    each = f"{count(m.setup.context)} tokens" if m.setup.context else "its context"
    slots = m.setup.slots or 1
    whose = f"{slots} slots of {each}" if slots > 1 and not m.setup.kv_unified else f"A context of {each}"
    size = "" if on_cpu is None else f" ({gib(on_cpu)} GiB)"
    of = m.setup.layers_offloadable
    then = "all layers" if freed == missing else f"about {freed} more"
    needed = f"99 of 100 requests stayed within {count(room.longest_tokens)} tokens"
    if room.at_once and slots > 1:
        needed += f", and at most {room.at_once} ran at once"
    said = (
        f"{whose} take{'s' if whose.startswith('A') else ''} {gib(room.kv_bytes)} GiB of KV cache, while "
        f"{missing} of {of} layers{size} run on the CPU. {needed}: a cache for that takes "
        f"{gib(room.used_kv_bytes)} GiB and leaves room for {then}."
    )
    return said if freed == missing else said + fitting(room)


def _evidence(m: Measures, missing: int, freed: int) -> Iterator[Evidence]:
    room = m.room
    yield m.stated("kv_bytes", "KV cache", unit="bytes")
    yield m.evidence("KV cache that this load needs", round(room.used_kv_bytes), "bytes")
    yield m.stated("layers_offloaded", f"layers on the GPU, of {m.setup.layers_offloadable}", unit="layers")
    yield m.evidence(f"layers it would make room for, of {missing}", freed, "layers")
    if m.setup.slots:
        yield m.stated("slots", "slots")
    if room.at_once is not None:
        yield m.evidence("most requests at once", room.at_once, "requests")
    if m.setup.context:
        yield m.stated("context", "context of a request", unit="tokens")
    longest = m.generations.sort("prompt_tokens", descending=True, nulls_last=True)
    yield m.evidence("prompt and answer, 99th percentile", room.longest_tokens, "tokens", rows=longest)


def _fixes(m: Measures, *, all_layers: bool) -> Iterator[Fix]:
    yield from m.room.smaller_cache()
    if all_layers:
        yield m.fix("more-layers")
    else:
        yield from m.room.smaller_file()
