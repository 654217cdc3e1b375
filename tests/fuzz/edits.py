"""Bytes as a list of edits: what a fuzzer turns at random stays a log, or JSON, with other values in it."""

from __future__ import annotations

import json
import marshal
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_STEP = 4
_MOST = 24
"""Edits; what comes after them is not looked at."""
_MOST_PLACES = 2048
"""A value in which there are as many grows no further: one that is put into itself would double each time."""
_WIDEST = 64
_MOST_CARRIED = 1 << 14
"""No more bytes are put into JSON: the signs that escape would double each time."""
_HOLDERS = (dict, list)
_NUMBER = re.compile(rb"\d[\d.]*")

NUMBERS = (
    *(b"0", b"1", b"-1", b"0.0", b"-0.0", b"nan", b"inf", b"-inf", b"1e308", b"1e999", b"1.2.3", b"."),
    *(b"9007199254740992", b"9223372036854775808", b"99999999999999999999", b"1" * 400, b"7" * 5000),
    *(b",,,", b"1,2,3", b"0x10", b"0000", b"1_000", b"", b"12:60", b"61"),
    *("٣".encode(), "１２".encode(), "²".encode()),
)
"""What may stand where a number did."""
PIECES = (
    *(b"\n", b"\r", b"\r\n", b"\x00", b"\x1b[0m", b"\xff", b'"', b"\\", b"{", b"}", b"[", b"]", b"|", b" "),
    *(b"\t", b",", b"=", b":", b"'", b"- ", b"> ", b"llama-1  | ", b"2025-11-29T20:15:30Z stderr F "),
    *("é\u2028\u202e".encode(), b"\\ud800", b"a" * 300, b'{"log":"', b"Nov 29 20:15:30 h x[1]: "),
)
"""What may be put into a line."""
CARRIERS = (
    *(b"llama-1  | ", b"vllm-2  | ", b"[pod/llama-0/server] ", b"[41219] ", b"0|llama  | ", b"    ", b"> "),
    *(b"2025-11-29T20:15:30Z stderr F ", b"Nov 29 20:15:30 host llama[1]: ", b"(ServeReplica:a:B pid=71) "),
    b"",
)
"""What may stand before lines; where nothing does, they are docker's JSON."""
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
        "²",
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
        match what % 11:
            case 0 | 1 | 2:
                numbers = [found.span() for found in _NUMBER.finditer(line)]
                if numbers:
                    begin, end = numbers[choice % len(numbers)]
                    lines[at] = line[:begin] + NUMBERS[(where >> 8) % len(NUMBERS)] + line[end:]
            case 3:
                place = choice % (len(line) + 1)
                lines[at] = line[:place] + PIECES[(where >> 8) % len(PIECES)] + line[place:]
            case 4:
                other = samples[(choice << 8 | where >> 8) % len(samples)].split(b"\n")
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
            case 10 if sum(map(len, lines)) < _MOST_CARRIED:
                some = slice(at, None, 1 + choice % 2)
                lines[some] = [_carried(line, CARRIERS[(where >> 8) % len(CARRIERS)]) for line in lines[some]]
    return b"\n".join(lines)


def _carried(line: bytes, before: bytes) -> bytes:
    """The line as another program passes it on."""
    if before:
        return before + line
    text = line.decode("utf-8", "replace") + "\n"
    return as_json({"log": text, "stream": "stderr", "time": "2025-11-29T20:15:30Z"})


def edited_value(data: bytes, samples: Sequence[Any]) -> Any:
    """A decoded JSON value after the edits that the bytes spell; the first two say which sample."""
    which, program = int.from_bytes(data[:2], "little"), data[2:]
    root = {"": _copy(samples[which % len(samples)])}
    places: list[tuple[Any, Any]] = []
    for what, where, choice in _steps(program):
        places = places or _places(root)
        holder, key = places[where % len(places)]
        was = holder[key]
        if what % 4 == 2 and holder is not root:
            del holder[key]
            places = []
            continue
        if what % 4 == 3 and len(places) < _MOST_PLACES:
            other, name = places[choice % len(places)]
            holder[key] = _copy(other[name])
        else:
            holder[key] = _copy(VALUES[choice % len(VALUES)])
        if isinstance(was, _HOLDERS) or isinstance(holder[key], _HOLDERS):
            places = []
    return root[""]


def _copy(value: Any) -> Any:
    """The same value, none of it shared."""
    return marshal.loads(marshal.dumps(value, 2))


def _places(root: Any) -> list[tuple[Any, Any]]:
    """The places in a value, as what holds it and under which key: the outermost first, and not many more
    than are enough.
    """
    found: list[tuple[Any, Any]] = []
    holders = [root]
    for holder in holders:
        for key in list(holder if isinstance(holder, dict) else range(len(holder)))[:_WIDEST]:
            found.append((holder, key))
            if isinstance(holder[key], _HOLDERS):
                holders.append(holder[key])
        if len(found) >= _MOST_PLACES:
            break
    return found


def as_json(value: Any) -> bytes:
    """The value as a file would hold it, with the signs for numbers that are none."""
    return json.dumps(value, ensure_ascii=True).encode()
