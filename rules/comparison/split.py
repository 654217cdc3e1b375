"""Why a mean wait changed: other work, another speed, queue, load, and what no phase explains.

The parts add up to the change exactly. A phase's change is split with the ratio r of its times at like work:
what after's requests would have taken at before's speed is their time over r, so the work did
``after / r - before`` and the speed ``after - after / r`` (Kitagawa 1955, Oaxaca 1973: one side's rates on
the other side's work). What after's requests would have taken also has bounds, and where these are nearer,
or no work is alike, they serve: prompts and answers cost a time per token plus one per pair of tokens that
attend to each other, neither below zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import polars as pl

from rules.comparison.samples import KNOWN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rules.comparison.effect import Effect

Cause: TypeAlias = Literal[
    "queue",
    "load",
    "prefill",
    "prefill-work",
    "prefill-speed",
    "decode",
    "decode-work",
    "decode-speed",
    "other",
]
Phase: TypeAlias = Literal["queue", "load", "prefill", "decode"]
Basis: TypeAlias = Literal["matched", "bounds", "exact"]


_TELLING_TOKENS = 64
"""Shorter prefills take what one batch takes, whatever their number (ik_llama.cpp#455)."""


@dataclass(frozen=True, slots=True)
class Part:
    """What one cause did to the mean, ms; ``low`` and ``high`` bound it, with ``basis`` saying by what.

    ``exact``: measured on both sides. ``matched``: by the ratio at like work. ``bounds``: between the least
    and the most that its tokens can explain; ``ms`` is the middle.
    """

    cause: Cause
    ms: float
    low: float
    high: float
    basis: Basis


@dataclass(frozen=True, slots=True)
class Split:
    """The change of a mean and its parts, which sum up to it.

    Attributes:
        before_ms, after_ms: the means, over requests whose wait is known.
        parts: in the order of a request; phases that are not known on both sides are in ``other``.
    """

    before_ms: float
    after_ms: float
    parts: tuple[Part, ...]

    @property
    def change_ms(self) -> float:
        """After less before."""
        return self.after_ms - self.before_ms


def split(rows: pl.DataFrame, wait: str, speeds: Mapping[str, Effect | None]) -> Split | None:
    """Split the change of the mean ``ttft_ms`` or ``total_ms``.

    Args:
        rows: the requests of both sides (`rules.comparison.samples.Both.warm`).
        wait: the column.
        speeds: the ratio at like work of ``prefill`` and ``decode``, where it is known.

    Returns:
        None where one side does not know the wait.
    """
    timed = rows.drop_nulls(wait)
    sides = timed.filter(~pl.col("after")), timed.filter("after")
    if not all(side.height for side in sides):
        return None
    before_ms, after_ms = (_mean(side[wait]) for side in sides)
    phases: list[Phase] = ["queue", "load", "prefill"]
    if wait == "total_ms":
        phases.append("decode")
    elif (timed["ttft_from"] == "slot").all():
        phases.remove("queue")
    parts = [part for phase in phases for part in _parts(phase, sides, speeds.get(phase))]
    rest = after_ms - before_ms - sum(part.ms for part in parts)
    return Split(before_ms, after_ms, (*parts, exact("other", rest)))


def exact(cause: Cause, ms: float) -> Part:
    """A part that is measured on both sides."""
    return Part(cause, ms, ms, ms, "exact")


def _parts(phase: Phase, sides: tuple[pl.DataFrame, pl.DataFrame], effect: Effect | None) -> list[Part]:
    column = f"{phase}_ms"
    if any(side[column].count() < KNOWN * side.height for side in sides):
        return []
    before, after = (_mean(side[column].fill_null(0)) for side in sides)
    if phase == "queue" or phase == "load":
        return [exact(phase, after - before)]
    matched = None if effect is None else (after / effect.high, after / effect.value, after / effect.low)
    bounds = _bounds(phase, sides, before)
    if bounds is not None and (matched is None or bounds[1] - bounds[0] < matched[2] - matched[0]):
        low, high = bounds
        return _work_and_speed(phase, before, after, (low, (low + high) / 2, high), "bounds")
    if matched is not None:
        return _work_and_speed(phase, before, after, matched, "matched")
    return [exact(phase, after - before)]


def _work_and_speed(
    phase: Phase, before: float, after: float, at_old_speed: tuple[float, float, float], basis: Basis
) -> list[Part]:
    """The two parts of a phase from what after's work would have taken at before's speed."""
    low, middle, high = at_old_speed
    work: Cause = "prefill-work" if phase == "prefill" else "decode-work"
    speed: Cause = "prefill-speed" if phase == "prefill" else "decode-speed"
    return [
        Part(work, middle - before, low - before, high - before, basis),
        Part(speed, after - middle, after - high, after - low, basis),
    ]


def _bounds(
    phase: Phase, sides: tuple[pl.DataFrame, pl.DataFrame], before_ms: float
) -> tuple[float, float] | None:
    """Between what and what after's tokens would have taken at before's speed."""
    tokens, depth = ("evaluated", "reached") if phase == "prefill" else ("decode_steps", "context")
    if any(side[tokens].count() < KNOWN * side.height for side in sides):
        return None
    linear = [_mean(side[tokens].fill_null(0)) for side in sides]
    if phase == "prefill" and min(linear) < _TELLING_TOKENS:
        return None
    fallback = pl.col(tokens) / 2 if phase == "prefill" else pl.col(tokens)
    pairs = [
        _mean(side.select(pl.col(tokens) * pl.coalesce(depth, fallback)).to_series().fill_null(0))
        for side in sides
    ]
    if not linear[0] or not pairs[0]:
        return None
    least, most = sorted((linear[1] / linear[0], pairs[1] / pairs[0]))
    return before_ms * least, before_ms * most


def _mean(values: pl.Series) -> float:
    mean = values.mean()
    return float(mean) if isinstance(mean, int | float) else 0.0
