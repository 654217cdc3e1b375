"""ik_llama.cpp's llama-sweep-bench: one row for each depth of the context.

At each depth it decodes `TG` tokens, and then evaluates `PP` tokens, in seconds with three digits, in JSON
Lines with six. `N_KV` is what the context holds before either. Libllama's timing block at the end sums up
all of it, so it is no request.

Read in ik_llama.cpp of 2026-08-15 (8337e4c); the columns of `--sweep-memory` may follow.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from parsers.formats.base import At, Format, Reader, line
from parsers.formats.llama_cpp import HEAD
from parsers.formats.rates import seconds_ms
from parsers.records import Request

if TYPE_CHECKING:
    from parsers.formats.process import Process

_ENGINE = "llama-sweep-bench"
_BLOCK_ENGINE = "llama-cli"
_SECONDS = rb" *(?P<%b>\d+\.\d{3}) \| *\S+ \|"


def _field(key: bytes, name: bytes, pattern: bytes) -> bytes:
    return rb'(?=.*[{ ]"' + key + rb'": (?P<' + name + rb">" + pattern + rb")[,} ])"


LINES = (
    line(
        "settings",
        b": n_kv_max = ",
        HEAD + rb"main: n_kv_max = (?P<context>\d+), n_batch = \d+, n_ubatch = \d+, flash_attn = \d+, "
        rb"n_gpu_layers = -?\d+, n_threads = ",
        b"flash_attn = ",
    ),
    line(
        "head",
        b" |   N_KV |   T_PP s | S_PP t/s |   T_TG s | S_TG t/s |",
        rb"\| +PP \| +TG \| +N_KV \| +T_PP s \|",
    ),
    line(
        "result",
        b" | ",
        rb"\| *(?P<prompt>\d+) \| *(?P<output>\d+) \| *(?P<depth>\d+) \|"
        + _SECONDS % b"prefill_s"
        + _SECONDS % b"decode_s"
        + rb"(?: *[^|]{1,20} \| *[^|]{1,20} \|)?\s*$",
    ),
    line(
        "result",
        b'"n_kv_max": ',
        rb'(?!.*"pl": )\{"n_kv_max": '
        + _field(b"pp", b"prompt", rb"\d+")
        + _field(b"tg", b"output", rb"\d+")
        + _field(b"n_kv", b"depth", rb"\d+")
        + _field(b"t_pp", b"prefill_s", rb"\d+\.\d+")
        + _field(b"t_tg", b"decode_s", rb"\d+\.\d+"),
    ),
)

_SETTING = re.compile(rb"\b(\w+) = (-?\d+)")
_SWITCH = {b"0": False, b"1": True}


class SweepReader(Reader):
    """Each line is a row."""

    engine = _ENGINE

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._table = False

    def _begin(self) -> None:
        self._table = True
        self.process.setup.engine = self.process.setup.engine or _ENGINE
        if self.process.on_request is None:
            self.process.on_request = self._take

    def _take(self, row: Request) -> None:
        """The block at the end tells of the whole sweep again."""
        if row.engine != _BLOCK_ENGINE:
            self.process.release(row)

    def settings(self, m: re.Match[bytes], at: At) -> None:
        """``main: n_kv_max = 8192, n_batch = 2048, n_ubatch = 512, flash_attn = 1, ...``."""
        found = dict(_SETTING.findall(m[0] + at.body[m.end() :]))
        counts = {
            "context_total": b"n_kv_max",
            "batch": b"n_batch",
            "ubatch": b"n_ubatch",
            "threads": b"n_threads",
            "threads_batch": b"n_threads_batch",
        }
        self.process.learn(
            at,
            flash_attention=_SWITCH.get(found.get(b"flash_attn", b"")),
            **{name: int(found[key]) for name, key in counts.items() if key in found},
        )
        self._begin()

    def head(self, m: re.Match[bytes], at: At) -> None:
        """The table begins."""
        self._begin()

    def result(self, m: re.Match[bytes], at: At) -> None:
        """``|   512 |    128 |   4096 |    0.830 |   616.87 |    3.215 |    39.81 |``."""
        if not self._table:
            self._begin()
        prompt, output, depth = int(m["prompt"]), int(m["output"]), int(m["depth"])
        self.process.emit(
            Request(
                line=at.number,
                engine=_ENGINE,
                request_id=f"pp{prompt}+tg{output} @ d{depth}",
                prefill_tokens=prompt or None,
                prefill_ms=seconds_ms(m["prefill_s"]) if prompt else None,
                output_tokens=output or None,
                decode_ms=seconds_ms(m["decode_s"]) if output else None,
                decode_steps=output or None,
                context_tokens=depth + max(prompt, output),
                kind="benchmark",
                first_line=at.number,
                offset=at.offset,
            )
        )


FORMAT = Format(
    engine=_ENGINE,
    title="llama-sweep-bench of ik_llama.cpp (table, JSON Lines)",
    versions="all",
    grain="request",
    identify=(b": n_kv_max = ", b" |   N_KV |   T_PP s | S_PP t/s |   T_TG s | S_TG t/s |", b'"n_kv_max": '),
    lines=LINES,
    reader=SweepReader,
    splits="prefill and decode of a depth",
)
