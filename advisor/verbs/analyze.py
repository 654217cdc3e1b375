"""`phasewise analyze`: the page of a log."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from advisor.command import end, options, read, require, words, writes_unicode
from advisor.options import By, Given, Inputs, NoRedact, PageFormat, Paths, Selection, grouped

if TYPE_CHECKING:
    from advisor.model import Analysis


@grouped
def analyze(
    context: typer.Context,
    paths: Paths,
    *,
    format: Annotated[PageFormat, typer.Option(help="What to print.")] = PageFormat.TERMINAL,  # noqa: A002
    everything: Annotated[bool, typer.Option("--all", help="All findings, each with its evidence.")] = False,
    by: By = None,
    svg: Annotated[Path | None, typer.Option(help="Write the page as a picture too.")] = None,
    inputs: Inputs,
    selection: Selection,
    given: Given,
    no_redact: NoRedact = False,
) -> None:
    """Say which phase eats the latency, why, what to change, and what that would save."""
    require(paths)
    from advisor.analysis import analyze as analysis_of
    from advisor.output import old, target

    if svg is not None:
        target(svg, paths)
    asked = options(selection, given, no_redact=no_redact, by=by)
    reading = read(paths, inputs, keeps=old(svg))
    made: Analysis
    if format is PageFormat.MD:
        from advisor.report.markdown import render
        from advisor.ticket import report

        made, _ = report(reading, asked, words(context))
        sys.stdout.write(render(made, unicode=writes_unicode()))
    elif format is PageFormat.JSON:
        from advisor.output import json_text

        made = analysis_of(reading, asked)
        sys.stdout.write(json_text(made, unicode=writes_unicode()))
    else:
        from advisor.report.terminal import show

        made = analysis_of(reading, asked)
        show(made, everything=everything)
    if svg is not None:
        from advisor.report.terminal import save_svg

        save_svg(made, svg)
    end(reading, asked)
