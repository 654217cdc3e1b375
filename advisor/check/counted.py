"""How many requests there are, and how many ended without times.

0 is a number only where the log would show one; elsewhere it is unknown.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import polars as pl

from advisor.check.log import Measured, line_of
from parsers import FORMATS
from rules.words import plural

if TYPE_CHECKING:
    from collections.abc import Iterable

    from advisor.check.log import Log
    from advisor.model import Source


_ENDED = {"aborted": "were aborted", "failed": "failed", "incomplete": "were cut off"}
_EVENTS = {"aborted": ["aborted"], "failed": ["error", "context_exceeded"], "incomplete": []}


def requests(log: Log) -> Measured:
    """How many requests generated text."""
    m = log.measures
    if m.generations.height:
        repeated = log.caveat("repeated-requests")
        return Measured(float(m.generations.height), notes=(repeated,) if repeated else ())
    if m.sums.rows.height:
        counted = m.sums.total("requests")
        return Measured(counted, reason=None if counted is not None else "These sums don't count requests.")
    if m.intervals.height:
        return Measured(None, reason="This log has no line for each request, so they can't be counted.")
    return Measured(0.0)


def ended(log: Log, how: str, *, as_share: bool) -> Measured:
    """How many requests were ``aborted``, ``failed`` or ``incomplete``, or which share of all that began."""
    sources, m = log.analysis.sources, log.measures
    count, engines = _ended_so(sources, how), _silent(sources, how)
    if engines:
        known = f" {plural(count, 'request')} of other logs {_ENDED[how]}." if count else ""
        said = f"A log of {' or '.join(engines)} does not say how many requests {_ENDED[how]}."
        return Measured(None if as_share else float(count), reason=said + known, most=math.inf)
    if count and log.filtered:
        return Measured(
            None, reason=f"The whole log has {count}; how many pass the filters is not known: check without."
        )
    first = m.events.filter(pl.col("kind").is_in(_EVENTS[how])) if count else m.events.clear()
    if not as_share:
        return Measured(float(count), line=line_of(first))
    done = requests(log)
    if done.value is None:
        return Measured(None, reason=done.reason)
    began = int(done.value) + sum(_ended_so(sources, each) for each in _ENDED)
    if not began:
        return Measured(None, reason=log.analysis.verdict.sentence)
    return Measured(count / began, began, line=line_of(first))


def _ended_so(sources: Iterable[Source], how: str) -> int:
    """How many requests are known to have ended so: ``aborted``, ``failed`` or ``incomplete``."""
    return sum(getattr(source, f"{how}_requests") for source in sources)


def _silent(sources: Iterable[Source], how: str) -> list[str]:
    """The engines whose logs would not say so."""
    silent = (s for s in sources if not getattr(s, f"{how}_requests") and how not in _ends_told(s))
    return sorted({source.engine or "?" for source in silent})


def _ends_told(source: Source) -> set[str]:
    """How requests end that such a source would tell of, as its format says: a log, or sums."""
    formats = [fmt for fmt in FORMATS if fmt.engine == source.engine]
    sums = [fmt for fmt in formats if fmt.grain == "aggregate"]
    logs = [fmt for fmt in formats if fmt.grain != "aggregate"]
    return {how for fmt in ((sums if source.aggregates else logs) or formats) for how in fmt.ends}
