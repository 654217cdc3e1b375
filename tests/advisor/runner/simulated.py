"""An engine whose every time is known, to see what is made of times; the real ones are in `tests/runner`."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from advisor.runner.engine import EngineError, Processor, Timed
from advisor.runner.machine import Moment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from advisor.runner.settings import Settings


class Engine:
    """1 ms for a prompt token and 10 for one of an answer, times a factor."""

    name, version, notes = "simulated", "1", ()
    processors = (Processor("CPU", "a processor", is_gpu=False),)

    def __init__(self, settings: Settings, factor: float) -> None:
        self.context = settings.context
        self._factor = factor

    def tokens(self, text: str) -> list[int]:
        return [hash(word) for word in text.split() for _ in range(2)]

    def chat_text(self, messages: Sequence[dict[str, str]]) -> str:
        return " ".join(message["content"] for message in messages)

    def forget(self) -> None:
        """Nothing is remembered."""

    def ask(self, prompt: Sequence[int], output_tokens: int) -> Timed:
        prefill_ms, decode_ms = len(prompt) * self._factor, 10 * (output_tokens - 1) * self._factor
        return Timed(
            datetime.now(UTC),
            prompt_tokens=len(prompt),
            cached_tokens=0,
            prefill_tokens=len(prompt),
            prefill_ms=prefill_ms,
            output_tokens=output_tokens,
            decode_ms=decode_ms,
            decode_steps=output_tokens - 1,
            ttft_ms=prefill_ms,
            total_ms=prefill_ms + decode_ms,
        )

    def close(self) -> None:
        """There is nothing to end."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.close()


@dataclass
class Backend:
    """Starts such engines.

    Attributes:
        factor: of the times, by the number of the start and its settings.
        fails: why it does not start, likewise; empty where it does.
    """

    factor: Callable[[int, Settings], float]
    fails: Callable[[int, Settings], str] = lambda start, settings: ""
    id: str = "simulated"
    extra: str = "none"
    engine: str = "simulated"
    starts: int = 0

    def is_installed(self) -> bool:
        return True

    def start(self, settings: Settings, log: Path) -> Engine:
        self.starts += 1
        if why := self.fails(self.starts, settings):
            raise EngineError(why)
        return Engine(settings, self.factor(self.starts, settings))


@dataclass
class Watch:
    """Sees a machine on which others use this much."""

    others_share: float | None = 0.0
    moments: list[Moment] = field(default_factory=list)

    @contextmanager
    def turn(self) -> Iterator[None]:
        try:
            yield
        finally:
            self.moments.append(Moment(others_share=self.others_share))

    def note(self) -> None:
        """Nothing to note."""

    def disturbances(self, *, turns_drift: bool) -> list[str]:
        return []
