"""The report as Markdown that pastes into a ticket. Text from the log can't become markup."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined

from advisor.report import groups, tables
from advisor.report.page import (
    bar,
    concurrency,
    heading,
    made,
    named_setup,
    nothing_to_change,
    saved,
    starts,
    together,
    unanswered,
    where,
)
from rules.words import measure

if TYPE_CHECKING:
    from advisor.ticket import Report

MOST_CHARACTERS = 60_000
"""GitHub takes 65,536 and Jira 32,767 in a description, but more in a comment or an attachment."""

_BAR_WIDTH = 60
_APART = "<!-- -->"
_LINKING = re.compile(r"(?<=:)(?=//)|(?<=\bwww)(?=\.)|(?<=@)(?=\w)|(?<=#)(?=\d)", re.IGNORECASE)
"""Where text would become a link, a mention of somebody, or another issue's number."""

_SPECIAL = re.compile(r"([\\`*_\[\]<>|#~&$]|^[-+=](?=\s|[-+=]*$)|(?<=^\d)[.)](?=\s))")


def render(report: Report, *, unicode: bool = True) -> str:
    """The report as GitHub-flavoured Markdown; without ``unicode`` the bar is drawn in ASCII.

    Where it would be longer than a ticket takes, the least of the findings are left out, and that is said.
    """
    for findings in range(len(report.findings), -1, -1):
        text = _render(report, findings, unicode=unicode)
        if len(text) <= MOST_CHARACTERS:
            break
    return text


def environment() -> Environment:
    """Templates of Markdown, with the filters that keep text from being markup."""
    made = Environment(
        loader=PackageLoader("advisor.report", package_path=""),
        undefined=StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters["md"] = escape
    made.filters["code"] = code
    made.filters["prose"] = prose
    return made


def tidy(page: str) -> str:
    """A page with one blank line at most between its parts."""
    return re.sub(r"\n{3,}", "\n\n", page).strip() + "\n"


def _render(report: Report, findings: int, *, unicode: bool) -> str:
    parts = bar(report, _BAR_WIDTH, unicode=unicode)
    text = (
        environment()
        .get_template("report.md.j2")
        .render(
            r=report,
            heading=heading(report),
            parts=parts,
            drawn="".join(part.glyph * part.cells for part in parts),
            legend="   ".join(part.legend for part in parts),
            comparison=_comparison(report),
            findings=report.findings[:findings],
            left_out=len(report.findings) - findings,
            rows=tables.measured(report, tables.LONG),
            concurrency=concurrency(report),
            groups=groups.context(report.groups),
            setup=named_setup(report),
            starts=starts(report),
            facts=tables.facts(report),
            slowest=tables.slowest(report),
            incidents=tables.incidents(report),
            sources=tables.sources(report),
            untold=unanswered(report),
            command=report.reproduce.command,
            made=made(report),
            together=together(report),
            nothing=nothing_to_change(report),
            saved=saved,
            where=where,
            measure=measure,
        )
    )
    return tidy(text)


def _comparison(report: Report) -> dict[str, object] | None:
    if report.comparison is None:
        return None
    from advisor.report.comparison import context

    return context(report.comparison)


def escape(text: object) -> str:
    """Text that Markdown, HTML and GitHub leave as it is: an empty comment keeps it from linking anything."""
    plain = _SPECIAL.sub(r"\\\1", str(text).replace("\n", " "))
    return _LINKING.sub(_APART, plain)


def prose(text: object) -> str:
    """Our own words: what stands between backticks is code, the rest text that stays text."""
    parts = re.split(r"`([^`]+)`", str(text))
    return "".join(code(part) if place % 2 else escape(part) for place, part in enumerate(parts))


def code(text: object) -> str:
    """An inline code span around any text, backticks included."""
    plain = str(text).replace("\n", " ")
    longest = max((len(run) for run in re.findall(r"`+", plain)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if plain.startswith("`") or plain.endswith("`") else ""
    return f"{fence}{pad}{plain}{pad}{fence}"
