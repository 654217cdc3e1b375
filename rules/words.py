"""Numbers as people read them."""

from __future__ import annotations


def duration(ms: float | None) -> str:
    """``8.0 s``, ``450 ms``, ``8.5 ms``, ``2 min 5 s``; ``?`` for unknown."""
    if ms is None:
        return "?"
    if ms < 9.95:
        return f"{ms:.1f} ms" if ms >= 1 else f"{ms:.2g} ms" if ms >= 0.01 or not ms else "<0.01 ms"
    if ms < 999.5:
        return f"{ms:.0f} ms"
    seconds = ms / 1_000
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    if seconds < 119.5:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 120:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min"


def percent(share: float | None) -> str:
    """``39 %``; ``<1 %`` and ``>99 %`` where rounding would say none or all; ``?`` for unknown."""
    if share is None:
        return "?"
    if 0 < share <= 0.005:
        return "<1 %"
    return ">99 %" if 0.995 <= share < 1 else f"{100 * share:.0f} %"


def count(value: float | None) -> str:
    """``12,000``; ``?`` for unknown."""
    return "?" if value is None else f"{value:,.0f}"


def plural(number: int, noun: str) -> str:
    """``1 request``, ``20 requests``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def rate(tok_s: float | None) -> str:
    """``39.9 tok/s``, ``1,500 tok/s``; ``?`` for unknown."""
    if tok_s is None:
        return "?"
    return f"{tok_s:,.0f} tok/s" if tok_s >= 100 else f"{tok_s:.1f} tok/s"


def size(n_bytes: float | None) -> str:
    """Binary sizes as engines print them: ``92.1 MiB``, ``4.58 GiB``; ``?`` for unknown."""
    if n_bytes is None:
        return "?"
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if n_bytes >= scale:
            return f"{_three_digits(n_bytes / scale)} {unit}"
    return f"{n_bytes:.0f} B"


def measure(value: float | str | None, unit: str) -> str:
    """A value with its unit, in the form that fits the unit."""
    if isinstance(value, bool):
        value = "yes" if value else "no"
    if isinstance(value, str) or value is None:
        return f"{value if value is not None else '?'} {unit}".rstrip()
    match unit:
        case "ms":
            return duration(value)
        case "share":
            return percent(value)
        case "bytes":
            return size(value)
        case "tok/s":
            return rate(value)
    shown = count(value) if float(value).is_integer() else _three_digits(value)
    return f"{shown} {unit}".rstrip()


def _three_digits(value: float) -> str:
    if abs(value) >= 999.5:
        return count(value)
    return f"{value:.3g}" if abs(value) >= 0.001 else "<0.001"
