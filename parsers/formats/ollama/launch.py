"""What the command line that starts a model says: context, slots, offload, batch."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from parsers.formats.systems import system_of_path

if TYPE_CHECKING:
    from datetime import datetime

    from parsers.formats.ollama.access import Run

_MODEL = re.compile(r"--model (.+?)(?= --?[a-z]|\n|$)")
_FLAG = re.compile(r"(?<= )(--?[a-z][a-z-]*)(?: (?!-[-a-z])(\S+))?")
_COUNT = re.compile("[0-9]{1,12}")
_COUNTS = {
    "-c": "context_total",
    "--ctx-size": "context_total",
    "-np": "slots",
    "--parallel": "slots",
    "-b": "batch",
    "--batch-size": "batch",
    "-ub": "ubatch",
    "--ubatch-size": "ubatch",
    "-t": "threads",
    "--threads": "threads",
    "-tb": "threads_batch",
    "--threads-batch": "threads_batch",
    "--ctx-checkpoints": "checkpoints",
    "--draft-max": "draft_max",
    "--spec-draft-n-max": "draft_max",
}
_WORDS = {
    "--cache-type-k": ("kv_type_k",),
    "--cache-type-v": ("kv_type_v",),
    "--kv-cache-type": ("kv_type_k", "kv_type_v"),
}
_KV_ON_CPU = ("-nkvo", "--no-kv-offload")
_GPU_LAYERS = ("-ngl", "--n-gpu-layers")
_SWITCH = {"on": True, "off": False, "true": True, "false": False, "enabled": True, "disabled": False}
_DIGEST_DIGITS = 12


class Server:
    """One model process of Ollama: what its start says, and the setup its own lines fill.

    Attributes:
        model: the blob's short digest, such as ``sha256-9ed150d4367e``, or the file's name.
        line: the line that starts it.
        started_at: when it was started, UTC.
        logs_requests: whether its own lines tell of each request; ``None`` where that depends (until 0.3).
        embedding: true when it serves embeddings only; ``None`` where the start does not say.
        facts: setup facts of its command line.
        estimate: those that Ollama estimated before it was started, and where.
        gpu_layers: layers asked to be on the GPU.
        kv_on_cpu: the KV cache was told to stay in main memory.
        load_ms: how long it took to answer its first health check.
        run: the setup that its lines fill, once its start is over.
    """

    def __init__(self, model: str | None, line: int, started_at: datetime | None) -> None:
        self.model = model
        self.line = line
        self.started_at = started_at
        self.logs_requests: bool | None = False
        self.embedding: bool | None = None
        self.facts: dict[str, int | bool | str] = {}
        self.estimate: tuple[str, dict[str, int | None]] = ("", {})
        self.gpu_layers: int | None = None
        self.kv_on_cpu = False
        self.load_ms: float | None = None
        self.run: Run | None = None

    def learn_command(self, command: bytes) -> None:
        """Read the flags of the command line, as slog quotes it."""
        text = _unquoted(command)
        model = _MODEL.search(text)
        self.model = blob_name(model[1]) if model else None
        for flag, value in _FLAG.findall(text):
            if flag in _COUNTS and _COUNT.fullmatch(value):
                self.facts[_COUNTS[flag]] = int(value)
            elif flag in _WORDS and value:
                self.facts.update(dict.fromkeys(_WORDS[flag], value))
            elif flag in _GPU_LAYERS and _COUNT.fullmatch(value):
                self.gpu_layers = int(value)
            elif flag in _KV_ON_CPU:
                self.kv_on_cpu = True
            elif flag == "--flash-attn":
                self._flash(value or "on")
            elif flag == "--no-mmap":
                self.facts["mmap"] = False
            elif flag == "--load-mode" and value != "auto":
                self.facts["mmap"] = value.startswith("mmap")
            elif flag == "--cache-ram" and _COUNT.fullmatch(value):
                self.facts["host_cache_bytes"] = int(value) << 20
        if system := system_of_path(text) or (model and system_of_path(model[1])):
            self.facts["os"] = system
        self.embedding = " --embedding" in text
        self._share_context()

    def learn_request(self, found: dict[str, bytes]) -> None:
        """Read the load request of the Go engines (0.11 to 0.24), whose command line says little."""
        counts = {"context_total": "context", "slots": "parallel", "batch": "batch", "threads": "threads"}
        self.facts.update({name: int(found[key]) for name, key in counts.items() if int(found[key])})
        if found["kv"]:
            kind = found["kv"].decode()
            self.facts.update(kv_type_k=kind, kv_type_v=kind)
        if found["mmap"]:
            self.facts["mmap"] = found["mmap"] == b"true"
        self.gpu_layers = int(found["layers"] or 0)
        self._flash(found["flash"].decode().lower())
        self._share_context()

    def _flash(self, word: str) -> None:
        if word in _SWITCH:
            self.facts["flash_attention"] = _SWITCH[word]

    def _share_context(self) -> None:
        total, slots = self.facts.get("context_total"), self.facts.get("slots")
        if total and slots:
            self.facts["context"] = int(total) // int(slots)

    def detail(self) -> str:
        """The numbers that make Ollama load a model again when they change."""
        named = (
            ("ctx", self.facts.get("context_total")),
            ("parallel", self.facts.get("slots")),
            ("gpu layers", self.gpu_layers),
            ("batch", self.facts.get("batch")),
        )
        numbers = ", ".join(f"{name} {value}" for name, value in named if value is not None)
        model = f"model {self.model}" if self.model else ""
        return "; ".join(part for part in (numbers, model) if part)


def _unquoted(command: bytes) -> str:
    text = command.decode("utf-8", "replace").strip()
    if text.startswith('"'):
        text = text[1:].partition('" ')[0].removesuffix('"')
    return text.replace("\\\\", "\\")


def blob_name(path: str) -> str:
    """The name of a model file without its folders; a blob's digest is shortened."""
    name = re.split(r"[/\\]", path.strip())[-1]
    return name[: len("sha256-") + _DIGEST_DIGITS] if name.startswith("sha256-") else name


def short_model(name: str) -> str:
    """``registry.ollama.ai/library/llama3.2:3b`` as people type it."""
    return name.removeprefix("registry.ollama.ai/").removeprefix("library/")
