"""What fuzzing begins with: the samples of the formats, the logs of the tests, and a few files made here."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import re
import struct
import tomllib
from functools import cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import zstandard

import parsers.documents
import parsers.formats
from parsers import ENGINES
from parsers.carriers import UNUSUAL
from tests.advisor.attacks import SECRETS
from tests.parsers.server_log import server_log
from tests.parsers.test_carriers import CARRIERS, ENCODED

if TYPE_CHECKING:
    from collections.abc import Iterable

_LOGS = Path(parsers.formats.__file__).parent / "samples"
_DOCUMENTS = Path(parsers.documents.__file__).parent / "samples"
KEPT = Path(__file__).parent / "corpus"
"""Inputs that found a fault once, a folder for each target."""


@cache
def samples(glob: str = "*.log") -> tuple[bytes, ...]:
    """The samples of formats that read lines, by name."""
    return tuple(path.read_bytes() for path in sorted(_LOGS.glob(glob)))


@cache
def short_samples() -> tuple[bytes, ...]:
    """The samples in pieces of some lines."""
    return tuple(cut(samples(), 800))


@cache
def metrics() -> tuple[bytes, ...]:
    """Answers of ``/metrics`` in pieces."""
    return tuple(cut(samples("*-metrics*.log"), 800))


@cache
def sample_engines() -> tuple[tuple[str, tuple[bytes, ...]], ...]:
    """Engines, and the pieces of samples that are of each."""
    found: dict[str, list[bytes]] = {}
    for path in sorted(_LOGS.glob("*.log")):
        engine = json.loads(path.with_suffix(".expected.json").read_text("utf-8")).get("engine")
        if engine in ENGINES:
            found.setdefault(engine, []).extend(cut([path.read_bytes()], 1000))
    return tuple((engine, tuple(pieces)) for engine, pieces in found.items())


@cache
def usual() -> tuple[bytes, ...]:
    """A llama-server's usual lines, with what is seldom among them and without, bare and carried."""
    logs = (server_log(Random(1), 12, odd=share) for share in (0.0, 0.05))
    bare = [b"".join(line + b"\n" for line in lines) for lines in logs]
    names = ("docker compose", "docker json-file", "kubernetes", "journald", "syslog with times")
    return (*bare, *(CARRIERS[name](bare[0]) for name in names))


@cache
def prompted() -> tuple[bytes, bytes]:
    """Logs of servers that print prompts: what stands beside one is read as without it."""
    logs = (_LOGS / name for name in ("llama-server-b7964.log", "vllm-v1.log"))
    server, vllm = (cut([log.read_bytes()], 1200)[0] for log in logs)
    return server, vllm


@cache
def documents() -> tuple[bytes, ...]:
    """The samples of documents."""
    return tuple(path.read_bytes() for path in sorted(_DOCUMENTS.iterdir()) if ".expected." not in path.name)


@cache
def records() -> tuple[Any, ...]:
    """Their values with short lists, and of those with a record a line a list of these."""
    found = []
    for data in documents():
        try:
            found.append(_shortened(json.loads(data)))
        except ValueError:
            found.append([_shortened(json.loads(line)) for line in data.splitlines() if line.strip()])
    return tuple(found)


@cache
def short_documents() -> tuple[bytes, ...]:
    """Documents with short lists, each value on a line of its own, and those with a record a line."""
    found = []
    for data in documents():
        try:
            found.append(json.dumps(_shortened(json.loads(data)), indent=0))
        except ValueError:
            records = (json.loads(line) for line in data.splitlines() if line.strip())
            found.append("\n".join(json.dumps(_shortened(record)) for record in records))
    return tuple(map(str.encode, found))


def _shortened(value: Any) -> Any:
    """The value with no more than three of what a list holds: more of the same is read in the same way."""
    if isinstance(value, list):
        return [_shortened(one) for one in value[:3]]
    return {key: _shortened(one) for key, one in value.items()} if isinstance(value, dict) else value


@cache
def json_lines() -> tuple[Any, ...]:
    """Objects that stand on lines of the formats' samples."""
    found = []
    for data in samples():
        for line in data.splitlines()[:40]:
            begin = line.find(b"{")
            if begin >= 0:
                try:
                    value = json.loads(line[begin:])
                except ValueError:
                    continue
                if isinstance(value, dict):
                    found.append(value)
    return tuple(found)


@cache
def lines() -> tuple[bytes, ...]:
    """All different lines of the samples."""
    return tuple(dict.fromkeys(line for data in samples() for line in data.split(b"\n") if line))


def cut(inputs: Iterable[bytes], size: int) -> list[bytes]:
    """The inputs in pieces of whole lines, none much longer than this."""
    found = []
    for data in inputs:
        while len(data) > size:
            end = data.rfind(b"\n", 0, size) + 1 or size
            found.append(data[:end])
            data = data[end:]
        found.append(data)
    return found


def kept(target: str) -> list[bytes]:
    """What found a fault in this target once."""
    return [path.read_bytes() for path in sorted((KEPT / target).glob("*"))]


@cache
def compressed() -> tuple[bytes, ...]:
    """A short log as each of the compressors writes it, two members of it, and itself."""
    log = samples()[0][:300]
    packed = (
        gzip.compress(log, mtime=0),
        zstandard.ZstdCompressor().compress(log),
        bz2.compress(log),
        lzma.compress(log),
    )
    return log, *packed, *(one + one for one in packed), gzip.compress(bytes(1 << 16), mtime=0)


FORMAT_FILE = """\
engine = "toy"
title = "Toy"
versions = "1"
identify = ["toy: "]
join = "single"
decode_steps = "output_tokens - 1"
clock = "%m-%d %H:%M:%S"
constants = {kind = "generation"}

[[line]]
name = "done"
needle = "toy: "
pattern = '(?P<time>.+) toy: (?P<prompt_tokens>\\d+) in, (?P<output_tokens>\\d+) out, (?P<total_ms>.+)s'
units = {total_ms="s"}

[[sample]]
text = "11-29 20:15:30 toy: 400 in, 40 out, 2.5s"
requests = [{prompt_tokens = 400, output_tokens = 40, total_ms = 2500.0}]
"""


@cache
def format_files() -> tuple[Any, ...]:
    """What a format file says."""
    return (tomllib.loads(FORMAT_FILE),)


@cache
def answers() -> tuple[Any, ...]:
    """What servers say of themselves, and of what they do."""
    slot = {"id": 0, "is_processing": True, "n_prompt_tokens_processed": 5, "next_token": [{"n_decoded": 3}]}
    model = {
        "name": "m:7b",
        "size": 9,
        "size_vram": 3,
        "context_length": 4096,
        "details": {"family": "llama"},
    }
    props = {"n_ctx": 4096, "params": {}}
    return (
        {
            "default_generation_settings": props,
            "total_slots": 4,
            "model_path": "/m.gguf",
            "build_info": "b1-x",
        },
        [slot, {**slot, "is_processing": False}, {**slot, "next_token": {"n_decoded": 0}}],
        {"data": [{"id": "m", "root": "org/m", "max_model_len": 4096, "owned_by": "vllm"}]},
        {"version": "0.17.1"},
        {"model_path": "m", "mem_fraction_static": 0.8, "tp_size": 2, "context_length": 1, "version": "1"},
        {"model_id": "m", "max_total_tokens": 4096, "max_concurrent_requests": 128, "version": "3"},
        {"result": "KoboldCpp", "version": "1.90"},
        {"models": [model]},
    )


@cache
def carried() -> tuple[bytes, ...]:
    """Lines in each of the wrappings, one inside another."""
    log = b"slot print_timing: id  0 | task 7 | prompt eval time =     100.00 ms /    50 tokens\n"
    wrapped = {name: carry(log).rstrip(b"\n") for name, carry in CARRIERS.items()}
    texts = [line for name, line in wrapped.items() if name not in ENCODED]
    twice = [carry(one + b"\n").rstrip(b"\n") for carry in list(CARRIERS.values())[:6] for one in texts[::3]]
    return (*wrapped.values(), *twice, *lines()[::9])


@cache
def carrier_words() -> tuple[bytes, ...]:
    """What wrappings are made of."""
    words = b'"log":" "MESSAGE":" "__REALTIME_TIMESTAMP":" "_SYSTEMD_UNIT":" "stream": "time":" "type":"log"'
    return (
        *(*words.split(b" "), *UNUSUAL, b'"msg":', b'"type":"server.log"', b'"data":', b'"content":'),
        *(b"2025-11-29T20:15:30Z ", b"stderr F ", b"\\ud800", b"\\u0000", b" pid=1) ", b"<13>1 - ", b"[1]: "),
    )


@cache
def torn() -> tuple[bytes, ...]:
    """Bytes of each encoding, and an export of the journal."""
    text = "srv  a: é\r\nslot b: \n\nlast"
    entry = b"__CURSOR=s=1\n__REALTIME_TIMESTAMP=1764447330000000\n_PID=7\n"
    entry += b"SYSLOG_IDENTIFIER=llama\nMESSAGE=one\n\n"
    long = b"__CURSOR=s=2\nMESSAGE\n" + struct.pack("<Q", 7) + b"two\n3\xff4\n_PID=8\n\n"
    return (
        *(text.encode(encoding) for encoding in ("utf-8", "utf-8-sig", "utf-16", "latin-1")),
        *("\ufeff".encode("utf-16-be") + text.encode("utf-16-be"), entry + long, long + entry),
    )


@cache
def toml() -> tuple[bytes, ...]:
    """Format files as text, and edits of one."""
    program = bytes(range(0, 250, 5))
    return (b"\x00" + FORMAT_FILE.encode(), *(b"\x80\x00\x00" + program[at:] for at in range(4)))


@cache
def toml_words() -> tuple[bytes, ...]:
    """What format files are made of."""
    return tuple(dict.fromkeys(re.findall(rb"\w+|\W{2,}", FORMAT_FILE.encode())))


@cache
def private() -> tuple[bytes, ...]:
    """What is masked."""
    return tuple(text.encode() for text in SECRETS)
