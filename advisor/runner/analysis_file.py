"""The parts of an ``analyze --format json`` file that a trial is made of."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from advisor.errors import InputError, MissingError
from advisor.model import SCHEMA

if TYPE_CHECKING:
    from pathlib import Path

_LARGEST = 64 << 20


class _Part(BaseModel):
    """Keys that are not named are left aside: older and newer versions may have others."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Fix(_Part):
    """A remedy of a finding."""

    title: str
    remedy: str = ""
    trial: str | None = None


class Saving(_Part):
    """What the first fix would have saved."""

    ms: float = Field(ge=0)
    bound: Literal["estimate", "at_most"] = "estimate"


class Finding(_Part):
    """What was found."""

    rule: str
    phase: str
    title: str
    saving: Saving | None = None
    fixes: list[Fix] = []


class Middle(_Part):
    """Percentiles of a number of tokens."""

    p50: float | None = Field(default=None, ge=0, le=1e9)
    p90: float | None = Field(default=None, ge=0, le=1e9)


class Summary(_Part):
    """What the log's requests were like."""

    phase_ms: dict[str, float | None] = {}
    prompt_tokens: Middle = Middle()
    prefill_tokens: Middle = Middle()
    output_tokens: Middle = Middle()
    concurrency: int | None = None


class Device(_Part):
    """A device that the engine found."""

    name: str = ""
    backend: str | None = None


class Setup(_Part):
    """How the log's engine ran."""

    engine: str | None = None
    model: str | None = None
    context: int | None = None
    batch: int | None = None
    ubatch: int | None = None
    threads: int | None = None
    threads_batch: int | None = None
    flash_attention: bool | None = None
    kv_type_k: str | None = None
    kv_type_v: str | None = None
    layers_offloaded: int | None = None
    layers_offloadable: int | None = None
    cpu_weights_bytes: int | None = None
    gpu_weights_bytes: int | None = None
    devices: list[Device] = []


class AnalysisFile(_Part):
    """An analysis, as far as a trial needs it."""

    setup: Setup = Setup()
    summary: Summary = Summary()
    findings: list[Finding] = []

    def finding(self, rule: str, name: str) -> Finding:
        """The first finding of a rule.

        Raises:
            InputError: it isn't in the file of this name; the message says which are.
        """
        found = next((finding for finding in self.findings if finding.rule == rule), None)
        if found is not None:
            return found
        rules = ", ".join(dict.fromkeys(finding.rule for finding in self.findings))
        raise InputError(f"{name}: no finding {rule}; there {f'are {rules}' if rules else 'is none'}.")


def read_analysis(path: Path) -> AnalysisFile:
    """The analysis in a file.

    Raises:
        InputError: it can't be read, or is no analysis of this schema.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
    except FileNotFoundError:
        raise MissingError(str(path)) from None
    except OSError as error:
        raise InputError(f"{path}: can't be read ({error.strerror or error}).") from None
    other = f"{path}: not an analysis; write one with `phasewise analyze LOG --format json`."
    if len(data) > _LARGEST:
        raise InputError(other)
    try:
        said = json.loads(data)
    except (ValueError, RecursionError):
        raise InputError(other) from None
    schema = said.get("schema") if isinstance(said, dict) else None
    if schema != SCHEMA:
        is_ours = isinstance(schema, str) and schema.startswith("phasewise.")
        raise InputError(f"{path}: its schema is {schema}, not {SCHEMA}." if is_ours else other)
    try:
        return AnalysisFile.model_validate(said)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise InputError(f"{path}: {place} is not as in an analysis ({first['msg']}).") from None
