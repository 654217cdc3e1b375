"""What a machine says of itself now; None for what it does not say."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

_SENSORS = ("coretemp", "k10temp", "zenpower", "cpu_thermal", "cpu-thermal", "soc_thermal")


def clock_mhz() -> float | None:
    """The processors' clock now."""
    import psutil

    with suppress(OSError, NotImplementedError, AttributeError, RuntimeError):
        clock = psutil.cpu_freq()
        return float(clock.current) if clock and clock.current else None
    return None


def heat() -> tuple[float | None, bool | None]:
    """The hottest of the processors' sensors, and whether any is at its own limit."""
    import psutil

    found: dict[str, Any] = {}
    with suppress(OSError, AttributeError, RuntimeError):
        found = psutil.sensors_temperatures()
    sensors = [one for name in _SENSORS for one in found.get(name, ()) if one.current]
    limited = [one for one in sensors if one.high]
    hottest = max((float(one.current) for one in sensors), default=None)
    return hottest, any(one.current >= one.high for one in limited) if limited else None


def on_battery() -> bool | None:
    """Whether power comes from a battery."""
    import psutil

    with suppress(OSError, NotImplementedError, AttributeError, RuntimeError):
        battery = psutil.sensors_battery()
        if battery is not None and battery.power_plugged is not None:
            return not battery.power_plugged
    return None
