"""Timing lines of b3761 to b9229: one header with slot and task, then lines without any prefix.

They leave the engine as one write, so nothing of the engine stands between them; a container's or a
router's prefix is on each physical line and is stripped before. A block without its header, as people
paste it, is read too, but only where the log shows no header at all: prompt text may quote such lines.

b1413 to b2258 print such a block too, behind `print_timings:` and without a word about the slot.
"""

from __future__ import annotations

from parsers.formats.base import line
from parsers.formats.llama_server.prefixed import DRAFT, MS_PER, RATE, SLOT, TOTAL

_HEAD = rb"(?:print_timings: )?"

LINES = (
    line("prefill", b"eval time = ", _HEAD + rb" *prompt eval " + MS_PER + rb"(?= +\()" + RATE),
    line("decode", b"eval time = ", _HEAD + rb" *eval " + MS_PER + rb"(?= +\()" + RATE),
    line("total", b"total time = ", rb" *" + TOTAL),
    line("total", b"total time = ", rb"print_timings: +total time = +(?P<ms>[\d.]+) ms\s*$"),
    line("draft", b"draft acceptance", rb" *" + DRAFT),
    line("header", b"print_timing: id", SLOT + rb"$"),
)
