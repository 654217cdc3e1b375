"""The shape of a user's format file, and what can be wrong with one."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from parsers.formats.user.ambiguous import never_ends
from parsers.formats.user.columns import CLOCKS, COLUMNS, TIME, Unit, is_clock, is_possible_constant, units_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from parsers.formats.user.places import Path

_NAME = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$", max_length=64)]
_LITERAL = Annotated[str, Field(min_length=3, max_length=200, pattern=r"^[^\r\n]*$")]
_PATTERN = Annotated[str, Field(min_length=1, max_length=4000)]
_AT = re.compile(r"at line (\d+), column (\d+)")
ONE_OF = {
    "ttft_from": ("arrival", "slot"),
    "kind": ("generation", "embedding", "rerank", "benchmark"),
    "phase": ("prefill", "decode", "mixed", "queue", "idle", "unknown"),
}
INTERVAL_KINDS = ("window", "prefill_batch", "decode_batch", "iteration")
"""What the columns of fixed words may say."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class LineSpec(_Part):
    """One kind of line: a literal, a pattern, and what the groups are.

    Attributes:
        tells: `row` (of the request or interval), `setup`, `start` (the first line of a process; it may state
            setup facts too), `aborted` or `failed` (its request gives no row and is counted).
        units: how a group is printed, where that is not the contract's unit.
        constants: columns that every such line states without printing them.
    """

    name: Annotated[str, Field(pattern=r"^\w+$")]
    needle: _LITERAL
    pattern: _PATTERN
    tells: Literal["row", "setup", "start", "aborted", "failed"] = "row"
    units: dict[str, Unit] = {}
    constants: dict[str, Any] = {}


class SampleSpec(_Part):
    """Lines of a log, and the rows that they give."""

    note: str | None = None
    text: Annotated[str, Field(min_length=1)]
    requests: list[dict[str, Any]] | None = None
    intervals: list[dict[str, Any]] | None = None
    setup: dict[str, Any] = {}
    counts: dict[str, int] = {}


class Spec(_Part):
    """A format file.

    Attributes:
        begin: the name of the line that opens a request; the first one where nothing is said and lines are
            `adjacent`, any where they are `keyed`.
        end: the name of the line that ends it; the last one where nothing is said.
        clock: the layout of times: `iso`, `unix`, `unix_ms`, or as `strptime` takes it. Without a zone, UTC.
        decode_steps: how many tokens `decode_ms` paid for; ``None`` leaves decode rates unknown.
    """

    engine: _NAME
    title: Annotated[str, Field(min_length=1)]
    versions: str
    grain: Literal["request", "interval"] = "request"
    splits: str = ""
    identify: Annotated[list[_LITERAL], Field(min_length=1, max_length=16)]
    join: Literal["single", "adjacent", "keyed"] = "single"
    key: list[str] = []
    begin: str | None = None
    end: str | None = None
    clock: str | None = None
    decode_steps: Literal["output_tokens", "output_tokens - 1"] | None = None
    constants: dict[str, Any] = {}
    line: Annotated[list[LineSpec], Field(min_length=1, max_length=64)]
    sample: list[SampleSpec] = []

    @property
    def rows(self) -> list[LineSpec]:
        """The lines that rows are made of."""
        return [line for line in self.line if line.tells == "row"]


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong with a format file.

    Attributes:
        path: which key or value; the longest part of it that stands in the file is pointed at.
        says: what is wrong.
        help: what is expected, or ``None``.
        index: which character of the string at ``path``, or ``None`` for its start.
        key: point at the key instead of its value.
        at: line and column, where they are known without a path.
    """

    path: Path
    says: str
    help: str | None = None
    index: int | None = None
    key: bool = False
    at: tuple[int, int] | None = None


class FormatFileError(ValueError):
    """A format file that can't be used, with all that is wrong with it."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__(problems[0].says)
        self.problems = problems


def parse(text: str) -> Spec:
    """Read a format file.

    Raises:
        FormatFileError: it is no TOML, or not of the shape above, or contradicts itself.
    """
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        place = _AT.search(str(error))
        end = text.count("\n") + 1, len(text) - text.rfind("\n")
        at = (int(place[1]), int(place[2])) if place else end
        raise FormatFileError([Problem((), f"no TOML: {_AT.sub('here', str(error))}", at=at)]) from None
    try:
        spec = Spec.model_validate(data)
    except ValidationError as error:
        raise FormatFileError([_shape(one) for one in error.errors()]) from None
    if problems := [*_lines(spec)] or [*_whole(spec)]:
        raise FormatFileError(problems)
    return spec


def _shape(error: Any) -> Problem:
    """What pydantic says, in our words where they help more."""
    path, said = tuple(error["loc"]), error["msg"]
    if error["type"] == "extra_forbidden":
        parts: dict[str, type[_Part]] = {"line": LineSpec, "sample": SampleSpec}
        model = parts.get(str(path[0]), Spec) if len(path) > 1 else Spec
        return Problem(
            path, f"unknown key {path[-1]!r}", _near(str(path[-1]), list(model.model_fields)), key=True
        )
    if error["type"] == "missing":
        return Problem(path[:-1], f"{path[-1]!r} is missing", key=True)
    if error["type"] == "string_pattern_mismatch":
        return Problem(
            path, f"{error['input']!r} doesn't fit here", f"it must match {error['ctx']['pattern']}"
        )
    return Problem(path, f"{said[:1].lower()}{said[1:]}")


def _near(name: str, names: list[str]) -> str:
    near = get_close_matches(name, names, n=1)
    return f"{near[0]!r} is the nearest" if near else f"there are {', '.join(names)}"


def _lines(spec: Spec) -> Iterator[Problem]:
    """What is wrong with single lines."""
    names: set[str] = set()
    patterns: set[str] = set()
    for number, line in enumerate(spec.line):
        path: Path = ("line", number)
        if line.name in names:
            yield Problem((*path, "name"), f"a second line is called {line.name!r}")
        if line.pattern in patterns:
            yield Problem((*path, "pattern"), "another line has the same pattern")
        names.add(line.name)
        patterns.add(line.pattern)
        yield from _columns(spec, line, path)


def _columns(spec: Spec, line: LineSpec, path: Path) -> Iterator[Problem]:
    """What is wrong with a line's pattern, its groups, their units and its constants."""
    try:
        groups = re.compile(line.pattern).groupindex
        endless = never_ends(re.compile(line.pattern.encode()).pattern)
    except (re.error, RecursionError, OverflowError) as error:
        where = error.pos if isinstance(error, re.error) else None
        said = error.msg if isinstance(error, re.error) else str(error)
        yield Problem((*path, "pattern"), f"no regular expression: {said}", "Python's `re` syntax", where)
        return
    if endless:
        says = "a text may match this in so many ways that trying them all never ends"
        yield Problem((*path, "pattern"), says, "let no two repeats match the same text, as (a+)+ does")
    kinds = columns_of(spec, line)
    known = [*kinds, TIME]
    for name in groups:
        if name not in known:
            at = line.pattern.index(f"(?P<{name}>") + len("(?P<")
            yield Problem((*path, "pattern"), f"the group {name!r} is no column", _near(name, known), at)
    for name, unit in line.units.items():
        if name not in groups:
            yield Problem((*path, "units", name), f"the pattern has no group {name!r}", key=True)
        elif unit not in units_of(name):
            can = ", ".join(units_of(name)) or "no unit"
            yield Problem((*path, "units", name), f"{name!r} can't be printed in {unit}", f"it takes {can}")
        elif name == "decode_ms" and unit in ("tokens/s", "ms/token") and spec.decode_steps is None:
            yield Problem(
                (*path, "units", name),
                "a rate is no time until it is known how many tokens it is of",
                "say decode_steps = 'output_tokens' or 'output_tokens - 1' at the top",
            )
    yield from _constants(line.constants, kinds, (*path, "constants"), spec)


def columns_of(spec: Spec, line: LineSpec) -> dict[str, type]:
    """The columns that a line may fill."""
    if line.tells in ("setup", "start"):
        return COLUMNS["setup"]
    return COLUMNS[spec.grain]


def _constants(values: dict[str, Any], kinds: dict[str, type], path: Path, spec: Spec) -> Iterator[Problem]:
    for name, value in values.items():
        kind = kinds.get(name)
        if kind is None or kind is datetime:
            help_ = _near(name, [n for n, k in kinds.items() if k is not datetime])
            yield Problem((*path, name), f"{name!r} is no column that can be constant", help_, key=True)
        elif type(value) is not kind and not (kind is float and type(value) is int):
            yield Problem((*path, name), f"{value!r} is no {kind.__name__}")
        elif isinstance(value, float | int) and not is_possible_constant(name, value):
            yield Problem((*path, name), f"{name!r} can't be {value!r}", "numbers that an engine could print")
        else:
            words = INTERVAL_KINDS if (name, spec.grain) == ("kind", "interval") else ONE_OF.get(name)
            if words and value not in words:
                yield Problem((*path, name), f"{name!r} can't be {value!r}", f"one of {', '.join(words)}")


def _whole(spec: Spec) -> Iterator[Problem]:
    """What is wrong with how the parts fit together."""
    rows = spec.rows
    if not rows:
        yield Problem(
            ("line",), "no line tells of a row", "leave `tells` out for lines of requests", key=True
        )
        return
    for end in ("begin", "end"):
        name = getattr(spec, end)
        if name is not None and name not in [line.name for line in rows]:
            yield Problem((end,), f"no line is called {name!r}", _near(name, [line.name for line in rows]))
        elif name is not None and spec.join == "single":
            yield Problem((end,), "with join = 'single' each line is whole", key=True)
    if spec.join == "keyed":
        yield from _keys(spec)
    elif spec.key:
        yield Problem(("key",), f"with join = {spec.join!r} no key ties lines", key=True)
    if spec.clock is not None and not is_clock(spec.clock):
        yield Problem(
            ("clock",), "no layout of a time", f"{', '.join(CLOCKS)}, or one such as '%Y-%m-%d %H:%M:%S'"
        )
    yield from _constants(spec.constants, COLUMNS[spec.grain], ("constants",), spec)
    stated = {name for line in rows for name in (*re.compile(line.pattern).groupindex, *line.constants)}
    stated |= spec.constants.keys()
    if "ttft_ms" in stated and "ttft_from" not in stated:
        yield Problem(
            ("engine",),
            "a stated ttft_ms needs to say where its clock starts",
            "[constants] ttft_from = 'arrival' (queue included) or 'slot'",
            key=True,
        )


def _keys(spec: Spec) -> Iterator[Problem]:
    if not spec.key:
        yield Problem(("join",), "keyed lines need a key", "key = ['request_id'], or other groups", key=True)
    for number, line in enumerate(spec.line):
        if line.tells in ("row", "aborted", "failed"):
            lacking = set(spec.key) - set(re.compile(line.pattern).groupindex)
            for name in sorted(lacking):
                yield Problem(("line", number, "pattern"), f"the key {name!r} is no group of this pattern")
