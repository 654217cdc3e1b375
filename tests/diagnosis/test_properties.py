"""What must not change what is said, and what a saving can be at most."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.diagnosis import diagnose
from parsers.setup import Setup
from rules.attribution import PHASES, verdict
from rules.measures import Measures
from tests.diagnosis import texts
from tests.diagnosis.cases import CASES
from tests.diagnosis.evaluate import page
from tests.diagnosis.rows import Made, any_requests, telling_requests

if TYPE_CHECKING:
    from advisor.model import Analysis
    from rules.rule import Finding

ROUNDED = 0.05
"""Of few requests a saving has two digits."""

Said = tuple[tuple[str, str, float | None, int], ...]

MACHINES = {case.id: case.machine for case in CASES}


def said(findings: list[Finding]) -> Said:
    """What the page says, apart from line numbers."""
    return tuple(
        (f.rule, f.confidence.value, f.saving.ms if f.saving else None, f.requests) for f in findings
    )


def answers(made: Made) -> list[Finding]:
    return diagnose(made.measures).findings


@cache
def logs() -> dict[str, bytes]:
    return texts.real_logs() | texts.made_logs()


@cache
def whole(name: str) -> Analysis:
    return page({"engine.log": logs()[name]}, MACHINES.get(name))


def told(analysis: Analysis) -> tuple[object, ...]:
    """Verdict and findings, apart from line numbers."""
    return (
        analysis.verdict.phase,
        analysis.verdict.healthy,
        *((f.rule, f.confidence, f.saving and f.saving.ms, f.requests) for f in analysis.findings),
    )


# --- savings


@given(made=any_requests() | telling_requests())
@settings(max_examples=40)
def test_a_saving_is_never_negative_and_never_more_than_the_phases_it_acts_on(made: Made) -> None:
    m = made.measures
    diagnosis = diagnose(m)

    for finding in diagnosis.findings:
        if finding.saving is not None:
            assert 0 <= finding.saving.ms <= _acted_on_ms(finding, m) * (1 + ROUNDED), finding.rule
            assert 0 <= finding.saving.share <= 1, finding.rule
    if diagnosis.combined is not None:
        assert 0 <= diagnosis.combined.ms <= m.wall_ms * (1 + ROUNDED)


def _acted_on_ms(finding: Finding, m: Measures) -> float:
    """All time of the phases that the finding's change touches, or of its own phase."""
    if finding.change is None:
        return m.attribution.phase_ms.get(finding.phase) or m.wall_ms
    before, after = m.ledger, finding.change(m.ledger)
    changed = [
        getattr(before, f"{phase}_ms")
        for phase in PHASES
        if np.any(getattr(before, f"{phase}_ms") != getattr(after, f"{phase}_ms"))
    ]
    return float(np.sum(changed))


@given(made=telling_requests(), factor=st.floats(1.0, 4.0))
@settings(max_examples=20)
def test_savings_scale_with_time(made: Made, factor: float) -> None:
    """Times only grow, and no machine is known: samples stay valid, and nothing is held against physics."""
    before = {f.rule: f for f in answers(made)}
    after = {f.rule: f for f in answers(made.slower(factor))}

    assert before
    assert before.keys() == after.keys()
    for rule, finding in before.items():
        if finding.saving is None:
            assert after[rule].saving is None
        else:
            slower = after[rule].saving
            assert slower is not None
            assert slower.ms == pytest.approx(factor * finding.saving.ms, rel=2 * ROUNDED)


# --- what changes nothing


@given(made=any_requests() | telling_requests(), place=st.integers(0, 100), ms=st.floats(1_000, 60_000))
@settings(max_examples=15)
def test_idle_time_changes_nothing(made: Made, place: int, ms: float) -> None:
    """Pauses stay between 2 s and 2 min: not back to back, and not long enough to unload a model."""
    rested = made.idle(place % len(made.rows), ms)

    assert said(answers(rested)) == said(answers(made))


@given(made=any_requests() | telling_requests(), name=st.sampled_from(["other.gguf", "b", "weights a7"]))
@settings(max_examples=15)
def test_a_models_name_changes_nothing(made: Made, name: str) -> None:
    assert said(answers(made.renamed(name))) == said(answers(made))


@pytest.mark.parametrize("name", sorted(logs()))
def test_a_log_with_idle_time_says_the_same(name: str) -> None:
    """Half a minute in the middle, in each clock that the log has."""
    log = logs()[name]
    between = texts.boundaries(log)
    if not between:
        pytest.skip("no moment at which nothing runs")

    rested = texts.with_idle(log, between[len(between) // 2], 30)

    assert told(page({"engine.log": rested}, MACHINES.get(name))) == told(whole(name))


@pytest.mark.parametrize("name", sorted(logs()))
def test_a_log_of_a_renamed_model_says_the_same(name: str) -> None:
    renamed = page({"engine.log": texts.renamed(logs()[name])}, MACHINES.get(name))

    assert told(renamed) == told(whole(name))


# --- parts of a log


SPLIT = sorted(name for name in logs() if texts.boundaries(logs()[name]))


@given(data=st.data(), name=st.sampled_from(SPLIT))
@settings(max_examples=15)
def test_a_log_in_two_files_says_the_same(data: st.DataObject, name: str) -> None:
    """The same verdict and rules; of the saving, what the request after the cut had in it may go.

    The request before that one is in another file then. A finding also counts requests that save nothing, so
    a request's share is up to two of them.
    """
    log = logs()[name]
    cut = data.draw(st.sampled_from(texts.boundaries(log)))

    halves = page({"1.log": log[:cut], "2.log": log[cut:]}, MACHINES.get(name))

    one = whole(name)
    assert (halves.verdict.phase, halves.verdict.healthy) == (one.verdict.phase, one.verdict.healthy)
    assert {f.rule for f in halves.findings} == {f.rule for f in one.findings}
    kept = {f.rule: f.saving.ms for f in halves.findings if f.saving}
    for finding in one.findings:
        if finding.saving is not None:
            least = finding.saving.ms * (1 - 2 / finding.requests - ROUNDED)
            assert least <= kept[finding.rule] <= finding.saving.ms * (1 + ROUNDED)


SAMPLES = sorted(name for name in texts.real_logs() if whole(name).summary.requests >= 9)


@given(data=st.data(), name=st.sampled_from(SAMPLES))
@settings(max_examples=40)
def test_a_tenth_of_the_requests_does_not_decide_the_verdict(data: st.DataObject, name: str) -> None:
    requests = texts.requests(name)
    tenth = -(-requests.height // 10)
    gone = data.draw(st.sets(st.integers(0, requests.height - 1), min_size=tenth, max_size=tenth))

    rest = requests.with_row_index("row").filter(~pl.col("row").is_in(list(gone))).drop("row")

    assert _phase(rest) == _phase(requests) == whole(name).verdict.phase


def _phase(requests: pl.DataFrame) -> str:
    empty = requests.clear()
    return verdict(Measures(requests, empty, empty, Setup()).attribution).phase
