"""What a change of settings or prompts should do to prefill and decode, before it is tried.

Each thing that changes has an effect on each phase: a factor, or none where no formula can tell. Effects
multiply. Physics gives three kinds of factor: an *estimate*, one that the change can reach *at most*, because
something that the formula leaves out stays as it was, and one that it reaches *at least*, because something
that is left out changes more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rules.prediction.decode import decode_effects
from rules.prediction.given import Done, Expected, Facts, Host, Task
from rules.prediction.prefill import prefill_effects

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Done", "Expected", "Facts", "Host", "Predicted", "Task", "predict"]


@dataclass(frozen=True, slots=True)
class Predicted:
    """What should become of both phases."""

    prefill: Expected
    decode: Expected


def predict(done: Sequence[Done], after: Sequence[Task], was: Facts, then: Facts, host: Host) -> Predicted:
    """What a change should do.

    Args:
        done: the requests as measured before it.
        after: the same requests in the same order, as they will be asked.
        was: model and settings before.
        then: the same after.
        host: the machine that runs both.

    Raises:
        ValueError: the requests differ in number.
    """
    if len(done) != len(after):
        raise ValueError("each request needs a measured one")
    return Predicted(
        _together(prefill_effects(done, after, was, then, host), "prefill"),
        _together(decode_effects(done, after, was, then, host), "decode"),
    )


def _together(effects: Iterator[Expected], phase: str) -> Expected:
    found = list(effects)
    if not found:
        return Expected(1.0, f"nothing that {phase} depends on changes")
    if unknown := [effect.basis for effect in found if effect.ratio is None]:
        return Expected(None, "; ".join(dict.fromkeys(unknown)))
    ratio = float(np.prod([effect.ratio for effect in found if effect.ratio is not None]))
    basis = "; ".join(effect.basis for effect in found)
    above = {_is_above(effect) for effect in found if effect.bound != "estimate"}
    if not above:
        return Expected(ratio, basis)
    if len(above) > 1:
        return Expected(None, f"{basis}; one of them is bounded from above and one from below")
    return Expected(ratio, basis, "at_most" if (ratio < 1) in above else "at_least")


def _is_above(effect: Expected) -> bool:
    """Whether the truth lies above a bound, not below it."""
    return (effect.ratio is not None and effect.ratio < 1) == (effect.bound == "at_most")
