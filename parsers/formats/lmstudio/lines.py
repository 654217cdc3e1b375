"""The app log's lines.

In the log's file a stamp and a level stand before each message (`lms log stream` leaves out the stamp) and
are taken off as a carrier; in the window they stand on a line of their own, and the message follows with a
blank before it. The engine's lines keep their layout:
until 0.3 libllama's timing block, since 0.4 llama-server's lines, with a clock of their own since 0.4.15.
"""

from __future__ import annotations

from parsers.formats.base import line
from parsers.formats.clocks import STAMP

_LEVEL = rb"\[(?:DEBUG|INFO|WARN|ERROR)\]"
_WHO = rb"(?:\[(?P<model>[^\]]{1,200})\] )?"

LINES = (
    *(
        line("stamp", needle, rb"(?P<time>" + STAMP + rb") +" + _LEVEL + rb"\s*$")
        for needle in (b" [DEBUG]", b" [INFO]")
    ),
    line(
        "running", b"Running chat completion on", _WHO + rb"Running chat completion on conversation with \d+"
    ),
    line("answered", b"Finished streaming response", _WHO + rb"Finished streaming response"),
    line("predicted", b"Generated prediction: ", _WHO + rb"Generated prediction: +\{?"),
    line("left", b"Client disconnected. Stopping", _WHO + rb"Client disconnected\. Stopping generation"),
    line(
        "loading",
        b"LlamaV4::load called with model path: ",
        rb"LlamaV4::load called with model path: (?P<path>\S.*)$",
    ),
    line(
        "load_config",
        b"LlamaV4::load config: ",
        rb"LlamaV4::load config: n_parallel=(?P<slots>\d+) n_ctx=(?P<context>\d+)"
        rb"(?: kv_unified=(?P<unified>true|false))?",
    ),
    line("texted", b"type: llm.prediction.", rb"type: llm\.prediction\.(?:input|output)\s*$"),
    line("stamped", b"timestamp: ", rb"timestamp: \d"),
    line("noted", b"LlamaV4: server assigned slot", rb"LlamaV4: server assigned slot"),
    line("noted", b"[LM STUDIO SERVER]", rb"\[LM STUDIO SERVER\] "),
    line(
        "settings",
        b"Generate: n_ctx = ",
        rb"Generate: n_ctx = (?P<context>\d+), n_batch = (?P<batch>\d+), n_predict = ",
    ),
    line(
        "reuse",
        b"Cache reuse summary: ",
        rb"Cache reuse summary: (?P<cached>\d+)/(?P<prompt>\d+) of prompt ",
    ),
    line("to_decode", b"Prompt tokens to decode: ", rb"Prompt tokens to decode: (?P<tokens>\d+)\s*$"),
    line(
        "restored",
        b"Prompt cache restore: cached_tokens=",
        rb"(?:\[[^\]]*\]\[\w+\]: )?Prompt cache restore: cached_tokens=(?P<cached>\d+) "
        rb"uncached_tokens=(?P<uncached>\d+)",
    ),
)
