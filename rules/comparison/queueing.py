"""Waits that a queue is in: what logs that begin at the slot don't show, and how little a busy hour tells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from rules.comparison.effect import in_a_queue
from rules.words import count, plural

if TYPE_CHECKING:
    from rules.measures import Measures

_OTHER_LEVEL = 1.5
"""Times as many requests at once: another concurrency, where slots are not known."""

_REAL_SHARE = 0.1
"""Of a mean wait: from here on its queue decides how it scatters."""

_LEAST_INDEPENDENT = 8
"""Waits of one server's queue at loads of 0.5 to 0.9 (M/G/1, simulated) then differ falsely in about 1 of 100
pairs."""


def unseen(before: Measures, after: Measures) -> str | None:
    """Why the waits of two logs don't say how long clients waited: a queue that neither log shows.

    Clocks that start at the slot leave the queue before it out. It may be there wherever all slots are taken,
    and with another number of slots it is another one.
    """
    sides = before, after
    if not all((m.generations["ttft_from"] == "slot").any() for m in sides):
        return None
    if not any(map(_may_queue, sides)):
        return None
    why = "waiting before a slot takes a request is in neither log"
    (slots, slots_now), (most, most_now) = ([m.setup.slots for m in sides], [m.overlap.most for m in sides])
    if slots is not None and slots_now is not None:
        same = slots == slots_now or (most is not None and most == most_now)
        if same:
            return None
        return f"{why}, and with {plural(slots_now, 'slot')} instead of {slots} it is another queue"
    if most is None or most_now is None or max(most, most_now) < _OTHER_LEVEL * min(most, most_now):
        return None
    return f"{why}, and up to {most_now} ran at once instead of {most}"


def inseparable(before: Measures, after: Measures) -> str | None:
    """Why waits can't be compared at like work: a queue may be in them that neither log tells apart."""
    for m in (before, after):
        rows = m.generations.filter(pl.col("ttft_from") == "arrival")
        if rows["queue_ms"].null_count() and (m.overlap.most or 1) > 1:
            return "waiting for a slot may be in it, and is not told apart"
    return None


def may_be_queued(m: Measures) -> bool:
    """Whether requests may have waited where this log does not show it."""
    if not (m.generations["ttft_from"] == "slot").any():
        return False
    return _may_queue(m) and not (m.serial and m.setup.slots is None)


def _may_queue(m: Measures) -> bool:
    """Whether all slots may have been taken."""
    slots, most = m.setup.slots, m.overlap.most
    return slots is None or most is None or most >= slots


@dataclass(frozen=True, slots=True)
class Entangled:
    """How a queue holds the waits in it together.

    Attributes:
        inflation: how many times larger it makes the variance of a mean wait.
        why_not: why they can't be told from chance.
    """

    inflation: float = 1.0
    why_not: str | None = None


def entangled(rows: pl.DataFrame, wait: str) -> Entangled:
    """Whether a queue decides a wait.

    Args:
        rows: the requests of both sides, each in the order of time.
        wait: the column.
    """
    known = rows.drop_nulls([wait, "queue_ms"])
    sides = [known.filter(pl.col("after") == late) for late in (False, True)]
    queues, waits = (
        [side[name].to_numpy().astype(np.float64) for side in sides] for name in ("queue_ms", wait)
    )
    fewest = min(queue.size for queue in queues)
    if not fewest or all(q.mean() < _REAL_SHARE * ms.mean() for q, ms in zip(queues, waits, strict=True)):
        return Entangled()
    inflation = in_a_queue(*queues)
    if fewest >= _LEAST_INDEPENDENT * inflation:
        return Entangled(inflation)
    worth = max(fewest / inflation, 1)
    return Entangled(
        inflation,
        "requests in a queue wait for each other, so that one busy stretch counts once: "
        f"{count(fewest)} of them are worth {count(worth)}, and {_LEAST_INDEPENDENT} are needed",
    )
