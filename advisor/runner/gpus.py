"""GPUs of this machine, whether or not an engine was built for them, and how to build one that was."""

from __future__ import annotations

import ctypes.util
import platform
import shutil
import sys
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from advisor.runner.engine import Processor

_DRM, _KFD = Path("/sys/class/drm"), Path("/dev/kfd")
_NVIDIA_CARDS = Path("/proc/driver/nvidia/gpus")
_NVIDIA, _AMD, _INTEL = "0x10de", "0x1002", "0x8086"
_INSIDE_THE_CPU = "0000:00:02.0"
"""Where Intel's processors have their own graphics, which is no faster than they are."""
_PACKAGE = "llama-cpp-python"
_BUILD = "pip install --no-cache-dir llama-cpp-python"
_REBUILD = f"pip install --force-reinstall --no-deps --no-cache-dir {_PACKAGE}"


class Api(Enum):
    """What a GPU is computed with: its name, the option that builds llama.cpp for it, and what that needs."""

    CUDA = ("CUDA", "-DGGML_CUDA=on", "the CUDA toolkit (nvcc)")
    METAL = ("Metal", "-DGGML_METAL=on", "Xcode's command line tools")
    HIP = ("ROCm", "-DGGML_HIP=on", "ROCm")
    VULKAN = ("Vulkan", "-DGGML_VULKAN=on", "the Vulkan SDK (glslc)")

    def __init__(self, title: str, option: str, needs: str) -> None:
        self.title, self.option, self.needs = title, option, needs


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU of this machine.

    Attributes:
        name: of the product, where it can be told.
        api: the one that suits it best here.
    """

    name: str
    api: Api


def present() -> tuple[Gpu, ...]:
    """The GPUs that layers could be offloaded to; none where none can be seen."""
    if sys.platform == "darwin":
        return (Gpu("the GPU of this Mac", Api.METAL),) if platform.machine() == "arm64" else ()
    found = [Gpu(name, Api.CUDA) for name in _nvidia_names()]
    if sys.platform == "win32":
        if ctypes.util.find_library("amdhip64") or ctypes.util.find_library("amdhip64_6"):
            found.append(Gpu("an AMD GPU", Api.VULKAN))
        return tuple(found)
    for vendor, place in _cards():
        if vendor == _AMD:
            found.append(Gpu("an AMD GPU", Api.HIP if _KFD.exists() else Api.VULKAN))
        elif vendor == _INTEL and place != _INSIDE_THE_CPU:
            found.append(Gpu("an Intel GPU", Api.VULKAN))
    return tuple(found)


def unused(name: str, processors: Sequence[Processor], gpus: Sequence[Gpu] | None = None) -> str | None:
    """A sentence where this machine has a GPU and an engine's build can't use one.

    Args:
        name: of the engine's package.
        processors: what the build sees.
        gpus: what the machine has; ``None`` looks.
    """
    gpus = present() if gpus is None else gpus
    if not gpus or any(one.is_gpu for one in processors):
        return None
    api = gpus[0].api
    line = _REBUILD if name == _PACKAGE else _BUILD
    return (
        f"This machine has {gpus[0].name}, but {name} was built for the CPU only. To build {_PACKAGE} for "
        f"{api.title} (minutes; needs a C++ compiler and {api.needs}): {_with_option(api, line)}"
    )


def install_line(extra: str) -> str:
    """The line that installs an extra of this project on this machine, and what it takes.

    Args:
        extra: ``runner`` is compiled here, for the GPU that is here; every other comes ready.
    """
    if extra != "runner":
        return "pip install xllamacpp  (ready in seconds)"
    gpus = present()
    if not gpus:
        return "pip install llama-cpp-python  (compiles for minutes; needs a C++ compiler)"
    api = gpus[0].api
    line = _with_option(api, _BUILD)
    return f"{line}  (compiles for minutes, for {gpus[0].name}; needs a C++ compiler and {api.needs})"


def _with_option(api: Api, line: str) -> str:
    """The line with what CMake is told; pip would reuse a build that was told something else."""
    if sys.platform == "win32":
        return f'$env:CMAKE_ARGS="{api.option}"; {line}'
    return f'CMAKE_ARGS="{api.option}" {line}'


def _nvidia_names() -> list[str]:
    """As the driver names them; without its library, whether there are any."""
    names = _asked_names()
    if names:
        return names
    is_here = _NVIDIA_CARDS.is_dir() or any(vendor == _NVIDIA for vendor, _ in _cards())
    return ["an NVIDIA GPU"] if is_here or shutil.which("nvidia-smi") else []


def _asked_names() -> list[str]:
    try:
        import pynvml
    except ImportError:
        return []
    try:
        pynvml.nvmlInit()
        count = pynvml.nvmlDeviceGetCount()
        names = [pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByIndex(n)) for n in range(count)]
        pynvml.nvmlShutdown()
    except (pynvml.NVMLError, OSError):
        return []
    return [name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name) for name in names]


def _cards() -> list[tuple[str, str]]:
    """Vendor and place on the bus of each graphics card that Linux lists."""
    cards = []
    try:
        for card in sorted(_DRM.glob("card*/device")):
            vendor = (card / "vendor").read_text().strip()
            cards.append((vendor, card.resolve().name))
    except OSError:
        return cards
    return list(dict.fromkeys(cards))
