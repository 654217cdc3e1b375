"""More threads generate than there are cores.

What it looks at:
    Weights on the CPU, and threads (logged) beside physical cores (`--cores`) or the hardware threads that
    the log counts. Two hardware threads may share a core, and no log says so: without `--cores` only more
    threads than hardware threads tell.

Why it matters:
    All threads wait for the slowest after each matrix, so two that share a core hold all of them up. An
    i9-13900K with 8 performance cores decoded at 18.3 tok/s with 8 threads and 15.7 with 16; a Ryzen 5700G
    with 8 cores took 112 ms a token with 8 threads and 133 with 12. There are reports of 9 tok/s with as many
    threads as cores and 2.5 with twice as many.

When not to worry:
    Where decode reads the memory at its full speed already: then more threads change nothing.

What to change:
    As many threads as physical cores, or performance cores where there are two kinds. Reading prompts may
    keep more (-tb). The saving is an upper bound, and only given where the memory's bandwidth is known.

Sources:
    llama.cpp#34 and llama.cpp#39 (measured), llama.cpp#20020 (-t -1 takes hardware threads), llama.cpp#11247.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.cpu import GIVE_CORES
from rules.rule import CannotTell, Confidence, NotApplicable, Phase, Rule, Threshold
from rules.savings import decode_limited
from rules.words import percent

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.rule import Answer

RULE = Rule(
    id="threads-too-many",
    phase=Phase.DECODE,
    title="More threads generate than there are cores",
    needs=("threads", "decode_ms"),
    remedies=("fewer-threads",),
    verify="Run llama-bench -p 0 -n 64 -t with half of the threads, all of them, and the number of physical "
    "cores: the best of the three decides.",
    sources=("llama.cpp#34", "llama.cpp#39", "llama.cpp#20020", "llama.cpp#11247"),
    thresholds={
        "usual_loss": Threshold(
            0.14,
            "share of decode time that threads beyond the cores cost, 0-1, from which the gate decides "
            "whether it matters: 0.09 to 0.15 on an i9-13900K and a Ryzen 5700G (llama.cpp#34, llama.cpp#39)",
        ),
        "full_reach": Threshold(
            0.65, "share of the memory's bandwidth, 0-1, from which it is the limit and not the threads"
        ),
        "most_reach": Threshold(
            0.8, "the most of its memory's bandwidth that a CPU was seen to decode at, 0-1 (0.74 to 0.78)"
        ),
    },
)


def check(m: Measures) -> Answer:
    """Ask whether threads stand in each other's way."""
    if m.cpu.elsewhere is not None:
        return m.cpu.elsewhere
    threads, hardware, cores = m.setup.threads, m.setup.threads_available, m.cpu.cores
    reached, t = m.cpu.reached, m.thresholds(RULE)
    if threads is None:
        return CannotTell("the number of threads is not logged")
    if reached is not None and reached >= t["full_reach"]:
        return NotApplicable(f"decode reads at {percent(reached)} of the memory's bandwidth")
    if m.cpu.paging:
        return NotApplicable("the weights do not fit in main memory, and that comes first")
    limit = cores or hardware
    if limit is None:
        return CannotTell(GIVE_CORES)
    if threads <= limit:
        surely = cores is not None or threads <= (m.cpu.least_cores or 0)
        return NotApplicable("each thread has a core") if surely else CannotTell(GIVE_CORES)
    rows = m.generations.drop_nulls("decode_ms")
    if not m.worth(t["usual_loss"] * float(rows["decode_ms"].sum()), rows.height):
        return NotApplicable("too little time to matter")
    change = None if reached is None else decode_limited(m.ledger, reached / t["most_reach"])
    crowded = hardware is not None and threads > hardware
    shared = f"{hardware} hardware threads" if crowded else f"{limit} physical cores"
    return RULE.finding(
        confidence=Confidence.LIKELY if crowded else Confidence.POSSIBLE,
        title=f"{threads} threads generate on {shared}",
        why=f"{threads} threads share {shared} and wait for each other after each matrix. Elsewhere threads "
        "beyond the cores made decode 9 to 15 % slower, and at times several times.",
        evidence=tuple(m.cpu.evidence()),
        requests=rows.height,
        change=change,
        saving=None if change is None else m.saving(change, bound="at_most"),
        fixes=(m.fix("fewer-threads", threads=limit),),
    )
