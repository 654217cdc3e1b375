"""Decode on the CPU: threads beside cores, weights beside memory, and the bandwidth that is reached.

No log says how many physical cores, sockets or memory channels there are. What it says are hardware threads,
of which a core may have two, and from some engines the size of main memory; the rest the user gives.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from rules.hardware import CPU_BACKENDS
from rules.rule import CannotTell, NotApplicable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rules.measures import Measures
    from rules.rule import Evidence

THREADS_OF_A_CORE = 2
"""Most hardware threads of one core on x86 and ARM: of so many at least half as many are cores."""

FASTEST_DISK_GB_S = 15.0
"""What PCIe 5.0 x4, the fastest link of one drive, carries (15.75 GB/s less its framing)."""

GIVE_CORES = "--cores tells how many physical cores there are"


class Cpu:
    """One log's decode on the CPU.

    Args:
        m: the log's measures.
    """

    def __init__(self, m: Measures) -> None:
        self._m = m
        self._setup = m.setup

    @property
    def elsewhere(self) -> NotApplicable | CannotTell | None:
        """Why the CPU's speed is not the matter; ``None`` where it is."""
        if self._m.hardware.on_cpu is None:
            return CannotTell("the log hides where the weights are")
        if not self._m.hardware.on_cpu:
            return NotApplicable("weights are on a GPU")
        if self._m.hardware.gpus or self._m.hardware.gpu is not None:
            return NotApplicable("a GPU is idle, and that comes first")
        return None

    # --- threads and cores

    @property
    def cores(self) -> int | None:
        """Physical cores, as the user gives them."""
        return self._m.machine.cores

    @property
    def least_cores(self) -> int | None:
        """Physical cores: given, else as few as the hardware threads can be."""
        hardware = self._setup.threads_available
        return self.cores or (hardware // THREADS_OF_A_CORE if hardware else None)

    @property
    def most_cores(self) -> int | None:
        """Physical cores: given, else as many as the hardware threads can be."""
        return self.cores or self._setup.threads_available

    # --- bandwidth

    @property
    def reached(self) -> float | None:
        """Share of main memory's bandwidth that decode reads at.

        ``None`` where weights are not all there, or contexts so deep that attention takes the time.
        """
        telling = self.elsewhere is None and self._m.decoding.shallow is not False
        return self._m.decoding.reached if telling else None

    # --- memory

    @cached_property
    def memory_bytes(self) -> int | None:
        """Main memory: given, else as the log lists it."""
        listed = (d.memory_bytes for d in self._m.logged.devices if d.backend in CPU_BACKENDS)
        return self._m.machine.memory_bytes or next((size for size in listed if size), None)

    @cached_property
    def held_bytes(self) -> float | None:
        """What main memory should hold: all weights that no GPU has in its own memory, and their KV cache."""
        hardware, s = self._m.hardware, self._setup
        if not hardware.on_cpu and not hardware.shared_memory:
            return self._m.decoding.cpu_bytes
        return None if s.weights_bytes is None else float(s.weights_bytes + (s.kv_bytes or 0))

    @cached_property
    def missing_bytes(self) -> float | None:
        """Of it, what main memory has no room for; ``None`` where a size is unknown."""
        if self.held_bytes is None or self.memory_bytes is None:
            return None
        return max(self.held_bytes - self.memory_bytes, 0.0)

    @cached_property
    def held_gb_s(self) -> float | None:
        """GB/s if a token reads all that main memory should hold: all but mixtures of experts do."""
        ms = self._m.decoding.ms_per_token
        return None if self.held_bytes is None or ms is None else self.held_bytes / (ms * 1e6)

    @property
    def paging(self) -> bool:
        """Not all fits main memory, and tokens are slow enough for a disk to deliver it again for each."""
        return bool(self.missing_bytes) and self.held_gb_s is not None and self.held_gb_s <= FASTEST_DISK_GB_S

    # --- what was seen

    def evidence(self) -> Iterator[Evidence]:
        """Threads, cores, time per token and bandwidth in use, as far as they are known."""
        m, setup = self._m, self._setup
        if setup.threads is not None:
            yield m.stated("threads", "threads that generate")
        if setup.threads_available is not None:
            yield m.stated("threads_available", "hardware threads")
        if self.cores is not None:
            yield m.evidence("physical cores", self.cores)
        if m.ms_per_token is not None:
            yield m.evidence("time per token, median", round(m.ms_per_token, 2), "ms", rows=m.valid_decode)
        if self.reached is not None:
            yield m.evidence(f"memory bandwidth {m.bandwidth_is}", m.bandwidth_gb_s, "GB/s")
            yield m.evidence("of it in use", round(self.reached, 4), "share")
