"""The page of ``phasewise calibrate``: what this machine does, in figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from advisor.report.blocks import hanging, indented, put, standard_console, table, title
from rules.words import count, plural, rate, size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from advisor.calibration import Calibration, ModelRates


def show(found: Calibration, notes: Sequence[str]) -> None:
    """Print the page to standard output."""
    console = standard_console()
    machine = found.machine
    heading = (
        f"{machine.cpu}, {plural(machine.cores, 'core')}, {plural(machine.threads, 'thread')}, "
        f"{size(machine.memory_bytes)}: {found.words}"
    )
    blocks: list[RenderableType] = [Text(heading, style="dim"), Text(), title("This machine")]
    rows = [("", "best", "median")]
    rows += [
        (f"memory read by {plural(one.threads, 'thread')}", *_two(one.gb_s.best, one.gb_s.median, "GB/s"))
        for one in found.memory
    ]
    rows.append(("arithmetic", *_two(found.compute_gflops.best, found.compute_gflops.median, "GFLOP/s")))
    blocks.append(indented(table(rows)))
    if found.model is not None:
        blocks += [Text(), title(found.model.name), indented(table(_rates(found.model)))]
    if notes:
        blocks += [Text(), *(hanging("- ", note) for note in notes)]
    put(console, blocks)


def _two(best: float, median: float, unit: str) -> tuple[str, str]:
    return _figure(best, unit), _figure(median, unit)


def _figure(value: float | None, unit: str) -> str:
    return "?" if value is None else f"{value:,.0f} {unit}" if value >= 100 else f"{value:.1f} {unit}"


def _rates(model: ModelRates) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("", "best", "median", "that is")]
    for one in model.prefill:
        name = f"prefill of {count(one.tokens)} tokens"
        rows.append((name, rate(one.tok_s.best), rate(one.tok_s.median), _figure(one.gflops, "GFLOP/s")))
    for step in model.decode:
        name = f"decode at {count(step.depth)} tokens"
        rows.append((name, rate(step.tok_s.best), rate(step.tok_s.median), _figure(step.gb_s, "GB/s")))
    return rows
