"""`phasewise analyze`: the page of a log."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from advisor.command import end, options, read, require, words, writes_unicode
from advisor.options import Given, Inputs, NoRedact, PageFormat, Paths, Selection, grouped


@grouped
def analyze(
    context: typer.Context,
    paths: Paths,
    *,
    format: Annotated[PageFormat, typer.Option(help="What to print.")] = PageFormat.TERMINAL,  # noqa: A002
    everything: Annotated[bool, typer.Option("--all", help="All findings, each with its evidence.")] = False,
    svg: Annotated[Path | None, typer.Option(help="Write the page as a picture too.")] = None,
    inputs: Inputs,
    selection: Selection,
    given: Given,
    no_redact: NoRedact = False,
) -> None:
    """Say which phase eats the latency, why, what to change, and what that would save."""
    require(paths)
    from advisor.ticket import report

    if svg is not None:
        from advisor.output import require_folder

        require_folder(svg)
    asked = options(selection, given, no_redact=no_redact)
    reading = read(paths, inputs)
    made, _ = report(reading, asked, words(context))
    if format is PageFormat.JSON:
        from advisor.output import json_text

        sys.stdout.write(json_text(made.analysis, unicode=writes_unicode()))
    elif format is PageFormat.MD:
        from advisor.report.markdown import render

        sys.stdout.write(render(made, unicode=writes_unicode()))
    else:
        from advisor.report.terminal import show

        show(made, everything=everything)
    if svg is not None:
        from advisor.report.terminal import save_svg

        save_svg(made, svg)
    end(reading, asked)
