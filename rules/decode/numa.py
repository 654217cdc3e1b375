"""Two or more sockets, and decode reads as if there were one.

What it looks at:
    Weights on the CPU of a machine with two sockets or more (`--sockets`), and the share of all sockets'
    memory bandwidth (`--bandwidth`) that decode reaches: below what one socket could give, or half.

Why it matters:
    A page of memory belongs to the socket whose thread touched it first. A model that was loaded or warmed
    up by other threads than those that read it now is read across the link between the sockets, or all of
    it from one socket's memory. On two EPYC 9175F a 70B model in F16 went from 2.4 to 4.31 tok/s when its
    pages were spread.

When not to worry:
    A machine whose firmware shows one node for all sockets and spreads pages by itself. Too few threads for
    all sockets look the same; where the cores are not known this is only possible.

What to change:
    Drop the page cache, start with `--numa distribute` and let the first work be generating. The saving is
    an upper bound: the share of the bandwidth that the machine above reached then, 74 %.

Sources:
    llama.cpp#11744 (measured), llama.cpp#1437 and llama.cpp#5377 (how pages find their socket).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.rule import CannotTell, Confidence, NotApplicable, Phase, Rule, Threshold
from rules.savings import decode_limited
from rules.words import percent

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.rule import Answer

RULE = Rule(
    id="numa",
    phase=Phase.DECODE,
    title="The memory of one socket seems to do all the work",
    needs=("weights_bytes", "decode_ms"),
    remedies=("numa-distribute",),
    verify="numastat -p shows on which node the process's pages are: after the change they are spread "
    "evenly, and ms per token falls.",
    sources=("llama.cpp#11744", "llama.cpp#1437", "llama.cpp#5377"),
    thresholds={
        "reached_below": Threshold(
            0.5,
            "share of all sockets' bandwidth, 0-1: half of two sockets is one. Measured before the fix 0.41, "
            "after it 0.74 (llama.cpp#11744)",
        ),
        "spread_reach": Threshold(
            0.74, "share of all sockets' bandwidth that spread pages reach, 0-1 (llama.cpp#11744)"
        ),
    },
)


def check(m: Measures) -> Answer:
    """Ask whether the sockets share the reading."""
    if m.cpu.elsewhere is not None:
        return m.cpu.elsewhere
    sockets = m.machine.sockets
    if sockets is None:
        return CannotTell("the number of sockets is not logged (--sockets gives it)")
    if sockets < 2:
        return NotApplicable("there is one socket")
    if m.cpu.paging:
        return NotApplicable("the weights do not fit in main memory, and that comes first")
    reached = m.cpu.reached
    if reached is None:
        return CannotTell("the bandwidth of all sockets together is not known (--bandwidth gives it)")
    t = m.thresholds(RULE)
    if reached >= t["reached_below"]:
        return NotApplicable(f"decode reads at {percent(reached)} of all sockets' bandwidth")
    change = decode_limited(m.ledger, reached / t["spread_reach"])
    saving = m.saving(change, bound="at_most")
    rows = m.generations.drop_nulls("decode_ms")
    if not m.worth(saving.ms, rows.height):
        return NotApplicable("too little time to matter")
    threads, cores = m.setup.threads, m.cpu.cores
    enough = threads is not None and cores is not None and 2 * threads > cores
    return RULE.finding(
        confidence=Confidence.LIKELY if enough else Confidence.POSSIBLE,
        why=f"A token takes {m.decoding.ms_per_token or 0:,.0f} ms and reads "
        f"{m.decoding.read_gb_s or 0:,.0f} of the {m.bandwidth_gb_s or 0:,.0f} GB/s that {sockets} sockets "
        f"have together, {percent(reached)}: what one socket could "
        f"give{'' if enough else ', if there are threads enough for all of them'}.",
        evidence=(
            *m.cpu.evidence(),
            m.stated("weights_bytes", "weights, read once for each token", unit="bytes"),
            m.evidence("sockets", sockets),
        ),
        requests=rows.height,
        change=change,
        saving=saving,
        fixes=(m.fix("numa-distribute"),),
        wont_help=("--numa distribute alone: pages in the page cache stay where the last process put them.",),
    )
