"""Why a mean wait changed: other work, another speed, queue, load, and what no phase explains.

The parts add up to the change exactly. A phase's change is split with the ratio r of its times at like work:
what after's requests would have taken at before's speed is their time over r, so the work did
``after / r - before`` and the speed ``after - after / r`` (Kitagawa 1955, Oaxaca 1973: one side's rates on
the other side's work). What after's requests would have taken also has bounds, and where these are nearer,
or no work is alike, they serve: prompts and answers cost a time per token plus one per pair of tokens that
attend to each other, and a prompt a fixed time up to some steps of the model, none below zero. To both bounds
comes what chance explains. A phase whose parts can't be told from none is not split.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import polars as pl

from rules.comparison.effect import LEAST, critical, dependence, left
from rules.comparison.samples import KNOWN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rules.comparison.effect import Effect
    from rules.savings import Array

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


_FIXED_MS, _FIXED_STEPS = 250.0, 10.0
"""What a prefill may take besides its tokens: this long, and as long as so many decode steps."""

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

    @property
    def sure(self) -> bool:
        """Whether its direction is known."""
        return self.low * self.high > 0


@dataclass(frozen=True, slots=True)
class Split:
    """The change of a mean and its parts, which sum up to it.

    Attributes:
        before_ms, after_ms: the means, over requests whose wait is known.
        parts: in the order of a request; phases that are not known on both sides are in ``other``.
        one_sided: phases that only one of the logs tells.
    """

    before_ms: float
    after_ms: float
    parts: tuple[Part, ...]
    one_sided: tuple[Phase, ...] = ()

    @property
    def change_ms(self) -> float:
        """After less before."""
        return self.after_ms - self.before_ms


def split(rows: pl.DataFrame, wait: str, speeds: Mapping[str, Effect | None]) -> Split | None:
    """Split the change of the mean ``ttft_ms`` or ``total_ms``.

    Args:
        rows: the requests of both sides (`rules.comparison.both.Both.warm`).
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
    one_sided = tuple(
        phase for phase in phases if len({side[f"{phase}_ms"].count() > 0 for side in sides}) > 1
    )
    return Split(before_ms, after_ms, (*parts, exact("other", rest)), one_sided)


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
    bounds = _bounds(phase, sides)
    if bounds is not None and (matched is None or bounds[1] - bounds[0] < matched[2] - matched[0]):
        low, high = bounds
        return _work_and_speed(phase, before, after, (low, (low + high) / 2, high), "bounds")
    if matched is not None:
        return _work_and_speed(phase, before, after, matched, "matched")
    return [exact(phase, after - before)]


def _work_and_speed(
    phase: Phase, before: float, after: float, at_old_speed: tuple[float, float, float], basis: Basis
) -> list[Part]:
    """The two parts of a phase from what after's work would have taken at before's speed.

    One part where neither can be told from none.
    """
    low, middle, high = at_old_speed
    work: Cause = "prefill-work" if phase == "prefill" else "decode-work"
    speed: Cause = "prefill-speed" if phase == "prefill" else "decode-speed"
    parts = [
        Part(work, middle - before, low - before, high - before, basis),
        Part(speed, after - middle, after - high, after - low, basis),
    ]
    return parts if any(part.sure for part in parts) else [exact(phase, after - before)]


def _bounds(phase: Phase, sides: tuple[pl.DataFrame, pl.DataFrame]) -> tuple[float, float] | None:
    """Between what and what after's tokens would have taken at before's speed."""
    tokens, depth = ("evaluated", "reached") if phase == "prefill" else ("decode_steps", "context")
    if any(side[tokens].count() < KNOWN * side.height for side in sides):
        return None
    if len({side[depth].count() >= KNOWN * side.height for side in sides}) > 1:
        return None
    took = [_values(side, pl.col(f"{phase}_ms")) for side in sides]
    linear = [_values(side, pl.col(tokens)) for side in sides]
    if phase == "prefill" and min(values.mean() for values in linear) < _TELLING_TOKENS:
        return None
    fallback = pl.col(tokens) / 2 if phase == "prefill" else pl.col(tokens)
    pairs = [_values(side, pl.col(tokens) * pl.coalesce(depth, fallback)) for side in sides]
    fixed_ms = _most_fixed_ms(sides[0]) if phase == "prefill" else 0.0
    if fixed_ms is None:
        return None
    ends = [end for sizes in (linear, pairs) for end in _proportional(took, sizes, fixed_ms)]
    return (min(ends), max(ends)) if ends else None


def _most_fixed_ms(before: pl.DataFrame) -> float | None:
    """The most that a prefill takes besides its tokens; None where no decode tells what a step takes."""
    steps = before.filter(pl.col("decode_steps") > 0)
    step_ms = steps.select(pl.col("decode_ms") / pl.col("decode_steps")).to_series().median()
    return _FIXED_MS + _FIXED_STEPS * step_ms if isinstance(step_ms, float) else None


def _proportional(took: list[Array], sizes: list[Array], fixed_ms: float) -> list[float]:
    """What after would have taken if times grow with these sizes, give or take what chance explains."""
    sums = [float(values.sum()) for values in (*took, *sizes)]
    if min(values.size for values in took) < LEAST or min(sums) <= 0:
        return []
    rests = [ms - ms.mean() / size.mean() * size for ms, size in zip(took, sizes, strict=True)]
    inflation = dependence(*rests)
    unsure = sum(
        float(rest.var(ddof=1)) / rest.size / float(ms.mean()) ** 2
        for rest, ms in zip(rests, took, strict=True)
    )
    freedom = sum(rest.size for rest in rests) - len(rests)
    reach = critical(left(freedom, inflation)) * float(np.sqrt(inflation * unsure))
    before_ms, grown = float(took[0].mean()), float(sizes[1].mean() / sizes[0].mean())
    ends = [before_ms * grown, before_ms * grown + min(fixed_ms, before_ms) * (1 - grown)]
    return [max(end * (1 + off), 0.0) for end in ends for off in (-reach, reach)]


def _values(side: pl.DataFrame, of: pl.Expr) -> Array:
    return side.select(of.cast(pl.Float64).fill_null(0)).to_series().to_numpy()


def _mean(values: pl.Series) -> float:
    mean = values.mean()
    return float(mean) if isinstance(mean, int | float) else 0.0
