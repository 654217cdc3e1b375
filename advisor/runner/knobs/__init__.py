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
    def requires(self) -> Change:
        """What both sides of a trial need besides, so that nothing else differs between them."""
        asked = {turn.knob.name for turn in self.turns}
        needed = _following(turn.knob.needs(turn.value) for turn in self.turns)
        return Change(tuple(turn for turn in needed if turn.knob.name not in asked))

    @property
    def against(self) -> Change:
        """What the side without the change is turned to."""
        return Change(tuple(_following(turn.knob.against(turn.value) for turn in self.turns)))

    @property
    def baseline(self) -> str:
        """What the side without the change is turned to, besides how the run is set; empty for nothing."""
        return ",".join(turn.label for turn in (*self.requires.turns, *self.against.turns))

    def apply(self, arm: Arm) -> Arm:
        """The arm with what is required and with the change.

        Raises:
            InputError: it can't be changed so.
        """
        return self._turned(self._prepared(arm))

    def sides(self, arm: Arm) -> tuple[Arm, Arm]:
        """The arms without and with the change.

        Raises:
            InputError: it can't be changed so, or nothing would differ.
        """
        prepared = self._prepared(arm)
        before, after = self.against._turned(prepared), self._turned(prepared)
        if before == after:
            raise InputError(f"{self.label}: that is how it runs already, so there is nothing to compare.")
        return before, after

    def _turned(self, arm: Arm) -> Arm:
        for turn in self.turns:
            arm = turn.knob.turn(arm, turn.value)
        return arm

    def _prepared(self, arm: Arm) -> Arm:
        for turn in self.requires.turns:
            if arm.settings.flash_attention is False:
                raise InputError(f"{self.label}: needs {turn.label}, and the run is set to flash=off.")
            arm = turn.knob.turn(arm, turn.value)
        return arm


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
    flash = seen.get("flash")
    needy = next((turn for turn in turns if turn.knob.needs(turn.value)), None)
    if flash is not None and flash.value is False and needy is not None:
        raise InputError(
            f"{needy.label} needs flash=on: a quantised V cache works only with flash attention."
        )
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
