"""Joins vLLM's records to rows.

Every line with a record goes to one method, which splits it and tries the messages below at the start of
each record: glued records are all read, and what a message quotes is not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parsers.formats.base import At, Reader, integer, line, number
from parsers.formats.vllm import setup
from parsers.formats.vllm.bodies import BODIES, Bodies
from parsers.formats.vllm.deaths import STOPPING, Deaths, Head, is_error
from parsers.formats.vllm.iterations import ITERATION, iteration
from parsers.formats.vllm.json_logs import JSON_RECORDS, json_record
from parsers.formats.vllm.offline import PRINTED, Printed
from parsers.formats.vllm.record import NEEDLE, RECORD, Clock, records
from parsers.formats.vllm.requests import ABORTED, EXCEEDED, HTTP, PREEMPTED, Aborts, exceeding
from parsers.formats.vllm.stats import (
    ADDED,
    BARE_STATS,
    STATS,
    Cadence,
    Speculation,
    count,
    fields,
    phase,
    share,
    window,
)

if TYPE_CHECKING:
    import re

    from parsers.formats.process import Process
    from parsers.records import Interval, Row

_ENGINE = "vllm"

IDENTIFY = (
    b"Avg prompt throughput: ",
    b"iteration elapsed time: ",
    b"ed request",
    b"is preempted by ",
    b"LLM engine ",
    b"vLLM API server version ",
    b"non-default args: ",
    BODIES.needle,
    *(printed.needle for printed in PRINTED),
)
"""A record with one of them must have come before any other line is believed to be vLLM's."""

_MESSAGES = (
    STATS,
    *ADDED,
    ITERATION,
    *ABORTED,
    PREEMPTED,
    EXCEEDED,
    *STOPPING,
    *setup.VERSION,
    setup.CONFIG,
    *setup.ARGUMENTS,
    *setup.WEIGHTS,
    *setup.FACTS,
)
LINES = (line("records", NEEDLE, RECORD + rb".*"), BARE_STATS, *JSON_RECORDS, BODIES, *PRINTED, *HTTP)


class VllmReader(Reader):
    """Windows, steps, events and setup of one vLLM."""

    engine = _ENGINE

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._clock = Clock(process)
        self._aborts = Aborts()
        self._bodies = Bodies(process)
        self._printed = Printed(process)
        self._deaths = Deaths(process)
        self._known = False
        self._from: bytes | None = None
        self._begin()

    def _begin(self) -> None:
        self._served = False
        self._loads_one_model = False
        self._preempted = 0
        self._cadences: dict[tuple[bytes | None, bytes | None], Cadence] = {}
        self._speculations: dict[bytes | None, Speculation] = {}
        self._window: Interval | None = None
        self._window_from: bytes | None = None

    # --- lines

    def records(self, m: re.Match[bytes], at: At) -> None:
        """A line with one or more records."""
        self._known = self._known or any(word in at.body for word in IDENTIFY)
        if not self._known:
            return
        for head, message in records(at.body, m):
            own_time = self._clock.read(head)
            self._from = head["process"]
            place = at if at.time else at._replace(time=own_time)
            if is_error(head["head"]):
                self._deaths.read(message, place, Head(head["process"], head["head"]))
            self._read(message, place)

    def bare_stats(self, m: re.Match[bytes], at: At) -> None:
        """A stats line without a head: without a process or a clock of its own."""
        self._known, self._from = True, None
        self._release()
        self.stats(m, at)

    def json_record(self, m: re.Match[bytes], at: At) -> bool:
        """``{"levelname": "INFO", "name": "vllm.v1...", ..., "message": "Engine 000: ..."}``."""
        record = json_record(m, self._clock)
        if record is None:
            return False
        self._known = self._known or any(word in record.message for word in IDENTIFY)
        if self._known:
            self._from = record.process
            place = at if at.time else at._replace(time=record.time)
            if is_error(record.level):
                head = Head(record.process, b"%d" % at.number)
                self._deaths.read(record.message, place, head, record.traceback)
            self._read(record.message, place)
        return True

    def body(self, m: re.Match[bytes], at: At) -> bool:
        """An answer with per-request metrics."""
        return self._bodies.take(m, at)

    def printed(self, m: re.Match[bytes], at: At) -> None:
        """``RequestOutput(..., metrics=RequestStateStats(...), ...)``, as a script prints it."""
        self._printed.take(m, at)

    def _read(self, message: bytes, at: At) -> None:
        for kind in _MESSAGES:
            if kind.needle in message and (m := kind.pattern.match(message)):
                if kind not in ADDED:
                    self._release()
                getattr(self, kind.name)(m, at)
                return
        self._release()

    def stopping(self, _m: re.Match[bytes], _at: At) -> None:
        """The server was told to stop."""
        self._deaths.stopping()

    def failed(self, m: re.Match[bytes], at: At) -> None:
        """A generation request was answered with an error; uvicorn gives neither its id nor the time."""
        if self._known:
            self._release()
            self.process.counts.failed_requests += 1
            self._event(at, "error", f"HTTP {m['status'].decode()} on {m['route'].decode()}")

    # --- windows and steps

    def stats(self, m: re.Match[bytes], at: At) -> None:
        """``Avg prompt throughput: ...``; the row waits for the lines that may be added to it."""
        found = fields(m["fields"])
        row = window(found, at)
        cadence = self._cadences.setdefault((self._from, m["label"]), Cadence())
        row.span_ms = cadence.span_ms(at.time, busy=bool(row.prefill_tok_s or row.decode_tok_s))
        row.phase = phase(row)
        if preemptions := count(found.get(b"Preemptions")):
            detail = f"{preemptions} preemptions in this window"
            self._event(at, "preempted", detail, value=float(preemptions))
        self._window, self._window_from = row, self._from

    def hit_rate(self, m: re.Match[bytes], _at: At) -> None:
        """V0 gives the prefix cache a line of its own."""
        if self._window and self._window_from == self._from:
            self._window.prefix_hit_rate = share(m["rate"])

    def speculation(self, m: re.Match[bytes], _at: At) -> None:
        """``Mean acceptance length`` counts the token that every step makes: 1.0 is no gain."""
        if self._window and self._window_from == self._from:
            self._window.accept_length = number(m["length"])

    def speculation_v0(self, m: re.Match[bytes], _at: At) -> None:
        """V0 gives sums since it started, the first V1 those of the window."""
        length = self._speculations.setdefault(self._from, Speculation()).accept_length(m)
        if self._window and self._window_from == self._from:
            self._window.accept_length = length

    def iteration(self, m: re.Match[bytes], at: At) -> None:
        """One engine step."""
        if row := iteration(m, at):
            self._emit(row)

    # --- requests

    def aborted(self, m: re.Match[bytes], at: At) -> None:
        """One event for each request; the same abort may be said twice."""
        for printed in m["ids"].decode("utf-8", "replace").split(","):
            if printed and self._aborts.is_new(printed):
                self.process.counts.aborted_requests += 1
                self._event(at, "aborted", "aborted before it was done", request_id=printed)

    def preempted(self, m: re.Match[bytes], at: At) -> None:
        """V0 warns of its first preemption and then of every 50th, with the total so far."""
        total = int(m["total"]) if m["total"] else self._preempted + 1
        new, self._preempted = max(total - self._preempted, 1), total
        detail = f"by {m['mode'].decode().lower()}" + (f", {total} in total" if m["total"] else "")
        request_id = m["id"].decode("utf-8", "replace")
        self._event(at, "preempted", detail, value=float(new), request_id=request_id)

    def exceeded(self, m: re.Match[bytes], at: At) -> None:
        """``This model's maximum context length is 2048 tokens. However, you requested 2054 tokens ...``."""
        tokens, context = exceeding(m)
        least = "at least " if m["least"] else ""
        detail = f"{least}{tokens} tokens exceed the context of {context}"
        self._event(at, "context_exceeded", detail, value=float(tokens - context))

    # --- setup

    def started(self, m: re.Match[bytes], at: At) -> None:
        """The API server's banner."""
        self._restart_if_served(at)
        self._learn(at, engine_version=m["version"].decode())

    def config(self, m: re.Match[bytes], at: At) -> None:
        """``Initializing a V1 LLM engine (v0.32.0) with config: ...``; each data-parallel rank prints it."""
        self._restart_if_served(at)
        self._loads_one_model = setup.loads_one_model(m["config"])
        version = m["version"].decode() if m["version"] else None
        self._learn(at, engine_version=version, **setup.config_facts(m["config"]))

    def arguments(self, m: re.Match[bytes], at: At) -> None:
        """The command line as vLLM understood it."""
        self._learn(at, **setup.argument_facts(m["arguments"]))

    def weights(self, m: re.Match[bytes], at: At) -> None:
        """``Model loading took 14.9888 GiB``; the model's size only where one worker loads all of it."""
        if self._loads_one_model:
            self._learn(at, weights_bytes=setup.gib_bytes(m["size"]))

    def kv_size(self, m: re.Match[bytes], at: At) -> None:
        """``GPU KV cache size: 46,592 tokens``; of several workers the smallest counts."""
        tokens, known = integer(m["tokens"]), self.process.setup.context_total
        self._learn(at, context_total=min(tokens, known) if tokens and known else tokens)

    def kv_memory(self, m: re.Match[bytes], at: At) -> None:
        """``Available KV cache memory: 8.11 GiB``, of each worker; the whole only where there is one."""
        if self._loads_one_model:
            self._learn(at, kv_bytes=setup.gib_bytes(m["size"]))

    def chunked(self, m: re.Match[bytes], at: At) -> None:
        """``Chunked prefill is enabled with max_num_batched_tokens=8192.``."""
        self._learn(at, chunk_tokens=int(m["tokens"]))

    def block(self, m: re.Match[bytes], at: At) -> None:
        """``Setting attention block size to 784 tokens``, as hybrid models need."""
        self._learn(at, block_tokens=int(m["tokens"]))

    def no_prefix_caching(self, _m: re.Match[bytes], at: At) -> None:
        """A hybrid model in a version that can't cache its prefixes."""
        self._learn(at, prefix_caching=False)

    def eager(self, _m: re.Match[bytes], at: At) -> None:
        """``Enforce eager set``, for those whose config line is missing."""
        self._learn(at, eager=True)

    def architecture(self, m: re.Match[bytes], at: At) -> None:
        """``Resolved architecture: Qwen3NextForCausalLM``."""
        self._learn(at, architecture=m["name"].decode())

    def _learn(self, at: At, **facts: object) -> None:
        self.process.learn(at, engine=_ENGINE, **facts)

    def _restart_if_served(self, at: At) -> None:
        if self._served or self._deaths.over or self.process.setup.engine not in (None, _ENGINE):
            self.process.restart(at)
            self._begin()
            self._deaths.begin()

    # --- the way out

    def _event(self, at: At, kind: str, detail: str, **more: object) -> None:
        self._served = True
        self.process.event(_ENGINE, at, kind, detail, **more)

    def _emit(self, row: Row) -> None:
        self._served = True
        self.process.emit(row)

    def _release(self) -> None:
        if self._window:
            self._emit(self._window)
        self._window = None

    def flush(self) -> None:
        """Emit the window and the request that only waited for lines that might still be added to them."""
        self._release()
        self._printed.flush()
        self._deaths.flush()

    def close(self) -> None:
        """The source or the process ends."""
        self.flush()
