"""Reports made from logs, and a Chromium to open them in."""

from __future__ import annotations

import random
import shutil
from functools import cache
from typing import TYPE_CHECKING, Any

from advisor.analysis import Options
from advisor.reading import read
from advisor.report.html import render
from advisor.ticket import report
from tests.advisor.helpers import Asked, at_rates, prefixed

if TYPE_CHECKING:
    from pathlib import Path

    from advisor.ticket import Report
    from rules.measures import Measures


@cache
def made(path: str) -> tuple[Report, Measures]:
    """What a log says, and what its charts are drawn from."""
    return report(read([path]), Options(), ["phasewise", "report", path, "-o", "report.html"])


def page(path: str | Path) -> str:
    """The HTML report of a log."""
    return render(*made(str(path)))


def many(number: int) -> str:
    """The log of a busy server: prompts and answers of all lengths, one in thirty slow."""
    chance = random.Random(7)
    return prefixed([_asked(chance) for _ in range(number)])


def _asked(chance: random.Random) -> Asked:
    prompt = int(min(max(chance.lognormvariate(7, 1), 30), 8_000))
    output = int(min(max(chance.lognormvariate(4.5, 0.8), 4), 700))
    slowed = 4.0 if chance.random() < 1 / 30 else 1.0
    prefill_tok_s = 1_500 / (1 + prompt / 9_000) * chance.uniform(0.93, 1.05) / slowed
    return at_rates(prompt, prefill_tok_s, output, 1_000 / (12 + prompt / 900) * chance.uniform(0.95, 1.03))


def chromium() -> dict[str, Any]:
    """How playwright starts a Chromium: that of the system where there is one, else its own."""
    system = shutil.which("chromium") or shutil.which("google-chrome")
    return {"args": ["--no-sandbox"], **({"executable_path": system} if system else {})}
