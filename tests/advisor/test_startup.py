"""What a command does not load: start-up is held by modules, not by a clock."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.advisor.helpers import SAMPLES, environment

LOG = str(SAMPLES / "llama-server-four-slots.log")
_RUN = """
import sys
from advisor.__main__ import main
try:
    main()
except SystemExit:
    pass
sys.stdout.flush()
sys.stderr.write("\\n" + " ".join(sys.modules))
"""

NETWORK = {"httpx", "httpcore", "ssl", "certifi", "http.client", "urllib.request", "obstore"}
SCREENS = {"textual", "textual_plotext", "altair", "vl_convert", "jinja2"}
TABLES = {"polars", "numpy", "scipy"}
RARE = {"asyncio", "gguf", "multiprocessing", "prometheus_client", "psutil", "ray", "yaml", "isal"}
RARE |= {"advisor.runner", "advisor.live", "advisor.tui", "advisor.anonymize"}
NEVER = NETWORK | SCREENS | RARE
FLOORS = {"parsers", "rules.catalogue"}
TEXT_ONLY = NEVER | TABLES | FLOORS | {"pydantic", "rich"}


@pytest.mark.parametrize(
    ("arguments", "unneeded"),
    [
        (["--version"], TEXT_ONLY | {"advisor.verbs"}),
        (["analyze", "--bogus"], TEXT_ONLY | {"advisor.verbs.report"}),
        (["analyse"], TEXT_ONLY | {"advisor.verbs"}),
        (["missing.log"], NEVER | TABLES | FLOORS | {"rich"}),
        ([], NEVER | TABLES | FLOORS | {"rich"}),
        (["--help"], NEVER | TABLES | FLOORS),
        (["analyze", "--help"], NEVER | TABLES | FLOORS),
        ([LOG], NEVER | {"scipy", "advisor.comparison", "rules.comparison"}),
        ([LOG, "--format", "json"], NEVER | {"scipy", "rich", "advisor.comparison"}),
        (["export", LOG], NEVER | {"scipy", "rich", "advisor.report", "advisor.comparison"}),
    ],
    ids=lambda value: " ".join(value)[:20] if isinstance(value, list) else "",
)
def test_what_is_not_loaded(arguments: list[str], unneeded: set[str]) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _RUN, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment(),
        text=True,
        check=True,
    )
    loaded = set(ran.stderr.splitlines()[-1].split())
    assert "advisor.cli" in loaded
    assert loaded & unneeded == set()
