"""Real llama-server logs of conversations whose caching fails in a known way, and of the same mended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rules.catalogue import ask
from rules.rule import Confidence
from tests.rules.helpers import read

if TYPE_CHECKING:
    from rules.rule import Finding

CACHE_RULES = {
    "cache-evicted",
    "cache-prompt-off",
    "context-shift-invalidates",
    "prefix-unstable",
    "slot-thrash",
    "swa-hybrid-full-reprocess",
}


def found(log: str) -> dict[str, Finding]:
    """What the rules about caching find in a log, by rule."""
    return {f.rule: f for f in ask(read(f"conversations/{log}")).findings if f.rule in CACHE_RULES}


@pytest.mark.parametrize(
    ("log", "rule", "fix"),
    [
        ("two_chats_one_slot", "slot-thrash", "-np 2"),
        ("small_host_cache", "cache-evicted", "--cache-ram"),
        ("cache_prompt_off", "cache-prompt-off", '"cache_prompt": true'),
        ("client_trims_history", "context-shift-invalidates", ""),
    ],
)
def test_what_is_wrong_is_named_and_nothing_else(log: str, rule: str, fix: str) -> None:
    findings = found(log)
    assert set(findings) == {rule}
    assert fix in findings[rule].fixes[0].apply


@pytest.mark.parametrize(
    ("log", "rule"), [("small_host_cache", "cache-evicted"), ("cache_prompt_off", "cache-prompt-off")]
)
def test_what_the_engine_says_itself_is_likely(log: str, rule: str) -> None:
    assert found(log)[rule].confidence is Confidence.LIKELY


@pytest.mark.parametrize("log", ["two_chats_two_slots", "large_host_cache"])
def test_nothing_is_wrong_after_the_change(log: str) -> None:
    assert found(log) == {}


def test_a_second_slot_saves_the_tokens_that_slot_thrash_counts() -> None:
    def evaluated(log: str) -> int:
        tokens: Any = read(f"conversations/{log}").generations["prefill_tokens"].sum()
        return int(tokens)

    before = read("conversations/two_chats_one_slot")
    change = found("two_chats_one_slot")["slot-thrash"].change
    assert change is not None
    stated = before.ledger.new_tokens.sum() - change(before.ledger).new_tokens.sum()
    measured = evaluated("two_chats_one_slot") - evaluated("two_chats_two_slots")
    assert stated == pytest.approx(measured, rel=0.25)
