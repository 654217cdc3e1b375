"""Batching, speculation and what does not fit, on figures worked out by hand or published."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.physics.batching import (
    MEASURED_EFFICIENCY,
    crossover_sequences,
    decode_tok_s_during_prefill,
    ridge_flop_per_byte,
    stall_ms,
    step_ms,
    utilisation,
)
from rules.physics.decode import decode_constants, decode_ms_per_token
from rules.physics.overflow import (
    PCIE_GB_S,
    paging_ms_per_token,
    paging_worst_ms_per_token,
    spill_ms_per_token,
)
from rules.physics.speculation import (
    break_even_acceptance,
    expected_tokens,
    measured_speedup,
    speedup,
    tokens_per_verification,
    verifications,
)

LLAMA3_8B_Q4_K_M, LLAMA3_8B_PARAMETERS = 4_917_737_553, 8.03e9
GEFORCE = decode_constants("geforce")

# --- batching


@pytest.mark.parametrize(
    ("tflops", "gb_s", "ridge", "fp16", "bits_4_9"),
    [
        pytest.param(165.2, 1008, 164, 164, 50, id="RTX 4090"),
        pytest.param(71.2, 936.2, 76, 76, 23, id="RTX 3090"),
        pytest.param(312, 2039, 153, 153, 47, id="A100 SXM"),
        pytest.param(989, 3350, 295, 295, 90, id="H100 SXM"),
        pytest.param(989, 4800, 206, 206, 63, id="H200"),
        pytest.param(27.2, 800, 34, 34, 10, id="M2 Ultra"),
    ],
)
def test_ridge_and_crossover(tflops: float, gb_s: float, ridge: int, fp16: int, bits_4_9: int) -> None:
    assert round(ridge_flop_per_byte(tflops, gb_s)) == ridge
    assert round(crossover_sequences(tflops, gb_s, 16)) == fp16
    assert round(crossover_sequences(tflops, gb_s, 4.9)) == bits_4_9


def step(sequences: int, kv_bytes: float = 0.0) -> float:
    ms = step_ms(
        sequences,
        LLAMA3_8B_Q4_K_M,
        kv_bytes,
        1008,
        32,
        GEFORCE,
        active_parameters=LLAMA3_8B_PARAMETERS,
        sustained_tflops=165.2,
    )
    assert ms is not None
    return ms


def test_a_step_for_one_is_plain_decode() -> None:
    assert step(1, 1e9) == decode_ms_per_token(LLAMA3_8B_Q4_K_M, 1e9, 1008, 32, GEFORCE)
    assert 1000 / step(1) == pytest.approx(129.9, abs=0.05)


def test_a_batch_is_free_until_compute_binds() -> None:
    crossover = crossover_sequences(165.2, 1008 * 0.95, 8 * LLAMA3_8B_Q4_K_M / LLAMA3_8B_PARAMETERS)
    below, above = int(crossover), int(crossover) + 1
    assert step(1) == step(below)
    assert step(above) > step(below)
    assert step(400) - step(200) == pytest.approx(2 * LLAMA3_8B_PARAMETERS * 200 / 165.2e9)


def test_without_compute_figures_only_memory_binds() -> None:
    assert step_ms(4096, LLAMA3_8B_Q4_K_M, 0, 1008, 32, GEFORCE) == step(1)
    assert step_ms(8, LLAMA3_8B_Q4_K_M, 0, 1008, 32, None) is None


@given(st.integers(1, 500), st.floats(0, 1e9))
def test_more_sequences_give_more_together_and_less_each(sequences: int, kv_bytes: float) -> None:
    one, more = step(sequences, kv_bytes), step(sequences + 1, kv_bytes)
    assert one <= more
    assert (sequences + 1) / more >= sequences / one * (1 - 1e-12)


def test_measured_efficiency_is_that_of_the_published_rows() -> None:
    """Llama 2 7B Q4_0, HIP without flash attention: prompts of N tokens in one batch of N."""
    tok_s = {1: 50.041847, 2: 98.781962, 4: 189.265735, 8: 310.314475, 16: 506.721648, 32: 704.484972}
    scaling = {n: rate / tok_s[1] for n, rate in tok_s.items()}
    assert [round(x, 2) for x in scaling.values()] == [1.0, 1.97, 3.78, 6.2, 10.13, 14.08]
    assert {n: round(x / n, 2) for n, x in scaling.items()} == MEASURED_EFFICIENCY


@pytest.mark.parametrize(("chunk", "tok_s"), [(8192, 0.29), (2048, 1.17), (512, 4.7)])
def test_a_stream_gets_one_token_per_chunk(chunk: int, tok_s: float) -> None:
    rate = decode_tok_s_during_prefill(chunk, 2400)
    assert rate == pytest.approx(tok_s, abs=0.013)
    assert stall_ms(chunk, 2400) == pytest.approx(1000 / rate)


def test_twice_the_slots_are_half_as_busy() -> None:
    assert utilisation(service_ms=54_000, slots=1, window_ms=60_000) == 0.9
    assert utilisation(service_ms=54_000, slots=2, window_ms=60_000) == 0.45


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: ridge_flop_per_byte(0, 1008),
        lambda: crossover_sequences(165, 1008, 0),
        lambda: step_ms(0, 1e9, 0, 1008, 32, GEFORCE),
        lambda: stall_ms(100, 0),
        lambda: utilisation(1, 0, 1),
        lambda: speedup(1.1, 3, 0.1),
        lambda: speedup(0.5, 0, 0.1),
        lambda: speedup(0.5, 3, -0.1),
        lambda: measured_speedup(2, 1, 0),
        lambda: spill_ms_per_token(1e9, 0),
    ],
)
def test_impossible_inputs_are_refused(wrong: object) -> None:
    assert callable(wrong)
    with pytest.raises(ValueError, match="must"):
        wrong()


# --- speculation


@pytest.mark.parametrize(
    ("acceptance", "length", "cost", "faster"),
    [
        (0.8, 3, 0.1, 2.27),
        (0.6, 3, 0.1, 1.67),
        (0.3, 3, 0.1, 1.09),
        (0.5, 4, 0.2, 1.08),
        (0.07, 64, 0.2, 0.08),
    ],
)
def test_speedup_of_a_draft(acceptance: float, length: int, cost: float, faster: float) -> None:
    assert round(speedup(acceptance, length, cost), 2) == faster


def test_three_good_drafts_yield_nearly_three_tokens() -> None:
    assert round(expected_tokens(0.8, 3), 2) == 2.95
    assert expected_tokens(0, 5) == 1
    assert expected_tokens(1, 5) == 6


@pytest.mark.parametrize(
    ("length", "cost", "acceptance"),
    [(3, 0.05, 0.13), (3, 0.1, 0.23), (3, 0.2, 0.39), (5, 0.1, 0.33), (8, 0.1, 0.44)],
)
def test_break_even(length: int, cost: float, acceptance: float) -> None:
    found = break_even_acceptance(length, cost)
    assert found is not None
    assert round(found, 2) == acceptance
    assert speedup(found, length, cost) == pytest.approx(1)


def test_a_draft_as_slow_as_the_model_never_pays() -> None:
    assert break_even_acceptance(3, 1.1) is None
    assert break_even_acceptance(1, 0.4, verify_cost=1.7) is None


@given(st.floats(0, 1), st.floats(0, 1), st.integers(1, 64), st.floats(0, 1), st.floats(1, 3))
def test_a_better_draft_is_never_slower(a: float, b: float, length: int, cost: float, verify: float) -> None:
    worse, better = sorted((a, b))
    assert speedup(worse, length, cost, verify) <= speedup(better, length, cost, verify)
    assert 1 <= expected_tokens(better, length) <= length + 1


def test_what_a_log_counts() -> None:
    assert verifications(100, 60) == 40
    assert tokens_per_verification(60, 40) == 100 / 40
    assert tokens_per_verification(0, 0) is None
    assert measured_speedup(expected_tokens(0.8, 3), 0.3 * 20, 20) == pytest.approx(speedup(0.8, 3, 0.1))


# --- what does not fit


def test_spill_crosses_pcie_at_every_token() -> None:
    spilled = 12.55 * 2**30 - 8 * 2**30
    assert spill_ms_per_token(spilled, PCIE_GB_S[4]) == pytest.approx(204, abs=0.5)
    assert spill_ms_per_token(0, PCIE_GB_S[3]) == 0


def test_paging_a_model_larger_than_memory() -> None:
    assert paging_ms_per_token(20e9, 16e9, 1.0) == 4_000
    assert paging_worst_ms_per_token(20e9, 16e9, 1.0) == 20_000
    assert paging_ms_per_token(8e9, 16e9, 1.0) == paging_worst_ms_per_token(8e9, 16e9, 1.0) == 0
