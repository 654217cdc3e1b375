"""`phasewise export`: the rows of a log."""

from __future__ import annotations

from typing import Annotated

import typer

from advisor.command import end, hint_at_other_tables, options, read, require
from advisor.options import Inputs, NoRedact, Output, Paths, RowFormat, Selection, Table, grouped


@grouped
def export(
    paths: Paths,
    *,
    table: Annotated[Table, typer.Option(help="Which rows.")] = Table.REQUESTS,
    output: Output = None,
    format: Annotated[RowFormat | None, typer.Option(help="Format, if the ending doesn't say.")] = None,  # noqa: A002
    inputs: Inputs,
    selection: Selection,
    no_redact: NoRedact = False,
) -> None:
    """Write the rows: exactly what the engine printed, null where it printed nothing."""
    require(paths)
    from advisor.export import ENDINGS, write_frames
    from advisor.output import format_of, target
    from advisor.spool import Spool

    output = target(output, paths)
    kind = format_of(output, format.value if format else None, ENDINGS, "jsonl")
    asked = options(selection, no_redact=no_redact)
    with Spool(table.value, asked) as rows:
        reading = read(paths, inputs, take=rows.add, keeps=output)
        write_frames(rows.frames(reading.setups), output, kind)
    hint_at_other_tables(rows.sizes, table.value)
    end(reading, asked, rows)
