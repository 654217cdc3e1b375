"""Ollama's server log: Go's slog and gin's access lines around those of llama-server (0.30 and newer)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from tests.diagnosis.writers.header import Y2026, device_info, model_header
from tests.diagnosis.writers.llama_server import begin, end, listening
from tests.diagnosis.writers.slots import slots_of

if TYPE_CHECKING:
    from tests.diagnosis.facts import Asked, Machine, Model

STARTED = datetime(2026, 8, 20, 18, 2, 11, tzinfo=UTC)

OVERHEAD_MS = 12.0
"""Templating and tokenizing."""


class ServerLog:
    """Lines of one ``ollama serve``.

    Args:
        version: as it says when it listens.
        environment: settings that differ from the defaults, by name.
    """

    def __init__(self, version: str, **environment: str) -> None:
        self.now = STARTED
        self.lines: list[str] = []
        defaults = {
            "OLLAMA_CONTEXT_LENGTH": "0",
            "OLLAMA_DEBUG": "INFO",
            "OLLAMA_FLASH_ATTENTION": "false",
            "OLLAMA_HOST": "http://127.0.0.1:11434",
            "OLLAMA_KEEP_ALIVE": "5m0s",
            "OLLAMA_KV_CACHE_TYPE": "",
            "OLLAMA_MAX_LOADED_MODELS": "0",
            "OLLAMA_MAX_QUEUE": "512",
            "OLLAMA_NUM_PARALLEL": "0",
        }
        settings = " ".join(f"{k}:{v}" for k, v in sorted({**defaults, **environment}.items()))
        self.slog("routes.go:1205", f'"server config" env="map[{settings}]"')
        self.slog("images.go:432", '"total blobs: 12"')
        self.slog("routes.go:1256", f'"Listening on 127.0.0.1:11434 (version {version})"')

    @property
    def text(self) -> str:
        """The whole log."""
        return "".join(f"{line}\n" for line in self.lines)

    def wait(self, ms: float) -> None:
        """Time passes."""
        self.now += timedelta(milliseconds=ms)

    def slog(self, source: str, message: str, level: str = "INFO") -> None:
        """One line of Go's structured log."""
        time = self.now.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        self.lines.append(f"time={time} level={level} source={source} msg={message}")

    def gpus(self, machine: Machine) -> None:
        """The devices that Ollama found."""
        for i, gpu in enumerate(machine.gpus):
            library = "Metal" if gpu.backend == "MTL" else gpu.backend
            self.slog(
                "types.go:50",
                f'"inference compute" id={i} library={library} compute=8.9 name={gpu.backend}{i} '
                f'description="{gpu.name}" libdirs=ollama driver=13.0 pci_id=0000:0{i + 1}:00.0 '
                "type=discrete "
                f'total="{gpu.mib / 1024:.1f} GiB" available="{gpu.mib / 1024 - 0.4:.1f} GiB"',
            )

    def access(self, latency_ms: float, route: str) -> str:
        """gin's line at the end of a request; its clock has whole seconds, and so has a long latency."""
        minutes, seconds = divmod(round(latency_ms / 1000), 60)
        latency = f"{minutes}m{seconds}s" if minutes else f"{latency_ms / 1000:.9f}s"
        time = f"{self.now:%Y/%m/%d - %H:%M:%S}"
        return f'[GIN] {time} | 200 | {latency:>13} |       127.0.0.1 | POST     "{route}"'


def blob(digest: str) -> str:
    """The path of a model file."""
    return f"/root/.ollama/models/blobs/sha256-{digest * 8}"


class LlamaServerLog(ServerLog):
    """Ollama 0.30 and newer: each model is an upstream llama-server, which logs its requests at ``-lv 4``."""

    def __init__(self, machine: Machine, **environment: str) -> None:
        super().__init__("0.32.15", **environment)
        self.machine = machine
        self.gpus(machine)
        self._tasks = 0
        self._claimed_ms = 0.0

    def load(self, model: Model, tag: str, load_ms: float) -> None:
        """A model is loaded; the next request has waited for it."""
        command = (
            f"/usr/lib/ollama/llama-server --model {model.path} --port 42103 --host 127.0.0.1 --no-webui "
            "--offline "
            f"-c {model.context} -np {model.slots} --log-verbosity 4 --no-log-prefix --no-log-timestamps "
            f"--flash-attn auto -b {model.batch} -ub {model.ubatch} --context-shift --keep 4"
        )
        self.slog("llama_server.go:433", f'"starting llama-server" cmd="{command}"')
        self.slog("llama_server.go:1295", '"waiting for llama-server to start responding"')
        self.lines += [
            f"cmn  common_param: common_params_print_info: build 1 (d222767c7) with {self.machine.compiler}",
            "cmn  common_param: common_params_print_info: verbosity = 4 (adjust with the `-lv N` CLI arg)",
            *device_info(self.machine),
            f"srv    load_model: loading model '{model.path}'",
            *model_header(model, Y2026),
            *listening(model),
        ]
        self.wait(load_ms)
        self.slog("llama_server.go:1362", f'"llama-server started in {load_ms / 1000:.2f} seconds"')
        self.slog(
            "images.go:381",
            f'"template selection" model=registry.ollama.ai/library/{tag} selected=go_template renderer="" '
            'parser=""',
        )
        self.slog("sched.go:728", '"loaded runners" count=1')
        self._model = model
        self._tasks, self._claimed_ms = 0, load_ms
        self._slots = slots_of(model, None, "f_sim", "f_sim_best")

    def ask(self, request: Asked, route: str = "/api/chat") -> None:
        """A request, after its pause unless it has just loaded the model."""
        if not self._claimed_ms:
            self.wait(request.pause_ms)
        task, self._tasks = self._tasks, self._tasks + request.output + 1
        self.lines += begin(self._slots, self._model, request, task, self.now.timestamp())
        self.wait(request.busy_ms)
        self.lines += end(request, task)
        self.lines.append(self.access(request.busy_ms + self._claimed_ms + OVERHEAD_MS, route))
        self._claimed_ms = 0.0
