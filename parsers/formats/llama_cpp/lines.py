"""The header's lines; wording by build where it changed."""

from __future__ import annotations

from parsers.formats.base import line

HEAD = rb"(?:(?P<clock>\d{1,8}\.\d\d\.\d{3}\.\d{3}) )?(?:[IWED] )?"
"""What llama.cpp itself puts before a line: minutes.seconds.ms.us since its start, and the level."""

_COMMON = HEAD + rb"(?:cmn +\S+: ++)?(?:common_params_print_info: ++)?"

LINES = (
    line("started", b"build: ", HEAD + rb"(?:main: )?build: (?P<build>\d+) \(\w+\) with (?P<built>.*)"),
    line("started", b"build_info: ", HEAD + rb"build_info: b(?P<build>\d+)-\w+"),
    line("started", b"main: build = ", HEAD + rb"main: build = (?P<build>\d+) \(\w+\)"),
    line(
        "build",
        b"common_params_print_info: ",
        _COMMON + rb"build (?P<build>\d+) \(\w+\)(?: with (?P<built>.*))?",
        b": build ",
    ),
    line("verbosity", b"common_params_print_info: ", _COMMON + rb"verbosity = (?P<verbosity>\d+)"),
    line(
        "meta", b"print_info: ", HEAD + rb"print_info: (?P<key> *+[\w.]++(?: ++[\w.]++)*+) *+= (?P<value>.*)"
    ),
    line(
        "meta",
        b"llm_load_print_meta: ",
        HEAD + rb"llm_load_print_meta: (?P<key> *+[\w.]++(?: ++[\w.]++)*+) *+= (?P<value>.*)",
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
        rb" *\d+ layers, *\d+(?:/(?P<streams>\d+))? seqs\)(?P<types>.*)",
        b"_cache",
    ),
    line(
        "kv_buffer",
        b" buffer size = ",
        HEAD + rb"llama_kv_cache\w*: +(?P<where>\S+) KV buffer size = +(?P<size>[\d.]+ MiB)",
        b" KV buffer ",
    ),
    line("offloaded", b" layers to GPU", HEAD + rb"\S+: offloaded (?P<done>\d+)/(?P<all>\d+) layers to GPU"),
    line(
        "weights",
        b" buffer size = ",
        HEAD + rb"(?:llm_)?load_tensors: +(?P<where>\S+) (?:model )?buffer size = +(?P<size>[\d.]+ MiB)",
        b"load_tensors: ",
    ),
    line(
        "compute",
        b" buffer size = ",
        HEAD + rb"(?:sched_reserve|llama_\w+): +(?P<where>\S+) compute buffer size = +(?P<size>[\d.]+ MiB)",
        b" compute buffer ",
    ),
    line(
        "tensors",  # the load mode in words since 2026
        b"loading model",
        HEAD + rb"load_tensors: loading model tensors, .*\((?:mmap|load_mode) = (?P<mode>[\w+]+)",
        b"load_tensors: ",
    ),
    line(
        "loading_draft",
        b"loading draft model '",
        HEAD + rb"(?:\w+ +)?\S+: loading draft model '(?P<path>[^']*)'",
    ),
    line("loading", b"loading model", HEAD + rb"(?:\w+ +)?\S+: loading model '(?P<path>[^']*)'", b"model '"),
    line(
        "loaded",
        b"llama_model_loader: loaded meta data",
        HEAD + rb"llama_model_loader: loaded meta data (?:(?! from ).)*+ from (?P<path>.+?) \(version",
    ),
    line(
        "slots",
        b", n_ctx_slot = ",
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
        b" | new slot",
        HEAD + rb"slot +\S+: id +\d+ \| task -1 \| new slot,? n_ctx(?:_slot)? = (?P<context>\d+)",
    ),
    line(
        "prompt_cache",
        b"prompt cache is ",
        HEAD + rb"srv +\S+: prompt cache is (?P<state>enabled|disabled)"
        rb"(?:, size limit: (?P<mib>\d+) MiB)?",
    ),
    line(
        "checkpoints",
        b"context checkpoint",
        HEAD + rb"srv +\S+: context checkpoints (?:enabled, max = (?P<most>\d+)|disabled)",
        b"srv ",
    ),
    line(
        "checkpoints",
        b"context checkpoint",
        HEAD
        + rb"slot +\S+: id +\d+ \| task -?\d+ \| (?:created|saved) context checkpoint \d+ of (?P<most>\d+)",
        b"slot ",
    ),
    line(
        "thinking",
        b"thinking = ",
        HEAD + rb"srv +init: (?:init: chat template, )?thinking = (?P<on>[01])\s*$",
    ),
    line(
        "draft_max",
        b"n_max=",
        HEAD + rb"(?:spec +)?\w+: +- (?:n_match=\d+, )?n_max=(?P<tokens>\d{1,9}), n_min=\d+",
    ),
    line(
        "unsupported",
        b"it will be disabled",
        HEAD + rb"srv +\S+: (?P<what>\w+) is not supported by (?P<whom>[a-z ]{1,40}), it will be disabled",
    ),
    line(
        "threads",
        b"n_threads = ",
        _COMMON + rb"(?:system_info: |system info: |llama threadpool init, )n_threads = (?P<threads>\d+)"
        rb"(?:,? \(?n_threads_batch = (?P<batch>\d+)\)?)?(?:(?: / |, total_threads = )(?P<all>\d+))?",
    ),
    line(
        "flash",
        b": Flash Attention ",
        HEAD + rb"\S+: Flash Attention (?P<asked>was auto, set to |not supported, set to )?"
        rb"(?P<state>enabled|disabled)",
    ),
    line(
        "cuda_found", b"ggml_", HEAD + rb"ggml_(?:cuda_init|init_cublas): found \d+ \w+ devices", b": found "
    ),
    line(
        "cuda_failed",
        b"ggml_",
        HEAD + rb"ggml_(?:cuda_init|init_cublas): failed to initialize (?P<backend>\w{1,12}): "
        rb"(?P<why>[\w ,.'-]{1,120})",
        b": failed to initialize ",
    ),
    line(
        "no_gpu",
        b"option will be ignored",
        HEAD + rb"warning: (?P<why>no usable GPU found|not compiled with GPU offload support), "
        rb"--(?:n-)?gpu-layers option will be ignored",
    ),
    line(
        "cuda",
        b"  Device ",
        HEAD + rb" +Device (?P<index>\d+): (?P<name>.+?), (?P<kind>compute capability|gfx)[^,]*"
        rb"(?:,.*?VRAM: (?P<mib>\d+) MiB)?",
    ),
    line("vulkan", b"ggml_", HEAD + rb"ggml_vulkan: (?P<index>\d+) = (?P<name>.+?) \|", b"ggml_vulkan: "),
    line(
        "metal",
        b"ggml_",
        HEAD + rb"ggml_metal_init: (?:found device|GPU name): +(?P<name>Apple .+)",
        b"ggml_metal_init: ",
    ),
    line(
        "using",
        b": using device ",
        HEAD + rb"\S+: using device (?P<backend>[A-Za-z]+)(?P<index>\d*) \((?P<name>.+?)\)"
        rb"(?: \([^)]*\))? - \d+ MiB free",
    ),
    line(
        "device",
        b" MiB free)",
        _COMMON + rb" *- (?P<backend>[A-Za-z]+)(?P<index>\d*) *: (?P<name>.+?) "
        rb"\((?P<mib>\d+) MiB, \d+ MiB free\)",
    ),
)
