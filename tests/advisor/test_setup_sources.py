"""What other sources than the log say of the setup: ``--gguf`` and ``--props``."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from advisor.errors import InputError
from advisor.facts import complete
from advisor.props import read_props
from parsers.setup import Setup
from tests.advisor.helpers import ROOT, SAMPLES, phasewise, refused

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOG = SAMPLES / "llama-server-chat.log"
SHORT_LOG = ROOT / "tests" / "logs" / "llama-server-b11434" / "a_short_default" / "server.log"
PROPS: dict[str, Any] = {
    "default_generation_settings": {"n_ctx": 2048, "params": {}},
    "total_slots": 7,
    "model_path": "/home/someone/models/tiny.gguf",
    "model_ftype": "Q4_1",
    "build_info": "b11434-unknown",
    "chat_template": "secret words",
}


@pytest.fixture
def server() -> Iterator[str]:
    """Answers /props as llama-server does, and 401 elsewhere."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/props" else 401)
            self.end_headers()
            self.wfile.write(json.dumps(PROPS).encode() if self.path == "/props" else b"")

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Answers) as served:
        threading.Thread(target=served.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{served.server_port}"
        served.shutdown()


def test_a_running_server_is_asked(server: str) -> None:
    facts = {"engine_version": "b11434", "quantization": "Q4_1", "slots": 7, "context": 2048}
    assert read_props(server) == {**facts, "model": PROPS["model_path"]}
    assert read_props(f"{server}/props") == read_props(server)


def test_what_it_says_fills_what_the_log_hides(tmp_path: Path) -> None:
    answer = tmp_path / "props.json"
    answer.write_text(json.dumps(PROPS))
    page = phasewise(SHORT_LOG, "--props", answer, "--format", "json").out
    data = json.loads(page)
    assert data["setup"]["origin"]["quantization"] == "/props"
    assert data["setup"]["disputed"]["slots"] == "7 by /props"
    assert any(c["id"] == "setup-contradiction" and "7 by /props" in c["text"] for c in data["caveats"])
    assert "secret words" not in page
    assert "someone" not in page


def test_no_answer_is_one_sentence(server: str, tmp_path: Path) -> None:
    for place, words in (
        (f"{server}/other", "401"),
        ("http://127.0.0.1:1", "no answer"),
        ("ftp://host/props", "http"),
        ("http://[::1", "no address"),
        (str(tmp_path / "missing.json"), "No such file"),
        (str(LOG), "not what llama-server answers"),
    ):
        with pytest.raises(InputError, match=words):
            read_props(place)
    refused(phasewise(LOG, "--props", "http://127.0.0.1:1"), 2, "no answer")


def test_what_the_log_prints_stays_and_rounding_is_no_contradiction() -> None:
    setup = Setup()
    setup.learn("log line 3", weights_bytes=4_917_000_000, quantization="Q4_K - Medium", model="a.gguf")
    complete(
        setup,
        "--gguf",
        {"weights_bytes": 4_920_734_272, "quantization": "Q4_K_M", "model": "b.gguf", "layers": 32},
    )
    assert (setup.weights_bytes, setup.layers, setup.disputed) == (4_917_000_000, 32, {})
    complete(setup, "--gguf", {"weights_bytes": 8_540_000_000, "quantization": "Q8_0", "layers": None})
    assert setup.disputed == {"weights_bytes": "8540000000 by --gguf", "quantization": "Q8_0 by --gguf"}
