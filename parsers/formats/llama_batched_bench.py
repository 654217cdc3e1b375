"""llama-batched-bench: one row for each number of sequences that are evaluated and decoded at once.

Its times are those of the whole batch: tokens count over all sequences, so a rate is the machine's, not one
request's. They are printed as seconds with three digits, in JSON Lines (`--output-format jsonl`) with six.
"""

from __future__ import annotations

import re

from parsers.formats.base import At, Format, Reader, line
from parsers.formats.llama_cpp import HEAD
from parsers.formats.rates import seconds_ms
from parsers.records import Request

_ENGINE = "llama-batched-bench"


def _field(key: bytes, name: bytes, pattern: bytes) -> bytes:
    return rb'(?=.*[{ ]"' + key + rb'": (?P<' + name + rb">" + pattern + rb")[,}])"


_NUMBER = rb"\d+(?:\.\d+)?"

LINES = (
    line(
        "settings",
        b": n_kv_max = ",
        HEAD + rb"(?:main|llama_batched_bench): n_kv_max = (?P<context>\d+), (?P<rest>.*)",
    ),
    line("head", b"| S_PP t/s |", rb"\| +PP \| +TG \| +B \| +N_KV \| +T_PP s \| S_PP t/s \|"),
    line(
        "result",
        b" | ",
        rb"\| *(?P<prompt>\d+) \| *(?P<output>\d+) \| *(?P<sequences>\d+) \| *(?P<kv>\d+) \|"
        rb" *(?P<prefill_s>\d+\.\d{3}) \| *\S+ \| *(?P<decode_s>\d+\.\d{3}) \| *\S+ \|"
        rb" *(?P<total_s>\d+\.\d{3}) \| *\S+ \|\s*$",
    ),
    line(
        "result",
        b'"n_kv_max": ',
        rb'\{"n_kv_max": '
        + _field(b"pp", b"prompt", rb"\d+")
        + _field(b"tg", b"output", rb"\d+")
        + _field(b"pl", b"sequences", rb"\d+")
        + _field(b"n_kv", b"kv", rb"\d+")
        + _field(b"t_pp", b"prefill_s", _NUMBER)
        + _field(b"t_tg", b"decode_s", _NUMBER)
        + _field(b"t", b"total_s", _NUMBER),
    ),
)

_SETTING = re.compile(rb"\b(\w+) = (-?\d+)")
_SWITCH = {b"0": False, b"1": True}


class BatchedBenchReader(Reader):
    """Each line is a row."""

    engine = _ENGINE

    def settings(self, m: re.Match[bytes], at: At) -> None:
        """``llama_batched_bench: n_kv_max = 6144, n_batch = 2048, n_ubatch = 512, flash_attn = 1, ...``."""
        found = dict(_SETTING.findall(m["rest"]))
        counts = {"batch": b"n_batch", "ubatch": b"n_ubatch", "threads": b"n_threads"}
        self.process.learn(
            at,
            context_total=int(m["context"]),
            flash_attention=_SWITCH.get(found.get(b"flash_attn", b"")),
            **{name: int(found[key]) for name, key in counts.items() if key in found},
        )

    def head(self, m: re.Match[bytes], at: At) -> None:
        """The table begins: it says who logged, no more."""
        self.process.setup.engine = self.process.setup.engine or _ENGINE

    def result(self, m: re.Match[bytes], at: At) -> None:
        """``| 512 | 128 | 4 | 2560 | 6.166 | 332.15 | 9.619 | 53.23 | 15.785 | 162.18 |``.

        The cache holds every prompt once, or one that all sequences share: so it tells what was evaluated.
        """
        output = int(m["output"]) * int(m["sequences"])
        prompt = int(m["kv"]) - output
        if prompt not in (int(m["prompt"]), int(m["prompt"]) * int(m["sequences"])):
            return
        self.process.emit(
            Request(
                line=at.number,
                engine=_ENGINE,
                prompt_tokens=prompt or None,
                prefill_tokens=prompt or None,
                prefill_ms=seconds_ms(m["prefill_s"]) if prompt else None,
                output_tokens=output or None,
                decode_ms=seconds_ms(m["decode_s"]) if output else None,
                decode_steps=output or None,
                total_ms=seconds_ms(m["total_s"]),
                context_tokens=int(m["kv"]),
                kind="benchmark",
                first_line=at.number,
                offset=at.offset,
            )
        )


FORMAT = Format(
    engine=_ENGINE,
    title="llama-batched-bench (table, JSON Lines)",
    versions="all",
    grain="request",
    identify=(b": n_kv_max = ", b"| S_PP t/s |", b'"n_kv_max": '),
    lines=LINES,
    reader=BatchedBenchReader,
    splits="prefill, decode of the whole batch",
)
