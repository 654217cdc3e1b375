"""What each remedy did: its turns against those without it, beside what physics promised."""

from __future__ import annotations

from typing import TYPE_CHECKING

from advisor.runner.machine import crowded_cores
from advisor.runner.promises import promises
from advisor.runner.result import MeasuredMs, Outcome, PhaseInterval, PhaseMs, Try
from rules.came_true import compared
from rules.trials import Block as Times
from rules.trials import Pair, judged
from rules.words import plural

TOO_CROWDED = 0.5
"""Cores that other programs take from the engine's threads, from which a trial says nothing of a machine at
rest: one busy core of two slowed decode with two threads eightfold."""

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


def has_turns(bench: Bench, side: Side) -> bool:
    """Whether a side came to the end of a turn."""
    return any(block.side == side and block.is_complete for block in bench.blocks)


def _verdict(trying: Trying, bench: Bench) -> Try:
    named: dict[str, Any] = {"remedy": trying.remedy, "title": trying.title, "baseline": trying.baseline}
    fault = bench.faults.get(trying.after) if trying.after else trying.refusal
    before, after = (_whole(bench.blocks, trying.before, side) for side in (trying.before, trying.after))
    whole = min(len(before), len(after))
    whole -= whole % 2 if whole > 1 else 0  # a drift cancels in two
    if not whole:
        reason = fault or "The run ended before each side had a whole turn."
        return Try(**named, verdict="not-tried", sentence=f"Not tried. {reason}")
    before, after = before[:whole], after[:whole]
    trial = judged([Pair(_times(one), _times(other)) for one, other in zip(before, after, strict=True)])
    promised = promises(trying, before, after)
    phases = (trial.prefill, trial.decode)
    why = disturbed(bench, [*before, *after])
    busy = f"Too disturbed to tell: {why}. Meanwhile: " if why else ""
    said = trial.outcomes[-1].sentence if trial.outcomes else "Nothing timed on both sides."
    ended = f" Then it could not go on. {fault}" if fault else ""
    return Try(
        **named,
        before=PhaseMs(**_named(one and one.before_ms for one in phases)),
        predicted=PhaseMs(**_named(_expected(one, promised) for one in phases)),
        basis=[
            *(f"{phase.capitalize()}: {one.basis}." for phase, one in promised.items() if one.basis),
            *_drafted(after),
        ],
        measured=MeasuredMs(
            **_named(one and one.after_ms for one in phases),
            interval_95=PhaseInterval(**_named(one and one.interval_ms for one in phases)),
        ),
        verdict="no-difference" if busy else trial.verdict,
        is_clear=not busy and bool(trial.outcomes) and not trial.outcomes[-1].is_noisy,
        sentence=f"{busy}{said}{ended}",
        outcomes=[_outcome(one, promised.get(one.phase), is_busy=bool(busy)) for one in trial.outcomes],
        pairs=whole,
    )


def _drafted(blocks: Sequence[Block]) -> list[str]:
    """How well tokens were guessed, which depends on the text more than on anything else."""
    timed = [one.timed for block in blocks for one in block.measured if one.timed.draft_tokens]
    drafted = sum(t.draft_tokens or 0 for t in timed)
    if not drafted:
        return []
    right = sum(t.accepted_tokens or 0 for t in timed)
    return [
        f"{right:,} of {drafted:,} drafted tokens were right on these prompts; on yours it may be otherwise."
    ]


def disturbed(bench: Bench, blocks: Sequence[Block]) -> str:
    """What else ran so much that times say nothing of a machine at rest, as the end of a sentence."""
    moments = [bench.watch.moments[block.number] for block in blocks]
    settings = [block.side.arm.settings for block in blocks]
    threads = max((max(s.threads or 0, s.threads_batch or 0) for s in settings), default=0)
    crowded = crowded_cores(moments, threads)
    if crowded is None or crowded < TOO_CROWDED:
        return ""
    return f"other programs took {crowded:.1f} of the cores that {plural(threads, 'thread')} would have had"


def _whole(blocks: Sequence[Block], against: Side, side: Side | None) -> list[Block]:
    """The complete turns of a side in the group of another."""
    return [b for b in blocks if b.side == side and b.against == against and b.is_complete]


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


def _outcome(outcome: Judged, promised: Expected | None, *, is_busy: bool) -> Outcome:
    sentence = outcome.sentence
    if promised is not None and promised.ratio is not None and not is_busy:
        bound = promised.bound
        became = compared(outcome, promised.ratio, at_most=bound == "at_most", at_least=bound == "at_least")
        sentence += f" {became}"
    return Outcome(
        phase=outcome.phase,
        verdict="no-difference" if is_busy else outcome.verdict,
        ratio=outcome.ratio,
        low=outcome.low,
        high=outcome.high,
        visible=outcome.within,
        is_clear=not is_busy and not outcome.is_noisy,
        sentence=sentence,
    )
