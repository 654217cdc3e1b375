"""``phasewise.toml``: facts about the machine that no log says, given once."""

from __future__ import annotations

import math
import tomllib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.errors import InputError
from rules.measures import Machine

if TYPE_CHECKING:
    from collections.abc import Callable

FILE = "phasewise.toml"
_UNITS = {"K": 10, "M": 20, "G": 30, "T": 40}
_SMALLEST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class _Key:
    """A key of ``[machine]``: the field of `Machine` it fills, how it is read, what it takes."""

    field: str
    read: Callable[[Any], Any]
    takes: str


def machine(given: Machine, folder: Path | None = None) -> Machine:
    """What the user gave on the command line, completed by ``[machine]`` of ``phasewise.toml`` here.

    Raises:
        InputError: the file is no TOML, or has an unknown or ill-typed key.
    """
    path = (folder or Path()) / FILE
    values = asdict(given)
    for name, value in (_section(path) if path.is_file() else {}).items():
        key = _KEYS.get(name)
        if key is None:
            raise InputError(f"{path}: [machine] has no key {name!r}; it may have {', '.join(_KEYS)}.")
        stated = _stated(path, name, key, value)
        if values[key.field] is None:
            values[key.field] = stated
            if key.field == "device":
                values["origin"] = FILE
    return Machine(**values)


def _section(path: Path) -> dict[str, Any]:
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: can't be read as TOML ({error}).") from None
    for name in data:
        if name != "machine":
            raise InputError(f"{path}: {name!r} is not known there; put the keys under [machine].")
    section = data.get("machine", {})
    if not isinstance(section, dict):
        raise InputError(f"{path}: [machine] must be a table.")
    return section


def _stated(path: Path, name: str, key: _Key, value: Any) -> Any:
    try:
        return key.read(value)
    except (TypeError, ValueError):
        raise InputError(f"{path}: [machine] {name} = {value!r} is not {key.takes}.") from None


def parse_size(text: str) -> int:
    """``24GiB``, ``24G`` or ``24 GB`` in bytes, all binary as engines print them; a plain number is bytes.

    Raises:
        ValueError: it is no size, or too small to be a memory's, such as a bare ``24``.
    """
    word = text.strip().upper().removesuffix("B").removesuffix("I")
    shift = _UNITS.get(word[-1:], 0)
    number = float(word[:-1] if shift else word) * (1 << shift)
    if not _SMALLEST_BYTES <= number < math.inf:
        raise ValueError(text)
    return round(number)


def _name(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _rate(value: Any) -> float:
    if isinstance(value, bool) or not 0 < value < math.inf:
        raise ValueError
    return float(value)


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError
    return value


def _bytes(value: Any) -> int:
    return parse_size(str(value))


_KEYS = {
    "device": _Key("device", _name, "a name such as 'RTX 4090'"),
    "bandwidth": _Key("bandwidth_gb_s", _rate, "a number of GB/s"),
    "vram": _Key("vram_bytes", _bytes, "a size such as '24GiB'"),
    "memory": _Key("memory_bytes", _bytes, "a size such as '64GiB'"),
    "cores": _Key("cores", _count, "a whole number"),
    "sockets": _Key("sockets", _count, "a whole number"),
}
