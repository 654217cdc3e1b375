"""Two sources say different things about the setup.

What it looks at:
    What the log states beside what a model file (`--gguf`), the server's own answer (`--props`) or the user
    (`--device`) says.

Why it matters:
    A prediction from another model's size, or another context than the one that ran, is wrong.

When not to worry:
    When the log is of an earlier start than the server that answers now.

What to change:
    Give the file that this log's engine loaded, and the device that it ran on. What the log states is used
    and a file's or server's word is not; a device that the user names is believed.

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
        f"{fact} is {_shown(m, fact)} by {m.setup.origin.get(fact, 'the log')} and {other}"
        for fact, other in m.setup.disputed.items()
    ]
    return Caveat(ID, f"{'; '.join(told)}: the first is used.") if told else None


def _shown(m: Measures, fact: str) -> object:
    if fact == "devices":
        return ", ".join(device.name for device in m.setup.devices)
    return getattr(m.setup, fact)
