"""What a run is set to and a trial changes: ``--set KNOB=VALUE`` and ``--try KNOB=VALUE[,KNOB=VALUE]``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from advisor.errors import InputError
from advisor.runner.knobs.asking import ASKING
from advisor.runner.knobs.loading import LOADING
from advisor.runner.knobs.values import WrongValueError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from advisor.runner.arm import Arm
    from advisor.runner.knobs.knob import Knob

KNOBS: tuple[Knob, ...] = (*LOADING, *ASKING)
_NAMED = {name: knob for knob in KNOBS for name in (knob.name, *knob.aliases)}
_NEXT = re.compile(r",(?=\s*[\w-]+\s*=)")
"""A comma before another knob; one in a file's name is none."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A knob and what it is turned to.

    Attributes:
        knob: which.
        text: the value as it was given.
        value: the same, checked.
    """

    knob: Knob
    text: str
    value: Any

    @property
    def label(self) -> str:
        """As it is written."""
        return f"{self.knob.name}={self.text}"


@dataclass(frozen=True, slots=True)
class Change:
    """Knobs that are turned together.

    Attributes:
        turns: what was asked for, in order.
    """

    turns: tuple[Turn, ...] = ()

    @property
    def label(self) -> str:
        """As it is written: ``kv=q8_0,ubatch=1024``; empty for no change."""
        return ",".join(turn.label for turn in self.turns)

    @property
    def against(self) -> Change:
        """What the side without the change is turned to."""
        return Change(tuple(_following(turn.knob.against(turn.value) for turn in self.turns)))

    def baseline(self, arm: Arm) -> str:
        """What the side without the change is turned to, besides how the arm is; empty for nothing."""
        return ",".join(turn.label for turn in (*self._required(arm).turns, *self.against.turns))

    def apply(self, arm: Arm) -> Arm:
        """The arm with what is required and with the change.

        Raises:
            InputError: it can't be changed so.
        """
        after = self._turned(self._prepared(arm))
        if missing := self._needed(after):
            raise InputError(f"{self.label}: needs {missing[0].label}.")
        return after

    def sides(self, arm: Arm) -> tuple[Arm, Arm]:
        """The arms without and with the change.

        Raises:
            InputError: it can't be changed so, or nothing would differ.
        """
        before, after = self.against._turned(self._prepared(arm)), self.apply(arm)
        if before == after:
            raise InputError(f"{self.label}: that is how it runs already, so there is nothing to compare.")
        return before, after

    def _turned(self, arm: Arm) -> Arm:
        for turn in self.turns:
            arm = turn.knob.turn(arm, turn.value)
        return arm

    def _prepared(self, arm: Arm) -> Arm:
        return self._required(arm)._turned(arm)

    def _required(self, arm: Arm) -> Change:
        """What both sides of a trial need besides, so that nothing else differs between them."""
        asked = {turn.knob.name for turn in self.turns}
        return Change(tuple(turn for turn in self._needed(arm) if turn.knob.name not in asked))

    def _needed(self, arm: Arm) -> list[Turn]:
        return _following(turn.knob.needs(arm, turn.value) for turn in self.turns)


def _following(texts: Iterable[str]) -> list[Turn]:
    """Turns that follow from others, each once."""
    return [_turn(text) for text in dict.fromkeys(texts) if text]


def parse(*texts: str) -> Change:
    """The change that texts such as ``kv=q8_0,ubatch=1024`` ask for.

    Raises:
        InputError: a knob or a value that there isn't, or a knob that is turned twice.
    """
    turns = [_turn(part.strip()) for text in texts for part in _NEXT.split(text)]
    change = Change(tuple(turns))
    seen: dict[str, Turn] = {}
    for turn in turns:
        if (first := seen.setdefault(turn.knob.name, turn)) is not turn:
            raise InputError(f"{first.label} and {turn.label}: one knob can't be turned twice.")
    return change


def _turn(text: str) -> Turn:
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals:
        raise InputError(f"{text or 'nothing'}: write KNOB=VALUE, such as ubatch=1024; {_there_are()}")
    knob = _NAMED.get(name.lower().lstrip("-").replace("_", "-"))
    if knob is None:
        near = get_close_matches(name.lower(), _NAMED, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise InputError(f"{name}: no such knob.{hint} {_there_are().capitalize()}")
    try:
        return Turn(knob, value, knob.check(value))
    except WrongValueError as error:
        raise InputError(f"{name}={value}: {knob.name} takes {error}.") from None


def _there_are() -> str:
    return f"there are {', '.join(knob.name for knob in KNOBS)}."
