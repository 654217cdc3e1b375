"""A trial of what an analysis found: its fixes as changes, its setup as settings, its requests remade."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.errors import InputError
from advisor.runner.analysis_file import read_analysis
from advisor.runner.arm import Arm
from advisor.runner.knobs import parse
from advisor.runner.knobs.values import KV_TYPES
from advisor.runner.settings import ALL_LAYERS, Settings
from advisor.runner.workload import Ask, Segment, Workload
from rules.hardware import CPU_BACKENDS
from rules.prediction import Expected
from rules.prompts import FIXED_SHARE
from rules.remedies import remedy_ids, untried
from rules.words import count, plural

if TYPE_CHECKING:
    from advisor.runner.analysis_file import AnalysisFile, Finding, Fix, Setup, Summary
    from advisor.runner.knobs import Change
    from rules.trials import Phase

BUDGET_TOKENS = 4096
"""Prompt and answer tokens of a turn, unless more are allowed: a minute on two slow cores."""

REQUESTS = 3
PROMPT_TOKENS, OUTPUT_TOKENS = 1024, 64
"""Of a request whose sizes the log doesn't tell."""

_LEAST_PROMPT, _LEAST_OUTPUT = 32, 8
_PHASES: dict[str, Phase] = {"prefill": "prefill", "decode": "decode"}
_LLAMA_CPP = ("llama-server", "llama-cli", "llama-cpp-python", "ollama", "lmstudio", "koboldcpp", "llamafile")


@dataclass(frozen=True, slots=True)
class Planned:
    """A fix to try.

    Attributes:
        change: what it turns.
        title: what it is, for people.
        workload: the requests to try it on.
        phase: the phase that the log's saving is of; ``None`` for one that the runner doesn't measure.
        expected: what the analysis promised for that phase, on the log's own machine and model; ``None``
            where it put no price on this fix.
        notes: how the requests differ from the log's.
    """

    change: Change
    title: str
    workload: Workload
    phase: Phase | None
    expected: Expected | None
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a finding gives to try.

    Attributes:
        rule: the finding's.
        title: of the finding.
        settings: as the log's engine ran, as far as that can be.
        planned: fixes that can be tried, the best first.
        untried: titles of the others, each with why.
        notes: how the settings differ from the log's.
    """

    rule: str
    title: str
    settings: Settings
    planned: tuple[Planned, ...]
    untried: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]


def from_analysis(path: Path, rule: str, model: Path | None, *, budget_tokens: int = BUDGET_TOKENS) -> Plan:
    """What an analysis' finding gives to try.

    Args:
        path: of ``analyze --format json``.
        rule: the finding's.
        model: the GGUF file; the log's own is not looked for.
        budget_tokens: prompt and answer tokens of a turn, at most.

    Raises:
        InputError: the file is no analysis, or holds no such finding; none of its fixes can be tried; or no
            model is given.
    """
    analysis = read_analysis(path)
    finding = analysis.finding(rule, str(path))
    changes, others = _split(finding.fixes)
    if changes and model is None:
        named = analysis.setup.model
        raise InputError(f"--model FILE.gguf is needed: the log's was {named or 'not named'}.")
    settings, notes = _settings(analysis.setup, model or Path())
    planned: list[Planned] = []
    for fix, change in changes:
        try:
            planned.append(_planned(fix, change, analysis, finding, settings, budget_tokens))
        except InputError as error:
            others.append((fix.title, str(error).rstrip(".")))
    if not planned:
        reasons = "; ".join(f"{title!r}: {reason}" for title, reason in others)
        why = f" ({reasons})" if others else ", it has no fix"
        raise InputError(f"{rule} has no fix that can be tried{why}.")
    return Plan(rule, finding.title, settings, tuple(planned), tuple(others), tuple(notes))


def _split(fixes: list[Fix]) -> tuple[list[tuple[Fix, Change]], list[tuple[str, str]]]:
    """Fixes that can be tried, and the titles of the others with why not."""
    changes: list[tuple[Fix, Change]] = []
    others: list[tuple[str, str]] = []
    for fix in fixes:
        if fix.trial is None:
            reason = untried(fix.remedy) if fix.remedy in remedy_ids() else None
            others.append((fix.title, reason or "what it would be set to is not known"))
            continue
        try:
            changes.append((fix, parse(fix.trial)))
        except InputError as error:
            others.append((fix.title, str(error).rstrip(".")))
    return changes, others


# --- settings


def _settings(setup: Setup, model: Path) -> tuple[Settings, list[str]]:
    """As the log's engine ran; facts that are no settings of llama.cpp are left to its defaults."""
    notes = []
    if setup.engine is not None and setup.engine not in _LLAMA_CPP:
        notes.append(f"the log is {setup.engine}'s, the runner is llama.cpp: times are not comparable")
    kv = [_kv_type(setup.kv_type_k), _kv_type(setup.kv_type_v)]
    left = {name for name in (setup.kv_type_k, setup.kv_type_v) if name and _kv_type(name) is None}
    notes += [f"llama.cpp has no KV type {name}, so its default is used" for name in sorted(left)]
    default = Settings(model)
    settings = Settings(
        model,
        context=_positive(setup.context) or default.context,
        batch=_positive(setup.batch),
        ubatch=_positive(setup.ubatch),
        threads=_positive(setup.threads),
        threads_batch=_positive(setup.threads_batch),
        flash_attention=setup.flash_attention,
        kv_type_k=kv[0],
        kv_type_v=kv[1],
        gpu_layers=_gpu_layers(setup),
    )
    return settings, notes


def _positive(value: int | None) -> int | None:
    return value if value is not None and value > 0 else None


def _kv_type(name: str | None) -> str | None:
    return name.lower() if name is not None and name.lower() in KV_TYPES else None


def _gpu_layers(setup: Setup) -> int:
    offloaded = setup.layers_offloaded
    if offloaded is None:
        on_cpu = setup.cpu_weights_bytes and not setup.gpu_weights_bytes
        no_gpu = setup.devices and all(device.backend in CPU_BACKENDS for device in setup.devices)
        return 0 if on_cpu or no_gpu else ALL_LAYERS
    return ALL_LAYERS if offloaded == setup.layers_offloadable else max(offloaded, 0)


# --- the requests


def _planned(
    fix: Fix, change: Change, analysis: AnalysisFile, finding: Finding, settings: Settings, budget: int
) -> Planned:
    promised = _promised(finding, analysis.summary) if fix is finding.fixes[0] else None
    workload, notes = _workload(change, finding, analysis.summary, promised, settings.context, budget)
    change.sides(Arm(settings, workload))
    phase = _PHASES.get(finding.phase)
    return Planned(change, fix.title, workload, phase, promised if phase else None, tuple(notes))


def _promised(finding: Finding, summary: Summary) -> Expected | None:
    """The finding's saving as a ratio of its phase."""
    phase_ms = summary.phase_ms.get(finding.phase)
    if finding.saving is None or not phase_ms or phase_ms < 0:
        return None
    ratio = max(1 - finding.saving.ms / phase_ms, 0.0)
    return Expected(ratio, f"{finding.rule} on the log's own requests", finding.saving.bound)


@dataclass(frozen=True, slots=True)
class _Size:
    """Tokens of a request: its prompt, the part of it that others share, and its answer."""

    prompt: float
    shared: float
    output: float

    def times(self, factor: float) -> _Size:
        return _Size(self.prompt * factor, self.shared * factor, self.output * factor)


def _workload(
    change: Change, finding: Finding, summary: Summary, promised: Expected | None, context: int, budget: int
) -> tuple[Workload, list[str]]:
    """Requests as long as the log's: two of the middle, and one that only a tenth are longer than."""
    notes: list[str] = []
    prompt, output = summary.prompt_tokens, summary.output_tokens
    if not prompt.p50:
        prompt = summary.prefill_tokens
    middle = prompt.p50 or PROMPT_TOKENS
    long = max(prompt.p90 or middle, middle)
    answer, long_answer = output.p50 or OUTPUT_TOKENS, output.p90 or output.p50 or OUTPUT_TOKENS
    if not prompt.p50 or not output.p50:
        notes.append("the log does not tell how long its prompts or answers are, so they are made up")
    shared = _shared(summary)
    if any(turn.knob.name == "prefix" for turn in change.turns):
        shared = _reusable(middle, shared, promised if finding.phase == "prefill" else None)
        notes.append(f"the first of {REQUESTS} prompts is read whole either way")
    wanted = [_Size(middle, shared, answer)] * (REQUESTS - 1) + [_Size(long, shared, long_answer)]
    factor = min(_fitting(wanted, context), budget / sum(size.prompt + size.output for size in wanted), 1.0)
    sizes = [size.times(factor) for size in wanted]
    asks = tuple(_ask(number, size) for number, size in enumerate(sizes, 1))
    notes += _told(wanted, sizes, summary)
    return Workload(f"like {finding.rule}", asks), notes


def _shared(summary: Summary) -> float:
    """Cached tokens of a typical prompt."""
    prompt, evaluated = summary.prompt_tokens.p50, summary.prefill_tokens.p50
    return max(prompt - evaluated, 0.0) if prompt and evaluated else 0.0


def _reusable(prompt: float, cached: float, promised: Expected | None) -> float:
    """What a kept prefix would reuse: the part of the prompt that the finding's saving is of, else half."""
    if promised is None or promised.ratio is None:
        return max(cached, prompt / 2)
    return cached + (prompt - cached) * (1 - promised.ratio)


def _fitting(sizes: list[_Size], context: int) -> float:
    """The factor at which the longest request fits its context, with some room for what a knob adds."""
    return 0.95 * context / max(size.prompt + size.output for size in sizes)


def _ask(number: int, size: _Size) -> Ask:
    """Shared tokens first, what a cut may shorten in the middle, and a question that stays."""
    prompt = max(round(size.prompt), _LEAST_PROMPT)
    shared = min(round(size.shared), prompt - 2)
    kept = min(max(round(FIXED_SHARE * prompt) - shared, 1), prompt - shared - 1)
    segments = [
        Segment("instructions that all of them share", shared, is_fixed=True),
        Segment(f"material {number}", prompt - shared - kept),
        Segment(f"question {number}", kept, is_fixed=True),
    ]
    asked = tuple(segment for segment in segments if segment.size)
    return Ask(f"request {number}", asked, max(round(size.output), _LEAST_OUTPUT), is_fresh=number == 1)


def _told(wanted: list[_Size], sizes: list[_Size], summary: Summary) -> list[str]:
    notes = []
    if sizes[0].prompt < wanted[0].prompt:
        notes.append(
            f"{count(round(sizes[0].prompt))} prompt and {count(round(sizes[0].output))} answer tokens a "
            f"request stand for the log's {count(wanted[0].prompt)} and {count(wanted[0].output)}, "
            "so that a turn is short and fits the context"
        )
    if (at_once := summary.concurrency) is not None and at_once > 1:
        notes.append(f"the log's engine ran {plural(at_once, 'request')} at once, the runner runs one")
    return notes
