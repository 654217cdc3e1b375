"""Lines through samples with their intervals, and the two rules that read decode's slope."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parsers.setup import Device
from rules.decode import decode_slope_attention, decode_slope_kv
from rules.fits import context_ratio, fit_decode_slope, fit_prefill_terms
from rules.rule import CannotTell, Confidence, Finding, NotApplicable
from rules.testing import complaints
from tests.rules.helpers import measures, read

if TYPE_CHECKING:
    from rules.rule import Answer
    from rules.savings import Array

LLAMA_2_7B_KV_BYTES = 524_288
STRIX_GB_S = 256
PLAIN_MS = LLAMA_2_7B_KV_BYTES / (STRIX_GB_S * 1e6)
"""Reading one token's KV cache on a Radeon 8060S, ms."""

DEPTHS = (200, 400, 700, 1_000, 1_500, 2_000, 2_500, 3_000, 3_500, 4_000)
STRIX: dict[str, Any] = {
    "kv_bytes_per_token": float(LLAMA_2_7B_KV_BYTES),
    "kv_type_k": "f16",
    "kv_type_v": "f16",
    "layers_offloaded": 33,
    "layers_offloadable": 33,
    "experts": 0,
    "slots": 1,
    "devices": [Device(name="AMD Radeon 8060S (RADV GFX1151)", backend="Vulkan")],
}


def noisy(values: Array, share: float, seed: int) -> Array:
    random = np.random.default_rng(seed)
    return values * (1 + share * random.standard_normal(values.size))


def found(answer: Answer) -> Finding:
    assert isinstance(answer, Finding), answer
    return answer


# --- fits


@given(
    st.floats(1, 200),
    st.floats(0, 1e-2),
    st.lists(st.floats(200, 60_000), min_size=8, max_size=40).filter(lambda x: max(x) >= 4 * min(x)),
)
@settings(max_examples=50, deadline=None)
def test_a_clean_line_is_found_and_its_interval_is_narrow(
    alpha: float, beta: float, depths: list[float]
) -> None:
    context = np.array(depths)
    fit = fit_decode_slope(context, alpha + beta * context)

    assert fit is not None
    assert fit.ms_per_token(3_000) == pytest.approx(alpha + beta * 3_000, rel=2e-3)
    assert fit.alpha_ms.low <= fit.alpha_ms.value <= fit.alpha_ms.high
    assert fit.beta_ms.low <= fit.beta_ms.value <= fit.beta_ms.high
    assert (fit.n, fit.span) == (len(depths), max(depths) / min(depths))


@pytest.mark.parametrize(("n", "noise"), [(8, 0.05), (12, 0.02), (40, 0.05)])
def test_nine_of_ten_intervals_hold_the_truth(n: int, noise: float) -> None:
    """95 % are asked for; with eight samples the scatter itself is hardly known."""
    alpha, beta, trials, held = 7.7, 3e-4, 120, 0
    for seed in range(trials):
        context = np.geomspace(400, 16_000, n)
        fit = fit_decode_slope(context, noisy(alpha + beta * context, noise, seed))
        assert fit is not None
        held += fit.beta_ms.low <= beta <= fit.beta_ms.high
    assert held >= 0.87 * trials


def test_two_stalls_among_nine_answers_do_not_move_the_slope() -> None:
    """As measured on a busy machine: two of nine answers took 9 and 60 times as long."""
    context = np.array([331.0, 3_031, 631, 5_531, 1_231, 431, 2_231, 4_231, 831])
    measured = np.array([10.4, 24.6, 12.3, 37.0, 14.5, 10.8, 19.4, 1_167.5, 172.7])

    fit = fit_decode_slope(context, measured)

    assert fit is not None
    assert fit.alpha_ms.value == pytest.approx(8.9, abs=0.2)
    assert fit.beta_ms.value == pytest.approx(5.2e-3, abs=2e-4)
    assert fit.r2 > 0.98


@pytest.mark.parametrize("depths", [DEPTHS[:7], (3_000, 3_200, 3_500, 4_000) * 4], ids=["seven", "alike"])
def test_few_or_like_contexts_show_no_slope(depths: tuple[int, ...]) -> None:
    context = np.array(depths, dtype=np.float64)
    assert fit_decode_slope(context, 10 + context / 1_000) is None


def test_prefill_terms_of_a_4090_without_flash_attention() -> None:
    """Weights 131.8 us a token, attention 0.01414 us per token and token: equal at 9,300 tokens."""
    tokens = np.geomspace(500, 16_000, 12)
    ms = 0.1318 * tokens + 1.414e-5 * tokens**2

    terms = fit_prefill_terms(tokens, 0 * tokens, noisy(ms, 0.01, 2))

    assert terms is not None
    assert terms.equal_tokens == pytest.approx(9_300, rel=0.1)
    assert terms.a_ms.low <= 0.1318 <= terms.a_ms.high
    assert terms.b_ms.low <= 2 * 1.414e-5 <= terms.b_ms.high
    assert terms.attention_share(np.array([9_300.0]))[0] == pytest.approx(0.5, abs=0.03)
    assert fit_prefill_terms(tokens[:5], 0 * tokens[:5], ms[:5]) is None


def test_prefill_without_attention_leaves_zero_in_the_interval() -> None:
    tokens = np.geomspace(500, 16_000, 12)
    terms = fit_prefill_terms(tokens, 0 * tokens, noisy(0.5 * tokens, 0.03, 4))
    assert terms is not None
    assert terms.b_ms.low == 0


# --- decode-slope-kv and decode-slope-attention


def answers(rho: float, alpha_ms: float = 20.0, scale: int = 1, **more: Any) -> list[dict[str, Any]]:
    """Answers of 300 tokens behind prompts of these depths, on a slope of ``rho``."""
    return [
        {
            "prompt_tokens": depth * scale,
            "cached_tokens": 0,
            "prefill_ms": 100.0,
            "output_tokens": 300,
            "decode_ms": 300 * (alpha_ms + rho * PLAIN_MS * (depth * scale + 150)),
            "slot": 0,
            **more,
        }
        for depth in DEPTHS
    ]


def test_without_flash_attention_the_slope_is_attention() -> None:
    """Radeon 8060S, Llama 2 7B: rho 9.2 with flash attention off, and 18 tok/s at 4,096 tokens."""
    m = measures(answers(9.2), setup={**STRIX, "flash_attention": False})

    finding = found(decode_slope_attention.check(m))

    assert finding.confidence is Confidence.LIKELY
    assert [fix.apply for fix in finding.fixes][:1] == ["-fa on"]
    context_ms = sum(300 * 9.2 * PLAIN_MS * (depth + 150) for depth in DEPTHS)
    assert finding.saving is not None
    assert finding.saving.ms == pytest.approx(context_ms * (1 - 1.4 / 9.2), rel=0.01)
    assert finding.saving.bound == "estimate"
    said = {e.label: e for e in finding.evidence}
    assert said["slope over plain reading of the KV cache"].value == pytest.approx(9.2, abs=0.05)
    assert said["flash attention"].lines
    assert isinstance(decode_slope_kv.check(m), NotApplicable)


@pytest.mark.parametrize(
    ("flash", "fix"), [(None, "flash-attention"), (True, "measurement")], ids=["unknown", "on"]
)
def test_a_steep_slope_is_only_possible_unless_flash_attention_is_off(flash: bool | None, fix: str) -> None:
    finding = found(
        decode_slope_attention.check(measures(answers(9.2), setup={**STRIX, "flash_attention": flash}))
    )

    assert finding.confidence is Confidence.POSSIBLE
    assert finding.fixes[0].knob == fix
    assert (finding.saving is None) == (flash is True)


def test_with_flash_attention_deep_contexts_pay_for_bytes() -> None:
    m = measures(answers(1.4, scale=4), setup={**STRIX, "flash_attention": True})

    finding = found(decode_slope_kv.check(m))

    assert finding.confidence is Confidence.LIKELY
    assert finding.fixes[0].apply == "-ctk q8_0 -ctv q8_0"
    context_ms = sum(300 * 1.4 * PLAIN_MS * (4 * depth + 150) for depth in DEPTHS)
    assert finding.saving is not None
    assert finding.saving.ms == pytest.approx(context_ms * 0.8 * (1 - 1.0625 / 2), rel=0.01)
    assert not finding.fault
    assert isinstance(decode_slope_attention.check(m), NotApplicable)


@pytest.mark.parametrize(
    ("rows", "setup", "answer"),
    [
        pytest.param(answers(1.4, alpha_ms=200), {}, NotApplicable, id="the context's part is small"),
        pytest.param(answers(0.0), {}, NotApplicable, id="flat"),
        pytest.param(answers(9.2), {"kv_bytes_per_token": None}, CannotTell, id="KV size unknown"),
        pytest.param(answers(9.2), {"sliding_window": 1_024}, CannotTell, id="sliding window"),
        pytest.param(answers(9.2), {"devices": []}, CannotTell, id="device unknown"),
        pytest.param(answers(9.2), {"layers_offloaded": 10}, NotApplicable, id="partly on the CPU"),
        pytest.param(answers(9.2), {"speculative": "draft"}, CannotTell, id="draft"),
        pytest.param(answers(9.2)[:7], {}, CannotTell, id="seven answers"),
        pytest.param(answers(2.0, scale=4), {}, NotApplicable, id="neither"),
    ],
)
def test_no_slope_is_judged(rows: list[dict[str, Any]], setup: dict[str, Any], answer: type) -> None:
    for rule in (decode_slope_kv, decode_slope_attention):
        assert isinstance(rule.check(measures(rows, setup={**STRIX, **setup})), answer), rule.__name__


def test_an_8_bit_kv_cache_has_nothing_left_to_give() -> None:
    eight = {"kv_type_k": "q8_0", "kv_type_v": "q8_0", "kv_bytes_per_token": LLAMA_2_7B_KV_BYTES * 0.53125}
    m = measures(answers(0.75, scale=4), setup={**STRIX, **eight})
    assert isinstance(decode_slope_kv.check(m), NotApplicable)


def test_overlapping_answers_are_no_samples() -> None:
    rows = [
        {**row, "slot": i % 2, "clock_start_ms": 10.0 * i, "clock_end_ms": 1e6 + i}
        for i, row in enumerate(answers(9.2))
    ]
    assert measures(rows, setup={**STRIX, "slots": 2}).decode_slope is None


def test_another_start_with_other_settings_is_not_on_the_same_line() -> None:
    rows = answers(9.2) + answers(1.3, alpha_ms=22.0, run=1)
    starts = [{**STRIX, "flash_attention": on} for on in (False, True)]

    ratio = context_ratio(measures(rows, setups=starts))

    assert ratio is not None
    assert ratio.value == pytest.approx(1.3, abs=0.02)


def test_healthy_4090_with_prompts_up_to_3000_tokens_is_flat() -> None:
    """D20: 130.58 tok/s at first and 110.66 tok/s over 8,192 tokens; rho 2.7, but the prompts are short."""
    beta = (1_000 / 110.66 - 1_000 / 130.58) / 4_096
    rows = [
        {
            "prompt_tokens": depth,
            "cached_tokens": 0,
            "prefill_ms": depth / 7,
            "output_tokens": 300,
            "decode_ms": 300 * (1_000 / 130.58 + beta * depth),
            "slot": 0,
        }
        for depth in range(500, 3_001, 130)
    ]
    gpu = [Device(name="NVIDIA GeForce RTX 4090", backend="CUDA", memory_bytes=24_080 << 20)]
    m = measures(rows, setup={**STRIX, "kv_bytes_per_token": 131_072.0, "devices": gpu})

    assert m.decode_slope is not None
    for rule in (decode_slope_kv, decode_slope_attention):
        assert isinstance(rule.check(m), NotApplicable)


@pytest.mark.parametrize("rule", [decode_slope_kv, decode_slope_attention])
def test_house_rules_and_silence_on_real_logs(rule: Any) -> None:
    assert complaints(rule) == []
    for log in ("llama-server-b11434/b_rag_default", "pairs/rag_chunks/before", "pairs/threads/before"):
        assert not isinstance(rule.check(read(log)), Finding)
