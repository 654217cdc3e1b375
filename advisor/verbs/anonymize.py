"""`phasewise anonymize`: a log that can be shared."""

from __future__ import annotations

from typing import Annotated

import typer

from advisor.command import NOTHING_RECOGNISED, fail, looked_for, require
from advisor.options import Engine, FormatFile, Output, grouped


@grouped
def anonymize(
    path: Annotated[str, typer.Argument(metavar="LOG", help="A log, or - for stdin.")],
    *,
    output: Output = None,
    engine: Engine = None,
    format_file: FormatFile = None,
) -> None:
    """Write a log that parses to the same rows and can be shared.

    Kept are the engine's own words, numbers, clocks, ids of requests, and the names of models and devices as
    reports show them. Prompts, answers, chat templates, paths, addresses, keys, and the names of people and
    machines are gone; lines that nothing reads are empty. Nothing is written unless the rows are the same.
    """
    require([path])
    from advisor.anonymize import anonymize as write
    from advisor.errors import UnrecognisedError
    from advisor.output import target

    formats = looked_for(engine, format_file)
    try:
        write(path, target(output, [path]), engine=engine, formats=formats)
    except UnrecognisedError as error:
        fail(str(error), NOTHING_RECOGNISED)
