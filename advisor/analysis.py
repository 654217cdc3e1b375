"""The one pipeline: rows, measures, rules, and the `Analysis` that every output draws."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from advisor import redact
from advisor.filters import Filters, redacted
from advisor.model import (
    Analysis,
    CaveatModel,
    FindingModel,
    Percentiles,
    Phases,
    Rate,
    SavingModel,
    Summary,
    UnansweredModel,
    VerdictModel,
)
from advisor.sentences import verdict_sentence
from parsers.setup import Device, Setup
from rules.attribution import Verdict, interval_verdict, verdict
from rules.catalogue import ask
from rules.measures import FEW, Machine, Measures
from rules.ranking import combined, rank
from rules.rule import Confidence
from rules.words import plural

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import polars as pl

    from advisor.reading import Reading
    from rules.rule import Finding


@dataclass(frozen=True, slots=True)
class Options:
    """What the user asked besides the inputs."""

    filters: Filters = field(default_factory=Filters)
    machine: Machine = field(default_factory=Machine)
    gguf: Path | None = None
    redact: bool = True


def analyze(reading: Reading, options: Options | None = None) -> Analysis:
    """Diagnose what was read.

    Raises:
        InputError: a filter that this log can't answer, or a model file that can't be read.
    """
    options = options or Options()
    measures = measure(reading, options)
    rows = measures.requests.height + measures.intervals.height
    read = reading.tables.requests.height + reading.tables.intervals.height
    answers = ask(measures)
    findings = rank(answers.findings, measures)
    together = combined(findings, measures)
    decided = _verdict(measures)
    healthy = _healthy(measures, findings, decided)
    name = redact.private if options.redact else redact.clean
    return Analysis(
        sources=[s.model_copy(update={"path": name(s.path)}) for s in reading.sources],
        setups=[s for s in measures.setups if not s.is_empty],
        setup=measures.setup,
        summary=_summary(measures),
        verdict=VerdictModel(
            phase=decided.phase,
            share=_rounded(decided.share),
            healthy=healthy,
            sentence=verdict_sentence(measures, decided, healthy)
            if rows or not read
            else f"None of the {plural(read, 'row')} of this log passes the filters.",
        ),
        findings=[FindingModel.model_validate(f) for f in findings],
        combined_saving=None if together is None else SavingModel.model_validate(together),
        unanswered=[UnansweredModel(rule=r, reason=why) for r, why in answers.unanswered.items()],
        caveats=[CaveatModel.model_validate(c) for c in answers.caveats],
    )


def measure(reading: Reading, options: Options) -> Measures:
    """The measures of the rows that pass the filters, in words that may be shown.

    Raises:
        InputError: a filter that this log can't answer, or a model file that can't be read.
    """
    text, model = (redact.private, redact.model_name) if options.redact else (redact.clean, redact.clean)
    requests, intervals, events = (
        redacted(frame, text, model) for frame in options.filters.apply(reading.tables)
    )
    setups = [_redacted(s, text, model) for s in reading.setups]
    setup = _main_setup(requests, intervals, setups).model_copy(deep=True)
    if options.gguf is not None:
        from advisor.gguf import learn_from_gguf

        learn_from_gguf(setup, options.gguf)
    _learn_machine(setup, options.machine)
    return Measures(requests, intervals, events, setup, setups, options.machine, reading.counts)


def _redacted(setup: Setup, text: Callable[[str], str], model: Callable[[str], str]) -> Setup:
    """The setup with every text that came from the log cleaned."""
    facts = {name: text(value) for name, value in setup if isinstance(value, str)}
    if setup.model is not None:
        facts["model"] = model(setup.model)
    devices = [d.model_copy(update={"name": text(d.name)}) for d in setup.devices]
    return setup.model_copy(update={**facts, "devices": devices}, deep=True)


def _main_setup(requests: pl.DataFrame, intervals: pl.DataFrame, setups: list[Setup]) -> Setup:
    """The setup of the process that served most rows.

    A log that begins in the middle has no header; then another process of the same engine stands in for it,
    as when a rotated log is read file by file.
    """
    for frame in (requests, intervals):
        if frame.height:
            served = frame.group_by("run").len().sort("len", "run", descending=True)["run"]
            most: Setup = setups[served[0]]
            told = [s for s in (*(setups[run] for run in served), *reversed(setups)) if s.origin]
            return next((s for s in told if s.engine == most.engine), most)
    return next((s for s in reversed(setups) if not s.is_empty), Setup())


def _learn_machine(setup: Setup, machine: Machine) -> None:
    if machine.device is None:
        return
    from rules.physics.devices import find_device

    known = find_device(machine.device, machine.vram_bytes)
    setup.learn(
        machine.origin,
        devices=[
            Device(
                name=machine.device,
                memory_bytes=machine.vram_bytes,
                bandwidth_gb_s=machine.bandwidth_gb_s or (known.bandwidth_gb_s if known else None),
            )
        ],
    )


def _verdict(m: Measures) -> Verdict:
    return verdict(m.attribution) if m.generations.height else interval_verdict(m.intervals)


def _healthy(m: Measures, findings: list[Finding], decided: Verdict) -> bool | None:
    """False with a fault that is at least likely; true when the numbers suffice to say that there is none."""
    if any(f.fault and f.confidence is not Confidence.POSSIBLE for f in findings):
        return False
    enough = m.valid_decode.height >= FEW or m.valid_prefill.height >= FEW
    as_predicted = any(f.rule == "at-bandwidth-ceiling" for f in findings)
    return True if decided.phase != "unknown" and enough and as_predicted else None


def _summary(m: Measures) -> Summary:
    rows, attributed = m.generations, m.attribution
    starts = rows["ttft_from"].drop_nulls().unique().to_list()
    return Summary(
        requests=rows.height,
        intervals=m.intervals.height,
        wall_ms=round(attributed.wall_ms, 3),
        phase_ms=Phases(**{p: _rounded(ms, 3) for p, ms in attributed.phase_ms.items()}),
        phase_share=Phases(**{p: _rounded(share) for p, share in attributed.phase_share.items()}),
        ttft_ms=_percentiles(rows["ttft_ms"]),
        ttft_from=starts[0] if len(starts) == 1 else None,
        tpot_ms=_percentiles(m.valid_decode["decode_ms"] / m.valid_decode["decode_steps"]),
        total_ms=_percentiles(rows["total_ms"]),
        prefill_tok_s=Rate(n=m.valid_prefill.height, p50=_rounded(m.prefill_tok_s, 2)),
        decode_tok_s=Rate(n=m.valid_decode.height, p50=_rounded(m.decode_tok_s, 2)),
        cached_share=_rounded(m.cached_share),
        prompt_tokens=_percentiles(rows["prompt_tokens"]),
        output_tokens=_percentiles(rows["output_tokens"]),
        concurrency=m.concurrency,
    )


def _percentiles(values: pl.Series) -> Percentiles:
    known = values.drop_nulls()
    if not known.len():
        return Percentiles()

    def at(q: float) -> float | None:
        return _rounded(known.quantile(q, interpolation="linear"), 3)

    return Percentiles(n=known.len(), p50=at(0.5), p90=at(0.9), p95=at(0.95), p99=at(0.99), max=at(1.0))


def _rounded(value: float | None, digits: int = 4) -> float | None:
    return None if value is None else round(value, digits)
