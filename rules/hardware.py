"""The processors that one process start ran on: as its log lists them, and as the user names them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from rules.physics.devices import find_device

if TYPE_CHECKING:
    from parsers.setup import Device as Listed
    from parsers.setup import Setup
    from rules.physics.devices import Device

CPU_BACKENDS = ("CPU", "BLAS", "ACCEL")

THIS_MACHINE = "this-machine"
"""As a device: the machine that runs this, with the figures that `phasewise calibrate` measured."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What no log says and the user may give (``--device``, ``--bandwidth``, ``--vram``, ...).

    Attributes:
        measured_on: the day on which the bandwidth was measured, as that of main memory; else ``None``.
    """

    device: str | None = None
    bandwidth_gb_s: float | None = None
    vram_bytes: int | None = None
    memory_bytes: int | None = None
    cores: int | None = None
    sockets: int | None = None
    origin: str = "--device"
    measured_on: str | None = None


class Hardware:
    """What holds the weights and what could.

    Args:
        logged: the setup as the log states it, without what the user gave.
        machine: what the user gave.
    """

    def __init__(self, logged: Setup, machine: Machine) -> None:
        self._logged = logged
        self._machine = machine

    @cached_property
    def gpus(self) -> list[Listed]:
        """The GPUs that the log lists."""
        return [d for d in self._logged.devices if d.backend and d.backend not in CPU_BACKENDS]

    @cached_property
    def gpu(self) -> Device | None:
        """Known facts of the GPU that the user named or the log lists, whether it holds weights or not.

        ``None`` where several kinds are listed.
        """
        if self._machine.device:
            return find_device(self._machine.device, self._machine.vram_bytes)
        if len({d.name for d in self.gpus}) != 1:
            return None
        return find_device(self.gpus[0].name, self.gpus[0].memory_bytes)

    @cached_property
    def on_cpu(self) -> bool | None:
        """All weights are on the CPU; ``None`` where the log hides where they are."""
        s = self._logged
        if s.layers_offloaded or s.gpu_weights_bytes:
            return False
        if s.layers_offloaded == 0 or s.cpu_weights_bytes:
            return True
        return True if s.devices and not self.gpus else None

    @property
    def given_gb_s(self) -> float | None:
        """The bandwidth given for the memory that holds the weights; a measured one is main memory's."""
        is_elsewhere = self._machine.measured_on is not None and not self.on_cpu
        return None if is_elsewhere else self._machine.bandwidth_gb_s

    @cached_property
    def vram_bytes(self) -> int | None:
        """Memory of all GPUs together; ``None`` where one of them hides it."""
        if self._machine.vram_bytes is not None:
            return self._machine.vram_bytes
        sizes = [d.memory_bytes for d in self.gpus]
        known = [size for size in sizes if size is not None]
        return sum(known) if known and len(known) == len(sizes) else None

    @cached_property
    def metal(self) -> bool:
        """The log lists a GPU that runs on Metal."""
        return any(d.backend == "Metal" for d in self.gpus)

    @cached_property
    def shared_memory(self) -> bool | None:
        """The GPU has no memory of its own and reads the machine's; ``None`` for a GPU that is not known."""
        if self.metal:
            return True
        return None if self.gpu is None else self.gpu.device_class in ("apple", "strix")
