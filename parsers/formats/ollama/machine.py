"""What Ollama says of its machine when it starts, and what a model will need there.

The devices and the system hold for every model that is loaded later. The memory of a model is an estimate
before it is loaded (until 0.12); the engine in Go then says what it took (0.6 to 0.24).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from parsers.formats.llama_cpp import on_host, size_bytes
from parsers.formats.systems import system_of_path
from parsers.setup import Device

if TYPE_CHECKING:
    from parsers.formats.base import At
    from parsers.setup import Setup

_FIELD = re.compile(rb'(?<![\w.])([\w.]+)=(?:"([^"]*)"|(\S*))')
_MODELS = re.compile(r"\bOLLAMA_MODELS:(\S+)")
_BACKENDS = {"cpu": "CPU", "cuda": "CUDA", "rocm": "ROCm", "metal": "Metal", "vulkan": "Vulkan"}
_CPU = "cpu"
_WEIGHTS_ALONE = 0, 6, 1


def fields(printed: bytes) -> dict[str, str]:
    """The ``key=value`` pairs of a slog line."""
    return {
        key.decode(): (quoted or bare).decode("utf-8", "replace")
        for key, quoted, bare in _FIELD.findall(printed)
    }


class Machine:
    """The system and the devices, until Ollama starts again."""

    def __init__(self) -> None:
        self._system: tuple[str, str | None] = ("", None)
        self._devices: list[Device] = []
        self._devices_origin = ""
        self._alone: At | None = None

    def started(self) -> None:
        """Ollama lists its devices after this."""
        self._devices = []
        self._alone = None

    def config(self, env: bytes, at: At) -> None:
        """``env="map[... OLLAMA_MODELS:/Users/me/.ollama/models ...]"``: the path shows the system."""
        models = _MODELS.search(env.decode("utf-8", "replace"))
        self._system = f"log line {at.number}", system_of_path(models[1]) if models else None

    def compute(self, printed: bytes, at: At) -> None:
        """One ``inference compute`` line, a device; the CPU is named only where there is no other."""
        found = fields(printed)
        library = found.get("library", "")
        backend = _BACKENDS.get(library.lower(), library)
        name = found.get("description") or found.get("name") or backend
        if not name:
            return
        alone = library == _CPU
        total = size_bytes(found.get("total", "").encode())
        device = Device(name="CPU" if alone else name, backend=backend or None, memory_bytes=total)
        self._devices, self._devices_origin = [*self._devices, device], f"log line {at.number}"
        if backend == "Metal":
            self._system = self._devices_origin, "macos"
        if alone:
            self._alone = at

    def take_alone(self) -> At | None:
        """Where it said that there is only the CPU; told once."""
        alone, self._alone = self._alone, None
        return alone

    def teach(self, setup: Setup) -> None:
        """Add to a model's setup what its own lines don't say."""
        origin, system = self._system
        if setup.os is None:
            setup.learn(origin, os=system)
        if not setup.devices and self._devices:
            setup.learn(self._devices_origin, devices=list(self._devices))
        for device in setup.devices:
            sizes = {known.memory_bytes for known in self._devices if known.name == device.name}
            if device.memory_bytes is None and len(sizes) == 1:
                [device.memory_bytes] = sizes


def estimate(printed: bytes, version: str | None) -> dict[str, Any]:
    """Setup facts of Ollama's estimate; the graph of several GPUs is of each, so it is left out.

    Until 0.6.0 the total of the weights has the KV cache in it (`llm/memory.go` of both).
    """
    found = fields(printed)
    weights, cache = (
        size_bytes(found.get(name, "").encode()) for name in ("memory.weights.total", "memory.required.kv")
    )
    if weights and cache and _before(version, _WEIGHTS_ALONE):
        weights -= cache
    offloaded, layers = _count(found.get("layers.offload")), _count(found.get("layers.model"))
    graph = found.get("memory.graph.full" if offloaded == layers else "memory.graph.partial", "")
    on_one_gpu = offloaded and not found.get("layers.split")
    return {
        "layers_offloaded": offloaded,
        "layers_offloadable": layers,
        "kv_bytes": cache,
        "weights_bytes": weights,
        "compute_bytes": size_bytes(graph.encode()) if on_one_gpu else None,
    }


def _before(version: str | None, limit: tuple[int, ...]) -> bool:
    """Whether a version is known to be older; a release candidate counts as its release."""
    numbers = re.match(r"(\d+)\.(\d+)\.(\d+)", version or "")
    return numbers is not None and tuple(map(int, numbers.groups())) < limit


def _count(printed: str | None) -> int | None:
    return int(printed) if printed and printed.isdigit() else None


class Memory:
    """What a model took on each device, as the engine in Go says it line by line."""

    def __init__(self) -> None:
        self._bytes: dict[tuple[bytes, bytes], int] = {}
        self._whole = False

    def add(self, what: bytes, device: bytes, size: bytes) -> dict[str, int | None]:
        """One line; the setup facts so far."""
        if self._whole:
            self._bytes.clear()
            self._whole = False
        self._bytes[what, device] = size_bytes(size) or 0
        weights, cache = self._sum(b"model weights"), self._sum(b"kv cache")
        return {
            "weights_bytes": sum(weights) or None,
            "gpu_weights_bytes": weights[0] or None,
            "cpu_weights_bytes": weights[1] or None,
            "kv_bytes": sum(cache) or None,
            "kv_cpu_bytes": cache[1] if sum(cache) else None,
            "compute_bytes": self._sum(b"compute graph")[0] or None,
        }

    def total(self) -> None:
        """That was all of it: what follows is another attempt, or another model."""
        self._whole = True

    def _sum(self, what: bytes) -> tuple[int, int]:
        """Bytes on GPUs, and in the machine's own memory."""
        sums = [0, 0]
        for (kind, device), size in self._bytes.items():
            if kind == what:
                sums[on_host(device)] += size
        return sums[0], sums[1]
