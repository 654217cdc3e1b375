"""Before and after as scripts read it: ``compare --format json``, schema ``phasewise.comparison/1``.

Unknown is null, never 0. Times are milliseconds, shares 0-1, ratios after over before; ``low`` and ``high``
are intervals that hold together in 99 of 100 comparisons of a log with itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from pydantic import ConfigDict, Field

from advisor.model import CaveatModel, Section
from advisor.summary import rounded
from rules import comparison
from rules.comparison.caveats import caveats
from rules.comparison.coarse import NO_INTERVAL
from rules.comparison.sentences import change, headline, sentence, shown
from rules.comparison.split import Basis, Cause

if TYPE_CHECKING:
    from rules.comparison.effect import Effect
    from rules.measures import Measures

SCHEMA = "phasewise.comparison/1"

Verdict: TypeAlias = Literal["faster", "slower", "mixed", "no-difference", "no-interval", "not-comparable"]
Fact: TypeAlias = bool | int | float | str | None

_SIGNS: dict[int, Verdict] = {-1: "faster", 0: "no-difference", 1: "slower"}


class Compared(Section):
    """One side: what was read and what served it, by the setup that served longest."""

    sources: list[str]
    engine: str | None
    engine_version: str | None
    model: str | None
    requests: int
    intervals: int
    aggregates: int


class EffectModel(Section):
    """A change with its interval: a ratio, after over before, or a difference in ms.

    ``told`` is false where the interval holds no change, or the change is below two percent. ``visible``: a
    change that is told four times out of five, as a share of before; null where there was nothing before.
    """

    value: float
    low: float
    high: float
    told: bool
    visible: float | None
    before_n: int
    after_n: int


class Measured(Section):
    """One side of a quantity: ms of waits and phases, ms per token of speeds."""

    n: int
    median: float | None
    p95: float | None
    mean: float | None


class StratumModel(Section):
    """Samples of the same work: their sizes from and to, and both sides' medians.

    Sizes are ``evaluated_tokens``, ``cached_tokens``, ``context_tokens`` (half-way through an answer) and
    ``output_tokens``, as far as they are known, and of requests that did not run alone ``requests_at_once``
    and ``stalled_share`` (of the decode, while another's prompt was read).
    """

    sizes: dict[str, tuple[float, float]]
    before_n: int
    after_n: int
    before: float
    after: float


class QuantityModel(Section):
    """One thing that both sides, or one of them, measured.

    Attributes:
        name: ``ttft``, ``queue``, ``load``, ``prefill``, ``decode`` or ``total``.
        unit: ``ms``, or ``ms/token`` of speeds.
        verdict: of waits as they were, of speeds at like work.
        change: the change in a few words; ``sentence`` says all of it.
        before, after: as it was; of speeds, the samples that have their like on the other side.
        shown: which of their numbers the words are about.
        median_ratio, geometric_mean_ratio, mean_difference_ms: the change as it was; null for speeds. The
            second only where so few requests bound no median.
        like_ratio: the change at like work; of waits without ``left_out``.
        not_compared: why there is no verdict; ``not_alike``: why there is no ``like_ratio``.
        matched_share: samples that have their like on the other side.
        not_matched_on: what should be alike and is not told on both sides.
        left_out: what a wait holds besides work: waiting for a slot, loading.
        strata: what was compared with what, most samples first.
    """

    name: str
    unit: str
    verdict: Verdict
    change: str
    sentence: str
    before: Measured
    after: Measured
    shown: Literal["median", "mean"]
    median_ratio: EffectModel | None
    geometric_mean_ratio: EffectModel | None
    mean_difference_ms: EffectModel | None
    like_ratio: EffectModel | None
    not_compared: str | None
    not_alike: str | None
    matched_share: float | None
    not_matched_on: list[str]
    left_out: list[str]
    strata: list[StratumModel]


class PartModel(Section):
    """What one cause did to a mean, ms, between ``low_ms`` and ``high_ms``.

    ``basis`` is ``exact`` (measured on both sides), ``matched`` (by the ratio at like work) or ``bounds``
    (between the least and the most that its tokens and chance explain; ``ms`` is the middle). Where
    ``low_ms`` and ``high_ms`` have different signs, the part can't be told from none.
    """

    cause: Cause
    ms: float
    low_ms: float
    high_ms: float
    basis: Basis


class SplitModel(Section):
    """The change of a mean wait and its parts, which sum up to it."""

    before_mean_ms: float
    after_mean_ms: float
    parts: list[PartModel]


class WorkModel(Section):
    """Something about the requests.

    ``how`` is ``median``, ``mean``, ``share``, ``count``, ``most`` or ``rate`` (over the time that the log
    spans, idle time included).
    """

    name: str
    unit: str
    how: str
    before: float | None
    after: float | None


class SettingModel(Section):
    """A fact of the setup that differs, named as in ``setup`` of the analysis."""

    fact: str
    before: Fact
    after: Fact


class Comparison(Section):
    """Whether a change helped, where, and what else is different.

    Attributes:
        verdict: of the waits as they were; where no wait is told, of the speeds.
        headline: the answer in words.
        grain: what was compared: ``requests``, an engine's ``steps`` or ``sums``; null for nothing.
        first_token, total: why the mean waits changed.
    """

    schema_: str = Field(default=SCHEMA, alias="schema")
    verdict: Verdict
    headline: str
    grain: Literal["requests", "steps", "sums"] | None
    before: Compared
    after: Compared
    quantities: list[QuantityModel]
    first_token: SplitModel | None
    total: SplitModel | None
    work: list[WorkModel]
    settings: list[SettingModel]
    caveats: list[CaveatModel]

    model_config = ConfigDict(
        extra="forbid", populate_by_name=True, json_schema_serialization_defaults_required=True
    )


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
