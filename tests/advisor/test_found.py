"""What is offered where nothing is named: engines that listen here, and logs where engines write them."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import typer

from advisor.errors import InputError
from advisor.explain import welcome
from advisor.options import Programs
from advisor.sources import found
from advisor.sources.found import Found, listening, logs, places
from advisor.verbs.tail import offered

if TYPE_CHECKING:
    from collections.abc import Iterator

METRICS = b"# TYPE llamacpp:prompt_tokens_total counter\nllamacpp:prompt_tokens_total 5\n"


@contextmanager
def answering(status: int, pages: dict[str, bytes], wait_s: float = 0.0) -> Iterator[int]:
    """Listens on a port; what is not among the pages has this status."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            time.sleep(wait_s)
            self.send_response(200 if self.path in pages else status)
            self.end_headers()
            self.wfile.write(pages.get(self.path, b""))

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            """A client that went away is no fault here."""

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def test_who_answers_decides_not_the_port() -> None:
    with (
        answering(404, {"/metrics": METRICS}) as llama,
        answering(404, {"/api/version": b'{"version": "0.32.1"}'}) as ollama,
        answering(404, {"/": b"<html>somebody's page</html>"}) as other,
        answering(401, {}) as guarded,
        answering(404, {}, wait_s=5.0) as slow,
        socket.create_server(("127.0.0.1", 0)) as silent,
    ):
        ports = (llama, ollama, other, guarded, slow, silent.getsockname()[1])
        began_s = time.monotonic()
        told = listening(dict.fromkeys(ports, "vllm"))
        assert time.monotonic() - began_s < 4
    assert [(one.engine, one.sure, ports.index(int(one.place.rpartition(":")[2]))) for one in told] == [
        ("llama-server", "answers", 0),
        ("ollama", "answers", 1),
        ("vllm", "listens", 3),
        ("vllm", "listens", 4),
        ("vllm", "listens", 5),
    ]
    assert {one.kind for one in told} == {"address"}


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    assert listening({port: "vllm"}) == []


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    return tmp_path


def write(path: Path, age_s: float) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("a line\n")
    os.utime(path, (time.time() - age_s,) * 2)
    return path


def test_the_newest_log_of_a_folder(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    write(home / ".lmstudio" / "server-logs" / "2026-10" / "2026-10-01.1.log", 900)
    newest = write(home / ".lmstudio" / "server-logs" / "2026-11" / "2026-11-01.2.log", 500)
    assert logs() == [Found("lmstudio", "file", str(newest), "exists")]
    server = write(home / ".ollama" / "logs" / "server.log", 100)
    assert [(one.engine, one.place, one.arguments) for one in logs()] == [
        ("ollama", str(server), [str(server)]),
        ("lmstudio", str(newest), [str(newest)]),
    ]


def test_the_bare_command_names_the_same_places(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    server = write(home / "AppData" / "Local" / "Ollama" / "server.log", 1)
    lines = welcome().splitlines()
    assert f"  ollama        {server}" in lines
    assert f"  lmstudio      {home / '.lmstudio' / 'server-logs'} (not there)" in lines
    monkeypatch.setattr(sys, "platform", "linux")
    assert (
        "  ollama        journalctl -u ollama --no-pager -o short-iso | phasewise -" in welcome().splitlines()
    )


def test_a_user_without_a_folder_of_his_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(_: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", nowhere)
    monkeypatch.setattr(sys, "platform", "darwin")
    assert logs() == []
    assert places() == [
        ("ollama", "~/.ollama/logs/server.log", False),
        ("lmstudio", "~/.lmstudio/server-logs", False),
    ]


def test_where_nothing_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(found, "PORTS", {})
    with pytest.raises(InputError, match="no engine answers here"):
        offered()
    write(home / ".ollama" / "logs" / "server.log", 100)
    lmstudio = write(home / ".lmstudio" / "server-logs" / "1.log", 1)
    with pytest.raises(InputError, match=r"say what to watch: .*1\.log`, `phasewise tail .*server\.log`"):
        offered()
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setattr(typer, "prompt", lambda *_, **__: 1)
    assert offered() == ([str(lmstudio)], Programs())


def test_a_unit_is_watched_by_its_name() -> None:
    assert Found("ollama", "unit", "ollama", "exists").arguments == ["--unit", "ollama"]
