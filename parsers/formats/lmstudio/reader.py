"""Joins LM Studio's lines to the requests that the engine inside tells of.

The engine's rows become LM Studio's. Its MLX engine prints no times: such a request has what its cache held
and what was answered, and times only where the answer's own statistics give them. An answer in the log of
an engine that told of the request already says nothing new.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from typing import TYPE_CHECKING

from parsers.formats.base import Reader, text
from parsers.formats.clocks import wall_clock
from parsers.formats.lmstudio.fields import Fields
from parsers.formats.lmstudio.models import Asked, Models
from parsers.formats.lmstudio.stats import ENGINE, FAILED, fields_of_body, fill
from parsers.formats.systems import system_of_path
from parsers.records import Request

if TYPE_CHECKING:
    import re
    from datetime import datetime

    from parsers.formats.base import At
    from parsers.formats.process import Process

INSIDE = ("llama-server", "llama-cli")
_BLOCK_ENGINE = "llama-cli"
_MOST_STAMPS = 4096
_UNIFIED = {b"true": True, b"false": False}
_LONGEST_COUNT = 15


class AppReader(Reader):
    """The app's clock, what the cache said of the next request, and the answer that is being printed."""

    engine = ENGINE

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._models = Models(process)
        self._fields = Fields(self._told)
        self._stamps: deque[tuple[int, datetime]] = deque(maxlen=_MOST_STAMPS)
        self._forget()

    def _forget(self) -> None:
        self._reuse: tuple[int, int] | None = None
        self._restored: list[Request] = []
        self._ended: tuple[Asked | None, At, datetime | None] | None = None
        self._left = False

    def _app(self, at: At) -> None:
        """This is the app's own log: the engine's rows in it are its own."""
        process = self.process
        if process.host != ENGINE:
            if process.setup.engine not in (None, ENGINE):
                process.restart(at)
            process.clocked = False
            process.host, process.hosted, process.host_has_clock = ENGINE, frozenset(INSIDE), True
            process.on_request = self._take

    # --- the app's lines

    def stamp(self, m: re.Match[bytes], at: At) -> None:
        """``2026-04-24 18:04:50 [DEBUG]`` alone: the next lines are of this moment."""
        if (now := wall_clock(m["time"], at)) is not None:
            self._stamps.append((at.number, now))

    def noted(self, m: re.Match[bytes], at: At) -> None:
        """A line that only LM Studio prints: it says who logged, no more."""
        self._app(at)
        self.process.setup.engine = self.process.setup.engine or ENGINE

    def texted(self, m: re.Match[bytes], at: At) -> None:
        """``type: llm.prediction.input`` of ``lms log stream``: a prompt or an answer follows, many lines."""
        self.process.quote(at, ENGINE)

    def stamped(self, m: re.Match[bytes], at: At) -> None:
        """``timestamp: 5/2/2024, 9:49:47 PM``: the next record begins."""
        self.process.unquote()

    def running(self, m: re.Match[bytes], at: At) -> None:
        """``[qwen/qwen3-vl-4b] Running chat completion on conversation with 2 messages.``."""
        self.noted(m, at)
        self._models.ask(m["model"], self._time(at))

    def left(self, m: re.Match[bytes], at: At) -> None:
        """``Client disconnected. Stopping generation...``: what the engine tells next is what was done."""
        self._left = True

    def answered(self, m: re.Match[bytes], at: At) -> None:
        """``[qwen/qwen3-vl-4b] Finished streaming response``."""
        self._end(m, at)
        self._release_restored({})

    def predicted(self, m: re.Match[bytes], at: At) -> None:
        """``[qwen/qwen3-vl-4b] Generated prediction:  {``: the answer follows, printed over many lines."""
        self._end(m, at)

    def _end(self, m: re.Match[bytes], at: At) -> None:
        self._fields.flush()
        self._release_restored({})
        self._ended = self._models.end(m["model"]), at, self._time(at)
        self._left = False

    def loading(self, m: re.Match[bytes], at: At) -> None:
        """``LlamaV4::load called with model path: /models/x.gguf``: another model, beside those loaded."""
        self._app(at)
        self.process.restart(at, beside=True)
        path = text(m["path"])
        self.process.learn(at, model=path, os=system_of_path(path))
        self.process.setup.engine = ENGINE
        self._models.load()
        name = (path or "").replace("\\", "/").rpartition("/")[2]
        self.process.event(ENGINE, at._replace(time=self._time(at)), "model_load", name)

    def load_config(self, m: re.Match[bytes], at: At) -> None:
        """``LlamaV4::load config: n_parallel=4 n_ctx=16384 kv_unified=true``."""
        self.process.learn(
            at,
            slots=int(m["slots"]),
            context_total=int(m["context"]),
            kv_unified=_UNIFIED.get(m["unified"] or b""),
        )

    def settings(self, m: re.Match[bytes], at: At) -> None:
        """``Generate: n_ctx = 4096, n_batch = 512, n_predict = 2048, n_keep = 433`` (0.3)."""
        self._app(at)
        self.process.learn(at, context=int(m["context"]), batch=int(m["batch"]))

    # --- what is cached

    def reuse(self, m: re.Match[bytes], at: At) -> None:
        """``Cache reuse summary: 60/433 of prompt (13.8568%), 60 prefix, 0 non-prefix`` (0.3)."""
        self._app(at)
        self._reuse = int(m["prompt"]), -1

    def to_decode(self, m: re.Match[bytes], at: At) -> None:
        """``Prompt tokens to decode: 373``: a prompt that is cached whole decodes its last token again."""
        if self._reuse is not None and int(m["tokens"]) <= self._reuse[0]:
            self._reuse = self._reuse[0], int(m["tokens"])

    def restored(self, m: re.Match[bytes], at: At) -> None:
        """``Prompt cache restore: cached_tokens=256 uncached_tokens=101``: all but the last token."""
        self._app(at)
        row = Request(line=at.number, engine=ENGINE, first_line=at.number, offset=at.offset)
        row.cached_tokens, row.prefill_tokens = int(m["cached"]), int(m["uncached"]) + 1
        row.prompt_tokens = row.cached_tokens + row.prefill_tokens
        self._restored.append(row)

    # --- rows

    def _take(self, row: Request) -> None:
        """A request of the engine inside; a block's steps are the tokens that usage counts."""
        asked = self._models.only
        if row.engine not in INSIDE:
            self.process.release(row)
            return
        if row.engine == _BLOCK_ENGINE:
            self._add_reuse(row)
            row.output_tokens = row.decode_steps or row.output_tokens
        row.started_at = row.started_at or (asked and asked.time) or self._stamp_before(row.first_line)
        row.finished_at = row.finished_at or self._stamp_before(row.line)
        if self._left and asked is not None and row.finish_reason is None:
            row.finish_reason = "abort"
        self._models.release(row, asked)

    def _add_reuse(self, row: Request) -> None:
        """The prompt's cached part, if what was left of it is what the engine evaluated."""
        reuse, self._reuse = self._reuse, None
        if reuse is not None and reuse[1] == row.prefill_tokens:
            row.prompt_tokens, row.cached_tokens = reuse[0], reuse[0] - reuse[1]

    def body(self, m: re.Match[bytes], at: At) -> bool:
        """An answer of the REST API or an event of ``lms log stream --json`` on one line."""
        if self.process.host == ENGINE:
            return True
        if (found := fields_of_body(m["body"])) is None:
            return False
        fields, model, asked_at = found
        row = Request(line=at.number, engine=ENGINE, first_line=at.number, offset=at.offset)
        row.model, row.started_at = model, asked_at
        self._emit_told(row, fields)
        return True

    def field(self, m: re.Match[bytes], at: At) -> None:
        """One of an answer's statistics on a line of its own."""
        if m["key"] == b"stopReason":
            self.process.unquote()
        self._fields.add(m, at)

    def _told(self, fields: dict[str, str], first: At, last: At) -> None:
        """An answer's statistics; in the app's log only those of the MLX engine say something new."""
        if self.process.host != ENGINE:
            row = Request(line=last.number, engine=ENGINE, first_line=first.number, offset=first.offset)
            self._emit_told(row, fields)
        elif self._ended is not None:
            self._release_restored(fields)

    def _emit_told(self, row: Request, fields: dict[str, str]) -> None:
        if fields.get("reason") in FAILED:
            self.process.counts.failed_requests += 1
        elif fill(row, fields, self.process.counts):
            self.process.emit(row)

    def _release_restored(self, fields: dict[str, str]) -> None:
        """The MLX engine's request, once its answer has ended; of several at once nothing is known."""
        ended, self._ended = self._ended, None
        if ended is None:
            return
        rows = [row for row in self._restored if row.line < ended[1].number]
        if not rows:
            return
        del self._restored[: len(rows)]
        if len(rows) > 1:
            self.process.counts.incomplete_requests += len(rows)
            return
        row, (asked, at, finished_at) = rows[0], ended
        row.line, row.finished_at = at.number, finished_at
        row.started_at = asked.time if asked else None
        prompt, output = fields.get("prompt"), fields.get("output")
        if prompt is not None and prompt != str(row.prompt_tokens):
            row.cached_tokens = row.prefill_tokens = None
            row.prompt_tokens = _count(prompt)
        if not fill(row, fields, self.process.counts) and output:
            row.output_tokens = _count(output)
        self._models.release(row, asked)

    # --- clocks

    def _time(self, at: At) -> datetime | None:
        return at.time or self._stamp_before(at.number)

    def _stamp_before(self, number: int) -> datetime | None:
        """The stamp on a line of its own that a line stands under."""
        place = bisect_left(self._stamps, number, key=lambda stamp: stamp[0])
        return self._stamps[place - 1][1] if place else None

    def flush(self) -> None:
        """Tell what only waited for more of an answer."""
        self._fields.flush()
        self._release_restored({})

    def joined(self) -> None:
        """Another model is loaded; the requests of the others go on."""

    def close(self) -> None:
        """The source or the process ends here."""
        self.flush()
        self.process.counts.incomplete_requests += len(self._restored)
        self._forget()


def _count(printed: str) -> int | None:
    """A count; ``None`` for a text that is none, or more digits than any has."""
    return int(printed) if printed.isdecimal() and len(printed) <= _LONGEST_COUNT else None
