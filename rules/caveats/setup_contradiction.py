"""Two sources say different things about the setup.

What it looks at:
    What the log states beside what a model file (`--gguf`) or the server's own answer (`--props`) says.

Why it matters:
    A prediction from another model's size, or another context than the one that ran, is wrong.

When not to worry:
    When the log is of an earlier start than the server that answers now.

What to change:
    Give the file that this log's engine loaded. What the log states is used; the other is not.

Sources:
    llama.cpp tools/server/README.md (GET /props).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.rule import Caveat

if TYPE_CHECKING:
    from rules.measures import Measures

ID = "setup-contradiction"


def check(m: Measures) -> Caveat | None:
    """List what is disputed, both values with their origins."""
    told = [
        f"{fact} is {getattr(m.setup, fact)} by {m.setup.origin.get(fact, 'the log')} and {other}"
        for fact, other in m.setup.disputed.items()
    ]
    return Caveat(ID, f"{'; '.join(told)}: the first is used.") if told else None
