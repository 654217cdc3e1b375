"""Ollama's benchmark (`cmd/bench`): benchstat lines and CSV. Each epoch is a request.

Times are Ollama's own in ns, or ns per token to be multiplied by the count; only `ttft` is the client's.
Until 2026-08 that count was the whole prompt's, with the time of what was not cached; since then
(ollama#17943) it is what was evaluated, with the cached count behind it, and the whole again where that is
not told. Benchstat lines print no count between their two eras, so there a phase has no time. With
``-openai`` the server's own times stand in `prefill` and `generate_server`, after a `generate` that is what
the client saw; a server that tells nothing of its cache has a 0 there. A 0 is also what was not told.

Read in ollama: cmd/bench/bench.go of 0b70048, fb30760 and 2026-09 (ollama#15084). The Markdown table of the
first isn't read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parsers.formats.base import Format, Reader, line
from parsers.records import Request

if TYPE_CHECKING:
    import re

    from parsers.formats.base import At
    from parsers.formats.process import Process

_ENGINE = "ollama-bench"
_TOTAL = "total"
_NS = 1e-6

_CSV = (
    rb"(?P<model>\w[\w.:/@-]*),(?P<step>prefill|generate|generate_server|ttft|load|total),(?P<count>\d{1,15}),"
    rb"(?P<ns>\d{1,19}(?:\.\d\d)?),\d{1,19}(?:\.\d\d)?(?P<has_cached>,(?P<cached>\d{1,15})?)?\s*$"
)

LINES = (
    line(
        "benchstat",
        b"BenchmarkModel/name=",
        rb"BenchmarkModel/name=(?P<model>\w[\w.:/@-]*?)(?:/step=(?P<step>[a-z_]+))? (?P<count>\d{1,15}) "
        rb"(?P<ns>\d{1,19}(?:\.\d\d)?) ns/(?P<of>token|op|request)(?: \d{1,19}(?:\.\d\d)? token/sec)?"
        rb"(?: (?P<evaluated>\d{1,15}) processed-prompt-token)?"
        rb"(?: (?P<cached>\d{1,15}) cached-prompt-token)?\s*$",
    ),
    *(
        line("csv", needle, _CSV)
        for needle in (b",prefill,", b",generate,", b",generate_server,", b",ttft,", b",load,", b",total,")
    ),
    line(
        "info",
        b" | Params: ",
        rb"# Model: (?P<model>\S+) \| Params: \S+ \| Quant: (?P<quantization>\S+) \| Family: (?P<family>\S+)"
        rb"(?: \| Size: \d+ \| VRAM: \d+)?(?: \| NumCtx: (?P<context>\d{1,9}))?\s*$",
    ),
)


class BenchReader(Reader):
    """The epoch that is open."""

    engine = _ENGINE

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._row: Request | None = None
        self._steps: dict[str, tuple[int | None, float | None]] = {}
        self._cached: int | None = None
        self._is_whole = True

    def info(self, m: re.Match[bytes], at: At) -> None:
        """``# Model: gemma3 | Params: 4.3B | Quant: Q4_K_M | Family: gemma3 | Size: ... | NumCtx: 4096``."""
        names = {key: m[key].decode("utf-8", "replace") for key in ("model", "quantization", "family")}
        known = {key: None if name == "unknown" else name for key, name in names.items()}
        if self.process.setup.model not in (None, known["model"]):
            self.process.restart(at)
        self.process.learn(
            at,
            engine=_ENGINE,
            model=known["model"],
            quantization=known["quantization"],
            architecture=known["family"],
            context=int(m["context"]) if m["context"] else None,
        )

    def benchstat(self, m: re.Match[bytes], at: At) -> None:
        """``BenchmarkModel/name=gemma3/step=prefill 1 78125.00 ns/token 12800.00 token/sec``."""
        step = (m["step"] or b"total").decode()
        count = m["evaluated"] or (m["count"] if m["count"] != b"1" else None)
        self._step(m, at, step, None if count is None else int(count), m["evaluated"] is None)

    def csv(self, m: re.Match[bytes], at: At) -> None:
        """``gemma3,prefill,128,78125.00,12800.00,0``."""
        self._step(m, at, m["step"].decode(), int(m["count"]), m["has_cached"] is None)

    def _step(self, m: re.Match[bytes], at: At, step: str, count: int | None, is_whole: bool) -> None:
        model = m["model"].decode("utf-8", "replace")
        if self._row is not None and (step in self._steps or self._row.model != model):
            self.close()
        if self._row is None:
            self._row = Request(
                line=at.number, engine=_ENGINE, model=model, first_line=at.number, offset=at.offset
            )
        per_token = step.startswith(("prefill", "generate"))
        ms = float(m["ns"]) * ((count or 0) if per_token else 1) * _NS
        self._steps[step] = count, round(ms, 3 if per_token else 6) or None
        if step == "prefill":
            self._cached, self._is_whole = int(m["cached"]) if m["cached"] else None, is_whole
        if step == _TOTAL:
            self._emit(self._row, at)

    def _emit(self, row: Request, at: At) -> None:
        nothing = (None, None)
        row.line = at.number
        count, row.prefill_ms = self._steps.get("prefill", nothing)
        through_openai = self._is_through_openai()
        cached = self._cached or (None if through_openai else self._cached)
        if self._is_whole or cached is None:
            row.prompt_tokens = count or None
        elif count is not None:
            row.prompt_tokens, row.cached_tokens, row.prefill_tokens = count + cached, cached, count
        decode = "generate_server" if through_openai else "generate"
        output, row.decode_ms = self._steps.get(decode, nothing)
        row.output_tokens = output or None
        row.decode_steps = output - 1 if output else None
        row.load_ms, row.total_ms = (self._steps.get(step, nothing)[1] for step in ("load", _TOTAL))
        row.ttft_ms = self._steps.get("ttft", nothing)[1]
        row.ttft_from = "arrival" if row.ttft_ms else None
        self._clear()
        self.process.emit(row)

    def _is_through_openai(self) -> bool:
        steps = [step for step in self._steps if step in ("prefill", "generate", "generate_server")]
        return "generate_server" in steps or steps[:1] == ["generate"]

    def _clear(self) -> None:
        self._row, self._cached, self._is_whole = None, None, True
        self._steps.clear()

    def close(self) -> None:
        """An epoch that is open lost its end."""
        if self._row is not None:
            self.process.counts.incomplete_requests += 1
            self._clear()


FORMAT = Format(
    engine=_ENGINE,
    title="Ollama's benchmark (cmd/bench: benchstat, CSV)",
    versions="2025-11 and newer",
    grain="request",
    identify=(b"BenchmarkModel/name=", b" | Params: ", b"NAME,STEP,COUNT,NS_PER_COUNT,TOKEN_PER_SEC"),
    banner=rb"NAME,STEP,COUNT,",
    lines=LINES,
    reader=BenchReader,
    splits="load, prefill, decode",
)
