"""Reads Ollama's server log: model loads, access lines, and the rows of the llama-server inside it.

Since 0.30 Ollama runs llama-server and its lines stand in the same log: those rows become Ollama's, and
the access line gives each its total time and clock. The Go engines before (0.4 to 0.24) log no timings,
so there the access line is the request. As Ollama's source measures it, an access line counts from
arrival: queueing, loading, templating and tokenizing are all inside its latency.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parsers.formats.base import At, Process, Reader
from parsers.formats.ollama.access import Access, Pairing, Run, busy_ms, read_access
from parsers.formats.ollama.bodies import Bodies
from parsers.formats.ollama.clock import Clock
from parsers.formats.ollama.launch import short_model
from parsers.formats.ollama.models import Models
from parsers.formats.ollama.prompts import Prompts
from parsers.records import Event, Request

if TYPE_CHECKING:
    import re

    from parsers.records import Row

_ENGINE = "ollama"
_INSIDE = frozenset({"llama-server", "llama-cli"})
_OK = 200
_CLIENT_GONE = 499
_SERVER_ERROR = 500


class OllamaReader(Reader):
    """Loads, access lines, and the tasks of the llama-server that Ollama runs."""

    engine = _ENGINE

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._hook()
        counts = process.counts
        self._pairings = {
            kind: Pairing(self._finish, lambda: counts.aborted_requests + counts.failed_requests)
            for kind in ("generation", "embedding")
        }
        self._bodies = Bodies(lambda row: self._emit(row, self._here()))
        self._models = Models(process, self._tell, self._restart)
        self._clock = Clock()
        self._server_log = False
        self._load_failed = False
        self._closed_run: int | None = None
        self._prompts = Prompts()

    # --- clock, and the way out

    def _hook(self) -> None:
        process = self.process
        process.hosted, process.on_request, process.on_event = _INSIDE, self._take, self._take_event

    def _is_server(self) -> None:
        """This is Ollama's own log; its end, if there was one, is past."""
        self._server_log, self._closed_run = True, None
        if self.process.host is None:
            self.process.host, self.process.clocked = _ENGINE, False
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
        event = Event(line=at.number, engine=_ENGINE, time=at.time, kind=kind, detail=detail, value=value)
        self._emit(event, run or self._here())

    # --- loading and unloading

    def listening(self, m: re.Match[bytes], at: At) -> None:
        """Ollama itself starts; whatever ran before is gone, and if nothing said so, it was not Ollama's."""
        if self.process.host is None:
            self.process.restart(at)
        self._models.ollama_starts(self._at(m, at), m["version"].decode("utf-8", "replace"))

    def starting_server(self, m: re.Match[bytes], at: At) -> None:
        """``starting llama-server`` (0.30 and newer)."""
        server = self._models.begin(self._at(m, at))
        server.learn_command(m["cmd"])
        server.logs_requests = True

    def starting_runner(self, m: re.Match[bytes], at: At) -> None:
        """``starting llama server``, later ``starting runner`` (until 0.24)."""
        server = self._models.begin(self._at(m, at))
        server.learn_command(m["cmd"])
        server.logs_requests = False if b" runner " in m["cmd"] else None
        server.embedding = None

    def starting_plain(self, m: re.Match[bytes], at: At) -> None:
        """The first runners (until 0.1.14); what they print tells of requests, or nothing does."""
        self._models.begin(self._at(m, at), alone=True).logs_requests = None

    def starting_mlx(self, m: re.Match[bytes], at: At) -> None:
        """MLX models run in a process of their own, which logs no requests."""
        self._models.begin(self._at(m, at)).model = short_model(m["model"].decode("utf-8", "replace"))

    def load_request(self, m: re.Match[bytes], at: At) -> None:
        """The Go engines' settings; the last one before the start counts."""
        self._at(m, at)
        if (server := self._models.starting) is not None:
            server.learn_request(m.groupdict())

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

    def stopping(self, m: re.Match[bytes], at: At) -> None:
        """A model is unloaded (told at the debug level only)."""
        self._tell(self._at(m, at), "model_unload", "the model was unloaded")

    # --- the prompt

    def prompt_cut(self, m: re.Match[bytes], at: At) -> None:
        """The prompt is longer than the context; Ollama cuts out its middle."""
        prompt, left = int(m["prompt"]), int(m["new"] or m["limit"])
        self._prompts.cut(at.number, left)
        detail = f"prompt of {prompt} tokens cut to {left} (limit {int(m['limit'])})"
        self._tell(self._at(m, at), "prompt_truncated", detail, float(prompt - left))

    def messages_dropped(self, m: re.Match[bytes], at: At) -> None:
        """The chat is longer than the context; its oldest messages are left out."""
        detail = f"{int(m['count'])} of the oldest messages left out to fit the context"
        self._tell(self._at(m, at), "prompt_truncated", detail)

    def shifted(self, m: re.Match[bytes], at: At) -> None:
        """The context was full while generating and part of it dropped."""
        discarded = int(m["discarded"])
        self._tell(self._at(m, at), "context_shift", f"{discarded} tokens dropped", float(discarded))

    def cache_slot(self, m: re.Match[bytes], at: At) -> None:
        """What a Go engine reuses of its cache for the request that begins (debug level only)."""
        if (time := self._at(m, at).time) is not None:
            counts = {name: int(m[name]) for name in ("prompt", "used", "remaining")}
            self._prompts.slot(time, counts)

    # --- requests

    def gin(self, m: re.Match[bytes], at: At) -> None:
        """A request ended. The `/v1` routes alone don't tell that it is Ollama who answers."""
        access = read_access(m, at, self._clock.zone)
        tells = self._engine_tells()
        if access is None or (access.route.startswith("/v1/") and not (self._server_log or tells)):
            return
        self._is_server()
        load_failed, self._load_failed = self._load_failed, False
        if access.status != _OK:
            self._ended_badly(access, tells=tells and not load_failed)
        elif not tells:
            self._from_access(access)
        else:
            self._pairings["embedding" if access.embeds else "generation"].access(access)

    def _engine_tells(self) -> bool:
        """Does what runs inside log its requests itself?"""
        if (known := self._models.log_requests()) is not None:
            return known
        return any(reader is not self and reader.engine for reader in self.process.readers)

    def _ended_badly(self, access: Access, *, tells: bool) -> None:
        """Refused, failed, or left by the client; llama-server tells itself of what it began."""
        after = f"after {access.latency_ms / 1000:.1f} s"
        counts = self.process.counts
        if access.status == _CLIENT_GONE:
            counts.aborted_requests += 1
            self._tell(self._when(access), "aborted", f"the client left {after}, before its answer began")
        elif access.status > _SERVER_ERROR or (access.status == _SERVER_ERROR and not tells):
            counts.failed_requests += 1
            self._tell(self._when(access), "error", f"HTTP {access.status} {after}")
        for pairing in self._pairings.values():
            pairing.lost()

    def _when(self, access: Access) -> At:
        return access.at._replace(time=access.finished_at)

    def _from_access(self, access: Access) -> None:
        """The access line is all there is."""
        row = Request(
            line=access.at.number, engine=_ENGINE, first_line=access.at.number, offset=access.at.offset
        )
        if access.embeds:
            row.kind = "embedding"
        else:
            self._prompts.add_reuse(row, access)
        self._finish(row, self._run_of(row.kind), access)

    def _run_of(self, kind: str) -> Run:
        server = self._models.serving(kind)
        return server.run if server is not None and server.run is not None else self._here()

    def _take_event(self, event: Event) -> None:
        """What a llama-server inside tells of its prompts is under the run of the requests it is about."""
        self._emit(event, self._run_of("generation") if event.engine in _INSIDE else self._here())

    def _take(self, row: Request) -> None:
        """A request of the llama-server inside; its access line may come a moment later, or has come."""
        if row.engine not in _INSIDE:
            self.process.release(row)
            return
        self._models.answered(row.first_line)
        run, pairing = self._run_of(row.kind), self._pairings.get(row.kind)
        if pairing is None or self._closed_run == self.process.run:
            self._emit(row, run)
            return
        self._prompts.mark_cut(row)
        pairing.row(row, run)

    def _finish(self, row: Request, run: Run, access: Access | None) -> None:
        if access is not None:
            busy = busy_ms(row)
            row.load_ms = self._models.load_for(access, run, busy)
            busy += row.load_ms or 0.0
            if row.load_ms is not None and row.prefill_ms is not None:
                row.ttft_ms = round(row.load_ms + row.prefill_ms, 3)
            row.total_ms = max(access.latency_ms, round(busy, 3))
            row.started_at, row.finished_at = access.started_at, access.finished_at
        self._emit(row, run)

    # --- what Ollama's clients print

    def body(self, m: re.Match[bytes], at: At) -> None:
        """An API answer on one line; in a server's log the access line tells the same."""
        if not self._server_log:
            self._bodies.body(m, at)

    def field(self, m: re.Match[bytes], at: At) -> None:
        """One field of an answer that stands on several lines, or of ``ollama run --verbose``."""
        if not self._server_log:
            self._bodies.field(m, at)

    def flush(self) -> None:
        """Emit the rows that wait for their access line."""
        for pairing in self._pairings.values():
            pairing.flush()
        self._bodies.flush()

    def joined(self) -> None:
        """Another model starts; requests of those loaded may still wait for their access line."""

    def close(self) -> None:
        """The source or the process ends."""
        self._models.settle()
        self.flush()
        self._closed_run = self.process.run
