"""Runs the turns of one or several sides, and keeps what was measured whatever happens."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from advisor.errors import InputError
from advisor.runner.block import Block, measure, turns
from advisor.runner.progress import work, work_of
from rules.words import duration

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from advisor.runner.block import Measured, Side
    from advisor.runner.engine import Backend
    from advisor.runner.machine import Watch
    from advisor.runner.progress import Bar

LEAST_ROUNDS, MOST_ROUNDS = 6, 12
"""Turns of each side: fewer bound no median at 95 %, more are rarely worth the wait."""


class Bench:
    """Where sides take turns.

    Attributes:
        blocks: the turns taken, the last one perhaps cut short.
        watch: what it saw of the machine.
        faults: by side, why it can't run.

    Args:
        backend: starts the engines.
        log: takes what they log.
        watch: looks at the machine between turns.
        bar: shows how far it is.
        tell: hears each request that counts, with the turn it is of.
        warn: hears what to know while it runs.
    """

    def __init__(
        self,
        backend: Backend,
        log: Path,
        watch: Watch,
        bar: Bar,
        tell: Callable[[Block, Measured], None],
        warn: Callable[[str], None],
    ) -> None:
        self.blocks: list[Block] = []
        self.faults: dict[Side, str] = {}
        self.watch = watch
        self._backend, self._log, self._bar, self._tell, self._warn = backend, log, bar, tell, warn

    def run(self, sides: Sequence[Side], rounds: int | None, budget_s: float) -> None:
        """Let the sides take turns; a side other than the first that can't run is left out.

        Args:
            sides: the first is what the others are compared with.
            rounds: turns of each, made even for several sides, so that a drift cancels; ``None`` for as many
                as fit the budget, as the first round tells: how many does not depend on what comes out.
            budget_s: seconds for all turns.

        Raises:
            InputError: the first side can't run.
        """
        if len(sides) > 1 and rounds is not None:
            rounds += rounds % 2
        start_s, at_most = time.monotonic(), rounds or MOST_ROUNDS
        self._bar.whole += at_most * sum(work(side.arm) for side in sides)
        for taken, side in enumerate(turns(sides, at_most)):
            if rounds is None and taken == len(sides):
                at_most = self._affordable(time.monotonic() - start_s, budget_s)
                self._bar.whole -= (MOST_ROUNDS - at_most) * sum(work(side.arm) for side in sides)
            if taken >= at_most * len(sides):
                break
            if why := self._why_idle(side, sides[0]):
                self.faults[side] = why
            if side in self.faults:
                self._bar.advance(work(side.arm))
                continue
            try:
                self._turn(side, sides[0])
            except InputError as error:
                if side is sides[0]:
                    raise
                self.faults[side] = str(error)

    def _affordable(self, round_s: float, budget_s: float) -> int:
        """Turns of each side that fit the budget, an even number; too few would tell nothing."""
        fit = 2 * int(budget_s / max(round_s, 0.1) / 2)
        if fit < LEAST_ROUNDS:
            whole = duration(1000 * LEAST_ROUNDS * round_s)
            self._warn(f"{LEAST_ROUNDS} turns of each side take about {whole}: more than --budget.")
        return min(max(fit, LEAST_ROUNDS), MOST_ROUNDS)

    def _why_idle(self, side: Side, against: Side) -> str:
        """Why a change can do nothing here; empty where it may."""
        facts = next((block.facts for block in self.blocks if block.facts), None)
        if facts is None or any(processor.is_gpu for processor in facts.processors):
            return ""
        layers = against.arm.settings.gpu_layers
        settings = replace(side.arm.settings, gpu_layers=layers)
        is_idle = side != against and replace(side.arm, settings=settings) == against.arm
        return f"{facts.name} sees no GPU here, so gpu-layers has no effect." if is_idle else ""

    def _turn(self, side: Side, against: Side) -> None:
        block = Block(side, against, len(self.blocks))
        self.blocks.append(block)
        self._bar.begin(side.label)
        with self.watch.turn():
            measure(block, self._backend, self._log, lambda one: self._told(block, one))

    def _told(self, block: Block, measured: Measured) -> None:
        self.watch.note()
        self._bar.advance(work_of(measured.prompt.ask))
        self._tell(block, measured)
