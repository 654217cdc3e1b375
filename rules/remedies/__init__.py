"""Remedies as data: what to change, and the exact switch for each engine.

One TOML file for each remedy, named by its id::

    title = "Keep the system prompt stable so that its prefix is cached"
    cost = "nothing; the order of the prompt changes"
    knob = "prompt-order"
    try = "prefix=kept"                 # what the runner turns to try it; or: untried = "why it can't"

    [[switch]]
    engines = ["llama-server"]          # or ["*"]
    since = 9829                        # optional build numbers, llama.cpp's bNNNN
    until = 9828
    apply = "--cache-reuse 256"
    where = "llama-server command line"

``{name}`` in a text is filled by the rule. The first switch whose engine and version fit is used; without
one that fits, ``["*"]`` says what to do in words. One ``knob`` never gets two values on one page.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

_TURNS = re.compile(r"[\w-]+=[\w.%/+-]+(?:,[\w-]+=[\w.%/+-]+)*")
"""Knobs and plain values; a value in words, such as ``<longest prompt>``, is none."""


@dataclass(frozen=True, slots=True)
class Fix:
    """A remedy for the user's engine.

    Attributes:
        title: what to do.
        apply: the exact switch, field or text to change.
        where: where it goes.
        cost: what applying it costs: restart, reload, quality, memory.
        knob: the thing it turns; two findings never turn one knob to two values.
        remedy: the id of the remedy.
        trial: what ``phasewise run --try`` takes to try it; ``None`` where it can't, or a value isn't known.
    """

    title: str
    apply: str
    where: str
    cost: str
    knob: str
    remedy: str = ""
    trial: str | None = None


@cache
def load(remedy: str) -> dict[str, Any]:
    """A remedy as its file says it, texts not filled."""
    return tomllib.loads((files(__package__) / f"{remedy}.toml").read_text("utf-8"))


def remedy_ids() -> list[str]:
    """All remedies there are."""
    return sorted(
        f.name.removesuffix(".toml") for f in files(__package__).iterdir() if f.name.endswith(".toml")
    )


def fix(remedy: str, engine: str | None, version: str | None = None, **values: object) -> Fix:
    """The remedy for an engine and version, its texts filled with ``values``.

    Raises:
        FileNotFoundError: there is no such remedy.
        KeyError: a text needs a value that was not given.
    """
    data = load(remedy)
    switch = _switch(data, engine, version)
    return Fix(
        title=str(data["title"]).format(**values),
        apply=str(switch["apply"]).format(**values),
        where=str(switch["where"]).format(**values),
        cost=str(data["cost"]).format(**values),
        knob=str(data.get("knob", remedy)),
        remedy=remedy,
        trial=_trial(data, values),
    )


def has_switch(remedy: str, engine: str | None) -> bool:
    """Whether the remedy names this engine, not only advice in words."""
    return any(engine in s["engines"] for s in load(remedy)["switch"])


def untried(remedy: str) -> str | None:
    """Why the runner can't try a remedy; ``None`` for one that it can."""
    reason = load(remedy).get("untried")
    return None if reason is None else str(reason)


def _trial(data: dict[str, Any], values: dict[str, object]) -> str | None:
    filled = str(data.get("try", "")).format(**values)
    return filled if _TURNS.fullmatch(filled) else None


def _switch(data: dict[str, Any], engine: str | None, version: str | None) -> dict[str, Any]:
    build = _build(version)
    switches: list[dict[str, Any]] = data["switch"]
    for switch in switches:
        since, until = switch.get("since"), switch.get("until")
        in_range = build is None or ((since is None or build >= since) and (until is None or build <= until))
        if engine in switch["engines"] and in_range:
            return switch
    return next(s for s in switches if "*" in s["engines"])


def _build(version: str | None) -> int | None:
    match = re.fullmatch(r"b(\d+)", version or "")
    return int(match[1]) if match else None
