"""Fills a process's setup from llama.cpp's header."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from parsers.formats.base import integer, text
from parsers.formats.llama_cpp.devices import DeviceLines
from parsers.formats.llama_cpp.own import FAMILY, own
from parsers.formats.llama_cpp.units import on_host, size_bytes
from parsers.formats.systems import system_of_build, system_of_path

if TYPE_CHECKING:
    from parsers.formats.base import At

_CACHE_TYPE = re.compile(rb"([KV]) \((\w+)\)")
_PARAMETERS = re.compile(rb"(\d+(?:\.\d+)?) ([KMBT])")
_SCALE = {b"K": 1e3, b"M": 1e6, b"B": 1e9, b"T": 1e12}


class HeaderReader(DeviceLines):
    """Learns from the first context of the model that serves.

    A draft's header doesn't overwrite the target's, nor does a second context over the same model, which
    drafts for it. With `-v` a first, empty load measures the memory; the real one then starts over.
    """

    def _forget(self) -> None:
        super()._forget()
        self._draft = False
        self._contexts = 0
        self._compute_bytes: dict[bytes, int] = {}

    def close(self) -> None:
        """The process ends."""
        self._forget()

    @property
    def _of_draft(self) -> bool:
        return self._draft or self._contexts > 1

    def _learn_model(self, at: At, **facts: object) -> None:
        """Facts of the model and its context."""
        if not self._of_draft:
            self.process.learn(at, **facts)

    # --- the process

    def started(self, m: re.Match[bytes], at: At) -> None:
        """``build: 8179 (ecbcb7ea9) with ...``: among the first lines of every program."""
        self.process.start(at)
        self.process.belong(FAMILY)
        self.build(m, at)

    @own
    def build(self, m: re.Match[bytes], at: At) -> None:
        """The build; 0 is one without git and says nothing."""
        if int(m["build"]):
            self.process.learn(at, engine_version=f"b{int(m['build'])}")
        self.process.learn(at, os=system_of_build(m.groupdict().get("built")))

    @own
    def verbosity(self, m: re.Match[bytes], at: At) -> None:
        """``verbosity = 3 (adjust with the `-lv N` CLI arg)``."""
        self.process.learn(at, verbosity=int(m["verbosity"]))

    @own
    def threads(self, m: re.Match[bytes], at: At) -> None:
        """``system_info: n_threads = 8 (n_threads_batch = 8) / 16``."""
        self.process.learn(
            at,
            threads=int(m["threads"]),
            threads_batch=integer(m["batch"]),
            threads_available=integer(m["all"]) or None,
        )

    @own
    def slots(self, m: re.Match[bytes], at: At) -> None:
        """The server's slots and the context of each."""
        found = m.groupdict()
        self.process.learn(
            at,
            slots=integer(found.get("slots")),
            context=integer(found.get("context")),
            kv_unified=_SWITCH.get(found.get("unified") or b""),
        )

    @own
    def prompt_cache(self, m: re.Match[bytes], at: At) -> None:
        """``prompt cache is enabled, size limit: 8192 MiB``: whole prompts kept in the machine's own memory.

        Without it a slot still reuses the prompt that it holds.
        """
        if m["state"] == b"disabled":
            self.process.learn(at, host_cache_bytes=0)
        else:
            limit_mib = integer(m["mib"])
            self.process.learn(
                at, prefix_caching=True, host_cache_bytes=None if limit_mib is None else limit_mib << 20
            )

    @own
    def checkpoints(self, m: re.Match[bytes], at: At) -> None:
        """``context checkpoints enabled, max = 32``; ``created context checkpoint 3 of 32``."""
        self.process.learn(at, checkpoints=integer(m["most"]) or 0)

    @own
    def thinking(self, m: re.Match[bytes], at: At) -> None:
        """``chat template, thinking = 1``: the template can think, and was not told not to."""
        self.process.learn(at, thinking=m["on"] == b"1")

    @own
    def draft_max(self, m: re.Match[bytes], at: At) -> None:
        """``- n_max=3, n_min=0, p_min=0.00``; of several ways to draft the longest counts."""
        self.process.learn(at, draft_max=max(int(m["tokens"]), self.process.setup.draft_max or 0))

    @own
    def unsupported(self, m: re.Match[bytes], at: At) -> None:
        """``cache_reuse is not supported by this context, it will be disabled``."""
        what, whom = m["what"].decode(), m["whom"].decode()
        self.process.announce(at, "fallback", f"{what} switched off: not supported by {whom}")

    # --- the model

    @own
    def loading(self, m: re.Match[bytes], at: At) -> None:
        """``srv load_model: loading model '/models/x.gguf'``."""
        self._learn_path(at, text(m["path"]))

    def _learn_path(self, at: At, path: str | None) -> None:
        self._learn_model(at, model=path, os=system_of_path(path))

    @own
    def loaded(self, m: re.Match[bytes], at: At) -> None:
        """``llama_model_loader: loaded meta data with ... from /models/x.gguf (version ...``."""
        if self._draft:
            return
        self._contexts = 0
        self._compute_bytes.clear()
        self.process.forget(*_MEASURED)
        self._learn_path(at, text(m["path"]))

    @own
    def loading_draft(self, m: re.Match[bytes], at: At) -> None:
        """The models and contexts that follow draft for the one before."""
        self._draft = True
        self.process.learn(at, speculative="draft")

    @own
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

    @own
    def offloaded(self, m: re.Match[bytes], at: At) -> None:
        """``offloaded 22/33 layers to GPU``."""
        self._learn_model(at, layers_offloaded=int(m["done"]), layers_offloadable=int(m["all"]))

    @own
    def tensors(self, m: re.Match[bytes], at: At) -> None:
        """``loading model tensors, this can take a while... (mmap = true)``, later ``(load_mode = mmap)``."""
        self._learn_model(at, mmap=m["mode"] in _MAPPED)

    @own
    def weights(self, m: re.Match[bytes], at: At) -> None:
        """``CUDA0 model buffer size = 4403.49 MiB``, one line for each buffer."""
        size = size_bytes(m["size"]) or 0
        setup = self.process.setup
        if m["where"].endswith(b"_Mapped"):
            self._learn_model(at, mmap=True)
        if on_host(m["where"]):
            self._learn_model(at, cpu_weights_bytes=(setup.cpu_weights_bytes or 0) + size)
        else:
            self._learn_model(at, gpu_weights_bytes=(setup.gpu_weights_bytes or 0) + size)

    # --- its context

    @own
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

    @own
    def kv(self, m: re.Match[bytes], at: At) -> None:
        """``llama_kv_cache: size = 180.00 MiB ( 8192 cells, 30 layers, 1/1 seqs), K (f16): ...``.

        After the slash stands how many caches of that many cells there are; until they could be split
        there was one, and no slash. Models with a sliding window print two lines.
        """
        size = size_bytes(m["size"])
        tokens = int(m["cells"]) * int(m["streams"] or 1)
        if size is None or not tokens or self._of_draft:
            return
        earlier = self.process.setup.kv_bytes
        if earlier is None:
            self.process.learn(at, kv_bytes_per_token=size / tokens)
        else:
            self.process.forget("kv_bytes_per_token")
        self.process.learn(at, kv_bytes=size + (earlier or 0), **_kv_types(m["types"]))

    @own
    def kv_buffer(self, m: re.Match[bytes], at: At) -> None:
        """``llama_kv_cache: CUDA0 KV buffer size = 512.00 MiB``, one line for each buffer of a cache."""
        in_main_memory = (size_bytes(m["size"]) or 0) if on_host(m["where"]) else 0
        self._learn_model(at, kv_cpu_bytes=(self.process.setup.kv_cpu_bytes or 0) + in_main_memory)

    @own
    def old_kv(self, m: re.Match[bytes], at: At) -> None:
        """``llama_new_context_with_model: KV self size = 512.00 MiB, K (f16): ...`` (until b5558)."""
        size, cells = size_bytes(m["size"]), self.process.setup.context_total
        self._learn_model(
            at,
            kv_bytes=size,
            kv_bytes_per_token=size / cells if size and cells else None,
            **_kv_types(m["types"]),
        )

    @own
    def compute(self, m: re.Match[bytes], at: At) -> None:
        """``CUDA0 compute buffer size = 258.50 MiB``; reserved again, a buffer replaces the one before."""
        if not on_host(m["where"]) and not self._of_draft:
            self._compute_bytes[m["where"]] = size_bytes(m["size"]) or 0
            self.process.learn(at, compute_bytes=sum(self._compute_bytes.values()))

    @own
    def flash(self, m: re.Match[bytes], at: At) -> None:
        """``Flash Attention was auto, set to enabled``; ``not supported, set to disabled``."""
        enabled = m["state"] == b"enabled"
        self._learn_model(at, flash_attention=enabled)
        if m["asked"] and not enabled and not self._of_draft:
            self.process.announce(at, "fallback", "flash attention switched off: not supported here")


_MEASURED = (
    "kv_bytes",
    "kv_bytes_per_token",
    "kv_cpu_bytes",
    "cpu_weights_bytes",
    "gpu_weights_bytes",
    "compute_bytes",
)
"""Sums over lines, which start over with each load."""

_MAPPED = (b"true", b"mmap", b"mmap+mlock")
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
