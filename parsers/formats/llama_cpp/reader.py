"""Fills a process's setup from llama.cpp's header."""

from __future__ import annotations

import re
from functools import wraps
from typing import TYPE_CHECKING

from parsers.formats.base import At, Process, Reader, integer, text
from parsers.formats.llama_cpp.lines import LINES
from parsers.formats.llama_cpp.units import size_bytes
from parsers.setup import Device

if TYPE_CHECKING:
    from collections.abc import Callable

_CACHE_TYPE = re.compile(rb"([KV]) \((\w+)\)")
_PARAMETERS = re.compile(rb"(\d+(?:\.\d+)?) ([KMBT])")
_SCALE = {b"K": 1e3, b"M": 1e6, b"B": 1e9, b"T": 1e12}


def _own(
    method: Callable[[HeaderReader, re.Match[bytes], At], None],
) -> Callable[[HeaderReader, re.Match[bytes], At], None]:
    """Drops a line without a clock where the process's lines have one: a prompt or an answer quotes it."""

    @wraps(method)
    def checked(self: HeaderReader, m: re.Match[bytes], at: At) -> None:
        if m["clock"] is not None:
            self.process.see_clock()
        if m["clock"] is not None or not self.process.clocked:
            method(self, m, at)

    return checked


class HeaderReader(Reader):
    """Learns from the first context of the model that serves.

    A draft's header doesn't overwrite the target's, nor does a second context over the same model, which
    drafts for it. With `-v` a first, empty load measures the memory; the real one then starts over.
    """

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._forget()

    def _forget(self) -> None:
        self._draft = False
        self._contexts = 0
        self._devices: dict[tuple[str, int], Device] = {}

    def close(self) -> None:
        """The process ends."""
        self._forget()

    def _learn_model(self, at: At, **facts: object) -> None:
        """Facts of the model and its context."""
        if not self._draft and self._contexts < 2:
            self.process.learn(at, **facts)

    # --- the process

    def started(self, m: re.Match[bytes], at: At) -> None:
        """``build: 8179 (ecbcb7ea9) with ...``: among the first lines of every program."""
        self.process.start(at)
        self.build(m, at)

    def build(self, m: re.Match[bytes], at: At) -> None:
        """The build; 0 is one without git and says nothing."""
        if int(m["build"]):
            self.process.learn(at, engine_version=f"b{int(m['build'])}")

    def verbosity(self, m: re.Match[bytes], at: At) -> None:
        """``verbosity = 3 (adjust with the `-lv N` CLI arg)``."""
        self.process.learn(at, verbosity=int(m["verbosity"]))

    def threads(self, m: re.Match[bytes], at: At) -> None:
        """``system_info: n_threads = 8 (n_threads_batch = 8) / 16``."""
        self.process.learn(at, threads=int(m["threads"]))

    def slots(self, m: re.Match[bytes], at: At) -> None:
        """The server's slots and the context of each."""
        found = m.groupdict()
        self.process.learn(
            at,
            slots=integer(found.get("slots")),
            context=integer(found.get("context")),
            kv_unified=_SWITCH.get(found.get("unified") or b""),
        )

    def prompt_cache(self, m: re.Match[bytes], at: At) -> None:
        """``prompt cache is enabled, size limit: 8192 MiB``."""
        self.process.learn(at, prefix_caching=m["state"] == b"enabled")

    # --- the model

    def loading(self, m: re.Match[bytes], at: At) -> None:
        """``srv load_model: loading model '/models/x.gguf'``."""
        self._learn_model(at, model=text(m["path"]))

    def loaded(self, m: re.Match[bytes], at: At) -> None:
        """``llama_model_loader: loaded meta data with ... from /models/x.gguf (version ...``."""
        if self._draft:
            return
        self._contexts = 0
        self.process.forget("kv_bytes", "kv_bytes_per_token", "cpu_weights_bytes", "gpu_weights_bytes")
        self.process.learn(at, model=text(m["path"]))

    def loading_draft(self, m: re.Match[bytes], at: At) -> None:
        """The models and contexts that follow draft for the one before."""
        self._draft = True
        self.process.learn(at, speculative="draft")

    def meta(self, m: re.Match[bytes], at: At) -> None:
        """``print_info: n_layer = 30`` and its kin."""
        key, value = m["key"], m["value"].strip()
        if name := _META_COUNTS.get(key):
            self._learn_model(at, **{name: _count(value)})
        elif (name := _META_WORDS.get(key)) and _WORDS.fullmatch(value):
            self._learn_model(at, **{name: text(value)})
        elif key in (b"file size", b"model size") and b"BPW" in value:
            self._learn_model(at, weights_bytes=size_bytes(value))
        elif key == b"model params" and (match := _PARAMETERS.match(value)):
            self._learn_model(at, parameters=round(float(match[1]) * _SCALE[match[2]]))
        elif key == b"general.name" and self.process.setup.model is None:
            self._learn_model(at, model=text(value))

    def offloaded(self, m: re.Match[bytes], at: At) -> None:
        """``offloaded 22/33 layers to GPU``."""
        self._learn_model(at, layers_offloaded=int(m["done"]), layers_offloadable=int(m["all"]))

    def weights(self, m: re.Match[bytes], at: At) -> None:
        """``CUDA0 model buffer size = 4403.49 MiB``, one line for each buffer."""
        size = size_bytes(m["size"]) or 0
        setup = self.process.setup
        if m["where"].startswith(_HOST_BUFFERS) or m["where"].endswith(b"_Host"):
            self._learn_model(at, cpu_weights_bytes=(setup.cpu_weights_bytes or 0) + size)
        else:
            self._learn_model(at, gpu_weights_bytes=(setup.gpu_weights_bytes or 0) + size)

    # --- its context

    def context(self, m: re.Match[bytes], at: At) -> None:
        """``llama_context: n_ctx = 4096`` and its kin; `n_seq_max` comes first where there is one."""
        key, value = m["key"], m["value"]
        if key == _FIRST_OF_CONTEXT or (key == b"n_ctx" and self._contexts == 0):
            self._contexts += 1
        if key == b"flash_attn":
            self._learn_model(at, flash_attention=_SWITCH.get(value))
        elif key == b"kv_unified":
            self._learn_model(at, kv_unified=_SWITCH.get(value))
        elif name := _CONTEXT_COUNTS.get(key):
            self._learn_model(at, **{name: _count(value)})

    def kv(self, m: re.Match[bytes], at: At) -> None:
        """``llama_kv_cache: size = 180.00 MiB ( 8192 cells, 30 layers, 1/1 seqs), K (f16): ...``.

        After the slash stands how many caches of that many cells there are; until they could be split
        there was one, and no slash. Models with a sliding window print two lines.
        """
        size = size_bytes(m["size"])
        tokens = int(m["cells"]) * int(m["streams"] or 1)
        if size is None or not tokens or self._draft or self._contexts > 1:
            return
        earlier = self.process.setup.kv_bytes
        if earlier is None:
            self.process.learn(at, kv_bytes_per_token=size / tokens)
        else:
            self.process.forget("kv_bytes_per_token")
        self.process.learn(at, kv_bytes=size + (earlier or 0), **_kv_types(m["types"]))

    def old_kv(self, m: re.Match[bytes], at: At) -> None:
        """``llama_new_context_with_model: KV self size = 512.00 MiB, K (f16): ...`` (until b5558)."""
        size, cells = size_bytes(m["size"]), self.process.setup.context_total
        self._learn_model(
            at,
            kv_bytes=size,
            kv_bytes_per_token=size / cells if size and cells else None,
            **_kv_types(m["types"]),
        )

    def flash(self, m: re.Match[bytes], at: At) -> None:
        """``Flash Attention was auto, set to enabled``."""
        self._learn_model(at, flash_attention=m["state"] == b"enabled")

    # --- devices

    def cuda_found(self, m: re.Match[bytes], at: At) -> None:
        """``ggml_cuda_init: found 1 CUDA devices:`` comes once in a process, before it loads a model."""
        if self.process.setup.is_empty or self.process.setup.model is not None:
            self.process.start(at)

    def cuda(self, m: re.Match[bytes], at: At) -> None:
        """``Device 0: NVIDIA GeForce RTX 4090, compute capability 8.9, VMM: yes, VRAM: 24080 MiB``."""
        self._device(m, at, "ROCm" if m["kind"] == b"gfx" else "CUDA")

    def vulkan(self, m: re.Match[bytes], at: At) -> None:
        """``ggml_vulkan: 0 = AMD Radeon RX 7900 XT (RADV NAVI31) (radv) | uma: 0 | ...``."""
        self._device(m, at, "Vulkan")

    def metal(self, m: re.Match[bytes], at: At) -> None:
        """``ggml_metal_init: found device: Apple M3 Pro``."""
        self._device(m, at, "Metal")

    def using(self, m: re.Match[bytes], at: At) -> None:
        """``using device CUDA0 (NVIDIA GeForce RTX 4090) - 23000 MiB free``."""
        self._device(m, at, m["backend"].decode())

    def device(self, m: re.Match[bytes], at: At) -> None:
        """``- CUDA0 : NVIDIA GeForce RTX 4090 (24080 MiB, 23000 MiB free)`` in device_info."""
        self._device(m, at, m["backend"].decode())

    def _device(self, m: re.Match[bytes], at: At, backend: str) -> None:
        """Name a device once, whichever lines tell of it."""
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


_BEGINNINGS = {"started", "cuda_found"}
"""Lines that may be of the next process, which may have no clock."""

for _name in {line.name for line in LINES} - _BEGINNINGS:
    setattr(HeaderReader, _name, _own(getattr(HeaderReader, _name)))

_HOST_BUFFERS = (b"CPU", b"AMX", b"BLAS")
"""Weights in the machine's own memory; so are those in buffers that a GPU can also read (`CUDA_Host`)."""

_META_COUNTS = {
    b"n_layer": "layers",
    b"n_layer_all": "layers",
    b"n_head_kv": "kv_heads",
    b"n_embd_head_k": "head_dim_k",
    b"n_embd_head_v": "head_dim_v",
    b"n_ctx_train": "context_trained",
    b"n_expert": "experts",
    b"n_expert_used": "experts_used",
    b"n_swa": "sliding_window",
}
_META_WORDS = {b"arch": "architecture", b"file type": "quantization", b"model ftype": "quantization"}
_WORDS = re.compile(rb"[\w ,.()+-]{1,48}")
_FIRST_OF_CONTEXT = b"n_seq_max"
_CONTEXT_COUNTS = {
    b"n_ctx": "context_total",
    b"n_ctx_seq": "context",
    b"n_ctx_per_seq": "context",
    b"n_seq_max": "slots",
    b"n_batch": "batch",
    b"n_ubatch": "ubatch",
}
_SWITCH = {b"0": False, b"1": True, b"disabled": False, b"enabled": True, b"false": False, b"true": True}


def _count(value: bytes) -> int | None:
    """A scalar count; ``None`` for the per-layer lists of hybrid models."""
    return int(value) if value.isdigit() else None


def _kv_types(types: bytes) -> dict[str, str]:
    return {f"kv_type_{side.decode().lower()}": kind.decode() for side, kind in _CACHE_TYPE.findall(types)}
