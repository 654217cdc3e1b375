"""Whose word counts for a remedy: physics' from what was measured, or the finding's."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from advisor.runner.arm import Arm
from advisor.runner.block import AS_IT_IS, Block, Measured, Side
from advisor.runner.engine import Timed
from advisor.runner.plan import Trying
from advisor.runner.promises import promises
from advisor.runner.settings import Settings
from advisor.runner.workload import Ask, Prompt, Segment, Workload
from rules.prediction import Expected

if TYPE_CHECKING:
    from pathlib import Path

LOG = Expected(0.4, "of the log", "at_most")


def turn(side: Side, shared: int) -> Block:
    """Three requests of 1,000 tokens and 32 more; the later ones reuse so much."""
    block = Block(side, side, 0)
    for ask in side.arm.workload.asks:
        reused = 0 if ask.is_fresh else shared
        timed = Timed(
            datetime.now(UTC), 1000, reused, 1000 - reused, 4.0 * (1000 - reused), 33, 640.0, 32, None, 5000.0
        )
        block.measured.append(Measured(side.label, 0, Prompt(ask, (0,) * 1000, reused), timed))
    return block


@pytest.fixture
def arm(tmp_path: Path) -> Arm:
    """The model's file is newer than what can be read of it."""
    model = tmp_path / "model.gguf"
    model.write_bytes(b"GGUF" + b"\xff" * 60)
    asks = tuple(Ask(f"{n}", (Segment("all", 1000),), 33, is_fresh=n == 0) for n in range(3))
    return Arm(
        Settings(model, threads=2, ubatch=512, batch=2048, flash_attention=True), Workload("made", asks)
    )


def test_a_workload_is_predicted_by_itself_whatever_the_log_promised(arm: Arm) -> None:
    """The first of three prompts is read whole either way, so no prefix saves more than two thirds."""
    broken, kept = Side("prefix=broken", arm), Side("prefix=kept", arm)
    trying = Trying("prefix=kept", "", "", broken, kept, promised={"prefill": LOG})
    found = promises(trying, [turn(broken, 0)], [turn(kept, 900)])
    assert found["prefill"].ratio == pytest.approx((1000 + 100 + 100) / 3000)
    assert found["decode"].ratio == 1.0


def test_the_log_s_promise_stands_where_no_formula_tells(arm: Arm) -> None:
    before = Side(AS_IT_IS, arm)
    after = Side("ubatch=64", replace(arm, settings=replace(arm.settings, ubatch=64)))
    trying = Trying("ubatch=64", "", "", before, after)
    blocks = [turn(before, 0)], [turn(after, 0)]
    assert promises(trying, *blocks)["prefill"].ratio is None
    assert promises(replace(trying, promised={"prefill": LOG}), *blocks)["prefill"] == LOG
