"""Carries a plan out: turns, rows, verdicts; what was measured is told whatever happens on the way."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from advisor.command import INTERRUPTED, warn
from advisor.errors import InputError
from advisor.redact import Redactor
from advisor.runner.answer import answer
from advisor.runner.bench import Bench
from advisor.runner.machine import Watch
from advisor.runner.progress import bar
from advisor.runner.result import ProcessorModel, Run
from advisor.runner.rows import SOURCE, KeptRows, row
from advisor.runner.summary import phase_share, summarise
from advisor.runner.verdicts import disturbed, has_turns, verdicts
from rules.trials import drift
from rules.words import percent

if TYPE_CHECKING:
    from advisor.runner.block import Block, Facts, Measured
    from advisor.runner.plan import Plan
    from advisor.runner.settings import Settings


@dataclass(slots=True)
class Outcome:
    """What came of a plan.

    Attributes:
        result: ``None`` if nothing was measured.
        faults: what went wrong, in sentences.
        status: the exit status of what ended it early; 0 if nothing did.
    """

    result: Run | None = None
    faults: list[str] = field(default_factory=list)
    status: int = 0


def measured(plan: Plan, rows: Path | None, log: Path | None) -> Outcome:
    """Carry it out.

    Args:
        plan: what to do.
        rows: keeps each row as it is measured.
        log: keeps what the engines log.

    Raises:
        InputError: a file can't be written, or the engine does not start at all.
    """
    outcome, told = Outcome(), list[dict[str, Any]]()
    with ExitStack() as stack:
        kept = stack.enter_context(KeptRows(rows)) if rows else None
        engine_log = _log(log, stack)
        watch = Watch()

        def tell(block: Block, one: Measured) -> None:
            assert block.facts is not None
            source = Redactor().text(str(rows)) if rows else SOURCE
            told.append(row(one, block.facts, block.side.arm.settings.model.name, len(told) + 1, source))
            if kept is not None:
                kept.add(told[-1])

        bench = Bench(plan.backend, engine_log, watch, stack.enter_context(bar()), tell, warn)
        try:
            for sides in plan.groups:
                bench.run(sides, plan.rounds, plan.budget_s)
        except KeyboardInterrupt:
            outcome.status = INTERRUPTED
        except SystemExit as ended:  # a signal said so
            outcome.status = ended.code if isinstance(ended.code, int) else INTERRUPTED
        except InputError as error:
            if not told:
                raise
            outcome.faults.append(str(error))
        outcome.faults += [
            f"{side.label}: {why}" for side, why in bench.faults.items() if has_turns(bench, side)
        ]
        if kept is not None and kept.fault:
            outcome.faults.append(kept.fault)
        if told:
            is_complete = not outcome.faults and not outcome.status
            outcome.result = _result(plan, bench, watch, told, is_complete=is_complete)
    return outcome


def _log(path: Path | None, stack: ExitStack) -> Path:
    """Where engines log: the file asked for, emptied, or one that goes with the run."""
    if path is None:
        return Path(stack.enter_context(TemporaryDirectory(prefix="phasewise-"))) / "engine.log"
    try:
        path.write_bytes(b"")
    except OSError as error:
        raise InputError(f"{path}: can't be written ({error.strerror or error}).") from None
    return path


def _result(plan: Plan, bench: Bench, watch: Watch, told: list[dict[str, Any]], *, is_complete: bool) -> Run:
    facts = next(block.facts for block in bench.blocks if block.facts is not None)
    first = [one for block in bench.blocks if block.side == plan.groups[0][0] for one in block.measured]
    workload, summary = plan.base.arm.workload.name, summarise(m for b in bench.blocks for m in b.measured)
    share, drifted = phase_share(first), _drifted(plan, bench)
    notes = dict.fromkeys(note for block in bench.blocks if block.facts for note in block.facts.notes)
    return Run(
        model=plan.base.arm.settings.model.name,
        engine=facts.name,
        engine_version=facts.version,
        processors=[ProcessorModel.model_validate(one) for one in facts.processors],
        settings=_settings(plan.base.arm.settings) | {"context": facts.context},
        workload=workload,
        sentence="" if plan.tries else answer(workload, summary, share, disturbed(bench, bench.blocks)),
        requests=told,
        summary=summary,
        phase_share=share,
        tries=verdicts(plan, bench),
        disturbances=[*watch.disturbances(turns_drift=bool(drifted)), *drifted],
        notes=[*plan.notes, *notes, *_idle(plan.base.arm.settings, facts)],
        is_complete=is_complete,
    )


def _idle(settings: Settings, facts: Facts) -> list[str]:
    """What was set and has no effect."""
    if settings.gpu_layers <= 0 or any(processor.is_gpu for processor in facts.processors):
        return []
    return [f"gpu-layers={settings.gpu_layers} has no effect: {facts.name} sees no GPU here."]


def _drifted(plan: Plan, bench: Bench) -> list[str]:
    """Sides that got faster or slower from turn to turn, though nothing of them changed."""
    said = []
    for side, *_ in plan.groups:
        turns = [block for block in bench.blocks if block.side == side and block.is_complete]
        changed = drift([sum(one.timed.total_ms for one in block.measured) for block in turns])
        if changed is not None:
            way = "longer" if changed > 0 else "shorter"
            said.append(f"Turns {side.label} got {percent(abs(changed))} {way} during the run.")
    return said


def _settings(settings: Settings) -> dict[str, Any]:
    """What was set; files by their names."""
    said = asdict(settings)
    del said["model"]
    return {name: value.name if isinstance(value, Path) else value for name, value in said.items()}
