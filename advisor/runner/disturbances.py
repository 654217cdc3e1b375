"""What disturbed a measurement, in sentences, from looks at the machine: see `advisor.runner.machine`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from advisor.runner.machine import THROTTLES
from rules.trials import drift
from rules.words import percent

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from advisor.runner.machine import Moment, Reference

OTHERS, OTHERS_CORES = 0.05, 0.5
"""Share of all processors that other programs use, and so many of them, from either of which it is told."""

STOLEN = 0.02
"""Share of the time that the host of a virtual machine gave to others."""

SLOW, LEAST_SLOW = 0.4, 3
"""References that are so much slower than the median, from so many of them on: quiet ones differ by up to a
third, and now and then one by more."""

DRIFT = 0.25
"""A smaller drift of the reference is told only where the turns drift too, as what may explain it."""

_CLOCK_FELL = 0.93


def disturbances(
    moments: Sequence[Moment],
    references: Sequence[Reference],
    processors: int,
    *,
    turns_drift: bool = False,
) -> list[str]:
    """What disturbed a trial, in sentences; none where nothing is known to have.

    Args:
        moments: a look after each block.
        references: the fixed work between blocks, in the order of time.
        processors: of the machine.
        turns_drift: the blocks themselves got slower or faster.
    """
    others_from = min(OTHERS, OTHERS_CORES / processors)
    said = [
        *_shared([m.others_share for m in moments], others_from, "Other programs used {} of the processors"),
        *_shared([m.stolen_share for m in moments], STOLEN, "The host took {} of the processors' time away"),
    ]
    if hot := sum(bool(m.is_hot) for m in moments):
        said.append(f"A processor was at its limit of heat after {_of(hot, moments)}.")
    if any(m.on_battery for m in moments):
        said.append("The machine ran on battery.")
    said += _held_back(moments)
    if others := max((m.gpu_others or 0 for m in moments), default=0):
        said.append(f"{others} other program{' was' if others == 1 else 's were'} using the GPU.")
    return said + _slower(references, 0.0 if turns_drift else DRIFT)


def _shared(shares: Iterable[float | None], least: float, words: str) -> list[str]:
    known = [share for share in shares if share is not None]
    over = [share for share in known if share >= least]
    if not over:
        return []
    return [f"{words.format(percent(float(np.median(over))))} during {_of(len(over), known)}."]


def _of(some: int, all_of: Sequence[object]) -> str:
    return f"{some} of {len(all_of)} block{'' if len(all_of) == 1 else 's'}"


def _held_back(moments: Sequence[Moment]) -> list[str]:
    """A power limit that always holds is how the GPU runs; one that comes and goes is a disturbance."""
    known = [m.gpu_held_back for m in moments if m.gpu_held_back is not None]
    counts = {words: sum(words in one for one in known) for words in THROTTLES.values()}
    told = {w: n for w, n in counts.items() if n and (w == "heat" or n < len(known))}
    return [f"The GPU was held back by {words} after {_of(n, known)}." for words, n in told.items()]


def _slower(references: Sequence[Reference], least_drift: float) -> list[str]:
    parts = {
        "reading memory": [r.memory_gb_s for r in references],
        "arithmetic": [r.compute_gflops for r in references],
    }
    said = []
    for name, rates in parts.items():
        work = f"A fixed piece of work between turns, {name},"
        fell = drift([1 / rate for rate in rates])
        slow = sum(rate < (1 - SLOW) * float(np.median(rates)) for rate in rates)
        if fell is not None and abs(fell) >= least_drift:
            way = "slower" if fell > 0 else "faster"
            said.append(f"{work} got {percent(abs(fell))} {way} during the run ({_why(references)}).")
        elif slow >= LEAST_SLOW:
            said.append(f"{work} was at least {percent(SLOW)} slower {slow} of {len(rates)} times.")
    return said


def _why(references: Sequence[Reference]) -> str:
    clocks = [r.clock_mhz for r in references if r.clock_mhz]
    if len(clocks) == len(references) and clocks[-1] < _CLOCK_FELL * clocks[0]:
        return f"its clock fell from {clocks[0] / 1000:.1f} to {clocks[-1] / 1000:.1f} GHz"
    return "heat, clocks, or other programs"
