"""The models that Ollama loads: when, how long it took, and which of them a line can be about.

Several loaded models share one log, and their lines don't say whose they are. With one that embeds and
one that generates the kind of request tells; otherwise the model is unknown, and so is the setup.

A load is logged from the start of the model's process to its first healthy answer. What the API calls
`load_duration` is more: from arrival until the scheduler hands over a model, so it also holds the wait
for other loads and unloads. The wait for a parallel slot comes after it and is in neither.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias

from parsers.formats.base import At
from parsers.formats.ollama.access import Run
from parsers.formats.ollama.launch import Server, blob_name, short_model
from parsers.formats.ollama.machine import Machine, estimate

if TYPE_CHECKING:
    from collections.abc import Callable

    from parsers.formats.ollama.access import Access
    from parsers.formats.process import Process

    Tell: TypeAlias = Callable[[At, str, str, float | None, Run | None], None]

_LOAD_SLACK_MS = 15.0
_MAX_ALIVE = 16


class Models:
    """Model processes: the one that starts, those alive, the load that no request has answered for yet.

    Args:
        process: whose setup the newest model's lines fill.
        tell: emits events.
        restart: begins a new setup; true where what runs so far may go on beside it.

    Attributes:
        machine: what they all run on.
        starting: the one that has not answered yet.
    """

    def __init__(self, process: Process, tell: Tell, restart: Callable[[At, bool], None]) -> None:
        self._process = process
        self._tell = tell
        self._restart = restart
        self._version: str | None = None
        self._names: dict[str, str] = {}
        self._alive: list[Server] = []
        self._newest: Server | None = None
        self._unclaimed: Server | None = None
        self._estimate: tuple[str, dict[str, int | None]] = ("", {})
        self.machine = Machine()
        self.starting: Server | None = None

    def ollama_starts(self, at: At, version: str) -> None:
        """Nothing is loaded any more."""
        self._end_run(at, beside=False)
        self._alive.clear()
        self.machine.started()
        self._version = version

    def estimated(self, printed: bytes, at: At) -> None:
        """Before a model is started: what Ollama expects it to need."""
        self._estimate = f"log line {at.number} (Ollama's estimate)", estimate(printed, self._version)

    def begin(self, at: At, *, alone: bool = False) -> Server:
        """A model's process starts at this line; ``alone`` where Ollama can't have two."""
        self._end_run(at, beside=not alone)
        if alone:
            self._alive.clear()
        self.starting = Server(None, at.number, at.time)
        self.starting.estimate, self._estimate = self._estimate, ("", {})
        return self.starting

    def _end_run(self, at: At, *, beside: bool) -> None:
        self.settle()
        self._unclaimed = None
        self._restart(at, beside)

    def started(self, at: At, load_ms: float) -> None:
        """The model answers; printed twice a load since 0.11, the first one is its length."""
        if self.starting is None and self._newest is None:
            began = at.time and at.time - timedelta(milliseconds=load_ms)
            self.starting = Server(None, at.number, began)
        if (server := self.starting) is not None:
            server.load_ms = load_ms
            self.settle()
            self._unclaimed = server

    def settle(self) -> None:
        """The start is over, well or not: tell of the load."""
        server, self.starting = self.starting, None
        if server is not None:
            run = self._adopt(server)
            at = At(server.line, 0, server.started_at, b"", server.line)
            self._tell(at, "model_load", server.detail() or "settings not logged", server.load_ms, run)
            if (alone := self.machine.take_alone()) is not None:
                self._tell(alone, "fallback", "no GPU found: models run on the CPU", None, run)

    def _adopt(self, server: Server) -> Run:
        """The setup of now is this server's; add what only its command line says, and its name.

        Ollama never runs one model twice, so an earlier process of the same blob is gone. A version that
        the lines named so far is llama.cpp's, not Ollama's.
        """
        if server.run is None:
            server.run = Run(self._process.setup, self._process.run)
            others = [one for one in self._alive if one.model is None or one.model != server.model]
            self._alive = [*others[1 - _MAX_ALIVE :], server]
            self._newest = server
        setup, origin = server.run.setup, f"log line {server.line}"
        name = self._names.get(server.model or "") or server.model or (setup.model and blob_name(setup.model))
        setup.engine_version = None
        setup.origin.pop("engine_version", None)
        setup.learn(origin, model=name, engine_version=self._version)
        for source, facts in ((origin, server.facts), server.estimate):
            setup.learn(source, **{k: v for k, v in facts.items() if getattr(setup, k) is None})
        if server.kv_on_cpu and setup.kv_cpu_bytes is None:
            setup.learn(origin, kv_cpu_bytes=setup.kv_bytes)
        self.machine.teach(setup)
        return server.run

    def named(self, at: At, model: str) -> None:
        """The newest model's name as people know it."""
        if (server := self._newest) is not None and server.run is not None:
            self._names[server.model or ""] = short_model(model)
            server.run.setup.learn(f"log line {at.number}", model=short_model(model))

    def count(self, at: At, loaded: int) -> None:
        """So many are loaded now. Where no line can be told apart, what follows has no known setup."""
        starting, self.starting = self.starting, None
        if starting is not None:
            self._adopt(starting)
        if loaded == 1:
            self._alive = self._alive[-1:]
        elif loaded > len(self._alive) or self.serving("generation") is None:
            self._alive.clear()
            self._restart(at, True)
        self.starting = starting

    def answered(self, line: int) -> None:
        """A task was taken at this line: the only model there is has loaded, whatever the log left out."""
        if self.starting is not None and not self._alive and line > self.starting.line:
            self.settle()

    def failed(self) -> None:
        """The load that was under way failed."""
        server = self.starting or self._newest
        self.settle()
        self._unclaimed = None
        self._alive = [one for one in self._alive if one is not server]

    def serving(self, kind: str) -> Server | None:
        """The only loaded model that can have served such a request."""
        if kind == "generation":
            fit = [one for one in self._alive if not one.embedding]
        else:
            fit = [one for one in self._alive if one.embedding] or self._alive
        return fit[0] if len(fit) == 1 else None

    def log_requests(self) -> bool | None:
        """Do the loaded models log their requests? ``None`` where it isn't known."""
        known = {one.logs_requests for one in self._alive}
        if True in known:
            return True
        return False if known == {False} else None

    def load_for(self, access: Access, run: Run, busy_ms: float) -> float | None:
        """The load in ms that this request caused, if it did: it came before, and took at least as long.

        Args:
            access: the request's access line.
            run: the model that served it.
            busy_ms: its prefill and decode.
        """
        server = self._unclaimed
        if server is None or server.load_ms is None or server.started_at is None or server.run is None:
            return None
        if server.run.setup is not run.setup or not access.may_begin_by(server.started_at):
            return None
        if not access.covers(server.load_ms + busy_ms - _LOAD_SLACK_MS):
            return None
        self._unclaimed = None
        return server.load_ms
