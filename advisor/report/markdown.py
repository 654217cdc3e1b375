"""The page as Markdown that pastes into a ticket. Text from the log can't become markup."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined

from advisor.report.page import bar, heading, nothing_to_change, saved, setup_line, together, where
from advisor.report.tables import measured
from rules.words import measure

if TYPE_CHECKING:
    from advisor.model import Analysis

_BAR_WIDTH = 60
_SPECIAL = re.compile(r"([\\`*_\[\]<>|#~&$]|^[-+=](?=\s|[-+=]*$)|(?<=^\d)[.)](?=\s))")


def render(analysis: Analysis, *, unicode: bool = True) -> str:
    """The analysis as GitHub-flavoured Markdown; without ``unicode`` the bar is drawn in ASCII."""
    environment = Environment(
        loader=PackageLoader("advisor.report", package_path=""),
        undefined=StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["md"] = escape
    environment.filters["code"] = code
    parts = bar(analysis, _BAR_WIDTH, unicode=unicode)
    text = environment.get_template("analysis.md.j2").render(
        a=analysis,
        heading=heading(analysis),
        parts=parts,
        drawn="".join(part.glyph * part.cells for part in parts),
        legend="   ".join(part.legend for part in parts),
        rows=measured(analysis),
        setup=setup_line(analysis),
        together=together(analysis),
        nothing=nothing_to_change(analysis),
        saved=saved,
        where=where,
        measure=measure,
    )
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def escape(text: object) -> str:
    """Text that Markdown and HTML leave as it is."""
    return _SPECIAL.sub(r"\\\1", str(text).replace("\n", " "))


def code(text: object) -> str:
    """An inline code span around any text, backticks included."""
    plain = str(text).replace("\n", " ")
    longest = max((len(run) for run in re.findall(r"`+", plain)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if plain.startswith("`") or plain.endswith("`") else ""
    return f"{fence}{pad}{plain}{pad}{fence}"
