"""Why a model was not loaded: what the engine says before it gives up, and what that means.

The words are ours; nothing of the line but the fixed part is kept.
"""

from __future__ import annotations

import re

from parsers.formats.base import line
from parsers.formats.llama_cpp import HEAD

_FLASH = "a quantized V cache needs flash attention (-fa on)"

CAUSES: dict[bytes, str] = {
    b"failed to open GGUF file": "its file can't be opened",
    b"model is corrupted or incomplete": "its file is corrupted or incomplete",
    b"invalid magic characters": "its file is no GGUF",
    b"failed to allocate buffer for kv cache": "no memory for this context's KV cache (a smaller -c helps)",
    b"quantized V cache requires flash_attn": _FLASH,
    b"V cache quantization requires flash_attn": _FLASH,
    b"unable to allocate": "no memory for its weights",
}
"""By what the engine prints; the first that a start prints is the cause, the rest follow from it."""

LINES = tuple(
    line("cause", words, HEAD + rb"\w+: .{0,200}?(?P<cause>" + re.escape(words) + rb")") for words in CAUSES
)
