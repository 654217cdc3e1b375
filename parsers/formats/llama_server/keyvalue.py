"""Lines of b2259 to b3760: a message, and its values as key=value or as one JSON object a line.

Programs built on that server kept the layout for longer: Ollama until 0.3, which sorts the keys, llamafile,
and ik_llama.cpp, which since December 2025 prints its timings in the bare layout and the rest in this one.
The message prints ms with two digits, the values all that the clock gave: those count.

The clock of these lines is in whole seconds; it is used where the carrier has none.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from parsers.formats.base import line
from parsers.formats.rates import PER_SECOND

if TYPE_CHECKING:
    import re

    from parsers.formats.base import At, Line

_DECIMAL = rb"\d+(?:\.\d+)?(?:e-?\d+)?"


def _value(group: bytes, keys: bytes, pattern: bytes = rb"-?\d+") -> bytes:
    """Finds one value, wherever it stands in the line; `keys` are its names over the years (`a|b`)."""
    return rb'(?=.*[ ,{]"?(?:' + keys + rb')"?[=:](?P<' + group + rb">" + pattern + rb"))"


_RATE = rb"(?=.*eval time [^(]{0,40}" + PER_SECOND + rb")?"
_TASK = _value(b"slot", b"id_slot|slot_id", rb"\d+") + _value(b"task", b"id_task|task_id")
_CLOCKS = rb'(?P<clock>(?!))?(?=.*[ ,{]"?timestamp"?[=:](?P<epoch>\d{1,10})(?!\d))?'


def _line(name: str, needle: bytes, message: bytes, *values: bytes, word: bytes = b"") -> Line:
    """A line in both spellings."""
    said = rb"(?:[A-Z]{3,5} +\[ *\w+\] +" + message + rb'|\{(?=.*"msg":" *' + message + rb"))"
    return line(name, needle, b"(?=" + said + b")" + _CLOCKS + _TASK + b"".join(values), word)


LINES = (
    _line("launch", b"slot is processing task", rb"slot is processing task"),
    _line("cached", b"kv cache rm [p0, end)", rb"kv cache rm \[p0, end\)", _value(b"tokens", b"p0", rb"\d+")),
    _line(
        "shift", b"slot context shift", rb"slot context shift", _value(b"discarded", b"n_discard", rb"\d+")
    ),
    _line(
        "told_prefill",
        b"print_timings",
        rb"prompt eval time ",
        _value(b"ms", b"t_prompt_processing", _DECIMAL),
        _value(b"tokens", b"num_prompt_tokens_processed|n_prompt_tokens_processed", rb"\d+"),
        _RATE,
        word=b"prompt eval time ",
    ),
    _line(
        "slot_decode",
        b"print_timings",
        rb"generation eval time ",
        _value(b"ms", b"t_token_generation", _DECIMAL),
        _value(b"tokens", b"n_decoded", rb"\d+"),
        _RATE,
        word=b"generation eval time ",
    ),
    _line(
        "slot_total",
        b"print_timings",
        rb"total time ",
        _value(b"ms", b"t_total", _DECIMAL),
        word=b"total time ",
    ),
    _line(
        "let_go",
        b"slot released",
        rb"slot released",
        _value(b"tokens", b"n_past", rb"\d+"),
        _value(b"truncated", b"truncated", rb"true|false"),
    ),
    line(
        "route",
        b"log_server_request",
        rb'(?P<clock>(?!))?(?:[A-Z]{3,5} +\[ *\w+\] +request \||\{(?=.*"msg":"request"))'
        rb'(?=.*[ ,{]"?method"?[=:]"POST")(?=.*[ ,{]"?path"?[=:]"(?P<path>/[^"]*)")',
    ),
)


def timed(m: re.Match[bytes], at: At) -> At:
    """The place of a line with the line's own clock, where the carrier has none."""
    if at.time is not None or "epoch" not in m.re.groupindex or m["epoch"] is None:
        return at
    return at._replace(time=datetime.fromtimestamp(int(m["epoch"]), UTC))
