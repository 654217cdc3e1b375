"""What each remedy did: its turns against those without it, beside what physics promised."""

from __future__ import annotations

from typing import TYPE_CHECKING

from advisor.runner.block import AS_IT_IS
from advisor.runner.promises import promises
from advisor.runner.result import MeasuredMs, Outcome, PhaseInterval, PhaseMs, Try
from rules.came_true import compared
from rules.trials import Block as Times
from rules.trials import Pair, judged
from rules.words import percent

TOO_BUSY = 0.25
"""Share of the processors that other programs use, from which a trial says nothing of a machine at rest: one
busy core of two slowed decode with two threads eightfold."""

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from advisor.runner.bench import Bench
    from advisor.runner.block import Block, Side
    from advisor.runner.plan import Plan, Trying
    from rules.prediction import Expected
    from rules.trials import Outcome as Judged
    from rules.trials import Phase


def verdicts(plan: Plan, bench: Bench) -> list[Try]:
    """One for each remedy, also for those that could not be tried."""
    return [_verdict(trying, bench) for trying in plan.tries]


def _verdict(trying: Trying, bench: Bench) -> Try:
    baseline = trying.before.label if trying.before.label != AS_IT_IS else ""
    before, after = (_whole(bench.blocks, side) for side in (trying.before, trying.after))
    pairs = [Pair(_times(one), _times(other)) for one, other in zip(before, after, strict=False)]
    fault = trying.refusal or (bench.faults.get(trying.after) if trying.after else None)
    if fault or not pairs:
        reason = fault or "The run ended before each side had a whole turn."
        return Try(
            remedy=trying.remedy, baseline=baseline, verdict="not-tried", sentence=f"Not tried. {reason}"
        )
    trial = judged(pairs)
    promised = promises(trying, before, after)
    phases = (trial.prefill, trial.decode)
    busy = _busy(bench)
    return Try(
        remedy=trying.remedy,
        baseline=baseline,
        before=PhaseMs(**_named(one and one.before_ms for one in phases)),
        predicted=PhaseMs(**_named(_expected(one, promised) for one in phases)),
        basis=[f"{phase.capitalize()}: {one.basis}." for phase, one in promised.items() if one.basis],
        measured=MeasuredMs(
            **_named(one and one.after_ms for one in phases),
            interval_95=PhaseInterval(**_named(one and one.interval_ms for one in phases)),
        ),
        verdict="no-difference" if busy else trial.verdict,
        is_clear=not busy and bool(trial.outcomes) and not trial.outcomes[-1].is_noisy,
        sentence=busy + (trial.outcomes[-1].sentence if trial.outcomes else "Nothing timed on both sides."),
        outcomes=[_outcome(one, promised.get(one.phase)) for one in trial.outcomes],
        pairs=len(pairs),
    )


def _busy(bench: Bench) -> str:
    """Why nothing can be told of a machine at rest, as the begin of a sentence; empty where it can."""
    share = bench.watch.others_share
    if share is None or share < TOO_BUSY:
        return ""
    return f"Too disturbed to tell: other programs used {percent(share)} of the processors. Meanwhile: "


def _whole(blocks: Sequence[Block], side: Side | None) -> list[Block]:
    """The complete turns of a side."""
    return [block for block in blocks if block.side == side and block.is_complete]


def _times(block: Block) -> Times:
    timed = [one.timed for one in block.measured]
    return Times(
        tuple(t.prefill_ms for t in timed),
        tuple(t.decode_ms for t in timed),
        tuple(t.total_ms for t in timed),
    )


def _named(of: Iterable[Any]) -> dict[str, Any]:
    """Values of prefill and decode under their names."""
    return dict(zip(("prefill_ms", "decode_ms"), of, strict=True))


def _expected(outcome: Judged | None, promised: Mapping[Phase, Expected]) -> float | None:
    """The time that was promised; ``None`` where nothing was."""
    expected = promised.get(outcome.phase) if outcome else None
    if outcome is None or expected is None or expected.ratio is None:
        return None
    return outcome.before_ms * expected.ratio


def _outcome(outcome: Judged, promised: Expected | None) -> Outcome:
    sentence = outcome.sentence
    if promised is not None and promised.ratio is not None:
        sentence += f" {compared(outcome, promised.ratio, at_most=promised.bound == 'at_most')}"
    return Outcome(
        phase=outcome.phase,
        verdict=outcome.verdict,
        ratio=outcome.ratio,
        low=outcome.low,
        high=outcome.high,
        visible=outcome.within,
        is_clear=not outcome.is_noisy,
        sentence=sentence,
    )
