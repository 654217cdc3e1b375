"""What a knob is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from advisor.runner.arm import Arm


@dataclass(frozen=True, slots=True)
class Knob:
    """Something of an arm that can be changed.

    Attributes:
        name: as it is written before the ``=``.
        help: what it is, in one line.
        values: what it takes, in words.
        check: the value of a text; raises `values.WrongValueError`.
        turn: the arm with the value.
        aliases: other names, such as the switch of llama-server.
        needs: what both sides of a trial are turned to besides, such as ``flash=on``; empty for what an arm
            has already.
        against: what the side without it is turned to, where that is not the arm as it is.
    """

    name: str
    help: str
    values: str
    check: Callable[[str], Any]
    turn: Callable[[Arm, Any], Arm]
    aliases: tuple[str, ...] = ()
    needs: Callable[[Arm, Any], str] = lambda _arm, _value: ""
    against: Callable[[Any], str] = lambda _: ""


def setting(*fields: str) -> Callable[[Arm, Any], Arm]:
    """Turns settings of these names to the value."""

    def turn(arm: Arm, value: Any) -> Arm:
        return replace(arm, settings=replace(arm.settings, **dict.fromkeys(fields, value)))

    return turn
