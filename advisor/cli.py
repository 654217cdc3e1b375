"""The command line: thin, each command imports what it needs when it runs."""

from __future__ import annotations

import io
import json
import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from advisor import __version__
from advisor.command import (
    BAD_USAGE,
    OK,
    discard_output,
    end,
    fail,
    hint_at_other_tables,
    options,
    read,
    require,
    writes_unicode,
)
from advisor.errors import InputError

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


class PageFormat(StrEnum):
    """How `analyze` prints."""

    TERMINAL = "terminal"
    JSON = "json"
    MD = "md"


class Table(StrEnum):
    """The tables that can be exported."""

    REQUESTS = "requests"
    INTERVALS = "intervals"
    EVENTS = "events"


class RowFormat(StrEnum):
    """How rows are written."""

    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


Paths = Annotated[
    list[str],
    typer.Argument(metavar="PATH", help="Logs: files, folders, patterns, or - for stdin."),
]
Engine = Annotated[str | None, typer.Option(help="Read as this engine's log; see `phasewise formats`.")]
Since = Annotated[str | None, typer.Option(help="Only what finished at or after this time (UTC).")]
Until = Annotated[str | None, typer.Option(help="Only what finished at or before this time (UTC).")]
Model = Annotated[str | None, typer.Option(help="Only models whose name contains this.")]
Slot = Annotated[int | None, typer.Option(help="Only this slot.")]
Gguf = Annotated[
    Path | None,
    typer.Option(help="The model file, for what the log hides of it."),
]
Props = Annotated[
    str | None,
    typer.Option(metavar="URL|FILE", help="A running llama-server, or its answer to GET /props."),
]
DeviceName = Annotated[str | None, typer.Option("--device", help="The device, such as 'RTX 4090'.")]
Bandwidth = Annotated[
    float | None,
    typer.Option(min=0.1, max=1e5, help="Memory bandwidth in GB/s of the device that holds the weights."),
]
Vram = Annotated[str | None, typer.Option(help="Memory of the device, such as 24GiB.")]
Memory = Annotated[str | None, typer.Option(help="Main memory, such as 64GiB.")]
Cores = Annotated[int | None, typer.Option(min=1, help="Physical cores.")]
Sockets = Annotated[int | None, typer.Option(min=1, help="CPU sockets.")]
NoRedact = Annotated[bool, typer.Option("--no-redact", help="Keep paths, names and secrets.")]


@app.command()
def analyze(
    paths: Paths,
    format: Annotated[PageFormat, typer.Option(help="What to print.")] = PageFormat.TERMINAL,  # noqa: A002
    everything: Annotated[bool, typer.Option("--all", help="All findings, each with its evidence.")] = False,
    svg: Annotated[Path | None, typer.Option(help="Write the page as a picture too.")] = None,
    engine: Engine = None,
    since: Since = None,
    until: Until = None,
    model: Model = None,
    slot: Slot = None,
    gguf: Gguf = None,
    props: Props = None,
    device: DeviceName = None,
    bandwidth: Bandwidth = None,
    vram: Vram = None,
    memory: Memory = None,
    cores: Cores = None,
    sockets: Sockets = None,
    no_redact: NoRedact = False,
) -> None:
    """Say which phase eats the latency, why, what to change, and what that would save."""
    require(paths)
    from advisor.analysis import analyze as diagnose

    asked = options(
        since, until, model, slot, gguf, props, device, bandwidth, vram, memory, cores, sockets, no_redact
    )
    reading = read(paths, engine)
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


@app.command()
def export(
    paths: Paths,
    table: Annotated[Table, typer.Option(help="Which rows.")] = Table.REQUESTS,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="File to write.")] = None,
    format: Annotated[RowFormat | None, typer.Option(help="Format, if the ending doesn't say.")] = None,  # noqa: A002
    engine: Engine = None,
    since: Since = None,
    until: Until = None,
    model: Model = None,
    slot: Slot = None,
    no_redact: NoRedact = False,
) -> None:
    """Write the rows: exactly what the engine printed, null where it printed nothing."""
    require(paths)
    from advisor.analysis import measure
    from advisor.export import kind_of, target, write

    output = target(output, paths)
    kind = kind_of(output, format.value if format else None)
    asked = options(since, until, model, slot, no_redact=no_redact)
    reading = read(paths, engine)
    rows = measure(reading, asked)
    write(getattr(rows, table.value), table.value, output, kind)
    hint_at_other_tables(rows, table.value)
    end(reading, asked)


@app.command()
def explain(
    rule: Annotated[str, typer.Argument(help="An id of `phasewise rules`.")],
) -> None:
    """Say what a rule looks at, why it matters, and when not to worry."""
    from advisor.config import settings
    from advisor.explain import explain as text_of

    sys.stdout.write(text_of(rule, settings()))


@app.command()
def rules(
    toml: Annotated[bool, typer.Option("--toml", help="All thresholds, ready for phasewise.toml.")] = False,
) -> None:
    """List the rules and caveats; * marks a rule whose thresholds phasewise.toml sets."""
    from advisor.config import settings
    from advisor.explain import rules_list, rules_toml

    sys.stdout.write(rules_toml(settings()) if toml else rules_list(settings()))


@app.command()
def formats() -> None:
    """List the log formats that are read."""
    from advisor.explain import formats_list

    sys.stdout.write(formats_list())


@app.command()
def schema() -> None:
    """Print the JSON Schema of `analyze --format json`."""
    from advisor.model import json_schema

    sys.stdout.write(json.dumps(json_schema(), indent=2) + "\n")


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
        with command.make_context(NAME, arguments) as context:
            command.invoke(context)
    except typer.Exit as done:
        return done.exit_code
    return OK


def _sentence(error: typer.BadParameter) -> str:
    said = error.format_message().replace("Value error, ", "").rstrip(".")
    where = error.ctx.command_path if error.ctx else NAME
    return f"{said[:1].lower()}{said[1:]}; see `{where} --help`."


def _with_verb(arguments: Sequence[str]) -> Iterator[str]:
    verbs = {c.name or (c.callback.__name__ if c.callback else "") for c in app.registered_commands}
    root_options = {"-h", "--help", "--version", "--install-completion", "--show-completion"}
    if arguments and arguments[0] not in verbs | root_options:
        yield "analyze"
    yield from arguments
