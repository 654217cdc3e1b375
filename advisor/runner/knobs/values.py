"""What a knob's value may be: text in, a checked value out, else one clear sentence."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.errors import InputError
from rules.physics.kv import KV_BYTES_PER_VALUE

if TYPE_CHECKING:
    from collections.abc import Callable

    Check = Callable[[str], object]

MOST_TOKENS = 10_000_000
MOST_THREADS = 1024
KV_TYPES = tuple(name for name in KV_BYTES_PER_VALUE if name != "fp8")
"""Names that llama.cpp has."""

PLAIN_KV_TYPES = ("f32", "f16", "bf16")
"""Those that hold a value each: all others are quantised."""

_WHOLE = re.compile(r"[0-9]{1,9}")
_SWITCH = {"on": True, "off": False}


class WrongValueError(InputError):
    """A knob can't be turned to this; the message says what it takes."""


def whole(least: int, most: int) -> Check:
    """A whole number between two, both included."""

    def check(value: str) -> int:
        if not _WHOLE.fullmatch(value) or not least <= int(value) <= most:
            raise WrongValueError(f"a whole number from {least:,} to {most:,}")
        return int(value)

    return check


def switch(value: str) -> bool:
    """``on`` or ``off``."""
    if value not in _SWITCH:
        raise WrongValueError("on or off")
    return _SWITCH[value]


def one_of(*names: str) -> Check:
    """One of these words."""

    def check(value: str) -> str:
        if value not in names:
            raise WrongValueError(" or ".join((", ".join(names[:-1]), names[-1])))
        return value

    return check


def or_word(word: str, meaning: object, check: Check) -> Check:
    """A word that stands for a value, or what another check takes."""

    def either(value: str) -> object:
        if value == word:
            return meaning
        try:
            return check(value)
        except WrongValueError as error:
            raise WrongValueError(f"{word}, or {error}") from None

    return either


def gguf(value: str) -> Path:
    """A file of this kind; whether it is there and whole is seen when it is loaded."""
    if not value.lower().endswith(".gguf"):
        raise WrongValueError("a GGUF file")
    return Path(value)


kv_type = one_of(*KV_TYPES)
