"""What a run says, the keys of ``run --format json``: schema ``phasewise.run/1``.

Unknown is null, never 0. Times are milliseconds, rates tokens per second, ratios after over before.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict, Field

from advisor.section import Section

SCHEMA = "phasewise.run/1"

TryVerdict = Literal["faster", "slower", "no-difference", "not-tried"]


class Spread(Section):
    """A median over turns, and its least and most."""

    p50: float
    min: float
    max: float


class Summary(Section):
    """What the turns of one request say together.

    A rate is null where too few tokens or too short a time would make it. ``inter_token_p90_ms`` is over all
    gaps between tokens of all turns.
    """

    side: str
    label: str
    requests: int
    prompt_tokens: int
    cached_tokens: int | None
    output_tokens: int
    prefill_tok_s: Spread | None
    ttft_ms: Spread | None
    decode_tok_s: Spread | None
    inter_token_p50_ms: float | None
    inter_token_p90_ms: float | None
    inter_token_max_ms: float | None


class PhaseShare(Section):
    """What each phase takes of the time of the requests of the side without a remedy, 0-1."""

    prefill: float
    decode: float


class PhaseMs(Section):
    """Mean time of a request in each phase; null where it is not known."""

    prefill_ms: float | None = None
    decode_ms: float | None = None


class PhaseInterval(Section):
    """From and to, of each phase."""

    prefill_ms: tuple[float, float] | None = None
    decode_ms: tuple[float, float] | None = None


class MeasuredMs(PhaseMs):
    """Mean time of a request with the remedy, as measured beside the time without it."""

    interval_95: PhaseInterval


class Outcome(Section):
    """What a remedy did to a phase, or to both together.

    Attributes:
        verdict: see `TryVerdict`.
        ratio: time with it over time without it; the median over pairs of turns.
        low, high: its 95 % interval.
        is_clear: whether the turns could tell; false beside a `no-difference` that is none, but noise.
        visible: the largest change, as a share, that the interval still allows.
        sentence: all that in words.
    """

    phase: Literal["prefill", "decode", "total"]
    verdict: TryVerdict
    ratio: float | None
    low: float | None
    high: float | None
    visible: float | None
    is_clear: bool
    sentence: str


class Try(Section):
    """A remedy that was tried, or could not be.

    Attributes:
        remedy: knobs as ``--try`` takes them; empty for a fix of a finding that can't be tried.
        title: of the finding's fix, where it is from one.
        baseline: what the other side was set to for it, besides the run's settings; empty for nothing.
        before: without the remedy.
        predicted: with it, as physics says; null where no formula can tell.
        basis: what the predictions rest on.
        measured: with it; null where it was not tried.
        verdict: of both phases together; ``no-difference`` also where the turns could not tell.
        is_clear: whether they could; null for what was not tried.
        outcomes: of each phase, and of both together.
        pairs: turns with and without it that were compared.
    """

    remedy: str
    title: str = ""
    baseline: str = ""
    before: PhaseMs | None = None
    predicted: PhaseMs | None = None
    basis: list[str] = Field(default_factory=list)
    measured: MeasuredMs | None = None
    verdict: TryVerdict
    is_clear: bool | None = None
    sentence: str
    outcomes: list[Outcome] = Field(default_factory=list)
    pairs: int = 0


class ProcessorModel(Section):
    """A device as ggml lists it."""

    name: str
    description: str
    is_gpu: bool
    memory_bytes: int | None


class Run(Section):
    """Everything a run says.

    Attributes:
        model: the file's name.
        settings: what the engine was started with; null is the engine's default.
        workload: the shape, or the name of the file of prompts.
        sentence: what a run that tries nothing comes to; empty where tries have sentences of their own.
        requests: rows in the contract's columns, with ``inter_token_ms``, ``label``, ``side`` and ``block``.
        disturbances: what else went on in the machine, in sentences.
        notes: what to know of the engine and of the measuring.
        is_complete: false after an interruption or a failure midway.
    """

    schema_: str = Field(default=SCHEMA, alias="schema")
    model: str
    engine: str
    engine_version: str | None
    processors: list[ProcessorModel]
    settings: dict[str, Any]
    workload: str
    sentence: str
    requests: list[dict[str, Any]]
    summary: list[Summary]
    phase_share: PhaseShare | None
    tries: list[Try]
    disturbances: list[str]
    notes: list[str]
    is_complete: bool

    model_config = ConfigDict(extra="forbid", populate_by_name=True)
