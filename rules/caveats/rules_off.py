"""Some rules are switched off.

What it looks at:
    `enable` and `disable` under `[rules]` of `phasewise.toml`.

Why it matters:
    What those rules would find is not found, and an empty page looks like health.

When not to worry:
    When they were switched off on purpose.

What to change:
    `phasewise rules` lists which are off.

Sources:
    `advisor/config.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.rule import Caveat

if TYPE_CHECKING:
    from rules.measures import Measures

ID = "rules-off"


def check(m: Measures) -> Caveat | None:
    """Say how many."""
    off = len(m.settings.disabled)
    if not off:
        return None
    are = "rule is" if off == 1 else "rules are"
    return Caveat(
        ID, f"{off} {are} switched off in phasewise.toml, and what they look for was not looked for."
    )
