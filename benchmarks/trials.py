"""How often the interval of `rules.trials` covers the truth, beside the bootstraps that were not taken.

Runs of two equal arms are made in the order A B B A, with what disturbs a machine: scatter, heavy tails, one
run far off, neighbours that are alike, a steady drift. Each line is one disturbance and number of pairs, with
the share of trials whose interval holds 0 and the median width of the interval in standard deviations of a
run. The last table is the share of trials that call a difference, where there is none, 5 % and 10 %.

    python benchmarks/trials.py [--trials 6000] [--seed 1]
"""

from __future__ import annotations

import argparse
import sys
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import norm, t  # type: ignore[import-untyped]

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rules.trials import Block, Pair, judged, median_interval

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.random import Generator
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Interval = Callable[[Floats, Generator], tuple[Floats, Floats]]

PAIRS = (4, 5, 6, 8, 10, 12)
RESAMPLES = 999
TAIL = 0.025
FAR_OFF, ALIKE, DRIFT = 15.0, 0.7, 6.0
NOISE = (0.01, 0.03)
EFFECTS = (0.0, 0.05, 0.10)


def one_far_off(noise: Floats, draw: Generator) -> Floats:
    """One run of each trial takes much longer."""
    at = draw.integers(noise.shape[1], size=len(noise))
    noise[np.arange(len(noise)), at] += FAR_OFF
    return noise


def alike(noise: Floats, _draw: Generator) -> Floats:
    """A first-order autoregression."""
    for run in range(1, noise.shape[1]):
        noise[:, run] = ALIKE * noise[:, run - 1] + sqrt(1 - ALIKE**2) * noise[:, run]
    return noise


DISTURBED: dict[str, Callable[[Floats, Generator], Floats]] = {
    "normal": lambda noise, _: noise,
    "t2": lambda noise, draw: draw.standard_t(2, size=noise.shape),
    "one": one_far_off,
    "alike": alike,
    "drift": lambda noise, _: noise + np.linspace(0, DRIFT, noise.shape[1]),
}


def differences(kind: str, pairs: int, trials: int, draw: Generator) -> Floats:
    """Of each trial the difference of each pair, of logarithms, in standard deviations of a run."""
    runs = DISTURBED[kind](draw.normal(size=(trials, 2 * pairs)), draw).reshape(trials, pairs, 2)
    later = runs[:, :, 1] - runs[:, :, 0]
    return later * np.where(np.arange(pairs) % 2, -1.0, 1.0)


def taken(values: Floats, _draw: Generator) -> tuple[Floats, Floats]:
    """The interval that the project uses."""
    ends = np.array([median_interval(row) for row in values])
    return ends[:, 0], ends[:, 1]


def student(values: Floats, _draw: Generator) -> tuple[Floats, Floats]:
    """Of the mean, as if the pairs were normal."""
    n = values.shape[1]
    middle, reach = values.mean(axis=1), t.ppf(1 - TAIL, n - 1) * values.std(axis=1, ddof=1) / sqrt(n)
    return middle - reach, middle + reach


def plain(values: Floats, draw: Generator) -> tuple[Floats, Floats]:
    """The percentile bootstrap of the median."""
    return _percentiles(values, draw, TAIL)


def expanded(values: Floats, draw: Generator) -> tuple[Floats, Floats]:
    """The same with the tails of Hesterberg 2015."""
    n = values.shape[1]
    return _percentiles(values, draw, float(norm.cdf(sqrt(n / (n - 1)) * t.ppf(TAIL, n - 1))))


def _percentiles(values: Floats, draw: Generator, tail: float) -> tuple[Floats, Floats]:
    n = values.shape[1]
    medians = [np.median(values[:, pick], axis=1) for pick in draw.integers(n, size=(RESAMPLES, n))]
    low, high = np.quantile(medians, [tail, 1 - tail], axis=0)
    return low, high


def accelerated(values: Floats, draw: Generator) -> tuple[Floats, Floats]:
    """The bias-corrected and accelerated bootstrap of the median."""
    n = values.shape[1]
    medians = np.array([np.median(values[:, pick], axis=1) for pick in draw.integers(n, size=(RESAMPLES, n))])
    middle = np.median(values, axis=1)
    below = (medians < middle).mean(axis=0) + (medians == middle).mean(axis=0) / 2
    bias = norm.ppf(below.clip(1e-3, 1 - 1e-3))
    left_out = np.array([np.median(np.delete(values, i, axis=1), axis=1) for i in range(n)])
    influence = left_out.mean(axis=0) - left_out
    power = (influence**2).sum(axis=0) ** 1.5
    bend = (influence**3).sum(axis=0) / np.where(power > 0, 6 * power, np.inf)
    ends = []
    for point in (norm.ppf(TAIL), norm.ppf(1 - TAIL)):
        share = norm.cdf(bias + (bias + point) / (1 - bend * (bias + point)))
        rank = (share * (RESAMPLES - 1)).round().astype(int)
        ends.append(np.sort(medians, axis=0)[rank, np.arange(len(values))])
    return ends[0], ends[1]


def studentised(values: Floats, draw: Generator) -> tuple[Floats, Floats]:
    """The studentised bootstrap of the mean."""
    n = values.shape[1]
    middle, error = values.mean(axis=1), values.std(axis=1, ddof=1) / sqrt(n)
    scores = []
    for pick in draw.integers(n, size=(RESAMPLES, n)):
        drawn = values[:, pick]
        own = drawn.std(axis=1, ddof=1) / sqrt(n)
        scores.append((drawn.mean(axis=1) - middle) / np.where(own > 1e-12, own, np.inf))
    low, high = np.quantile(scores, [TAIL, 1 - TAIL], axis=0)
    return middle - high * error, middle - low * error


WAYS: dict[str, Interval] = {
    "taken": taken,
    "student": student,
    "plain": plain,
    "expanded": expanded,
    "accelerated": accelerated,
    "studentised": studentised,
}


def called(effect: float, noise: float, pairs: int, trials: int, draw: Generator) -> float:
    """How often a decode that is slower by this is called slower or faster."""
    steps = noise * differences("normal", pairs, trials, draw) + np.log1p(effect)
    verdicts = [judged([_pair(float(step)) for step in row]).verdict for row in steps]
    return float(np.mean([verdict != "no-difference" for verdict in verdicts]))


def _pair(step: float) -> Pair:
    before, after = (Block((None,), (ms,), (ms,)) for ms in (100.0, 100.0 * float(np.exp(step))))
    return Pair(before, after)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--trials", type=int, default=6000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    draw = np.random.default_rng(asked.seed)
    print("disturbance pairs" + "".join(f"{name:>16}" for name in WAYS) + "   (% covered / width)")
    for kind in DISTURBED:
        for pairs in PAIRS:
            values = differences(kind, pairs, asked.trials, draw)
            cells = []
            for way in WAYS.values():
                low, high = way(values, draw)
                covered = np.mean((low <= 0) & (high >= 0))
                cells.append(f"{100 * covered:9.1f} /{np.median(high - low):5.1f}")
            print(f"{kind:11}{pairs:6}{''.join(cells)}", flush=True)
    print("\nnoise  slower" + "".join(f"{pairs:>6}" for pairs in PAIRS) + "   (% of trials that call it)")
    for noise in NOISE:
        for effect in EFFECTS:
            found = [called(effect, noise, pairs, asked.trials // 10, draw) for pairs in PAIRS]
            print(
                f"{noise:5.0%}  {effect:6.0%}" + "".join(f"{100 * share:6.0f}" for share in found), flush=True
            )


if __name__ == "__main__":
    main()
