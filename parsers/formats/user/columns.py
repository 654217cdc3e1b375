"""Which columns a user format may fill, and how a printed value becomes the contract's."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args, get_type_hints

from parsers.formats.base import integer, number, text
from parsers.formats.ollama.durations import go_duration_ms, plausible
from parsers.formats.possible import LARGEST
from parsers.records import Interval, Request, columns
from parsers.setup import Setup

if TYPE_CHECKING:
    from collections.abc import Callable

    from parsers.formats.clocks import Years

Unit: TypeAlias = Literal["s", "ms", "us", "ns", "duration", "tokens/s", "ms/token", "%"]
Value: TypeAlias = int | float | bool | str | datetime | None
CLOCKS = ("iso", "unix", "unix_ms")
TIME = "time"
"""A group of any line: when it was printed, read by the format's ``clock``."""

_MS: dict[str, float] = {"s": 1e3, "ms": 1.0, "us": 1e-3, "ns": 1e-6}
_LONGEST_MS = 1e11
"""Three years: a longer time is a moment that was taken for a duration."""
_SAME_UP_TO = 1.02
_WORD = 200
_BOOLS = {b"true": True, b"yes": True, b"1": True, b"false": False, b"no": False, b"0": False}
_COARSEST = 0.05
_GROUPED = re.compile(rb"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_ANY_MOMENT = datetime(2026, 12, 30, 13, 14, 15, 161718, UTC)
_YEAR = re.compile("%[yYcxDG]")
_LEAP_YEAR = 2024


class ImpossibleValueError(ValueError):
    """A printed number that no engine can mean."""


@dataclass(frozen=True, slots=True)
class Rate:
    """A phase's time that is printed as a rate: known when its count of tokens is.

    Attributes:
        ms_per_token: the time of one token.
    """

    ms_per_token: float


def _types(of: type, names: list[str]) -> dict[str, type]:
    hints = get_type_hints(of)
    bare = {
        name: [t for t in get_args(hints[name]) or (hints[name],) if t is not type(None)] for name in names
    }
    return {name: found[0] for name, found in bare.items() if found[0] in (str, int, float, bool, datetime)}


_NOT_FROM_LINES = {"source", "line", "engine"}
COLUMNS: dict[str, dict[str, type]] = {
    "request": _types(Request, [n for n in columns(Request) if n not in _NOT_FROM_LINES]),
    "interval": _types(Interval, [n for n in columns(Interval) if n not in _NOT_FROM_LINES]),
    "setup": _types(
        Setup, [n for n in Setup.model_fields if n not in {*_NOT_FROM_LINES, "label", "origin", "disputed"}]
    ),
}
"""The columns that a group or a constant may fill, by what its line tells of."""


def units_of(column: str) -> tuple[str, ...]:
    """The units that a column may be printed in; none for what has no unit."""
    if column in ("prefill_ms", "decode_ms"):
        return (*_MS, "duration", "tokens/s", "ms/token")
    if column.endswith("_ms"):
        return (*_MS, "duration")
    if column.endswith("_tok_s"):
        return "tokens/s", "ms/token"
    return ("%",) if column in ("kv_usage", "prefix_hit_rate") else ()


def converter(
    column: str, kind: type, unit: str | None, clock: Callable[[str], datetime | None]
) -> Callable[[bytes], Value | Rate]:
    """What turns the printed value of a column into the contract's.

    The result raises `ImpossibleValueError` for a number that can't be, and gives ``None`` for what is none.
    """
    if kind is datetime:
        return lambda printed: clock(printed.decode("utf-8", "replace").strip())
    if kind is str:
        return lambda printed: (text(printed) or "")[:_WORD] or None
    if kind is bool:
        return lambda printed: _BOOLS.get(printed.strip().lower())
    if kind is int:
        return _count
    if unit in ("tokens/s", "ms/token") and column.endswith("_ms"):
        return lambda printed: _rate(printed, unit)
    if unit == "ms/token":
        return lambda printed: 1000 / each if (each := _amount(printed)) else None
    if unit == "%":
        return lambda printed: None if (percent := _amount(printed)) is None else percent / 100
    if column.endswith("_ms"):
        return lambda printed: _duration(printed, unit or "ms")
    return _amount


def is_grouped(printed: bytes) -> bool:
    """True where each comma parts groups of three digits; ``12,5`` is a decimal comma or a list."""
    return _GROUPED.fullmatch(printed.strip()) is not None


def _plain(printed: bytes) -> bytes:
    """Without its thousands separators; what has other commas stays as it is, and is no number."""
    return printed.strip().replace(b",", b"") if is_grouped(printed) else printed.strip()


def _amount(printed: bytes) -> float | None:
    value = number(_plain(printed))
    if value is not None and value < 0:
        raise ImpossibleValueError
    return value


def _count(printed: bytes) -> int | None:
    """A whole number; a negative one can't be, and a fraction or a word is none."""
    try:
        value = None if b"," in (plain := _plain(printed)) else integer(plain)
    except ValueError:
        return None
    if value is not None and value < 0:
        raise ImpossibleValueError
    return value


def _duration(printed: bytes, unit: str) -> float | None:
    if unit == "duration":
        value = go_duration_ms(printed.strip())
    else:
        amount = _amount(printed)
        value = None if amount is None else round(amount * _MS[unit], 6)
    if value is not None and value > _LONGEST_MS:
        raise ImpossibleValueError
    return value


def _rate(printed: bytes, unit: str) -> Rate | None:
    """``None`` where the last printed digit is too coarse to make a time of it."""
    rate = _amount(printed)
    _, _, decimals = _plain(printed).partition(b".")
    if not rate or 0.5 * 10.0 ** -len(decimals) > _COARSEST * rate:
        return None
    return Rate(1000 / rate if unit == "tokens/s" else rate)


def clock_of(layout: str | None, years: Years) -> Callable[[str], datetime | None]:
    """What reads a printed moment as UTC: a `strptime` layout, ``iso``, ``unix`` or ``unix_ms``.

    Args:
        layout: the format's.
        years: of moments that print none.
    """

    def read(printed: str) -> datetime | None:
        try:
            moment = _moment(printed, layout or "iso")
            if layout is None or layout in CLOCKS or _YEAR.search(layout):
                return plausible(moment)
            return plausible(years.place(moment.month, lambda year: _in_year(moment, year)))
        except (ValueError, OverflowError, OSError):
            return None

    return read


def _in_year(moment: datetime, year: int) -> datetime | None:
    try:
        return moment.replace(year=year)
    except ValueError:
        return None


def is_clock(layout: str) -> bool:
    """True for what `clock_of` takes: its own names, and layouts that `strptime` reads back."""
    if layout in CLOCKS:
        return True
    try:
        _moment(_ANY_MOMENT.strftime(layout), layout)
    except (ValueError, re.error):
        return False
    return "%" in layout


def is_possible_constant(column: str, value: float) -> bool:
    """False for a number that a column can't hold: none, negative, too large, or a share over 1."""
    largest = _LONGEST_MS if column.endswith("_ms") else 1.0 if "%" in units_of(column) else LARGEST
    return 0 <= value <= largest


def _moment(printed: str, layout: str) -> datetime:
    """A moment as UTC; in a leap year where none is printed."""
    if layout == "iso":
        return _utc(datetime.fromisoformat(printed.replace(",", ".")))
    if layout in ("unix", "unix_ms"):
        return datetime.fromtimestamp(float(printed) / (1000 if layout == "unix_ms" else 1), UTC)
    if _YEAR.search(layout):
        return _utc(datetime.strptime(printed, layout))  # noqa: DTZ007 - without a zone it is taken as UTC
    return _utc(datetime.strptime(f"{_LEAP_YEAR} {printed}", f"%Y {layout}"))  # noqa: DTZ007


def _utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
