"""Knobs of what the model is asked: the prefix, the prompts' length, the answers' length."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING

from advisor.errors import InputError
from advisor.runner.knobs.knob import Knob
from advisor.runner.knobs.values import MOST_TOKENS, WrongValueError, one_of, whole
from advisor.runner.workload import Ask, Segment

if TYPE_CHECKING:
    from collections.abc import Callable

    from advisor.runner.arm import Arm

_BREAK = "what changes in front"
_BREAK_TOKENS = 8
_LEAST_SHARED = 64
"""Characters of a given prompt that are worth keeping."""

_SHARE = re.compile(r"(?P<sign>-?)(?P<percent>[0-9]{1,2}(?:\.[0-9]{1,6})?)%")
_PARTS = re.compile(r"(?P<kept>[0-9]{1,4})/(?P<of>[0-9]{1,4})")


def _with_asks(arm: Arm, change: Callable[[int, Ask], Ask]) -> Arm:
    asks = [change(number, ask) for number, ask in enumerate(arm.workload.asks, 1)]
    return replace(arm, workload=arm.workload.with_asks(asks))


# --- the prefix


def _prefix(arm: Arm, value: str) -> Arm:
    """Kept: no prompt begins with something of its own; broken: each does.

    Raises:
        InputError: no prompt begins as the one before it does.
    """
    kept = _with_asks(arm, _kept)
    if not any(_shares(*two) for two in pairwise(kept.workload.asks)):
        said = f"prefix={value}: no prompt of {arm.workload.name!r} begins as the one before it does"
        raise InputError(f"{said}, so there is no prefix to keep or to break.")
    return kept if value == "kept" else _with_asks(kept, _broken)


def _kept(_: int, ask: Ask) -> Ask:
    return replace(ask, segments=tuple(segment for segment in ask.segments if not _is_break(segment)))


def _broken(number: int, ask: Ask) -> Ask:
    own = Segment(f"{number} is {_BREAK}", _BREAK_TOKENS, is_fixed=True)
    return replace(ask, segments=(own, *ask.segments))


def _is_break(segment: Segment) -> bool:
    return segment.name.endswith(_BREAK)


def _shares(before: Ask, ask: Ask) -> bool:
    """Whether a prompt can reuse something of the one before it."""
    if ask.is_fresh or not before.segments or not ask.segments:
        return False
    one, other = before.segments[0], ask.segments[0]
    if one.text is None and other.text is None:
        return one == other
    head, others_head = _given(one)[:_LEAST_SHARED], _given(other)[:_LEAST_SHARED]
    return len(head) == _LEAST_SHARED and head == others_head


def _given(segment: Segment) -> str:
    """The text that a segment was given; of a chat its first message."""
    return segment.messages[0][1] if segment.messages else segment.text or ""


# --- the prompts' length


@dataclass(frozen=True, slots=True)
class _Cut:
    """What is left of the prompts: a share of each, or the tokens of the longest."""

    share: Fraction | None = None
    tokens: int | None = None


def _cut(value: str) -> _Cut:
    """``50%`` keeps half, ``-30%`` takes 30 % off, ``4/8`` keeps half too, ``512`` leaves so many tokens."""
    if found := _SHARE.fullmatch(value):
        share = Fraction(found["percent"]) / 100
        share = 1 - share if found["sign"] else share
        if share > 0:
            return _Cut(share=share)
    if (found := _PARTS.fullmatch(value)) and 0 < int(found["kept"]) <= int(found["of"]):
        return _Cut(share=Fraction(int(found["kept"]), int(found["of"])))
    try:
        return _Cut(tokens=int(str(whole(1, MOST_TOKENS)(value))))
    except WrongValueError:
        what = "a share to keep such as 50% or 4/8, one to take off such as -30%, or tokens to leave"
        raise WrongValueError(what) from None


def _prompt(arm: Arm, cut: _Cut) -> Arm:
    """Cut what is not fixed of each prompt by one share, so that what prompts share stays alike.

    Raises:
        InputError: nothing of them can be cut so.
    """
    segments = [segment for ask in arm.workload.asks for segment in ask.segments]
    if all(segment.is_fixed for segment in segments):
        raise InputError(f"prompt: nothing of {arm.workload.name!r} can be cut.")
    share = cut.share if cut.share is not None else _share_of(arm, cut.tokens or 0)

    def shorter(_: int, ask: Ask) -> Ask:
        return replace(ask, segments=tuple(s if s.is_fixed else _shorter(s, share) for s in ask.segments))

    return _with_asks(arm, shorter)


def _share_of(arm: Arm, tokens: int) -> Fraction:
    """The share that leaves so many tokens of the longest prompt."""
    asks = arm.workload.asks
    if any(segment.size is None for ask in asks for segment in ask.segments):
        said = f"prompt={tokens}: how many tokens the prompts of {arm.workload.name!r} have is not known here"
        raise InputError(f"{said}; cut them by a share, such as prompt=50%.")
    fixed, free = max((_sizes(ask) for ask in asks), key=sum)
    if tokens <= fixed:
        raise InputError(f"prompt={tokens}: {fixed} tokens of the longest prompt are fixed.")
    return min(Fraction(tokens - fixed, free), Fraction(1))


def _sizes(ask: Ask) -> tuple[int, int]:
    """Tokens of a prompt that are fixed, and that are not."""
    fixed = sum(segment.size or 0 for segment in ask.segments if segment.is_fixed)
    return fixed, sum(segment.size or 0 for segment in ask.segments) - fixed


def _shorter(segment: Segment, share: Fraction) -> Segment:
    """Its first part; of a chat all messages but the last, or that of a chat of one."""
    if segment.messages:
        *history, last = segment.messages
        messages = (*((role, _head(said, share)) for role, said in history), last)
        if not history:
            messages = ((last[0], _head(last[1], share)),)
        return replace(segment, messages=messages)
    if segment.size is not None:
        return replace(segment, size=max(round(segment.size * share), 1))
    return replace(segment, text=_head(segment.text or "", share))


def _head(text: str, share: Fraction) -> str:
    return text[: max(round(len(text) * share), 1)]


# --- the answers' length


def _output(arm: Arm, cap: int) -> Arm:
    return _with_asks(arm, lambda _, ask: replace(ask, output_tokens=min(ask.output_tokens, cap)))


ASKING = (
    Knob(
        "prefix",
        "whether prompts begin alike; kept is compared with broken",
        "kept, broken",
        one_of("kept", "broken"),
        _prefix,
        against=lambda value: "prefix=broken" if value == "kept" else "",
    ),
    Knob("prompt", "what is left of the prompts", "50%, 4/8, -30%, or tokens", _cut, _prompt),
    Knob(
        "output",
        "most tokens of an answer",
        "tokens",
        whole(1, MOST_TOKENS),
        _output,
        ("max-tokens", "n-predict"),
    ),
)
