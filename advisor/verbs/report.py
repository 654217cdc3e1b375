"""`phasewise report`: a tuning report for a ticket."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from advisor.command import end, options, read, require, require_one_stdin, words, writes_unicode
from advisor.options import By, Given, Inputs, NoRedact, Output, Paths, ReportFormat, Selection, grouped


@grouped
def report(
    context: typer.Context,
    paths: Paths,
    *,
    output: Output = None,
    format: Annotated[ReportFormat | None, typer.Option(help="Format, if the ending doesn't say.")] = None,  # noqa: A002
    charts: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the charts as SVG and PNG too.")
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="Logs of before a change: a section says whether it helped."),
    ] = None,
    by: By = None,
    inputs: Inputs,
    selection: Selection,
    given: Given,
    no_redact: NoRedact = False,
) -> None:
    """Write a report for a ticket: the answer, what to change, what was measured, how to reproduce it."""
    require(paths)
    if baseline is not None:
        require_one_stdin(paths, [baseline])
        require([baseline])
    from advisor.output import format_of
    from advisor.report.written import ENDINGS, text_of

    kind = format_of(output, format, ENDINGS, ReportFormat.MD)
    from advisor.output import old, require_folder, target, write_text
    from advisor.ticket import report as make

    output = target(output, paths if baseline is None else [*paths, baseline])
    if charts is not None:
        require_folder(charts)
    asked = options(selection, given, no_redact=no_redact, by=by)
    reading = read(paths, inputs, whole=baseline is not None, keeps=old(output, charts))
    before = None if baseline is None else read([baseline], inputs, whole=True)
    made, rows = make(reading, asked, words(context), before)
    text = text_of(made, rows, kind, unicode=output is not None or writes_unicode())
    if charts is not None:
        from advisor.report.charts import save

        save(made, rows, charts)
    write_text(text, output, exactly=kind is ReportFormat.HTML)
    if before is not None:
        end(before, asked.at_any_time)
    end(reading, asked)
