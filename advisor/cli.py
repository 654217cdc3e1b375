"""The command line: thin, each command imports what it needs when it runs."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from advisor.analysis import Options
    from advisor.reading import Reading

OK, LIMIT_BROKEN, BAD_USAGE, NOTHING_RECOGNISED, INTERRUPTED = 0, 1, 2, 3, 130

app = typer.Typer(
    name="phasewise",
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
    typer.Argument(metavar="PATH...", help="Logs: files, folders, patterns, or - for stdin."),
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
DeviceName = Annotated[str | None, typer.Option("--device", help="The device, such as 'RTX 4090'.")]
Bandwidth = Annotated[
    float | None, typer.Option(min=0.1, help="Memory bandwidth in GB/s of the device that holds the weights.")
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
    engine: Engine = None,
    since: Since = None,
    until: Until = None,
    model: Model = None,
    slot: Slot = None,
    gguf: Gguf = None,
    device: DeviceName = None,
    bandwidth: Bandwidth = None,
    vram: Vram = None,
    memory: Memory = None,
    cores: Cores = None,
    sockets: Sockets = None,
    no_redact: NoRedact = False,
) -> None:
    """Say which phase eats the latency, why, what to change, and what that would save."""
    from advisor.analysis import analyze as diagnose

    options = _options(
        since, until, model, slot, gguf, device, bandwidth, vram, memory, cores, sockets, no_redact
    )
    reading = _read(paths, engine)
    analysis = diagnose(reading, options)
    if format is PageFormat.JSON:
        sys.stdout.write(analysis.model_dump_json(by_alias=True, indent=2) + "\n")
    elif format is PageFormat.MD:
        from advisor.report.markdown import render

        _write_text(render(analysis))
    else:
        from advisor.report.terminal import show

        show(analysis, everything=everything)
    _end(reading)


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
    from advisor.analysis import measure
    from advisor.export import kind_of, write

    kind = kind_of(output, format.value if format else None)
    reading = _read(paths, engine)
    rows = measure(reading, _options(since, until, model, slot, no_redact=no_redact))
    write(getattr(rows, table.value), table.value, output, kind)
    _end(reading)


@app.command()
def explain(
    rule: Annotated[str, typer.Argument(help="An id of `phasewise rules`.")],
) -> None:
    """Say what a rule looks at, why it matters, and when not to worry."""
    from advisor.explain import explain as text_of

    _write_text(text_of(rule))


@app.command()
def rules() -> None:
    """List the rules and caveats."""
    from advisor.explain import rules_list

    _write_text(rules_list())


@app.command()
def formats() -> None:
    """List the log formats that are read."""
    from advisor.explain import formats_list

    _write_text(formats_list())


@app.command()
def schema() -> None:
    """Print the JSON Schema of `analyze --format json`."""
    import json

    from advisor.model import json_schema

    sys.stdout.write(json.dumps(json_schema(), indent=2) + "\n")


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        sys.stdout.write(f"phasewise {version('phasewise')}\n")
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

        _write_text(welcome())


def run(arguments: Sequence[str]) -> NoReturn:
    """The whole command: a path without a verb is analyzed; every expected error is one sentence."""
    from advisor.sources.files import InputError

    try:
        app(list(_with_verb(arguments)), standalone_mode=True)
    except InputError as error:
        _fail(str(error), BAD_USAGE)
    except KeyboardInterrupt:
        _fail("interrupted.", INTERRUPTED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(OK) from None
    raise SystemExit(OK)


def _with_verb(arguments: Sequence[str]) -> Iterator[str]:
    verbs = {c.name or (c.callback.__name__ if c.callback else "") for c in app.registered_commands}
    root_options = {"-h", "--help", "--version", "--install-completion", "--show-completion"}
    if arguments and arguments[0] not in verbs | root_options:
        yield "analyze"
    yield from arguments


def _fail(message: str, status: int) -> NoReturn:
    from advisor.redact import clean

    print(f"phasewise: {clean(message)}", file=sys.stderr)
    raise SystemExit(status)


def _warn(message: str) -> None:
    from advisor.redact import clean

    print(f"phasewise: {clean(message)}", file=sys.stderr)


def _write_text(text: str) -> None:
    sys.stdout.write(text)


def _read(paths: Sequence[str], engine: str | None) -> Reading:
    """Read all inputs; without anything recognised this ends the command with its sentence."""
    from advisor.reading import read
    from parsers import FORMATS, UnknownEngineError

    if "-" in paths and sys.stdin.isatty():
        _warn("reading standard input; paste the log, then press Ctrl-D (Windows: Ctrl-Z, Enter).")
    try:
        reading = read(paths, engine=engine)
    except UnknownEngineError:
        names = ", ".join(f.engine for f in FORMATS if f.grain != "setup")
        _fail(f"--engine {engine}: no such format; there are {names}.", BAD_USAGE)
    for sentence in reading.problems + reading.unrecognised:
        _warn(sentence)
    if not reading.sources:
        raise SystemExit(BAD_USAGE if reading.problems else NOTHING_RECOGNISED)
    return reading


def _end(reading: Reading) -> None:
    if reading.problems or reading.unrecognised:
        raise typer.Exit(BAD_USAGE)


def _options(
    since: str | None = None,
    until: str | None = None,
    model: str | None = None,
    slot: int | None = None,
    gguf: Path | None = None,
    device: str | None = None,
    bandwidth: float | None = None,
    vram: str | None = None,
    memory: str | None = None,
    cores: int | None = None,
    sockets: int | None = None,
    no_redact: bool = False,
) -> Options:
    from advisor.analysis import Options
    from advisor.config import machine
    from advisor.filters import Filters
    from rules.measures import Machine

    given = Machine(device, bandwidth, _size("--vram", vram), _size("--memory", memory), cores, sockets)
    filters = Filters(_time("--since", since), _time("--until", until), model, slot)
    return Options(filters=filters, machine=machine(given), gguf=gguf, redact=not no_redact)


def _size(option: str, text: str | None) -> int | None:
    from advisor.config import parse_size

    try:
        return None if text is None else parse_size(text)
    except ValueError:
        raise typer.BadParameter(f"{option} {text}: give a size such as 24GiB.") from None


def _time(option: str, text: str | None):  # type: ignore[no-untyped-def]
    from advisor.filters import parse_time

    try:
        return None if text is None else parse_time(text)
    except ValueError:
        raise typer.BadParameter(f"{option} {text}: give a time such as 2026-11-29T19:39.") from None
