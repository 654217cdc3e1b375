"""Before and after as scripts read it: ``compare --format json``, schema ``phasewise.comparison/1``.

Unknown is null, never 0. Times are milliseconds, shares 0-1, ratios after over before; ``low`` and ``high``
are intervals that hold together in 99 of 100 comparisons of a log with itself.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import ConfigDict, Field

from advisor.model import CaveatModel
from advisor.section import Section
from rules.comparison.split import Basis, Cause

SCHEMA = "phasewise.comparison/1"

Verdict: TypeAlias = Literal["faster", "slower", "mixed", "no-difference", "no-interval", "not-comparable"]
Fact: TypeAlias = bool | int | float | str | None


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
