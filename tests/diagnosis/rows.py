"""Made requests for the properties: what an engine could have logged, at any size."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from rules.testing import measures

if TYPE_CHECKING:
    from rules.measures import Measures

STARTED = datetime(2026, 8, 20, 18, 0, 0, tzinfo=UTC)

Row = dict[str, Any]

TIMES = ("prefill_ms", "decode_ms", "load_ms", "queue_ms")

RTX_4090 = {
    "model": "m.gguf",
    "quantization": "Q4_K - Medium",
    "parameters": 8_030_000_000,
    "weights_bytes": 4_917_000_000,
    "gpu_weights_bytes": 4_617_000_000,
    "layers": 32,
    "layers_offloaded": 33,
    "layers_offloadable": 33,
    "kv_heads": 8,
    "head_dim_k": 128,
    "head_dim_v": 128,
    "context": 32_768,
    "context_total": 32_768,
    "slots": 1,
    "kv_bytes": 4 << 30,
    "kv_bytes_per_token": 131_072.0,
    "kv_type_k": "f16",
    "kv_type_v": "f16",
    "ubatch": 512,
    "batch": 2048,
    "os": "linux",
}


@dataclass(frozen=True, slots=True)
class Made:
    """Requests one after the other, and what the log says of the process; pauses are before each request."""

    rows: tuple[Row, ...]
    pauses_ms: tuple[float, ...]
    setup: dict[str, Any] | None = None

    @property
    def measures(self) -> Measures:
        """As the rules see them: each row timed by the process's own clock and by the wall's."""
        now_ms = 0.0
        timed: list[Row] = []
        for row, pause_ms in zip(self.rows, self.pauses_ms, strict=True):
            now_ms += pause_ms
            start_ms = now_ms
            now_ms += sum(row.get(name) or 0.0 for name in TIMES)
            timed.append(
                {
                    **row,
                    "clock_start_ms": start_ms,
                    "clock_end_ms": now_ms,
                    "started_at": STARTED + timedelta(milliseconds=start_ms),
                    "finished_at": STARTED + timedelta(milliseconds=now_ms),
                    "first_line": len(timed) + 1,
                    "request_id": str(len(timed)),
                }
            )
        return measures(timed, setup=self.setup)

    def slower(self, factor: float) -> Made:
        """All times longer, the pauses too."""
        rows = [{**row, **{n: row[n] * factor for n in TIMES if row.get(n) is not None}} for row in self.rows]
        return replace(self, rows=tuple(rows), pauses_ms=tuple(pause * factor for pause in self.pauses_ms))

    def idle(self, before: int, ms: float) -> Made:
        """One pause is longer."""
        pauses = [pause + ms * (i == before) for i, pause in enumerate(self.pauses_ms)]
        return replace(self, pauses_ms=tuple(pauses))

    def renamed(self, name: str) -> Made:
        """Another model name wherever there is one."""
        setup = self.setup and {**self.setup, "model": name}
        return replace(self, rows=tuple({**row, "model": name} for row in self.rows), setup=setup)


@st.composite
def any_requests(draw: st.DrawFn) -> Made:
    """Requests of no particular kind."""
    count = draw(st.integers(3, 14))
    prefill_tok_s, ms_per_token = draw(st.floats(30, 8_000)), draw(st.floats(2, 400))
    knows_cache, loads = draw(st.booleans()), draw(st.booleans())
    rows = []
    for _ in range(count):
        prompt, output = draw(st.integers(20, 20_000)), draw(st.integers(1, 1_500))
        cached = draw(st.integers(0, prompt - 1)) if knows_cache else None
        evaluated = prompt - (cached or 0)
        row: Row = {
            "prompt_tokens": prompt,
            "cached_tokens": cached,
            "prefill_tokens": evaluated if knows_cache else None,
            "prefill_ms": 1000 * evaluated / prefill_tok_s * draw(st.floats(0.8, 1.3)),
            "output_tokens": output,
            "decode_ms": max(output - 1, 1) * ms_per_token * draw(st.floats(0.8, 1.3)),
            "slot": draw(st.integers(0, 1)),
            "model": "m.gguf",
        }
        if loads:
            row["load_ms"] = draw(st.sampled_from([0.0, 40.0, 4_000.0, 20_000.0]))
        rows.append(row)
    setup = draw(st.sampled_from([None, RTX_4090, {**RTX_4090, "layers_offloaded": 20}]))
    return Made(tuple(rows), _pauses(draw, count), setup)


@st.composite
def telling_requests(draw: st.DrawFn) -> Made:
    """Requests with something to say: a history that is read again, long prompts, long answers, or loads."""
    count = draw(st.integers(8, 16))
    prefill_tok_s, ms_per_token = draw(st.floats(100, 400)), draw(st.floats(20, 80))
    kind = draw(st.sampled_from(["history", "chunks", "answers", "loads"]))
    size = draw(st.integers(2_000, 6_000))
    rows = []
    for i in range(count):
        output = draw(st.integers(700, 1_200)) if kind == "answers" else draw(st.integers(60, 100))
        prompt = {"history": size + 300 * i, "chunks": size + 17 * (i * 7 % 5)}.get(
            kind, 400 + 13 * (i * 5 % 7)
        )
        cached = 0 if i == 0 else 40
        rows.append(
            {
                "prompt_tokens": prompt,
                "cached_tokens": cached,
                "prefill_ms": 1000 * (prompt - cached) / prefill_tok_s * draw(st.floats(0.95, 1.05)),
                "output_tokens": output,
                "decode_ms": (output - 1) * ms_per_token * draw(st.floats(0.95, 1.05)),
                "load_ms": draw(st.floats(5_000, 9_000)) if kind == "loads" else 0.0,
                "slot": 0,
                "model": "m.gguf",
            }
        )
    return Made(tuple(rows), _pauses(draw, count))


def _pauses(draw: st.DrawFn, count: int) -> tuple[float, ...]:
    return tuple(draw(st.floats(2_000, 60_000)) for _ in range(count))
