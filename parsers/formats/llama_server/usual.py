"""The lines that llama-server prints most, as layouts: all of a block are read at once.

They are those of `lifecycle.py`, `cache.py` and `prefixed.py` in the words of builds since b9230, with the
clock. Every other line, and one of these with a number that is wider than usual, is left to the patterns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from parsers.printed import Layout
from parsers.usual import QUIET

if TYPE_CHECKING:
    from parsers.framing import Framed
    from parsers.printed import Bools, Bytes, Floats, Found, Ints, Values

KINDS = (
    "",
    QUIET,
    "slot_held",
    "least_used",
    "launch",
    "new_prompt",
    "cached",
    "slot_prefill",
    "slot_decode",
    "slot_total",
    "released",
)
"""None of these lines; one that says nothing here; methods of the reader."""

VALUES = {"slot": 0, "task": -1, "tokens": 0, "last": -1, "truncated": 0, "ms": 0.0, "rate": 0.0, "sim": 0.0}
"""What is read of them, in the words of the patterns' groups; where it isn't printed this stands for it."""

_HEAD = Layout("{:d}.{:02d}.{:03d}.{:03d} {:[IWED]} slot {:12s}: id {slot:2d} | task ")
_TASK, _NO_TASK = Layout("{task:d} | "), Layout("-1 | ")
_FUNCTIONS = (
    *("get_availabl", "launch_slot_", "  operator()", "update_slots", "init_sampler", "print_timing"),
    "     release",
)
_BEFORE_TASK = len("launch_slot_: id  3 | task ")
_MOST_MINUTES = 8
_BEHIND_MINUTES = len(".00.000.000 I slot ") + _BEFORE_TASK

_RATE = "{ms:10.2f} ms / {tokens:5d} tokens ({:8.2f} ms per token, {rate:8.2f} tokens per second)"
LINES = (
    (
        "slot_held",
        "selected slot by LCP similarity, f_sim_best = {sim:5.3f} (> {:5.3f} thold), f_keep = {:5.3f}",
    ),
    (
        "slot_held",  # as docker keeps it
        "selected slot by LCP similarity, f_sim_best = {sim:5.3f} (\\u003e {:5.3f} thold), f_keep = {:5.3f}",
    ),
    ("least_used", "selected slot by LRU, t_last = {last:d}"),
    ("least_used", "selected slot by LRU, t_last = -1"),
    ("launch", "processing task, is_child = {:d}"),
    ("new_prompt", "new prompt, n_ctx_slot = {:d}, n_keep = {:d}, task.n_tokens = {tokens:d}"),
    ("cached", "cached n_tokens = {tokens:d}, memory_seq_rm [{:d}, end)"),
    (QUIET, "prompt processing progress, n_tokens = {:d}, batch.n_tokens = {:d}, progress = {:8.6f}"),
    (QUIET, "init sampler, took {:d}.{:02d} ms, tokens: text = {:d}, total = {:d}"),
    ("slot_prefill", f"prompt eval time = {_RATE}"),
    ("slot_decode", f"       eval time = {_RATE}"),
    ("slot_total", "      total time = {ms:10.2f} ms / {:5d} tokens"),
    (QUIET, "   graphs reused = {:10d}"),
    ("released", "stop processing: n_tokens = {tokens:d}, truncated = {truncated:d}"),
)
"""The kinds of lines, as they go on behind slot and task."""


class _Line(NamedTuple):
    """A line behind slot and task: the number of its layout, and what it begins with."""

    number: int
    begins: int
    layout: Layout


def _number(signs: str) -> int:
    """Eight signs as one number."""
    return int.from_bytes(signs.encode()[:8], "little")


_KNOWN = [_Line(number, _number(layout), Layout(layout)) for number, (_, layout) in enumerate(LINES, 1)]
_KIND_OF = np.array([0, *(KINDS.index(kind) for kind, _ in LINES)], np.uint8)


class ServerLines:
    """The usual lines of a block, by their place among its lines.

    Args:
        framed: the lines of the block that may be usual.

    Attributes:
        framed: the same.
        layouts: for each line of the block the number of its layout, from 1 on; 0 for none.
        kinds: its place in `KINDS`.
        values: for each line what it says, where its kind says it; else anything.
    """

    def __init__(self, framed: Framed) -> None:
        self.framed = framed
        self._text = text = framed.text
        count = len(text.starts)
        self.layouts: Bytes = np.zeros(count, np.uint8)
        self.values: Values = {name: np.full(count, least) for name, least in VALUES.items()}
        self._begins: Ints = np.zeros(count, np.int64)
        self._points: Ints = np.zeros(count, np.int64)
        head = _HEAD.read(text, framed.starts)
        lines, begins, points = framed.which[head.rows], framed.starts[head.rows], head.ends - _BEHIND_MINUTES
        self._begins[lines], self._points[lines] = begins, points
        functions = text.rows(head.ends - _BEFORE_TASK, 16).view("<u8")
        is_known = np.zeros(len(head.rows), np.bool_)
        for name in _FUNCTIONS:
            is_known |= (functions[:, 0] == _number(name)) & (functions[:, 1] == _number(name[8:] + ": id"))
        is_known &= points - begins <= _MOST_MINUTES
        for layout in (_TASK, _NO_TASK):
            self._read(head, layout.read(text, head.ends), is_known)
        self.kinds: Bytes = _KIND_OF[self.layouts]

    def _read(self, head: Found, task: Found, is_known: Bools) -> None:
        """Read the lines that are about a task, or about none."""
        text, framed = self._text, self.framed
        words = text.rows(task.ends, 8).view("<u8")[:, 0]
        for number, begins, layout in _KNOWN:
            some = np.flatnonzero(words == begins)
            if not some.size:
                continue
            found = layout.read(text, task.ends[some])
            of_task = some[found.rows]
            of_head = task.rows[of_task]
            of_framed = head.rows[of_head]
            whole = (found.ends == framed.ends[of_framed]) & is_known[of_head]
            lines = framed.which[of_framed[whole]]
            self.layouts[lines] = number
            for values, rows in ((head.values, of_head), (task.values, of_task)):
                for name, known in values.items():
                    self.values[name][lines] = known[rows[whole]]
            for name, known in found.values.items():
                self.values[name][lines] = known[whole]

    def clocks_ms(self, lines: Ints) -> Floats:
        """The process's clock on these lines, as `clock_ms` has it."""
        points, number = self._points[lines], self._text.numbers
        minutes = number(points, points - self._begins[lines])
        ms = number(points + len(".00"), 2) * 1_000 + number(points + len(".00.000"), 3)
        clocks_ms: Floats = minutes * 60_000.0 + ms + number(points + len(".00.000.000"), 3) / 1_000.0
        return clocks_ms

    def clock(self, line: int) -> bytes:
        """The same of one line, as it is printed."""
        return self.framed.body(line).partition(b" ")[0]
