"""The timing block that libllama prints of one context: four names over the years, one shape.

- `llama_print_timings:` b144 to b3680; `tokens per second` in it since b710
- `llama_perf_print:` a few days around b3681
- `llama_perf_context_print:` since b3750
- `common_perf_print:` since 2025-11, in llama.cpp's own programs only

What libllama books where: a call that evaluates one token is *eval*, a call with more is *prompt eval*,
whatever the token was. So the last token of a prompt is booked as eval when it is alone in its batch. Both
counts are printed as at least 1: `0.00 ms / 1 ...` means that nothing was booked. The `load time` runs
until the end of the first evaluation, so it is no load time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from parsers.formats.base import Reader, integer, line, number
from parsers.formats.llama_cpp import HEAD
from parsers.formats.rates import fits
from parsers.records import Request

if TYPE_CHECKING:
    import re

    from parsers.formats.base import At, Line
    from parsers.formats.process import Process

_SAMPLING = b"llama_print_timings"
_PHASES = b"prompt eval", b"eval"
_HALF_A_DIGIT_MS = 0.0051
_ROUNDING, _ROUNDING_MS = 1.02, 10.0
_RATE = (
    rb"(?: +\( *[\d.,]+ ms per (?:token|run), +(?P<rate>\d+[.,]\d\d) tokens per second"
    rb"| +\( *(?P<each>\d+[.,]\d\d) ms per (?:token|run)\))?"
)
_SMALLEST_BATCH = 32
"""Of all batches in use the others are multiples: where the log doesn't give it, any of them may be it."""

# A prefill against the block's decode step: first what is impossible, then what is unlikely. Honest GPUs
# reach 200 tokens for the time of a step; busy cores that slow the steps more than the prefill, 80.
_PASS_SHARE = 0.02
_UNLIKELY_PASS_SHARE = 0.4
_TIMES_CHEAPER = 1000.0
_UNLIKELY_TIMES_CHEAPER = 200.0
# A prefill against what the block's total leaves for it: confirmed, contradicted, and contradicted where no
# step is known.
_REST_FILLED = 0.5
_REST_SHARE = 0.1
_REST_SHARE_ALONE = 0.01


def block_lines(names: bytes) -> tuple[Line, ...]:
    """The lines of the block under any of these names (`a|b`)."""
    return tuple(
        line(
            "timing",
            needle,
            rb" *" + HEAD + rb"(?P<name>" + names + rb"): +(?P<what>" + what + rb") time = +"
            rb"(?P<ms>\d+[.,]\d+) ms(?: +/ +(?P<count>\d+) (?:tokens|runs)" + _RATE + rb")?",
            b"_print",
        )
        for needle, what in (
            (b"eval time = ", rb"(?:prompt )?eval"),
            (b"total time = ", rb"total"),
            (b"sample time = ", rb"sample"),
        )
    )


@dataclass(slots=True)
class Block:
    """One timing block.

    Attributes:
        start: its first line that is read.
        end: its line `total time`.
        name: what its lines begin with.
        parts: milliseconds and count by the name of the line; `total` may have no count.
        false: lines whose own rate contradicts them, or all if the parts exceed the total.
        rated: true if it prints tokens per second, so if it is from June 2023 or later.
    """

    start: At
    end: At
    name: bytes
    parts: dict[bytes, tuple[float, int | None]] = field(default_factory=dict)
    false: set[bytes] = field(default_factory=set)
    rated: bool = False

    @property
    def samples(self) -> bool:
        """Whether such a block prints how many tokens were sampled."""
        return self.name == _SAMPLING

    @property
    def whole(self) -> bool:
        """True if no line is missing."""
        return all(self.parts.get(what, (0.0, None))[1] is not None for what in (b"prompt eval", b"eval"))

    def booked(self, what: bytes) -> tuple[float, int] | None:
        """Milliseconds and count of a line; ``None`` if there is none, it is false, or nothing was booked."""
        ms, count = self.parts.get(what, (0.0, None))
        return None if count is None or what in self.false or (ms == 0 and count <= 1) else (ms, count)

    @property
    def evaluated(self) -> int:
        """Prompt tokens booked as prompt eval."""
        booked = self.booked(b"prompt eval")
        return booked[1] if booked else 0

    @property
    def prefill_ms(self) -> float | None:
        """Milliseconds booked as prompt eval, as printed; ``None`` if nothing was booked."""
        booked = self.booked(b"prompt eval")
        return booked[0] if booked else None

    @property
    def steps(self) -> int | None:
        """Calls booked as eval; ``None`` if there was none, or none was measured."""
        booked = self.booked(b"eval")
        return booked[1] if booked else None

    @property
    def decode_ms(self) -> float | None:
        """Milliseconds booked as eval; ``None`` if nothing was measured."""
        booked = self.booked(b"eval")
        return booked[0] if booked and booked[0] > 0 else None

    @property
    def total_ms(self) -> float:
        """From the last reset of the counters to the print, whatever happened in between."""
        return self.parts[b"total"][0]

    def check(self, what: bytes, count: int | None, m: re.Match[bytes]) -> None:
        """Whether the line's own rate says something else than its time and count."""
        ms, _ = self.parts[what]
        if count is None:
            return
        if m["rate"] is not None:
            true = fits(count, ms, m["rate"].replace(b",", b"."))
        else:
            each = number(m["each"] and m["each"].replace(b",", b"."))
            true = each is None or abs(each * count - ms) <= (count + 1) * _HALF_A_DIGIT_MS
        if not true:
            self.false.add(what)

    def check_total(self) -> None:
        """Whether the total, which holds both phases and more, has room for them."""
        phases_ms = sum(self.parts[what][0] for what in _PHASES)
        if not self.false and phases_ms > self.total_ms * _ROUNDING + _ROUNDING_MS:
            self.false |= {*_PHASES, b"total"}

    def generated(self, expected: int | None, batch: int | None) -> int | None:
        """Tokens sampled.

        The first one comes from the evaluation of the prompt and costs no step, unless the prompt's last
        token was booked as a step itself.

        Args:
            expected: prompt tokens that had to be evaluated, if the log says so.
            batch: `n_batch`, if the log says so: the prompt is evaluated in pieces of it.
        """
        sampled = self.booked(b"sample")
        if not self.false.isdisjoint(_PHASES):
            return None
        if self.steps is None:
            alone = self.evaluated == expected or (sampled is not None and sampled[1] == 1)
            return 1 if alone and self.prefill_ms else None
        if expected is not None:
            return self.steps + (self.evaluated == expected)
        if not self.evaluated:
            return self.steps
        if sampled:
            return sampled[1] if sampled[1] - self.steps in (0, 1) else None
        if self.samples or self.evaluated % (batch or _SMALLEST_BATCH) == 0:
            return None
        return self.steps + 1

    def request(self, engine: str) -> Request:
        """A row with what the block alone says: counts, and the time of the steps."""
        return Request(
            line=self.end.number,
            engine=engine,
            finished_at=self.end.time,
            prefill_tokens=self.evaluated or (None if self.steps is None or _PHASES[0] in self.false else 1),
            prefill_ms=self.prefill_ms,
            decode_ms=self.decode_ms,
            decode_steps=None if self.decode_ms is None else self.steps,
            first_line=self.start.number,
            offset=self.start.offset,
        )


def is_possible(prefill_ms: float, tokens: int, step_ms: float | None, rest_ms: float | None = None) -> bool:
    """Whether a printed prefill time can be true.

    Some builds read the clock before the work is done (`0.24 ms / 457 tokens` where the client waited
    5.8 s). What holds on any machine: a prefill reads all weights at least once, as a decode step does, so
    it can't take a small part of a step; and one of its tokens can't be a thousand times cheaper than a
    step. What is only unlikely is believed unless the block's own total contradicts it, and a prefill that
    fills the time which the total leaves for it is believed in any case.

    Args:
        prefill_ms: as printed.
        tokens: evaluated in that time.
        step_ms: the block's decode time per step, if known.
        rest_ms: total minus decode, where that is the prefill and little else; else ``None``.
    """
    if prefill_ms <= 0:
        return False
    if rest_ms is not None and prefill_ms >= rest_ms * _REST_FILLED:
        return True
    if step_ms is None:
        return rest_ms is None or prefill_ms >= rest_ms * _REST_SHARE_ALONE
    if prefill_ms < step_ms * max(_PASS_SHARE, tokens / _TIMES_CHEAPER):
        return False
    unlikely = prefill_ms < step_ms * max(_UNLIKELY_PASS_SHARE, tokens / _UNLIKELY_TIMES_CHEAPER)
    return not (unlikely and rest_ms is not None and prefill_ms < rest_ms * _REST_SHARE)


class BlockReader(Reader, ABC):
    """Joins the lines of a block; what a block means is up to the program that printed it."""

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._block: Block | None = None

    def timing(self, m: re.Match[bytes], at: At) -> None:
        """A line of a block. One that the block already has begins the next."""
        block, what = self._block, m["what"]
        if block is None or what in block.parts or m["name"] != block.name:
            self._drop_block()
            block = self._block = Block(at, at, m["name"])
        count = integer(m["count"])
        block.parts[what] = number(m["ms"].replace(b",", b".")) or 0.0, count
        block.check(what, count, m)
        block.rated = block.rated or b" per second" in at.body
        if what == b"total":
            block.end, self._block = at, None
            if block.whole:
                block.check_total()
                self.process.counts.impossible_values += bool(block.false)
                self.finished(block)
            else:
                self.process.counts.incomplete_requests += 1

    @abstractmethod
    def finished(self, block: Block) -> None:
        """A block is whole."""

    def noted(self, m: re.Match[bytes], at: At) -> None:
        """A line that only this program prints: it says who logged, no more."""
        self.process.setup.engine = self.process.setup.engine or self.process.name_of(self.engine)

    def _drop_block(self) -> None:
        if self._block is not None:
            self.process.counts.incomplete_requests += 1
            self._block = None

    def close(self) -> None:
        """The source or the process ends here."""
        self._drop_block()

    def _check_times(self, row: Request, block: Block, rest_ms: float | None = None) -> None:
        """Take back a prefill time that can't be true; count what can't be, once for a block."""
        step_ms = row.decode_ms / row.decode_steps if row.decode_ms and row.decode_steps else None
        impossible = block.steps is not None and block.decode_ms is None
        if row.prefill_ms is not None and not is_possible(row.prefill_ms, block.evaluated, step_ms, rest_ms):
            row.prefill_ms = None
            impossible = True
        self.process.counts.impossible_values += impossible
