"""The formats `phasewise` reads: one file for each engine, listed here in the order they are tried.

Other distributions add theirs through the entry point group ``phasewise.formats``, each a `Format`.
"""

from __future__ import annotations

from importlib.metadata import entry_points

from parsers.formats import llama_cli, llama_cpp, llama_cpp_python, llama_server, ollama, vllm
from parsers.formats.base import Format

BUILTIN: tuple[Format, ...] = (
    llama_server.FORMAT,
    llama_cpp_python.FORMAT,
    llama_cli.FORMAT,
    ollama.FORMAT,
    vllm.FORMAT,
    llama_cpp.FORMAT,
)


def _installed() -> tuple[Format, ...]:
    return tuple(point.load() for point in entry_points(group="phasewise.formats"))


FORMATS: tuple[Format, ...] = (*BUILTIN, *_installed())

__all__ = ["BUILTIN", "FORMATS", "Format"]
