"""`phasewise run`: the bundled llama.cpp runner."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path  # noqa: TC003 - Typer reads it
from typing import TYPE_CHECKING, Annotated

import typer

from advisor.command import BAD_USAGE, span, warn, writes_unicode
from advisor.errors import InputError
from advisor.options import EstimateFormat as RunFormat
from advisor.options import Shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from advisor.runner.plan import Plan
    from advisor.runner.result import Run

ModelFile = Annotated[
    str | None,
    typer.Option("--model", metavar="FILE", help="A GGUF file, or `demo` for a small one that pip installs."),
]


class BackendName(StrEnum):
    """Engines of the runner."""

    LLAMA_CPP_PYTHON = "llama-cpp-python"
    XLLAMACPP = "xllamacpp"


def run(
    *,
    model: ModelFile = None,
    backend: Annotated[
        BackendName | None, typer.Option(help="The engine; by default the one that is installed.")
    ] = None,
    shape: Annotated[
        Shape | None, typer.Option(help="What is asked; by default sweep, and chat for --try.")
    ] = None,
    prompts: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Prompts in place of a shape: JSON Lines or text.")
    ] = None,
    lengths: Annotated[
        str | None, typer.Option(metavar="N,N,...", help="Prompt lengths of the sweep, in tokens.")
    ] = None,
    chunks: Annotated[
        int | None, typer.Option(min=1, max=1000, help="Retrieved texts in a prompt of rag; 4 by default.")
    ] = None,
    output_tokens: Annotated[
        int | None, typer.Option("--output", min=1, max=10**6, help="Tokens of each answer.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KNOB=VALUE",
            help="How it runs, such as threads=4; `--set help` names all knobs.",
        ),
    ] = None,
    try_: Annotated[
        list[str] | None,
        typer.Option(
            "--try", metavar="KNOB=VALUE", help="Measure this change against how it runs. Repeatable."
        ),
    ] = None,
    from_analysis: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Try a fix that `analyze --format json` suggested.")
    ] = None,
    finding: Annotated[str | None, typer.Option(metavar="RULE", help="Which of its findings.")] = None,
    rounds: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=100,
            help="Turns of each side, for --try an even number; by default as --budget allows.",
        ),
    ] = None,
    budget: Annotated[
        str, typer.Option(metavar="TIME", help="Time for each comparison, such as 5m: 6 to 12 turns a side.")
    ] = "5m",
    rows: Annotated[Path | None, typer.Option(metavar="FILE", help="Keep the rows, as JSON Lines.")] = None,
    log: Annotated[Path | None, typer.Option(metavar="FILE", help="Keep the engine's own log.")] = None,
    append_to: Annotated[
        Path | None, typer.Option(metavar="REPORT", help="Append what was tried to this report.")
    ] = None,
    format: Annotated[RunFormat, typer.Option(help="What to print.")] = RunFormat.TERMINAL,  # noqa: A002
) -> None:
    """Measure prefill and decode of a model on this machine, and whether a change makes them faster."""
    from advisor.runner.plan import Wanted, plan

    _require_places(rows, log, append_to)
    if append_to is not None:
        from advisor.report.tried import require_report

        if not try_ and from_analysis is None:
            raise InputError("--append-to: nothing is tried; give --try KNOB=VALUE.")
        require_report(append_to)
    limit = span("--budget", budget)
    assert limit is not None
    planned = plan(
        Wanted(
            model=model,
            backend=backend,
            shape=shape,
            prompts=prompts,
            lengths=lengths,
            chunks=chunks,
            output_tokens=output_tokens,
            settings=set_ or (),
            tries=try_ or (),
            from_analysis=from_analysis,
            finding=finding,
            rounds=rounds,
            budget_s=limit.total_seconds(),
        )
    )
    _refuse_overwriting([*planned.reads, prompts, from_analysis], [rows, log, append_to])
    _measure(planned, rows, log, append_to, format)


def _require_places(*outputs: Path | None) -> None:
    """Refuse a file that can't stand where it should.

    Raises:
        InputError: one can't.
    """
    from advisor.output import target

    for path in outputs:
        if path is not None and (target(path, ()) is None or path.is_fifo()):
            raise InputError(f"{path}: give a file; standard output is for the result.")


def _refuse_overwriting(inputs: Sequence[Path | None], outputs: Sequence[Path | None]) -> None:
    """Refuse to write over what is read, or two things to one file.

    Raises:
        InputError: that would happen.
    """
    taken = [path for path in inputs if path is not None]
    for path in outputs:
        if path is None or path.is_char_device():
            continue
        if any(_is_same(path, other) for other in taken):
            raise InputError(f"{path}: this file is read, or written already; name another.")
        taken.append(path)


def _is_same(one: Path, other: Path) -> bool:
    """Whether two paths lead to one file, by whatever names."""
    if one.exists() and other.exists():
        return one.samefile(other)
    return one.resolve() == other.resolve()


def _measure(
    planned: Plan, rows: Path | None, log: Path | None, append_to: Path | None, kind: RunFormat
) -> None:
    from advisor.runner.measure import measured

    outcome = measured(planned, rows, log)
    if outcome.result is not None:
        _write(outcome.result, kind)
        if append_to is not None:
            from advisor.report.tried import append

            append(outcome.result, append_to)
    for fault in outcome.faults:
        warn(fault)
    if outcome.status:
        warn("interrupted.")
        raise typer.Exit(outcome.status)
    if outcome.faults:
        raise typer.Exit(BAD_USAGE)


def _write(result: Run, kind: RunFormat) -> None:
    if kind is RunFormat.JSON:
        from advisor.output import json_text

        sys.stdout.write(json_text(result, unicode=writes_unicode()))
    else:
        from advisor.report.run import show

        show(result)
