"""What became of a prediction, once a trial has measured it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.trials import change, counts_from

if TYPE_CHECKING:
    from rules.trials import Outcome

_PARTS = (
    (0.15, "little"),
    (0.29, "a quarter"),
    (0.42, "a third"),
    (0.58, "half"),
    (0.71, "two thirds"),
    (0.9, "most"),
)
_NEAR = (0.7, 1.4)
_SURE = (0.5, 2.0)
"""Measured over predicted change: near 1, with an interval that is sure to hold neither half nor twice it."""

_OPEN = "it may have come true; these runs can't tell how much"


def compared(outcome: Outcome, predicted: float, *, at_most: bool = False, at_least: bool = False) -> str:
    """What became of a prediction, in words.

    Args:
        outcome: what was measured.
        predicted: after over before.
        at_most: it is the most that the change can bring.
        at_least: it is the least.
    """
    is_none = 1 / counts_from() < predicted < counts_from()
    bound = "at most " if at_most else "at least " if at_least else ""
    said = "Predicted no difference" if is_none else f"Predicted {bound}{change(predicted)}"
    return f"{said}: {_became(outcome, predicted, is_none=is_none, at_most=at_most, at_least=at_least)}."


def _became(outcome: Outcome, predicted: float, *, is_none: bool, at_most: bool, at_least: bool) -> str:
    verdict = outcome.verdict
    if outcome.low is None or outcome.high is None or (is_none and outcome.is_noisy):
        return "these runs can't tell"
    if is_none:
        return "it came true" if verdict == "no-difference" else f"it takes {change(outcome.ratio)}"
    is_possible = outcome.low / counts_from() <= predicted <= outcome.high * counts_from()
    if verdict == "no-difference":
        if is_possible or (at_most and outcome.is_noisy):
            return "these runs can't tell"
        return "nothing measurable came" if at_most else "it did not come true"
    if verdict != ("faster" if predicted < 1 else "slower"):
        return "the opposite came"
    least, came, most = sorted(
        (1 - ratio) / (1 - predicted) for ratio in (outcome.low, outcome.ratio, outcome.high)
    )
    if at_most:
        if came > 1:
            return "all of that came" if is_possible else "more than that came"
        return f"{_part(came)} of that came"
    if at_least:
        return "it came true" if came >= 1 else _OPEN if is_possible else f"{_part(came)} of that came"
    if _NEAR[0] <= came <= _NEAR[1]:
        return "it came true" if _SURE[0] < least and most < _SURE[1] else _OPEN
    if is_possible:
        return _OPEN
    return "more than that came" if came > 1 else f"{_part(came)} of it came true"


def _part(share: float) -> str:
    return next((name for below, name in _PARTS if share < below), "all")
