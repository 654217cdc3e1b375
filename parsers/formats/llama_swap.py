"""llama-swap: its list of requests (``/api/metrics/activity``, ``/api/metrics`` until v235), and its log.

The list has rates and no times. llama-server's clock counts whole microseconds, and its rates are printed
with all digits, so the number of tokens by which a rate gives whole microseconds is the one that it is of:
with or without the cached part of the prompt, with or without an answer's first token. Where none does, or
more than one, the phase stays unknown. ``duration_ms`` goes from the request's arrival to its end since v200
(2026-04), so what it has beyond the phases is waiting for a slot or for a model; before, it was their sum.

In the log itself stand the lines of the engines it runs: those are read as theirs. Its own lines tell when a
model was loaded and why it was unloaded. The access lines tell a request's time and no tokens: not read.

Read in llama-swap v250 (0bdb3720: internal/server/metrics.go, internal/store, internal/process), and at
87dce5f8, 74c69f39, f58c8c8e, e250e71e, 06bc6a61 and fd3c28ff for the older layouts.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from parsers.documents.base import Document
from parsers.formats.base import Format, Reader, line
from parsers.formats.json_records import BODY, is_span, is_spread, moment, number, part, records, remember
from parsers.formats.json_values import count, text
from parsers.records import Request

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator

    from parsers.formats.base import At
    from parsers.formats.process import Counts, Process

_ENGINE = "llama-swap"
_MS = 1000.0
_US = 1e6
_LARGEST_ERROR_US = 1e-3
"""How far whole microseconds are off after a division and a multiplication in floats, with room."""

_HEAD = rb"(?:\d[\d:T.,/+Z-]* (?:[\d:.,]+ )?)?\[(?:INFO|DEBUG)\] <(?P<model>[^<>]{1,200})> "

LINES = (
    line("entries", b'"duration_ms":', BODY, b'"tokens_per_second":'),
    line("loaded", b"> Health check passed on ", _HEAD + rb"Health check passed on \S"),
    line(
        "unloaded", b"> Unloading model, TTL of ", _HEAD + rb"Unloading model, TTL of (?P<ttl>\d+)s reached"
    ),
)


class SwapReader(Reader):
    """The requests, each told once: a page of the list repeats those of the one before."""

    engine = _ENGINE

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._told: dict[str, None] = {}

    def entries(self, m: re.Match[bytes], at: At) -> bool:
        """``[{"id":0,...}]``, or since v236 ``{"data":[{"id":1,...}],"page":1,...}``."""
        found = False
        for body in records(m["body"]):
            for entry in _entries(body):
                found = True
                told = f"{entry.get('id')} {entry.get('timestamp')}"
                if told not in self._told:
                    remember(self._told, told, None)
                    for row in _rows_of(entry, self.process.counts):
                        row.line = row.first_line = at.number
                        row.offset = at.offset
                        self.process.emit(row)
        return found

    def loaded(self, m: re.Match[bytes], at: At) -> None:
        """``[INFO] <qwen3-8b> Health check passed on http://localhost:5800/health``."""
        self.process.event(_ENGINE, at, "model_load", m["model"].decode("utf-8", "replace"))

    def unloaded(self, m: re.Match[bytes], at: At) -> None:
        """``[INFO] <qwen3-8b> Unloading model, TTL of 300s reached``."""
        model = m["model"].decode("utf-8", "replace")
        self.process.event(_ENGINE, at, "model_unload", f"{model}: not used for {int(m['ttl'])} s")


def _entries(body: Any) -> Iterator[dict[str, Any]]:
    """The entries of a page, or the one that this object is."""
    page = body.get("data") if isinstance(body, dict) else None
    for entry in page if isinstance(page, list) else [body]:
        if isinstance(entry, dict) and {"id", "timestamp", "model", "duration_ms"} <= entry.keys():
            tokens = part(entry, "tokens") or entry
            if {"input_tokens", "output_tokens", "tokens_per_second"} <= tokens.keys():
                yield entry


def _rows(body: Any, counts: Counts) -> Iterator[Request]:
    for entry in _entries(body):
        yield from _rows_of(entry, counts)


def _rows_of(entry: dict[str, Any], counts: Counts) -> Iterator[Request]:
    """The row of an entry; those that failed, and those whose answer told nothing, are counted."""
    tokens = part(entry, "tokens")
    is_wall_clock = bool(tokens)
    tokens = tokens or entry
    if entry.get("resp_status_code") not in (None, 200):
        counts.failed_requests += 1
        return
    prompt, output = count(tokens, "input_tokens"), count(tokens, "output_tokens")
    if not prompt and not output:
        counts.incomplete_requests += _is_generation(entry)
        return
    row = Request(engine=_ENGINE, model=text(entry, "model"))
    row.request_id = None if (name := count(entry, "id")) is None else str(name)
    row.kind = _kind(entry)
    row.finished_at = moment(entry.get("timestamp"))
    row.total_ms = number(entry, "duration_ms") or None
    if row.total_ms is not None and not is_span(row.total_ms):
        row.total_ms = None
        counts.impossible_values += 1
    if is_wall_clock and row.finished_at is not None and row.total_ms is not None:
        row.started_at = row.finished_at - timedelta(milliseconds=row.total_ms)
    row.draft_tokens, row.accepted_tokens = count(tokens, "draft_tokens"), count(tokens, "draft_acc_tokens")
    if row.draft_tokens == 0:
        row.draft_tokens = row.accepted_tokens = None
    if row.kind == "generation":
        row.output_tokens = output
    _fill_phases(row, prompt or 0, tokens, is_wall_clock)
    yield row


def _fill_phases(row: Request, prompt: int, tokens: dict[str, Any], is_wall_clock: bool) -> None:
    """What each phase took, where only one reading of the rates fits the whole."""
    cached = count(tokens, "cache_tokens")
    prompt_rate = _rate(tokens, "prompt_per_second")
    first = _readings({prompt, prompt - (cached or 0)}, prompt_rate)
    answer = row.output_tokens or 0
    after = _readings({answer, answer - 1}, _rate(tokens, "tokens_per_second"))
    fitting = [
        (n, ms, of) for n, ms in first for _, of in after if _fits(ms + of, row.total_ms, is_wall_clock)
    ]
    evaluated = {(n, ms) for n, ms, _ in fitting if n}
    if len(evaluated) == 1:
        ((row.prefill_tokens, row.prefill_ms),) = evaluated
        row.ttft_ms, row.ttft_from = row.prefill_ms, "slot"
        if cached is not None:
            row.cached_tokens, row.prompt_tokens = cached, row.prefill_tokens + cached
    elif prompt_rate is None and (cached or 0) <= prompt:
        row.prompt_tokens, row.cached_tokens = prompt, cached
    decoded = {of for _, _, of in fitting if of}
    if len(decoded) == 1:
        row.decode_ms, row.decode_steps = decoded.pop(), answer - 1


def _rate(tokens: dict[str, Any], key: str) -> float | None:
    """A rate; -1 is printed for one that the engine doesn't tell."""
    rate = number(tokens, key)
    return rate if rate is not None and rate > 0 else None


def _readings(counts: set[int], rate: float | None) -> list[tuple[int, float]]:
    """The counts by which a rate gives whole microseconds, with their ms; zeros where there is no rate."""
    if rate is None:
        return [(0, 0.0)]
    found = [(n, ms) for n in counts if (ms := _whole_us(n, rate)) is not None]
    return found or [(0, 0.0)]


def _fits(phases_ms: float, total_ms: float | None, is_wall_clock: bool) -> bool:
    """Whether phases can be those of the total, which is cut to whole ms."""
    if total_ms is None:
        return True
    return phases_ms < total_ms + 1 if is_wall_clock else 0 <= phases_ms - total_ms < 1


def _whole_us(tokens: int, rate: float) -> float | None:
    """Milliseconds that so many tokens take at this rate, if they are whole microseconds."""
    us = _US * tokens / rate if tokens > 0 else 0.0
    if not us or abs(us - round(us)) > max(_LARGEST_ERROR_US, 1e-12 * us):
        return None
    return round(us) / _MS


def _kind(entry: dict[str, Any]) -> str:
    path = str(entry.get("req_path") or "")
    return "embedding" if "embed" in path else "rerank" if "rerank" in path else "generation"


def _is_generation(entry: dict[str, Any]) -> bool:
    """True for a path whose answers tell their tokens."""
    path = str(entry.get("req_path") or "")
    return any(word in path for word in ("completion", "messages", "responses", "infill"))


FORMAT = Format(
    engine=_ENGINE,
    title="llama-swap (list of requests, loads in its log)",
    versions="v140 (2025-07) and newer",
    grain="request",
    identify=(b'"duration_ms":', b"> Health check passed on ", b"> Unloading model, TTL "),
    lines=LINES,
    reader=SwapReader,
    splits="prefill, decode of llama-server's answers; the total",
    documents=(
        Document(
            name="llama-swap list of requests",
            detect=lambda head: is_spread(
                head, "duration_ms", "tokens_per_second", "input_tokens", "timestamp"
            ),
            rows=_rows,
        ),
    ),
    ends=("failed",),
)
