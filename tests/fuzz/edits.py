"""Bytes as a list of edits: what a fuzzer turns at random stays a log, or JSON, with other values in it."""

from __future__ import annotations

import json
import re
from copy import deepcopy
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_STEP = 4
_MOST = 24
"""Edits; what comes after them is not looked at."""
_NUMBER = re.compile(rb"\d[\d.]*")

NUMBERS = (
    *(b"0", b"1", b"-1", b"0.0", b"-0.0", b"nan", b"inf", b"-inf", b"1e308", b"1e999", b"1.2.3", b"."),
    *(b"9007199254740992", b"9223372036854775808", b"99999999999999999999", b"1" * 400, b"7" * 5000),
    *(b",,,", b"1,2,3", b"0x10", b"0000", b"1_000", "٣".encode(), "１２".encode(), b"", b"12:60", b"61"),
)
"""What may stand where a number did."""
PIECES = (
    *(b"\n", b"\r", b"\r\n", b"\x00", b"\x1b[0m", b"\xff", b'"', b"\\", b"{", b"}", b"[", b"]", b"|", b" "),
    *(b"\t", b",", b"=", b":", b"'", b"- ", b"> ", b"llama-1  | ", b"2025-11-29T20:15:30Z stderr F "),
    *("é\u2028\u202e".encode(), b"\\ud800", b"a" * 300, b'{"log":"', b"Nov 29 20:15:30 h x[1]: "),
)
"""What may be put into a line."""
VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        0.0,
        0.5,
        -0.5,
        1e308,
        float("nan"),
        float("inf"),
        1 << 53,
        1 << 64,
        10**400,
    ),
    *(
        "",
        "x",
        "1",
        "-1",
        "nan",
        "1e999",
        "\ud800",
        "\x00\u202e",
        "2025-11-29T20:15:30Z",
        "9999-12-31T23:59:59Z",
    ),
    *([], {}, [[]], [None], [1, 2], {"a": 1}, {"": {}}, "7" * 5000, 1_764_447_330, 1_764_447_330_000),
)
"""What may stand where a value of JSON did."""


def _steps(data: bytes) -> Iterator[tuple[int, int, int]]:
    """What to do, where, and with what."""
    for at in range(0, min(len(data), _STEP * _MOST) - _STEP + 1, _STEP):
        yield data[at], int.from_bytes(data[at + 1 : at + 3], "little"), data[at + 3]


def edited_lines(data: bytes, samples: Sequence[bytes]) -> bytes:
    """A sample's lines after the edits that the bytes spell; the first two say which sample."""
    which, program = int.from_bytes(data[:2], "little"), data[2:]
    lines = samples[which % len(samples)].split(b"\n")
    for what, where, choice in _steps(program):
        at = where % len(lines)
        line = lines[at]
        match what % 10:
            case 0 | 1 | 2:
                numbers = [found.span() for found in _NUMBER.finditer(line)]
                if numbers:
                    begin, end = numbers[choice % len(numbers)]
                    lines[at] = line[:begin] + NUMBERS[(where >> 8) % len(NUMBERS)] + line[end:]
            case 3:
                place = choice % (len(line) + 1)
                lines[at] = line[:place] + PIECES[(where >> 8) % len(PIECES)] + line[place:]
            case 4:
                other = samples[choice % len(samples)].split(b"\n")
                lines.insert(at, other[where % len(other)])
            case 5:
                lines[at] = lines[choice % len(lines)]
            case 6:
                lines.insert(at, line)
            case 7 if len(lines) > 1:
                del lines[at]
            case 8:
                lines[at] = line[: choice % (len(line) + 1)]
            case 9 if line:
                place = choice % len(line)
                lines[at] = line[:place] + bytes([where & 255]) + line[place + 1 :]
    return b"\n".join(lines)


def edited_value(data: bytes, samples: Sequence[Any]) -> Any:
    """A decoded JSON value after the edits that the bytes spell; the first two say which sample."""
    which, program = int.from_bytes(data[:2], "little"), data[2:]
    root = {"": deepcopy(samples[which % len(samples)])}
    for what, where, choice in _steps(program):
        holders = list(_holders(root))
        holder, key = holders[where % len(holders)]
        match what % 4:
            case 0 | 1:
                holder[key] = deepcopy(VALUES[choice % len(VALUES)])
            case 2 if holder is not root:
                del holder[key]
            case 3:
                other, name = holders[choice % len(holders)]
                holder[key] = deepcopy(other[name])
    return root[""]


def _holders(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a value, as what holds it and under which key; no more than some thousand."""
    keys = value if isinstance(value, dict) else range(len(value))
    for key in list(keys)[:64]:
        yield value, key
        if isinstance(value[key], (dict, list)):
            yield from _holders(value[key])


def as_json(value: Any) -> bytes:
    """The value as a file would hold it, with the signs for numbers that are none."""
    return json.dumps(value, ensure_ascii=True).encode()
