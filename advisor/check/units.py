"""Limits as people write them: ``2s``, ``40%``, ``20``; what could mean two things is a mistake."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

Unit: TypeAlias = Literal["ms", "tok/s", "share", "requests", "findings"]

_NUMBER = r"(\d{1,15}(?:\.\d*)?|\.\d+)"
_DURATION = re.compile(rf"{_NUMBER}\s*(us|µs|μs|ms|s|sec|m|min|h)?")
_RATE = re.compile(rf"{_NUMBER}\s*(?:tok/s|t/s|tokens/s)?")
_SHARE = re.compile(rf"{_NUMBER}\s*(%)?")
_MS = {"us": 0.001, "µs": 0.001, "μs": 0.001, "ms": 1, "s": 1e3, "sec": 1e3, "m": 6e4, "min": 6e4, "h": 36e5}


def duration(text: str) -> tuple[float, Unit]:
    """``2s``, ``450ms``, ``1.5 s`` or ``2m`` in milliseconds.

    Raises:
        ValueError: it is no duration, or has no unit.
    """
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise ValueError("give a duration such as 2s, 450ms or 2m")
    number, unit = found.groups()
    if unit is None:
        raise ValueError(f"say the unit: {number}s are seconds, {number}ms milliseconds")
    return float(number) * _MS[unit], "ms"


def rate(text: str) -> tuple[float, Unit]:
    """``20`` or ``20.5`` in tokens per second.

    Raises:
        ValueError: it is no number.
    """
    found = _RATE.fullmatch(text.strip())
    if found is None:
        raise ValueError("give a number of tokens per second, such as 20")
    return float(found[1]), "tok/s"


def share(text: str) -> tuple[float, Unit]:
    """``40%`` or ``0.4`` as 0-1.

    Raises:
        ValueError: it is neither, or can't be told from the other, as a bare ``1``.
    """
    found = _SHARE.fullmatch(text.strip())
    if found is None:
        raise ValueError("give a share such as 40% or 0.4")
    number, percent = found.groups()
    value = float(number) / 100 if percent else float(number)
    if not percent and value and "." not in number:
        raise ValueError(f"say the unit: {number}% if that is meant, or a share from 0.0 to 1.0")
    if value > 1:
        raise ValueError("a share is at most 100%")
    return value, "share"


def requests(text: str) -> tuple[float, Unit]:
    """``3`` requests.

    Raises:
        ValueError: it is no whole number.
    """
    if not re.fullmatch(r"\d{1,15}", text.strip()):
        raise ValueError("give a number of requests, such as 30")
    return float(text), "requests"


def requests_or_share(text: str) -> tuple[float, Unit]:
    """``3`` requests, or ``1%`` or ``0.01`` of all.

    Raises:
        ValueError: it is neither.
    """
    try:
        return requests(text)
    except ValueError:
        pass
    try:
        return share(text)
    except ValueError:
        raise ValueError("give a number of requests such as 3, or a share of them such as 1%") from None
