"""What physics, or the finding that a remedy is from, promises of each phase."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from advisor.runner.block import Block
    from advisor.runner.plan import Trying
    from rules.trials import Phase


@dataclass(frozen=True, slots=True)
class Promise:
    """Of one phase.

    Attributes:
        ratio: time after over before; ``None`` where no formula can tell.
        at_most: it is the most that the change can bring.
        basis: what it rests on, or why nothing can be told.
    """

    ratio: float | None
    at_most: bool = False
    basis: str = ""


Promises: TypeAlias = "dict[Phase, Promise]"


def promise(trying: Trying, before: Sequence[Block], after: Sequence[Block]) -> Promises:
    """What is to be expected of a remedy, from what was measured without it.

    Args:
        trying: the remedy.
        before: turns without it.
        after: turns with it, of which only the prompts count.
    """
