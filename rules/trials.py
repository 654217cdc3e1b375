"""The verdict of a trial: two arms measured in turn, A B B A and so on, and whether they differ.

A pair is a run of each arm, one right after the other, over the same requests. The ratio of a trial is the
median over its pairs, so a single disturbed run does not move it; turning the order round in every second
pair takes a steady drift out of it.

The interval of that median lies between two of the sorted pairs, interpolated to 95 % (Hettmansperger and
Sheather 1986). Four and five pairs have no such interval: their range covers 88 and 94 %, and is widened by
`_WIDENED`. How often it covers the truth, in % of 6,000 simulated trials (`benchmarks/trials.py`), by what
disturbs the runs (t2: heavy tails; one: one run far off; alike: neighbours correlate by 0.7; drift: steady,
six standard deviations from first to last), beside the bootstrap of the same median, plain and expanded
(Hesterberg 2015), and the studentised bootstrap of the mean:

    pairs                     4      5     6     8    10    12
    normal                 95.0   95.3  94.6  94.8  95.1  95.7
    t2                     97.1   95.7  94.9  94.9  95.2  95.2
    one                   100.0   99.2  95.2  95.0  95.0  94.9
    alike                  93.8   94.3  94.1  93.2  94.2  94.0
    drift                  97.5   96.5  96.4  95.5  95.4  94.8
    plain, lowest          85.5   92.2  92.3  90.1  92.4  92.4
    expanded, lowest       85.5   92.2  96.4  96.9  95.9  95.2
    studentised, lowest    93.7   93.1  92.8  92.6  93.1  91.8

An interval is of its run only. A host can stay for minutes in one of several ways to run two threads, so
quiet repeats of one trial can have intervals that don't overlap: their ratios scattered by about 6 % for a
change that adds a core, by 1 % for a prefix that is kept. A run can't see that in itself, and it differs by
change and machine: no interval is widened by it, and the sentences say "in this run".

Each outcome has its own 95 %. A trial has three, of which at least one misses in up to 14 % of trials, and
several remedies more: the total decides a remedy's verdict, its phases say where that comes from.

No bootstrap of a median goes beyond the range of its pairs, and the studentised one is up to eight times as
wide where one run is far off. With scatter of 3 % a run, a decode that is 5 % slower is found by 29, 40, 48,
62, 72 and 83 % of the trials, one that is 10 % slower by 75 to 100 %, and 1 to 4 % call a difference where
there is none; with 1 % scatter 96 to 100 % find 5 %, and none calls what is not there.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from typing import TYPE_CHECKING, Literal

import numpy as np

from rules.comparison.effect import FLOOR
from rules.words import duration, percent, plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rules.savings import Array

Phase = Literal["prefill", "decode", "total"]
Verdict = Literal["faster", "slower", "no-difference"]

LEAST_PAIRS = 4
"""Fewer tell no interval."""

NOISY = 0.1
"""An interval that holds none and reaches further than this is too wide to call it no difference."""

DRIFT = 0.05
"""A smaller change from the first run to the last is not told."""

_CONFIDENCE = 0.95
_WIDENED = {4: 0.25, 5: 0.05}
"""Of their range, to each side: simulated to cover the truth in 95 of 100 trials."""

_SURE = 0.01
"""How likely a trend may be that is none: a trial asks of several series."""

_SUBJECT = {"prefill": "Prefill", "decode": "Decode", "total": "In all a request"}
_PLACE = {"prefill": "in prefill", "decode": "in decode", "total": "in all"}


@dataclass(frozen=True, slots=True)
class Block:
    """One run of an arm: what each of its requests took, in their order; None where it is unknown."""

    prefill_ms: tuple[float | None, ...]
    decode_ms: tuple[float | None, ...]
    total_ms: tuple[float | None, ...]

    def of(self, phase: Phase) -> tuple[float | None, ...]:
        """The times of a phase."""
        return {"prefill": self.prefill_ms, "decode": self.decode_ms, "total": self.total_ms}[phase]


@dataclass(frozen=True, slots=True)
class Pair:
    """A run of each arm, in whichever order they ran."""

    before: Block
    after: Block


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one phase differs.

    Attributes:
        phase: which.
        before_ms: the mean of a request, of the median run.
        ratio: after over before, of the median pair.
        low, high: its 95 % interval in this run; None of fewer than `LEAST_PAIRS`.
        pairs: that it rests on.
        requests: of each run, those whose time is known in every run.
    """

    phase: Phase
    before_ms: float
    ratio: float
    low: float | None
    high: float | None
    pairs: int
    requests: int

    @property
    def after_ms(self) -> float:
        """The mean of a request after the change: by the ratio, so that it lies in `interval_ms`."""
        return self.before_ms * self.ratio

    @property
    def verdict(self) -> Verdict:
        """A difference is at least `FLOOR`, and its interval a quarter of that away from none."""
        if self.low is None or self.high is None:
            return "no-difference"
        near = counts_from(0.25)
        if self.high <= 1 / near and self.ratio <= 1 / counts_from():
            return "faster"
        return "slower" if self.low >= near and self.ratio >= counts_from() else "no-difference"

    @property
    def within(self) -> float | None:
        """The largest change, as a share of before, that still fits the interval; at least `FLOOR`."""
        if self.low is None or self.high is None:
            return None
        return max(1 - self.low, self.high - 1, FLOOR)

    @property
    def is_noisy(self) -> bool:
        """The runs differ so much among themselves that they can't tell."""
        return self.verdict == "no-difference" and (self.within is None or self.within > NOISY)

    @property
    def interval_ms(self) -> tuple[float, float] | None:
        """The interval as times of a request after the change."""
        if self.low is None or self.high is None:
            return None
        return self.before_ms * self.low, self.before_ms * self.high

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        subject = _SUBJECT[self.phase]
        if self.low is None or self.high is None:
            return f"{subject}: {plural(self.pairs, 'pair')} of runs can't tell; {LEAST_PAIRS} can."
        if self.verdict != "no-difference":
            much = change(self.ratio, _span(self.low, self.high))
            times = f"{_time(self.after_ms)} instead of {_time(self.before_ms)}"
            return f"{subject} takes {much}: {times} a request."
        if self.is_noisy:
            ends = f"from {change(self.low)} to {change(self.high)}"
            return f"{subject}: too noisy to tell; the interval goes {ends}."
        return f"No difference measurable {_PLACE[self.phase]} (within ±{percent(self.within)} in this run)."


@dataclass(frozen=True, slots=True)
class Trial:
    """The outcome of each phase, and of both; None where no request's time is known in every run."""

    prefill: Outcome | None
    decode: Outcome | None
    total: Outcome | None

    @property
    def outcomes(self) -> list[Outcome]:
        """Those that are known."""
        return [one for one in (self.prefill, self.decode, self.total) if one is not None]

    @property
    def verdict(self) -> Verdict:
        """Of the total, or of the one phase that is known."""
        known = self.outcomes
        return known[-1].verdict if known else "no-difference"

    @property
    def sentence(self) -> str:
        """All verdicts in words."""
        return " ".join(one.sentence for one in self.outcomes)


def judged(pairs: Sequence[Pair]) -> Trial:
    """What the pairs of a trial say; an even number of them, so that a drift cancels.

    Raises:
        ValueError: there are none, or their runs hold different numbers of requests.
    """
    if not pairs:
        raise ValueError("no pairs")
    return Trial(*(_outcome(phase, pairs) for phase in ("prefill", "decode", "total")))


def _outcome(phase: Phase, pairs: Sequence[Pair]) -> Outcome | None:
    rows = [(pair.before.of(phase), pair.after.of(phase)) for pair in pairs]
    times = np.array(rows, dtype=np.float64)  # None becomes NaN; pairs by arm by request
    times = times[:, :, (times > 0).all(axis=(0, 1))]
    if not times.size:
        return None
    means = times.mean(axis=2)
    logs = np.log(means[:, 1] / means[:, 0])
    low, high = (
        (None, None) if len(pairs) < LEAST_PAIRS else (float(np.exp(x)) for x in median_interval(logs))
    )
    before, ratio = float(np.median(means[:, 0])), float(np.exp(np.median(logs)))
    return Outcome(phase, before, ratio, low, high, len(pairs), times.shape[2])


def median_interval(values: Array) -> tuple[float, float]:
    """The 95 % interval of a median.

    Args:
        values: `LEAST_PAIRS` or more, each as likely above the truth as below.
    """
    ordered, n = np.sort(values), values.size
    if widened := _WIDENED.get(n):
        reach = widened * (ordered[-1] - ordered[0])
        return float(ordered[0] - reach), float(ordered[-1] + reach)
    rank = 1
    while _covered(n, rank + 1) >= _CONFIDENCE:
        rank += 1
    surplus = (_covered(n, rank) - _CONFIDENCE) / (_covered(n, rank) - _covered(n, rank + 1))
    inward = (n - rank) * surplus / (rank + (n - 2 * rank) * surplus)
    low = (1 - inward) * ordered[rank - 1] + inward * ordered[rank]
    high = (1 - inward) * ordered[n - rank] + inward * ordered[n - rank - 1]
    return float(low), float(high)


def _covered(n: int, rank: int) -> float:
    """How often the median lies between the values of this rank from below and from above."""
    return 1.0 - 2 * sum(comb(n, k) for k in range(rank)) / float(2**n)


def drift(values: Sequence[float]) -> float | None:
    """The change from the first of several measurements to the last, as a share of the first.

    Theil and Sen's line through their logarithms, where Kendall's test is sure that there is a trend.

    Args:
        values: positive, of the same thing, in the order of time.

    Returns:
        None where there is no trend that is sure and larger than `DRIFT`.
    """
    if len(values) < LEAST_PAIRS:
        return None
    from scipy.stats import kendalltau, theilslopes  # type: ignore[import-untyped]

    at, logs = np.arange(len(values)), np.log(values)
    if np.ptp(logs) == 0 or not kendalltau(at, logs).pvalue < _SURE:
        return None
    change = float(np.expm1(theilslopes(logs, at).slope * at[-1]))
    return change if abs(change) >= DRIFT else None


def counts_from(part: float = 1.0) -> float:
    """The ratio from which a difference, or its part, counts."""
    return float((1 + FLOOR) ** part)


def change(ratio: float, more: str = "") -> str:
    """``41 % less``, ``12 % more``, ``3.1 times as long``; the interval in brackets after it."""
    if ratio >= 2:
        return f"{ratio:.1f} times as long{more}"
    return f"{percent(abs(1 - ratio))} {'less' if ratio < 1 else 'more'}{more}"


def _span(low: float, high: float) -> str:
    """The interval of a change that is one: both ends on one side of none."""
    if high >= 2 or low >= 2:
        return f" ({low:.1f} to {high:.1f} times in this run)"
    near, far = (percent(share) for share in sorted((abs(1 - low), abs(1 - high))))
    return f" ({near.removesuffix(' %')} to {far} in this run)" if near != far else " in this run"


def _time(ms: float) -> str:
    """With three digits: two times that differ a little read apart."""
    value, unit = (ms, "ms") if ms < 999.5 else (ms / 1000, "s")
    if value >= 99.95:
        return f"{value:.0f} ms" if unit == "ms" else duration(ms)
    return f"{value:.2f} {unit}" if value < 9.995 else f"{value:.1f} {unit}"
