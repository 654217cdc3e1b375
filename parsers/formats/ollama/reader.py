"""Reads Ollama's server log: model loads, access lines, and the rows of the llama-server inside it.

Since 0.30 Ollama runs llama-server and its lines stand in the same log: those rows become Ollama's, and
the access line gives each its total time and clock. The Go engines before (0.4 to 0.24) log no timings,
so there the access line is the request. As Ollama's source measures it, an access line counts from
arrival: queueing, loading, templating and tokenizing are all inside its latency.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parsers.cut import json_object
from parsers.formats.llama_server.reader import ServerReader
from parsers.formats.ollama.access import Access, Pairing, Run, busy_ms, read_access
from parsers.formats.ollama.bodies import Bodies
from parsers.formats.ollama.host import ENGINE, INSIDE, HostLines
from parsers.formats.ollama.prompts import Prompts
from parsers.formats.ollama_timings import OllamaAnswers, says_ollama
from parsers.records import Event, Request

if TYPE_CHECKING:
    import re

    from parsers.formats.base import At
    from parsers.formats.process import Process

_OK = 200
_CLIENT_GONE = 499
_SERVER_ERROR = 500


class OllamaReader(HostLines):
    """Loads, access lines, and the tasks of the llama-server that Ollama runs."""

    def __init__(self, process: Process) -> None:
        super().__init__(process, self._take, self._take_event)
        self._pairings = {
            kind: Pairing(self._finish, self._ended_early, self._missed)
            for kind in ("generation", "embedding")
        }
        self._bodies = Bodies(self._emit_here, self._impossible)
        self._openai = OllamaAnswers(self._emit_here)
        self._prompts = Prompts()

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
            servers = (reader for reader in self.process.readers if isinstance(reader, ServerReader))
            told = any(server.any_told() for server in servers)
            self._pairings["embedding" if access.embeds else "generation"].access(access, told=told)

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
            line=access.at.number, engine=ENGINE, first_line=access.at.number, offset=access.at.offset
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
        self._emit(event, self._run_of("generation") if event.engine in INSIDE else self._here())

    def _take(self, row: Request) -> None:
        """A request of the llama-server inside; its access line may come a moment later, or has come."""
        if row.engine not in INSIDE:
            self.process.release(row)
            return
        self._models.answered(row.first_line)
        run, pairing = self._run_of(row.kind), self._pairings.get(row.kind)
        if pairing is None or self._closed_run == self.process.run:
            self._emit(row, run)
            return
        self._prompts.mark_cut(row)
        pairing.row(row, run, self.process.at)

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

    def _emit_here(self, row: Request) -> None:
        self._emit(row, self._here())

    def _ended_early(self) -> int:
        return self.process.counts.aborted_requests + self.process.counts.failed_requests

    def _missed(self) -> int:
        return self.process.missed

    def _impossible(self) -> None:
        self.process.counts.impossible_values += 1

    def body(self, m: re.Match[bytes], at: At) -> bool:
        """An API answer on one line; in a server's log the access line tells the same."""
        return self._server_log or self._bodies.body(m, at)

    def openai(self, m: re.Match[bytes], at: At) -> bool:
        """The end of an answer of the OpenAI API."""
        answer = json_object(m["body"])
        if answer is None or not says_ollama(answer):
            return False
        return self._server_log or self._openai.take(answer, at, at)

    def field(self, m: re.Match[bytes], at: At) -> None:
        """One field of an answer that stands on several lines, or of ``ollama run --verbose``."""
        if not self._server_log:
            self.process.unquote()
            self._bodies.field(m, at)

    def asked(self, m: re.Match[bytes], at: At) -> None:
        """``>>> why is the sky blue?`` in ``ollama run --verbose``: an answer follows, many lines."""
        if self._bodies.just_told(at) and not self._server_log:
            self.process.quote(at, ENGINE)

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
