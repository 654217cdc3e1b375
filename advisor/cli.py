"""The command line: thin, each command imports what it needs when it runs."""

from __future__ import annotations

import io
import json
import os
import sys
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
from advisor.formats_command import app as formats_app
from advisor.options import (
    ActiveWeightsBytes,
    Bandwidth,
    Cached,
    ContextDepth,
    Cores,
    DebugUnparsed,
    DecodeRate,
    DeviceName,
    Engine,
    EstimateFormat,
    FormatFile,
    Gguf,
    KvBytesPerToken,
    Layers,
    Memory,
    Model,
    NoFlashAttention,
    NoRedact,
    Output,
    PageFormat,
    Paths,
    PrefillPoint,
    Prompt,
    Props,
    RowFormat,
    RuleId,
    Since,
    Slot,
    Sockets,
    Table,
    Tflops,
    Until,
    Vram,
    WeightsBytes,
)

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


@app.command()
def analyze(
    paths: Paths,
    format: Annotated[PageFormat, typer.Option(help="What to print.")] = PageFormat.TERMINAL,  # noqa: A002
    everything: Annotated[bool, typer.Option("--all", help="All findings, each with its evidence.")] = False,
    svg: Annotated[Path | None, typer.Option(help="Write the page as a picture too.")] = None,
    engine: Engine = None,
    format_file: FormatFile = None,
    debug_unparsed: DebugUnparsed = False,
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
    reading = read(paths, engine, format_file, debug=debug_unparsed)
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
def estimate(
    gguf: Gguf = None,
    weights_bytes: WeightsBytes = None,
    layers: Layers = None,
    kv_bytes_per_token: KvBytesPerToken = None,
    active_weights_bytes: ActiveWeightsBytes = None,
    device: DeviceName = None,
    bandwidth: Bandwidth = None,
    tflops: Tflops = None,
    vram: Vram = None,
    prompt: Prompt = None,
    output: Output = None,
    cached: Cached = 0,
    context_depth: ContextDepth = 0,
    prefill_point: PrefillPoint = None,
    decode_tok_s: DecodeRate = None,
    no_flash_attention: NoFlashAttention = False,
    format: Annotated[EstimateFormat, typer.Option(help="What to print.")] = EstimateFormat.TERMINAL,  # noqa: A002
) -> None:
    """Say what a request will cost, before anything runs."""
    from advisor.estimate import estimate as answer
    from advisor.estimate_inputs import ask_of, hardware_of, model_of

    found = answer(
        model_of(gguf, weights_bytes, active_weights_bytes, layers, kv_bytes_per_token),
        hardware_of(device, bandwidth, tflops, vram),
        ask_of(prompt, output, cached, context_depth, prefill_point, decode_tok_s, not no_flash_attention),
    )
    if format is EstimateFormat.JSON:
        sys.stdout.write(json.dumps(found.as_json(), indent=2) + "\n")
    else:
        from advisor.report.estimate import show

        show(found)


@app.command()
def export(
    paths: Paths,
    table: Annotated[Table, typer.Option(help="Which rows.")] = Table.REQUESTS,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="File to write.")] = None,
    format: Annotated[RowFormat | None, typer.Option(help="Format, if the ending doesn't say.")] = None,  # noqa: A002
    engine: Engine = None,
    format_file: FormatFile = None,
    debug_unparsed: DebugUnparsed = False,
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
    reading = read(paths, engine, format_file, debug=debug_unparsed)
    rows = measure(reading, asked)
    write(getattr(rows, table.value), table.value, output, kind)
    hint_at_other_tables(rows, table.value)
    end(reading, asked)


@app.command()
def explain(rule: RuleId) -> None:
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


app.add_typer(formats_app, name="formats")


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
    verbs |= {str(group.name) for group in app.registered_groups}
    root_options = {"-h", "--help", "--version", "--install-completion", "--show-completion"}
    if arguments and arguments[0] not in verbs | root_options:
        yield "analyze"
    yield from arguments
