"""The lines of a check: which limits hold, which are broken, which this log can't tell.

A CI system takes some lines that a program prints for commands; text from a log can't become one here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rich.text import Text

from advisor.report.blocks import indented, put, standard_console
from rules.words import count, measure

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from advisor.check.model import Check, Outcome
    from advisor.model import Line

STATES = {"ok": "ok", "broken": "BROKEN", "unknown": "CAN'T TELL"}
_STYLES = {"ok": "green", "broken": "bold red", "unknown": "bold yellow"}
_STATE_WIDTH = max(map(len, STATES.values())) + 2
_AS_ABOVE = "for the same reason"
_COMMAND = re.compile(r"::|##(?=\w*\[)")
"""What starts a command of GitHub Actions, Azure Pipelines or TeamCity."""


def show(check: Check, console: Console | None = None) -> None:
    """Print the page to standard output."""
    put(console or standard_console(), page(check))


def page(check: Check) -> list[RenderableType]:
    """The limits, one a line, with what is to say of each below it; then the verdict."""
    rows = [_row(one) for one in check.limits]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    blocks: list[RenderableType] = []
    reason: str | None = None
    for one, (what, value, limit, samples) in zip(check.limits, rows, strict=True):
        line = Text(f"{STATES[one.state]:{_STATE_WIDTH}}", style=_STYLES[one.state])
        cells = f"{what:{widths[0]}}  {value:>{widths[1]}}  {limit:{widths[2]}}  {samples}"
        blocks.append(line.append(cells.rstrip(), style=""))
        again = one.reason is not None and one.reason == reason
        told = details(one.model_copy(update={"reason": _AS_ABOVE}) if again else one)
        blocks += [indented(Text(text), _STATE_WIDTH) for text in told]
        reason = one.reason
    return [*blocks, Text(), Text(sentence(check), style="bold"), Text(harmless(check.verdict))]


def _row(one: Outcome) -> tuple[str, str, str, str]:
    return harmless(one.what), value(one), allowed(one), samples(one)


def value(one: Outcome) -> str:
    """What was measured, with as many digits as tell it from the limit."""
    if one.measured is None:
        return "?" if one.unit else ""
    if one.unit in ("requests", "findings"):
        return count(one.measured)
    said = measure(one.measured, one.unit)
    if one.allowed is None or one.measured == one.allowed or said != measure(one.allowed, one.unit):
        return said
    for digits in (4, 6):
        shown = float(f"{one.measured:.{digits}g}")
        if shown != one.allowed and (shown > one.allowed) == (one.measured > one.allowed):
            return _exact(shown, one.unit)
    return _exact(one.measured, one.unit)


def allowed(one: Outcome) -> str:
    """The limit, exactly: ``max 2 s``; nothing where there is none."""
    return "" if one.allowed is None else f"{one.bound} {_exact(one.allowed, one.unit)}"


def _exact(number: float, unit: str, digits: int = 9) -> str:
    match unit:
        case "ms" if number >= 120_000 and not number % 60_000:
            return f"{number / 60_000:.{digits}g} min"
        case "ms" if number >= 1000:
            return f"{number / 1000:.{digits}g} s"
        case "ms" | "tok/s":
            return f"{number:.{digits}g} {unit}"
        case "share":
            return f"{100 * number:.{digits}g} %"
    return f"{number:.{digits}g}"


def samples(one: Outcome) -> str:
    """``n=8 of 12``: the requests that the number is of; nothing where that says nothing."""
    if one.n is None:
        return ""
    return f"n={one.n:,}" if one.of in (None, one.n) else f"n={one.n:,} of {one.of:,}"


def details(one: Outcome) -> list[str]:
    """What is to say of a limit besides its numbers."""
    said = [f"{fault.rule}, {fault.confidence}: {fault.title}{_at(fault.line)}" for fault in one.faults]
    if one.reason is not None:
        said.append(one.reason)
    if one.line is not None and not one.faults and one.state != "ok":
        said.append(f"see {place(one.line)}")
    return [harmless(text) for text in [*said, *one.notes]]


def _at(line: Line | None) -> str:
    return "" if line is None else f" ({place(line)})"


def place(line: Line) -> str:
    """``server.log:12``."""
    return f"{'standard input' if line.source == '-' else line.source}:{line.line}"


def sentence(check: Check) -> str:
    """How many limits hold, are broken, can't be told."""
    states = [one.state for one in check.limits if one.allowed is not None]
    broken, unknown = states.count("broken"), states.count("unknown")
    unread = " Not every input was read." if len(states) < len(check.limits) else ""
    if len(states) == 1:
        alone = {"ok": "holds", "broken": "is broken", "unknown": "can't be told"}[states[0]]
        return f"The limit {alone}.{unread}"
    if not broken and not unknown:
        return f"All {len(states)} limits hold.{unread}"
    said = [f"{broken} {'is' if broken == 1 else 'are'} broken"] if broken else []
    said += [f"{unknown} can't be told"] if unknown else []
    return f"Of {len(states)} limits, {' and '.join(said)}.{unread}"


def harmless(text: str) -> str:
    """Text in which no CI system finds a command."""
    return _COMMAND.sub(lambda found: " ".join(found[0]), text)
