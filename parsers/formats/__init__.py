"""The formats `phasewise` reads: one file for each engine, listed here in the order they are tried.

Other distributions add theirs through the entry point group ``phasewise.formats``, each a `Format`.
"""

from __future__ import annotations

from importlib.metadata import entry_points

from parsers.formats import (
    koboldcpp,
    llama_batched_bench,
    llama_bench,
    llama_cli,
    llama_cpp,
    llama_cpp_python,
    llama_server,
    ollama,
    sglang,
    tabbyapi,
    text_generation_webui,
    tgi,
    vllm,
)
from parsers.formats.base import Format

BUILTIN: tuple[Format, ...] = (
    llama_server.FORMAT,
    llama_cpp_python.FORMAT,
    llama_cli.FORMAT,
    ollama.FORMAT,
    vllm.FORMAT,
    sglang.FORMAT,
    tgi.FORMAT,
    koboldcpp.FORMAT,
    tabbyapi.FORMAT,
    text_generation_webui.FORMAT,
    llama_bench.FORMAT,
    llama_batched_bench.FORMAT,
    llama_cpp.FORMAT,
)


def _installed() -> tuple[Format, ...]:
    return tuple(point.load() for point in entry_points(group="phasewise.formats"))


FORMATS: tuple[Format, ...] = (*BUILTIN, *_installed())

ENGINES: tuple[str, ...] = tuple(fmt.engine for fmt in FORMATS if fmt.grain != "setup")
"""What ``--engine`` takes."""

__all__ = ["BUILTIN", "ENGINES", "FORMATS", "Format"]
