"""What llama-server says of itself, and which lines are its own: its log quotes prompts and answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parsers.formats.base import At, Reader
from parsers.formats.llama_cpp import clock_ms
from parsers.formats.llama_server.failures import CAUSES
from parsers.formats.llama_server.task import ENGINE
from parsers.formats.rates import fits
from parsers.quotes import LONGEST_TEXT

if TYPE_CHECKING:
    import re

    from parsers.formats.llama_server.task import Phase
    from parsers.formats.process import Process

SAME_RUN_CLOCK_SLACK_MS = 1_000.0

_FAMILY = ENGINE, "ik-llama"
"""Where lines have a clock the model's header has one too; where they have none, a text may quote it."""

NOT_LOADED = "the model could not be loaded"


class OwnLines(Reader):
    """The process: its start, its clock, what it prints raw, and how it fails."""

    engine = ENGINE

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._forget()

    def _forget(self) -> None:
        """Start over, as each process does."""
        self._started = False
        self.clock_ms: float | None = None
        self._dump_line: int | None = None
        self._cause: str | None = None

    def started(self, m: re.Match[bytes], at: At) -> None:
        """A new server begins."""
        if self._own(m, at):
            self.process.start(at)
            self._see_clock(m, at)
            self._started = True

    def load_failed(self, m: re.Match[bytes], at: At) -> None:
        """``exiting due to model loading error``."""
        self.process.setup.engine = self.process.name_of(ENGINE)
        why = f": {self._cause}" if self._cause else ""
        self.process.event(ENGINE, at, "error", f"{NOT_LOADED}{why}")

    def cause(self, m: re.Match[bytes], at: At) -> None:
        """The first error of a start names the cause; it counts only if the start then fails."""
        if self._cause is None and self._own(m, at):
            self._cause = CAUSES[m["cause"]]

    def out_of_memory(self, m: re.Match[bytes], at: At) -> None:
        """An allocation failed."""
        self.process.event(ENGINE, at, "out_of_memory", f"could not allocate {m['size'].decode()}")

    def dump(self, m: re.Match[bytes], at: At) -> None:
        """A chat template or an answer follows, raw, on as many lines as it has."""
        self._dump_line = at.own_number
        self.process.quote(at, *_FAMILY, *(("llama.cpp",) if self.process.clocked else ()))

    def dumped(self, m: re.Match[bytes], at: At) -> None:
        """The text is over."""
        self._dump_line = None
        self.process.unquote()

    def thinks(self, m: re.Match[bytes], at: At) -> bool:
        """``chat template, thinking = 1`` follows the template; the model's header takes it."""
        self.dumped(m, at)
        return False

    def _own(self, m: re.Match[bytes], at: At) -> bool:
        """Whether the engine says this itself; text that it prints has no clock and may quote its lines."""
        if m["clock"] is not None:
            if not self.process.clocked:
                self.process.see_clock()
            if self._dump_line is not None:
                self.dumped(m, at)
            return True
        return not self.process.clocked and not self._in_dump(at)

    def _phase(self, m: re.Match[bytes], first: int = 0) -> Phase:
        """What the line says of its phase; builds since b10406 rate a decode without its `first` token."""
        ms, tokens = float(m["ms"]), int(m["tokens"])
        if fits(tokens, ms, m["rate"]) or (first and fits(tokens - first, ms, m["rate"])):
            return ms, tokens
        self.process.counts.impossible_values += 1
        return None, None

    def _in_dump(self, at: At) -> bool:
        return self._dump_line is not None and at.own_number <= self._dump_line + LONGEST_TEXT

    def _see_clock(self, m: re.Match[bytes], at: At) -> float | None:
        """The process's clock in ms; one that goes back is another's, unless a host runs several."""
        now = clock_ms(m["clock"])
        if now is not None:
            back = self.clock_ms is not None and now < self.clock_ms - SAME_RUN_CLOCK_SLACK_MS
            if back and self.process.host is None:
                self.process.restart(at)
            self.process.clocked, self.clock_ms = True, now
        return now
