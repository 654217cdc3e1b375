"""The page for a terminal: the answer, what to change, what was what this can't tell.

Readable at 80 columns, in plain text when it is not a terminal, and without colour as the only sign.
"""

from __future__ import annotations

import re
from io import StringIO
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from advisor.output import write_text
from advisor.report.blocks import (
    drawn_bar,
    hanging,
    indented,
    is_unicode,
    put,
    standard_console,
    table,
    title,
)
from advisor.report.page import (
    bar,
    heading,
    nothing_to_change,
    saved,
    setup_line,
    together,
    unanswered,
    where,
)
from advisor.report.tables import measured
from rules.words import measure

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import RenderableType

    from advisor.group_model import Groups
    from advisor.model import Analysis, FindingModel, Line

FIRST_PAGE = 5
_SVG_WIDTH = 88
_WEB_FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def show(analysis: Analysis, *, everything: bool = False, console: Console | None = None) -> None:
    """Print the page to standard output.

    Args:
        analysis: what to show.
        everything: all findings and their evidence, not only the first five.
        console: where to print; default standard output, at most 100 columns wide.
    """
    console = console or standard_console()
    put(console, _blocks(analysis, everything=everything, unicode=is_unicode(console), width=console.width))


def save_svg(analysis: Analysis, path: Path) -> None:
    """The page as a picture that a ticket or a README can show.

    Raises:
        InputError: the file can't be written.
    """
    console = Console(record=True, file=StringIO(), width=_SVG_WIDTH, highlight=False, markup=False)
    console.print(*_blocks(analysis, everything=False, unicode=True, width=console.width), sep="\n")
    write_text(without_web_font(console.export_svg(title="phasewise")), path)


def without_web_font(picture: str) -> str:
    """A picture of Rich's that loads nothing from elsewhere."""
    return _WEB_FONT.sub("", picture)


def _blocks(analysis: Analysis, *, everything: bool, unicode: bool, width: int) -> list[RenderableType]:
    shown = analysis.findings if everything else analysis.findings[:FIRST_PAGE]
    blocks: list[RenderableType] = [Text(heading(analysis), style="dim"), Text()]
    blocks += [title("The answer"), indented(Text(analysis.verdict.sentence, style="bold"))]
    if drawn := drawn_bar(bar(analysis, width - 4, unicode=unicode)):
        blocks += [indented(drawn)]
    if shown:
        blocks += [Text(), title("What to change")]
        for number, finding in enumerate(shown, 1):
            blocks += [Text()] if number > 1 else []
            blocks += [_finding(number, finding, everything=everything)]
        if rest := len(analysis.findings) - len(shown):
            blocks += [indented(Text(f"{rest} more with --all."))]
        if total := together(analysis):
            blocks += [indented(Text(total))]
    elif nothing := nothing_to_change(analysis):
        blocks += [Text(), title("What to change"), indented(Text(nothing))]
    rows, setup = measured(analysis), setup_line(analysis)
    if rows or setup:
        blocks += [Text(), title("What was measured")]
        blocks += [indented(table(rows))] if rows else []
        blocks += [indented(Text(f"setup: {setup}"))] if setup else []
    if analysis.groups is not None:
        blocks += [Text(), *_groups(analysis.groups, everything=everything, width=width)]
    untold = [c.text for c in analysis.caveats]
    if everything:
        untold += unanswered(analysis)
    if untold:
        blocks += [Text(), title("What this can't tell")]
        blocks += [indented(hanging("- ", text)) for text in untold]
    return blocks


def _wide(rows: list[tuple[str, ...]]) -> int:
    """The columns of a table, and what is between them."""
    return sum(max(map(len, column)) + 2 for column in zip(*rows, strict=True)) - 2


def _groups(groups: Groups, *, everything: bool, width: int) -> list[RenderableType]:
    from advisor.group_answer import named
    from advisor.report import groups as said

    most = said.MANY_ROWS if everything else said.FEW_ROWS
    blocks: list[RenderableType] = [title(said.title(groups)), indented(Text(groups.sentence, style="bold"))]
    for one in groups.outliers[: None if everything else FIRST_PAGE]:
        lines = said.why(one)
        blocks += [Text(), indented(Text(f"{named(one.group, groups.by)}: {lines[0]}"))]
        blocks += [indented(hanging("- ", line)) for line in lines[1:]]
    times, shares = said.times(groups, most), said.shares(groups, most)
    both = said.joined(times, shares)
    for rows in [both] if _wide(both) <= width - 2 else [times, shares]:
        blocks += [Text(), indented(table(rows))] if rows else []
    notes = [indented(Text(note, style="dim")) for note in said.notes(groups, most)]
    return [*blocks, Text(), *notes] if notes else blocks


def _finding(number: int, finding: FindingModel, *, everything: bool) -> RenderableType:
    head = Text(finding.title, style="bold")
    if finding.saving:
        head.append(f": {saved(finding.saving)}", style="bold green")
    rows: list[RenderableType] = [head, Text(finding.why)]
    for fix in finding.fixes:
        rows += [hanging("> ", fix.title), indented(Text(f"{fix.apply}", style="bold"), 4)]
        rows += [indented(Text(f"in: {fix.where}"), 4), indented(Text(f"costs: {fix.cost}"), 4)]
    rows += [hanging("Won't help: ", text) for text in finding.wont_help]
    if everything:
        for evidence in finding.evidence:
            rows.append(
                Text(f"{evidence.label}: {measure(evidence.value, evidence.unit)}{_at(evidence.lines)}")
            )
    rows += [hanging("Check: ", finding.verify)]
    rows += [Text(f"{finding.confidence}; {finding.rule}{_at(_first_lines(finding))}", style="dim")]
    grid = Table.grid(padding=(0, 1))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(Text(f"{number}."), Group(*rows))
    return indented(grid)


def _at(lines: list[Line]) -> str:
    return f" ({where(lines)})" if lines else ""


def _first_lines(finding: FindingModel) -> list[Line]:
    return next((e.lines for e in finding.evidence if e.lines), [])
