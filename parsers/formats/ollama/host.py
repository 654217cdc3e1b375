"""Ollama as the host of what it runs: its clock, the way out for all rows, and the models that it loads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parsers.formats.base import At, Reader
from parsers.formats.ollama.access import Run
from parsers.formats.ollama.clock import Clock
from parsers.formats.ollama.launch import short_model
from parsers.formats.ollama.machine import Memory
from parsers.formats.ollama.models import Models
from parsers.formats.ollama.unloads import Unloads
from parsers.records import Event, Request

if TYPE_CHECKING:
    import re
    from collections.abc import Callable

    from parsers.formats.ollama.launch import Server
    from parsers.formats.process import Process
    from parsers.records import Row

ENGINE = "ollama"
INSIDE = frozenset({"llama-server", "llama-cli"})


class HostLines(Reader):
    """Everything but requests.

    Args:
        process: shared with what runs inside.
        take: gets the requests of what runs inside.
        take_event: gets its events.
    """

    engine = ENGINE

    def __init__(
        self, process: Process, take: Callable[[Request], None], take_event: Callable[[Event], None]
    ) -> None:
        super().__init__(process)
        self._hooks = take, take_event
        self._hook()
        self._models = Models(process, self._tell, self._restart)
        self._memory = Memory()
        self._unloads = Unloads(self._tell)
        self._clock = Clock()
        self._server_log = False
        self._load_failed = False
        self._closed_run: int | None = None

    def _hook(self) -> None:
        process = self.process
        process.hosted = INSIDE
        process.on_request, process.on_event = self._hooks

    def _is_server(self) -> None:
        """This is Ollama's own log; its end, if there was one, is past."""
        self._server_log, self._closed_run = True, None
        if self.process.host is None:
            self.process.host, self.process.clocked = ENGINE, False
            self._hook()

    def _at(self, m: re.Match[bytes], at: At) -> At:
        """The place of one of Ollama's own lines, with its own clock."""
        self._is_server()
        return self._clock.read(m, at)

    def _restart(self, at: At, beside: bool) -> None:
        self.process.restart(at, beside=beside)
        self._closed_run = None

    def _here(self) -> Run:
        return Run(self.process.setup, self.process.run)

    def _emit(self, row: Row, run: Run) -> None:
        """Let a row out under the setup of the model that it is about."""
        process, now = self.process, self.process.setup
        process.setup, row.run = run
        process.release(row)
        process.setup = now

    def _tell(
        self, at: At, kind: str, detail: str, value: float | None = None, run: Run | None = None
    ) -> None:
        event = Event(line=at.number, engine=ENGINE, time=at.time, kind=kind, detail=detail, value=value)
        self._emit(event, run or self._here())

    # --- loading and unloading

    def listening(self, m: re.Match[bytes], at: At) -> None:
        """Ollama itself starts; whatever ran before is gone, and if nothing said so, it was not Ollama's."""
        if self.process.host is None:
            self.process.restart(at)
        self._models.ollama_starts(self._at(m, at), m["version"].decode("utf-8", "replace"))

    def config(self, m: re.Match[bytes], at: At) -> None:
        """``server config``: the first line of an Ollama, with its settings."""
        if self.process.host is None:
            self.process.restart(at)
        self._models.machine.config(m["env"], self._at(m, at))

    def compute(self, m: re.Match[bytes], at: At) -> None:
        """``inference compute``: a device."""
        self._models.machine.compute(m["fields"], self._at(m, at))

    def starting_server(self, m: re.Match[bytes], at: At) -> None:
        """``starting llama-server`` (0.30 and newer)."""
        server = self._begin(m, at)
        server.learn_command(m["cmd"])
        server.logs_requests = True

    def starting_runner(self, m: re.Match[bytes], at: At) -> None:
        """``starting llama server``, later ``starting runner`` (until 0.24)."""
        server = self._begin(m, at)
        server.learn_command(m["cmd"])
        server.logs_requests = False if b" runner " in m["cmd"] else None
        server.embedding = None

    def starting_plain(self, m: re.Match[bytes], at: At) -> None:
        """The first runners (until 0.1.14); what they print tells of requests, or nothing does."""
        self._begin(m, at, alone=True).logs_requests = None

    def starting_mlx(self, m: re.Match[bytes], at: At) -> None:
        """MLX models run in a process of their own, which logs no requests."""
        self._begin(m, at).model = short_model(m["model"].decode("utf-8", "replace"))

    def load_request(self, m: re.Match[bytes], at: At) -> None:
        """The Go engines' settings; the last one before the start counts."""
        self._at(m, at)
        if (server := self._models.starting) is not None:
            server.learn_request(m.groupdict())

    def estimated(self, m: re.Match[bytes], at: At) -> None:
        """``offload to cuda``, later ``offload library=cuda``: layers and memory, before the start."""
        self._models.estimated(m["fields"], self._at(m, at))

    def took(self, m: re.Match[bytes], at: At) -> None:
        """``model weights`` of the Go engine, and the rest of its memory, one line for each device."""
        facts = self._memory.add(m["what"], m["device"], m["size"])
        self.process.learn(self._at(m, at), **facts)

    def took_all(self, _m: re.Match[bytes], _at: At) -> None:
        """``total memory`` ends them."""
        self._memory.total()

    def output_on_cpu(self, m: re.Match[bytes], at: At) -> None:
        """``offloading output layer to CPU`` of the Go engine."""
        self._tell(self._at(m, at), "fallback", "the output layer stays on the CPU")

    def offloaded(self, m: re.Match[bytes], at: At) -> None:
        """``offloaded 22/33 layers to GPU`` of the Go engine."""
        self.process.learn(self._at(m, at), layers_offloaded=int(m["done"]), layers_offloadable=int(m["all"]))

    def started(self, m: re.Match[bytes], at: At) -> None:
        """``llama-server started in 9.37 seconds``."""
        self._models.started(self._at(m, at), round(float(m["seconds"]) * 1000, 3))

    def named(self, m: re.Match[bytes], at: At) -> None:
        """``template selection`` names the model that was just loaded."""
        self._models.named(self._at(m, at), m["model"].decode("utf-8", "replace"))

    def loaded(self, m: re.Match[bytes], at: At) -> None:
        """How many models are loaded now."""
        self._models.count(self._at(m, at), int(m["count"]))

    def load_failed(self, m: re.Match[bytes], at: At) -> None:
        """The model could not be loaded."""
        at = self._at(m, at)
        self._load_failed = True
        self._models.failed()
        self._tell(at, "error", "the model could not be loaded")

    def died(self, m: re.Match[bytes], at: At) -> None:
        """A model's process ended by itself."""
        self._tell(self._at(m, at), "error", "the model's process ended unexpectedly")

    def expires(self, m: re.Match[bytes], at: At) -> None:
        """A model will be unloaded, and why (told at the debug level only)."""
        self._at(m, at)
        self._unloads.expires(m)

    def evicts(self, m: re.Match[bytes], at: At) -> None:
        """A model has to go to make room."""
        self._unloads.evicts(self._at(m, at))

    def stopping(self, m: re.Match[bytes], at: At) -> None:
        """A model is unloaded (told at the debug level only)."""
        self._unloads.stopping(self._at(m, at))

    def _begin(self, m: re.Match[bytes], at: At, *, alone: bool = False) -> Server:
        """A model's process starts."""
        at = self._at(m, at)
        self._unloads.loads()
        self._memory.total()
        return self._models.begin(at, alone=alone)
