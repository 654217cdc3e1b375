"""The command line: the verbs of `verbs/` under one command."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from advisor import __version__
from advisor.command import BAD_USAGE, OK, discard_output, fail, warn
from advisor.errors import InputError, NotInstalledError
from advisor.sources.files import STDIN
from advisor.sources.pipe import log_is_piped
from advisor.usage import NO_OUTPUT, WRITES, refuse_misplaced
from advisor.verbs.analyze import analyze
from advisor.verbs.anonymize import anonymize
from advisor.verbs.calibrate import calibrate
from advisor.verbs.check import check
from advisor.verbs.compare import compare
from advisor.verbs.estimate import estimate
from advisor.verbs.explain import explain, rules, schema
from advisor.verbs.export import export
from advisor.verbs.formats import app as formats
from advisor.verbs.probe import probe
from advisor.verbs.report import report
from advisor.verbs.run import run as run_model
from advisor.verbs.tail import tail
from advisor.verbs.tui import tui

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NAME = "phasewise"
_UsageError: type[typer.BadParameter] = typer.BadParameter.__mro__[1]  # the only one that typer exports

app = typer.Typer(
    name=NAME,
    help="Says which phase of LLM inference eats the latency, why, and what to change.",
    epilog="`phasewise LOG` is `phasewise analyze LOG`. Docs: README.md.",
    no_args_is_help=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for verb in (
    *(analyze, tail, tui, report, compare, check, export, anonymize),
    *(probe, calibrate, estimate, explain, rules, schema),
):
    app.command()(verb)
app.command("run")(run_model)
app.add_typer(formats, name="formats")


def _version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"{NAME} {__version__}\n")
        raise typer.Exit(OK)


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")
    ] = False,
) -> None:
    """Says which phase of LLM inference eats the latency, why, and what to change."""
    if context.invoked_subcommand is None:
        from advisor.explain import welcome

        sys.stdout.write(welcome())


def run(arguments: Sequence[str]) -> NoReturn:
    """The whole command: a path without a verb is analyzed; every expected error is one sentence."""
    if "_PHASEWISE_COMPLETE" in os.environ:
        app(prog_name=NAME)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 - for as long as we run
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    try:
        status = _run(list(_with_verb(arguments)))
        sys.stdout.flush()
    except NotInstalledError as error:
        warn(str(error))
        for line in error.lines:
            warn(f"  {line}")
        raise SystemExit(BAD_USAGE) from None
    except InputError as error:
        fail(str(error), BAD_USAGE)
    except _UsageError as error:
        fail(_sentence(error), BAD_USAGE)
    except BrokenPipeError:
        discard_output()
        raise SystemExit(OK) from None
    except OSError as error:
        if error.filename is not None:
            raise
        discard_output()
        fail(f"standard output can't be written ({error.strerror or error}).", BAD_USAGE)
    raise SystemExit(status)


def _run(arguments: list[str]) -> int:
    command = typer.main.get_command(app)
    try:
        with command.make_context(NAME, arguments, obj=tuple(arguments)) as context:
            command.invoke(context)
    except typer.Exit as done:
        return done.exit_code
    return OK


def _sentence(error: typer.BadParameter) -> str:
    if getattr(error, "option_name", None) in WRITES and error.ctx and error.ctx.info_name == "analyze":
        return NO_OUTPUT
    said = error.format_message().replace("Value error, ", "").rstrip(".")
    where = error.ctx.command_path if error.ctx else NAME
    return f"{said[:1].lower()}{said[1:]}; see `{where} --help`."


def _with_verb(arguments: Sequence[str]) -> Iterator[str]:
    verbs = {c.name or (c.callback.__name__ if c.callback else "") for c in app.registered_commands}
    verbs |= {str(group.name) for group in app.registered_groups}
    root_options = {"-h", "--help", "--version", "--install-completion", "--show-completion"}
    if not arguments and log_is_piped():
        yield from ("analyze", STDIN)
    if arguments and arguments[0] not in verbs | root_options:
        refuse_misplaced(arguments, verbs)
        yield "analyze"
    yield from arguments
