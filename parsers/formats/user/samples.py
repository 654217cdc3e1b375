"""Runs the samples of a format file: each must give the rows that stand beside it, and no others."""

from __future__ import annotations

import math
import re
from dataclasses import fields
from typing import TYPE_CHECKING, Any, NamedTuple

from parsers.carriers import unwrap
from parsers.formats import FORMATS
from parsers.formats.user.columns import COLUMNS, is_grouped
from parsers.formats.user.partial import Partial, longest
from parsers.formats.user.reader import format_of
from parsers.formats.user.spec import Problem, columns_of
from parsers.records import TABLES
from parsers.stream import Stream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from parsers.formats.user.places import Path
    from parsers.formats.user.spec import LineSpec, SampleSpec, Spec
    from parsers.records import Row

_ROWS = ("requests", "intervals")


class _Text(NamedTuple):
    """A sample's line: its number, where it starts in the sample, and its bytes."""

    number: int
    start: int
    raw: bytes


def problems(spec: Spec) -> list[Problem]:
    """What the samples show to be wrong."""
    if not spec.sample:
        return [Problem((), "no sample", "add a [[sample]] with `text` and the rows that it gives")]
    found = [
        p for number, sample in enumerate(spec.sample) for p in _sample(spec, sample, ("sample", number))
    ]
    return found or [*_identify(spec), *_unproven(spec), *_commas(spec)]


def _sample(spec: Spec, sample: SampleSpec, path: Path) -> list[Problem]:
    lines = [*_unmatched(spec, sample, path)]
    return lines or [*_rows(spec, sample, path)]


# --- lines


def _texts(sample: SampleSpec) -> Iterator[_Text]:
    start = 0
    for number, line in enumerate(sample.text.split("\n"), 1):
        yield _Text(number, start, line.rstrip("\r").encode())
        start += len(line) + 1


def _bodies(raw: bytes, needle: bytes) -> tuple[bytes, ...]:
    """The line as patterns see it: bare, unwrapped, unindented."""
    found = [raw]
    for text in (raw, raw.lstrip(b" \t")):
        body = unwrap(text, needle).body
        found += [body, body.lstrip(b" \t")]
    return tuple(dict.fromkeys(found))


def _matches(line: LineSpec, raw: bytes) -> bool:
    pattern = re.compile(line.pattern.encode())
    return any(pattern.match(body) for body in _bodies(raw, line.needle.encode()))


def read_by(spec: Spec, line: LineSpec) -> list[re.Match[bytes]]:
    """The samples' lines that one kind of line matches, each as it is matched first."""
    pattern, needle = re.compile(line.pattern.encode()), line.needle.encode()
    raws = [text.raw for sample in spec.sample for text in _texts(sample) if needle in text.raw]
    found = (next(filter(None, map(pattern.match, _bodies(raw, needle))), None) for raw in raws)
    return [match for match in found if match is not None]


def _unmatched(spec: Spec, sample: SampleSpec, path: Path) -> Iterator[Problem]:
    """Lines that should be read and are not."""
    rows = [row for table in _ROWS for row in getattr(sample, table) or []]
    wanted = {row.get("line") for row in rows}
    for text in _texts(sample):
        near = [one for one in spec.line if one.needle.encode() in text.raw]
        if any(_matches(one, text.raw) for one in near):
            continue
        if alike := next((one for one in spec.line if _matches(one, text.raw)), None):
            where: Path = ("line", spec.line.index(alike), "needle")
            says = (
                f"line {text.number} of a sample matches the pattern of {alike.name!r} and lacks its needle"
            )
            yield Problem(where, says, "a literal that every such line holds; only lines with it are tried")
        elif near or (text.raw and text.number in wanted):
            yield _stopped(text, near or spec.line, path)


def _stopped(text: _Text, lines: list[LineSpec], path: Path) -> Problem:
    """Points at the place in a sample's line where the pattern that came furthest stops."""
    tried: list[tuple[Partial, LineSpec, int]] = []
    for line in lines:
        for body in _bodies(text.raw, line.needle.encode()):
            shown = body.decode("utf-8", "replace")
            before = len(text.raw.decode("utf-8", "replace")) - len(shown)
            tried.append((longest(line.pattern, shown), line, before))
    reached, line, before = max(tried, key=lambda one: (one[0].line, one[0].pattern))
    done, rest = line.pattern[: reached.pattern], line.pattern[reached.pattern :]
    says = f"no pattern matches this line; that of {line.name!r} comes furthest and stops here"
    matched = f"{_quoted(done[-40:], done)} matches, then " if done else ""
    lost = "" if line.needle.encode() in text.raw else "; the needle is missing too"
    help_ = f"{matched}{_quoted(rest[:60], rest)} does not{lost}"
    return Problem((*path, "text"), says, help_, text.start + before + reached.line)


def _quoted(part: str, whole: str) -> str:
    """Part of a pattern, with a sign where it was cut."""
    before, after = (
        ("…", "") if whole.endswith(part) and part != whole else ("", "…" if part != whole else "")
    )
    return f"`{before}{part}{after}`".replace("\n", "\\n")


# --- rows


def _rows(spec: Spec, sample: SampleSpec, path: Path) -> Iterator[Problem]:
    """What is expected and not given."""
    stream = Stream("sample", formats=(format_of(spec), *FORMATS))
    rows = [*stream.feed(sample.text.removesuffix("\n").encode() + b"\n"), *stream.close()]
    for table in _ROWS:
        wanted = getattr(sample, table)
        if wanted is not None:
            found = [row for row in rows if type(row) is TABLES[table] and row.engine == spec.engine]
            yield from _table(found, wanted, (*path, table))
    for name, value in sample.counts.items():
        got = getattr(stream.counts, name, None)
        if got != value:
            yield Problem((*path, "counts", name), f"expected {value}, got {got}")
    setup = stream.setups[-1] if stream.setups else None
    for name, value in sample.setup.items():
        got = getattr(setup, name, None) if name in COLUMNS["setup"] else None
        if got != value:
            yield Problem((*path, "setup", name), f"expected {value!r}, got {_said(got)}")


def _table(found: list[Row], wanted: list[dict[str, Any]], path: Path) -> Iterator[Problem]:
    for number, (row, values) in enumerate(zip(found, wanted, strict=False)):
        known = {f.name for f in fields(row)}
        for name, value in values.items():
            got = getattr(row, name, None)
            if name not in known:
                yield Problem((*path, number, name), f"{name!r} is no column", key=True)
            elif not _same(got, value):
                yield Problem((*path, number, name), f"expected {value!r}, got {_said(got)}")
    if len(found) < len(wanted):
        yield Problem((*path, len(found)), f"expected this row, got {len(found)} in all", key=True)
    elif len(found) > len(wanted):
        lines = ", ".join(str(row.line) for row in found[len(wanted) :])
        yield Problem(
            path, f"expected {len(wanted)} rows, got {len(found)}; the others end at line {lines}", key=True
        )


def _same(got: Any, wanted: Any) -> bool:
    if isinstance(got, float) and isinstance(wanted, int | float):
        return math.isclose(got, wanted, rel_tol=1e-9, abs_tol=1e-9)
    return bool(got == wanted) and isinstance(got, bool) == isinstance(wanted, bool)


def _said(value: Any) -> str:
    return "nothing" if value is None else f"{value}" if not isinstance(value, str) else repr(value)


# --- the whole


def _identify(spec: Spec) -> Iterator[Problem]:
    texts = [sample.text for sample in spec.sample]
    for number, literal in enumerate(spec.identify):
        if not any(literal in text for text in texts):
            yield Problem(("identify", number), f"no sample holds {literal!r}")


def _unproven(spec: Spec) -> Iterator[Problem]:
    raws = [text.raw for sample in spec.sample for text in _texts(sample)]
    for number, line in enumerate(spec.line):
        if not any(_matches(line, raw) for raw in raws):
            yield Problem(
                ("line", number, "pattern"), f"no sample has a line {line.name!r}", "add one to a sample"
            )


def _commas(spec: Spec) -> Iterator[Problem]:
    """Groups that are printed with a comma that parts no thousands: what they mean is unknown."""
    for number, line in enumerate(spec.line):
        kinds = columns_of(spec, line)
        for name, printed in _printed(spec, line):
            if kinds.get(name) in (int, float) and b"," in printed and not is_grouped(printed):
                shown = printed.decode("utf-8", "replace")
                says = f"{name!r} is {shown!r} in a sample: only groups of three digits take commas"
                at = line.pattern.index(f"(?P<{name}>")
                yield Problem(("line", number, "pattern"), says, "print a decimal point", at)


def _printed(spec: Spec, line: LineSpec) -> Iterator[tuple[str, bytes]]:
    """What the groups of a line hold in the samples, each group's oddest first."""
    seen: dict[str, bytes] = {}
    for match in read_by(spec, line):
        for name, printed in match.groupdict().items():
            if printed is not None and (name not in seen or not is_grouped(printed)):
                seen[name] = printed
    yield from seen.items()
