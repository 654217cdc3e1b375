"""Prompts are read several times slower while other requests run.

What it looks at:
    Prompts that were read beside other requests, against what this log's prompts that were read alone say
    they should take. At least three of each, by the clock of the log.

Why it matters:
    A prompt shares its batches with whoever else is there: other prompts, and a token of each running
    answer. The reader of one request waits for the others' work too.

When not to worry:
    Nothing is lost: the GPU does the others' work in that time. It matters where one reader's first token
    counts more than how many requests an hour get through.

What to change:
    Let fewer requests run at once, or send long prompts when it is quiet; else accept it. No saving is
    claimed, since what one request gains, another waits.

Sources:
    Sarathi-Serve, arXiv:2403.02310 (chunks of prompts and tokens of answers in one batch).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rules.clocks import unplaced
from rules.fits import alone, on_one_setup
from rules.prefilling import usual_ms
from rules.rule import CannotTell, Confidence, NotApplicable, Phase, Rule, Threshold
from rules.words import count, duration

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.rule import Answer

RULE = Rule(
    id="prefill-slowed-by-concurrency",
    phase=Phase.PREFILL,
    title="Prompts are read slower beside other requests",
    needs=("prefill_tokens", "prefill_ms", "started_at"),
    remedies=("fewer-sequences",),
    verify="Send one long prompt while nothing else runs: it should be read in the time of those alone.",
    sources=("arXiv:2403.02310",),
    thresholds={
        "slowdown": Threshold(2.0, "times as long as alone from which it is said"),
        "samples": Threshold(3, "prompts alone, and prompts beside others, that are needed"),
    },
    fault=False,
)


def check(m: Measures) -> Answer:
    """Ask whether company makes reading a prompt slow."""
    t = m.thresholds(RULE)
    if m.serial:
        return NotApplicable("no two requests ran at once")
    if not m.overlap.known:
        return CannotTell(unplaced(m))
    valid = on_one_setup(m, m.valid_prefill)
    solo = alone(m, valid)
    beside = valid.join(m.overlap.alone, on=["source", "line"], how="anti")
    if min(solo.height, beside.height) < t["samples"]:
        return CannotTell("too few prompts were read alone, or beside others, to compare")
    read_ms, expected_ms = beside["prefill_ms"].to_numpy(), usual_ms(solo, beside)
    if expected_ms is None:
        return CannotTell("no prompt was read alone")
    slowdown = float(np.median(read_ms / expected_ms))
    if slowdown < t["slowdown"]:
        return NotApplicable(f"beside others, a prompt takes {slowdown:.1f} times as long as alone")
    longer_ms = float(np.maximum(read_ms - expected_ms, 0.0).sum())
    if not m.worth(longer_ms, beside.height):
        return NotApplicable("too little time to matter")
    most = m.overlap.most or 2
    return RULE.finding(
        confidence=Confidence.LIKELY,
        why=f"{beside.height:,} prompts were read beside other requests and took {slowdown:.1f} times as "
        f"long as this log's {solo.height:,} prompts that were read alone: {duration(longer_ms)} more in "
        f"all. Up to {count(most)} requests ran at once.",
        evidence=(
            m.evidence(
                "time beside others over time alone, median", round(slowdown, 2), "times", rows=beside
            ),
            m.evidence("read alone", solo.height, "prompts", rows=solo),
            m.evidence("most requests at once", most, "requests"),
        ),
        requests=beside.height,
        fixes=(m.fix("fewer-sequences", slots=max(min(most, m.setup.slots or most) // 2, 1)),),
        wont_help=("A change of the model's placement: alone, these prompts are read at full speed.",),
    )
