"""What a log says about the machine and the model: one `Setup` for each process start."""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Device(BaseModel):
    """A compute device as the log names it."""

    model_config = ConfigDict(extra="forbid")

    name: str
    backend: str | None = None
    memory_bytes: int | None = None
    bandwidth_gb_s: float | None = None


class Setup(BaseModel):
    """Facts about one process start. Every fact is ``None`` until a line states it.

    ``origin`` maps the name of each known fact to where it came from, such as ``log line 12``; ``disputed``
    maps a fact to what another source says of it.
    Sizes are bytes, counts are counts; ``context`` is per slot and ``context_total`` the whole pool: of vLLM
    and SGLang, the tokens that their KV pool holds. ``batch`` and ``ubatch`` are llama.cpp's logical and
    physical batch; ``chunk_tokens`` is the most tokens that a step of another engine takes
    (`--max-num-batched-tokens`, `--chunked-prefill-size`). ``threads_available`` are the hardware threads
    that the engine counts. ``compute_bytes`` are compute buffers on GPUs only, ``kv_cpu_bytes`` the part of
    ``kv_bytes`` in the machine's own memory. ``host_cache_bytes`` is the most that llama-server keeps of
    earlier prompts there, ``checkpoints`` the most context checkpoints of a slot: 0 is off. ``memory_share``
    is the share of a GPU's memory that the engine may fill (0-1). ``os`` is ``windows``,
    ``linux`` or ``macos``. ``label`` is the container, pod, unit or port that the lines of this process name.
    """

    model_config = ConfigDict(extra="forbid")

    source: str = ""
    line: int = 1
    label: str | None = None
    engine: str | None = None
    engine_version: str | None = None
    origin: dict[str, str] = Field(default_factory=dict)
    disputed: dict[str, str] = Field(default_factory=dict)
    model: str | None = None
    architecture: str | None = None
    parameters: int | None = None
    quantization: str | None = None
    weights_bytes: int | None = None
    layers: int | None = None
    layers_offloaded: int | None = None
    layers_offloadable: int | None = None
    kv_heads: int | None = None
    head_dim_k: int | None = None
    head_dim_v: int | None = None
    experts: int | None = None
    experts_used: int | None = None
    sliding_window: int | None = None
    context: int | None = None
    context_total: int | None = None
    context_trained: int | None = None
    slots: int | None = None
    batch: int | None = None
    ubatch: int | None = None
    flash_attention: bool | None = None
    kv_type_k: str | None = None
    kv_type_v: str | None = None
    kv_bytes: int | None = None
    kv_bytes_per_token: float | None = None
    kv_cpu_bytes: int | None = None
    kv_unified: bool | None = None
    cpu_weights_bytes: int | None = None
    gpu_weights_bytes: int | None = None
    devices: list[Device] = Field(default_factory=list)
    compute_bytes: int | None = None
    threads: int | None = None
    threads_batch: int | None = None
    threads_available: int | None = None
    os: str | None = None
    mmap: bool | None = None
    thinking: bool | None = None
    prefix_caching: bool | None = None
    speculative: str | None = None
    draft_max: int | None = None
    eager: bool | None = None
    block_tokens: int | None = None
    chunk_tokens: int | None = None
    host_cache_bytes: int | None = None
    checkpoints: int | None = None
    tensor_parallel: int | None = None
    memory_share: float | None = None
    max_running: int | None = None
    verbosity: int | None = None

    def learn(self, origin: str, **facts: Any) -> None:
        """Record facts that are not ``None``; the first origin of a fact wins, later lines may update it."""
        for name, value in facts.items():
            if value is not None:
                setattr(self, name, value)
                self.origin[name] = origin

    @property
    def is_empty(self) -> bool:
        """True while no line has stated anything."""
        return not self.origin and not self.devices


class _Sealed(NamedTuple):
    """A setup that learns no more: its facts as JSON, and the lines of the log that state them."""

    facts: str
    origins: tuple[str, ...]
    line: int
    lines: array[int]


_LOG_LINE = re.compile(r"log line (\d+)")


class Setups(Sequence[Setup]):
    """One setup for each process start, by the rows' ``run``.

    A log may hold ten thousands of starts that say the same. Of those that are over only the lines are kept
    apart, and they are made anew whenever they are asked for.
    """

    def __init__(self, setups: Iterable[Setup] = ()) -> None:
        self._setups: list[Setup | _Sealed] = []
        self._shared: dict[Any, Any] = {}
        for setup in setups:
            self.append(setup)

    def append(self, setup: Setup) -> None:
        """A process starts."""
        self._setups.append(setup)

    def seal(self, run: int) -> None:
        """This one's process is over: it learns no more."""
        setup = self._setups[run]
        if isinstance(setup, Setup):
            lines = [found[1] for told in setup.origin.values() if (found := _LOG_LINE.fullmatch(told))]
            if len(lines) == len(setup.origin):
                facts = self._once(setup.model_dump_json(exclude={"line", "origin"}, exclude_defaults=True))
                origins = self._once(tuple(setup.origin))
                self._setups[run] = _Sealed(facts, origins, setup.line, array("Q", map(int, lines)))

    def extend(self, more: Setups) -> None:
        """Another source's, all of them over."""
        for run in range(len(more)):
            self._setups.append(more._setups[run])
            self.seal(len(self) - 1)

    def copy(self) -> Setups:
        """The same setups, which learn no more."""
        copied = Setups()
        copied._setups = [s.model_copy(deep=True) if isinstance(s, Setup) else s for s in self._setups]
        return copied

    def add(self, other: Setups, run: int) -> None:
        """One of another's, as it is there."""
        self._setups.append(other._setups[run])

    def _once(self, value: Any) -> Any:
        return self._shared.setdefault(value, value)

    def __len__(self) -> int:
        return len(self._setups)

    @overload
    def __getitem__(self, run: int) -> Setup: ...
    @overload
    def __getitem__(self, run: slice) -> list[Setup]: ...
    def __getitem__(self, run: int | slice) -> Setup | list[Setup]:
        if isinstance(run, slice):
            return [self[one] for one in range(*run.indices(len(self)))]
        kept = self._setups[run]
        return kept if isinstance(kept, Setup) else _made_anew(kept)

    def __iter__(self) -> Iterator[Setup]:
        return (self[run] for run in range(len(self)))


def _made_anew(sealed: _Sealed) -> Setup:
    setup = Setup.model_validate_json(sealed.facts)
    setup.line = sealed.line
    setup.origin = {fact: f"log line {at}" for fact, at in zip(sealed.origins, sealed.lines, strict=True)}
    return setup
