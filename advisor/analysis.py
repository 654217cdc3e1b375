"""The one pipeline: rows, measures, rules, and the `Analysis` that every output draws."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from advisor import unread
from advisor.diagnosis import NO_DIAGNOSIS, Diagnosis, by_engine, diagnose
from advisor.facts import complete
from advisor.filters import Filters, redacted
from advisor.model import Analysis, CaveatModel, FindingModel, SavingModel, UnansweredModel, VerdictModel
from advisor.redact import Plain, Redactor
from advisor.redact.order import number_secrets
from advisor.redact.setups import cleaned, redacted_setup
from advisor.repeated import told_once
from advisor.rotated import as_one, continued
from advisor.sentences import only_benchmarks, verdict_sentence
from advisor.summary import rounded, summarise
from parsers.setup import Device, Setup
from rules.attribution import Verdict, interval_verdict, verdict
from rules.deaths import deaths
from rules.deployments import deployments, main_setup
from rules.hardware import CPU_BACKENDS, Machine
from rules.measures import FEW, Measures
from rules.rule import Confidence
from rules.settings import Settings
from rules.words import plural

if TYPE_CHECKING:
    from pathlib import Path

    from advisor.group_model import Groups
    from advisor.options import GroupBy
    from advisor.reading import Reading
    from parsers import Tables
    from rules.rule import Caveat, Finding


_TAKES_TIME = 0.1
"""Share of all time from which a model counts."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the user asked besides the inputs."""

    filters: Filters = field(default_factory=Filters)
    machine: Machine = field(default_factory=Machine)
    settings: Settings = field(default_factory=Settings)
    gguf: Path | None = None
    props: str | None = None
    by: GroupBy | None = None
    redact: bool = True
    redactor: Redactor = field(default_factory=Redactor)

    @property
    def words(self) -> Plain:
        """Says texts of a log as they may be shown."""
        return self.redactor if self.redact else Plain()

    @property
    def at_any_time(self) -> Options:
        """The same for a log of another time."""
        return replace(self, filters=replace(self.filters, since=None, until=None))

    def text(self, text: str) -> str:
        """A text as it may be shown."""
        return self.words.text(text)


def analyze(reading: Reading, options: Options | None = None) -> Analysis:
    """Diagnose what was read.

    Raises:
        InputError: a filter that this log can't answer, or a model file that can't be read.
    """
    options = options or Options()
    return judge(measure(reading, options, once=True), reading, options)


def judge(measures: Measures, reading: Reading, options: Options) -> Analysis:
    """What the rules say of these measures of what was read."""
    return told(diagnosed(measures, reading, options), measures, reading, options)


def diagnosed(measures: Measures, reading: Reading, options: Options) -> Diagnosis:
    """The rules' answers; none where nobody waits: the filters leave nothing, or it is a benchmark."""
    nothing_passes = _nothing_passes(reading.tables, measures, options.filters)
    return NO_DIAGNOSIS if nothing_passes or only_benchmarks(measures) else diagnose(measures)


def told(diagnosis: Diagnosis, measures: Measures, reading: Reading, options: Options) -> Analysis:
    """The analysis that a diagnosis comes to."""
    read = sum(getattr(reading.tables, name).height for name in ("requests", "intervals", "aggregates"))
    decided = _verdict(measures)
    healthy = _healthy(measures, diagnosis.findings, decided)
    sentence = verdict_sentence(measures, decided, healthy)
    if _nothing_passes(reading.tables, measures, options.filters):
        sentence = f"None of the {plural(read, 'row')} of this log passes the filters."
    together = diagnosis.combined
    return Analysis(
        sources=[s.model_copy(update={"path": options.text(s.path)}) for s in reading.sources],
        setups=[s for s in measures.setups if not s.is_empty],
        setup=measures.setup,
        summary=summarise(measures),
        verdict=VerdictModel(
            phase=decided.phase, share=rounded(decided.share), healthy=healthy, sentence=sentence
        ),
        findings=[FindingModel.model_validate(f) for f in diagnosis.findings],
        combined_saving=None if together is None else SavingModel.model_validate(together),
        unanswered=[UnansweredModel(rule=r, reason=why) for r, why in diagnosis.unanswered.items()],
        caveats=[CaveatModel.model_validate(c) for c in (*_of_inputs(reading, options), *diagnosis.caveats)],
        groups=_groups(measures, reading, options),
    )


def _of_inputs(reading: Reading, options: Options) -> list[Caveat]:
    return [replace(caveat, text=options.text(caveat.text)) for caveat in unread.caveats(reading)]


def _groups(measures: Measures, reading: Reading, options: Options) -> Groups | None:
    """The groups that the user asked for, of what passes the filters."""
    if options.by is None or _nothing_passes(reading.tables, measures, options.filters):
        return None
    from advisor.by import grouped

    return grouped(measures, options.by.value, interrupted=reading.interrupted is not None)


def _nothing_passes(read: Tables, kept: Measures, filters: Filters) -> bool:
    """Whether the filters left none of the rows read; intervals name no model, so they pass any."""
    named = read.requests.height + read.aggregates.height
    if kept.requests.height + kept.aggregates.height or not named + read.intervals.height:
        return False
    return not kept.intervals.height or (filters.model is not None and named > 0)


def measure(reading: Reading, options: Options, *, once: bool = False) -> Measures:
    """The measures of the rows that pass the filters, in words that may be shown.

    Args:
        reading: what was read.
        options: what the user asked.
        once: leave out requests that another input told before.

    Raises:
        InputError: a filter that this log can't answer, or a model file that can't be read.
    """
    words = options.words
    if options.redact:
        number_secrets(options.redactor, reading.tables, reading.setups)
    requests, intervals, events, aggregates = (
        redacted(frame, words) for frame in options.filters.apply(reading.tables)
    )
    setups = [redacted_setup(s, words) for s in reading.setups]
    joined = continued(requests, setups)
    requests, intervals, events = (as_one(rows, joined, setups) for rows in (requests, intervals, events))
    counts = reading.counts
    if once:
        told, requests = requests.height, told_once(requests, [s.label for s in reading.setups])
        counts = replace(counts, repeated_requests=told - requests.height)
    setup = main_setup(requests, intervals, setups).model_copy(deep=True)
    _complete(setup, options)
    _learn_machine(setup, options.machine, options.words)
    return Measures(
        requests,
        intervals,
        events,
        setup,
        setups,
        options.machine,
        counts,
        options.settings,
        aggregates=aggregates,
    )


def require_facts(options: Options) -> None:
    """Read what the user gave of the model, before the work begins.

    Raises:
        InputError: it can't be read.
    """
    _complete(Setup(), options)


def _complete(setup: Setup, options: Options) -> None:
    """What the model file and the running server say of it."""
    if options.gguf is not None:
        from advisor.gguf import ORIGIN, read_gguf

        complete(setup, ORIGIN, cleaned(read_gguf(options.gguf), options.words))
    if options.props is not None:
        from advisor import props

        complete(setup, props.ORIGIN, cleaned(props.read_props(options.props), options.words))


def _learn_machine(setup: Setup, machine: Machine, words: Plain) -> None:
    """The device that the user named; what the log says of the same device is kept."""
    if machine.device is None:
        return
    from rules.physics.devices import find_device

    known = find_device(machine.device, machine.vram_bytes)
    logged = next((d for d in setup.devices if known and find_device(d.name, d.memory_bytes) == known), None)
    device = Device(
        name=words.text(machine.device),
        backend=logged.backend if logged else None,
        memory_bytes=machine.vram_bytes or (logged.memory_bytes if logged else None),
        bandwidth_gb_s=machine.bandwidth_gb_s or (known.bandwidth_gb_s if known else None),
    )
    gpus = [d.name for d in setup.devices if d.backend and d.backend not in CPU_BACKENDS]
    if gpus and logged is None:
        setup.disputed["devices"] = f"{', '.join(gpus)} by the log"
    setup.learn(machine.origin, devices=[device])


def _verdict(m: Measures) -> Verdict:
    if m.generations.height:
        return verdict(m.attribution)
    if m.sums.attribution.wall_ms:
        return verdict(m.sums.attribution)
    return interval_verdict(m.intervals)


def _healthy(m: Measures, findings: list[Finding], decided: Verdict) -> bool | None:
    """False with a fault that is at least likely; true when the numbers suffice to say that there is none.

    They do where nothing died or is suspected and each model that takes time decodes as fast as its memory
    lets it.
    """
    faults = [f for f in findings if f.fault]
    if any(f.confidence is not Confidence.POSSIBLE for f in faults):
        return False
    enough = m.decode_samples >= FEW or m.prefill_samples >= FEW
    if faults or not enough or decided.phase == "unknown" or deaths(m).height:
        return None
    served = (part for engine in by_engine(m) for part in deployments(engine))
    models = sum(part.wall_ms >= _TAKES_TIME * m.wall_ms for part in served)
    as_predicted = [
        f for f in findings if f.rule == "at-bandwidth-ceiling" and f.confidence is Confidence.LIKELY
    ]
    return True if len(as_predicted) >= models else None
