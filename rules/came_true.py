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
_ALL = 0.9


def compared(outcome: Outcome, predicted: float, *, at_most: bool = False) -> str:
    """What became of a prediction, in words.

    Args:
        outcome: what was measured.
        predicted: after over before.
        at_most: it is the most that the change can bring.
    """
    least = f"at most {change(predicted)}" if at_most else change(predicted)
    is_none = 1 / counts_from() < predicted < counts_from()
    said = "Predicted no difference" if is_none else f"Predicted {least}"
    return f"{said}: {_became(outcome, predicted, is_none=is_none, at_most=at_most)}."


def _became(outcome: Outcome, predicted: float, *, is_none: bool, at_most: bool) -> str:
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
    came = (1 - outcome.ratio) / (1 - predicted)
    if at_most:
        if came > 1:
            return "all of that came" if is_possible else "more than that came"
        return f"{_part(came)} of that came"
    if is_possible or _ALL <= came <= 1 / _ALL:
        return "it came true"
    return "more than that came" if came > 1 else f"{_part(came)} of it came true"


def _part(share: float) -> str:
    return next((name for below, name in _PARTS if share < below), "all")
