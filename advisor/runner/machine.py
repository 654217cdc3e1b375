"""What else a machine does while it measures: other programs, its host, heat, battery, a busy GPU.

What a look says of time is of the stretch since the look before. Unknown is None. Shares are of all
processors together.

Measured on a two-core virtual machine: with nothing else to do others used 0 to 2 % (stretches of 3 s), with
one busy process 50 %; a reference between them scattered by 1 to 3 % when it was quiet.
"""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from advisor.runner.kernels import Memory, Product
from rules.trials import drift
from rules.words import percent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

OTHERS = 0.05
"""Share of all processors that other programs use, from which a block is disturbed."""

STOLEN = 0.02
"""Share of the time that the host of a virtual machine gave to others."""

SLOW = 0.15
"""A reference that is so much slower than the median one was disturbed."""

_MEMORY_BYTES, _SIDE, _PART_S = 64 << 20, 512, 0.05
_SHORTEST_S = 0.2
"""The system counts processor time in steps of 10 ms: a shorter stretch tells no share."""

_SENSORS = ("coretemp", "k10temp", "zenpower", "cpu_thermal", "cpu-thermal", "soc_thermal")
_CLOCK_FELL = 0.93
_THROTTLES = {
    0x08 | 0x40 | 0x20: "heat",
    0x80: "its power supply",
    0x04: "its power limit",
}
"""By bits of NVML's clock event reasons: slowdowns by hardware and by heat, the external brake, the cap."""


@dataclass(frozen=True, slots=True)
class Moment:
    """One look.

    Attributes:
        load: processes that run or wait to, over the last minute.
        others_share: of all processors, used by other programs since the last look.
        stolen_share: of their time, that the host gave to other machines since the last look.
        clock_mhz: of the processors now.
        heat_c: the hottest sensor of a processor.
        is_hot: it is at the limit that it states.
        on_battery: power comes from a battery.
        gpu_held_back: what holds a GPU's clock back now.
        gpu_others: other programs that use a GPU.
    """

    load: float | None = None
    others_share: float | None = None
    stolen_share: float | None = None
    clock_mhz: float | None = None
    heat_c: float | None = None
    is_hot: bool | None = None
    on_battery: bool | None = None
    gpu_held_back: tuple[str, ...] | None = None
    gpu_others: int | None = None


@dataclass(frozen=True, slots=True)
class Reference:
    """How fast the machine was at a fixed piece of work, and the processors' clock under it."""

    memory_gb_s: float
    compute_gflops: float
    clock_mhz: float | None = None


class _Used(NamedTuple):
    """Processor seconds since the machine started, and of us and all that we started."""

    all_s: float
    busy_s: float
    stolen_s: float | None
    own_s: float


class Machine:
    """The machine that this process and its children run on."""

    def __init__(self) -> None:
        self._before: _Used | None = None
        self._gpus = _gpus()

    @cached_property
    def _work(self) -> tuple[Memory, Product]:
        return Memory(_MEMORY_BYTES, _cores()), Product(_SIDE)

    def look(self) -> Moment:
        """What the machine does now, and did since the last look."""
        others, stolen = self._shares()
        heat, is_hot = _heat()
        held_back, gpu_others = self._gpu()
        return Moment(
            load=_load(),
            others_share=others,
            stolen_share=stolen,
            clock_mhz=_clock_mhz(),
            heat_c=heat,
            is_hot=is_hot,
            on_battery=_on_battery(),
            gpu_held_back=held_back,
            gpu_others=gpu_others,
        )

    def reference(self) -> Reference:
        """The fixed work, about 0.1 s of it; each part is the median of its passes."""
        memory, compute = (float(np.median(work.rates(_PART_S))) for work in self._work)
        return Reference(memory, compute, _clock_mhz())

    def _shares(self) -> tuple[float | None, float | None]:
        before, self._before = self._before, _used()
        now = self._before
        if before is None or now.all_s - before.all_s < _SHORTEST_S * (os.cpu_count() or 1):
            return None, None
        span = now.all_s - before.all_s
        stolen = None
        if now.stolen_s is not None and before.stolen_s is not None:
            stolen = max(now.stolen_s - before.stolen_s, 0.0) / span
        if os.name == "nt":
            return None, stolen  # Windows forgets what a child used that has ended.
        others = (now.busy_s - before.busy_s) - (now.own_s - before.own_s)
        return min(max(others / span, 0.0), 1.0), stolen

    def _gpu(self) -> tuple[tuple[str, ...] | None, int | None]:
        if self._gpus is None:
            return None, None
        nvml, handles = self._gpus
        ours = {process.pid for process in _ours()}
        reasons: set[str] = set()
        others: set[int] = set()
        try:
            for handle in handles:
                bits = nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
                reasons.update(words for mask, words in _THROTTLES.items() if bits & mask)
                running = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
                others.update(process.pid for process in running if _is_foreign(process.pid, ours))
        except nvml.NVMLError:
            return None, None
        return tuple(sorted(reasons)), len(others)


class Watch:
    """Looks at the machine while turns are taken, and measures it between them."""

    def __init__(self) -> None:
        self.machine = Machine()
        self.moments: list[Moment] = []
        self.references: list[Reference] = []

    @contextmanager
    def turn(self) -> Iterator[None]:
        """One turn: what else the machine does during it counts, however it ends."""
        if not self.references:
            self.references.append(self.machine.reference())
        self.machine.look()
        try:
            yield
        finally:
            self.moments.append(self.machine.look())
            self.references.append(self.machine.reference())

    def disturbances(self) -> list[str]:
        """What disturbed the turns, in sentences."""
        return disturbances(self.moments, self.references)


def disturbances(moments: Sequence[Moment], references: Sequence[Reference]) -> list[str]:
    """What disturbed a trial, in sentences; none where nothing is known to have.

    Args:
        moments: a look after each block.
        references: the fixed work between blocks, in the order of time.
    """
    said = [
        *_shared([m.others_share for m in moments], OTHERS, "Other programs used {} of the processors"),
        *_shared([m.stolen_share for m in moments], STOLEN, "The host took {} of the processors' time away"),
    ]
    if hot := sum(bool(m.is_hot) for m in moments):
        said.append(f"A processor was at its limit of heat after {_of(hot, moments)}.")
    if any(m.on_battery for m in moments):
        said.append("The machine ran on battery.")
    said += _held_back(moments)
    if others := max((m.gpu_others or 0 for m in moments), default=0):
        said.append(f"{others} other program{' was' if others == 1 else 's were'} using the GPU.")
    return said + _slower(references)


def _shared(shares: Iterable[float | None], least: float, words: str) -> list[str]:
    known = [share for share in shares if share is not None]
    over = [share for share in known if share >= least]
    if not over:
        return []
    return [f"{words.format(percent(float(np.median(over))))} during {_of(len(over), known)}."]


def _of(some: int, all_of: Sequence[object]) -> str:
    return f"{some} of {len(all_of)} block{'' if len(all_of) == 1 else 's'}"


def _held_back(moments: Sequence[Moment]) -> list[str]:
    """A power limit that always holds is how the GPU runs; one that comes and goes is a disturbance."""
    known = [m.gpu_held_back for m in moments if m.gpu_held_back is not None]
    counts = {words: sum(words in one for one in known) for words in _THROTTLES.values()}
    told = {w: n for w, n in counts.items() if n and (w == "heat" or n < len(known))}
    return [f"The GPU was held back by {words} after {_of(n, known)}." for words, n in told.items()]


def _slower(references: Sequence[Reference]) -> list[str]:
    parts = {
        "reading memory": [r.memory_gb_s for r in references],
        "arithmetic": [r.compute_gflops for r in references],
    }
    said = []
    for name, rates in parts.items():
        fell = drift([1 / rate for rate in rates])
        slow = sum(rate < (1 - SLOW) * float(np.median(rates)) for rate in rates)
        if fell is not None:
            way = "slower" if fell > 0 else "faster"
            said.append(
                f"The reference, {name}, got {percent(abs(fell))} {way} during the run ({_why(references)})."
            )
        elif slow:
            said.append(
                f"The reference, {name}, was at least {percent(SLOW)} slower {slow} of {len(rates)} times."
            )
    return said


def _why(references: Sequence[Reference]) -> str:
    clocks = [r.clock_mhz for r in references if r.clock_mhz]
    if len(clocks) == len(references) and clocks[-1] < _CLOCK_FELL * clocks[0]:
        return f"its clock fell from {clocks[0] / 1000:.1f} to {clocks[-1] / 1000:.1f} GHz"
    return "heat, clocks, or other programs"


def _used() -> _Used:
    import psutil

    times = psutil.cpu_times()
    known = times._asdict()
    # Linux counts a guest's time in user's and nice's too.
    total = sum(known.values()) - known.get("guest", 0.0) - known.get("guest_nice", 0.0)
    rest = times.idle + known.get("iowait", 0.0) + known.get("steal", 0.0)
    own = 0.0
    for process in _ours():
        with suppress(psutil.Error):
            own += sum(process.cpu_times()[:4])  # user, system, and both of children that ended
    return _Used(total, total - rest, known.get("steal"), own)


def _ours() -> list[Any]:
    """This process and all that it started."""
    import psutil

    own = psutil.Process()
    with suppress(psutil.Error):
        return [own, *own.children(recursive=True)]
    return [own]


def _cores() -> int:
    import psutil

    return psutil.cpu_count(logical=False) or os.cpu_count() or 1


def _load() -> float | None:
    import psutil

    with suppress(OSError, AttributeError):
        return float(psutil.getloadavg()[0])
    return None


def _clock_mhz() -> float | None:
    import psutil

    with suppress(OSError, NotImplementedError, AttributeError, RuntimeError):
        clock = psutil.cpu_freq()
        return float(clock.current) if clock and clock.current else None
    return None


def _heat() -> tuple[float | None, bool | None]:
    """The hottest of the processors' sensors, and whether any is at its own limit."""
    import psutil

    found: dict[str, Any] = {}
    with suppress(OSError, AttributeError, RuntimeError):
        found = psutil.sensors_temperatures()
    sensors = [one for name in _SENSORS for one in found.get(name, ()) if one.current]
    limited = [one for one in sensors if one.high]
    hottest = max((float(one.current) for one in sensors), default=None)
    return hottest, any(one.current >= one.high for one in limited) if limited else None


def _on_battery() -> bool | None:
    import psutil

    with suppress(OSError, NotImplementedError, AttributeError, RuntimeError):
        battery = psutil.sensors_battery()
        if battery is not None and battery.power_plugged is not None:
            return not battery.power_plugged
    return None


def _gpus() -> tuple[Any, list[Any]] | None:
    """NVML and its devices; None without it."""
    try:
        import pynvml as nvml
    except ImportError:
        return None
    try:
        nvml.nvmlInit()
        handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
    except nvml.NVMLError:
        return None
    return (nvml, handles) if handles else None


def _is_foreign(pid: int, ours: set[int]) -> bool:
    """A container sees the host's numbers for its own programs: a number that is not here says nothing."""
    import psutil

    return pid not in ours and psutil.pid_exists(pid)
