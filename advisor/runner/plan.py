"""What a run will do: which engine, how it runs, what it is asked, and what is tried."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from advisor.errors import InputError
from advisor.lengths import lengths_of
from advisor.options import Shape
from advisor.redact import clean
from advisor.runner import gpus
from advisor.runner.arm import Arm
from advisor.runner.block import AS_IT_IS, Side
from advisor.runner.cores import cores
from advisor.runner.engines import backend as backend_of
from advisor.runner.from_analysis import from_analysis
from advisor.runner.knobs import parse
from advisor.runner.model_file import DEMO, INSTALL_DEMO, checked, model_path
from advisor.runner.prompts import read_prompts
from advisor.runner.settings import BATCH, UBATCH, Settings
from advisor.runner.shapes import CHUNKS, LENGTHS, workload

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
        remedy: knobs as they are written; empty for what can't be tried.
        title: what it is, where a finding suggested it.
        baseline: what the other side is set to for it; empty for nothing.
        before: how it runs without it.
        after: how it runs with it; ``None`` for one that can't be tried.
        refusal: why it can't, in a sentence.
        promised: by phase, what the finding that it is from said of the log.
    """

    remedy: str
    title: str
    baseline: str
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
    def reads(self) -> list[Path]:
        """Every model file that is loaded."""
        sides = [self.base, *(side for group in self.groups for side in group)]
        files = (path for s in sides for path in (s.arm.settings.model, s.arm.settings.draft_model))
        return [path for path in files if path is not None]

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
    chunks: int | None = None
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
    _refuse_idle(wanted)
    path = model_path(wanted.model)
    checked(path)
    backend = backend_of(wanted.backend)
    if wanted.from_analysis is None or wanted.finding is None:
        base = _based(Arm(Settings(path, UNSET), _workload(wanted)), wanted)
        tries = [_trying(parse(text), base) for text in wanted.tries]
        remedies = [trying.remedy for trying in tries]
        if twice := next((one for one in remedies if remedies.count(one) > 1), None):
            raise InputError(f"--try {twice}: given twice.")
        rounds = wanted.rounds or (None if tries else ROUNDS)
        notes = _crowded([base, *(trying.after.arm for trying in tries if trying.after)])
        return Plan(backend, Side(AS_IT_IS, base), tuple(tries), rounds, wanted.budget_s, notes)
    found = from_analysis(wanted.from_analysis, wanted.finding, path)
    planned = list({one.change.label: one for one in reversed(found.planned)}.values())[::-1]
    bases = [_based(Arm(found.settings, one.workload), wanted) for one in planned]
    tries = [_suggested(one, base, alone=len(planned) == 1) for one, base in zip(planned, bases, strict=True)]
    tries += [
        Trying("", clean(title), "", tries[0].before, refusal=f"{clean(reason)}.")
        for title, reason in found.untried
    ]
    notes = (*found.notes, *(note for one in planned for note in one.notes))
    told = tuple(f"{note[:1].upper()}{note[1:]}." for note in dict.fromkeys(notes))
    return Plan(backend, Side(AS_IT_IS, bases[0]), tuple(tries), wanted.rounds, wanted.budget_s, told)


def _refuse_idle(wanted: Wanted) -> None:
    """Refuse an option that would change nothing.

    Raises:
        InputError: one would.
    """
    shape = wanted.shape or (Shape.CHAT if wanted.tries else Shape.SWEEP)
    is_made = wanted.prompts is None and wanted.from_analysis is None
    asked = {"--lengths": wanted.lengths is not None, "--chunks": wanted.chunks is not None}
    if asked["--lengths"] and not (is_made and shape is Shape.SWEEP):
        raise InputError("--lengths is of --shape sweep only.")
    if asked["--chunks"] and not (is_made and shape is Shape.RAG):
        raise InputError("--chunks is of --shape rag only.")
    if wanted.from_analysis is not None and (wanted.tries or wanted.shape or wanted.prompts):
        raise InputError(
            "--from-analysis brings its own requests and tries: leave out --try, --shape, --prompts."
        )
    if wanted.from_analysis is not None and wanted.output_tokens is not None:
        raise InputError("--output: with --from-analysis answers are as long as the log's.")


def _workload(wanted: Wanted) -> Workload:
    if wanted.prompts is not None:
        return read_prompts(wanted.prompts, wanted.output_tokens)
    shape = wanted.shape or (Shape.CHAT if wanted.tries else Shape.SWEEP)
    lengths = LENGTHS if wanted.lengths is None else lengths_of(wanted.lengths)
    return workload(
        shape, lengths=lengths, chunks=wanted.chunks or CHUNKS, output_tokens=wanted.output_tokens
    )


def _based(arm: Arm, wanted: Wanted) -> Arm:
    """How it runs without a remedy.

    Engines differ in what they take by themselves, so what is not asked for is set here: to what llama.cpp's
    own programs do, and to a context with room for the longest request.
    """
    if wanted.settings:
        arm = parse(*wanted.settings).apply(arm)
    s = arm.settings
    threads = s.threads or cores()
    s = replace(
        s,
        context=s.context or _context(arm.workload),
        batch=s.batch or max(BATCH, s.ubatch or 0),
        ubatch=s.ubatch or min(UBATCH, s.batch or UBATCH),
        threads=threads,
        threads_batch=s.threads_batch or threads,
        flash_attention=True if s.flash_attention is None else s.flash_attention,
    )
    return replace(arm, settings=s)


def _crowded(arms: Sequence[Arm]) -> tuple[str, ...]:
    """More threads than can run at once wait for each other."""
    most = max(max(arm.settings.threads or 0, arm.settings.threads_batch or 0) for arm in arms)
    there = os.cpu_count() or most
    return (f"{most} threads on {there} processors wait for each other.",) if most > there else ()


def _context(workload: Workload) -> int:
    most = max(ask.most_tokens for ask in workload.asks)
    return max(LEAST_CONTEXT, -(-(most + _MARGIN) // _STEP) * _STEP)


def _trying(change: Change, base: Arm) -> Trying:
    before, after = change.sides(base)
    layers = after.settings.gpu_layers
    if (
        not gpus.present()
        and replace(before.settings, gpu_layers=layers) == after.settings != before.settings
    ):
        raise InputError(f"{change.label}: no GPU is known on this machine, so there is nothing to compare.")
    for path in (after.settings.model, after.settings.draft_model):
        if path is not None:
            checked(path)
    label, baseline = clean(change.label), "" if before == base else clean(change.baseline(base))
    return Trying(label, "", baseline, Side(baseline or AS_IT_IS, before), Side(label, after))


def _suggested(planned: Planned, base: Arm, *, alone: bool) -> Trying:
    """A fix of a finding, with the workload that it is tried on; others have workloads of their own."""
    trying = replace(_trying(planned.change, base), title=clean(planned.title))
    if not alone:
        label = f"{trying.before.label}, for {trying.remedy}"
        trying = replace(trying, before=replace(trying.before, label=label))
    if planned.phase is None or planned.expected is None:
        return trying
    return replace(trying, promised={planned.phase: planned.expected})
