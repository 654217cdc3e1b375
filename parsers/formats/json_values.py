"""Values of decoded JSON, taken only where they are what they should be."""

from __future__ import annotations

from typing import Any

MAX_COUNT = 1 << 53
"""Beyond it JSON's numbers are no longer whole ones everywhere."""


def count(values: dict[str, Any], key: str) -> int | None:
    """A whole number that is not negative; ``None`` for all else, as where a zero is left out."""
    value = values.get(key)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value <= MAX_COUNT else None


def text(values: dict[str, Any], key: str) -> str | None:
    """A string that is not empty, without what is no character; ``None`` for all else."""
    value = values.get(key)
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) and value else None
