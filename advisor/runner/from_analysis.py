"""A trial of what an analysis found: its fixes as changes, its setup as settings, its requests remade."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.cpu import cpu_name
from advisor.errors import InputError
from advisor.runner import gpus
from advisor.runner.analysis_file import read_analysis
from advisor.runner.arm import Arm
from advisor.runner.knobs import parse
from advisor.runner.knobs.values import KV_TYPES
from advisor.runner.like_the_log import like_the_log
from advisor.runner.settings import ALL_LAYERS, Settings
from advisor.runner.workload import Workload
from rules.hardware import CPU_BACKENDS
from rules.prediction import Expected
from rules.remedies import remedy_ids, untried
from rules.trials import change as in_words

if TYPE_CHECKING:
    from advisor.runner.analysis_file import AnalysisFile, Finding, Fix, Setup, Summary
    from advisor.runner.knobs import Change
    from rules.trials import Phase

BUDGET_TOKENS = 4096
"""Prompt and answer tokens of a turn, unless more are allowed: a minute on two slow cores."""

_OF_TEXTS = {"prefix", "prompt", "output", "lookup", "draft"}
"""Knobs whose effect depends on what prompts and answers hold."""

_OF_ANY_LENGTH = {"threads", "threads-batch", "gpu-layers", "mlock"}
_REUSED = 0.5
"""Of what was read, by a kept prefix that the finding puts no price on."""

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
        expected: what the analysis promised for that phase; ``None`` where it put no price on this fix, or
            one that holds for the log only.
        notes: how the requests differ from the log's, and what the analysis promised for those.
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


# --- what is tried, and what the log promises of it


def _planned(
    fix: Fix, change: Change, analysis: AnalysisFile, finding: Finding, settings: Settings, budget: int
) -> Planned:
    promised = _promised(finding, analysis.summary) if fix is finding.fixes[0] else None
    reused = None
    if any(turn.knob.name == "prefix" for turn in change.turns):
        of_prefill = promised if finding.phase == "prefill" else None
        reused = 1 - of_prefill.ratio if of_prefill and of_prefill.ratio is not None else _REUSED
    made = like_the_log(analysis.summary, settings.context, budget, reused)
    workload, notes = Workload(f"like {finding.rule}", made.asks), list(made.notes)
    change.sides(Arm(settings, workload))
    phase = _PHASES.get(finding.phase)
    if promised is not None and promised.ratio is not None:
        apart = _apart(change, analysis, settings.model, is_cut=made.is_cut)
        most = "at most " if promised.bound == "at_most" else ""
        said = f"{finding.rule} expects {finding.phase} to take {most}{in_words(promised.ratio)}"
        notes.append(f"{said} on the log's own requests" + (f"; here {apart}" if apart else ""))
        promised = None if apart or phase is None else promised
    return Planned(change, fix.title, workload, phase, promised, tuple(notes))


def _promised(finding: Finding, summary: Summary) -> Expected | None:
    """The finding's saving as a ratio of its phase."""
    phase_ms = summary.phase_ms.get(finding.phase)
    if finding.saving is None or not phase_ms or phase_ms < 0:
        return None
    ratio = max(1 - finding.saving.ms / phase_ms, 0.0)
    return Expected(ratio, f"{finding.rule} on the log's own requests", finding.saving.bound)


def _apart(change: Change, analysis: AnalysisFile, model: Path, *, is_cut: bool) -> str:
    """Why what the log would have saved is no promise for a trial; empty where it is one."""
    setup, knobs = analysis.setup, {turn.knob.name for turn in change.turns}
    if knobs & _OF_TEXTS:
        return "the prompts and answers are made ones"
    if setup.engine not in _LLAMA_CPP:
        return "the engine is another one"
    if _bare(setup.model or "") != _bare(model.name):
        return "the model is another one, or has another name"
    if not _is_of_this_machine(setup):
        return "the machine is another one, or not known"
    if (analysis.summary.concurrency or 1) > 1:
        return "one request runs at a time"
    return "the requests are shorter" if is_cut and knobs - _OF_ANY_LENGTH else ""


def _bare(name: str) -> str:
    """A model's name without its folder, its ending and what separates its parts."""
    last = name.replace("\\", "/").rpartition("/")[2].lower().removesuffix(".gguf")
    return "".join(filter(str.isalnum, last))


def _is_of_this_machine(setup: Setup) -> bool:
    """Whether the log's GPUs, or without any its processor, are those of this machine, by name."""
    on_gpu = [device for device in setup.devices if device.backend not in CPU_BACKENDS]
    used = {device.name for device in on_gpu or setup.devices}
    return bool(used) and used <= {cpu_name(), *(gpu.name for gpu in gpus.present())}
