"""What the runner needs of an engine, and what an engine says of a request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from advisor.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from advisor.runner.settings import Settings


class EngineError(InputError):
    """The engine can't do what it is asked; the message is one clear sentence."""


@dataclass(frozen=True, slots=True)
class Timed:
    """What one request took; ``None`` is unknown.

    The engine's own counters give tokens, ``prefill_ms`` and ``decode_ms``; the rest is what stood on the
    clock of who asked, from just before the request.

    Attributes:
        started_at: UTC.
        prompt_tokens: all of the prompt.
        cached_tokens: of those, reused from the request before.
        prefill_tokens: of those, evaluated.
        output_tokens: generated.
        decode_steps: tokens that ``decode_ms`` paid for.
        ttft_ms: until the first token came.
        total_ms: until the last one came.
        inter_token_ms: the gaps between tokens, one fewer than tokens that came apart.
        draft_tokens, accepted_tokens: of speculation.
        finish_reason: as the engine says it.
    """

    started_at: datetime
    prompt_tokens: int
    cached_tokens: int | None
    prefill_tokens: int | None
    prefill_ms: float | None
    output_tokens: int
    decode_ms: float | None
    decode_steps: int | None
    ttft_ms: float | None
    total_ms: float
    inter_token_ms: tuple[float, ...] = ()
    draft_tokens: int | None = None
    accepted_tokens: int | None = None
    finish_reason: str | None = None


@dataclass(frozen=True, slots=True)
class Processor:
    """A device as ggml lists it.

    Attributes:
        name: as ggml names it, such as ``CUDA0``.
        description: the product.
        is_gpu: whether layers can be offloaded to it.
        memory_bytes, free_bytes: of its memory.
    """

    name: str
    description: str
    is_gpu: bool
    memory_bytes: int | None = None
    free_bytes: int | None = None


class Engine(Protocol):
    """A model that is loaded, in a process of its own; closing it ends the process.

    Attributes:
        name: as in the rows' ``engine`` column.
        version: of the engine; ``None`` where it does not say.
        processors: what ggml sees.
        context: tokens of context that it really has.
        notes: sentences for the user on what a setting came to.
    """

    name: str
    version: str | None
    processors: tuple[Processor, ...]
    context: int
    notes: tuple[str, ...]

    def tokens(self, text: str) -> list[int]:
        """The tokens of a text, without a token for its begin.

        Raises:
            EngineError: the engine ended.
        """
        ...

    def chat_text(self, messages: Sequence[dict[str, str]]) -> str:
        """Messages as the model's own chat template writes them.

        Raises:
            EngineError: the model has no usable template, or the engine ended.
        """
        ...

    def forget(self) -> None:
        """Drop what is cached: nothing of the next prompt is reused.

        Raises:
            EngineError: the engine ended.
        """
        ...

    def ask(self, prompt: Sequence[int], output_tokens: int) -> Timed:
        """Evaluate a prompt and generate exactly so many tokens, greedily; end tokens don't end it.

        Raises:
            EngineError: it does not fit, or the engine ended.
        """
        ...

    def close(self) -> None:
        """End the process; its log is complete after that."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


class Backend(Protocol):
    """A kind of engine that can be installed.

    Attributes:
        id: as ``--backend`` names it.
        extra: of this project, which installs it.
        engine: as in the rows' ``engine`` column.
    """

    id: str
    extra: str
    engine: str

    def is_installed(self) -> bool:
        """Whether its package is there; nothing of it is imported."""
        ...

    def start(self, settings: Settings, log: Path) -> Engine:
        """Load a model in a process of its own.

        Args:
            settings: how.
            log: where the engine's own log is appended, as it prints it.

        Raises:
            EngineError: why it can't, in one sentence.
        """
        ...
