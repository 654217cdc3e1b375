"""llama.cpp's header: what libllama and ggml say of model, memory and devices when a model is loaded.

Every program of the family prints these lines (server, cli, Python binding, Ollama's runner), in names
that changed over the years: `llm_load_print_meta` until b4462, `print_info` since. Since b9151 they are
hidden at the default verbosity of llama-server.
"""

from __future__ import annotations

import re

from parsers.formats.base import At, Format, Process, Reader, integer, line, text
from parsers.setup import Device

HEAD = rb"(?:(?P<clock>\d+\.\d\d\.\d{3}\.\d{3}) )?(?:[IWED] )?"
"""What llama.cpp itself puts before a line: minutes.seconds.ms.us since its start, and the level."""

_COMPONENT = rb"(?:(?:cmn|srv|main|spec) +)?\S*: +"

_SIZE = re.compile(rb"([\d.]+) (B|KiB|MiB|GiB|MB|GB)")
_UNIT = {b"B": 1, b"KiB": 1 << 10, b"MiB": 1 << 20, b"GiB": 1 << 30, b"MB": 1 << 20, b"GB": 1 << 30}
_PARAMETERS = re.compile(rb"([\d.]+) ([KMBT])")
_SCALE = {b"K": 1e3, b"M": 1e6, b"B": 1e9, b"T": 1e12}


def size_bytes(printed: bytes) -> int | None:
    """``92.10 MiB`` in bytes, as exact as it was printed. ggml's `MB` are MiB."""
    match = _SIZE.search(printed)
    return round(float(match[1]) * _UNIT[match[2]]) if match else None


def clock_ms(printed: bytes | None) -> float | None:
    """llama.cpp's own clock ``minutes.seconds.ms.us`` in ms since the process started."""
    if printed is None:
        return None
    minutes, seconds, millis, micros = printed.split(b".")
    return int(minutes) * 60_000.0 + int(seconds) * 1_000.0 + int(millis) + int(micros) / 1_000.0


LINES = (
    line("meta", b"print_info: ", HEAD + rb"print_info: (?P<key>[\w. ]+?) *= (?P<value>.*)"),
    line(
        "meta", b"llm_load_print_meta: ", HEAD + rb"llm_load_print_meta: (?P<key>[\w. ]+?) *= (?P<value>.*)"
    ),
    line("context", b"llama_context: ", HEAD + rb"llama_context: (?P<key>\w+) *= (?P<value>\S+)"),
    line(
        "context",
        b"llama_new_context_with_model: ",
        HEAD + rb"llama_new_context_with_model: (?P<key>\w+) *= (?P<value>\S+)",
    ),
    line("old_kv", b"KV self size", HEAD + rb"\S+: KV self size *= *(?P<size>[\d.]+ M\w+)(?P<types>.*)"),
    line(
        "kv",
        b"llama_kv_cache",
        HEAD + rb"llama_kv_cache\w*: size = *(?P<size>[\d.]+ MiB) \( *(?P<cells>\d+) cells,"
        rb" *\d+ layers, *(?:\d+/)?(?P<streams>\d+) seqs\)(?P<types>.*)",
    ),
    line("offloaded", b" layers to GPU", HEAD + rb"\S+: offloaded (?P<done>\d+)/(?P<all>\d+) layers to GPU"),
    line(
        "weights",
        b" model buffer size",
        HEAD + rb"\S+: +(?P<where>\S+) model buffer size = +(?P<size>[\d.]+ MiB)",
    ),
    line("loading_draft", b"loading draft model", HEAD + rb".*?loading draft model"),
    line("loading", b"loading model '", HEAD + rb"(?:\w+ +)?\S+: loading model '(?P<path>[^']*)'"),
    line(
        "loaded",
        b"llama_model_loader: loaded meta data",
        HEAD + rb"llama_model_loader: loaded meta data .* from (?P<path>.+?) \(version",
    ),
    line(
        "slots",
        b"n_ctx_slot = ",
        HEAD + rb"srv +load_model: initializing, n_slots = (?P<slots>\d+), "
        rb"n_ctx_slot = (?P<context>\d+), kv_unified = '(?P<unified>\w+)'",
    ),
    line(
        "slots",
        b"initializing slots, n_slots",
        HEAD + rb"srv +\S+: initializing slots, n_slots = (?P<slots>\d+)",
    ),
    line(
        "slots",
        b"new slot",
        HEAD + rb"slot +\S+: id +\d+ \| task -1 \| new slot,? n_ctx(?:_slot)? = (?P<context>\d+)",
    ),
    line(
        "prompt_cache",
        b"prompt cache is ",
        HEAD + rb"srv +load_model: prompt cache is (?P<state>enabled|disabled)",
    ),
    line(
        "threads",
        b"n_threads = ",
        HEAD + rb"(?:.*: )?(?:system_info: |system info: |llama threadpool init, )"
        rb"n_threads = (?P<threads>\d+)",
    ),
    line(
        "flash",
        b"Flash Attention ",
        HEAD + rb"\S+: Flash Attention (?:was auto, set to |not supported, set to )?"
        rb"(?P<state>enabled|disabled)",
    ),
    line(
        "build",
        b"build",
        HEAD + rb"(?:main: |" + _COMPONENT + rb")?build(?:_info)?:? (?:= )?b?(?P<build>\d+)"
        rb"(?:-| \()(?P<commit>\w+)",
    ),
    line("verbosity", b"verbosity = ", HEAD + rb".*common_params_print_info: verbosity = (?P<verbosity>\d+)"),
    line(
        "cuda",
        b"  Device ",
        HEAD + rb" +Device \d+: (?P<name>.+?), (?P<kind>compute capability|gfx)[^,]*"
        rb"(?:,.*?VRAM: (?P<mib>\d+) MiB)?",
    ),
    line("vulkan", b"ggml_vulkan: ", HEAD + rb"ggml_vulkan: \d+ = (?P<name>.+?) \|"),
    line(
        "metal",
        b"ggml_metal_init: ",
        HEAD + rb"ggml_metal_init: (?:found device|GPU name): +(?P<name>Apple .+)",
    ),
    line(
        "using",
        b"using device ",
        HEAD + rb"\S+: using device (?P<backend>[A-Za-z]+)\d* \((?P<name>.+?)\)"
        rb"(?: \([^)]*\))? - ",
    ),
    line(
        "device",
        b" MiB free)",
        HEAD + rb".*?  - (?P<backend>[A-Za-z]+)\d* *: (?P<name>.+?) "
        rb"\((?P<mib>\d+) MiB, \d+ MiB free\)",
    ),
)

_CACHE_TYPE = re.compile(rb"([KV]) \((\w+)\)")


class HeaderReader(Reader):
    """Fills the process's `Setup`. A draft model's header does not overwrite the target's."""

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._setup = process.setup
        self._draft = False

    def _learn(self, at: At, **facts: object) -> None:
        if self._setup is not self.process.setup:
            self._setup, self._draft = self.process.setup, False
        if not self._draft:
            self.process.learn(at, **facts)

    def meta(self, m: re.Match[bytes], at: At) -> None:
        """``print_info: n_layer = 30`` and its kin."""
        key, value = m["key"], m["value"].strip()
        if name := _META_COUNTS.get(key):
            self._learn(at, **{name: _count(value)})
        elif name := _META_WORDS.get(key):
            self._learn(at, **{name: text(value)})
        elif key in (b"file size", b"model size") and b"BPW" in value:
            self._learn(at, weights_bytes=size_bytes(value))
        elif key == b"model params" and (match := _PARAMETERS.match(value)):
            self._learn(at, parameters=round(float(match[1]) * _SCALE[match[2]]))
        elif key == b"general.name" and self.process.setup.model is None:
            self._learn(at, model=text(value))

    def context(self, m: re.Match[bytes], at: At) -> None:
        """``llama_context: n_ctx = 4096`` and its kin."""
        key, value = m["key"], m["value"]
        if key == b"flash_attn":
            self._learn(at, flash_attention=_SWITCH.get(value))
        elif key == b"kv_unified":
            self._learn(at, kv_unified=_SWITCH.get(value))
        elif name := _CONTEXT_COUNTS.get(key):
            self._learn(at, **{name: _count(value)})

    def kv(self, m: re.Match[bytes], at: At) -> None:
        """``llama_kv_cache: size = 180.00 MiB ( 8192 cells, 30 layers, 1/1 seqs), K (f16): ...``.

        Models with a sliding window print two caches.
        """
        size = size_bytes(m["size"])
        tokens = int(m["cells"]) * int(m["streams"])
        earlier = self.process.setup.kv_bytes
        if size is None or not tokens:
            return
        per_token = size / tokens if earlier is None else None
        self._learn(at, kv_bytes=size + (earlier or 0), kv_bytes_per_token=per_token, **_kv_types(m["types"]))
        if earlier is not None and not self._draft:
            self.process.setup.kv_bytes_per_token = None

    def old_kv(self, m: re.Match[bytes], at: At) -> None:
        """``llama_new_context_with_model: KV self size = 512.00 MiB, K (f16): ...`` (until b5558)."""
        size, cells = size_bytes(m["size"]), self.process.setup.context_total
        self._learn(
            at,
            kv_bytes=size,
            kv_bytes_per_token=size / cells if size and cells else None,
            **_kv_types(m["types"]),
        )

    def offloaded(self, m: re.Match[bytes], at: At) -> None:
        """``offloaded 22/33 layers to GPU``."""
        self._learn(at, layers_offloaded=int(m["done"]), layers_offloadable=int(m["all"]))

    def weights(self, m: re.Match[bytes], at: At) -> None:
        """``CUDA0 model buffer size = 4403.49 MiB``, one line for each buffer."""
        size = size_bytes(m["size"]) or 0
        setup = self.process.setup
        if m["where"].startswith(b"CPU"):
            self._learn(at, cpu_weights_bytes=(setup.cpu_weights_bytes or 0) + size)
        else:
            self._learn(at, gpu_weights_bytes=(setup.gpu_weights_bytes or 0) + size)

    def loading(self, m: re.Match[bytes], at: At) -> None:
        """``srv load_model: loading model '/models/x.gguf'``."""
        self._learn(at, model=text(m["path"]))

    def loaded(self, m: re.Match[bytes], at: At) -> None:
        """``llama_model_loader: loaded meta data with ... from /models/x.gguf (version ...``."""
        self._learn(at, model=text(m["path"]))

    def loading_draft(self, m: re.Match[bytes], at: At) -> None:
        """The lines that follow describe the draft model."""
        self._learn(at, speculative="draft")
        self._draft = True

    def slots(self, m: re.Match[bytes], at: At) -> None:
        """The server's slots and their context; the models are loaded by then."""
        self._draft = False
        found = m.groupdict()
        self._learn(
            at,
            slots=integer(found.get("slots")),
            context=integer(found.get("context")),
            kv_unified=_SWITCH.get(found.get("unified") or b""),
        )

    def prompt_cache(self, m: re.Match[bytes], at: At) -> None:
        """``prompt cache is enabled, size limit: 8192 MiB``."""
        self._learn(at, prefix_caching=m["state"] == b"enabled")

    def threads(self, m: re.Match[bytes], at: At) -> None:
        """``system_info: n_threads = 8 (n_threads_batch = 8) / 16``."""
        self._learn(at, threads=int(m["threads"]))

    def flash(self, m: re.Match[bytes], at: At) -> None:
        """``Flash Attention was auto, set to enabled``."""
        self._learn(at, flash_attention=m["state"] == b"enabled")

    def build(self, m: re.Match[bytes], at: At) -> None:
        """``build: 8179 (ecbcb7ea9) with ...``; 0 is a build without git and says nothing."""
        if int(m["build"]):
            self._learn(at, engine_version=f"b{int(m['build'])}")

    def verbosity(self, m: re.Match[bytes], at: At) -> None:
        """``verbosity = 3 (adjust with the `-lv N` CLI arg)``."""
        self._learn(at, verbosity=int(m["verbosity"]))

    def cuda(self, m: re.Match[bytes], at: At) -> None:
        """``Device 0: NVIDIA GeForce RTX 4090, compute capability 8.9, VMM: yes, VRAM: 24080 MiB``."""
        self._device(at, m["name"], "ROCm" if m["kind"] == b"gfx" else "CUDA", m["mib"])

    def vulkan(self, m: re.Match[bytes], at: At) -> None:
        """``ggml_vulkan: 0 = AMD Radeon RX 7900 XT (RADV NAVI31) (radv) | uma: 0 | ...``."""
        self._device(at, m["name"], "Vulkan", None)

    def metal(self, m: re.Match[bytes], at: At) -> None:
        """``ggml_metal_init: found device: Apple M3 Pro``."""
        self._device(at, m["name"], "Metal", None)

    def using(self, m: re.Match[bytes], at: At) -> None:
        """``using device CUDA0 (NVIDIA GeForce RTX 4090) - 23000 MiB free``."""
        self._device(at, m["name"], m["backend"].decode(), None)

    def device(self, m: re.Match[bytes], at: At) -> None:
        """``- CUDA0 : NVIDIA GeForce RTX 4090 (24080 MiB, 23000 MiB free)`` in device_info."""
        self._device(at, m["name"], m["backend"].decode(), m["mib"])

    def _device(self, at: At, name: bytes, backend: str, mib: bytes | None) -> None:
        if self._draft:
            return
        device = Device(
            name=name.decode("utf-8", "replace").strip(),
            backend=backend,
            memory_bytes=None if mib is None else int(mib) << 20,
        )
        setup = self.process.setup
        for known in setup.devices:
            if known.name == device.name and known.backend == device.backend:
                known.memory_bytes = known.memory_bytes or device.memory_bytes
                return
        self._learn(at, devices=[*setup.devices, device])


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


FORMAT = Format(
    engine="llama.cpp",
    title="llama.cpp model header (setup only)",
    versions="b1413 and newer",
    grain="setup",
    identify=(
        b"print_info: ",
        b"llm_load_print_meta: ",
        b"llama_model_loader: ",
        b"loading model '",
        b"load_tensors: ",
    ),
    lines=LINES,
    reader=HeaderReader,
)
