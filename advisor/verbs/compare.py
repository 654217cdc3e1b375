"""`phasewise compare`: did a change help."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from advisor.command import end, options, read, require, require_one_stdin, writes_unicode
from advisor.options import Inputs, NoRedact, Output, PageFormat, Selection, grouped

if TYPE_CHECKING:
    from pathlib import Path

    from advisor.comparison import Comparison

_ENDINGS = {".md": PageFormat.MD, ".markdown": PageFormat.MD, ".json": PageFormat.JSON}


@grouped
def compare(
    before: Annotated[str, typer.Argument(metavar="BEFORE", help="Logs: a file, a folder, a pattern.")],
    after: Annotated[str, typer.Argument(metavar="AFTER", help="The same after the change.")],
    *,
    format: Annotated[PageFormat | None, typer.Option(help="What to print.")] = None,  # noqa: A002
    output: Output = None,
    inputs: Inputs,
    selection: Selection,
    no_redact: NoRedact = False,
) -> None:
    """Say whether a change helped, in which phase, and whether that could be chance."""
    from advisor.output import format_of

    kind = format_of(output, format, _ENDINGS, PageFormat.TERMINAL)
    require_one_stdin([before], [after])
    require([before])
    require([after])
    from advisor.analysis import measure
    from advisor.apart import named_apart
    from advisor.comparison import compare as say
    from advisor.filters import Filters
    from advisor.output import target

    output = target(output, [before, after])
    asked = options(selection, no_redact=no_redact)
    then, now = (read([side], inputs, whole=True) for side in (before, after))
    sides = (measure(side, asked, once=True) for side in (named_apart(then, now, asked.words), now))
    _write(say(*sides, filtered=asked.filters != Filters()), kind, output)
    for reading in (then, now):
        end(reading, asked)


def _write(said: Comparison, kind: PageFormat, output: Path | None) -> None:
    from advisor.output import json_text, write_text
    from advisor.report.comparison import render, show, text

    unicode = output is not None or writes_unicode()
    if kind is PageFormat.JSON:
        write_text(json_text(said, unicode=unicode), output)
    elif kind is PageFormat.MD:
        write_text(render(said), output)
    elif output is None:
        show(said)
    else:
        write_text(text(said), output)
