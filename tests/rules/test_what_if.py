"""What-if: the requests recomputed with some of the fixes, and never better or worse than they can be."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.diagnosis import diagnose
from rules.prefill import prefill_dominates_long_prompt
from rules.ranking import combined, rank
from rules.rule import Confidence, Finding, Phase, Saving
from rules.savings import (
    decode_limited,
    decode_scaled,
    loads_avoided,
    output_capped,
    prefill_scaled,
    prefix_reused,
    prompts_cut,
    queue_scaled,
)
from rules.what_if import WhatIf, at
from tests.rules.helpers import measures, read
from tests.rules.test_deployments import both
from tests.rules.test_ranking import finding, knob

if TYPE_CHECKING:
    from collections.abc import Callable

    from rules.measures import Measures
    from rules.savings import Change

    Make = Callable[[Measures], Change]

MS = st.none() | st.floats(0, 60_000)
TOKENS = st.none() | st.integers(0, 4_000)
SHARE = st.floats(0, 1)


@st.composite
def rows(draw: st.DrawFn) -> dict[str, Any]:
    row: dict[str, Any] = {f"{phase}_ms": draw(MS) for phase in ("queue", "load", "prefill", "decode")}
    row |= {name: draw(TOKENS) for name in ("prefill_tokens", "cached_tokens", "output_tokens")}
    known = sum(row[f"{phase}_ms"] or 0.0 for phase in ("queue", "load", "prefill"))
    beyond = draw(st.sampled_from([None, 0.0, 7.0, 2_000.0, -0.3 * known]))
    row |= {"ttft_ms": None if beyond is None else known + beyond}
    row |= {"ttft_from": draw(st.sampled_from(["arrival", "slot", None]))}
    if draw(st.booleans()):
        row["total_ms"] = draw(st.none() | st.just(known + (row["decode_ms"] or 0.0) + 40.0))
    return row


CHANGES: st.SearchStrategy[Make] = st.one_of(
    SHARE.map(lambda s: lambda m: decode_scaled(s)),
    SHARE.map(lambda s: lambda m: prefill_scaled(s)),
    SHARE.map(lambda s: lambda m: queue_scaled(s)),
    SHARE.map(lambda s: lambda m: decode_limited(m.ledger, s)),
    st.integers(1, 2_000).map(lambda n: lambda m: output_capped(n)),
    st.integers(0, 2_000).map(lambda n: lambda m: prefix_reused(np.full(m.generations.height, float(n)))),
    st.integers(0, 1).map(lambda n: lambda m: loads_avoided(np.full(m.generations.height, float(n)))),
)


@st.composite
def logs(draw: st.DrawFn) -> tuple[Measures, list[Finding]]:
    m = measures(draw(st.lists(rows(), min_size=1, max_size=6)))
    made = [make(m) for make in draw(st.lists(CHANGES, max_size=5))]
    return m, [priced(f"f{place}", m, change) for place, change in enumerate(made)]


def priced(rule: str, m: Measures, change: Change, bound: Any = "estimate", **more: object) -> Finding:
    return finding(rule, saving=m.saving(change, bound=bound), change=change, **more)


def ids(what_if: WhatIf) -> list[str]:
    return [choice.id for choice in what_if.priced]


def _said(saving: Saving | None) -> tuple[float, str] | None:
    return None if saving is None else (saving.ms, saving.bound)


@given(log=logs(), data=st.data())
@settings(max_examples=150, deadline=None)
def test_laws(log: tuple[Measures, list[Finding]], data: st.DataObject) -> None:
    m, findings = log
    what_if = WhatIf(m, [(m, findings)])
    all_ids = ids(what_if)
    before, everything = what_if.before, what_if.after(all_ids)
    assert what_if.after([]) is before
    assert _said(everything.saving) == _said(combined(findings, m))
    some = data.draw(st.lists(st.sampled_from(all_ids), unique=True)) if all_ids else []
    fewer, shuffled = some[: len(some) // 2], data.draw(st.permutations(some))
    less, more, again = what_if.after(fewer), what_if.after(some), what_if.after(shuffled)
    for name in ("ttft_ms", "total_ms"):
        one, two, was = getattr(less, name), getattr(more, name), getattr(before, name)
        assert np.array_equal(np.isnan(one), np.isnan(was))
        assert np.all(np.isnan(two) | (two >= 0))
        assert np.all(np.isnan(two) | ((two <= one + 1e-6) & (one <= was + 1e-6)))
        np.testing.assert_array_equal(two, getattr(again, name))
    for phase, ms in before.phase_ms.items():
        one_ms, two_ms = less.phase_ms[phase], more.phase_ms[phase]
        if ms is None or one_ms is None or two_ms is None:
            assert ms is one_ms is two_ms is None
        else:
            assert 0 <= two_ms <= one_ms + 1e-6 <= ms + 2e-6
    assert before.phase_ms["other"] == everything.phase_ms["other"]


def test_what_no_change_touches_stays() -> None:
    row = {"queue_ms": 500.0, "load_ms": 100.0, "prefill_ms": 1_000.0, "decode_ms": 3_000.0}
    clocks = [(1_650.0, "arrival"), (1_100.0, "slot"), (1_000.0, "slot"), (None, None)]
    told = [{**row, "total_ms": 4_800.0, "ttft_ms": ms, "ttft_from": by} for ms, by in clocks]
    m = measures(told)
    changes = [queue_scaled(0.5), prefill_scaled(0.5), loads_avoided(np.ones(4)), decode_scaled(0.5)]
    what_if = WhatIf(m, [(m, [priced(f"f{n}", m, change) for n, change in enumerate(changes)])])
    queue, prefill, load, decode = ids(what_if)

    assert what_if.after([queue]).ttft_ms.tolist()[:3] == [1_400, 1_100, 1_000]
    assert what_if.after([prefill]).ttft_ms.tolist()[:3] == [1_150, 600, 500]
    assert what_if.after([load]).ttft_ms.tolist()[:3] == [1_550, 1_000, 1_000]
    assert what_if.after([decode]).ttft_ms.tolist()[:3] == [1_650, 1_100, 1_000]
    both_ms = what_if.after([decode, prefill])
    assert both_ms.total_ms.tolist() == [2_800.0] * 4
    assert both_ms.phase_ms == {"queue": 2_000, "load": 400, "prefill": 2_000, "decode": 6_000, "other": 800}
    assert np.isnan(both_ms.ttft_ms[3])
    assert both_ms.saving is not None
    assert both_ms.saving.ms == 8_000


def test_a_time_to_first_token_shorter_than_its_prefill_is_left_alone() -> None:
    m = measures([{"prefill_ms": 1_000.0, "decode_ms": 1_000.0, "ttft_ms": 300.0, "ttft_from": "arrival"}])
    what_if = WhatIf(m, [(m, [priced("f", m, prefill_scaled(0.1))])])
    assert what_if.after(ids(what_if)).ttft_ms.tolist() == [300.0]


def test_percentiles_of_what_is_known() -> None:
    assert at(np.array([np.nan, 1.0, 3.0]), 0.5) == 2.0
    assert at(np.array([np.nan]), 0.5) is None


def test_a_guess_at_a_bound_says_so() -> None:
    m = measures([{"prefill_ms": 1_000.0, "decode_ms": 1_000.0}] * 5)
    sure, most = priced("sure", m, prefill_scaled(0.5)), priced("most", m, decode_scaled(0.5), "at_most")
    what_if = WhatIf(m, [(m, [sure, most])])
    first, second = ids(what_if)
    bounds = [
        (saved.bound, saved.ms) for c in ([first], [first, second]) if (saved := what_if.after(c).saving)
    ]
    assert bounds == [("estimate", 2_500.0), ("at_most", 5_000.0)]


def test_several_models_each_with_its_own_changes() -> None:
    whole = both()
    found = diagnose(whole)
    what_if = WhatIf(whole, found.parts)
    assert len(found.parts) > 2
    after = what_if.after(ids(what_if))
    assert after.saving == found.combined
    assert {(c.finding.rule, c.saving) for c in what_if.priced} <= {
        (f.rule, f.saving) for f in found.findings
    }
    assert [c.about for c in what_if.priced] == [c.finding.title.partition(":")[0] for c in what_if.priced]
    saved = what_if.before.total_ms - after.total_ms
    slow = whole.generations["model"].cast(str).to_numpy() == "large.gguf"
    assert saved[slow].min() > 0
    assert saved[~slow].max() == 0
    assert saved.sum() == pytest.approx(after.saving.ms if after.saving else 0, rel=0.01)


def test_a_choice_keeps_its_id_and_several_of_a_rule_have_their_own() -> None:
    m = measures([{"prefill_ms": 1_000.0}] * 5)
    parts = [(m, [priced("one", m, prefill_scaled(0.5))])] * 2
    first, second = ids(WhatIf(m, parts)), ids(WhatIf(m, parts))
    assert first == second
    assert len(set(first)) == 2


def test_one_knob_one_value() -> None:
    m = read("llama-server-b11434/b_rag_default")
    said = m.asked(prefill_dominates_long_prompt.check)
    assert isinstance(said, Finding)
    first = said.fixes[0]
    other = priced("other", m, prefill_scaled(0.1), fixes=(knob(first.knob, "another value"),))
    surer = replace(other, confidence=Confidence.CERTAIN, quality=True)
    what_if = WhatIf(m, [(m, rank([surer, said], m))])
    assert [choice.finding.rule for choice in what_if.priced] == ["other"]
    (lost,) = what_if.unpriced
    assert lost.finding.rule == said.rule
    assert lost.instead_of == surer


def test_one_fix_of_two_findings_is_one_choice() -> None:
    m = measures([{"prefill_ms": 1_000.0, "decode_ms": 1_000.0}] * 5)
    fixes = (knob("slots", "4"),)
    found = [
        priced("one", m, prefill_scaled(0.5), fixes=fixes),
        priced("two", m, decode_scaled(0.5), fixes=fixes),
    ]
    (choice,) = (what_if := WhatIf(m, [(m, found)])).priced
    assert choice.findings == tuple(found)
    assert choice.saving == what_if.after([choice.id]).saving == combined(found, m)


def test_without_requests_there_is_nothing_to_choose() -> None:
    m = measures(intervals=[{"line": 1, "kind": "window", "running": 1}])
    what_if = WhatIf(m, [(m, [finding("f", phase=Phase.QUEUE)])])
    assert what_if.priced == []
    assert what_if.after(["f"]) is what_if.before
    assert at(what_if.before.ttft_ms, 0.5) is None


def test_a_toggle_answers_at_once() -> None:
    row = {"prefill_tokens": 900, "prefill_ms": 900.0, "decode_ms": 5_000.0, "output_tokens": 100}
    m = measures([{**row, "ttft_ms": 900.0, "ttft_from": "slot"}] * 20_000)
    changes = [prefix_reused(np.full(20_000, 500.0)), prompts_cut(np.full(20_000, 300.0)), output_capped(50)]
    what_if = WhatIf(m, [(m, [priced(f"f{n}", m, change) for n, change in enumerate(changes)])])
    what_if.after(ids(what_if)[:1])
    began_s = time.process_time()
    after = what_if.after(ids(what_if))
    assert at(after.ttft_ms, 0.95) is not None
    assert time.process_time() - began_s < 0.05
