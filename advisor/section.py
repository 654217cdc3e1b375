"""A part of a document that scripts read, and the figures that several of them hold."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A part of the analysis; unknown keys are a mistake."""

    model_config = ConfigDict(extra="forbid", from_attributes=True)


class Phases(Section):
    """A value for each phase; ``other`` is what no logged phase explains."""

    queue: float | None = None
    load: float | None = None
    prefill: float | None = None
    decode: float | None = None
    other: float | None = None


class Percentiles(Section):
    """Percentiles over the requests that state the value."""

    n: int = 0
    p50: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None
    max: float | None = None


class Rate(Section):
    """Median rate over ``n`` valid samples; null without any."""

    n: int = 0
    p50: float | None = None
