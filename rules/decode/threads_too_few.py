"""Most cores stand idle while a few threads generate.

What it looks at:
    Weights on the CPU and threads (logged) for at most half of the physical cores (`--cores`; without it as
    few as the logged hardware threads can be), while decode reads less than half of the memory's bandwidth.
    Where the bandwidth is not known, fewer than four threads.

Why it matters:
    One core can't read memory at its full speed: an i7-14700K decoded an 8B model at 4.6 tok/s with one
    thread, 8.6 with two, 13.4 with four and 13.9 with eight. Reading prompts gains from every core.

When not to worry:
    From about four threads on a desktop the memory is the limit and more threads change nothing. Nor where
    the other cores are kept for something else.

What to change:
    As many threads as physical cores, or performance cores where there are two kinds. The saving is an upper
    bound: time falls with the number of threads until the memory is the limit.

Sources:
    llama.cpp#12966 (one to twenty threads), llama.cpp tools/server/README.md (-t, -tb).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.cpu import GIVE_CORES
from rules.rule import CannotTell, Confidence, NotApplicable, Phase, Rule, Threshold
from rules.savings import decode_limited, prefill_scaled, together
from rules.words import percent, plural

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.rule import Answer
    from rules.savings import Change

RULE = Rule(
    id="threads-too-few",
    phase=Phase.DECODE,
    title="Too few threads generate",
    needs=("threads", "decode_ms"),
    remedies=("more-threads",),
    verify="Run the same questions with more threads: ms per token should fall, and prefill more than decode."
    "",
    sources=("llama.cpp#12966", "llama.cpp tools/server/README.md"),
    thresholds={
        "core_share": Threshold(0.5, "threads over physical cores up to which they are few, 0-1; a guess"),
        "enough_threads": Threshold(
            4, "threads that use up a desktop's memory bandwidth where it is not known (llama.cpp#12966)"
        ),
        "reached_below": Threshold(
            0.5,
            "share of the memory's bandwidth, 0-1: eight threads of an i7-14700K reach 0.76, two 0.47, one "
            "0.25",
        ),
        "most_reach": Threshold(
            0.8, "the most of its memory's bandwidth that a CPU was seen to decode at, 0-1 (0.74 to 0.78)"
        ),
    },
)


def check(m: Measures) -> Answer:
    """Ask whether more threads would read faster."""
    if m.cpu.elsewhere is not None:
        return m.cpu.elsewhere
    threads, cores, reached, t = m.setup.threads, m.cpu.least_cores, m.cpu.reached, m.thresholds(RULE)
    if threads is None:
        return CannotTell("the number of threads is not logged")
    if m.cpu.paging:
        return NotApplicable("the weights do not fit in main memory, and that comes first")
    if reached is not None and reached >= t["reached_below"]:
        return NotApplicable(f"decode reads at {percent(reached)} of the memory's bandwidth")
    if cores is None:
        return CannotTell(GIVE_CORES)
    if threads > t["core_share"] * cores:
        most = m.cpu.most_cores or cores
        return (
            NotApplicable("most cores work") if threads > t["core_share"] * most else CannotTell(GIVE_CORES)
        )
    if reached is None and threads >= t["enough_threads"]:
        return CannotTell("whether memory is the limit is not known (--bandwidth tells)")
    change = _all_cores(m, threads, t["most_reach"])
    saving = m.saving(change, bound="at_most")
    rows = m.generations.drop_nulls("decode_ms")
    if not m.worth(saving.ms, rows.height):
        return NotApplicable("too little time to matter")
    counted = f"{cores} cores" if m.cpu.cores else f"at least {cores} cores"
    used = (
        f"fewer than {t['enough_threads']:.0f} rarely use up what the memory delivers."
        if reached is None
        else f"{percent(reached)} of the memory's bandwidth is in use, and more threads could use the rest."
    )
    return RULE.finding(
        confidence=Confidence.POSSIBLE if reached is None else Confidence.LIKELY,
        title=f"{plural(threads, 'thread')} on {counted}",
        why=f"{plural(threads, 'thread')} on {counted}: {used} Prompts are read faster with every core.",
        evidence=tuple(m.cpu.evidence()),
        requests=rows.height,
        change=change,
        saving=saving,
        fixes=(m.fix("more-threads", threads=cores),),
    )


def _all_cores(m: Measures, threads: int, most_reach: float) -> Change:
    """Decode by all cores as far as the memory allows, and prefill by all cores."""
    cores = m.cpu.most_cores or threads
    memory = (m.cpu.reached or 0.0) / most_reach
    readers = m.setup.threads_batch or threads
    return together(
        [decode_limited(m.ledger, max(threads / cores, memory)), prefill_scaled(min(readers / cores, 1.0))]
    )
