"""What is different besides the times: the requests themselves, and the setup that served them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from rules.attribution import busy_samples
from rules.comparison.ended import UNFINISHED, ends
from rules.sessions import EVALUATED

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from parsers.setup import Setup
    from rules.measures import Measures
    from rules.sums import Sums

Fact: TypeAlias = int | float | str | bool | None
Key: TypeAlias = tuple[str, str, str]
"""Name, unit and how."""

_SAME_BYTES = 0.02
"""Logs round sizes to two digits after the point."""

_NOT_FACTS = ("source", "line", "label", "origin", "disputed", "devices")
_OF_MODEL = (
    "architecture",
    "parameters",
    "layers",
    "layers_offloadable",
    "kv_heads",
    "head_dim_k",
    "head_dim_v",
    "experts",
    "experts_used",
    "sliding_window",
    "context_trained",
    "kv_bytes_per_token",
)
"""Facts that come with another model."""

_SEVERAL = 2
"""Requests from which a rate is one."""

_TOLD_WHEN_ON = ("speculative", "eager")
"""Logs state these only where they are used."""


@dataclass(frozen=True, slots=True)
class Work:
    """Something about the requests, before and after; ``None`` where it is not told.

    Attributes:
        name: what it is.
        unit: ``requests``, ``tokens``, ``share``, ``per minute`` or none.
        how: ``median``, ``share``, ``count``, ``most``, ``mean`` or ``rate``.
    """

    name: str
    unit: str
    how: str
    before: float | None
    after: float | None


@dataclass(frozen=True, slots=True)
class SetupChange:
    """A fact of the setup that differs; ``None`` is off, and only for what logs state when it is on."""

    fact: str
    before: Fact
    after: Fact


def work(before: Measures, after: Measures, sums: Sequence[Sums], *, filtered: bool) -> list[Work]:
    """What the requests were like, as far as one side tells it.

    Args:
        before: one side.
        after: the other.
        sums: the sums of each.
        filtered: whether rows are left out.
    """
    both = list(zip((before, after), sums, strict=True))
    sides = [{**_work(m, summed), **_done(m)} for m, summed in both]
    ended = [ends(m, filtered=filtered) for m, _ in both]
    for name in ended[0]:
        if any(side[name] for side in ended):
            for told, side in zip(sides, ended, strict=True):
                unknown = not side[name] and before.engine != after.engine
                told[name, "requests", "count"] = None if unknown else side[name]
    keys = dict.fromkeys([*sides[0], *sides[1]])
    found = [Work(*key, sides[0].get(key), sides[1].get(key)) for key in keys]
    return [one for one in found if one.before is not None or one.after is not None]


def _done(m: Measures) -> dict[Key, float | None]:
    """What got done, from the first request's start to the last one's end."""
    timed = m.overlap.requests.drop_nulls(["start_ms", "end_ms"])
    begin, end = timed["start_ms"].min(), timed["end_ms"].max()
    if timed.height < m.generations.height or not (isinstance(begin, float) and isinstance(end, float)):
        return {}
    minutes = (end - begin) / 60_000
    if timed.height < _SEVERAL or minutes <= 0:
        return {}
    tokens = None if timed["output_tokens"].null_count() else float(timed["output_tokens"].sum())
    return {
        ("requests a minute", "per minute", "rate"): timed.height / minutes,
        ("output tokens a minute", "per minute", "rate"): None if tokens is None else tokens / minutes,
    }


def _work(m: Measures, sums: Sums) -> dict[Key, float | None]:
    rows, busy = m.generations.filter(~UNFINISHED), busy_samples(m.intervals)
    known = rows.select("prompt_tokens", "output_tokens", evaluated=EVALUATED)
    told: dict[Key, float | None] = {
        ("requests", "requests", "count"): float(m.generations.height)
        if rows.height
        else sums.total("requests"),
        ("prompt tokens", "tokens", "median"): _median(known["prompt_tokens"]),
        ("evaluated tokens", "tokens", "median"): _median(known["evaluated"]),
        ("output tokens", "tokens", "median"): _median(known["output_tokens"]),
        ("prompt tokens from the cache", "share", "share"): m.cached_share
        if rows.height
        else sums.per("cached_tokens", "prompt_tokens"),
        ("requests at once", "", "most"): m.overlap.most if rows.height else _most(busy["running"]),
        ("requests at once while generating", "", "mean"): _mean(m.overlap.requests["level"])
        if rows.height
        else _mean(busy["running"]),
        ("requests waiting", "", "most"): None if rows.height else _most(busy["waiting"]),
    }
    if rows.height:
        return told
    for name, column in (("prompt tokens", "prompt_tokens"), ("output tokens", "output_tokens")):
        told[name, "tokens", "mean"] = sums.per(column, "requests")
    return told


def settings(before: Setup, after: Setup) -> list[SetupChange]:
    """The facts that both sides know and that differ."""
    facts = [name for name in type(before).model_fields if name not in _NOT_FACTS]
    found = [SetupChange(name, getattr(before, name), getattr(after, name)) for name in facts]
    devices = [", ".join(sorted(d.name for d in setup.devices)) or None for setup in (before, after)]
    found.append(SetupChange("devices", *devices))
    differing = [change for change in found if _differs(change)]
    if any(change.fact == "model" for change in differing):
        return [change for change in differing if change.fact not in _OF_MODEL]
    return differing


def _differs(change: SetupChange) -> bool:
    one, other = change.before, change.after
    if one is None or other is None:
        return change.fact in _TOLD_WHEN_ON and (one or None) != (other or None)
    if change.fact.endswith("_bytes") and isinstance(one, int | float) and isinstance(other, int | float):
        return abs(one - other) > _SAME_BYTES * max(abs(one), abs(other))
    return one != other


def _median(values: pl.Series) -> float | None:
    return _number(values.median())


def _mean(values: pl.Series) -> float | None:
    return _number(values.mean())


def _most(values: pl.Series) -> float | None:
    return _number(values.max())


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
