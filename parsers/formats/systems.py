"""Which operating system an engine runs on, where its log shows it: by its build, or by its paths."""

from __future__ import annotations

import re

_BUILDS = {
    "windows": re.compile(rb"windows|msvc|mingw", re.IGNORECASE),
    "macos": re.compile(rb"darwin|macos", re.IGNORECASE),
    "linux": re.compile(rb"linux", re.IGNORECASE),
}
_PATHS = {
    "windows": re.compile(r"[A-Za-z]:[\\/]"),
    "macos": re.compile(r"/Users/"),
    "linux": re.compile(r"/(?:home|root|usr/share|mnt|srv)/"),
}


def system_of_build(built: bytes | None) -> str | None:
    """By compiler and target, such as ``GNU 12.2.0 for Linux x86_64``; ``None`` where neither tells."""
    return next((system for system, said in _BUILDS.items() if said.search(built or b"")), None)


def system_of_path(path: str | None) -> str | None:
    """By where a file lies; ``None`` for a path that any system may have."""
    return next((system for system, place in _PATHS.items() if place.match(path or "")), None)
