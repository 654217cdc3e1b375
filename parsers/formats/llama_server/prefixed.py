"""Timing lines since b9230: each behind its own `slot print_timing: id S | task T |`."""

from __future__ import annotations

from parsers.formats.base import line
from parsers.formats.llama_cpp import HEAD
from parsers.formats.rates import PER_SECOND

SLOT = HEAD + rb"slot +[^\s|]+: id +(?P<slot>\d+) \| task +(?P<task>-?\d+) \| *"
"""The prefix of every line about a slot; task is -1 while one is being chosen."""

MS_PER = rb"time = +(?P<ms>[\d.]+) ms / +(?P<tokens>\d+) (?:tokens|runs)"
RATE = b"(?:" + PER_SECOND + b")?"
TOTAL = rb"total time = +(?P<ms>[\d.]+) ms / +\d+ tokens"
DRAFT = (
    rb"draft acceptance(?: rate)? = +[\d.]+ "
    rb"\( *(?P<accepted>\d+) accepted / +(?P<drafted>\d+) generated\)"
)

LINES = (
    line("slot_prefill", b"eval time = ", SLOT + rb"prompt eval " + MS_PER + RATE, b"prompt eval "),
    line("slot_decode", b"eval time = ", SLOT + rb"eval " + MS_PER + RATE),
    line("slot_total", b"total time = ", SLOT + TOTAL),
    line("slot_draft", b"draft acceptance", SLOT + DRAFT),
)
