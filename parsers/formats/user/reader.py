"""Joins the lines of a user's format to rows, and checks what they say against itself."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from parsers.formats.base import Format, Line, Reader
from parsers.formats.clocks import Years
from parsers.formats.joins import Adjacent, Gathered, Join, Keyed, Piece, Single
from parsers.formats.user.columns import TIME, ImpossibleValueError, Rate, clock_of, converter
from parsers.formats.user.spec import columns_of
from parsers.records import Interval, Request

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from parsers.formats.base import At
    from parsers.formats.process import Process
    from parsers.formats.user.columns import Value
    from parsers.formats.user.spec import LineSpec, Spec

_PHASES = ("queue_ms", "load_ms", "prefill_ms")
_SLACK = 1.02
_SLACK_MS = 10.0
"""How far the phases may be over the total: what rounding to hundredths of a second makes of them."""


def format_of(spec: Spec, file: str = "a format file") -> Format:
    """The format that a file describes.

    Args:
        spec: what it says.
        file: its name, for what is said of a pattern that takes too long.
    """
    return Format(
        engine=spec.engine,
        title=spec.title,
        versions=spec.versions,
        grain=spec.grain,
        identify=tuple(literal.encode() for literal in spec.identify),
        banner=b"",
        lines=tuple(
            Line(
                "take",
                one.needle.encode(),
                one.pattern.encode(),
                who=f"{file}: the pattern of {one.name!r}",
            )
            for one in spec.line
        ),
        reader=partial(UserReader, spec=spec),
        splits=spec.splits,
    )


@dataclass(frozen=True, slots=True)
class _Taker:
    """A kind of line, and what turns each of its groups into a value."""

    spec: LineSpec
    groups: Mapping[str, Callable[[bytes], Value | Rate]]
    clock: Callable[[str], datetime | None]


class UserReader(Reader):
    """Reads what a format file says. Lines are told apart by their pattern."""

    def __init__(self, process: Process, spec: Spec) -> None:
        super().__init__(process)
        self._spec = spec
        self._join = _join(spec)
        self._years = Years(process)
        self._takers = _takers(spec, self._years)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_takers"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _takers=_takers(state["_spec"], state["_years"]))

    def take(self, m: re.Match[bytes], at: At) -> None:
        """Any of the format's lines."""
        taker = self._takers[m.re]
        values = self._values(taker, m)
        if (printed := m.groupdict().get(TIME)) is not None:
            at = at._replace(time=taker.clock(printed.decode("utf-8", "replace")) or at.time)
        kind, piece = taker.spec.tells, Piece(taker.spec.name, values, at)
        if kind == "row":
            if whole := self._join.take(piece):
                self._emit(whole)
        elif kind in ("aborted", "failed"):
            self._join.drop(piece)
            counts = self.process.counts
            counts.aborted_requests += kind == "aborted"
            counts.failed_requests += kind == "failed"
        else:
            if kind == "start":
                self.process.start(at)
            self.process.learn(at, **values)

    def _values(self, taker: _Taker, m: re.Match[bytes]) -> dict[str, Any]:
        """What the line says, ``None`` left out."""
        values: dict[str, Any] = {}
        for name, convert in taker.groups.items():
            if (printed := m[name]) is None:
                continue
            try:
                value = convert(printed)
            except ImpossibleValueError:
                self.process.counts.impossible_values += 1
            else:
                if value is not None:
                    values[name] = value
        return {**taker.spec.constants, **values}

    def close(self) -> None:
        """The log or the process ends: open requests will never be whole."""
        self._join.close()
        if self._spec.grain == "request":
            self.process.counts.incomplete_requests += self._join.incomplete
        self._join.incomplete = 0

    # --- rows

    def _emit(self, whole: Gathered[Any]) -> None:
        values = {**self._spec.constants, **whole.values}
        if self._spec.grain == "interval":
            values = {name: value for name, value in values.items() if not isinstance(value, Rate)}
            row = Interval(line=whole.last.number, engine=self._spec.engine, **values)
            row.time = row.time or whole.last.time
            if "phase" not in values:
                row.phase = _phase_of(row)
            self.process.emit(row)
            return
        steps = _complete(values, self._spec.decode_steps)
        self.process.counts.impossible_values += _contradictions(values)
        self.process.emit(
            Request(
                **{
                    "line": whole.last.number,
                    "engine": self._spec.engine,
                    "finished_at": whole.last.time,
                    "decode_steps": steps if values.get("decode_ms") is not None else None,
                    "first_line": whole.first.number,
                    "offset": whole.first.offset,
                    **values,
                }
            )
        )


def _takers(spec: Spec, years: Years) -> dict[re.Pattern[bytes], _Taker]:
    """What takes each kind of line, by its pattern."""
    clock = clock_of(spec.clock, years)
    return {re.compile(one.pattern.encode()): _taker(spec, one, clock) for one in spec.line}


def _taker(spec: Spec, one: LineSpec, clock: Callable[[str], datetime | None]) -> _Taker:
    kinds = columns_of(spec, one)
    names = [name for name in re.compile(one.pattern).groupindex if name in kinds]
    groups = {name: converter(name, kinds[name], one.units.get(name), clock) for name in names}
    return _Taker(one, groups, clock)


def _join(spec: Spec) -> Join[Any]:
    names = [one.name for one in spec.rows]
    end = spec.end or names[-1]
    if spec.join == "adjacent":
        return Adjacent(spec.begin or names[0], end)
    return Keyed(tuple(spec.key), spec.begin, end) if spec.join == "keyed" else Single()


def _complete(values: dict[str, Any], paid_for: str | None) -> int | None:
    """Add what follows from what is stated; returns the tokens that the decode time paid for."""
    prompt, cached, prefill = (values.get(f"{name}_tokens") for name in ("prompt", "cached", "prefill"))
    if prompt is None and cached is not None and prefill is not None:
        values["prompt_tokens"] = cached + prefill
    elif prompt is not None and cached is not None and prefill is None and cached <= prompt:
        values["prefill_tokens"] = prompt - cached
    elif prompt is not None and prefill is not None and cached is None and prefill <= prompt:
        values["cached_tokens"] = prompt - prefill
    output = values.get("output_tokens")
    steps = None if output is None or paid_for is None else max(output - (paid_for != "output_tokens"), 0)
    _time(values, "prefill_ms", values.get("prefill_tokens"))
    _time(values, "decode_ms", steps)
    if values.get("total_ms") is None and not {"prefill_ms", "decode_ms"} - values.keys():
        phases = (*_PHASES, "decode_ms")
        values["total_ms"] = round(sum(values.get(phase, 0.0) for phase in phases), 6)
    if "ttft_ms" not in values and "prefill_ms" in values:
        values["ttft_ms"] = round(sum(values.get(phase, 0.0) for phase in _PHASES), 6)
        values["ttft_from"] = "arrival" if "queue_ms" in values else "slot"
    if "ttft_ms" not in values:
        values.pop("ttft_from", None)
    return steps


def _time(values: dict[str, Any], column: str, tokens: int | None) -> None:
    """The time that a rate means, to a tenth of a millisecond."""
    rate = values.get(column)
    if isinstance(rate, Rate):
        del values[column]
        if tokens:
            values[column] = round(tokens * rate.ms_per_token, 1)


def _contradictions(values: dict[str, Any]) -> int:
    """Take out what can't be true beside the rest; returns how much that was."""
    gone: set[str] = set()
    for part, whole in (
        ("cached_tokens", "prompt_tokens"),
        ("prefill_tokens", "prompt_tokens"),
        ("accepted_tokens", "draft_tokens"),
    ):
        if part in values and whole in values and values[part] > values[whole]:
            gone.add(part)
    spent_ms = sum(values.get(phase, 0.0) for phase in (*_PHASES, "decode_ms"))
    if "total_ms" in values and spent_ms > values["total_ms"] * _SLACK + _SLACK_MS:
        gone.add("total_ms")
    for name in gone:
        del values[name]
    return len(gone)


def _phase_of(row: Interval) -> str:
    """What a window did, by its rates or tokens; `unknown` where it prints too little to tell."""
    read = row.prefill_tok_s if row.prefill_tok_s is not None else row.prefill_tokens
    written = row.decode_tok_s if row.decode_tok_s is not None else row.decode_tokens
    if read is None or written is None:
        return "unknown"
    if read and written:
        return "mixed"
    if read or written:
        return "prefill" if read else "decode"
    return "queue" if row.waiting else "idle"
