"""llama.cpp's header, in the wording of three eras."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.diagnosis.facts import Machine, Model


@dataclass(frozen=True, slots=True)
class Era:
    """How the header is worded.

    Attributes:
        meta, tensors, context: the functions that print it.
        width: of the names before ``=`` in the model's facts, and in the context's.
        mapped: what says that the file is mapped into memory.
    """

    meta: str
    tensors: str
    context: str
    width: tuple[int, int]
    mapped: str = ""


Y2024 = Era("llm_load_print_meta", "llm_load_tensors", "llama_new_context_with_model", (16, 13))
Y2025 = Era("print_info", "load_tensors", "llama_context", (16, 13), "(mmap = true)")
Y2026 = Era("print_info", "load_tensors", "llama_context", (21, 21), "(load_mode = mmap)")


_BYTES = {"f16": 2.0, "q8_0": 34 / 32, "q4_0": 18 / 32}
"""Of one number in a block."""


def model_header(model: Model, era: Era, *, build: int = 0) -> list[str]:
    """What loading the model prints, from its file to its buffers."""
    return [
        (
            f"llama_model_loader: loaded meta data with 31 key-value pairs and {9 * model.layers + 3} "
            f"tensors from {model.path} (version GGUF V3 (latest))"
        ),
        *_facts(model, era),
        *_tensors(model, era),
        *_context(model, era, build),
    ]


def _facts(model: Model, era: Era) -> list[str]:
    old = era is Y2024
    file = [
        ("format" if old else "file format", "GGUF V3 (latest)"),
        ("model ftype" if old else "file type", model.file_type),
        ("model size" if old else "file size", model.size + " "),
    ]
    facts = [
        ("arch", model.arch),
        ("n_ctx_train", model.trained),
        ("n_embd", model.embedding),
        ("n_layer", model.layers),
        ("n_head", model.heads),
        ("n_head_kv", model.kv_heads),
        ("n_swa", model.window),
        ("n_embd_head_k", model.head_dim),
        ("n_embd_head_v", model.head_dim),
        ("n_gqa", model.heads // model.kv_heads),
        ("n_expert", model.experts),
        ("n_expert_used", model.experts_used),
        ("model type", model.kind),
        ("model params", model.params),
        ("general.name", model.name),
    ]
    rows = facts if old else [(f"{key:11}", value) for key, value in file] + facts
    ordered = [*rows[:-2], *file[1:], *rows[-2:]] if old else rows
    return [
        f"{era.meta}: {key:{era.width[0] if i > 2 or old else 0}} = {v}" for i, (key, v) in enumerate(ordered)
    ]


def _tensors(model: Model, era: Era) -> Iterable[str]:
    if era.mapped:
        yield f"{era.tensors}: loading model tensors, this can take a while... {era.mapped}"
    if model.offloaded is not None:
        done, all_layers = model.offloaded
        if done:
            yield f"{era.tensors}: offloading {min(done, model.layers)} repeating layers to GPU"
        if done == all_layers:
            yield f"{era.tensors}: offloading output layer to GPU"
        yield f"{era.tensors}: offloaded {done}/{all_layers} layers to GPU"
    for where, mib in model.weights.items():
        yield f"{era.tensors}: {where:>12} model buffer size = {mib:8.2f} MiB"


def _context(model: Model, era: Era, build: int) -> Iterable[str]:
    per_slot = "n_ctx_seq" if era is Y2026 or build >= 6925 else "n_ctx_per_seq"
    switch = "auto" if era is Y2026 or build >= 6325 else str(int(model.flash))
    facts = {
        "n_seq_max": model.slots,
        "n_ctx": model.context,
        per_slot: model.context_per_slot,
        "n_batch": model.batch,
        "n_ubatch": model.ubatch,
        **({} if era is Y2024 else {"causal_attn": 1}),
        "flash_attn": switch,
        **({"kv_unified": "false"} if switch == "auto" else {}),
    }
    for key, value in facts.items():
        yield f"{era.context}: {key:{era.width[1]}} = {value}"
    cache = "llama_kv_cache_init" if era is Y2024 else "llama_kv_cache"
    for where, mib in model.cache.items():
        yield f"{cache}: {where:>10} KV buffer size = {mib:8.2f} MiB"
    if model.cache and era is Y2024:
        yield f"{era.context}: KV self size  = {model.cache_mib:7.2f} MiB, {_by_type(model, model.cache_mib)}"
    elif model.cache:
        yield _cache(model, model.cache_mib, model.context_per_slot, model.cache_layers or model.layers)
    if model.cache and model.window:
        cells = model.window + model.ubatch
        per_cell = model.cache_mib / model.context
        yield _cache(model, cells * model.slots * per_cell, cells, model.layers - (model.cache_layers or 0))
    buffers = "sched_reserve" if era is Y2026 else era.context
    if switch == "auto":
        yield f"{buffers}: Flash Attention was auto, set to enabled"
    for where, mib in model.compute.items():
        yield f"{buffers}: {where:>10} compute buffer size = {mib:8.2f} MiB"


def _cache(model: Model, mib: float, cells: int, layers: int) -> str:
    shape = f"({cells:6d} cells, {layers:3d} layers, {model.slots:2d}/{model.slots} seqs)"
    return f"llama_kv_cache: size = {mib:7.2f} MiB {shape}, {_by_type(model, mib)}"


def _by_type(model: Model, mib: float) -> str:
    keys, values = model.kv_types
    of_keys = mib * _BYTES[keys] / (_BYTES[keys] + _BYTES[values])
    return f"K ({keys}): {of_keys:7.2f} MiB, V ({values}): {mib - of_keys:7.2f} MiB"


def gpus(machine: Machine, *, memory: bool) -> list[str]:
    """What the GPU's own backend says when it starts; its memory only in 2026."""
    found = machine.gpus
    if not found:
        return []
    if found[0].backend == "Vulkan":
        lines = [f"ggml_vulkan: Found {len(found)} Vulkan devices:"]
        return lines + [f"ggml_vulkan: {i} = {gpu.name} {gpu.detail}" for i, gpu in enumerate(found)]
    lines = [
        "ggml_cuda_init: GGML_CUDA_FORCE_MMQ:    no",
        "ggml_cuda_init: GGML_CUDA_FORCE_CUBLAS: no",
        f"ggml_cuda_init: found {len(found)} CUDA devices:",
    ]
    size = [f", VRAM: {gpu.mib} MiB" if memory else "" for gpu in found]
    return lines + [f"  Device {i}: {gpu.name}, {gpu.detail}{size[i]}" for i, gpu in enumerate(found)]


def device_info(machine: Machine) -> list[str]:
    """The list of devices that builds since b9151 print."""
    rows = [(f"{gpu.backend}{i}", gpu.name, gpu.mib, gpu.mib - 500) for i, gpu in enumerate(machine.gpus)]
    rows.append(("CPU", machine.cpu, machine.memory_mib, machine.memory_mib))
    threads = (
        f"n_threads = {machine.threads} (n_threads_batch = {machine.threads}) / {machine.hardware_threads}"
    )
    return [
        "cmn  common_param: device_info:",
        *(
            f"cmn  common_param:   - {k:8}: {name} ({mib} MiB, {free} MiB free)"
            for k, name, mib, free in rows
        ),
        (
            f"cmn  common_param: system_info: {threads} | CPU : SSE3 = 1 | AVX2 = 1 | F16C = 1 | FMA = 1 | "
            "REPACK = 1 | "
        ),
    ]
