"""`phasewise analyze`: the page of a log."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from advisor.command import end, options, read, require, writes_unicode
from advisor.options import Given, Inputs, NoRedact, PageFormat, Paths, Selection, grouped


@grouped
def analyze(
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
    from advisor.analysis import analyze as diagnose

    asked = options(selection, given, no_redact=no_redact)
    reading = read(paths, inputs)
    analysis = diagnose(reading, asked)
    if format is PageFormat.JSON:
        text = analysis.model_dump_json(by_alias=True, indent=2)
        sys.stdout.write((text if writes_unicode() else json.dumps(json.loads(text), indent=2)) + "\n")
    elif format is PageFormat.MD:
        from advisor.report.markdown import render

        sys.stdout.write(render(analysis, unicode=writes_unicode()))
    else:
        from advisor.report.terminal import show

        show(analysis, everything=everything)
    if svg is not None:
        from advisor.report.terminal import save_svg

        save_svg(analysis, svg)
    end(reading, asked)
