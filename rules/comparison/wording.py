"""Changes in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.words import duration, percent

if TYPE_CHECKING:
    from rules.comparison.effect import Effect

_TWICE = 2.0
_NEAR, _ONE = 0.25, 0.01
"""Of a change: an interval that comes so near to none is told by that end, below one percent with a digit."""


def instead(then: float | None, now: float | None) -> str:
    """``3.0 s instead of 3.4 s``; with digits enough to tell them apart."""
    said = [duration(then), duration(now)]
    if said[0] == said[1] and then and now:
        said = [f"{ms:,.{max(3 - len(str(int(ms))), 0)}f} ms" for ms in (then, now)]
    return f"{said[1]} instead of {said[0]}"


def changed(effect: Effect) -> str:
    """``43 % less (30 to 53 %)``, ``3.2 times as long (2.9 to 3.5)``; of a wide interval the near end."""
    value, low, high = effect.value, effect.low, effect.high
    if value >= _TWICE:
        wide = low - 1 < _NEAR * (value - 1)
        ends = f"{_at_least(low - 1)} longer" if wide else f"{low:.1f} to {high:.1f}"
        return f"{value:.1f} times as long ({ends})"
    share, near, far = (value - 1, low - 1, high - 1) if value > 1 else (1 - value, 1 - high, 1 - low)
    ends = _numbers(near, far) if near >= _NEAR * share else _at_least(near)
    return f"{percent(share)} {'longer' if value > 1 else 'less'} ({ends})"


def _at_least(share: float) -> str:
    return f"at least {100 * share:.{0 if share >= _ONE else 1}f} %"


def _numbers(low: float, high: float) -> str:
    """Two shares as percents; digits after the point where they would look alike."""
    digits = 0 if round(100 * low) != round(100 * high) else 1
    ends = [f"{100 * share:.{digits}f}" for share in (low, high)]
    return f"{' to '.join(dict.fromkeys(ends))} %"


def difference(effect: Effect) -> str:
    """``1.3 s less (0.9 s to 1.7 s)``."""
    low, high = sorted((abs(effect.low), abs(effect.high)))
    word = "less" if effect.value < 0 else "more"
    ends = f"{duration(low)} to {duration(high)}"
    if low < _NEAR * abs(effect.value):
        ends = f"at least {duration(low)}"
    return f"{duration(abs(effect.value))} {word} ({ends})"


def seen(effect: Effect) -> str:
    """What would have been seen, as the end of a sentence."""
    if effect.visible is None:
        return ""
    if effect.visible >= 1:
        return "; even twice the time might not have been seen"
    return f"; a change of {percent(effect.visible)} would have been seen"


def reach(effect: Effect) -> str:
    """What would have been seen, for a table."""
    if effect.visible is None or effect.visible >= 1:
        return ""
    return f" (under {percent(effect.visible)})"
