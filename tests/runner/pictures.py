"""Pictures of what `phasewise run` prints: ``python -m tests.runner.pictures RESULT.json PICTURE.svg``."""

from __future__ import annotations

import sys
from io import StringIO
from pathlib import Path

from rich.console import Console

from advisor.report.run import page
from advisor.report.terminal import without_web_font
from advisor.runner.result import Run

WIDTH = 84


def draw(result: Path, picture: Path) -> None:
    """The page of a result that ``--format json`` wrote."""
    run = Run.model_validate_json(result.read_bytes())
    console = Console(record=True, file=StringIO(), width=WIDTH, highlight=False, markup=False)
    console.print(*page(run), sep="\n")
    picture.write_text(without_web_font(console.export_svg(title="phasewise run")), "utf-8", newline="\n")


if __name__ == "__main__":
    draw(*map(Path, sys.argv[1:]))
