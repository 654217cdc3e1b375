"""Joins SGLang's lines to rows: batches of each replica, requests, events and setup."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from parsers.formats.base import At, Reader, integer, line
from parsers.formats.sglang import requests, setup
from parsers.formats.sglang.batches import DECODE, PREFILL, Batches, Fields, graph_used
from parsers.formats.sglang.record import HEAD, Rank, rank, time_of, timed

if TYPE_CHECKING:
    import re

    from parsers.formats.process import Process
    from parsers.records import Interval, Request, Row

_ENGINE = "sglang"

IDENTIFY = (
    b"server_args=",
    b"Prefill batch",
    b"Decode batch",
    b"Stats(rid=",
    b"Finish: obj=",
    b'"event": "request.',
    b'{"request_parameters": "',
)

_RETRACTED = line(
    "retracted",
    b"#retracted_reqs: ",
    HEAD + rb"(?:KV cache pool is full\. Retract requests|Decode out of memory happened)\. "
    rb"#retracted_reqs: (?P<count>\d+)",
)
_DISCONNECTED = line(
    "disconnected",
    b"is disconnected from the client side",
    rb"(?:" + HEAD + rb")?(?:\w*Error: )?Request is disconnected from the client side(?: \(type \d\))?\. "
    rb"Abort request (?:obj\.rid='|(?!obj))(?P<rid>[\w.:-]{1,100})",
)
_FAILED = (
    HEAD + rb"INFO: +\S+ - \"POST (?P<route>/v1/chat/completions|/v1/completions|/v1/responses|/v1/messages"
    rb"|/v1/embeddings|/v1/rerank|/generate|/encode)(?:\?\S*)? HTTP/[\d.]+\" (?P<status>[45]\d\d)\b"
)

LINES = (
    PREFILL,
    DECODE,
    *requests.FINISHED,
    requests.TIME_STATS,
    *requests.RECEIVED,
    _RETRACTED,
    _DISCONNECTED,
    line("failed", b' HTTP/1.1" 4', _FAILED),
    line("failed", b' HTTP/1.1" 5', _FAILED),
    setup.ARGUMENTS,
    setup.SIZES,
    setup.KV_ALLOCATED,
)

_REMEMBERED = 1024
_HELD = 256
_FEWEST_GRAPHS = 5


class SglangReader(Reader):
    """Batches, requests, events and setup of one SGLang."""

    engine = _ENGINE

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._prefills, self._decodes = Fields(), Fields()
        self._begin()

    def _begin(self) -> None:
        self._served = False
        self._logs_requests = False
        self._mixes = False
        self._in_one_process = False
        self._chunk_tokens: int | None = None
        self._graphs = {False: 0, True: 0}
        self._replicas: dict[int, Batches] = {}
        self._leads: dict[int, tuple[int, ...]] = {}
        self._unsure: dict[int, Interval] = {}
        self._held: dict[str, Request] = {}
        self._told: deque[str] = deque(maxlen=_REMEMBERED)
        self._aborted: deque[str] = deque(maxlen=_REMEMBERED)

    # --- batches

    def prefill(self, m: re.Match[bytes], at: At) -> None:
        """``Prefill batch. #new-seq: 1, #new-token: 8192, #cached-token: 0, ...``."""
        if self._leading(source := rank(m)):
            self._batch(source, self._batches(source).prefill(self._prefills.of(m), at, time_of(m, at)))

    def decode(self, m: re.Match[bytes], at: At) -> None:
        """``Decode batch. #running-req: 2, #token: 1500, ...``, every 40 steps."""
        if self._leading(source := rank(m)):
            found = self._decodes.of(m)
            self._graph(graph_used(found), at)
            self._batch(source, self._batches(source).decode(found, at, time_of(m, at)))

    def _graph(self, used: bool | None, at: At) -> None:
        """Decoding is eager where most decode lines say that they ran without a graph."""
        if used is not None:
            self._graphs[used] += 1
            eager = self._graphs[False] > self._graphs[True]
            if self.process.setup.eager is not eager and sum(self._graphs.values()) >= _FEWEST_GRAPHS:
                self.process.learn(at, eager=eager)

    def _batches(self, source: Rank) -> Batches:
        known = self._replicas.get(source.replica)
        if known is None:
            known = self._replicas[source.replica] = Batches(self._chunk_tokens, self._mixes)
        return known

    def _leading(self, source: Rank) -> bool:
        """False for a rank that only repeats the lines of a lower one of its replica.

        A rank that is not the lowest possible may turn out to be such a one: its first line is kept back
        until it speaks again. If a lower rank speaks before that, the line was a repetition.
        """
        replica, place = source
        lead = self._leads.get(replica)
        kept = self._unsure.pop(replica, None) if lead is None or place <= lead else None
        if lead == place:
            if kept:
                self._emit(kept)
            return True
        if lead is not None and place > lead:
            return False
        self._leads[replica] = place
        self._replicas.pop(replica, None)
        return True

    def _batch(self, source: Rank, row: Interval) -> None:
        if self._replicas[source.replica].lines == 1 and any(source.place):
            self._unsure[source.replica] = row
        else:
            self._emit(row)

    def retracted(self, m: re.Match[bytes], at: At) -> None:
        """The KV cache was full: requests give theirs up and wait again."""
        if self._leading(rank(m)):
            count = int(m["count"])
            self._event(timed(m, at), "preempted", f"{count} retracted, KV cache full", value=float(count))

    # --- requests

    def received(self, _m: re.Match[bytes], _at: At) -> None:
        """Requests are logged, so a ``Finish`` line will follow each."""
        self._logs_requests = True

    def finished(self, m: re.Match[bytes], at: At) -> None:
        """``Finish: obj=GenerateReqInput(...), out={...}``."""
        self._logs_requests = True
        self._finished(requests.meta_of_text(m["text"]), timed(m, at))

    def finished_json(self, m: re.Match[bytes], at: At) -> None:
        """``{"timestamp": "...", "event": "request.finished", ...}``."""
        self._logs_requests = True
        self._finished(requests.meta_of_json(m["json"]), timed(m, at))

    def exported(self, m: re.Match[bytes], at: At) -> None:
        """A record of ``--export-metrics-to-file``."""
        self._finished(requests.meta_of_json(m["json"]), at)

    def _finished(self, meta: dict[str, Any] | None, at: At) -> None:
        if meta is None:
            self.process.counts.incomplete_requests += 1
            return
        if requests.is_health_check(meta):
            return
        request_id = requests.request_id(meta)
        stats = self._held.pop(request_id, None) if request_id else None
        if requests.reason(meta) == "abort":
            if not requests.was_refused(meta):
                self._abort(request_id, at)
        elif request_id is None or request_id not in self._told:
            row, impossible = requests.finished(meta, at)
            self.process.counts.impossible_values += impossible
            if stats is not None:
                row.queue_ms = stats.queue_ms if row.queue_ms is None else row.queue_ms
                row.first_line, row.offset = stats.first_line, stats.offset
            self._emit(row)

    def time_stats(self, m: re.Match[bytes], at: At) -> None:
        """``ReqTimeStats(rid=..., ...)``; where requests are logged, a line that tells more is next."""
        row, impossible = requests.time_stats(m, timed(m, at))
        self.process.counts.impossible_values += impossible
        if row.request_id is None or not self._logs_requests:
            if row.request_id is not None:
                self._told.append(row.request_id)
            self._emit(row)
            return
        self._held[row.request_id] = row
        if len(self._held) > _HELD:
            self._emit(self._held.pop(next(iter(self._held))))

    def disconnected(self, m: re.Match[bytes], at: At) -> None:
        """A client left before its answer was done."""
        self._abort(m["rid"].decode(), timed(m, at))

    def _abort(self, request_id: str | None, at: At) -> None:
        if request_id is None or request_id not in self._aborted:
            self.process.counts.aborted_requests += 1
            self._event(at, "aborted", "aborted before it was done", request_id=request_id)
        if request_id is not None:
            self._aborted.append(request_id)

    def failed(self, m: re.Match[bytes], at: At) -> None:
        """A request was answered with an error."""
        self.process.counts.failed_requests += 1
        self._event(timed(m, at), "error", f"HTTP {m['status'].decode()} on {m['route'].decode()}")

    # --- setup

    def arguments(self, m: re.Match[bytes], at: At) -> None:
        """``server_args=ServerArgs(model_path='...', ...)``, the first line of a server."""
        if self._served:
            self.process.restart(at)
        self._mixes = setup.mixes(m["arguments"])
        self._in_one_process = setup.in_one_process(m["arguments"])
        self.process.learn(at, engine=_ENGINE, **setup.facts(m["arguments"]))

    def sizes(self, m: re.Match[bytes], at: At) -> None:
        """``max_total_num_tokens=...``; each replica prints its own, and the smallest counts."""
        chunk = m["chunk"]
        self._chunk_tokens = int(chunk) if chunk and chunk.isdigit() else None
        known, total = self.process.setup.context_total, integer(m["total"])
        self.process.learn(
            at,
            engine=_ENGINE,
            context=integer(m["context"]),
            context_total=min(known, total) if known and total else total,
            chunk_tokens=self._chunk_tokens,
            max_running=integer(m["running"]),
        )

    def kv_allocated(self, m: re.Match[bytes], at: At) -> None:
        """``KV Cache is allocated. #tokens: 367404, K size: 8.23 GB, V size: 8.23 GB``."""
        if self._in_one_process:
            self.process.learn(at, engine=_ENGINE, kv_bytes=setup.kv_bytes(m))

    # --- the way out

    def _event(self, at: At, kind: str, detail: str, **more: object) -> None:
        self._served = True
        self.process.event(_ENGINE, at, kind, detail, **more)

    def _emit(self, row: Row) -> None:
        self._served = True
        self.process.emit(row)

    def flush(self) -> None:
        """Emit what only waited for lines that might still belong to it."""
        for row in self._unsure.values():
            self._emit(row)
        for request in self._held.values():
            self._told.append(request.request_id or "")
            self._emit(request)
        self._unsure, self._held = {}, {}

    def close(self) -> None:
        """The source or the process ends."""
        self.flush()
        self._begin()
