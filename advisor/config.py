"""``phasewise.toml``: what no log says about the machine, and which rules are asked, which limits hold.

The file of the current folder goes before the one in the user's configuration folder, and the command line
before both::

    [machine]
    device = "RTX 4090"                # or "this-machine", once `phasewise calibrate` has measured it

    [rules]
    disable = ["output-long"]          # or enable = ["prefill-*"]

    [rules.prefill-dominates-long-prompt]
    prefill_share = 0.5

    [check]
    max-ttft-p95 = "2s"
"""

from __future__ import annotations

import math
import tomllib
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from advisor.errors import InputError
from rules.hardware import THIS_MACHINE, Machine
from rules.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rules.rule import Rule

FILE = "phasewise.toml"
_SECTIONS = ("machine", "rules", "check")
_UNITS = {"K": 10, "M": 20, "G": 30, "T": 40}
_SMALLEST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class _Key:
    """A key of ``[machine]``: the field of `Machine` it fills, how it is read, what it takes."""

    field: str
    read: Callable[[Any], Any]
    takes: str


def files(folder: Path | None = None) -> list[Path]:
    """The configuration files there are, the nearer one first."""
    places = ((folder or Path()) / FILE, user_file())
    return [path for path in places if path.is_file()]


def user_file() -> Path:
    """Where the user's own ``phasewise.toml`` belongs on this system."""
    return Path(typer.get_app_dir("phasewise")) / FILE


def machine(given: Machine, folder: Path | None = None) -> Machine:
    """What the user gave on the command line, completed by ``[machine]`` of the files.

    Raises:
        InputError: a file is no TOML, or has an unknown or ill-typed key; or this machine is named, and was
            not measured.
    """
    values = asdict(given)
    for path in files(folder):
        section = _section(path, "machine")
        of_another = values["device"] is not None and section.get("device") not in (None, values["device"])
        for name, value in section.items():
            key = _KEYS.get(name)
            if key is None:
                raise InputError(f"{path}: [machine] has no key {name!r}; it may have {', '.join(_KEYS)}.")
            stated = _stated(path, name, key, value)
            if values[key.field] is None and not (of_another and name in ("bandwidth", "vram")):
                values[key.field] = stated
                if key.field == "device":
                    values["origin"] = FILE
    known = Machine(**values)
    return _measured(known) if known.device == THIS_MACHINE else known


def _measured(known: Machine) -> Machine:
    """This machine's own figures, where the user gave none."""
    from advisor.calibration import required

    found = required()
    given = known.bandwidth_gb_s
    return replace(
        known,
        device=None,
        bandwidth_gb_s=given or found.memory_gb_s,
        measured_on=None if given else f"{found.measured_at:%Y-%m-%d}",
        memory_bytes=known.memory_bytes or found.machine.memory_bytes,
        cores=known.cores or found.machine.cores,
    )


def settings(folder: Path | None = None) -> Settings:
    """What ``[rules]`` of the files says.

    Raises:
        InputError: a file is no TOML, or names a rule or threshold that there is not.
    """
    listed: dict[str, list[str]] = {}
    thresholds: dict[str, dict[str, float]] = {}
    for path in files(folder):
        for name, value in _section(path, "rules").items():
            if name in ("enable", "disable"):
                listed.setdefault(name, _patterns(path, name, value))
            else:
                near = thresholds.get(name, {})
                thresholds[name] = {**_thresholds(path, name, value), **near}
    if not listed and not thresholds:
        return Settings()
    enabled, disabled = listed.get("enable", ["*"]), listed.get("disable", [])
    off = (i for i in _rules() if not _matches(i, enabled) or _matches(i, disabled))
    return Settings(frozenset(off), thresholds)


def sections(name: str, folder: Path | None = None) -> list[tuple[Path, dict[str, Any]]]:
    """A section of each file as it stands there, the nearer file first.

    Raises:
        InputError: a file is no TOML.
    """
    return [(path, _section(path, name)) for path in files(folder)]


def _rules() -> dict[str, Rule]:
    from rules.catalogue import all_rules

    return {loaded.rule.id: loaded.rule for loaded in all_rules()}


def _matches(rule_id: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(rule_id, pattern) for pattern in patterns)


def _patterns(path: Path, name: str, value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise InputError(f"{path}: [rules] {name} = {value!r} is not a list of rule ids.")
    for pattern in value:
        if not any(fnmatchcase(rule_id, pattern) for rule_id in _rules()):
            raise InputError(f"{path}: [rules] {name}: no rule is called {pattern!r}{_near(pattern)}.")
    return value


def _thresholds(path: Path, rule_id: str, value: Any) -> dict[str, float]:
    rule = _rules().get(rule_id)
    if rule is None:
        raise InputError(f"{path}: [rules]: no rule is called {rule_id!r}{_near(rule_id)}.")
    if not isinstance(value, dict):
        raise InputError(f"{path}: [rules] {rule_id} must be a table of thresholds.")
    for name, number in value.items():
        if name not in rule.thresholds:
            there = ", ".join(rule.thresholds) or "none"
            raise InputError(f"{path}: [rules.{rule_id}] has no threshold {name!r}; it has {there}.")
        if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number < math.inf:
            raise InputError(f"{path}: [rules.{rule_id}] {name} = {number!r} is not a number from 0 up.")
    return {name: float(number) for name, number in value.items()}


def _near(name: str) -> str:
    near = get_close_matches(name, _rules(), n=1)
    return f"; {near[0]!r} is the nearest" if near else "; `phasewise rules` lists them"


def _section(path: Path, name: str) -> dict[str, Any]:
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: can't be read as TOML ({error}).") from None
    for key in data:
        if key not in _SECTIONS:
            there = ", ".join(f"[{section}]" for section in _SECTIONS)
            raise InputError(f"{path}: {key!r} is not known there; put the keys under {there}.")
    section = data.get(name, {})
    if not isinstance(section, dict):
        raise InputError(f"{path}: [{name}] must be a table.")
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
