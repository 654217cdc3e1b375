"""The lines of Ollama's server log: Go's slog, gin's access log, and what was printed before slog."""

from __future__ import annotations

from parsers.formats.base import Line, line


def _slog(name: str, word: bytes, rest: bytes) -> Line:
    """A slog line: time, level, source, then the message, quoted where it holds a space."""
    return line(name, b" msg=", rb"time=(?P<time>\S+) level=[A-Z]+(?: source=\S+)? msg=" + rest, word)


def _plain(name: str, word: bytes, rest: bytes) -> Line:
    """A line without slog's keys, as all were until 0.1.20: date, clock and source file."""
    return line(name, b".go:", rb"(?P<time>\d{4}/\d\d/\d\d \d\d:\d\d:\d\d) \w+\.go:\d+: " + rest, word)


_LISTENING = rb"Listening on \S+ \(version (?P<version>[^)\s]+)\)"
_STARTED = rb"llama(?:-server| runner) started in (?P<seconds>\d{1,9}\.\d+) seconds"

LINES = (
    line(
        "gin",
        b"[GIN] ",
        rb"\[GIN\] (?P<time>\d{4}/\d\d/\d\d - \d\d:\d\d:\d\d) \| *(?P<status>\d{3}) \| *(?P<latency>\S+) \|"
        rb' *\S+ \| *POST +"(?P<route>/api/(?:generate|chat|embed|embeddings)'
        rb'|/v1/(?:chat/completions|completions|responses|messages|embeddings))(?:\?[^"]*)?"',
    ),
    _slog("config", b"server config", rb'"server config" env="map\[(?P<env>.*)\]"'),
    _plain("config", b"server config", rb'INFO server config env="map\[(?P<env>.*)\]"'),  # until 0.5
    _slog("compute", b"inference compute", rb'"inference compute" (?P<fields>.*)'),
    _slog("listening", b"Listening on ", b'"' + _LISTENING + b'"'),
    _plain("listening", b"Listening on ", _LISTENING),
    _plain("starting_plain", b"starting llama runner", rb"starting llama runner$"),
    _slog("starting_server", b"starting llama-server", rb'"starting llama-server" cmd=(?P<cmd>.+)'),
    _slog("starting_runner", b"starting llama server", rb'"starting llama server" cmd=(?P<cmd>.+)'),
    _slog("starting_runner", b"starting runner", rb'"starting runner" cmd=(?P<cmd>.+ --model .+)'),
    _slog("starting_mlx", b"starting mlx runner", rb'"starting mlx runner subprocess" model=(?P<model>\S+)'),
    _slog(
        "load_request",
        b"Operation:commit",
        rb'load request="\{Operation:commit .*?Parallel:(?P<parallel>\d{1,12}) BatchSize:(?P<batch>\d{1,12})'
        rb" FlashAttention:(?P<flash>\w+) KvSize:(?P<context>\d{1,12}) KvCacheType:(?P<kv>\w*)"
        rb" NumThreads:(?P<threads>\d{1,12}) GPULayers:(?P<layers>\d{0,6})\["
        rb"(?:.* UseMmap:(?P<mmap>true|false))?",
    ),
    _slog(
        "estimated", b"layers.requested=", rb'(?:offload|"offload to \w+") (?P<fields>.*layers\.requested=.*)'
    ),
    _slog(
        "took",
        b' size="',
        rb'"(?P<what>model weights|kv cache|compute graph)" (?:device|buffer|backend)=(?P<device>\w+)'
        rb'(?: buffer_type=\w+)? size="(?P<size>[\d.]+ \w+)"',
    ),
    _slog("took_all", b"total memory", rb'"total memory" size='),
    _slog("output_on_cpu", b"output layer to CPU", rb'"offloading output layer to CPU"'),
    _slog("offloaded", b" layers to GPU", rb'"offloaded (?P<done>\d{1,6})/(?P<all>\d{1,6}) layers to GPU"'),
    _slog("started", b" started in ", b'"' + _STARTED + b'"'),
    _plain("started", b" started in ", _STARTED),
    _slog("named", b"template selection", rb'"template selection" model=(?P<model>[^"\s]+) '),
    _slog("loaded", b"loaded runners", rb'"loaded runners" count=(?P<count>\d{1,9})'),
    _slog("load_failed", b"Load failed", rb'"Load failed"'),
    _slog("load_failed", b"error loading llama server", rb'"error loading llama server"'),
    _slog("died", b" terminated", rb'"llama(?:-server| runner) terminated" error='),
    _slog(
        "expires",
        b" expir",
        rb'"(?P<said>timer expired, expiring to unload'
        rb"|runner with zero duration has gone idle, expiring to unload"
        rb'|resetting model to expire immediately to make room)" (?P<runner>.*)',
    ),
    _slog(
        "evicts",
        b", evicting",
        rb'"(?:model requires more (?:\w+ )?memory than is currently available, evicting a model to make'
        rb" space|llama-server model predicted to exceed available memory, evicting)\"",
    ),
    _slog("stopping", b"stopping ", rb'"stopping (?:llama[- ]server|mlx runner subprocess)"'),
    _slog(
        "prompt_cut",
        b"truncating input prompt",
        rb'"truncating input prompt" limit=(?P<limit>\d{1,12}) prompt=(?P<prompt>\d{1,12})'
        rb"(?: (?:keep|numKeep)=-?\d+)?(?: new=(?P<new>\d{1,12}))?",
    ),
    _slog(
        "messages_dropped",
        b" messages which exceed context length",
        rb'"truncating (?:input|native chat) messages which exceed context length"'
        rb" truncated=(?P<count>\d{1,9})",
    ),
    _slog(
        "shifted",
        b"context limit hit",
        rb'"context limit hit - shifting" .*\b(?:d|numD)iscard=(?P<discarded>\d{1,12})',
    ),
    _slog(
        "cache_slot",
        b"loading cache slot",
        rb'"loading cache slot" id=\d+ cache=\d+ prompt=(?P<prompt>\d{1,12}) used=(?P<used>\d{1,12})'
        rb" remaining=(?P<remaining>\d{1,12})",
    ),
)
