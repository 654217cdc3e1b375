"""Everything runs on the CPU.

What it looks at:
    `offloaded 0/y layers to GPU`, weights only in CPU buffers, or a device list without any GPU. A log that
    hides the model's header says nothing either way.

Why it matters:
    A GPU reads its memory ten times faster than a CPU reads main memory, and every token reads all weights.
    Prompts are read tens of times faster. A driver, container or build without GPU support leaves the GPU
    idle without an error.

When not to worry:
    The machine has no GPU, or it is kept for something else. Then this is what the CPU does, and not a
    fault. A log that names no GPU can't tell, so there it is only possible that one is idle.

What to change:
    Check what the engine sees of the GPU, then offload all layers.

Sources:
    Ollama docs/troubleshooting.mdx; llama.cpp docs/build.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.evidence import stated
from rules.rule import CannotTell, Confidence, Evidence, NotApplicable, Phase, Rule
from rules.savings import decode_scaled

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.rule import Answer

RULE = Rule(
    id="cpu-only",
    phase=Phase.DECODE,
    title="Everything runs on the CPU",
    remedies=("more-layers", "use-gpu"),
    explains=("prefill-dominates-long-prompt", "rag-chunks-too-many"),
    verify="The header should name a GPU and say that all layers are offloaded; ms per token should fall.",
    sources=("Ollama docs/troubleshooting.mdx", "llama.cpp docs/build.md"),
)

MOSTLY = 0.5
"""Share of all time from which decode stands for the whole; what a GPU would save of prefill no log says."""

_LOOK = (
    "See whether the machine has a GPU that its system lists (nvidia-smi, rocm-smi, vulkaninfo --summary)."
)


def check(m: Measures) -> Answer:
    """Ask whether a GPU has any part in this."""
    listed = m.hardware.gpus
    if not m.requests.height and not m.intervals.height:
        return NotApplicable("nothing was served")
    if m.hardware.on_cpu is False:
        return NotApplicable("weights are on a GPU")
    seen = _seen(m)
    if seen is None:
        return CannotTell("the log hides where the weights are")
    confidence, evidence = seen
    rows = m.generations.drop_nulls("decode_ms")
    gpu = listed[0].name if listed else None
    if m.machine.device:
        gpu = m.machine.device if m.hardware.gpu else None
    now, then = m.ms_per_token, m.decoding.predicted_ms() if gpu else None
    mostly_decode = m.share(Phase.DECODE) >= MOSTLY
    change = decode_scaled(then / now) if now and then and mostly_decode else None
    sure = confidence is Confidence.CERTAIN
    why = (
        "All weights are on the CPU" if sure else "The log names no GPU, so all weights seem to be on the CPU"
    )
    why += f", at {now:,.1f} ms a token" if now else ""
    why += (
        f", although this machine has a GPU ({gpu})." if gpu else ". If this machine has a GPU, it is idle."
    )
    if now and then:
        why += f" There a token would take about {then:,.1f} ms, and prompts would be read faster still."
    return RULE.finding(
        confidence=confidence if gpu else Confidence.POSSIBLE,
        title=RULE.title if gpu else "Everything runs on the CPU: a GPU, if there is one, is idle",
        why=why,
        evidence=(
            evidence,
            *(
                [m.evidence("time per token, median", round(now, 2), "ms", rows=m.valid_decode)]
                if now
                else []
            ),
        ),
        requests=rows.height,
        saving=m.saving(change) if change else None,
        change=change,
        fixes=(m.fix("more-layers" if listed else "use-gpu"),),
        fault=gpu is not None,
        verify=None if gpu else _LOOK,
    )


def _seen(m: Measures) -> tuple[Confidence, Evidence] | None:
    """What says that no weights are on a GPU."""
    header = m.logged
    if not m.hardware.on_cpu:
        return None
    if header.layers_offloaded == 0:
        offloaded = f"0 of {header.layers_offloadable}" if header.layers_offloadable else "0"
        return Confidence.CERTAIN, stated(header, "layers_offloaded", "layers on the GPU", offloaded)
    if header.cpu_weights_bytes:
        size = header.cpu_weights_bytes
        return Confidence.CERTAIN, stated(
            header, "cpu_weights_bytes", "weights, all on the CPU", size, "bytes"
        )
    names = ", ".join(d.name for d in header.devices)
    return Confidence.LIKELY, stated(header, "devices", "devices, no GPU among them", names)
