"""What a printed time or rate says: milliseconds, and whether a rate fits the time beside it."""

from __future__ import annotations

from typing import Any

_MOST_ERROR = 0.01
_SLACK = 1e-6
_HALF_A_DIGIT = 0.00501
_SLACK_TOKEN_MS = 1e-3

PER_SECOND = rb" +\( *[\d.]+ ms per token, +(?P<rate>\d+\.\d\d) tokens per second"
"""What llama.cpp prints behind a time and its count; where a number is `inf` or `nan` there is no rate."""


def seconds_ms(printed: bytes) -> float | None:
    """Printed seconds in ms; ``None`` where they were too short to print."""
    return round(1e3 * float(printed), 3) or None


def time_ms(tokens: int, rate: float | None, step: float) -> float | None:
    """Milliseconds that the tokens took at this rate.

    Args:
        tokens: how many the rate is of.
        rate: tokens per second as printed; ``None`` for ``inf`` and the like.
        step: the last printed digit's worth, such as 0.001.

    Returns:
        ``None`` where there is no time, or where the digits leave more than 1 % open.
    """
    if not rate or tokens <= 0 or step / 2 / rate > _MOST_ERROR:
        return None
    return round(1000 * tokens / rate, 3)


def fits(tokens: int, ms: float, rate: bytes | None) -> bool:
    """Whether tokens, ms and tokens per second, each with two digits, are of one measurement.

    Args:
        tokens: the count.
        ms: the time.
        rate: as printed; ``None`` where there is no number, which contradicts nothing.
    """
    if rate is None:
        return True
    return bool(fit(tokens, ms, float(rate)))


def fit(tokens: Any, ms: Any, rate: Any) -> Any:
    """The same of numbers, or of arrays of them."""
    return abs(1000 * tokens - rate * ms) <= (rate + ms) * _HALF_A_DIGIT + _SLACK_TOKEN_MS


def agree(tokens: int, seconds: float, rate: float, seconds_step: float, rate_step: float) -> bool:
    """Whether tokens, time and rate can be of one measurement, each rounded as it is printed."""
    error = rate * seconds_step / 2 + seconds * rate_step / 2 + seconds_step * rate_step / 4
    return abs(tokens - rate * seconds) <= error + _SLACK
