"""What ``phasewise calibrate`` measured of this machine, kept in the user's cache folder.

It is used where the user names the device ``this-machine``, and by ``phasewise estimate`` where no device is
named. It is never used on another machine, and never by itself for a log, which may be from anywhere.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, Literal

from pydantic import AwareDatetime, Field, PositiveFloat, PositiveInt, ValidationError

from advisor.cpu import cpu_name
from advisor.errors import InputError
from advisor.section import Section
from rules.hardware import THIS_MACHINE
from rules.words import percent, plural

SCHEMA: Final = "phasewise.calibration/1"
FOLDER_VARIABLE = "PHASEWISE_CACHE_DIR"
"""Names another folder than the user's own cache folder."""

MOST_SPREAD = 0.25
"""The best of several measurements over their median: more is noise, and is not kept."""

MOST_OTHERS = 0.5
"""Cores that other programs may use meanwhile, all of which are measured: an idle desktop uses less."""

_MEMORY_DIFFERS = 0.03
"""A new kernel keeps a little more or less of the memory for itself."""

_AGAIN = "run `phasewise calibrate` again when the machine is quiet"
_VARIED = f"varied by more than {percent(MOST_SPREAD)}; {_AGAIN}"


class MachineFacts(Section):
    """What tells one machine from another."""

    cpu: str
    cores: PositiveInt
    threads: PositiveInt
    memory_bytes: PositiveInt


class Rate(Section):
    """The best of several measurements, and their median."""

    best: PositiveFloat
    median: PositiveFloat

    @property
    def is_steady(self) -> bool:
        """Whether the measurements agree."""
        return self.best <= self.median * (1 + MOST_SPREAD)


class ReadRate(Section):
    """Main memory, read by so many threads at once."""

    threads: PositiveInt
    gb_s: Rate


class PrefillRate(Section):
    """A prompt of so many tokens, none of them cached; ``gflops`` is what its median run computed."""

    tokens: PositiveInt
    tok_s: Rate
    gflops: PositiveFloat | None = None


class DecodeRate(Section):
    """Tokens generated at a context depth; ``gb_s`` is what the median run read: weights and KV cache."""

    depth: PositiveInt
    tok_s: Rate
    kv_bytes: float | None = Field(default=None, ge=0)
    gb_s: PositiveFloat


class ModelRates(Section):
    """What an engine did with a model, and how it ran; ``on_gpu`` where it had one to use."""

    name: str
    read_bytes: PositiveFloat
    engine: str
    engine_version: str | None = None
    on_gpu: bool
    threads: PositiveInt
    flash_attention: bool
    prefill: list[PrefillRate] = Field(default_factory=list)
    decode: list[DecodeRate] = Field(default_factory=list)

    def reads_like(self, read_bytes: float, ratio: float) -> bool:
        """Whether another model's token reads about as much."""
        return max(read_bytes / self.read_bytes, self.read_bytes / read_bytes) <= ratio

    @property
    def decode_spread(self) -> float:
        """How far its best decode is above the median, as a share of it."""
        return max((one.tok_s.best / one.tok_s.median - 1 for one in self.decode), default=0.0)

    @property
    def decode_gb_s(self) -> tuple[float, float] | None:
        """GB/s at which median runs read weights and KV cache, by the shallowest and the deepest context.

        Without two depths, or where depth costs nothing that can be seen, one rate for both.
        """
        if not self.decode:
            return None
        shallow, deep = self.decode[0], self.decode[-1]
        more_ms = 1000 / deep.tok_s.median - 1000 / shallow.tok_s.median
        more_bytes = (deep.kv_bytes or 0.0) - (shallow.kv_bytes or 0.0)
        if more_ms <= 0 or more_bytes <= 0:
            return shallow.gb_s, shallow.gb_s
        kv_gb_s = more_bytes / (more_ms * 1e6)
        weights_ms = 1000 / shallow.tok_s.median - (shallow.kv_bytes or 0.0) / (kv_gb_s * 1e6)
        return (self.read_bytes / (weights_ms * 1e6), kv_gb_s) if weights_ms > 0 else (shallow.gb_s,) * 2


class Calibration(Section):
    """The figures of one machine."""

    schema_: Literal["phasewise.calibration/1"] = Field(alias="schema")
    measured_at: AwareDatetime
    machine: MachineFacts
    memory: list[ReadRate] = Field(min_length=1)
    compute_gflops: Rate
    model: ModelRates | None = None

    @property
    def memory_bounds_gb_s(self) -> tuple[float, float]:
        """As memory is usually read, and the fastest it was, by the best number of threads."""
        fastest = max((one.gb_s for one in self.memory), key=lambda rate: rate.best)
        return fastest.median, fastest.best

    @property
    def memory_gb_s(self) -> float:
        """The fastest that memory was read, by any number of threads."""
        return self.memory_bounds_gb_s[1]

    @property
    def gb_s_by_threads(self) -> dict[int, float]:
        """Memory bandwidth by the number of threads that read."""
        return {one.threads: one.gb_s.best for one in self.memory}

    @property
    def words(self) -> str:
        """Where its figures are from: ``measured here on 2026-11-30``."""
        return f"measured here on {self.measured_at:%Y-%m-%d}"


class Told(Calibration):
    """What ``calibrate --format json`` prints: also whether it is kept, and why what is not kept is not."""

    kept: bool
    notes: list[str]


def steady(measured: Calibration, others_cores: float | None = None) -> tuple[Calibration | None, list[str]]:
    """What of it is worth keeping, and why the rest is not, in sentences.

    Args:
        measured: all of it.
        others_cores: that other programs used meanwhile; ``None`` where that is unknown.
    """
    if others_cores is not None and others_cores > MOST_OTHERS:
        used = f"other programs kept {others_cores:.1f} of {measured.machine.threads} processors busy"
        return None, [f"Measured, but not kept: {used}; {_AGAIN}."]
    parts = [(f"memory with {plural(one.threads, 'thread')}", one.gb_s) for one in measured.memory]
    parts.append(("arithmetic", measured.compute_gflops))
    shaky = [f"{name} ({percent(rate.best / rate.median - 1)})" for name, rate in parts if not rate.is_steady]
    if shaky:
        return None, [f"Measured, but not kept: {', '.join(shaky)} {_VARIED}."]
    model = measured.model
    if model is None:
        return measured, []
    rates = [one.tok_s for one in model.prefill] + [one.tok_s for one in model.decode]
    if all(one.is_steady for one in rates):
        return measured, []
    return measured.model_copy(update={"model": None}), [f"The model's rates are not kept: they {_VARIED}."]


def file() -> Path:
    """Where it is kept."""
    named = os.environ.get(FOLDER_VARIABLE)
    if named:
        return Path(named) / "calibration.json"
    from platformdirs import user_cache_path

    return user_cache_path("phasewise", appauthor=False) / "calibration.json"


def kept() -> Calibration | None:
    """What is kept of this machine; ``None`` where it was not measured.

    Raises:
        InputError: the file can't be read, or is another machine's.
    """
    path = file()
    try:
        found = Calibration.model_validate_json(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise InputError(f"{path}: can't be read ({error.strerror or error}).") from None
    except ValidationError:
        raise InputError(f"{path}: not a calibration; run `phasewise calibrate` again.") from None
    if not is_same(found.machine, here()):
        raise InputError(f"{path}: measured on another machine; run `phasewise calibrate` on this one.")
    return found


def keep(measured: Calibration) -> Path:
    """Write it, whole or not at all.

    Raises:
        InputError: it can't be written.
    """
    from advisor.output import json_text, write_text

    path = file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path.parent}: can't be made ({error.strerror or error}).") from None
    write_text(json_text(measured), path)
    return path


def forget() -> bool:
    """Remove it; whether there was one.

    Raises:
        InputError: it can't be removed.
    """
    path = file()
    try:
        path.unlink()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise InputError(f"{path}: can't be removed ({error.strerror or error}).") from None
    return True


def required() -> Calibration:
    """As `kept`, for one who names `THIS_MACHINE`.

    Raises:
        InputError: there is none for this machine.
    """
    found = kept()
    if found is None:
        raise InputError(f"{THIS_MACHINE}: not measured yet; run `phasewise calibrate` once.")
    return found


def here() -> MachineFacts:
    """This machine."""
    import psutil

    threads = psutil.cpu_count() or 1
    return MachineFacts(
        cpu=cpu_name(),
        cores=psutil.cpu_count(logical=False) or threads,
        threads=threads,
        memory_bytes=psutil.virtual_memory().total,
    )


def is_same(one: MachineFacts, other: MachineFacts) -> bool:
    """Whether both are the same machine, as far as these facts tell."""
    if (one.cpu, one.cores, one.threads) != (other.cpu, other.cores, other.threads):
        return False
    return abs(one.memory_bytes / other.memory_bytes - 1) <= _MEMORY_DIFFERS
