"""The formats `phasewise` reads: one file for each engine, listed here in the order they are tried.

Other distributions add theirs through the entry point group ``phasewise.formats``, each a `Format`.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from parsers.documents import inference_perf, llmperf, open_webui
from parsers.formats import (
    aphrodite,
    cortex,
    guidellm,
    guidellm_console,
    guidellm_console_old,
    ik_llama,
    ik_sweep_bench,
    koboldcpp,
    ktransformers,
    lemonade,
    litellm,
    llama_batched_bench,
    llama_bench,
    llama_cli,
    llama_cpp,
    llama_cpp_python,
    llama_server,
    llama_slots,
    llama_swap,
    llamafile,
    lmdeploy,
    lmstudio,
    localai,
    metric_table,
    mistral_rs,
    mlc_llm,
    mlx_lm,
    mlx_openai_server,
    mlx_vlm,
    ollama,
    ollama_bench,
    omlx,
    openvino_genai,
    otel,
    ovms,
    phasewise_rows,
    prometheus,
    serving_benchmark,
    sglang,
    tabbyapi,
    tensorrt_llm,
    text_generation_webui,
    tgi,
    vllm,
    vllm_rs,
)
from parsers.formats.base import Format

if TYPE_CHECKING:
    from collections.abc import Iterable

BUILTIN: tuple[Format, ...] = (
    llama_server.FORMAT,
    llama_cpp_python.FORMAT,
    llama_cli.FORMAT,
    ollama.FORMAT,
    aphrodite.FORMAT,
    vllm.FORMAT,
    lmstudio.FORMAT,
    ik_llama.FORMAT,
    cortex.FORMAT,
    localai.FORMAT,
    llamafile.FORMAT,
    llama_slots.FORMAT,
    llama_swap.FORMAT,
    sglang.FORMAT,
    tgi.FORMAT,
    koboldcpp.FORMAT,
    tabbyapi.FORMAT,
    text_generation_webui.FORMAT,
    mlx_lm.FORMAT,
    mlx_vlm.FORMAT,
    omlx.FORMAT,
    mlx_openai_server.FORMAT,
    llama_bench.FORMAT,
    ik_sweep_bench.FORMAT,
    llama_batched_bench.FORMAT,
    ollama_bench.FORMAT,
    tensorrt_llm.FORMAT,
    lmdeploy.FORMAT,
    mlc_llm.FORMAT,
    mistral_rs.FORMAT,
    ktransformers.FORMAT,
    lemonade.FORMAT,
    vllm_rs.FORMAT,
    ovms.FORMAT,
    openvino_genai.FORMAT,
    otel.FORMAT,
    litellm.FORMAT,
    *prometheus.FORMATS,
    *serving_benchmark.FORMATS,
    *metric_table.FORMATS,
    guidellm.FORMAT,
    guidellm_console.FORMAT,
    guidellm_console_old.FORMAT,
    inference_perf.FORMAT,
    llmperf.FORMAT,
    open_webui.FORMAT,
    phasewise_rows.FORMAT,
    llama_cpp.FORMAT,
)


def _installed() -> tuple[Format, ...]:
    return tuple(point.load() for point in entry_points(group="phasewise.formats"))


FORMATS: tuple[Format, ...] = (*BUILTIN, *_installed())


def engines_of(formats: Iterable[Format]) -> tuple[str, ...]:
    """What ``--engine`` takes, each once."""
    return tuple(dict.fromkeys(fmt.engine for fmt in formats if fmt.grain != "setup"))


ENGINES = engines_of(FORMATS)

__all__ = ["BUILTIN", "ENGINES", "FORMATS", "Format", "engines_of"]
