"""A layout fits exactly the lines that its regular expression matches, and reads the same from them."""

from __future__ import annotations

import re
from string import Formatter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parsers.formats.llama_server.usual import LINES
from parsers.printed import Layout, Text

LAYOUTS = (
    "{a:d}|{b:d}",
    "{a:4d}{b:4.1f}{:03d}",
    "x{:[AB]}{:5s}{a:8d}{:[.,]}",
    "{a:08.3f}{{}}{b:6.4f}",
    "{:2d}: {:10.2f} of {a:10.2f}, {b:1d}",
    *(layout for _, layout in LINES),
)
_SIGNS = st.one_of(
    st.sampled_from(b" 0123456789./:-%()x"), st.integers(0, 255).filter(lambda sign: sign != ord("\n"))
)


def _pattern(layout: str) -> re.Pattern[bytes]:
    """The same as a regular expression."""
    parts = []
    for literal, name, spec, _ in Formatter().parse(layout):
        parts.append(re.escape(literal))
        if spec is not None:
            parts.append(f"(?P<{name}>{_part(spec)})" if name else f"(?:{_part(spec)})")
    return re.compile("".join(parts).encode())


def _part(spec: str) -> str:
    if spec.startswith("["):
        return spec
    if spec.endswith("s"):
        return rf"[^\n]{{{spec[:-1]}}}"
    if spec == "d":
        return r"[0-9]{1,12}(?![0-9])"
    width, _, decimals = spec[:-1].partition(".")
    whole = int(width) - (int(decimals) + 1 if decimals else 0)
    blanks = range(1 if width.startswith("0") else whole)
    digits = "|".join(rf" {{{count}}}[0-9]{{{whole - count}}}" for count in blanks)
    return f"(?:{digits})" + (rf"\.[0-9]{{{decimals}}}" if decimals else "")


@st.composite
def _lines(draw: st.DrawFn, layout: str) -> list[bytes]:
    """Lines that fit a layout, and some that nearly do."""
    lines = []
    for line in draw(st.lists(st.from_regex(_pattern(layout)), min_size=1, max_size=5)):
        edited = line.replace(b"\n", b"_")
        for _ in range(draw(st.integers(0, 2))):
            at = draw(st.integers(0, max(len(edited) - 1, 0)))
            edited = edited[:at] + bytes([draw(_SIGNS)]) + edited[at + draw(st.integers(0, 1)) :]
        lines.append(edited)
    return lines


@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=40, deadline=None)
@given(st.data())
def test_layouts_are_their_patterns(layout: str, data: st.DataObject) -> None:
    lines = data.draw(_lines(layout))
    text, pattern = Text(), _pattern(layout)
    text.load(b"".join(line + b"\n" for line in lines))
    found = Layout(layout).read(text, text.starts)
    matches = {at: match for at, line in enumerate(lines) if (match := pattern.match(line))}
    assert found.rows.tolist() == [*matches]
    assert found.ends.tolist() == [text.starts[at] + match.end() for at, match in matches.items()]
    for name, values in found.values.items():
        assert values.tolist() == [float(match[name]) for match in matches.values()]


def test_every_sign_in_every_column() -> None:
    layout = "ab {x:6.2f} {y:d} {z:03d}{:[cd]}"
    line, pattern, text = b"ab   1.25 77 012c", _pattern(layout), Text()
    lines = [
        line[:at] + bytes([sign]) + line[at + 1 :]
        for at in range(len(line))
        for sign in range(256)
        if sign != ord("\n")
    ]
    text.load(b"".join(one + b"\n" for one in lines))
    found = Layout(layout).read(text, text.starts)
    assert found.rows.tolist() == [at for at, one in enumerate(lines) if pattern.match(one)]


def test_nothing_is_left_of_the_block_before() -> None:
    text = Text()
    text.load(b"a1;\na22;\n" * 9)
    text.load(b"a3")
    assert Layout("a{n:d};").read(text, np.array([0])).rows.size == 0
