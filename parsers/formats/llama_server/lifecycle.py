"""What llama-server says of a task besides its timings; wording by build where it changed."""

from __future__ import annotations

from parsers.formats.base import line
from parsers.formats.llama_cpp import HEAD
from parsers.formats.llama_server.prefixed import SLOT

LINES = (
    line("started", b"llama_server: initializing", HEAD + rb"srv +llama_server: initializing"),
    line("started", b"build: ", HEAD + rb"(?:main: )?build: (?P<build>\d+) \(\w+\) with "),
    line("launch", b"processing task", SLOT + rb"processing task"),
    line(
        "new_prompt",
        b"| new prompt, n_ctx_slot",
        SLOT + rb"new prompt, n_ctx_slot = \d+, .*(?:n_prompt_tokens|task\.n_tokens) = (?P<tokens>\d+)",
    ),
    line(
        "input_truncated",
        b"| input truncated, n_ctx",
        SLOT + rb"input truncated, n_ctx = (?P<context>\d+), .*n_prompt_tokens = (?P<tokens>\d+)",
    ),
    line("cached", b"kv cache rm [", SLOT + rb"kv cache rm \[(?P<tokens>\d+), end\)"),
    line(
        "cached",
        b"memory_seq_rm [",
        SLOT + rb"(?:n_past|n_tokens|cached n_tokens) = \d+, memory_seq_rm \[(?P<tokens>\d+), end\)",
    ),
    line("reprocess", b"forcing full prompt re-processing", SLOT + rb"forcing full prompt re-processing"),
    line("shift", b"slot context shift", SLOT + rb"slot context shift, .*n_discard = (?P<discarded>\d+)"),
    line(
        "released",
        b"stop processing: n_",
        SLOT + rb"stop processing: n_(?:past|tokens) = (?P<tokens>\d+), truncated = (?P<truncated>[01])",
    ),
    line("cancelled", b"stop: cancel task", HEAD + rb"srv +stop: cancel task, id_task = (?P<task>\d+)"),
    line(
        "failed",
        b"send_error: task id",
        HEAD
        + rb"srv +send_error: task id = (?P<task>\d+), error: (?:request \((?P<prompt>\d+) tokens\) exceeds"
        rb" the available context size \((?P<context>\d+) tokens\))?",
    ),
    line(
        "route",
        b" request: POST /",
        HEAD + rb"srv +log_server_r: (?:done )?request: POST (?P<path>/\S+) \S+ (?P<status>\d+)",
    ),
    line(
        "load_failed", b"exiting due to model loading error", HEAD + rb".*exiting due to model loading error"
    ),
    line(
        "out_of_memory",
        b"insufficient memory (attempted",
        HEAD + rb"\S+: insufficient memory \(attempted to allocate"
        rb" (?P<size>[\d.]+ MB)\)",
    ),
    line(
        "out_of_memory",
        b"cudaMalloc failed: out of memory",
        HEAD + rb".*allocating (?P<size>[\d.]+ MiB) on device",
    ),
)
