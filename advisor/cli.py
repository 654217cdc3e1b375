"""The command line: the verbs of `verbs/` under one command."""

from __future__ import annotations

import io
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn, cast

import typer

from advisor import __version__
from advisor.command import BAD_USAGE, OK, discard, fail, warn
from advisor.errors import InputError, NotInstalledError
from advisor.sources.files import STDIN
from advisor.sources.pipe import log_is_piped
from advisor.usage import NO_OUTPUT, WRITES, refuse_misplaced

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from typer.core import TyperGroup

NAME = "phasewise"
VERBS = (
    *("analyze", "tail", "tui", "report", "compare", "check", "export", "anonymize"),
    *("probe", "calibrate", "estimate", "explain", "rules", "schema", "run", "formats"),
)
"""In the order of the help; each is a function of its name, or an `app`, in a module of `verbs/`."""

_MODULES = {"rules": "explain", "schema": "explain"}  # the others have one of their own
_HELP, _VERSION = ("-h", "--help"), "--version"
_OPTIONS = (*_HELP, _VERSION, "--install-completion", "--show-completion")
_UsageError: type[typer.BadParameter] = typer.BadParameter.__mro__[1]  # the only one that typer exports


def commands(verbs: Iterable[str] = VERBS, *, helps: bool = True) -> TyperGroup:
    """The command with these verbs; only their modules are loaded.

    Args:
        verbs: of `VERBS`.
        helps: it takes ``--help`` before a verb, and can set up the shell, for which more is loaded.
    """
    app = typer.Typer(
        name=NAME,
        help="Says which phase of LLM inference eats the latency, why, and what to change.",
        epilog="`phasewise LOG` is `phasewise analyze LOG`. Docs: README.md.",
        no_args_is_help=False,
        pretty_exceptions_enable=False,
        add_completion=helps,
        add_help_option=helps,
        context_settings={"help_option_names": list(_HELP)},
    )
    app.callback(invoke_without_command=True)(_root)
    for name in verbs:
        module = import_module(f"advisor.verbs.{_MODULES.get(name, name)}")
        if hasattr(module, "app"):
            app.add_typer(module.app, name=name)
        else:
            app.command(name)(getattr(module, name))
    return cast("TyperGroup", typer.main.get_command(app))


def _version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"{NAME} {__version__}\n")
        raise typer.Exit(OK)


def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option(_VERSION, callback=_version, is_eager=True, help="Print it.")
    ] = False,
) -> None:
    """Says which phase of LLM inference eats the latency, why, and what to change."""
    if context.invoked_subcommand is None:
        from advisor.explain import welcome

        sys.stdout.write(welcome())


def run(arguments: Sequence[str]) -> NoReturn:
    """The whole command: a path without a verb is analyzed; every expected error is one sentence."""
    if "_PHASEWISE_COMPLETE" in os.environ:
        commands()(prog_name=NAME)
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
        discard(sys.stdout)
        raise SystemExit(OK) from None
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # how Rich ends a help page
            raise SystemExit(OK) from None
        raise
    except OSError as error:
        if error.filename is not None:
            raise
        discard(sys.stdout)
        fail(f"standard output can't be written ({error.strerror or error}).", BAD_USAGE)
    raise SystemExit(status)


def _run(arguments: list[str]) -> int:
    command = _needed(arguments[:1])
    try:
        with command.make_context(NAME, arguments, obj=tuple(arguments)) as context:
            command.invoke(context)
    except typer.Exit as done:
        return done.exit_code
    return OK


def _needed(first: Sequence[str]) -> TyperGroup:
    """The command with what its first word asks for."""
    if not first or first[0] == _VERSION or first[0] in VERBS:
        return commands([word for word in first if word in VERBS], helps=False)
    return commands()


def _sentence(error: typer.BadParameter) -> str:
    if getattr(error, "option_name", None) in WRITES and error.ctx and error.ctx.info_name == "analyze":
        return NO_OUTPUT
    said = error.format_message().replace("Value error, ", "").rstrip(".")
    where = error.ctx.command_path if error.ctx else NAME
    return f"{said[:1].lower()}{said[1:]}; see `{where} --help`."


def _with_verb(arguments: Sequence[str]) -> Iterator[str]:
    if not arguments and log_is_piped():
        yield from ("analyze", STDIN)
    if arguments and arguments[0] not in (*VERBS, *_OPTIONS):
        refuse_misplaced(arguments, VERBS)
        yield "analyze"
    yield from arguments
