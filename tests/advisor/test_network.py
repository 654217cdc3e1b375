"""Which commands open connections: those that were given an address, and no other."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.advisor.helpers import ROOT, SAMPLES, environment
from tests.tui.running import run as run_screens

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pytest

LOG, OTHER = str(SAMPLES / "llama-server-four-slots.log"), str(SAMPLES / "llama-server-rag.log")
NOWHERE = "http://127.0.0.1:9"
_RUN = """
import json, sys
from contextlib import suppress
from pathlib import Path

opened = []
def hook(event, arguments):
    if event.startswith(("socket.connect", "socket.get", "socket.send", "socket.bind", "urllib.", "http.")):
        opened.append(event + str([one for one in arguments if not hasattr(one, "fileno")]))
sys.addaudithook(hook)

import advisor.cli
told = {}
for words in json.loads(sys.argv[1]):
    opened.clear()
    with suppress(SystemExit):
        advisor.cli.run(words)
    told[" ".join(words)] = list(opened)
Path("told.json").write_text(json.dumps(told))
"""


def opened(folder: Path, *commands: list[str]) -> dict[str, list[str]]:
    """What each of these commands opened, as Python's audit events tell."""
    with (SAMPLES / "llama-server-rag.log").open("rb") as log:
        subprocess.run(
            [sys.executable, "-c", _RUN, json.dumps(commands)],
            stdin=log,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment(HTTP_PROXY=NOWHERE, ALL_PROXY=NOWHERE),
            cwd=folder,
            timeout=120,
            check=True,
        )
    told: dict[str, list[str]] = json.loads((folder / "told.json").read_text())
    return told


def test_no_command_that_reads_logs_opens_a_connection(tmp_path: Path) -> None:
    gguf = ["estimate", "--device", "RTX 4090", "--prompt", "100", "--output", "10", "--gguf", "none.gguf"]
    told = opened(
        tmp_path,
        ["--version"],
        ["analyze", LOG],
        ["report", LOG, "-o", "x.html", "--charts", "charts", "--baseline", OTHER],
        ["compare", LOG, OTHER],
        ["check", LOG, "--max-failed", "0"],
        ["export", LOG, "-o", "x.parquet"],
        ["anonymize", LOG, "-o", "x.log"],
        ["tail", "--plain", "-"],
        *(["explain", "output-long"], ["rules"], ["schema"], ["formats"], gguf),
    )
    assert {words: events for words, events in told.items() if events} == {}
    written = sorted(path.name for path in tmp_path.iterdir())
    assert written == ["charts", "told.json", "x.html", "x.log", "x.parquet"]


def test_an_address_that_is_given_is_the_only_one_that_is_asked(tmp_path: Path) -> None:
    told = opened(tmp_path, ["probe", NOWHERE], ["analyze", LOG, "--props", NOWHERE])
    assert len(told) == 2
    for events in told.values():
        assert [event for event in events if event.startswith("socket.connect")]
        assert all("'127.0.0.1', 9" in event for event in events), events


def test_the_screens_open_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a connection")

    for name in ("connect", "connect_ex", "bind", "sendto"):
        monkeypatch.setattr(f"socket.socket.{name}", refuse)
    monkeypatch.setattr("socket.getaddrinfo", refuse)
    assert "prefill" in run_screens(["llama-server-rag.log"]).text.lower()


def imported(path: Path) -> Iterator[str]:
    """The modules that a file imports anywhere, also inside its functions."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.ImportFrom):
            yield from (node.module or "", *(f"{node.module}.{name.name}" for name in node.names))
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)


def test_only_these_modules_can_reach_a_network() -> None:
    """`found.py` looks at loopback, `serve.py` listens, `web.py` asks, `reasons.py` words errors.

    `crews/` is Ray's, for `--on`.
    """
    reaching = {"aiohttp", "ftplib", "http.client", "http.server", "httpx", "requests", "smtplib", "socket"}
    reaching |= {
        "socketserver",
        "ssl",
        "urllib.request",
        "urllib3",
        "webbrowser",
        "websockets",
        "xmlrpc.client",
    }
    found = {
        path.relative_to(ROOT).as_posix()
        for floor in ("advisor", "rules", "parsers")
        for path in (ROOT / floor).rglob("*.py")
        if reaching.intersection(imported(path))
    }
    served = {f"advisor/sources/served/{name}.py" for name in ("web", "reasons")}
    assert {path for path in found if not path.startswith("advisor/crews/")} == {
        *served,
        "advisor/sources/found.py",
        "advisor/tui/serve.py",
    }
