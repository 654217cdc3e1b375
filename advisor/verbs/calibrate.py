"""`phasewise calibrate`: this machine's own figures, measured once."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from advisor.command import warn, writes_unicode
from advisor.options import EstimateFormat

if TYPE_CHECKING:
    from advisor.calibration import Calibration


def calibrate(
    *,
    model: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Measure this GGUF file too, or `demo`; needs an engine."),
    ] = None,
    forget: Annotated[bool, typer.Option("--forget", help="Remove what is kept.")] = False,
    format: Annotated[EstimateFormat, typer.Option(help="What to print.")] = EstimateFormat.TERMINAL,  # noqa: A002
) -> None:
    """Measure this machine's memory and arithmetic once, for `estimate` and `--device this-machine`."""
    from advisor import calibration
    from advisor.output import json_text

    if forget:
        warn("the calibration is removed." if calibration.forget() else "there is no calibration to remove.")
        return
    measured, others_cores = _measured(model)
    kept, notes = calibration.steady(measured, others_cores)
    path = None if kept is None else calibration.keep(kept)
    if format is EstimateFormat.JSON:
        said = {**measured.model_dump(by_alias=True), "kept": path is not None, "notes": notes}
        sys.stdout.write(json_text(calibration.Told.model_validate(said), unicode=writes_unicode()))
        return
    from advisor.report.calibration import show

    if path is not None:
        notes.insert(0, f"Kept in {path}; `phasewise calibrate --forget` removes it.")
    show(measured, notes)


def _measured(model: str | None) -> tuple[Calibration, float | None]:
    """The figures, and how many cores other programs used meanwhile."""
    from advisor.runner.calibrating import measured
    from advisor.runner.engines import backend
    from advisor.runner.machine import Machine, crowded_cores, processors
    from advisor.runner.model_file import checked, model_path

    path = None if model is None else model_path(model)
    file = None if path is None else checked(path)
    engine = None if path is None else backend()
    machine = Machine()
    machine.look()
    found = measured(file, path, engine, _tell, machine.note)
    return found, crowded_cores([machine.look()], processors())


def _tell(words: str) -> None:
    """What is being measured."""
    if sys.stderr.isatty():
        warn(f"{words} ...")
