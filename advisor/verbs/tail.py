"""`phasewise tail`: a running engine, watched."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from advisor.command import command_line, end_session, looked_for, options, span, words
from advisor.errors import InputError
from advisor.options import (
    Engine,
    FormatFile,
    Given,
    History,
    Last,
    NoRedact,
    Programs,
    Selection,
    TailFormat,
    grouped,
)


@grouped
def tail(
    context: typer.Context,
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="LOG|-|URL", help="Logs, - for stdin, a server such as http://localhost:8080."
        ),
    ] = None,
    *,
    plain: Annotated[bool, typer.Option("--plain", help="Lines instead of screens.")] = False,
    format: Annotated[TailFormat, typer.Option(help="How lines are printed.")] = TailFormat.TEXT,  # noqa: A002
    engine: Engine = None,
    format_file: FormatFile = None,
    last: Last = None,
    history: History = None,
    programs: Programs,
    selection: Selection,
    given: Given,
    no_redact: NoRedact = False,
) -> None:
    """Watch a running engine: its log as it grows, or its own addresses; screens, or lines with --plain."""
    if not (sources or programs.named):
        sources, programs = offered()
    asked = options(selection, given, no_redact=no_redact)
    recent = span("--last", last)
    from advisor.analysis import require_facts
    from advisor.live.opening import TOKEN, tailed
    from advisor.live.plain import Printer
    from advisor.live.session import HISTORY, Session
    from advisor.tui.terminal import has_screen, run

    require_facts(asked)
    formats = looked_for(engine, format_file)
    session = Session(
        tailed(sources or [], programs, engine=engine, formats=formats, token=os.environ.get(TOKEN)),
        asked,
        history=history or HISTORY,
        last=recent,
        formats=formats,
    )
    if plain or format is TailFormat.JSON or not has_screen():
        Printer(session, as_json=format is TailFormat.JSON, until=asked.filters.until).run()
    else:
        run(session, words(context))
    sys.stdout.flush()
    end_session(session)


def offered() -> tuple[list[str], Programs]:
    """Paths or addresses, or a program's log: what the user chooses of what is found here.

    Raises:
        InputError: nothing is, or nobody is there to choose.
    """
    from advisor.sources.found import found

    there = found()
    if not there:
        hint = "name a log, - for a pipe, or an address such as http://127.0.0.1:8080"
        raise InputError(f"no engine answers here, and no log lies where engines write theirs; {hint}.")
    calls = [command_line(["phasewise", "tail", *one.arguments]) for one in there]
    if not (sys.stdin and sys.stdin.isatty() and sys.stdout.isatty()):
        raise InputError(f"say what to watch: {', '.join(f'`{call}`' for call in calls)}.")
    for number, (one, call) in enumerate(zip(there, calls, strict=True), 1):
        print(f"{number}. {call}  ({one.engine}, {one.sure})")
    chosen = 0
    while not 0 < chosen <= len(there):
        chosen = typer.prompt("Which one", type=int, default=1)
    one = there[chosen - 1]
    return ([], Programs(unit=[one.place])) if one.kind == "unit" else ([one.place], Programs())
