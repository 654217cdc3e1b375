"""`phasewise probe`: a running server, asked a few bounded questions."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from advisor.command import BAD_USAGE, INTERRUPTED, warn, writes_unicode
from advisor.errors import InputError
from advisor.options import EstimateFormat as ProbeFormat
from advisor.options import NoRedact, grouped
from advisor.probe.plan import LENGTHS, OUTPUT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from advisor.probe.asking import Asked
    from advisor.probe.plan import Plan, Planned
    from advisor.probe.result import Probe
    from advisor.probe.target import Target
    from advisor.runner.rows import KeptRows

_ANSWER_S = 600.0
"""A long prompt takes minutes on a slow machine."""


@grouped
def probe(
    address: Annotated[str, typer.Argument(metavar="URL", help="A server, such as http://localhost:8080.")],
    *,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="Which of its models; needed if it has several.")
    ] = None,
    lengths: Annotated[
        str, typer.Option(metavar="N,N,...", help="Prompt lengths in tokens, about.")
    ] = ",".join(map(str, LENGTHS)),
    output: Annotated[int, typer.Option(min=2, max=10_000, help="Tokens of each answer at most.")] = OUTPUT,
    allow_remote: Annotated[
        bool, typer.Option("--allow-remote", help="The server may be another machine.")
    ] = False,
    rows: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keep the requests as rows, as JSON Lines.")
    ] = None,
    format: Annotated[ProbeFormat, typer.Option(help="What to print.")] = ProbeFormat.TERMINAL,  # noqa: A002
    no_redact: NoRedact = False,
) -> None:
    """Send a running server a few requests, and separate queue, prefill and decode by how answers come."""
    from advisor.lengths import lengths_of
    from advisor.live.opening import TOKEN
    from advisor.probe.asking import ask_all
    from advisor.probe.found import found
    from advisor.probe.plan import Plan
    from advisor.probe.target import find, require_near
    from advisor.redact import Plain, Redactor
    from advisor.sources.served.web import Web

    plan = Plan(tuple(sorted(lengths_of(lengths))), output)
    if not allow_remote:
        require_near(address)
    kept = _kept(rows)
    token = os.environ.get(TOKEN)
    address = base(address)

    def connect() -> Web:
        return Web(address, token=token, answer_s=_ANSWER_S)

    web = Web(address, token=token)
    try:
        target = find(web, model)
    finally:
        web.close()
    fitting = plan.within(target.context)
    _announce(web.name, target, fitting, plan)
    with telling(fitting) as tell:
        asked = ask_all(target, fitting, connect, tell)
    words = Plain() if no_redact else Redactor()
    shown, name = asked.shown(words), words.text(web.name)
    _print(found(shown, fitting, name), format)
    if kept is not None:
        _keep(shown, name, kept)
    _end(asked, web.name, kept)


@contextmanager
def telling(plan: Plan) -> Iterator[Callable[[Sequence[Planned]], None]]:
    """Shows on a terminal how far the requests are; takes each step as it begins."""
    from advisor.runner.progress import DECODE_WEIGHT, bar

    def size(step: Sequence[Planned]) -> int:
        return sum(one.tokens + DECODE_WEIGHT * plan.output for one in step)

    begun: list[Sequence[Planned]] = []
    with bar() as shown:
        shown.whole = sum(map(size, plan.steps()))

        def tell(step: Sequence[Planned]) -> None:
            if begun:
                shown.advance(size(begun[-1]))
            begun.append(step)
            shown.begin(f"{step[0].kind}, {step[0].tokens} tokens")

        yield tell


def base(address: str) -> str:
    """The address that all paths are under; users also give the one that clients are set to, with ``/v1``."""
    return address.rstrip("/").removesuffix("/v1")


def _announce(name: str, target: Target, plan: Plan, wanted: Plan) -> None:
    """Say what will be sent before it is."""
    from rules.words import count

    if left := [n for n in wanted.lengths if n not in plan.lengths]:
        sizes = ", ".join(count(n) for n in left)
        warn(f"prompts of {sizes} tokens don't fit the server's context of {count(target.context)} tokens.")
    model = f", model {target.title}" if target.title else ""
    warn(
        f"sending {plan.requests} requests to {name} ({target.engine}{model}): about "
        f"{count(plan.prompt_tokens)} prompt tokens, and at most {count(plan.output_tokens)} to generate."
    )


def _print(result: Probe, kind: ProbeFormat) -> None:
    if kind is ProbeFormat.JSON:
        from advisor.output import json_text

        sys.stdout.write(json_text(result, unicode=writes_unicode()))
    else:
        from advisor.report.probe import show

        show(result)


def _kept(path: Path | None) -> KeptRows | None:
    """The file for the rows.

    Raises:
        InputError: it can't be one.
    """
    from advisor.output import target
    from advisor.runner.rows import KeptRows

    if path is None:
        return None
    if target(path, ()) is None:
        raise InputError("--rows -: give a file; standard output is for the result.")
    return KeptRows(path)


def _keep(asked: Asked, name: str, kept: KeptRows) -> None:
    from advisor.probe.rows import rows_of
    from advisor.probe.waiting import waits
    from advisor.runner.rows import columns_of

    with kept:
        for row in rows_of(asked.samples, asked.target, name, waits(asked.samples)):
            kept.add(columns_of(row))


def _end(asked: Asked, name: str, kept: KeptRows | None) -> None:
    """What ended it early or is missing: a sentence each, and a status."""
    faults = [f"{name}: {asked.fault}."] if asked.fault is not None else []
    faults += [kept.fault] if kept is not None and kept.fault is not None else []
    for fault in faults:
        warn(fault)
    if asked.is_interrupted:
        raise typer.Exit(INTERRUPTED)
    if faults:
        raise typer.Exit(BAD_USAGE)
