"""A comparison in words: seconds first, then whether they could be chance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from rules.comparison.coarse import NO_INTERVAL
from rules.comparison.effect import LEAST
from rules.comparison.quantities import SPEEDS, WAITS
from rules.comparison.reasons import reasons
from rules.comparison.wording import changed, difference, instead, reach, seen
from rules.words import count, duration, rate

if TYPE_CHECKING:
    from rules.comparison import Compared
    from rules.comparison.quantities import Quantity

_DOES = {
    "ttft": "the first token comes after",
    "total": "the whole request takes",
    "queue": "waiting for a slot takes",
    "load": "loading the model takes",
    "prefill": "prefill takes",
    "decode": "decode takes",
}
NAMES = {
    "ttft": "The time to first token",
    "total": "The total time",
    "queue": "Waiting for a slot",
    "load": "Loading the model",
    "prefill": "Prefill",
    "decode": "Decode",
}
_PROMPTS = {"prompts": "evaluated tokens", "caches": "cached tokens"}
_LIKE = {
    "ttft": _PROMPTS,
    "total": {**_PROMPTS, "answers": "output tokens"},
    "prefill": _PROMPTS,
    "decode": {"contexts": "context tokens"},
}
_SMALL_RATE = 100.0


def headline(c: Compared) -> str:
    """The answer: how the wait changed and why; where no wait is told, how the speeds did."""
    if c.incomparable is not None:
        return f"These logs can't be compared: {c.incomparable}."
    waits = [q for q in (c.of("ttft"), c.of("total")) if q is not None and q.sign is not None]
    if c.unseen is not None and not waits:
        speeds = [sentence(q) for q in c.quantities if q.sign]
        return " ".join([f"How long clients wait can't be compared: {c.unseen}.", *_done(c), *speeds])
    if not waits:
        told = [q for q in c.quantities if q.sign is not None]
        if not told:
            return _summed(c) or _nothing(c)
        untold = [q for q in c.quantities if q.name in WAITS]
        return " ".join([*_not_compared(untold), *(sentence(q) for q in told)])
    first = next((q for q in waits if q.sign), waits[0])
    other = next((q for q in waits if q is not first and q.sign), None)
    split = c.first_token if first.name == "ttft" else c.total
    said = [_wait(first), *(reasons(c, first, split) if first.sign and split else [])]
    if other is not None and (other.sign != first.sign or first.name == "total"):
        said.append(_wait(other))
    if first.sign and split and not any(part.cause.startswith("prefill") for part in split.parts):
        said.append(_wait_alike(first))
    if not first.sign:
        said += [sentence(q) for q in c.quantities if q.name in SPEEDS and q.sign]
    return " ".join(filter(None, said))


def _done(c: Compared) -> list[str]:
    """What got done in the time that both logs span, as far as it is told."""
    words = {
        "requests": c.pair("requests a minute", "rate"),
        "output tokens": c.pair("output tokens a minute", "rate"),
    }
    said = [
        f"{per_minute(pair[1])} instead of {per_minute(pair[0])} {name} a minute"
        for name, pair in words.items()
        if pair is not None
    ]
    return [f"Look at what got done: {' and '.join(said)}."] if said else []


def per_minute(value: float) -> str:
    """``8.9``, ``1,420``."""
    return f"{value:,.1f}" if value < _SMALL_RATE else count(value)


def _summed(c: Compared) -> str:
    """The means of what is only summed up: the waits, else all there are; empty where there is no pair."""
    means = [q for q in c.quantities if q.not_compared == NO_INTERVAL]
    waits = [q for q in means if q.name in WAITS] or means
    said = " ".join(f"{_mean(q)}." for q in waits)
    return f"{said} {NO_INTERVAL[0].upper()}{NO_INTERVAL[1:]}." if said else ""


def _nothing(c: Compared) -> str:
    """Why not one thing is compared, each reason once."""
    if not c.quantities:
        return "Neither log tells how long anything took."
    requests = c.pair("requests", "count")
    if requests is not None and min(requests) < LEAST:
        before, after = (count(n) for n in requests)
        return f"These logs can't be compared: too few requests, {before} before and {after} after."
    return " ".join(_not_compared(c.quantities))


def _not_compared(untold: list[Quantity]) -> list[str]:
    """Why these are not compared, each reason once."""
    names: dict[str, list[str]] = {}
    for q in untold:
        names.setdefault(q.not_compared or "too little is logged", []).append(NAMES[q.name])
    return [f"{joined(which)} can't be compared: {why}." for why, which in names.items()]


def joined(names: list[str]) -> str:
    """``The total time``, ``The total time, decode and prefill``."""
    said = [names[0], *(name[0].lower() + name[1:] for name in names[1:])]
    return said[0] if len(said) == 1 else f"{', '.join(said[:-1])} and {said[-1]}"


def sentence(q: Quantity) -> str:
    """What is to be said of one quantity."""
    if q.name in SPEEDS:
        return _speed(q)
    if q.sign is None:
        return _untold(q)
    return " ".join(filter(None, (_wait(q), _wait_alike(q))))


def _wait_alike(q: Quantity) -> str:
    """Of a wait without queue and load at like work; empty where that is not compared."""
    if q.alike is None:
        return ""
    if q.alike.sign:
        return f"At {_alike(q)} it is {changed(q.alike)}{_without(q)}."
    return f"At {_alike(q)} no difference can be measured{_without(q)}{seen(q.alike)}."


def _without(q: Quantity) -> str:
    return f", {' and '.join(q.without)} apart" if q.without else ""


def _alike(q: Quantity) -> str:
    """What the samples that are compared at like work have in common: ``like prompts and caches``."""
    words = [word for word, key in _LIKE[q.name].items() if key not in q.ignored]
    if not words:
        return "any context"
    return f"like {' and '.join(filter(None, (', '.join(words[:-1]), words[-1])))}"


def _wait(q: Quantity) -> str:
    """Of a wait as it was: by its median where that tells, else by its mean."""
    does, name = _DOES[q.name], NAMES[q.name]
    before, after = q.before, q.after
    if q.contradictory:
        return (
            f"{name} went both ways: {instead(before.median, after.median)} at the median, but "
            f"{instead(before.mean, after.mean)} on average."
        )
    if q.typical is not None and q.typical.sign:
        how = ":" if q.median else ", on the whole"
        return (
            f"{does[0].upper()}{does[1:]} {instead(before.median, after.median)} at the median{how} "
            f"{changed(q.typical)}."
        )
    if q.mean is not None and q.mean.sign:
        return (
            f"{does[0].upper()}{does[1:]} {instead(before.mean, after.mean)} on average: "
            f"{difference(q.mean)}."
        )
    if before.mean == after.mean == 0:
        return f"{name}: none on either side."
    then, now = (before.median, after.median) if q.typical else (before.mean, after.mean)
    how = "at the median" if q.typical else "on average"
    effect = q.typical or q.mean
    chance = seen(effect) if effect else ""
    if duration(then) == duration(now):
        return f"{name}: {duration(now)} on both sides {how}{chance}."
    return (
        f"{name}: no difference can be measured. {duration(then)} before and {duration(now)} after {how} "
        f"could be chance{chance}."
    )


def _untold(q: Quantity) -> str:
    """Of a quantity without an interval: its means where both sides have them, else why it is not told."""
    name, why = NAMES[q.name], q.not_compared or "too little is logged"
    return f"{_mean(q)}; {why}." if why == NO_INTERVAL else f"{name} can't be compared: {why}."


def _mean(q: Quantity) -> str:
    then, now = (_per_unit(q, side.mean) for side in (q.before, q.after))
    return f"{NAMES[q.name]}: {now} on average {'on both sides' if then == now else f'instead of {then}'}"


def _speed(q: Quantity) -> str:
    name, alike = NAMES[q.name], q.alike
    if alike is None:
        return _untold(q)
    if not alike.sign:
        return f"{name}: no difference can be measured at {_alike(q)}{seen(alike)}."
    then, now = q.before.median, q.after.median
    said = f"{name} is {'faster' if alike.sign < 0 else 'slower'} at {_alike(q)}: {changed(alike)}"
    if not then or not now or (now - then) * alike.sign <= 0 or _per_unit(q, now) == _per_unit(q, then):
        return f"{said}."
    return (
        f"{said}. {_per_unit(q, now)} instead of {_per_unit(q, then)} at the median "
        f"({_rate(now)} instead of {_rate(then)})."
    )


def _per_unit(q: Quantity, value: float | None) -> str:
    if q.name == "prefill" and value is not None:
        return f"{duration(1000 * value)} per 1,000 tokens"
    return f"{duration(value)} a token" if q.name == "decode" else duration(value)


def _rate(ms_per_token: float) -> str:
    return rate(1000 / ms_per_token)


def change(q: Quantity) -> str:
    """The change in a few words, for a table."""
    if q.sign is None:
        return "can't be told" if q.not_compared == NO_INTERVAL else "not comparable"
    told = next((effect for effect in q.effects if effect.sign), None)
    if q.contradictory:
        return "both ways"
    if told is None:
        return f"none measurable{reach(q.effects[0])}"
    return changed(told).replace(" as long", "") if told.none else difference(told)


def shown(q: Quantity) -> Literal["median", "mean"]:
    """Which of a side's numbers a table shows: of a wait that only its mean tells, that."""
    if q.name in SPEEDS:
        return "mean" if q.before.median is None and q.after.median is None else "median"
    if not q.effects and q.name in WAITS and q.before.median is not None and q.after.median is not None:
        return "median"
    by_mean = q.typical is None or (not q.typical.sign and q.mean is not None and q.mean.sign)
    return "mean" if by_mean else "median"


def value(name: str, ms: float | None) -> str:
    """A quantity's value for a table: prefill per 1,000 tokens, decode per token."""
    if ms is None:
        return ""
    return duration(1000 * ms if name == "prefill" else ms)
