"""What a run will do: which engine, how it runs, what it is asked, and what is tried."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from advisor.errors import InputError
from advisor.runner.arm import Arm
from advisor.runner.block import AS_IT_IS, Side
from advisor.runner.engines import backend as backend_of
from advisor.runner.from_analysis import from_analysis
from advisor.runner.knobs import parse
from advisor.runner.machine import cores
from advisor.runner.model_file import DEMO, INSTALL_DEMO, checked, model_path
from advisor.runner.prompts import read_prompts
from advisor.runner.settings import Settings
from advisor.runner.shapes import LENGTHS, Shape, workload

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from advisor.runner.engine import Backend
    from advisor.runner.from_analysis import Planned
    from advisor.runner.knobs import Change
    from advisor.runner.workload import Workload
    from rules.prediction import Expected
    from rules.trials import Phase

ROUNDS = 3
"""Turns of a run that tries nothing."""

LEAST_CONTEXT, UNSET = 4096, 0
_MARGIN, _STEP = 64, 1024


@dataclass(frozen=True, slots=True)
class Trying:
    """A remedy and the two sides that show what it does.

    Attributes:
        remedy: as it was asked for.
        before: how it runs without it.
        after: how it runs with it; ``None`` for one that can't be tried.
        refusal: why it can't, in a sentence.
        promised: by phase, what the finding that it is from said of the log.
    """

    remedy: str
    before: Side
    after: Side | None = None
    refusal: str = ""
    promised: Mapping[Phase, Expected] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    """A run.

    Attributes:
        backend: starts the engines.
        base: how it runs without any remedy.
        tries: what is tried.
        rounds: turns of each side; ``None`` for as many as the budget allows.
        budget_s: for each comparison.
        notes: what to know before reading the result.
    """

    backend: Backend
    base: Side
    tries: tuple[Trying, ...]
    rounds: int | None
    budget_s: float
    notes: tuple[str, ...] = ()

    @property
    def groups(self) -> list[list[Side]]:
        """Sides that take turns with each other, what they are compared with first."""
        if not any(trying.after for trying in self.tries):
            return [[self.base]]
        groups: dict[Side, list[Side]] = {}
        for trying in self.tries:
            if trying.after is not None:
                groups.setdefault(trying.before, [trying.before]).append(trying.after)
        return list(groups.values())


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the command line asks for; ``None`` for what was left out."""

    model: str | None
    backend: str | None = None
    shape: Shape | None = None
    prompts: Path | None = None
    lengths: str | None = None
    chunks: int = 4
    output_tokens: int | None = None
    settings: Sequence[str] = ()
    tries: Sequence[str] = ()
    from_analysis: Path | None = None
    finding: str | None = None
    rounds: int | None = None
    budget_s: float = 300.0


def plan(wanted: Wanted) -> Plan:
    """What to do, once all of it is sure to make sense; nothing heavy is loaded for it.

    Raises:
        InputError: what is asked for is not there, or makes no sense.
    """
    if wanted.model is None:
        raise InputError(f"give --model FILE.gguf, or --model {DEMO} for a small one ({INSTALL_DEMO}).")
    if (wanted.from_analysis is None) != (wanted.finding is None):
        raise InputError("--from-analysis FILE and --finding RULE go together.")
    if wanted.shape is not None and wanted.prompts is not None:
        raise InputError("give --shape or --prompts, not both.")
    path = model_path(wanted.model)
    checked(path)
    backend = backend_of(wanted.backend)
    if wanted.from_analysis is None or wanted.finding is None:
        base = _based(Arm(Settings(path, UNSET), _workload(wanted)), wanted)
        tries = [_trying(parse(text), base) for text in wanted.tries]
        rounds = wanted.rounds or (None if tries else ROUNDS)
        return Plan(backend, Side(AS_IT_IS, base), tuple(tries), rounds, wanted.budget_s)
    found = from_analysis(wanted.from_analysis, wanted.finding, path)
    bases = [_based(Arm(found.settings, one.workload), wanted) for one in found.planned]
    tries = [_suggested(one, base) for one, base in zip(found.planned, bases, strict=True)]
    tries += [Trying(title, tries[0].before, refusal=f"{reason}.") for title, reason in found.untried]
    notes = (*found.notes, *(note for one in found.planned for note in one.notes))
    told = tuple(dict.fromkeys(notes))
    return Plan(backend, Side(AS_IT_IS, bases[0]), tuple(tries), wanted.rounds, wanted.budget_s, told)


def _workload(wanted: Wanted) -> Workload:
    if wanted.prompts is not None:
        return read_prompts(wanted.prompts, wanted.output_tokens)
    shape = wanted.shape or (Shape.CHAT if wanted.tries else Shape.SWEEP)
    lengths = LENGTHS if wanted.lengths is None else _lengths(wanted.lengths)
    return workload(shape, lengths=lengths, chunks=wanted.chunks, output_tokens=wanted.output_tokens)


def _lengths(text: str) -> list[int]:
    """``256,1024`` as numbers, each once.

    Raises:
        InputError: they are none.
    """
    words = [word.strip() for word in text.split(",")]
    lengths = [int(word) for word in words if word.isascii() and word.isdigit() and len(word) < 8]
    if len(lengths) < len(words) or not all(lengths):
        raise InputError(f"--lengths {text}: give prompt tokens, such as 256,1024.")
    return list(dict.fromkeys(lengths))


def _based(arm: Arm, wanted: Wanted) -> Arm:
    """How it runs without a remedy.

    Where they are not asked for: as many threads as there are cores, whichever the engine would take, and a
    context with room for the longest request.
    """
    if wanted.settings:
        arm = parse(*wanted.settings).apply(arm)
    if arm.settings.threads is None:
        arm = replace(arm, settings=replace(arm.settings, threads=cores()))
    if arm.settings.threads_batch is None:
        arm = replace(arm, settings=replace(arm.settings, threads_batch=arm.settings.threads))
    if arm.settings.context != UNSET:
        return arm
    most = max(
        sum(segment.size or 0 for segment in ask.segments) + ask.output_tokens for ask in arm.workload.asks
    )
    context = max(LEAST_CONTEXT, -(-(most + _MARGIN) // _STEP) * _STEP)
    return replace(arm, settings=replace(arm.settings, context=context))


def _trying(change: Change, base: Arm) -> Trying:
    before, after = change.sides(base)
    return Trying(change.label, Side(change.baseline or AS_IT_IS, before), Side(change.label, after))


def _suggested(planned: Planned, base: Arm) -> Trying:
    """A fix of a finding, with the workload that it is tried on."""
    trying = _trying(planned.change, base)
    if trying.before.label == AS_IT_IS:
        trying = replace(trying, before=replace(trying.before, label=f"{AS_IT_IS}, for {trying.remedy}"))
    if planned.phase is None or planned.expected is None:
        return trying
    return replace(trying, promised={planned.phase: planned.expected})
