"""``phasewise.toml``: facts about the machine that no log says, given once."""

from __future__ import annotations

import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

from advisor.sources.files import InputError
from rules.measures import Machine

FILE = "phasewise.toml"
_UNITS = {"K": 10, "M": 20, "G": 30, "T": 40}


def machine(given: Machine, folder: Path | None = None) -> Machine:
    """What the user gave on the command line, completed by ``[machine]`` of ``phasewise.toml`` here.

    Raises:
        InputError: the file is no TOML, or has an unknown or ill-typed key.
    """
    path = (folder or Path.cwd()) / FILE
    stated = _section(path) if path.is_file() else {}
    names = {f.name for f in fields(Machine)}
    values = {name: getattr(given, name) for name in names}
    for key, value in stated.items():
        name = _NAMES.get(key, key)
        if name not in names:
            raise InputError(f"{path}: [machine] has no key {key!r}; it may have {', '.join(_NAMES)}.")
        if values[name] is None:
            values[name] = _typed(path, key, value)
    return Machine(**values)


_NAMES = {
    "device": "device",
    "bandwidth": "bandwidth_gb_s",
    "vram": "vram_bytes",
    "memory": "memory_bytes",
    "cores": "cores",
    "sockets": "sockets",
}


def _section(path: Path) -> dict[str, Any]:
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: can't be read as TOML ({error}).") from None
    section = data.get("machine", {})
    if not isinstance(section, dict):
        raise InputError(f"{path}: [machine] must be a table.")
    return section


def _typed(path: Path, key: str, value: Any) -> Any:
    try:
        if key == "device":
            return str(value)
        if key == "bandwidth":
            return float(value)
        return parse_size(str(value)) if key in ("vram", "memory") else int(value)
    except (TypeError, ValueError):
        raise InputError(f"{path}: [machine] {key} = {value!r} is not what {key} takes.") from None


def parse_size(text: str) -> int:
    """``24GiB``, ``24G`` or ``24 GB`` in bytes, all binary as engines print them; a plain number is bytes.

    Raises:
        ValueError: it is no size.
    """
    word = text.strip().upper().removesuffix("B").removesuffix("I")
    shift = _UNITS.get(word[-1:], 0)
    number = float(word[:-1] if shift else word)
    if number <= 0:
        raise ValueError(text)
    return round(number * (1 << shift))
