"""Part of the model runs on the CPU because it does not fit the GPU.

What it looks at:
    The line `offloaded x/y layers to GPU`, weighed in bytes and not in layers: one output layer can be
    larger than all that is on the GPU. With the GPU's memory known, whether the weights, and the weights
    with the KV cache, would fit it at all.

Why it matters:
    GPU and CPU take turns for every token, and main memory is read ten times slower. A few layers on the
    CPU soon cost more than all the others together.

When not to worry:
    Experts of a mixture that were put on the CPU on purpose (`--n-cpu-moe`) while all layers count as
    offloaded: that is not this. Where whole layers of a mixture are on the CPU, `moe-on-cpu` has the better
    remedy. Nor when the model is used too rarely for its speed to matter.

What to change:
    What frees memory on the GPU. Where the weights would fit beside a smaller KV cache: fewer slots if more
    are kept than were ever in use, a smaller context, an 8-bit KV cache; a smaller file only if that is not
    enough. Then all layers on the GPU. If the weights alone leave no room, only a smaller file gives full
    offload, and less context only adds layers; the saving is then a bound. A file of less than 4 bits a
    weight costs more quality than a smaller model of the same size, so that comes first.

Sources:
    ollama#8393 (GPU waits for CPU), ollama#9181 and ollama#15634 (what fills the GPU), ollama#5756 (slots).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.decode import moe_on_cpu
from rules.room import LEAST_BITS, gib
from rules.rule import CannotTell, Confidence, NotApplicable, Phase, Rule
from rules.savings import decode_limited

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rules.measures import Measures
    from rules.remedies import Fix
    from rules.room import Room
    from rules.rule import Answer, Bound, Evidence

RULE = Rule(
    id="partial-offload",
    explains=("prefill-dominates-long-prompt", "rag-chunks-too-many"),
    phase=Phase.DECODE,
    title="Part of the model runs on the CPU",
    needs=("layers_offloaded", "layers_offloadable"),
    remedies=(
        "fewer-slots",
        "smaller-context",
        "quantise-kv",
        "weights-that-fit",
        "model-that-fits",
        "few-bits",
        "smaller-quant",
        "smaller-model",
        "more-layers",
    ),
    verify="The log should say that all layers are offloaded, and ms per token should fall several times.",
    sources=("ollama#8393", "ollama#9181", "ollama#15634", "ollama#5756"),
)

FASTEST_GPU = 50.0
"""Read rate of the fastest GPUs over that of slow main memory: bounds what the CPU's part can cost."""


def check(m: Measures) -> Answer:
    """Ask whether the CPU has a part in every token."""
    on_gpu, layers = m.setup.layers_offloaded, m.setup.layers_offloadable
    if on_gpu is None or layers is None:
        return CannotTell("the log does not say how many layers are on the GPU")
    if on_gpu >= layers:
        return NotApplicable("all layers are on the GPU")
    if on_gpu == 0:
        return NotApplicable("nothing is on the GPU; that is cpu-only")
    if m.finds(moe_on_cpu):
        return NotApplicable("only experts should be on the CPU; moe-on-cpu says it")
    rows = m.generations.drop_nulls("decode_ms")
    decode_ms = float(rows["decode_ms"].sum())
    if rows.height and not m.worth(decode_ms, rows.height):
        return NotApplicable("generating takes too little time to matter")
    factor, bound = decode_factor(m, 0)
    change = decode_limited(m.ledger, factor)
    saving = m.saving(change, bound=bound) if rows.height else None
    if saving is not None and not m.worth(saving.ms, rows.height):
        return NotApplicable("generating is as fast as with all layers on the GPU")
    return RULE.finding(
        confidence=Confidence.CERTAIN,
        title=f"{layers - on_gpu} of {layers} layers run on the CPU",
        why=f"{_weighed(m)}{fitting(m.room)}",
        evidence=tuple(_evidence(m)),
        requests=rows.height,
        saving=saving,
        change=None if saving is None else change,
        fixes=tuple(_fixes(m)),
        wont_help=("More threads: the CPU's part waits for main memory, not for cores.",),
    )


def _weighed(m: Measures) -> str:
    on_gpu, layers = m.setup.layers_offloaded, m.setup.layers_offloadable
    cpu, weights = m.decoding.cpu_bytes, m.setup.weights_bytes
    said = f"{on_gpu} of {layers} layers are on the GPU. "
    size = "" if cpu is None else f", {gib(cpu)}{f' of {gib(weights)}' if weights else ''} GiB,"
    said += f"The CPU reads the rest{size} from main memory for every token while the GPU waits."
    if m.ms_per_token is not None:
        said += f" A token takes {m.ms_per_token:,.0f} ms."
    return said


def fitting(room: Room) -> str:
    """Whether the weights alone, or with the KV cache, would fit the GPU; empty where that is not known."""
    if room.weights_bytes is None or room.vram_bytes is None or room.all_fits is None:
        return ""
    weights, total = gib(room.weights_bytes), gib(room.vram_bytes)
    if not room.weights_fit:
        beside = (
            f" for the {gib(room.kv_bytes)} GiB of KV cache and for compute buffers" if room.kv_bytes else ""
        )
        bits = room.fitting_bits
        needs = "quantization" if bits is None or bits >= LEAST_BITS else f"model or {bits:.1f} bits a weight"
        return (
            f" Weights of {weights} GiB leave no room on {total} GiB{beside}: full offload needs a smaller "
            f"{needs}, and a smaller context only adds layers."
        )
    if not room.all_fits:
        beside = f"{gib(room.kv_bytes)} GiB of KV cache and the compute buffers"
        return f" The weights ({weights} GiB) would fit {total} GiB, but not beside {beside}."
    return f" All {weights} GiB would fit {total} GiB."


def _evidence(m: Measures) -> Iterator[Evidence]:
    layers = m.setup.layers_offloadable
    yield m.stated("layers_offloaded", f"layers on the GPU, of {layers}", unit="layers")
    if m.decoding.cpu_bytes is not None:
        yield m.evidence("weights on the CPU", round(m.decoding.cpu_bytes), "bytes")
    if m.setup.weights_bytes is not None:
        yield m.stated("weights_bytes", "all weights", unit="bytes")
    if m.setup.kv_bytes is not None:
        yield m.stated("kv_bytes", "KV cache", unit="bytes")
    if m.room.vram_bytes is not None:
        yield m.evidence("GPU memory", m.room.vram_bytes, "bytes")
    if m.ms_per_token is not None:
        yield m.evidence("time per token, median", round(m.ms_per_token, 2), "ms", rows=m.valid_decode)
    if (predicted := m.decoding.predicted_ms()) is not None:
        yield m.evidence("predicted with all layers on the GPU", round(predicted, 2), "ms")


def decode_factor(m: Measures, layers_left: int) -> tuple[float, Bound]:
    """Time per token with only so many layers left on the CPU over the time now, and how sure that is.

    Where the time of a token with everything on the GPU can be predicted, what it takes longer than the GPU's
    part is the CPU's. Else the CPU's part is taken to cost as much as it can (`FASTEST_GPU`). Where the
    weights do not fit the GPU, none are left on the CPU only of the largest file that does.
    """
    d = m.decoding
    missing = (m.setup.layers_offloadable or 0) - (m.setup.layers_offloaded or 0)
    share = _cpu_share(m)
    left = share * layers_left / missing if missing else 0.0
    now_ms, all_ms = d.ms_per_token or m.ms_per_token, d.predicted_ms()
    if now_ms is not None and all_ms is not None:
        if not layers_left and m.room.weights_fit is False:
            return min((d.predicted_ms(m.room.fitting_bytes) or all_ms) / now_ms, 1.0), "at_most"
        cpu_ms = max(now_ms - all_ms * (1 - share), 0.0)
        then_ms = all_ms * (1 - left) + (cpu_ms * left / share if share else 0.0)
        return min(then_ms / now_ms, 1.0), "estimate" if m.room.vram_bytes is not None else "at_most"
    return (1 - left + FASTEST_GPU * left) / (1 - share + FASTEST_GPU * share), "at_most"


def _cpu_share(m: Measures) -> float:
    """Share of the weights that the CPU reads, 0-1."""
    weights, on_cpu = m.setup.weights_bytes, m.decoding.cpu_bytes
    if weights and on_cpu is not None:
        return min(on_cpu / weights, 1.0)
    return 1 - (m.setup.layers_offloaded or 0) / (m.setup.layers_offloadable or 1)


def _fixes(m: Measures) -> Iterator[Fix]:
    """What frees enough memory first."""
    room = m.room
    if room.weights_fit is False:
        yield from room.smaller_file()
        yield from room.smaller_cache()
    elif room.all_fits:
        yield m.fix("more-layers")
    elif room.weights_fit:
        yield from room.smaller_cache()
        if not room.fits_beside(room.used_kv_bytes):
            yield from room.smaller_file()
        yield m.fix("more-layers")
    else:
        yield from room.fewer_slots()
        yield from room.smaller_context()
        yield from room.smaller_file()
        yield m.fix("quantise-kv")
        yield m.fix("more-layers")
