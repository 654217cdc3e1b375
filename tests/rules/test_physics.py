"""Arithmetic of requests, KV caches, quantizations and reading, on figures worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.physics.kv import bytes_per_value, cache_bytes, kv_bytes_per_token, mla_bytes_per_token
from rules.physics.quant import (
    TYPE_BITS,
    bits_per_weight,
    file_bits_per_weight,
    file_bytes,
    quant_name,
)
from rules.physics.reading import READING_WORDS_PER_MINUTE, chars_per_second, outruns_reading
from rules.physics.request import RequestTime, request_time

GIB = 2**30
KIB = 1024


def test_short_prompt_is_nearly_all_decode() -> None:
    request = request_time(1000, 2000, 300, 40)
    assert request == RequestTime(queue_ms=0, load_ms=0, prefill_ms=500, decode_ms=7500)
    assert request.total_ms == 8000
    assert request.share("decode") == 0.9375
    assert 2000 / 40 == 50.0


def test_long_prompt_puts_two_fifths_before_the_first_token() -> None:
    request = request_time(12000, 1500, 500, 40)
    assert (request.prefill_ms, request.decode_ms, request.total_ms) == (8000, 12500, 20500)
    assert request.ttft_ms / request.total_ms == pytest.approx(0.3902, abs=5e-5)


def test_queue_and_load_come_before_the_first_token() -> None:
    request = request_time(0, 1, 0, 1, queue_ms=30, load_ms=10)
    assert request.ttft_ms == request.total_ms == 40
    assert request.share("queue") == 0.75
    assert RequestTime(0, 0, 0, 0).share("load") is None


@pytest.mark.parametrize("bad", [(1, 0, 1, 1), (1, 1, 1, -2), (-1, 1, 1, 1), (1, 1, -1, 1)])
def test_impossible_requests_are_refused(bad: tuple[float, float, float, float]) -> None:
    with pytest.raises(ValueError, match="must"):
        request_time(*bad)


def test_llama3_8b_takes_128_kib_of_cache_per_token() -> None:
    per_token = kv_bytes_per_token([8] * 32, 128, 128)
    assert per_token == 131072 == 128 * KIB
    assert cache_bytes(20_000, per_token) / 1e9 == pytest.approx(2.621, abs=5e-4)
    assert cache_bytes(20_480, per_token) / 1e9 == pytest.approx(2.684, abs=5e-4)
    assert cache_bytes(20_480, per_token) / GIB == 2.5
    assert cache_bytes(131_072, per_token) / 1e9 == pytest.approx(17.18, abs=5e-3)
    assert cache_bytes(131_072, per_token) / 2**20 == 16384.0
    assert cache_bytes(128_000, per_token) / 1e9 == pytest.approx(16.78, abs=5e-3)


@pytest.mark.parametrize(
    ("layers", "kv_heads", "kib", "f16", "q8_0", "q4_0"),
    [
        pytest.param(32, 8, 128, 4.00, 2.12, 1.12, id="Llama 3 8B, Mistral 7B"),
        pytest.param(80, 8, 320, 10.0, 5.31, 2.81, id="Llama 3 70B"),
        pytest.param(32, 32, 512, 16.0, 8.5, 4.5, id="Llama 2 7B"),
        pytest.param(48, 4, 96, 3.0, 1.59, 0.84, id="Qwen3 30B-A3B"),
        pytest.param(48, 8, 192, 6.0, 3.19, 1.69, id="Qwen2.5 14B"),
        pytest.param(64, 8, 256, 8.0, 4.25, 2.25, id="Qwen3 32B"),
        pytest.param(40, 10, 200, 6.25, 3.32, 1.76, id="Phi-4: 800 MiB at 4096 cells, ollama#13552"),
    ],
)
def test_cache_of_known_models_at_32k(
    layers: int, kv_heads: int, kib: float, f16: float, q8_0: float, q4_0: float
) -> None:
    assert kv_bytes_per_token([kv_heads] * layers, 128, 128) == kib * KIB
    for kv_type, gib in (("f16", f16), ("q8_0", q8_0), ("q4_0", q4_0)):
        per_token = kv_bytes_per_token([kv_heads] * layers, 128, 128, kv_type, kv_type)
        assert per_token is not None
        assert cache_bytes(32_768, per_token) / GIB == pytest.approx(gib, abs=0.0051)


def test_latent_attention_is_seventy_times_smaller() -> None:
    latent = mla_bytes_per_token(61, 512, 64)
    assert latent == 70_272
    assert latent / KIB == pytest.approx(68.6, abs=0.05)
    expanded = kv_bytes_per_token([128] * 61, 192, 128)
    assert expanded == 4_880 * KIB


def test_sliding_windows_cap_the_cache() -> None:
    gemma3_layer = kv_bytes_per_token([16], 128, 128)
    assert gemma3_layer is not None
    assert cache_bytes(32_768, 62 * gemma3_layer) / GIB == 15.5
    windowed = cache_bytes(
        32_768, 10 * gemma3_layer, local_bytes_per_token=52 * gemma3_layer, window_tokens=1024
    )
    assert windowed / GIB == pytest.approx(3.11, abs=5e-3)

    gpt_oss_layer = kv_bytes_per_token([8], 64, 64)
    assert gpt_oss_layer is not None
    assert 24 * gpt_oss_layer == 48 * KIB
    assert cache_bytes(131_072, 24 * gpt_oss_layer) / GIB == 6.0
    half = 12 * gpt_oss_layer
    windowed = cache_bytes(131_072, half, local_bytes_per_token=half, window_tokens=128)
    assert windowed / GIB == pytest.approx(3.01, abs=5e-3)
    assert cache_bytes(100, half, local_bytes_per_token=half, window_tokens=128) == 100 * 48 * KIB


def test_recurrent_state_does_not_grow_with_context() -> None:
    state = 598.5 / 4 * 2**20
    assert state / 2**20 == pytest.approx(149.6, abs=0.05)
    assert cache_bytes(0, 0.0, state_bytes=state) == cache_bytes(262_144, 0.0, state_bytes=state) == state


@pytest.mark.parametrize(
    ("kv_type", "size"),
    [
        ("f32", 4.0),
        ("F16", 2.0),
        ("bfloat16", 2.0),
        ("q8_0", 1.0625),
        ("q5_1", 0.75),
        ("q5_0", 0.6875),
        ("q4_1", 0.625),
        ("q4_0", 0.5625),
        ("iq4_nl", 0.5625),
        ("fp8_e4m3", 1.0),
    ],
)
def test_bytes_per_cached_value(kv_type: str, size: float) -> None:
    assert bytes_per_value(kv_type) == size


def test_an_unknown_kv_type_has_no_size() -> None:
    assert bytes_per_value("turbo3") is None
    assert kv_bytes_per_token([8] * 32, 128, 128, "f16", "turbo3") is None
    assert mla_bytes_per_token(61, 512, 64, "turbo3") is None


@given(
    st.integers(0, 300_000),
    st.floats(1, 1e6),
    st.floats(0, 1e6),
    st.integers(0, 8192),
    st.integers(1, 4096),
)
def test_a_window_never_costs_more_than_full_attention(
    context: int, global_bytes: float, local_bytes: float, window: int, ubatch: int
) -> None:
    windowed = cache_bytes(
        context,
        global_bytes,
        local_bytes_per_token=local_bytes,
        window_tokens=window,
        ubatch_tokens=ubatch,
    )
    assert global_bytes * context <= windowed <= (global_bytes + local_bytes) * context * (1 + 1e-12)


def test_type_sizes_agree_with_the_gguf_package() -> None:
    from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

    for name, bits in TYPE_BITS.items():
        block, size = GGML_QUANT_SIZES[GGMLQuantizationType[name]]
        assert bits == size * 8 / block, name


@pytest.mark.parametrize(
    ("printed", "name"),
    [
        ("Q4_K - Medium", "Q4_K_M"),
        ("Q4_K_M", "Q4_K_M"),
        ("q4_k_m", "Q4_K_M"),
        ("mostly Q4_K - Small", "Q4_K_S"),
        ("Q3_K - Large", "Q3_K_L"),
        ("Q2_K - Medium", "Q2_K"),
        ("Q2_K - Small", "Q2_K_S"),
        ("F16", "F16"),
        ("BF16", "BF16"),
        ("all F32", "F32"),
        ("Q8_0", "Q8_0"),
        ("Q4_1", "Q4_1"),
        ("Q4_0 (guessed)", "Q4_0"),
        ("IQ4_XS - 4.25 bpw", "IQ4_XS"),
        ("IQ3_S mix - 3.66 bpw", "IQ3_M"),
        ("TQ1_0 - 1.69 bpw ternary", "TQ1_0"),
        ("MXFP4 MoE", "MXFP4"),
        ("unknown, may not work", None),
        ("", None),
    ],
)
def test_quantization_names_as_logs_print_them(printed: str, name: str | None) -> None:
    assert quant_name(printed) == name


def test_files_are_larger_than_their_main_type() -> None:
    assert bits_per_weight(4_917_737_553, 8.03e9) == pytest.approx(4.8944, rel=2e-3)
    assert file_bits_per_weight("Q4_K - Medium") == 4.8944
    assert file_bits_per_weight("Q4_K_M", 70.6e9) == pytest.approx(4.82, abs=5e-3)
    assert file_bits_per_weight("Q4_K_M", 70.6e9) != file_bits_per_weight("Q4_K_M", 8e9)
    assert file_bits_per_weight("Q5_1") is None
    assert file_bits_per_weight("nonsense") is None


@pytest.mark.parametrize(
    ("quant", "gib"),
    [
        ("Q4_K_M", 4.58),
        ("Q5_K_M", 5.33),
        ("Q6_K", 6.14),
        ("Q8_0", 7.95),
        ("F16", 14.96),
        ("Q3_K_S", 3.41),
        ("Q2_K", 2.95),
        ("IQ4_XS", 4.17),
    ],
)
def test_what_an_8b_model_weighs(quant: str, gib: float) -> None:
    size = file_bytes(quant, 8.03e9)
    assert size is not None
    assert size / GIB == pytest.approx(gib, abs=0.01)


@given(st.floats(1e8, 1e12), st.sampled_from(["Q2_K", "Q4_K_M", "Q5_K_M", "Q6_K", "Q8_0", "F16"]))
def test_file_size_and_bits_per_weight_are_inverse(parameters: float, quant: str) -> None:
    size = file_bytes(quant, parameters)
    assert size is not None
    assert bits_per_weight(size, parameters) == pytest.approx(file_bits_per_weight(quant, parameters))


@pytest.mark.parametrize(
    ("language", "tokenizer", "chars"),
    [
        ("English", "o200k", 189),
        ("English", "llama2", 168),
        ("Korean", "llama2", 24),
        ("Korean", "cl100k", 39),
        ("Korean", "llama3", 66),
        ("Korean", "o200k", 69),
    ],
)
def test_forty_tokens_a_second_in_characters(language: str, tokenizer: str, chars: int) -> None:
    assert chars_per_second(40, language, tokenizer) == pytest.approx(chars, abs=0.5)


def test_a_reader_keeps_up_below_ten_tokens_a_second() -> None:
    assert pytest.approx(4, abs=0.05) == READING_WORDS_PER_MINUTE / 60
    assert outruns_reading(10)
    assert not outruns_reading(9.9)
    assert chars_per_second(40, "Klingon") is None
    assert chars_per_second(40, "English", "gpt2") is None
