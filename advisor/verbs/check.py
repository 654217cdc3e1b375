"""`phasewise check`: a gate for CI."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from advisor.check.limits import KINDS, PHASE_SHARE
from advisor.command import BAD_USAGE, LIMIT_BROKEN, end, options, read, require, writes_unicode
from advisor.errors import InputError
from advisor.options import CheckFormat, Given, Inputs, NoRedact, Output, Paths, Selection, gathered, grouped

if TYPE_CHECKING:
    from advisor.check.model import Check

_ENDINGS = {".xml": CheckFormat.JUNIT, ".json": CheckFormat.JSON}


def _option(name: str) -> Any:
    kind = KINDS[name]
    taken = typer.Option(f"--{name}", metavar=kind.takes, help=kind.help, hidden=not kind.help)
    return Annotated[list[str] | None if name == PHASE_SHARE else str | None, taken]


@gathered("limits", {name: _option(name) for name in KINDS})
@grouped
def check(
    paths: Paths,
    *,
    limits: dict[str, Any],
    format: Annotated[CheckFormat, typer.Option(help="What to print.")] = CheckFormat.TERMINAL,  # noqa: A002
    output: Output = None,
    inputs: Inputs,
    selection: Selection,
    given: Given,
    no_redact: NoRedact = False,
) -> None:
    """Hold limits against a log, for CI: exit status 1 if one is broken, 2 if the log can't tell."""
    from advisor.check.limits import limits as all_limits
    from advisor.config import sections
    from advisor.output import old, target

    held = all_limits(limits, sections("check"))
    require(paths)
    output = target(output, paths)
    written = None if output is None else _kind(output, format)
    from advisor.check.gate import check as hold

    asked = options(selection, given, no_redact=no_redact)
    reading = read(paths, inputs, keeps=old(output))
    found = hold(reading, asked, held)
    _print(found, CheckFormat.TERMINAL if written is format else format)
    if written is not None:
        _save(_text(found, written, unicode=True), output)
    end(reading, asked)
    if found.passed is not True:
        raise typer.Exit(LIMIT_BROKEN if found.passed is False else BAD_USAGE)


def _kind(output: Path, asked: CheckFormat) -> CheckFormat:
    """The format of the file: JUnit or JSON if that was asked for, else by its ending."""
    if asked in _ENDINGS.values():
        return asked
    kind = _ENDINGS.get(output.suffix.lower())
    if kind is None:
        raise InputError(f"{output}: -o writes JUnit or JSON; name it .xml or .json, or say --format junit.")
    return kind


def _text(found: Check, kind: CheckFormat, *, unicode: bool) -> str:
    if kind is CheckFormat.JSON:
        from advisor.output import json_text

        return json_text(found, unicode=unicode)
    from advisor.report.check_junit import junit

    text = junit(found)
    return text if unicode else text.encode("ascii", "xmlcharrefreplace").decode()


def _save(text: str, output: Path | None) -> None:
    from advisor.output import write_text

    write_text(text, output)


def _print(found: Check, kind: CheckFormat) -> None:
    if kind in _ENDINGS.values():
        sys.stdout.write(_text(found, kind, unicode=writes_unicode()))
        return
    from advisor.report.check import show

    show(found)
    if kind is CheckFormat.GITHUB:
        from advisor.report.check_github import commands, summary

        sys.stdout.write(commands(found))
        if page := os.environ.get("GITHUB_STEP_SUMMARY"):
            _append(summary(found), Path(page))


def _append(text: str, path: Path) -> None:
    """Add to a file that other steps of a job write to as well."""
    try:
        with path.open("a", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except OSError as error:
        raise InputError(f"{path}: can't be written ({error.strerror or error}).") from None
