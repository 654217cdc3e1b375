"""The inputs tell of the same requests more than once.

What it looks at:
    Requests with the same tokens and the same times in more than one of the inputs, or to the last digit in
    one of them, where that is so of nearly all.

Why it matters:
    Counted twice they would double the time, and a copy of a log would look like load.

When not to worry:
    Each is counted once.

What to change:
    Give each log once; leave out copies, and what clients saved of the same answers.

Sources:
    `advisor/repeated.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.rule import Caveat
from rules.words import plural

if TYPE_CHECKING:
    from rules.measures import Measures

ID = "repeated-requests"


def check(m: Measures) -> Caveat | None:
    """Say how many."""
    repeated = m.counts.repeated_requests
    if not repeated:
        return None
    stand = "stands" if repeated == 1 else "stand"
    said = f"{plural(repeated, 'request')} {stand} more than once in the inputs; each counts once."
    return Caveat(ID, said, of_all=True)
