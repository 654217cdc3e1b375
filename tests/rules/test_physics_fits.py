"""Prefill and decode models against published measurements that nobody of this project made."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rules.physics.decode import (
    bandwidth_ceiling_tok_s,
    decode_constants,
    decode_ms_per_token,
    health,
    health_band,
    kv_slope_ratio,
    moe_bytes_per_token,
    partial_offload_ms_per_token,
    quantisation_saving_ms_per_token,
)
from rules.physics.prefill import PrefillModel, fit_prefill, prefill_flops

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

Row = dict[str, str]

ROWS: list[Row] = list(
    csv.DictReader(
        (Path(__file__).parent / "data" / "decode_rows.tsv").read_text("utf-8").splitlines(),
        delimiter="\t",
    )
)
LLAMA3_8B_Q4_K_M, LLAMA3_8B_F16, LLAMA3_70B_Q4_K_M = 4_917_737_553, 16_063_177_687, 42_509_438_812
RTX_4090_GB_S = 1008


# --- prefill ---------------------------------------------------------------------------------------------

LENGTHS = np.array([512.0, 1024.0, 4096.0, 8192.0])

PREFILL_TOK_S: dict[str, tuple[tuple[float, ...], float, float, float]] = {
    "RTX 4090 Q4_K_M": ((7138.99, 6898.71, 5265.68, 4039.68), 131.8, 0.01414, 9_300),
    "RTX 4090 F16": ((9382.00, 9056.26, 6531.36, 4744.18), 97.8, 0.01373, 7_100),
    "RTX 3090 Q4_K_M": ((4030.40, 3865.39, 3169.91, 2527.40), 238.3, 0.01914, 12_500),
    "A100 PCIe Q4_K_M": ((5981.04, 5800.48, 4959.84, 4083.37), 161.7, 0.01008, 16_000),
    "H100 PCIe Q4_K_M": ((8125.45, 7760.16, 6423.31, 5185.03), 119.0, 0.00901, 13_200),
    "M2 Ultra Q4_K_M": ((994.04, 1023.89, 979.47, 913.55), 978, 0.01338, 73_000),
}


@pytest.mark.parametrize(
    ("tok_s", "a_us", "k_us", "equal_tokens"), PREFILL_TOK_S.values(), ids=PREFILL_TOK_S.keys()
)
def test_prefill_grows_with_the_square_of_the_prompt(
    tok_s: tuple[float, ...], a_us: float, k_us: float, equal_tokens: float
) -> None:
    """Llama 3 8B, pp512-pp8192, XiongjieDai/GPU-Benchmarks-on-LLM-Inference: a + k*N us/token, k = b/2."""
    us_per_token = 1e6 / np.array(tok_s)
    k, a = np.polyfit(LENGTHS, us_per_token, 1)
    assert a == pytest.approx(a_us, rel=4e-4)
    assert k == pytest.approx(k_us, abs=6e-6)
    assert a / k == pytest.approx(equal_tokens, rel=6e-3)

    fit = fit_prefill(LENGTHS, 0 * LENGTHS, LENGTHS * us_per_token / 1000, min_samples=4)
    assert fit is not None
    assert fit.quadratic
    assert fit.model.c_ms == 0
    assert fit.model.a_ms * 1000 == pytest.approx(a_us, rel=5e-3)
    assert fit.model.b_ms / 2 * 1000 == pytest.approx(k_us, rel=1e-2)
    assert fit.max_error <= 0.029


def test_attention_takes_34_to_53_percent_of_an_8k_prompt_without_flash_attention() -> None:
    shares = [k * 8192 / (a + k * 8192) for _, a, k, _ in PREFILL_TOK_S.values() if a < 900]
    assert len(shares) == 5
    assert min(shares) == pytest.approx(0.34, abs=6e-3)
    assert max(shares) == pytest.approx(0.53, abs=6e-3)


def test_attention_is_half_of_the_operations_where_the_terms_are_equal() -> None:
    weights = prefill_flops(8.03e9, 1, 0, layers=32, attention_width=4096) - 4 * 32 * 4096 / 2
    assert weights == 2 * 8.03e9
    tokens = 2 * 2 * 8.03e9 / (4 * 32 * 4096)
    assert prefill_flops(8.03e9, tokens, 0, 32, 4096) == pytest.approx(2 * 2 * 8.03e9 * tokens)
    assert prefill_flops(8.03e9, 100, 1000, 32, 4096) == pytest.approx(
        2 * 8.03e9 * 100 + 4 * 32 * 4096 * (100 * 1000 + 100**2 / 2)
    )


models = st.builds(PrefillModel, st.floats(1e-3, 10), st.floats(0, 1e-3), st.floats(0, 500))
tokens = st.floats(0, 2e5)


@given(models, tokens, tokens, tokens)
def test_prediction_is_never_negative_and_never_falls(
    model: PrefillModel, shorter: float, more: float, cached: float
) -> None:
    assert 0 <= model.predict_ms(shorter, cached) <= model.predict_ms(shorter + more, cached)
    assert model.predict_ms(shorter) <= model.predict_ms(shorter, cached)


samples = st.lists(
    st.tuples(st.floats(256, 30_000), st.sampled_from([0.0, 700.0, 5000.0])), min_size=8, max_size=40
)


def spread(drawn: list[tuple[float, float]]) -> NDArray[np.float64]:
    """Samples that always span the lengths at which a fit may claim its quadratic term."""
    return np.array([*drawn, (300.0, 0.0), (4000.0, 0.0), (20_000.0, 0.0)])


@settings(max_examples=60, deadline=None)
@given(models, samples)
def test_fit_recovers_a_known_model(model: PrefillModel, drawn: list[tuple[float, float]]) -> None:
    new, cached = spread(drawn).T
    measured = model.predict_ms(new, cached)
    fit = fit_prefill(new, cached, measured)
    assert fit is not None
    assert fit.quadratic
    assert fit.max_error < 1e-5
    assert fit.n == len(new)


@settings(max_examples=60, deadline=None)
@given(samples, st.lists(st.floats(0.5, 2), min_size=50, max_size=50))
def test_coefficients_are_never_negative(drawn: list[tuple[float, float]], noise: list[float]) -> None:
    new, cached = spread(drawn).T
    measured = PrefillModel(0.2, 2e-5, 20).predict_ms(new, cached) * np.array(noise[: len(new)])
    fit = fit_prefill(new, cached, measured)
    assert fit is not None
    assert min(fit.model.a_ms, fit.model.b_ms, fit.model.c_ms) >= 0


@pytest.mark.parametrize("factor", [1 / 10, 1 / 3, 3, 10])
def test_a_few_wrong_samples_do_not_move_the_fit(factor: float) -> None:
    random = np.random.default_rng(7)
    truth = PrefillModel(0.25, 4e-5, 30)
    new = np.exp(random.uniform(np.log(256), np.log(12_000), 30))
    cached = random.choice([0.0, 500.0, 4000.0], 30)
    measured = truth.predict_ms(new, cached) * (1 + 0.02 * random.standard_normal(30))
    measured[[3, 11, 20, 27]] *= factor
    fit = fit_prefill(new, cached, measured)
    assert fit is not None
    assert fit.outliers >= 4
    assert fit.median_error < 0.03
    asked = np.array([500.0, 2000.0, 10_000.0])
    assert fit.model.predict_ms(asked) == pytest.approx(truth.predict_ms(asked), rel=0.05)


@pytest.mark.parametrize(
    ("new", "cached"),
    [
        pytest.param([512.0, 1024, 2048, 4096, 8192], [0.0] * 5, id="five samples"),
        pytest.param([1000.0, 1100, 1200, 1300, 1400, 1500, 1600], [0.0] * 7, id="one length"),
        pytest.param([300.0, 400, 800, 1000, 1100, 1200], [50_000.0] * 6, id="one depth"),
    ],
)
def test_attention_term_is_not_claimed_without_evidence(new: list[float], cached: list[float]) -> None:
    fit = fit_prefill(new, cached, [0.5 * tokens for tokens in new])
    assert fit is not None
    assert not fit.quadratic
    assert fit.model == PrefillModel(0.5)
    assert fit.span == max(new) / min(new)


def test_unusable_samples_are_dropped() -> None:
    nan = float("nan")
    fit = fit_prefill([0, 100, 100, 100, 200], [0, 0, nan, 0, 0], [5, 0, 10, nan, 40])
    assert fit is not None
    assert (fit.n, fit.model) == (1, PrefillModel(0.2))
    assert fit_prefill([], [], []) is None
    assert fit_prefill([0], [0], [1]) is None


# --- decode ----------------------------------------------------------------------------------------------


def rtx_ms(weight_bytes: float, layers: int = 32) -> float:
    predicted = decode_ms_per_token(weight_bytes, 0, RTX_4090_GB_S, layers, decode_constants("geforce"))
    assert predicted is not None
    return predicted


def test_rtx_4090_worked_example() -> None:
    assert pytest.approx(5.14, abs=5e-3) == LLAMA3_8B_Q4_K_M / (0.95 * RTX_4090_GB_S * 1e6)
    assert rtx_ms(LLAMA3_8B_Q4_K_M) == pytest.approx(7.70, abs=5e-3)
    assert 1000 / rtx_ms(LLAMA3_8B_Q4_K_M) == pytest.approx(129.9, abs=0.05)
    assert 1000 / rtx_ms(LLAMA3_8B_F16) == pytest.approx(51.7, abs=0.2)
    assert 1000 / rtx_ms(LLAMA3_70B_Q4_K_M, 80) == pytest.approx(19.7, abs=0.05)
    assert bandwidth_ceiling_tok_s(LLAMA3_8B_Q4_K_M, RTX_4090_GB_S) == pytest.approx(205, abs=0.5)
    assert 130.58 / bandwidth_ceiling_tok_s(LLAMA3_8B_Q4_K_M, RTX_4090_GB_S) == pytest.approx(0.64, abs=5e-3)
    assert health_band(health(rtx_ms(LLAMA3_8B_Q4_K_M), 1000 / 130.58)) == "healthy"


def test_eight_gigabytes_at_400_gb_s_is_at_most_50_tok_s() -> None:
    assert bandwidth_ceiling_tok_s(8e9, 400) == 50.0


@pytest.mark.parametrize("device_class", ["cpu", "amd", "other", None, "abacus"])
def test_no_prediction_without_a_fit(device_class: str | None) -> None:
    constants = decode_constants(device_class)
    assert constants is None
    assert decode_ms_per_token(8e9, 0, 400, 32, constants) is None
    assert quantisation_saving_ms_per_token(8e9, 4e9, 400, constants) is None


def measured_ms(row: Row) -> float:
    return 1000 / float(row["decode_tok_s"])


def bandwidth_ms(row: Row) -> float:
    return float(row["weight_bytes"]) / (float(row["bandwidth_gb_s"]) * 1e6)


def errors(rows: list[Row], predict_ms: Callable[[Row], float]) -> NDArray[np.float64]:
    """|predicted / measured - 1| in tok/s."""
    return np.array([abs(measured_ms(row) / predict_ms(row) - 1) for row in rows])


def by_class(row: Row) -> float:
    predicted = decode_ms_per_token(
        float(row["weight_bytes"]),
        0,
        float(row["bandwidth_gb_s"]),
        int(row["layers"]),
        decode_constants(row["device_class"]),
    )
    assert predicted is not None
    return predicted


def percent(error: NDArray[np.float64]) -> tuple[float, float, float]:
    return (
        round(100 * float(error.mean()), 1),
        round(100 * float(np.median(error)), 1),
        round(100 * float(error.max()), 1),
    )


def rows_of(*classes: str, output_tokens: str = "512", **same: str) -> list[Row]:
    return [
        row
        for row in ROWS
        if row["device_class"] in classes
        and row["output_tokens"] == output_tokens
        and all(row[key] == value for key, value in same.items())
    ]


def test_rtx_constants_on_the_published_rows() -> None:
    """Every GeForce and workstation card at 8B and 70B, on the fewest cards that hold the model."""
    rows = rows_of("geforce", "workstation")
    assert len(rows) == 25
    error = errors(rows, by_class)
    assert percent(error) == (5.7, 4.6, 21.9)
    in_ms = np.array([abs(by_class(row) / measured_ms(row) - 1) for row in rows])
    assert percent(in_ms)[0] == 5.4
    assert error.mean() < 0.55 * errors(rows, lambda row: bandwidth_ms(row) / 0.78).mean()
    assert {health_band(health(by_class(row), measured_ms(row))) for row in rows} == {"healthy"}


def test_rtx_constants_on_single_cards() -> None:
    assert percent(errors(rows_of("geforce", "workstation", gpus="1"), by_class)) == (6.0, 5.3, 21.9)


def test_datacenter_constants_on_the_published_rows() -> None:
    rows = rows_of("datacenter")
    assert len(rows) == 8
    assert percent(errors(rows, by_class)) == (4.7, 4.4, 12.4)
    assert percent(errors(rows, lambda row: bandwidth_ms(row) / 0.45))[0] == 18.1


def test_apple_constants_on_the_rows_at_hand() -> None:
    rows = rows_of("apple", output_tokens="128") + rows_of("apple")
    assert len(rows) == 10
    assert percent(errors(rows, by_class)) == (4.0, 2.2, 13.2)


def test_rtx_constants_on_a_generation_they_were_not_fitted_to() -> None:
    (rtx_5090,) = rows_of("geforce", output_tokens="128", device="NVIDIA GeForce RTX 5090")
    assert percent(errors([rtx_5090], by_class))[0] < 8


def fit_two(rows: list[Row]) -> tuple[float, float]:
    """Eta and tau in ms by least squares on the relative error."""
    terms = np.array(
        [[bandwidth_ms(row) / measured_ms(row), int(row["layers"]) / measured_ms(row)] for row in rows]
    )
    inverse_eta, tau_ms = np.linalg.lstsq(terms, np.ones(len(rows)), rcond=None)[0]
    return 1 / inverse_eta, tau_ms


def fit_one(rows: list[Row]) -> float:
    """The share of bandwidth with the least mean error."""
    shares = np.arange(0.3, 1.1, 0.01)
    return float(min(shares, key=lambda share: errors(rows, lambda row: bandwidth_ms(row) / share).mean()))


def test_leave_one_device_out() -> None:
    """Constants fitted without a device predict it, about twice as well as bandwidth alone does."""
    rows = rows_of("geforce", "workstation")
    two: list[float] = []
    one: list[float] = []
    for device in {row["device"] for row in rows}:
        others = [row for row in rows if row["device"] != device]
        held_out = [row for row in rows if row["device"] == device]
        eta, tau_ms = fit_two(others)
        share = fit_one(others)
        two += errors(held_out, lambda row: bandwidth_ms(row) / eta + tau_ms * int(row["layers"])).tolist()  # noqa: B023
        one += errors(held_out, lambda row: bandwidth_ms(row) / share).tolist()  # noqa: B023
    assert percent(np.array(two)) == (6.0, 6.7, 21.9)
    assert np.mean(one) > 1.6 * np.mean(two)


@pytest.mark.parametrize(
    ("same", "rho"),
    [
        ({"device": "NVIDIA GeForce RTX 4090", "quant": "Q4_K_M"}, 2.7),
        ({"device": "NVIDIA GeForce RTX 3090", "quant": "F16"}, 4.2),
        ({"device": "NVIDIA GeForce RTX 3090", "quant": "Q4_K_M"}, 5.1),
        ({"device": "NVIDIA A100 80GB PCIe", "quant": "F16"}, 4.9),
        ({"device": "NVIDIA A100 80GB PCIe", "quant": "Q4_K_M"}, 5.4),
        ({"device": "NVIDIA H100 PCIe", "quant": "Q4_K_M"}, 4.1),
        ({"device": "Apple M2 Ultra (76-core GPU)", "quant": "F16"}, 8.6),
        ({"device": "Apple M2 Ultra (76-core GPU)", "quant": "Q4_K_M"}, 9.2),
        ({"device_class": "strix", "flash_attention": "0"}, 8.6),
        ({"device_class": "strix", "flash_attention": "1"}, 1.38),
    ],
)
def test_decode_slope_tells_a_slow_attention_kernel(same: dict[str, Any], rho: float) -> None:
    rows = [
        row
        for row in ROWS
        if row["gpus"] == "1"
        and row["model"] in ("Llama 3 8B", "Llama 2 7B")
        and all(row[key] == value for key, value in same.items())
    ]
    assert len(rows) in (4, 7)
    mean_context = [int(row["output_tokens"]) / 2 for row in rows]
    beta = np.polyfit(mean_context, [measured_ms(row) for row in rows], 1)[0]
    ratio = kv_slope_ratio(beta, float(rows[0]["kv_bytes_per_token"]), float(rows[0]["bandwidth_gb_s"]))
    assert ratio == pytest.approx(rho, abs=0.051)


def test_partial_offload_is_four_times_slower() -> None:
    rtx_gb_s = 0.95 * RTX_4090_GB_S
    assert LLAMA3_8B_Q4_K_M * 22 / 33 / (rtx_gb_s * 1e6) == pytest.approx(3.4, abs=0.05)
    assert pytest.approx(27.3, abs=0.05) == LLAMA3_8B_Q4_K_M * 11 / 33 / (60 * 1e6)
    partial = partial_offload_ms_per_token(LLAMA3_8B_Q4_K_M, 22, 33, rtx_gb_s, 60)
    assert partial == pytest.approx(30.7, abs=0.05)
    assert partial / rtx_ms(LLAMA3_8B_Q4_K_M) == pytest.approx(30.7 / 7.7, abs=0.02)
    full = partial_offload_ms_per_token(LLAMA3_8B_Q4_K_M, 33, 33, rtx_gb_s, 60, overhead_ms=2.56)
    assert full == pytest.approx(rtx_ms(LLAMA3_8B_Q4_K_M))


QUANTIZE_README = {  # quant: (bytes, tok/s): Llama 3.1 8B, one machine, llama.cpp tools/quantize/README.md
    "F16": (16_063_177_687, 29.17),
    "Q8_0": (8_536_247_500, 50.93),
    "Q6_K": (6_592_774_799, 58.67),
    "Q5_K_M": (5_723_043_921, 67.23),
    "Q4_K_M": (4_917_737_553, 71.93),
    "Q2_K_S": (2_985_002_270, 90.01),
    "IQ2_XXS": (2_394_444_267, 79.86),
}


@pytest.mark.parametrize(
    ("old", "new", "fewer_bytes", "faster"),
    [
        ("F16", "Q4_K_M", 3.27, 2.47),
        ("Q8_0", "Q4_K_M", 1.74, 1.41),
        ("Q4_K_M", "Q2_K_S", 1.65, 1.25),
    ],
)
def test_quantization_saves_less_than_its_bytes(
    old: str, new: str, fewer_bytes: float, faster: float
) -> None:
    (old_bytes, old_tok_s), (new_bytes, new_tok_s) = QUANTIZE_README[old], QUANTIZE_README[new]
    assert old_bytes / new_bytes == pytest.approx(fewer_bytes, abs=6e-3)
    assert new_tok_s / old_tok_s == pytest.approx(faster, abs=6e-3)


def test_one_machine_is_a_straight_line_in_bytes() -> None:
    rows = [QUANTIZE_README[quant] for quant in ("F16", "Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M")]
    size_gb = np.array([size / 1e9 for size, _ in rows])
    ms = np.array([1000 / tok_s for _, tok_s in rows])
    per_gb, fixed = np.polyfit(size_gb, ms, 1)
    assert (fixed, per_gb) == (pytest.approx(4.54, abs=5e-3), pytest.approx(1.841, abs=5e-4))
    assert max(abs((fixed + per_gb * size_gb) / ms - 1)) < 0.033


def test_an_i_quant_can_be_smaller_and_slower() -> None:
    (small, slow), (large, fast) = QUANTIZE_README["IQ2_XXS"], QUANTIZE_README["Q2_K_S"]
    assert small < large
    assert slow < fast


def test_quantization_saving_on_an_rtx_4090() -> None:
    saving = quantisation_saving_ms_per_token(
        LLAMA3_8B_F16, LLAMA3_8B_Q4_K_M, RTX_4090_GB_S, decode_constants("geforce")
    )
    assert saving == pytest.approx(rtx_ms(LLAMA3_8B_F16) - rtx_ms(LLAMA3_8B_Q4_K_M))
    assert saving == pytest.approx(1000 / 54.84 - 1000 / 130.58, rel=0.11)


@pytest.mark.parametrize(
    ("value", "band", "wide_band"),
    [
        (1.7, "too_fast", "too_fast"),
        (1.31, "too_fast", "healthy"),
        (1.3, "healthy", "healthy"),
        (0.75, "healthy", "healthy"),
        (0.74, "watch", "healthy"),
        (0.6, "watch", "healthy"),
        (0.49, "suspect", "watch"),
        (0.35, "suspect", "suspect"),
        (0.34, "wrong", "suspect"),
        (0.2, "wrong", "wrong"),
    ],
)
def test_health_bands(value: float, band: str, wide_band: str) -> None:
    assert health_band(value) == band
    assert health_band(value, wide=True) == wide_band


def test_health_is_measured_speed_over_predicted_speed() -> None:
    assert health(predicted_ms=10, measured_ms=20) == 0.5


def test_active_bytes_of_a_mixture_of_experts() -> None:
    assert moe_bytes_per_token(18.6e9, 3.3e9, 30.5e9) == pytest.approx(18.6e9 * 3.3 / 30.5 * 1.15)
    assert moe_bytes_per_token(8e9, 8e9, 8e9) == 8e9


@given(st.floats(1e8, 1e12), st.floats(0, 1e11), st.floats(10, 1e4), st.integers(1, 200))
def test_prediction_never_beats_the_ceiling(weights: float, kv: float, bandwidth: float, layers: int) -> None:
    ceiling_ms = 1000 / bandwidth_ceiling_tok_s(weights + kv, bandwidth)
    for device_class in ("geforce", "workstation", "datacenter", "apple"):
        predicted = decode_ms_per_token(weights, kv, bandwidth, layers, decode_constants(device_class))
        assert predicted is not None
        assert predicted > ceiling_ms


def test_impossible_decode_inputs_are_refused() -> None:
    with pytest.raises(ValueError, match="positive"):
        bandwidth_ceiling_tok_s(0, 1008)
    with pytest.raises(ValueError, match="positive"):
        decode_ms_per_token(1e9, 0, 0, 32, decode_constants("apple"))
    with pytest.raises(ValueError, match="between 0 and layers"):
        partial_offload_ms_per_token(1e9, 34, 33, 1000, 60)
