"""`phasewise tui`: the screens over logs that are complete."""

from __future__ import annotations

from typing import Annotated

import typer

from advisor.command import end_session, looked_for, options, require, warn, words
from advisor.errors import InputError
from advisor.options import Engine, FormatFile, Given, History, NoRedact, Paths, Selection, grouped
from advisor.sources.files import STDIN

_HISTORY = 1_000_000


@grouped
def tui(
    context: typer.Context,
    paths: Paths,
    *,
    serve: Annotated[bool, typer.Option("--serve", help="Show them in a browser instead.")] = False,
    host: Annotated[str, typer.Option(metavar="NAME", help="Where --serve listens.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Where --serve listens.")] = 8765,
    engine: Engine = None,
    format_file: FormatFile = None,
    history: History = None,
    selection: Selection,
    given: Given,
    no_redact: NoRedact = False,
) -> None:
    """Look around in logs: from the phase bar to a request, to the finding, to the lines of the log."""
    require(paths)
    asked = options(selection, given, no_redact=no_redact)
    if serve and STDIN in paths:
        raise InputError("--serve can't show standard input: each browser reads the logs anew.")
    if serve:
        from advisor.tui.serve import serve as serve_screens

        serve_screens(words(context), host, port)
        return
    from advisor.analysis import require_facts
    from advisor.live.opening import finished
    from advisor.live.session import Session
    from advisor.tui.terminal import has_screen, run

    if not has_screen():
        raise InputError("the screens need a terminal with UTF-8; `phasewise analyze` prints a page.")
    require_facts(asked)
    formats = looked_for(engine, format_file)
    tails, problems = finished(paths, engine=engine, formats=formats)
    for problem in problems:
        warn(str(problem))
    session = Session(tails, asked, history=history or _HISTORY, in_turn=True, formats=formats)
    session.problems += [str(problem) for problem in problems]
    run(session, words(context))
    end_session(session)
