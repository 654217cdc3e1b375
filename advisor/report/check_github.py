"""A check for GitHub Actions: annotations as workflow commands, and a summary of the job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from advisor.report.check import STATES, allowed, details, samples, sentence, value
from advisor.report.markdown import escape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from advisor.check.model import Check, Outcome
    from advisor.model import Line

_DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY = {**_DATA, ":": "%3A", ",": "%2C"}


def commands(check: Check) -> str:
    """An ``::error`` command for each limit that is broken or can't be told, and for each finding."""
    return "".join(f"{command}\n" for one in check.limits for command in _commands(one))


def _commands(one: Outcome) -> Iterator[str]:
    title = f"phasewise {one.limit}: {STATES[one.state].lower()}"
    if one.state == "ok":
        return
    for fault in one.faults:
        yield _error(title, f"{fault.rule} ({fault.confidence}): {fault.title}", fault.line)
    if not one.faults:
        numbers = ", ".join(part for part in (value(one), allowed(one), samples(one)) if part)
        said = [f"{one.what}: {numbers}", *([] if one.reason is None else [one.reason]), *one.notes]
        yield _error(title, "\n".join(said), one.line)


def _error(title: str, message: str, line: Line | None) -> str:
    at = {"file": line.source, "line": str(line.line)} if line is not None and line.source != "-" else {}
    properties = {**at, "title": title}
    said = ",".join(f"{name}={_escaped(text, _PROPERTY)}" for name, text in properties.items())
    return f"::error {said}::{_escaped(message, _DATA)}"


def _escaped(text: str, codes: dict[str, str]) -> str:
    return "".join(codes.get(character, character) for character in text)


def summary(check: Check) -> str:
    """The limits as a Markdown table for the page of the job."""
    rows = [
        f"| {_cells(STATES[one.state], one.what, value(one), allowed(one), samples(one))} "
        f"| {'<br>'.join(map(escape, details(one)))} |"
        for one in check.limits
    ]
    head = "| | limit | measured | allowed | requests | |\n|---|---|---|---|---|---|"
    parts = [f"### phasewise check\n\n{escape(sentence(check))}", "\n".join([head, *rows])]
    return "\n\n".join([*parts, escape(check.verdict)]) + "\n"


def _cells(*texts: str) -> str:
    return " | ".join(map(escape, texts))
