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
    offloaded: that is not this. Nor when the model is used too rarely for its speed to matter.

What to change:
    What frees memory on the GPU. Where the weights would fit beside a smaller KV cache: fewer slots if more
    are kept than were ever in use, a smaller context, an 8-bit KV cache; a smaller file only if that is not
    enough. Then all layers on the GPU. If the weights alone leave no room, only a smaller file gives full
    offload, and less context only adds layers.

Sources:
    ollama#8393 (GPU waits for CPU), ollama#9181 and ollama#15634 (what fills the GPU), ollama#5756 (slots).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rules.rule import CannotTell, Confidence, NotApplicable, Phase, Rule
from rules.savings import decode_scaled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rules.measures import Measures
    from rules.remedies import Fix
    from rules.rule import Answer, Bound, Evidence

RULE = Rule(
    id="partial-offload",
    phase=Phase.DECODE,
    title="Part of the model runs on the CPU",
    needs=("layers_offloaded", "layers_offloadable"),
    remedies=(
        "fewer-slots",
        "smaller-context",
        "quantise-kv",
        "weights-that-fit",
        "smaller-quant",
        "smaller-model",
        "more-layers",
    ),
    verify="The log should say that all layers are offloaded, and ms per token should fall several times.",
    sources=("ollama#8393", "ollama#9181", "ollama#15634", "ollama#5756"),
)

GPU_MARGIN_BYTES = 1 << 30
"""Left free on each GPU for compute buffers and the display; llama.cpp's own --fit-target."""

FASTEST_GPU = 50.0
"""Read rate of the fastest GPUs over that of slow main memory: bounds what the CPU's part can cost."""

CONTEXT_SLACK = 1.2
SMALLEST_CONTEXT = 2_048


@dataclass(frozen=True, slots=True)
class _Room:
    """GPU memory beside what wants to be in it, in bytes; ``total`` is None where it is not known."""

    total: int | None
    gpus: int
    weights: int | None
    kv: int

    @property
    def usable(self) -> int | None:
        return None if self.total is None else self.total - self.gpus * GPU_MARGIN_BYTES

    @property
    def weights_fit(self) -> bool | None:
        return None if self.usable is None or self.weights is None else self.weights <= self.usable

    @property
    def all_fits(self) -> bool | None:
        return self.fits_beside(self.kv)

    def fits_beside(self, kv: float) -> bool | None:
        return None if self.usable is None or self.weights is None else self.weights + kv <= self.usable


def check(m: Measures) -> Answer:
    """Ask whether the CPU has a part in every token."""
    on_gpu, layers = m.setup.layers_offloaded, m.setup.layers_offloadable
    if on_gpu is None or layers is None:
        return CannotTell("the log does not say how many layers are on the GPU")
    if on_gpu >= layers:
        return NotApplicable("all layers are on the GPU")
    if on_gpu == 0:
        return NotApplicable("nothing is on the GPU; that is cpu-only")
    rows = m.generations.drop_nulls("decode_ms")
    decode_ms = float(rows["decode_ms"].sum())
    if rows.height and not m.worth(decode_ms, rows.height):
        return NotApplicable("generating takes too little time to matter")
    room = _room(m)
    factor, bound = _all_on_gpu(m, room)
    change = decode_scaled(factor)
    saving = m.saving(change, bound=bound) if rows.height else None
    if saving is not None and not m.worth(saving.ms, rows.height):
        return NotApplicable("generating is as fast as with all layers on the GPU")
    return RULE.finding(
        confidence=Confidence.CERTAIN,
        title=f"{layers - on_gpu} of {layers} layers run on the CPU",
        why=f"{_weighed(m)}{_fitting(room)}",
        evidence=tuple(_evidence(m, room)),
        requests=rows.height,
        saving=saving,
        change=None if saving is None else change,
        fixes=tuple(_fixes(m, room)),
        wont_help=("More threads: the CPU's part waits for main memory, not for cores.",),
    )


def _weighed(m: Measures) -> str:
    on_gpu, layers = m.setup.layers_offloaded, m.setup.layers_offloadable
    cpu, weights = m.decoding.cpu_bytes, m.setup.weights_bytes
    said = f"{on_gpu} of {layers} layers are on the GPU. "
    size = "" if cpu is None else f", {_gib(cpu)}{f' of {_gib(weights)}' if weights else ''} GiB,"
    said += f"The CPU reads the rest{size} from main memory for every token while the GPU waits."
    if m.ms_per_token is not None:
        said += f" A token takes {m.ms_per_token:,.0f} ms."
    return said


def _fitting(room: _Room) -> str:
    if room.weights is None or room.total is None or room.all_fits is None:
        return ""
    weights, total = _gib(room.weights), _gib(room.total)
    if not room.weights_fit:
        beside = f" for the {_gib(room.kv)} GiB of KV cache and for compute buffers" if room.kv else ""
        return (
            f" Weights of {weights} GiB leave no room on {total} GiB{beside}: full offload needs a smaller "
            "quantization, and a smaller context only adds layers."
        )
    if not room.all_fits:
        beside = f"{_gib(room.kv)} GiB of KV cache and the compute buffers"
        return f" The weights ({weights} GiB) would fit {total} GiB, but not beside {beside}."
    return f" All {weights} GiB would fit {total} GiB."


def _evidence(m: Measures, room: _Room) -> Iterator[Evidence]:
    layers = m.setup.layers_offloadable
    yield m.stated("layers_offloaded", f"layers on the GPU, of {layers}", unit="layers")
    if m.decoding.cpu_bytes is not None:
        yield m.evidence("weights on the CPU", round(m.decoding.cpu_bytes), "bytes")
    if m.setup.weights_bytes is not None:
        yield m.stated("weights_bytes", "all weights", unit="bytes")
    if m.setup.kv_bytes is not None:
        yield m.stated("kv_bytes", "KV cache", unit="bytes")
    if room.total is not None:
        yield m.evidence("GPU memory", room.total, "bytes")
    if m.ms_per_token is not None:
        yield m.evidence("time per token, median", round(m.ms_per_token, 2), "ms", rows=m.valid_decode)
    if (predicted := m.decoding.predicted_ms()) is not None:
        yield m.evidence("predicted with all layers on the GPU", round(predicted, 2), "ms")


def _all_on_gpu(m: Measures, room: _Room) -> tuple[float, Bound]:
    """Time per token with everything on the GPU over the time now, and how sure that is."""
    d = m.decoding
    now, then = d.ms_per_token or m.ms_per_token, d.predicted_ms()
    if now is not None and then is not None:
        return min(then / now, 1.0), "estimate" if room.total is not None else "at_most"
    weights, on_cpu = m.setup.weights_bytes, d.cpu_bytes
    if weights and on_cpu is not None:
        share = min(on_cpu / weights, 1.0)
    else:
        share = 1 - (m.setup.layers_offloaded or 0) / (m.setup.layers_offloadable or 1)
    return 1 / (1 - share + FASTEST_GPU * share), "at_most"


def _fixes(m: Measures, room: _Room) -> Iterator[Fix]:
    """What frees enough memory first."""
    if room.weights_fit is False:
        yield from _smaller_file(m, room)
        yield from _smaller_cache(m)
    elif room.all_fits:
        yield m.fix("more-layers")
    elif room.weights_fit:
        yield from _smaller_cache(m)
        if not room.fits_beside(_used_kv(m, room)):
            yield from _smaller_file(m, room)
        yield m.fix("more-layers")
    else:
        yield from _smaller_context(m)
        yield from _smaller_file(m, room)
        yield m.fix("quantise-kv")
        yield m.fix("more-layers")


def _smaller_file(m: Measures, room: _Room) -> Iterator[Fix]:
    kv = _used_kv(m, room)
    if room.usable is not None and room.usable > kv:
        yield m.fix("weights-that-fit", gib=_gib(room.usable - kv))
    elif m.decoding.smaller_quant:
        yield m.fix("smaller-quant", to=m.decoding.smaller_quant)
    else:
        yield m.fix("smaller-model")


def _smaller_cache(m: Measures) -> Iterator[Fix]:
    """Slots that nobody uses, then context that nobody uses, then fewer bits for what is left."""
    slots, now = _used_slots(m), m.setup.slots
    context = _used_context(m) or m.setup.context
    if slots is not None and now is not None and slots < now and context is not None:
        yield m.fix(
            "fewer-slots", slots=slots, now=now, total=slots * min(context, m.setup.context or context)
        )
    yield from _smaller_context(m)
    yield m.fix("quantise-kv")


def _smaller_context(m: Measures) -> Iterator[Fix]:
    tokens, now = _used_context(m), m.setup.context
    if tokens is not None and (now is None or tokens < now):
        yield m.fix("smaller-context", tokens=tokens, total=tokens * (_used_slots(m) or 1))


def _used_slots(m: Measures) -> int | None:
    """Slots with a context of their own that this load needs: a power of two above what ran at once."""
    if m.setup.slots is None or m.setup.kv_unified:
        return None
    at_once = 1 if m.serial else m.concurrency
    return m.setup.slots if at_once is None else min(1 << at_once.bit_length(), m.setup.slots)


def _used_context(m: Measures) -> int | None:
    """A power of two that holds nearly every request seen, times those at once where slots share it."""
    used = (m.generations["prompt_tokens"] + m.generations["output_tokens"]).drop_nulls()
    longest = used.quantile(0.99)
    if longest is None:
        return None
    sharing = (m.concurrency or m.setup.slots or 1) if m.setup.kv_unified else 1
    return max(1 << int(longest * CONTEXT_SLACK * sharing).bit_length(), SMALLEST_CONTEXT)


def _used_kv(m: Measures, room: _Room) -> float:
    """KV cache of the slots and the context that this load needs, in bytes."""
    context, per_token = _used_context(m), m.setup.kv_bytes_per_token
    if context is None or per_token is None:
        return room.kv
    return min(
        per_token * min(context, m.setup.context or context) * (_used_slots(m) or 1), room.kv or math.inf
    )


def _room(m: Measures) -> _Room:
    gpus = max(len(m.hardware.gpus), 1)
    return _Room(m.hardware.vram_bytes, gpus, m.setup.weights_bytes, m.setup.kv_bytes or 0)


def _gib(n_bytes: float) -> str:
    return f"{n_bytes / 2**30:,.1f}"
