"""llama.cpp's header: what libllama and ggml say of model, memory and devices when a model is loaded.

Every program of the family prints these lines (server, cli, Python binding, Ollama's runner), in names
that changed over the years: `llm_load_print_meta` until b4462, `print_info` since. Since b9151 they are
hidden at the default verbosity of llama-server.

- `lines.py`: the lines, and what llama.cpp puts before each.
- `units.py`: its clock, its sizes and its buffers.
- `own.py`: which lines are the header's own; `devices.py`: what they say of devices.
- `reader.py`: fills the setup.
"""

from __future__ import annotations

from parsers.formats.base import Format
from parsers.formats.llama_cpp.lines import HEAD, LINES
from parsers.formats.llama_cpp.reader import HeaderReader
from parsers.formats.llama_cpp.units import clock_ms, on_host, size_bytes

FORMAT = Format(
    engine="llama.cpp",
    title="llama.cpp model header (setup only)",
    versions="b1413 and newer",
    grain="setup",
    identify=(
        b"_info:",
        b"build: ",
        b"build = ",
        b"ggml_",
        b"llm_load_print_meta: ",
        b"llama_model_loader: ",
        b"loading model '",
        b"load_tensors: ",
    ),
    banner=HEAD + rb"(?:cmn +\S+: +)?(?:device|system|build)_info:",
    lines=LINES,
    reader=HeaderReader,
    splits="none: setup only",
)

__all__ = ["FORMAT", "HEAD", "HeaderReader", "clock_ms", "on_host", "size_bytes"]
