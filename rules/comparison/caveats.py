"""What a comparison can't be used for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.comparison.dimensions import span
from rules.comparison.ended import ENDS
from rules.comparison.quantities import SPEEDS
from rules.comparison.queueing import may_be_queued
from rules.comparison.strata import opposed
from rules.deployments import deployments
from rules.rule import Caveat
from rules.words import count, percent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rules.comparison import Compared
    from rules.comparison.quantities import Quantity
    from rules.comparison.strata import Stratum
    from rules.measures import Measures

_PARTLY = 0.5
_SMALL = 0.1
_OTHER_ENDS = 0.05
"""Of the requests."""


def caveats(c: Compared, before: Measures, after: Measures) -> list[Caveat]:
    """Everything that the reader of the comparison must know."""
    return list(_caveats(c, before, after))


def _caveats(c: Compared, before: Measures, after: Measures) -> Iterator[Caveat]:
    if c.grain is None:
        return
    if _sources(before) & _sources(after):
        yield Caveat("same-log", "Some of the logs are on both sides: what they hold can't differ.")
    if "engine" in c.replaced:
        yield Caveat(
            "another-engine",
            "The sides are of different engines: where each starts its clocks and what it counts as a phase "
            "differs too.",
        )
    if "model" in c.replaced:
        yield Caveat(
            "another-model",
            "The sides name different models: a token is then not the same piece of text, so times per token "
            "compare machines at work, not the reading of the same text.",
        )
    for when, m in (("before", before), ("after", after)):
        if (parts := len(deployments(m))) > 1:
            yield Caveat(
                "several-setups",
                f"The side {when} mixes {parts} setups; the settings shown are those that served longest.",
            )
    for q in c.quantities:
        yield from _of(q)
    if any(c.left_out):
        then, now = c.left_out
        yield Caveat(
            "warm-up",
            f"The first request after a start is left out ({then} before, {now} after): it warms the machine "
            "up.",
        )
    if ends := ", ".join(_other_ends(c)):
        yield Caveat(
            "other-ends",
            f"Requests ended differently ({ends}). Those given up or failed are in no time here, and what "
            "was cut or stopped is less work.",
        )
    ttft = c.of("ttft")
    if ttft is not None and ttft.sign is not None and any(map(may_be_queued, (before, after))):
        yield Caveat("queue-invisible", "Waiting before a slot takes a request is in neither log.")
    told = [effect for q in c.quantities for effect in q.effects if effect.sign and effect.none]
    if any(1 / (1 + _SMALL) < effect.value < 1 + _SMALL for effect in told):
        yield Caveat(
            "one-run",
            "Differences below a tenth can be the day and not the change: heat and other work on the machine "
            "make two runs of one setup differ, and no interval here knows that. Run both once more.",
        )


def _other_ends(c: Compared) -> Iterator[str]:
    """In words, how many requests ended in a way that the sides differ in."""
    requests = c.pair("requests", "count")
    for name in ENDS:
        ended = c.pair(name, "count")
        if requests and ended and all(requests):
            shares = [n / of for n, of in zip(ended, requests, strict=True)]
            if abs(shares[1] - shares[0]) >= _OTHER_ENDS:
                yield f"{name}: {count(ended[0])} before, {count(ended[1])} after"


def _of(q: Quantity) -> Iterator[Caveat]:
    if q.name not in SPEEDS or q.alike is None:
        return
    if q.matched is not None and q.matched < _PARTLY:
        yield Caveat(
            "partly-alike",
            f"{percent(q.matched)} of the requests that tell {q.name} have their like on the other side; the "
            "others are left out there.",
        )
    if q.ignored:
        yield Caveat(
            "not-matched",
            f"Not told on both sides, so {q.name} is compared without regard to it: {', '.join(q.ignored)}.",
        )
    if against := opposed(q.alike, q.strata):
        yield Caveat(
            "opposed",
            f"{q.name.capitalize()} went the other way at {_sizes(against[0])}: one number for all sizes "
            "hides that.",
        )


def _sizes(stratum: Stratum) -> str:
    """``893 to 909 evaluated tokens``."""
    return " and ".join(
        f"{span(key, low, high)} {key.replace('_', ' ')}" for key, (low, high) in stratum.sizes.items()
    )


def _sources(m: Measures) -> set[str]:
    return {
        str(source)
        for frame in (m.requests, m.intervals, m.aggregates)
        for source in frame["source"].unique()
    }
