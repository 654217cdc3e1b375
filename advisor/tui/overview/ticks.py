"""Where a chart's axes are marked, and with what."""

from __future__ import annotations

import math
from datetime import UTC, datetime

Ticks = list[tuple[float, str]]

_STEPS = (1, 2, 5, 10)
_STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200)
_MINUTE_S, _DAY_S = 60, 86_400
_DIGITS, _ROUNDING = 9, 1e-9


def value_ticks(high: float, most: int) -> Ticks:
    """Round values from 0 up to ``high`` or the next one above, at most ``most`` and at least two."""
    step = _round_step(high / max(most - 1, 1))
    return [
        (n * step, f"{round(n * step, _DIGITS):,.10g}") for n in range(math.ceil(high / step - _ROUNDING) + 1)
    ]


def number_ticks(low: float, high: float, most: int) -> Ticks:
    """Whole numbers between these."""
    step = max(_round_step((high - low) / max(most, 1)), 1.0)
    first = math.ceil(low / step)
    return [(n * step, f"{n * step:,.0f}") for n in range(first, math.floor(high / step) + 1)]


def time_ticks(low_s: float, high_s: float, most: int) -> Ticks:
    """Round times of day (UTC) between these: ``12:05``; with seconds for short steps, midnight as a date."""
    least_s = (high_s - low_s) / max(most, 1)
    days = math.ceil(least_s / _DAY_S)
    step_s = next((step_s for step_s in _STEPS_S if step_s >= least_s), days * _DAY_S)
    marks = range(math.ceil(low_s / step_s), math.floor(high_s / step_s) + 1)
    return [(n * step_s, _time_of_day(n * step_s, step_s)) for n in marks]


def _time_of_day(at_s: float, step_s: float) -> str:
    form = "%m-%d" if at_s % _DAY_S == 0 else "%H:%M" if step_s >= _MINUTE_S else "%H:%M:%S"
    return f"{datetime.fromtimestamp(at_s, UTC):{form}}"


def _round_step(least: float) -> float:
    """The next 1, 2 or 5 times a power of ten."""
    if least <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(least))
    return next((step * power for step in _STEPS if step * power >= least * (1 - _ROUNDING)), 10 * power)
