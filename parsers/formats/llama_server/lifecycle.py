"""What llama-server says of a task besides its timings; wording by build where it changed."""

from __future__ import annotations

from parsers.formats.base import line
from parsers.formats.llama_cpp import HEAD
from parsers.formats.llama_server.prefixed import SLOT

_TOO_LONG = (
    rb"(?P<too_long>(?:the )?request(?: \((?P<prompt>\d+) tokens\))? exceeds the available context size"
    rb"(?: \((?P<context>\d+) tokens\))?"
    rb"|input(?: \(\d+ tokens\))? is larger than the max context size"
    rb"|Context size has been exceeded"
    rb"|Input prompt is too big compared to KV size)"
)

LINES = (
    line("launch", b" | processing task", SLOT + rb"processing task"),
    line(
        "released",
        b" | stop processing: n_",
        SLOT
        + rb"stop processing: n_(?P<unit>past|tokens) = (?P<tokens>\d+), truncated = (?P<truncated>[01])",
    ),
    line(
        "new_prompt",  # `prompt tokenized` until b3973; `task.n_tokens` since b6890
        b", n_ctx_slot = ",
        SLOT + rb"(?:new prompt|prompt tokenized), n_ctx_slot = \d+, n_keep = -?\d+,"
        rb" (?:n_prompt_tokens|task\.n_tokens) = (?P<tokens>\d+)",
    ),
    line(
        "input_truncated",  # until b6722
        b" | input truncated, n_ctx",
        SLOT + rb"input truncated, n_ctx = (?P<context>\d+), .*n_prompt_tokens = (?P<tokens>\d+)",
    ),
    line(
        "cached",  # until b6684
        b" | kv cache rm [",
        SLOT + rb"kv cache rm \[(?P<tokens>\d+), end\)",
    ),
    line(
        "cached",  # since: the length first; in brackets the position, which with images is another number
        b", memory_seq_rm [",
        SLOT + rb"(?:n_past|n_tokens|cached n_tokens) = (?P<tokens>\d+), memory_seq_rm \[",
    ),
    line(
        "reprocess",
        b" | forcing full prompt re-processing",
        SLOT + rb"forcing full prompt re-processing",
    ),
    line(
        "shift",
        b" | slot context shift",
        SLOT + rb"slot context shift, .*n_discard = (?P<discarded>\d+)",
    ),
    line("stopped", b" | stopped by ", SLOT + rb"stopped by (?P<why>EOS|limit\b)"),
    line("started", b" llama_server: initializing", HEAD + rb"srv +llama_server: initializing"),
    line(
        "cancelled",  # `cancel_tasks` until about b7050, `stop` since
        b": cancel task, id_task = ",
        HEAD + rb"srv +\S+: cancel task, id_task = (?P<task>\d+)",
    ),
    line(
        "failed",
        b" send_error: task id = ",
        HEAD + rb"srv +send_error: task id = (?P<task>\d+), error: " + _TOO_LONG + rb"?",
    ),
    line(
        "route",  # without `srv` in 2024, `done request` since b7808, hidden by default since b9829
        b"request: POST /",
        HEAD + rb"(?:srv +log_server_r: )?(?:done )?request: POST (?P<path>/\S+) \S+ \d+",
    ),
    line(
        "load_failed",
        b"exiting due to model loading error",
        HEAD + rb"(?:srv +)?\S+: exiting due to model loading error",
    ),
    line(
        "out_of_memory",
        b"insufficient memory (attempted",
        HEAD + rb"\S+: insufficient memory \(attempted to allocate +(?P<size>[\d.]+ MB)\)",
    ),
    line(
        "out_of_memory",
        b"cudaMalloc failed: out of memory",
        HEAD + rb"\S+: allocating (?P<size>[\d.]+ MiB) on device",
    ),
    line(
        "dump",
        b"chat template, ",
        HEAD + rb"(?:srv +\S+: )?\S+: chat template, (?:built_in|chat_template|example_format)",
    ),
    line("dump", b"Parsing input with format", HEAD + rb"Parsing input with format "),
    line(
        "thinks",
        b"thinking = ",
        HEAD + rb"srv +init: (?:init: chat template, )?thinking = [01]\s*$",
    ),
    line("dumped", b"Parsed message: ", HEAD + rb"Parsed message: "),
    line("dumped", b"listening on ", HEAD + rb"(?:'?main|srv +llama_server): (?:server is )?listening on "),
)
