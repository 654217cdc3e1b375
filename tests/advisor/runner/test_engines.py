"""Which engine measures, and what an engine's process says when it can't."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import TYPE_CHECKING

import pytest

from advisor.errors import InputError, NotInstalledError
from advisor.runner.engine import EngineError
from advisor.runner.engines import BACKENDS, backend
from advisor.runner.engines.child import Child, ended, last_error

if TYPE_CHECKING:
    from pathlib import Path


def test_the_first_that_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    for one in BACKENDS:
        monkeypatch.setattr(type(one), "is_installed", lambda _: True)
    assert [backend().id, backend("xllamacpp").id] == ["llama-cpp-python", "xllamacpp"]
    monkeypatch.setattr(type(BACKENDS[0]), "is_installed", lambda _: False)
    assert backend().id == "xllamacpp"
    with pytest.raises(NotInstalledError, match=r"^llama-cpp-python is not installed; ") as caught:
        backend("llama-cpp-python")
    assert len(caught.value.lines) == 1


def test_without_any_the_lines_that_install_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for one in BACKENDS:
        monkeypatch.setattr(type(one), "is_installed", lambda _: False)
    with pytest.raises(NotInstalledError) as caught:
        backend()
    for one, line in zip(reversed(BACKENDS), caught.value.lines, strict=True):
        assert "pip install" in line
        assert one.id in line


def test_an_unknown_one() -> None:
    with pytest.raises(
        InputError, match=r"^--backend vllm: unknown; known are llama-cpp-python, xllamacpp\.$"
    ):
        backend("vllm")


def _child(script: str, log: Path) -> Child:
    return Child("the engine", [sys.executable, "-c", script], log)


def test_lines_to_and_fro(tmp_path: Path) -> None:
    script = "import sys\nfor line in sys.stdin: sys.stdout.write(line); sys.stdout.flush()"
    child = _child(script, tmp_path / "log")
    long = json.dumps(list(range(60_000)))
    child.write(long)
    child.write("short")
    assert child.line(20) == long.encode()
    assert child.line(20) == b"short"
    assert child.line(0.01) is None
    assert child.is_running
    child.close()
    assert child.line() is None
    assert child.line() is None


def test_a_child_that_does_not_want_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("advisor.runner.engines.child._END_S", 0.3)
    deaf = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    script = deaf + "print(flush=True)\ntime.sleep(60)"
    child = _child(script, tmp_path / "log")
    assert child.line(20) == b""
    begin_s = time.monotonic()
    child.close()
    assert time.monotonic() - begin_s < 5
    assert not child.is_running


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        ("import sys; sys.exit('load: bad magic: invalid file')", r"can't load: bad magic: invalid file\.$"),
        ("raise RuntimeError('Failed to load it')", r"can't load: Failed to load it\.$"),
        ("", r"can't load: it ended without a word\.$"),
    ],
)
def test_why_it_ended(script: str, sentence: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("an error of an earlier run\n")
    child = _child(script, log)
    assert child.line() is None
    assert child.failure("can't load").args[0].startswith("the engine can't load: ")
    with pytest.raises(EngineError, match=sentence):
        raise child.failure("can't load")


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("SIGKILL", "killed"),
        ("SIGILL", "built for another processor"),
        ("SIGUSR1", "ended by signal {}."),
    ],
)
def test_a_signal(name: str, sentence: str, tmp_path: Path) -> None:
    number = int(signal.Signals[name])  # they differ between systems
    child = _child("print(flush=True); import time; time.sleep(60)", tmp_path / "log")
    child.line(20)
    os.kill(child.pid, number)
    assert sentence.format(number) in str(child.failure("can't go on"))


def test_statuses_of_windows() -> None:
    assert ended(0xC000001D) == ended(-4)
    assert ended(0xC0000374) == "it ended with status 0xc0000374"
    assert ended(1) is None


def test_a_log_that_has_no_folder(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"its log in .*no.log \(No such file or directory\)"):
        _child("", tmp_path / "no" / "log")


CUT_OFF = """\
0.00.024.041 E llama_model_load: error loading model: tensor 'x' data is not within the file bounds
0.00.024.060 E llama_model_load_from_file_impl: failed to load model
0.00.024.065 E cmn  common_init_: failed to load model '/models/broken.gguf'
0.00.024.068 E srv    load_model: failed to load model, '/models/broken.gguf'
0.00.024.073 I srv    operator(): operator(): cleaning up before exit...
0.00.024.561 E srv  llama_server: exiting due to model loading error
"""
QUANTISED = """\
0.00.212.584 E llama_init_from_model: quantized V cache requires flash_attn to be enabled
0.00.212.604 E cmn  common_init_: failed to create context with model '/models/m.gguf'
"""
UNSTAMPED = """\
gguf_init_from_reader: failed to read magic
llama_model_load_from_file_impl: failed to load model
ValueError: Failed to load model from file: x
"""


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        (CUT_OFF, "error loading model: tensor 'x' data is not within the file bounds"),
        (QUANTISED, "quantized V cache requires flash_attn to be enabled"),
        (UNSTAMPED, "failed to read magic"),
        ("/src/ggml.c:12: GGML_ASSERT(x) failed\n", "/src/ggml.c:12: GGML_ASSERT(x) failed"),
        ("all is well\n", None),
    ],
)
def test_the_reason_in_a_log(log: str, reason: str | None) -> None:
    assert last_error(log) == reason
