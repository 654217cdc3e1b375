"""Some times or counts are not logged, which does not make them 0.

What it looks at:
    Cached tokens and queue time that are unknown for some requests: cached tokens always, queue time where
    the log gives it for others. Load times are no matter here: engines print them where there was a load.

Why it matters:
    Sums and shares leave unknown times out, and rules that need them say nothing.

When not to worry:
    When it is a handful of requests out of many.

What to change:
    Raise the log level; the text names the switch.

Sources:
    `phasewise` gives a value only where the log states it or it follows by arithmetic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.caveats.log_hides_timings import switch
from rules.remedies import has_switch
from rules.rule import Caveat

if TYPE_CHECKING:
    from rules.measures import Measures

ID = "unknown-is-not-zero"

CACHED = "log-cached-tokens"
FULL_VERBOSITY = 4


def check(m: Measures) -> Caveat | None:
    """Name each unknown once, and the switch that makes it known."""
    rows = m.generations
    if not m.attribution.split:
        return None
    cached, queue = rows["cached_tokens"].null_count(), rows["queue_ms"].null_count()
    unknown = {"cached tokens": cached, "queue time": queue if queue < rows.height else 0}
    named = [f"{name} of {n}" for name, n in unknown.items() if n]
    if not named:
        return None
    said = f"Not logged, which is not 0: {', '.join(named)} of {rows.height:,} requests."
    full = m.setup.verbosity is not None and m.setup.verbosity >= FULL_VERBOSITY
    if unknown["cached tokens"] and has_switch(CACHED, m.engine) and not full:
        said += f" Cached tokens are told by {switch(m, CACHED)}."
    return Caveat(ID, said)
