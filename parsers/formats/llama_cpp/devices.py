"""The header's lines about devices, and about those that could not be used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parsers.formats.base import At, Reader
from parsers.formats.llama_cpp.own import FAMILY, own
from parsers.setup import Device

if TYPE_CHECKING:
    import re

    from parsers.formats.process import Process


class DeviceLines(Reader):
    """Names each device once, whichever lines tell of it."""

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._forget()

    def _forget(self) -> None:
        """Start over, as each process does."""
        self._devices: dict[tuple[str, int], Device] = {}

    def _backend_loads(self, at: At) -> None:
        """Backends load once in a process, before it loads a model; a host tells of starts itself."""
        setup = self.process.setup
        if self.process.host is None and (setup.is_empty or setup.model is not None):
            self.process.start(at)
            self.process.belong(FAMILY)

    def cuda_found(self, m: re.Match[bytes], at: At) -> None:
        """``ggml_cuda_init: found 1 CUDA devices:``."""
        self._backend_loads(at)

    def cuda_failed(self, m: re.Match[bytes], at: At) -> None:
        """``ggml_cuda_init: failed to initialize CUDA: no CUDA-capable device is detected``."""
        self._backend_loads(at)
        self.process.announce(at, "fallback", f"{m['backend'].decode()} not used: {m['why'].decode()}")

    def no_gpu(self, m: re.Match[bytes], at: At) -> None:
        """``warning: no usable GPU found, --gpu-layers option will be ignored``, while reading arguments."""
        self._backend_loads(at)
        self.process.announce(at, "fallback", f"{m['why'].decode()}: the layers asked for stay on the CPU")

    @own
    def cuda(self, m: re.Match[bytes], at: At) -> None:
        """``Device 0: NVIDIA GeForce RTX 4090, compute capability 8.9, VMM: yes, VRAM: 24080 MiB``."""
        self._device(m, at, "ROCm" if m["kind"] == b"gfx" else "CUDA")

    @own
    def vulkan(self, m: re.Match[bytes], at: At) -> None:
        """``ggml_vulkan: 0 = AMD Radeon RX 7900 XT (RADV NAVI31) (radv) | uma: 0 | ...``."""
        self._device(m, at, "Vulkan")

    @own
    def metal(self, m: re.Match[bytes], at: At) -> None:
        """``ggml_metal_init: found device: Apple M3 Pro``."""
        self._device(m, at, "Metal")

    @own
    def using(self, m: re.Match[bytes], at: At) -> None:
        """``using device CUDA0 (NVIDIA GeForce RTX 4090) - 23000 MiB free``."""
        self._device(m, at, m["backend"].decode())

    @own
    def device(self, m: re.Match[bytes], at: At) -> None:
        """``- CUDA0 : NVIDIA GeForce RTX 4090 (24080 MiB, 23000 MiB free)`` in device_info."""
        self._device(m, at, m["backend"].decode())

    def _device(self, m: re.Match[bytes], at: At, backend: str) -> None:
        found = m.groupdict()
        backend = "Metal" if backend == "MTL" else backend
        key = backend, int(found.get("index") or 0)
        memory_bytes = None if found.get("mib") is None else int(found["mib"]) << 20
        if known := self._devices.get(key):
            known.memory_bytes = known.memory_bytes or memory_bytes
            return
        name = m["name"].decode("utf-8", "replace").strip()
        self._devices[key] = Device(name=name, backend=backend, memory_bytes=memory_bytes)
        self.process.learn(at, devices=list(self._devices.values()))
        if backend == "Metal":
            self.process.learn(at, os="macos")
