"""The analysis as scripts read it: the keys of ``analyze --format json``, schema ``phasewise.analysis/1``.

Unknown is null, never 0. Shares are 0-1, times are milliseconds.
"""

from __future__ import annotations

from pydantic import ConfigDict, Field

from advisor.group_model import Groups
from advisor.section import Percentiles, Phases, Rate, Section
from parsers.setup import Setup
from rules.attribution import VerdictPhase
from rules.rule import Bound, Confidence, Phase

SCHEMA = "phasewise.analysis/1"


class Source(Section):
    """One file or stream that was read."""

    path: str
    engine: str | None
    engine_version: str | None
    bytes: int
    lines: int
    requests: int
    intervals: int
    events: int
    aggregates: int
    incomplete_requests: int
    aborted_requests: int
    failed_requests: int


class Steps(Section):
    """An engine's steps of one phase; times in ms."""

    phase: str
    steps: int
    total_ms: float
    p50_ms: float | None
    prefill_tokens: int | None
    decode_tokens: int | None


class Windows(Section):
    """An engine's windows: how many, and the most of what they saw; the hit rate is the last one printed."""

    windows: int
    busy: int
    running_max: int | None
    waiting_max: int | None
    kv_usage_max: float | None
    prefix_hit_rate: float | None


class Means(Section):
    """Means over requests that are only known summed up; each sum divided by the count it is of.

    ``kind`` is that of the rows, null where there are several.
    """

    kind: str | None
    requests: int | None
    queue_mean_ms: float | None
    prefill_mean_ms: float | None
    decode_mean_ms: float | None
    ttft_mean_ms: float | None
    total_mean_ms: float | None
    tpot_mean_ms: float | None
    prompt_tokens_mean: float | None
    output_tokens_mean: float | None
    prefill_tok_s: float | None
    decode_tok_s: float | None


class BenchmarkTest(Section):
    """A benchmark's test: its sizes, and what it gave; columns as in the table of requests."""

    source: str
    line: int
    name: str | None
    model: str | None
    prefill_tokens: int | None
    output_tokens: int | None
    context_tokens: int | None
    prefill_tok_s: float | None
    decode_tok_s: float | None
    total_ms: float | None


class Summary(Section):
    """What was measured over all generations, else what their engine summed up.

    ``prefill_tokens`` are those of a prompt that were evaluated, not taken from a cache.
    """

    requests: int
    intervals: int
    aggregates: int
    wall_ms: float
    phase_ms: Phases
    phase_share: Phases
    ttft_ms: Percentiles
    ttft_from: str | None
    tpot_ms: Percentiles
    total_ms: Percentiles
    prefill_tok_s: Rate
    decode_tok_s: Rate
    cached_share: float | None
    prompt_tokens: Percentiles
    prefill_tokens: Percentiles
    output_tokens: Percentiles
    concurrency: int | None
    steps: list[Steps]
    windows: Windows | None
    means: Means | None
    tests: list[BenchmarkTest]


class VerdictModel(Section):
    """Where most of the wall-clock went, in a word and in a sentence."""

    phase: VerdictPhase
    share: float | None
    healthy: bool | None
    sentence: str


class Line(Section):
    """A line of a source, 1-based."""

    source: str
    line: int


class EvidenceModel(Section):
    """One number behind a finding."""

    label: str
    value: float | int | str | None
    unit: str
    lines: list[Line]


class SavingModel(Section):
    """Time a change would have saved on this log's own requests."""

    ms: float
    share: float
    bound: Bound


class FixModel(Section):
    """A remedy: what, the exact switch, where it goes, what applying it costs.

    ``trial`` is what ``phasewise run --try`` takes to try it, null where it can't.
    """

    title: str
    apply: str
    where: str
    cost: str
    remedy: str
    trial: str | None


class FindingModel(Section):
    """A diagnosis with its evidence and what to do about it."""

    rule: str
    phase: Phase
    confidence: Confidence
    title: str
    why: str
    evidence: list[EvidenceModel]
    requests: int
    saving: SavingModel | None
    fixes: list[FixModel]
    wont_help: list[str]
    verify: str
    sources: list[str]


class UnansweredModel(Section):
    """A rule that could not tell, and what it lacked."""

    rule: str
    reason: str


class CaveatModel(Section):
    """What the numbers can't be used for, or what the log can't tell."""

    id: str
    text: str


class Analysis(Section):
    """Everything the analysis says, the same for terminal, Markdown and JSON.

    ``groups`` is null unless they were asked for.
    """

    schema_: str = Field(default=SCHEMA, alias="schema")
    sources: list[Source]
    setups: list[Setup]
    setup: Setup
    summary: Summary
    verdict: VerdictModel
    findings: list[FindingModel]
    combined_saving: SavingModel | None
    unanswered: list[UnansweredModel]
    caveats: list[CaveatModel]
    groups: Groups | None = None

    model_config = ConfigDict(
        extra="forbid", populate_by_name=True, json_schema_serialization_defaults_required=True
    )
