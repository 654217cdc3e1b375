"""Two sides of measures as a `Comparison`: see `advisor.comparison_model` for its keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from advisor.comparison_model import (
    Compared,
    Comparison,
    EffectModel,
    Measured,
    PartModel,
    QuantityModel,
    SettingModel,
    SplitModel,
    StratumModel,
    Verdict,
    WorkModel,
)
from advisor.model import CaveatModel
from advisor.summary import rounded
from rules import comparison
from rules.comparison.caveats import caveats
from rules.comparison.coarse import NO_INTERVAL
from rules.comparison.sentences import change, headline, sentence, shown

if TYPE_CHECKING:
    from rules.comparison.effect import Effect
    from rules.measures import Measures

__all__ = ["Comparison", "compare"]

_SIGNS: dict[int, Verdict] = {-1: "faster", 0: "no-difference", 1: "slower"}


def compare(before: Measures, after: Measures, *, filtered: bool = False) -> Comparison:
    """Compare two sides, as `advisor.analysis.measure` makes them.

    Args:
        before: the measures of one.
        after: the measures of the other.
        filtered: whether filters left rows out of them.
    """
    found = comparison.compare(before, after, filtered=filtered)
    return Comparison(
        verdict=_verdict(found),
        headline=headline(found),
        grain=found.grain,
        before=_compared(before),
        after=_compared(after),
        quantities=[_quantity(q) for q in found.quantities],
        first_token=_split(found.first_token),
        total=_split(found.total),
        work=[
            WorkModel(name=w.name, unit=w.unit, how=w.how, before=rounded(w.before), after=rounded(w.after))
            for w in found.work
        ],
        settings=[SettingModel.model_validate(s) for s in found.settings],
        caveats=[CaveatModel.model_validate(c) for c in caveats(found, before, after)],
    )


def _verdict(found: comparison.Compared) -> Verdict:
    if found.unseen is not None:
        return "not-comparable"
    waits = [q.sign for q in found.quantities if q.name in comparison.WAITS and q.sign is not None]
    speeds = [q.sign for q in found.quantities if q.name in comparison.SPEEDS and q.sign is not None]
    signs = set(waits or speeds)
    if not signs:
        return "no-interval" if found.grain == "sums" and found.quantities else "not-comparable"
    told = signs - {0}
    return _SIGNS[told.pop() if len(told) == 1 else 0] if len(told) < 2 else "mixed"


def _compared(m: Measures) -> Compared:
    frames = (m.requests, m.intervals, m.aggregates)
    return Compared(
        sources=sorted(
            {str(source) for frame in frames for source in frame["source"].unique()}
            or {setup.source for setup in m.setups if setup.source}
        ),
        engine=m.engine,
        engine_version=m.setup.engine_version,
        model=m.setup.model,
        requests=m.generations.height,
        intervals=m.intervals.height,
        aggregates=m.aggregates.height,
    )


def _quantity(q: comparison.Quantity) -> QuantityModel:
    no_interval = q.sign is None and q.not_compared == NO_INTERVAL
    return QuantityModel(
        name=q.name,
        unit="ms/token" if q.name in comparison.SPEEDS else "ms",
        verdict="no-interval" if no_interval else "not-comparable" if q.sign is None else _SIGNS[q.sign],
        change=change(q),
        sentence=sentence(q),
        before=_measured(q.before),
        after=_measured(q.after),
        shown=shown(q),
        median_ratio=_effect(q.median),
        geometric_mean_ratio=_effect(q.geometric),
        mean_difference_ms=_effect(q.mean),
        like_ratio=_effect(q.alike),
        not_compared=None if q.effects else q.not_compared,
        not_alike=q.alike_unknown,
        matched_share=rounded(q.matched),
        not_matched_on=list(q.ignored),
        left_out=list(q.without),
        strata=[
            StratumModel(
                sizes=s.sizes,
                before_n=s.n_before,
                after_n=s.n_after,
                before=round(s.before, 6),
                after=round(s.after, 6),
            )
            for s in q.strata
        ],
    )


def _measured(side: comparison.Side) -> Measured:
    return Measured(
        n=side.n, median=rounded(side.median, 6), p95=rounded(side.p95, 6), mean=rounded(side.mean, 6)
    )


def _effect(effect: Effect | None) -> EffectModel | None:
    if effect is None:
        return None
    return EffectModel(
        value=round(effect.value, 4),
        low=round(effect.low, 4),
        high=round(effect.high, 4),
        told=effect.sign != 0,
        visible=rounded(effect.visible),
        before_n=effect.n_before,
        after_n=effect.n_after,
    )


def _split(split: comparison.Split | None) -> SplitModel | None:
    if split is None:
        return None
    parts = [
        PartModel(
            cause=p.cause, ms=round(p.ms, 3), low_ms=round(p.low, 3), high_ms=round(p.high, 3), basis=p.basis
        )
        for p in split.parts
    ]
    return SplitModel(
        before_mean_ms=round(split.before_ms, 3), after_mean_ms=round(split.after_ms, 3), parts=parts
    )
