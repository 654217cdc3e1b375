"""Fits of a large log are of a sample.

What it looks at:
    How many requests are long enough to give a rate of prefill or of decode: a fit of times to tokens takes
    no more than 20,000 of them, of each equally long stretch of the log one.

Why it matters:
    A predicted prefill, a slope of decode over the context and a what-if are from these. Totals, shares,
    medians and percentiles are of all requests.

When not to worry:
    Always, but for a few requests of a rare kind: of so many samples a fit's interval is below one percent.

What to change:
    Nothing; to see a part of the log closer, filter it: `--since`, `--until`, `--model`.

Sources:
    `rules.lines.evenly` takes the sample, the same each time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.lines import MOST_SAMPLES
from rules.rule import Caveat
from rules.words import count

if TYPE_CHECKING:
    from rules.measures import Measures

ID = "sampled-fits"


def check(m: Measures) -> Caveat | None:
    """Say how many there are."""
    most = max(m.prefill_samples, m.decode_samples)
    if most <= MOST_SAMPLES:
        return None
    return Caveat(
        ID,
        f"Fits of times to tokens are of at most {count(MOST_SAMPLES)} of {count(most)} requests, spread "
        "over the log. Totals, shares and percentiles are of all.",
    )
