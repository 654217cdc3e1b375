"""What the log before a change says it would save, against what the log after it measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pytest

from advisor.analysis import analyze
from advisor.reading import read
from rules.savings import output_capped, prompts_cut
from tests.diagnosis.evaluate import TOLERANCE
from tests.rules.helpers import LOGS
from tests.rules.helpers import read as measures_of

if TYPE_CHECKING:
    from advisor.model import Analysis
    from rules.measures import Measures


@dataclass(frozen=True, slots=True)
class Pair:
    """The same requests before and after one change."""

    name: str
    before: Measures
    after: Measures

    @property
    def measured_ms(self) -> float:
        """What the change saved on all requests together."""
        return self.before.wall_ms - self.after.wall_ms


def pair(name: str) -> Pair:
    both = Pair(name, measures_of(f"pairs/{name}/before"), measures_of(f"pairs/{name}/after"))
    assert both.before.generations.height == both.after.generations.height
    return both


def page(log: str) -> Analysis:
    return analyze(read([str(LOGS / "pairs" / log / "server.log")]))


def test_fewer_chunks_save_what_the_finding_states() -> None:
    measured_ms = pair("rag_chunks").measured_ms

    first = page("rag_chunks/before").findings[0]

    assert first.rule in ("prefill-dominates-long-prompt", "rag-chunks-too-many")
    assert first.saving is not None
    assert first.saving.ms == pytest.approx(measured_ms, rel=TOLERANCE)


def test_shorter_prompts_save_what_the_cost_model_says() -> None:
    chunks = pair("rag_chunks")
    lengths = chunks.after.generations["prefill_tokens"].to_numpy().astype(np.float64)

    saving = chunks.before.saving(prompts_cut(lengths))

    assert saving.ms == pytest.approx(chunks.measured_ms, rel=TOLERANCE)


def test_capped_answers_save_what_the_cost_model_says() -> None:
    capped = pair("output_cap")

    saving = capped.before.saving(output_capped(80))

    assert saving.ms == pytest.approx(capped.measured_ms, rel=TOLERANCE)


def test_a_change_that_was_made_is_not_advised_again() -> None:
    rules = {finding.rule for finding in page("rag_chunks/after").findings}

    assert not rules & {"prefill-dominates-long-prompt", "rag-chunks-too-many"}


def test_nothing_wrong_is_claimed_of_one_thread_instead_of_two() -> None:
    """The second thread saved 38 %: what claims time must allow for that, and none wants fewer threads."""
    measured_ms = pair("threads").measured_ms

    before, after = page("threads/before").findings, page("threads/after").findings

    rules = {finding.rule for finding in (*before, *after)}
    assert "threads-too-many" not in rules
    assert "threads-too-few" not in {finding.rule for finding in after}
    for finding in before:
        if finding.saving is not None:
            assert finding.saving.ms >= (1 - TOLERANCE) * measured_ms
            assert finding.saving.bound == "at_most" or finding.saving.ms <= (1 + TOLERANCE) * measured_ms
