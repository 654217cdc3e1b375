"""What else a machine does while it measures: other programs, its host, heat, battery, a busy GPU.

What a look says of time is of the stretch since the look before. Unknown is None. Shares are of all
processors together.

Measured on a two-core virtual machine, with half as much memory to read as now: with nothing else to do
others used 0 to 3 % of the processors; then the reference read 33 to 61 GB/s and multiplied at 132 to 197
GFLOP/s. With one other busy process they used 50 to 66 %, reading fell to 27 to 35 GB/s, and multiplying,
whose threads wait for each other, to 4 to 90.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from advisor.runner import sensors
from advisor.runner.cores import cores
from advisor.runner.kernels import Memory, Product, uncached_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_SIDE, _PART_S = 512, 0.05
_SHORTEST_S = 0.2
"""The system counts processor time in steps of 10 ms: a shorter stretch tells no share."""

_FORGETS = sys.platform in ("win32", "darwin")
"""What a child used is not known any more when it has ended."""

THROTTLES = {
    0x08 | 0x40 | 0x20: "heat",
    0x80: "its power supply",
    0x04: "its power limit",
}
"""By bits of NVML's clock event reasons: slowdowns by hardware and by heat, the external brake, the cap."""


@dataclass(frozen=True, slots=True)
class Moment:
    """One look.

    Attributes:
        others_share: of all processors, used by other programs since the last look.
        stolen_share: of their time, that the host gave to other machines since the last look.
        heat_c: the hottest sensor of a processor.
        is_hot: it is at the limit that it states.
        on_battery: power comes from a battery.
        gpu_held_back: what holds a GPU's clock back now.
        gpu_others: other programs that use a GPU.
    """

    others_share: float | None = None
    stolen_share: float | None = None
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
        self._children: dict[tuple[int, float], float] = {}
        self._is_noted = False
        self._gpus = _gpus()

    @cached_property
    def _work(self) -> tuple[Memory, Product]:
        return Memory(uncached_bytes(), cores()), Product(_SIDE)

    def look(self) -> Moment:
        """What the machine does now, and did since the last look."""
        others, stolen = self._shares()
        heat, is_hot = sensors.heat()
        held_back, gpu_others = self._gpu()
        return Moment(
            others_share=others,
            stolen_share=stolen,
            heat_c=heat,
            is_hot=is_hot,
            on_battery=sensors.on_battery(),
            gpu_held_back=held_back,
            gpu_others=gpu_others,
        )

    def note(self) -> None:
        """Remember what our children used so far, before they end, on systems that forget it then.

        To be called while they run; where it is never called, children may have run unseen.
        """
        import psutil

        if not _FORGETS:
            return
        self._is_noted = True
        for process in _ours()[1:]:
            with suppress(psutil.Error):
                times = process.cpu_times()
                self._children[process.pid, process.create_time()] = times.user + times.system

    def reference(self) -> Reference:
        """The fixed work, about 0.1 s of it; each part is the median of its passes."""
        memory, compute = (float(np.median(work.rates(_PART_S))) for work in self._work)
        return Reference(memory, compute, sensors.clock_mhz())

    def _shares(self) -> tuple[float | None, float | None]:
        before = self._before
        now = self._before = _used(sum(self._children.values()) if _FORGETS else None)
        is_known = self._is_noted or not _FORGETS
        self._is_noted = False
        if before is None or now.all_s - before.all_s < _SHORTEST_S * processors():
            return None, None
        span = now.all_s - before.all_s
        stolen = None
        if now.stolen_s is not None and before.stolen_s is not None:
            stolen = max(now.stolen_s - before.stolen_s, 0.0) / span
        if not is_known:
            return None, stolen
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
                reasons.update(words for mask, words in THROTTLES.items() if bits & mask)
                running = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
                others.update(process.pid for process in running if _is_foreign(process.pid, ours))
        except nvml.NVMLError:
            return None, None
        return tuple(sorted(reasons)), len(others)


class Watch:
    """Looks at the machine while turns are taken, and measures it between them."""

    def __init__(self) -> None:
        self.machine = Machine()
        self.moments: list[Moment] = []  # one for each turn, in their order
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

    def note(self) -> None:
        """To be called after each request, while its engine still runs; see `Machine.note`."""
        self.machine.note()

    def disturbances(self, *, turns_drift: bool = False) -> list[str]:
        """What disturbed the turns, in sentences.

        Args:
            turns_drift: the turns themselves got slower or faster.
        """
        from advisor.runner.disturbances import disturbances

        return disturbances(self.moments, self.references, processors(), turns_drift=turns_drift)


def crowded_cores(moments: Iterable[Moment], threads: int) -> float | None:
    """Cores that other programs used beyond those that an engine leaves free, in the middle one of the looks.

    A thread that shares its core holds all the others up, so it is cores that count and not their share: one
    busy program beside two threads on two cores slowed decode eightfold, as it does beside 16 on 16.

    Args:
        moments: looks after the turns that matter.
        threads: of the engine.

    Returns:
        None where it is unknown; 0 where others have cores of their own.
    """
    import psutil

    known = [moment.others_share for moment in moments if moment.others_share is not None]
    if not known:
        return None
    there = psutil.cpu_count(logical=False) or processors()
    return max(float(np.median(known)) * processors() - max(there - threads, 0), 0.0)


def processors() -> int:
    """That the system counts time of: hardware threads."""
    return os.cpu_count() or 1


def _used(children_s: float | None) -> _Used:
    """Counted now.

    Args:
        children_s: processor seconds of all that we started; ``None`` where the system remembers them.
    """
    import psutil

    times = psutil.cpu_times()
    known = times._asdict()
    # Linux counts a guest's time in user's and nice's too.
    total = sum(known.values()) - known.get("guest", 0.0) - known.get("guest_nice", 0.0)
    rest = times.idle + known.get("iowait", 0.0) + known.get("steal", 0.0)
    own = 0.0 if children_s is None else children_s + sum(psutil.Process().cpu_times()[:2])
    for process in _ours() if children_s is None else ():
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
