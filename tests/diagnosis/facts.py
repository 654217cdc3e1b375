"""What a case states: the requests, the model as it was loaded, and the machine. Writers print it."""

from __future__ import annotations

from dataclasses import dataclass, field

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as the engine served it.

    Attributes:
        prompt: all tokens of the prompt, cached ones included.
        prefill_ms, decode_ms: times of the two phases.
        output: generated tokens.
        cached: prompt tokens from the cache.
        pause_ms: from the end of the request before to this one; negative where it began while that ran.
        slot: which slot serves it.
        said: what the engine says of it besides, after its id.
        draft: tokens accepted, and tokens drafted.
    """

    prompt: int
    prefill_ms: float
    output: int
    decode_ms: float
    cached: int = 0
    pause_ms: float = 5_000.0
    slot: int = 0
    said: tuple[str, ...] = ()
    draft: tuple[int, int] | None = None

    @property
    def evaluated(self) -> int:
        """Prompt tokens that were not cached."""
        return self.prompt - self.cached

    @property
    def busy_ms(self) -> float:
        """Prefill and decode together."""
        return self.prefill_ms + self.decode_ms

    @property
    def held(self) -> int:
        """Tokens in the slot at the end: the last generated one is not in it."""
        return self.prompt + self.output - 1


def asked(
    prompt: int,
    output: int,
    *,
    cached: int = 0,
    prefill_tok_s: float,
    decode_tok_s: float,
    pause_ms: float = 5_000.0,
) -> Asked:
    """A request at these rates; decode is timed from the first token."""
    return Asked(
        prompt=prompt,
        prefill_ms=1000 * (prompt - cached) / prefill_tok_s,
        output=output,
        decode_ms=1000 * (output - 1) / decode_tok_s,
        cached=cached,
        pause_ms=pause_ms,
    )


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU as llama.cpp names it; ``detail`` is what stands behind the name in its own line."""

    name: str
    mib: int
    backend: str = "CUDA"
    detail: str = "compute capability 8.9, VMM: yes"


@dataclass(frozen=True, slots=True)
class Machine:
    """The computer: its processor's name and memory, threads that llama.cpp uses and sees, its GPUs."""

    cpu: str = "AMD Ryzen 7 7700 8-Core Processor"
    memory_mib: int = 63_967
    threads: int = 8
    hardware_threads: int = 16
    gpus: tuple[Gpu, ...] = ()
    compiler: str = "GNU 13.3.0 for Linux x86_64"


@dataclass(frozen=True, slots=True)
class Model:
    """A GGUF file and how it lies in memory.

    Attributes:
        path, name, arch, file_type, size, params, kind: as the header prints them.
        layers, heads, kv_heads, head_dim, embedding, window, experts, experts_used, trained: as in the file.
        offloaded: layers on the GPU, and how many there are with the output layer.
        weights, cache, compute: MiB by buffer.
        context: tokens of all slots together.
        slots: how many share it.
        batch, ubatch: logical and physical batch.
        kv_types: of keys and values.
        flash: flash attention is on, where a build prints that as 0 or 1.
    """

    path: str
    name: str
    file_type: str
    size: str
    params: str
    arch: str = "llama"
    kind: str = "8B"
    layers: int = 32
    heads: int = 32
    kv_heads: int = 8
    head_dim: int = 128
    embedding: int = 4096
    window: int = 0
    experts: int = 0
    experts_used: int = 0
    trained: int = 131_072
    offloaded: tuple[int, int] | None = (33, 33)
    weights: dict[str, float] = field(default_factory=dict)
    cache: dict[str, float] = field(default_factory=dict)
    compute: dict[str, float] = field(default_factory=dict)
    cache_layers: int | None = None
    context: int = 8192
    slots: int = 1
    batch: int = 2048
    ubatch: int = 512
    kv_types: tuple[str, str] = ("f16", "f16")
    flash: bool = False

    @property
    def context_per_slot(self) -> int:
        """Tokens that one slot can hold."""
        return self.context // self.slots

    @property
    def cache_mib(self) -> float:
        """The KV cache in all buffers, MiB."""
        return sum(self.cache.values())
