"""The order of the advice, one value for a knob, and savings that are recomputed together."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib import import_module
from importlib.resources import files
from types import ModuleType

import numpy as np
import pytest

from rules.catalogue import LoadedRule, all_caveats, all_rules
from rules.ranking import combined, rank
from rules.remedies import Fix, fix, remedy_ids
from rules.rule import Confidence, Finding, Phase, Rule, Threshold
from rules.savings import decode_scaled, output_capped, prompts_cut
from rules.testing import complaints
from tests.rules.helpers import measures

CHAT = {"prefill_tokens": 1000, "prefill_ms": 500.0, "output_tokens": 300, "decode_ms": 7500.0}
ENGINES = ("llama-server", "ollama", "vllm", "llama-cpp-python", "llama-cli", "lmstudio", None)


def finding(rule: str, **more: object) -> Finding:
    base: dict[str, object] = {
        "phase": Phase.PREFILL,
        "confidence": Confidence.LIKELY,
        "title": rule,
        "why": "",
        "evidence": (),
        "requests": 3,
        "saving": None,
        "fixes": (),
        "verify": "",
    }
    return Finding(rule=rule, **{**base, **more})  # type: ignore[arg-type]


def knob(name: str, value: str) -> Fix:
    return Fix(title=name, apply=value, where="", cost="", knob=name)


def test_quality_first_then_seconds_then_faults_then_advice() -> None:
    slow = measures([{**CHAT, "decode_ms": 60_000.0}] * 5)
    change = decode_scaled(0.5)
    saves = finding("saves", saving=slow.saving(change), change=change, phase=Phase.DECODE)
    cut = finding("cut", quality=True, confidence=Confidence.CERTAIN)
    maybe_fault = finding("fault", confidence=Confidence.POSSIBLE)
    advice = finding("advice", fault=False, confidence=Confidence.CERTAIN)
    order = [f.rule for f in rank([advice, maybe_fault, saves, cut], slow)]
    assert order == ["cut", "saves", "fault", "advice"]


def test_a_guess_about_the_same_requests_goes_below_the_known_cause() -> None:
    m = measures([CHAT] * 20)
    few, others = np.repeat([1.0, 0.0], [5, 15]), np.repeat([0.0, 1.0], [5, 15])

    def cut(share: float, rows: np.ndarray) -> Finding:
        change = prompts_cut(1_000 * (1 - share * rows))
        sure = share < 0.5
        return finding(
            "cause" if sure else "guess",
            confidence=Confidence.CERTAIN if sure else Confidence.POSSIBLE,
            saving=m.saving(change),
            change=change,
        )

    cause = cut(0.4, few)
    assert [f.rule for f in rank([cut(0.9, few), cause], m)] == ["cause", "guess"]
    assert [f.rule for f in rank([cut(0.9, others), cause], m)] == ["guess", "cause"]


def test_decode_advice_waits_where_text_outruns_reading() -> None:
    fast = measures([CHAT] * 5)
    change = output_capped(100)
    decode = finding("decode", phase=Phase.DECODE, saving=fast.saving(change), change=change)
    prefill = finding("prefill")
    assert [f.rule for f in rank([decode, prefill], fast)] == ["prefill", "decode"]
    slow = measures([{**CHAT, "decode_ms": 60_000.0}] * 5)
    assert [f.rule for f in rank([decode, prefill], slow)] == ["decode", "prefill"]


def test_a_sure_fault_of_decode_does_not_wait_for_advice_that_is_only_possible() -> None:
    fast = measures([CHAT] * 5)
    most, less = output_capped(100), prompts_cut(np.full(5, 900.0))
    fault = finding("fault", phase=Phase.DECODE, saving=fast.saving(most), change=most)
    advice = replace(fault, rule="advice", fault=False)
    sure = finding("sure")
    maybe = finding(
        "maybe", saving=fast.saving(less), change=less, confidence=Confidence.POSSIBLE, fault=False
    )
    risk = finding("risk", phase=Phase.MEMORY, confidence=Confidence.POSSIBLE, fault=False)

    ranked = [f.rule for f in rank([advice, maybe, risk, fault, sure], fast)]
    assert ranked == ["sure", "fault", "maybe", "risk", "advice"]
    assert [f.rule for f in rank([advice, maybe], fast)] == ["maybe", "advice"]
    large = prompts_cut(np.zeros(5))
    larger = replace(maybe, saving=replace(fast.saving(most), ms=1e9), change=large)
    assert [f.rule for f in rank([larger, fault], fast)] == ["maybe", "fault"]


def test_a_knob_keeps_the_value_of_the_higher_finding_and_a_saving_goes_with_its_fix() -> None:
    m = measures([CHAT] * 5)
    change = output_capped(100)
    high = finding("high", quality=True, confidence=Confidence.CERTAIN, fixes=(knob("context", "-c 8192"),))
    low = finding(
        "low",
        fixes=(knob("context", "-c 2048"), knob("quant", "Q4_K_M")),
        saving=m.saving(change),
        change=change,
    )
    first, second = rank([low, high], m)
    assert [f.apply for f in first.fixes] == ["-c 8192"]
    assert [f.apply for f in second.fixes] == ["Q4_K_M"]
    assert second.saving is None


def test_two_ways_to_save_the_same_decode_are_recomputed_not_added() -> None:
    m = measures([{**CHAT, "decode_ms": 60_000.0}] * 5)
    half, third = decode_scaled(0.5), output_capped(100)
    both = [
        finding(name, phase=Phase.DECODE, saving=m.saving(change), change=change)
        for name, change in (("half", half), ("third", third))
    ]
    saving = combined(both, m)
    assert saving is not None
    assert saving.ms == pytest.approx(5 * 60_000 * (1 - 0.5 / 3), rel=0.01)
    assert saving.ms < sum(f.saving.ms for f in both if f.saving)
    assert saving.ms <= float(np.sum(m.ledger.decode_ms))


def test_a_cause_is_read_before_what_it_explains() -> None:
    m = measures([CHAT] * 6)
    effect, other = (
        finding(name, saving=m.saving(change), change=change, phase=Phase.DECODE)
        for name, change in (("effect", decode_scaled(0.5)), ("other", decode_scaled(0.8)))
    )
    cause = finding("cause", explains=("effect",), phase=Phase.DECODE)
    assert [f.rule for f in rank([effect, other, cause], m)] == ["cause", "effect", "other"]
    assert [f.rule for f in rank([other, cause], m)] == ["other", "cause"]


@pytest.mark.parametrize("remedy", remedy_ids())
def test_every_remedy_has_words_for_every_engine(remedy: str) -> None:
    for engine in ENGINES:
        one = fix(remedy, engine, "b11434", **dict.fromkeys(_placeholders(remedy), 1))
        assert one.title
        assert one.apply
        assert one.where
        assert one.cost


def _placeholders(remedy: str) -> set[str]:
    text = (files("rules.remedies") / f"{remedy}.toml").read_text("utf-8")
    return set(re.findall(r"(?<!\{)\{(\w+)\}(?!\})", text))


@pytest.mark.parametrize("loaded", all_rules(), ids=lambda loaded: str(loaded.rule.id))
def test_every_rule_keeps_the_rules_of_the_house(loaded: LoadedRule) -> None:
    assert complaints(import_module(loaded.check.__module__)) == []


def test_no_two_rules_or_caveats_have_one_id() -> None:
    ids = [loaded.rule.id for loaded in all_rules()] + [loaded.id for loaded in all_caveats()]
    assert len(ids) == len(set(ids))
    for caveat in all_caveats():
        assert caveat.check.__module__.rsplit(".", 1)[1].replace("_", "-") == caveat.id


def test_the_kit_names_what_is_wrong_with_a_rule() -> None:
    module = ModuleType("someone.wrong_name")
    assert complaints(module) == ["it has no RULE"]
    module.__dict__["RULE"] = Rule(
        id="right-name",
        phase=Phase.DECODE,
        title="",
        remedies=("no-such-remedy",),
        verify="",
        thresholds={"share": Threshold(-1.0, "")},
    )
    assert [said.split()[0:3] for said in complaints(module)] == [
        ["it", "has", "no"],
        ["its", "id", "is"],
        ["its", "docstring", "needs"],
        ["no", "remedy", "is"],
        ["the", "threshold", "'share'"],
    ]
