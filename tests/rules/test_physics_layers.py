"""The cache of real architectures, layer by layer, from the metadata of their files."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.physics.kv import cache_bytes, kv_bytes_per_token
from rules.physics.layers import (
    LayerCache,
    cache_growth_bytes_per_token,
    cache_layers,
    cache_size_bytes,
)

GIB, MIB, KIB = 2**30, 2**20, 1024


def facts(layers: int, kv_heads: Any, head: int, **more: Any) -> dict[str, Any]:
    return {
        "block_count": layers,
        "attention.head_count_kv": kv_heads,
        "attention.key_length": head,
        "attention.value_length": head,
        **{key.replace("__", "."): value for key, value in more.items()},
    }


def layers(architecture: str | None, stated: dict[str, Any]) -> list[LayerCache]:
    found = cache_layers(architecture, stated)
    assert found is not None
    return found


def gib(found: list[LayerCache], context: int) -> float:
    size = cache_size_bytes(found, context)
    assert size is not None
    return size / GIB


def test_plain_attention_is_the_same_at_every_layer() -> None:
    llama = layers("llama", facts(32, 8, 128))
    assert cache_growth_bytes_per_token(llama) == 128 * KIB
    assert gib(llama, 32_768) == 4.0
    derived = {"block_count": 32, "embedding_length": 4096, "attention.head_count": 32}
    assert gib(layers("llama", derived), 32_768) == 16.0
    assert gib(layers("llama", facts(32, 8, 128, attention__sliding_window=4096)), 32_768) == 4.0


def test_gemma_3_27b_keeps_a_window_in_five_layers_of_six() -> None:
    gemma = layers("gemma3", facts(62, 16, 128, attention__sliding_window=1024))
    assert sum(layer.window_tokens is None for layer in gemma) == 10
    assert gib(gemma, 32_768) == pytest.approx(3.11, abs=5e-3)
    everything = [LayerCache(layer.k_values, layer.v_values) for layer in gemma]
    assert gib(everything, 32_768) == 15.5


def test_gpt_oss_20b_keeps_a_window_in_every_other_layer() -> None:
    gpt_oss = layers("gpt-oss", facts(24, 8, 64, attention__sliding_window=128))
    assert gib(gpt_oss, 131_072) == pytest.approx(3.01, abs=5e-3)
    assert [layer.window_tokens for layer in gpt_oss[:4]] == [128, None, 128, None]


def test_deepseek_v3_caches_one_latent_vector() -> None:
    """Keys only: 512 latent values and 64 with positions (llama.cpp#12801 and its KV cache)."""
    stated = facts(61, 1, 576, attention__key_length_mla=192, attention__value_length_mla=128)
    assert cache_growth_bytes_per_token(layers("deepseek2", stated)) == 70_272
    old = facts(61, 128, 192) | {"attention.value_length": 128}
    assert cache_growth_bytes_per_token(layers("deepseek2", old)) == 4_880 * KIB


def test_qwen_3_5_27b_keeps_a_constant_state() -> None:
    """A log states 598.50 MiB of recurrent state for four sequences."""
    stated = facts(
        64,
        4,
        256,
        embedding_length=5120,
        ssm__conv_kernel=4,
        ssm__inner_size=6144,
        ssm__state_size=128,
        ssm__group_count=16,
    )
    qwen = layers("qwen35", stated)
    assert sum(layer.state_bytes or 0 for layer in qwen) * 4 / MIB == 598.5
    assert cache_growth_bytes_per_token(qwen) == 16 * 4 * 2 * 256 * 2
    more = dict(stated, block_count=65, nextn_predict_layers=1)
    assert layers("qwen35", more) == qwen


def test_layers_that_only_feed_forward_keep_nothing() -> None:
    kv_heads, feed_forward = [0, 0, 2, 0], [0, 4096, 0, 0]
    ssm = {"ssm__conv_kernel": 4, "ssm__inner_size": 8, "ssm__state_size": 16, "ssm__group_count": 2}
    nemotron = layers("nemotron_h", facts(4, kv_heads, 128, feed_forward_length=feed_forward, **ssm))
    state = 4 * (3 * (8 + 2 * 2 * 16) + 16 * 8)
    assert [layer.state_bytes for layer in nemotron] == [state, 0, 0, state]
    assert [layer.k_values for layer in nemotron] == [0, 0, 256, 0]
    assert [layer.state_bytes for layer in layers("deci", facts(2, [0, 8], 128))] == [0, 0]


def test_layers_that_share_a_cache_count_once() -> None:
    gemma4 = layers(
        "gemma4",
        facts(
            4,
            2,
            512,
            attention__sliding_window=512,
            attention__sliding_window_pattern=[True, False, True, False],
            attention__key_length_swa=256,
            attention__value_length_swa=256,
            attention__shared_kv_layers=2,
        ),
    )
    assert [layer.k_values for layer in gemma4] == [512, 1024, 0, 0]
    assert [layer.window_tokens for layer in gemma4] == [512, None, 512, None]


@pytest.mark.parametrize(
    ("architecture", "stated"),
    [
        ("llama", {}),
        ("llama", {"block_count": 32}),
        ("new-arch", facts(32, 8, 128, attention__sliding_window=4096)),
        ("deepseek32", facts(61, 1, 576)),
    ],
)
def test_an_arrangement_that_is_not_known_is_not_guessed(architecture: str, stated: dict[str, Any]) -> None:
    assert cache_layers(architecture, stated) is None


def test_an_unknown_kv_type_or_state_has_no_size() -> None:
    assert cache_size_bytes([LayerCache(8, 8)], 10, "turbo3") is None
    assert cache_growth_bytes_per_token([LayerCache(8, 8)], "f16", "turbo3") is None
    assert cache_size_bytes([LayerCache(8, 8), LayerCache(state_bytes=None)], 10) is None


@given(st.integers(1, 90), st.integers(1, 64), st.integers(16, 512), st.integers(0, 200_000))
def test_both_ways_to_size_a_plain_cache_agree(n: int, kv_heads: int, head: int, context: int) -> None:
    per_token = kv_bytes_per_token([kv_heads] * n, head, head, "q8_0", "q4_0")
    assert per_token is not None
    size = cache_size_bytes(layers(None, facts(n, kv_heads, head)), context, "q8_0", "q4_0")
    assert size == pytest.approx(cache_bytes(context, per_token))
