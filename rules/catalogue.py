"""Finds the rules and caveats, and asks each of them.

A rule is a module in one of the packages named there with a `RULE` and a ``check``; a caveat is a module in
`rules.caveats` with an ``ID`` and a ``check``. Other distributions add rules through the entry point group
``phasewise.rules``, each a module. A rule that crashes becomes one ``error`` caveat and never stops the rest.
"""

from __future__ import annotations

import inspect
import pkgutil
import traceback
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rules.rule import CannotTell, Caveat, Crashed, Finding, Rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    from rules.measures import Measures
    from rules.rule import Answer

_PACKAGES = ("prefill", "decode", "speculation", "memory", "queue", "load")


@dataclass(frozen=True, slots=True)
class LoadedRule:
    """A rule, what it asks, its documentation, and the folder it is in (`others` from elsewhere)."""

    rule: Rule
    check: Callable[[Measures], Answer]
    docs: str
    package: str


@dataclass(frozen=True, slots=True)
class LoadedCaveat:
    """A caveat, what it asks, and its documentation."""

    id: str
    check: Callable[[Measures], Caveat | None]
    docs: str


@cache
def all_rules() -> tuple[LoadedRule, ...]:
    """Every rule, built-in ones first."""
    found = [(package, m) for package in _PACKAGES for m in _modules(f"rules.{package}")]
    found += [("others", point.load()) for point in entry_points(group="phasewise.rules")]
    return tuple(LoadedRule(m.RULE, m.check, inspect.getdoc(m) or "", package) for package, m in found)


@cache
def all_caveats() -> tuple[LoadedCaveat, ...]:
    """Every caveat."""
    return tuple(LoadedCaveat(m.ID, m.check, inspect.getdoc(m) or "") for m in _modules("rules.caveats"))


def _modules(package: str) -> Iterator[ModuleType]:
    for info in pkgutil.iter_modules(import_module(package).__path__):
        yield import_module(f"{package}.{info.name}")


class Answers(NamedTuple):
    """What the rules and caveats said: findings, caveats, and by rule why one could not tell."""

    findings: list[Finding]
    caveats: list[Caveat]
    unanswered: dict[str, str]


def ask(measures: Measures, *, across: bool | None = None) -> Answers:
    """Ask every rule that is not switched off, and every caveat, about these measures.

    Args:
        measures: of an engine's rows, or of one deployment's.
        across: only rules with this ``across``, and caveats only with ``True``; default all.
    """
    findings: list[Finding] = []
    caveats: list[Caveat] = []
    unanswered: dict[str, str] = {}
    for loaded in all_rules():
        rule = loaded.rule
        if not measures.asks(rule):
            continue
        if across is not None and rule.across is not across:
            continue
        answer = measures.asked(loaded.check)
        if isinstance(answer, Crashed):
            caveats.append(_crashed(rule.id, answer.error))
        elif isinstance(answer, Finding):
            findings.append(answer)
        elif isinstance(answer, CannotTell):
            unanswered[loaded.rule.id] = answer.reason
    for caveat in all_caveats() if across is not False else ():
        try:
            said = caveat.check(measures)
        except Exception as error:
            caveats.append(_crashed(caveat.id, error))
            continue
        if said is not None:
            caveats.append(said)
    return Answers(findings, caveats, unanswered)


def _crashed(name: str, error: Exception) -> Caveat:
    last = traceback.extract_tb(error.__traceback__)[-1]
    at = f"{Path(last.filename).name}:{last.lineno}"
    return Caveat(
        "error", f"{name} failed ({type(error).__name__} at {at}) and said nothing; please report it."
    )
