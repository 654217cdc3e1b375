"""What is made of turns whose times are known."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from advisor.errors import InputError
from advisor.options import Shape
from advisor.runner.arm import Arm
from advisor.runner.bench import Bench
from advisor.runner.block import AS_IT_IS, Side
from advisor.runner.knobs import parse
from advisor.runner.plan import Plan, Trying
from advisor.runner.progress import Bar
from advisor.runner.settings import Settings
from advisor.runner.shapes import workload
from advisor.runner.verdicts import verdicts
from tests.advisor.runner.simulated import Backend, Watch

if TYPE_CHECKING:
    from collections.abc import Callable

    from advisor.runner.result import Try

BASE = Arm(Settings(Path("model.gguf"), threads=2), workload(Shape.CHAT))


def tried(
    *changes: str, backend: Backend, rounds: int | None = 8, watch: Watch | None = None
) -> tuple[list[Try], Bench]:
    """The verdicts on changes, each against what it needs."""
    tries = []
    for text in changes:
        change = parse(text)
        before, after = change.sides(BASE)
        label = change.baseline(BASE) if before != BASE else ""
        tries.append(Trying(change.label, "", label, Side(label or AS_IT_IS, before), Side(text, after)))
    plan = Plan(backend, Side(AS_IT_IS, BASE), tuple(tries), rounds, 300.0)  # type: ignore[arg-type]
    watch = watch or Watch()
    bench = Bench(plan.backend, Path("log"), watch, Bar(lambda *_: None), lambda *_: None, print)  # type: ignore[arg-type]
    for sides in plan.groups:
        bench.run(sides, plan.rounds, plan.budget_s)
    return verdicts(plan, bench), bench


def by_settings(change: Callable[[Settings], float], drift: float = 0.0) -> Backend:
    return Backend(lambda start, settings: change(settings) * (1 + drift) ** start)


@pytest.fixture(autouse=True)
def any_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """No file is looked at for a prediction."""
    monkeypatch.setattr("advisor.runner.promises.checked", lambda path: None)


def test_a_change_is_told_in_each_phase() -> None:
    (one,), _ = tried("threads=1", backend=by_settings(lambda s: 2.0 if s.threads == 1 else 1.0))
    assert (one.verdict, one.is_clear, one.pairs) == ("slower", True, 8)
    assert [outcome.ratio for outcome in one.outcomes] == pytest.approx([2.0, 2.0, 2.0])
    assert one.before is not None
    assert one.measured is not None
    assert one.measured.prefill_ms == pytest.approx(2 * (one.before.prefill_ms or 0))


@pytest.mark.parametrize("rounds", [6, 7, 9])
def test_a_steady_drift_is_no_difference(rounds: int) -> None:
    (one,), bench = tried("threads=1", backend=by_settings(lambda s: 1.0, drift=0.02), rounds=rounds)
    assert len(bench.blocks) == 2 * (rounds + rounds % 2)
    assert one.verdict == "no-difference"
    assert one.outcomes[-1].ratio == pytest.approx(1.0)


def test_a_side_of_two_comparisons_is_judged_in_each_by_its_own_turns() -> None:
    """The machine gets slower when the second comparison begins; neither change does anything."""
    backend = Backend(lambda start, settings: 1.0 if start <= 16 else 1.1)
    said, bench = tried("flash=on", "kv=q8_0", backend=backend)
    assert len(bench.blocks) == 32
    assert [one.verdict for one in said] == ["no-difference", "no-difference"]
    assert all(outcome.ratio == pytest.approx(1.0) for one in said for outcome in one.outcomes)


def test_a_side_that_ends_midway_keeps_what_its_turns_say() -> None:
    backend = by_settings(lambda s: 0.5 if s.threads == 1 else 1.0)
    backend.fails = lambda start, s: "it was killed." if start > 10 and s.threads == 1 else ""
    (one,), bench = tried("threads=1", backend=backend, rounds=12)
    assert (one.verdict, one.pairs) == ("faster", 4)
    assert one.sentence.endswith("Then it could not go on. it was killed.")
    assert list(bench.faults.values()) == ["it was killed."]


def test_a_side_that_never_starts_is_not_tried_and_the_others_are() -> None:
    backend = by_settings(lambda s: 0.5 if s.threads == 1 else 1.0)
    backend.fails = lambda start, s: "no such cache." if s.kv_type_k == "f32" else ""
    said, _ = tried("kv=f32", "threads=1", backend=backend)
    assert [one.verdict for one in said] == ["not-tried", "faster"]
    assert said[0].sentence == "Not tried. no such cache."


def test_a_baseline_that_does_not_start_ends_the_run() -> None:
    backend = Backend(lambda start, s: 1.0, fails=lambda start, s: "the file is cut off.")
    with pytest.raises(InputError, match="cut off"):
        tried("threads=1", backend=backend)


def test_beside_a_busy_program_nothing_is_told() -> None:
    backend = by_settings(lambda s: 5.0 if s.threads == 1 else 1.0)
    (one,), _ = tried("threads=1", backend=backend, watch=Watch(others_share=0.5))
    assert (one.verdict, one.is_clear) == ("no-difference", False)
    assert one.sentence.startswith("Too disturbed to tell")
    assert {(o.verdict, o.is_clear) for o in one.outcomes} == {("no-difference", False)}


def test_a_prompt_that_does_not_fit_is_told_before_the_first_request() -> None:
    (one,), bench = tried("context=400", backend=by_settings(lambda s: 1.0))
    assert one.verdict == "not-tried"
    assert "don't fit a context of 400 tokens" in one.sentence
    assert not any(block.measured for block in bench.blocks if block.side.label == "context=400")


def test_as_many_turns_as_the_budget_allows_but_never_an_odd_number() -> None:
    _, bench = tried("threads=1", backend=by_settings(lambda s: 1.0), rounds=None)
    assert len(bench.blocks) == 2 * 12
