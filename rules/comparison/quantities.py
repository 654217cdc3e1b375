"""What is compared: waits as they were, and speeds at like work."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from rules.comparison.dimensions import COMPANY, STALLED, span
from rules.comparison.effect import (
    ALPHA,
    LEAST,
    difference_of_means,
    ratio_of_geometric_means,
    ratio_of_medians,
)
from rules.comparison.matching import in_both, matched_ratio
from rules.comparison.queueing import Entangled, entangled
from rules.comparison.strata import Stratum, strata

if TYPE_CHECKING:
    from rules.comparison.both import Both
    from rules.comparison.dimensions import Dimension
    from rules.comparison.effect import Effect
    from rules.comparison.samples import Samples
    from rules.savings import Array

_GO_ALONG = ("engine", "model", STALLED.column)
"""What needs no word of its own where it is not told."""


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a quantity; ``None`` where nothing tells it."""

    n: int = 0
    median: float | None = None
    p95: float | None = None
    mean: float | None = None


@dataclass(frozen=True, slots=True)
class Quantity:
    """One thing that was measured on both sides.

    Attributes:
        name: ``ttft``, ``prefill``, ``decode``, ``queue``, ``load`` or ``total``.
        before, after: as it was; speeds in ms per token, of the samples that are compared where any are.
        median, geometric, mean: of waits, how these changed as they were: ratios, the second where few values
            bound no median, and a difference in ms, which alone is told of a phase that is mostly zero.
        unknown: why the waits are not compared.
        alike: the ratio at like work.
        alike_unknown: why there is none.
        without: phases that are left out of it at like work: what they took is no work.
        strata: what was compared with what at like work, most samples first.
        matched: share of the samples that have their like on the other side.
        ignored: what should be alike and is not told on both sides.
    """

    name: str
    before: Side
    after: Side
    median: Effect | None = None
    geometric: Effect | None = None
    mean: Effect | None = None
    unknown: str | None = None
    alike: Effect | None = None
    alike_unknown: str | None = None
    without: tuple[str, ...] = ()
    strata: tuple[Stratum, ...] = ()
    matched: float | None = None
    ignored: tuple[str, ...] = ()

    @property
    def typical(self) -> Effect | None:
        """How a typical wait changed: the median, else the geometric mean."""
        return self.median or self.geometric

    @property
    def effects(self) -> list[Effect]:
        """What decides: of a speed the change at like work, of a wait those of its median and its mean."""
        deciding = (self.alike,) if self.name in SPEEDS else (self.typical, self.mean)
        return [effect for effect in deciding if effect is not None]

    @property
    def sign(self) -> int | None:
        """-1 for less time, 1 for more, 0 where no difference is measured; None where nothing can be."""
        if not self.effects:
            return None
        signs = {effect.sign for effect in self.effects} - {0}
        return signs.pop() if len(signs) == 1 else 0

    @property
    def contradictory(self) -> bool:
        """The median went one way and the mean the other."""
        return {effect.sign for effect in self.effects} >= {-1, 1}

    @property
    def not_compared(self) -> str | None:
        """Why nothing decides."""
        return self.alike_unknown if self.name in SPEEDS else self.unknown


SPEEDS, WAITS = ("prefill", "decode"), ("ttft", "total")
NAMES = ("ttft", "queue", "load", "prefill", "decode", "total")
"""Everything that is compared, in the order that a request goes through it."""


def quantities(both: Both) -> list[Quantity]:
    """Everything that is compared and that one side tells."""
    found = [quantity(both, name) for name in NAMES]
    return [q for q in found if q.before.n or q.after.n]


def quantity(both: Both, name: str, alpha: float = ALPHA) -> Quantity:
    """One of `NAMES`, with intervals that don't hold the truth this often."""
    match name:
        case "ttft":
            return _wait(both, name, both.first_token, alpha)
        case "total":
            return _wait(both, name, both.total, alpha)
        case "prefill":
            return of_speed(both.prefill, name, alpha)
        case "decode":
            return of_speed(both.decode, name, alpha)
    return _phase(both, name, alpha)


def _wait(both: Both, name: str, samples: Samples, alpha: float) -> Quantity:
    column = f"{name}_ms"
    before, after = _columns(both.warm, column)
    sides = _side(before), _side(after)
    why = _too_few(before, after) or _other_clocks(both.warm, column) or both.unseen
    if why:
        return Quantity(name, *sides, unknown=why, alike_unknown=why)
    queue = entangled(both.warm, column)
    if queue.why_not is not None:
        told = Quantity(name, *sides, unknown=queue.why_not, without=both.waited)
        return _with_alike(told, samples, alpha, both.inseparable)
    timed = before[before > 0], after[after > 0]
    median = ratio_of_medians(*timed, queue.inflation, alpha)
    geometric = None if median else ratio_of_geometric_means(*timed, queue.inflation, alpha)
    mean = difference_of_means(before, after, queue.inflation, alpha)
    as_it_was = Quantity(name, *sides, median, geometric, mean, without=both.waited)
    return _with_alike(as_it_was, samples, alpha, both.inseparable)


def _other_clocks(rows: pl.DataFrame, column: str) -> str | None:
    """Why two waits are not the same thing: their clocks start elsewhere."""
    said = {"arrival": "the request's arrival", "slot": "the slot that takes the request"}
    told = rows.drop_nulls(column)
    starts = [
        " or ".join(
            sorted(said.get(one, one) for one in told.filter(late)["ttft_from"].drop_nulls().unique())
        )
        for late in (~pl.col("after"), pl.col("after"))
    ]
    if starts[0] == starts[1]:
        return None
    before, after = (start or "a moment that is not told" for start in starts)
    return f"its clock starts at {before} before and at {after} after"


def _phase(both: Both, name: str, alpha: float) -> Quantity:
    """A phase that is mostly zero: the mean per request says what it costs."""
    before, after = _columns(both.warm, column := f"{name}_ms")
    queue = entangled(both.warm, column) if name == "queue" else Entangled()
    why = _too_few(before, after) or queue.why_not
    mean = None if why else difference_of_means(before, after, queue.inflation, alpha)
    return Quantity(name, _side(before), _side(after), mean=mean, unknown=why)


def of_speed(samples: Samples, name: str, alpha: float = ALPHA) -> Quantity:
    """A time per token, compared at like work."""
    kept = in_both(samples.after, samples.strata)
    shown = samples.frame.filter(kept) if kept.any() else samples.frame
    before, after = _columns(shown, "value")
    return _with_alike(Quantity(name, _side(before), _side(after)), samples, alpha)


def _with_alike(q: Quantity, samples: Samples, alpha: float, why_not: str | None = None) -> Quantity:
    if why_not is not None:
        return replace(q, alike_unknown=why_not)
    if samples.missing is not None:
        return replace(q, alike_unknown=f"{samples.missing.name} are not told on both sides")
    if samples.one_sided is not None:
        return replace(q, alike_unknown=f"{samples.one_sided.name} are told on one side only")
    kept = in_both(samples.after, samples.strata)
    effect = matched_ratio(samples.log_value, samples.after, samples.strata, samples.sizes, alpha)
    return replace(
        q,
        alike=effect,
        alike_unknown=None if effect else _unmatched(samples),
        strata=strata(samples) if effect else (),
        matched=float(kept.mean()) if kept.size else None,
        ignored=tuple(d.name for d in samples.unknown if d.column not in _GO_ALONG),
    )


def _unmatched(samples: Samples) -> str:
    """Why nothing could be compared at like work."""
    before, after = samples.counts
    if min(before, after) < LEAST:
        return f"too few requests can show it: {before} before, {after} after"
    if separating := samples.separating():
        return _apart(samples, separating)
    kept = in_both(samples.after, samples.strata)
    like = int((kept & ~samples.after).sum()), int((kept & samples.after).sum())
    return f"too few samples are alike: {like[0]} before, {like[1]} after"


def _apart(samples: Samples, dimension: Dimension) -> str:
    before, after = (
        samples.frame.filter(pl.col("after") == late)[dimension.said].drop_nulls() for late in (False, True)
    )
    if dimension is COMPANY:
        alone = ["alone" if values.all() else "beside others" for values in (before, after)]
        return f"no requests ran in like company: {alone[0]} before, {alone[1]} after"
    if dimension.width is None:
        return f"no requests of the same {dimension.name}"
    spans = [
        span(dimension.key, *(values.quantile(q, interpolation="nearest") or 0 for q in (0.05, 0.95)))
        for values in (before, after)
    ]
    return f"no requests alike in {dimension.name}: {spans[0]} before, {spans[1]} after"


def _too_few(before: Array, after: Array) -> str | None:
    if not before.size or not after.size:
        return f"only the log {'after' if after.size else 'before'} has it"
    if min(before.size, after.size) < LEAST:
        return f"too few requests: {before.size} before, {after.size} after"
    return None


def _columns(rows: pl.DataFrame, column: str) -> tuple[Array, Array]:
    before, after = (
        rows.filter(pl.col("after") == late)[column].drop_nulls().cast(pl.Float64).to_numpy()
        for late in (False, True)
    )
    return before, after


def _side(values: Array) -> Side:
    if not values.size:
        return Side()
    return Side(values.size, float(np.median(values)), float(np.quantile(values, 0.95)), float(values.mean()))
