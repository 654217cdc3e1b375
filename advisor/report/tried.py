"""What was tried, appended to a report that is there already."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from advisor.errors import InputError
from advisor.options import ReportFormat
from advisor.output import replacing
from advisor.report.markdown import environment, tidy
from advisor.report.run import details, heading, to_know, trial_rows
from advisor.report.written import ENDINGS

if TYPE_CHECKING:
    from pathlib import Path

    from advisor.runner.result import Run

_OURS = '<meta name="generator" content="phasewise'
_LAST_HEADING = "## How to reproduce"
_LAST_SECTION, _LAST_LINK = '<section id="reproduce"', '<li><a href="#reproduce">'
_LINK, _ID = '<li><a href="#tried">What was tried</a></li>\n', '<section id="tried"'
"""What is tried stands before how to reproduce the report."""


def require_report(path: Path) -> ReportFormat:
    """The format of the report, before anything is measured for it.

    Raises:
        InputError: it can't be appended to.
    """
    kind = ENDINGS.get(path.suffix.lower())
    if kind is None:
        raise InputError(f"{path}: a report ends in .md, .html or .json; `phasewise report` writes one.")
    text = _read(path)
    if kind is ReportFormat.HTML and not (_OURS in text and _LAST_SECTION in text):
        raise InputError(f"{path}: not a report that `phasewise report` wrote.")
    if kind is ReportFormat.JSON:
        _analysis(path, text)
    return kind


def append(run: Run, path: Path) -> None:
    """Put what was tried at the end of the report; the file is replaced as a whole or left as it was.

    Raises:
        InputError: the report can't be read or written, or is none.
    """
    kind = require_report(path)
    text = _read(path)
    if kind is ReportFormat.MD:
        before, heading, after = text.partition(_LAST_HEADING)
        made = f"{before.rstrip()}\n\n{_markdown(run)}"
        made += f"\n{heading}{after}" if heading else ""
    elif kind is ReportFormat.HTML:
        before, section, after = text.rpartition(_LAST_SECTION)
        if _LINK not in before:
            before = before.replace(_LAST_LINK, _LINK + _LAST_LINK, 1)
        made = before + _html(run, is_first=_ID not in before) + section + after
    else:
        said = _analysis(path, text)
        said["tries"] += [one.model_dump(mode="json") for one in run.tries]
        made = json.dumps(said, indent=2) + "\n"
    with replacing(path) as file:
        file.write(made.encode("utf-8", "replace"))


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError as error:
        hint = "; `phasewise report LOG -o FILE` writes one" if isinstance(error, FileNotFoundError) else ""
        raise InputError(f"{path}: can't be read ({error.strerror or error}){hint}.") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: can't be read (it is not UTF-8 text).") from None


def _analysis(path: Path, text: str) -> dict[str, Any]:
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict) or not str(said.get("schema", "")).startswith("phasewise.analysis/"):
        raise InputError(f"{path}: not a report that `phasewise report` wrote.")
    if not isinstance(said.setdefault("tries", []), list):
        raise InputError(f"{path}: `tries` is no list there.")
    return said


def _context(run: Run) -> dict[str, object]:
    tries = [(tried, trial_rows(tried), details(tried)) for tried in run.tries]
    return {"heading": heading(run), "tries": tries, "to_know": to_know(run)}


def _markdown(run: Run) -> str:
    return tidy(environment().get_template("tried.md.j2").render(_context(run)))


def _html(run: Run, *, is_first: bool) -> str:
    from advisor.report.html import environment as html

    return html().get_template("sections/tried.html.j2").render(_context(run), is_first=is_first)
