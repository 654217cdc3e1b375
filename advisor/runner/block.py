"""One turn of one side: a fresh process, a warm-up that doesn't count, then the whole workload once.

A process is the unit that is repeated: what it is lucky with (where its memory lies, which cores it gets) is
the same for all of its requests, so more requests in one process tell nothing of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from advisor.runner.engine import EngineError
from advisor.runner.workload import tokenised

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from advisor.runner.arm import Arm
    from advisor.runner.engine import Backend, Engine, Processor, Timed
    from advisor.runner.workload import Prompt

AS_IT_IS = "as it is"
_WARM_TOKENS, _WARM_OUTPUT_TOKENS = 128, 8


@dataclass(frozen=True, slots=True)
class Side:
    """An arm and what it is called."""

    label: str
    arm: Arm


@dataclass(frozen=True, slots=True)
class Measured:
    """One request that counts.

    Attributes:
        side: whose.
        block: the turn it is of, from 0.
        prompt: what was asked.
        timed: what it took.
    """

    side: str
    block: int
    prompt: Prompt
    timed: Timed


@dataclass(frozen=True, slots=True)
class Facts:
    """What an engine says of itself when it is up."""

    name: str
    version: str | None
    processors: tuple[Processor, ...]
    context: int
    notes: tuple[str, ...]


@dataclass(slots=True)
class Block:
    """A turn; complete once every request of its workload is in it.

    Attributes:
        side: whose turn it is.
        against: the side that its group is compared with.
        number: from 0, over all sides.
        facts: of its engine, once it is up.
        measured: its requests in their order.
        is_complete: whether all are there.
    """

    side: Side
    against: Side
    number: int
    facts: Facts | None = None
    measured: list[Measured] = field(default_factory=list)
    is_complete: bool = False


def turns(sides: Sequence[Side], rounds: int) -> Iterator[Side]:
    """A B, B A, A B ...: what drifts evenly over the run falls on all sides alike."""
    for number in range(rounds):
        yield from sides if number % 2 == 0 else reversed(sides)


def measure(block: Block, backend: Backend, log: Path, tell: Callable[[Measured], None]) -> None:
    """Run a turn; what was measured stays in the block, also when it ends early.

    Args:
        block: takes what is measured.
        backend: starts the engine.
        log: takes what the engine logs.
        tell: hears each request that counts.

    Raises:
        advisor.runner.engine.EngineError: the engine does not start, or ended.
    """
    with backend.start(block.side.arm.settings, log) as engine:
        block.facts = Facts(engine.name, engine.version, engine.processors, engine.context, engine.notes)
        prompts = tokenised(block.side.arm.workload, engine)
        _require_room(prompts, engine.context)
        _warm_up(engine, prompts)
        for prompt in prompts:
            if prompt.ask.is_fresh:
                engine.forget()
            timed = engine.ask(prompt.tokens, prompt.ask.output_tokens)
            block.measured.append(Measured(block.side.label, block.number, prompt, timed))
            tell(block.measured[-1])
    block.is_complete = True


def _require_room(prompts: Sequence[Prompt], context: int) -> None:
    """Say before the first request that one of them will not fit.

    Raises:
        EngineError: it won't.
    """
    for prompt in prompts:
        if len(prompt.tokens) + prompt.ask.output_tokens > context:
            raise EngineError(
                f"{prompt.ask.label}: {len(prompt.tokens):,} prompt tokens and {prompt.ask.output_tokens:,} "
                f"to generate don't fit a context of {context:,} tokens; --set context=N gives another."
            )


def _warm_up(engine: Engine, prompts: Sequence[Prompt]) -> None:
    """A short request, so that the weights are read and the buffers are touched; nothing of it is reused."""
    longest = max((prompt.tokens for prompt in prompts), key=len)
    engine.ask(longest[:_WARM_TOKENS], _WARM_OUTPUT_TOKENS)
    engine.forget()
