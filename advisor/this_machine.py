"""The machine that this runs on, as a device to estimate for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from advisor.calibration import kept, required
from advisor.command import warn
from advisor.errors import InputError
from advisor.estimate_inputs import Hardware

if TYPE_CHECKING:
    from advisor.calibration import Calibration
    from rules.hardware import Machine


def measured_hardware(given: Machine, tflops: float | None) -> Hardware | None:
    """What was measured of this machine; of a GPU that is only what an engine did with a model.

    Args:
        given: what the user said of the machine: its name, or nothing.
        tflops: of its tensor cores.

    Returns:
        None where the user gave another device, or nothing is kept; what can't be used is told.

    Raises:
        InputError: the user named this machine, and it was not measured.
    """
    found = required() if given.measured_on else _by_itself(given)
    if found is None:
        return None
    on_gpu = found.model is not None and found.model.on_gpu
    return Hardware(
        name="this machine",
        bandwidth_bounds_gb_s=None if on_gpu else found.memory_bounds_gb_s,
        tensor_tflops=tflops,
        memory_bytes=given.vram_bytes or (None if on_gpu else found.machine.memory_bytes),
        calibrated=found,
    )


def _by_itself(given: Machine) -> Calibration | None:
    """Without any device named."""
    if given.device or given.bandwidth_gb_s or given.vram_bytes:
        return None
    try:
        return kept()
    except InputError as error:
        warn(str(error))
        return None
