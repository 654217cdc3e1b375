"""`phasewise estimate` as a user runs it, and on model files written here."""

from __future__ import annotations

import json
from contextlib import redirect_stdout
from io import StringIO
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFWriter
from gguf.quants import quantize

from advisor.cli import commands
from advisor.estimate import SPARE_BYTES, estimate, what_if
from advisor.estimate_inputs import Ask, Hardware, Model
from advisor.gguf import read_gguf, read_model
from tests.advisor.helpers import phasewise, refused

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

LLAMA3_8B = ("--weights-bytes", "4917737553", "--layers", "32")
Q4, MIB, GIB = 4_917_737_553, 2**20, 2**30
F16, Q8_0 = GGMLQuantizationType.F16, GGMLQuantizationType.Q8_0


def answered(*arguments: str | Path) -> dict[str, Any]:
    printed = StringIO()
    words = ["estimate", *(str(argument) for argument in arguments), "--format", "json"]
    with redirect_stdout(printed):
        commands().main(words, prog_name="phasewise", standalone_mode=False)
    data: dict[str, Any] = json.loads(printed.getvalue())
    return data


# --- worked examples


def test_a_long_prompt_at_measured_rates() -> None:
    data = answered(
        *("--prompt", "12000", "--output", "500", "--prefill-point", "12000:1500", "--decode-tok-s", "40")
    )
    assert (data["prefill_ms"], data["ttft_ms"], data["total_ms"]) == (8000, 8000, 20_500)
    assert data["phase_share"]["prefill"] == pytest.approx(0.39, abs=5e-4)
    assert data["decode_ms_per_token"] == 25
    assert data["range"]["decode_tok_s"] == [40, 40]
    assert data["bandwidth_ceiling_tok_s"] is None
    assert data["weights_bytes"] is None


def test_eight_gigabytes_at_400_gb_s() -> None:
    data = answered("--weights-bytes", "8e9", "--layers", "32", "--bandwidth", "400")
    assert data["bandwidth_ceiling_tok_s"] == 50
    assert data["range"]["decode_tok_s"] == [25, 50]
    assert data["decode_tok_s"] == 37.5
    assert "rough" in data["basis"]["decode"]
    assert data["weights_bytes"] == 8_000_000_000


def test_llama_3_8b_on_an_rtx_4090() -> None:
    data = answered(*LLAMA3_8B, "--device", "NVIDIA GeForce RTX 4090")
    assert data["decode_tok_s"] == pytest.approx(129.9, abs=0.05)
    assert data["decode_ms_per_token"] == pytest.approx(7.70, abs=5e-3)
    assert data["bandwidth_ceiling_tok_s"] == pytest.approx(205, abs=0.5)
    low, high = data["range"]["decode_tok_s"]
    assert low < 130.58 < high


# --- what can and what can't be told


def test_unknown_is_null() -> None:
    data = answered(*LLAMA3_8B, "--device", "RTX 4090")
    for key in ("prefill_tok_s", "prefill_ms", "ttft_ms", "total_ms", "phase_share", "kv_bytes"):
        assert data[key] is None, key
    assert data["range"]["prefill_ms"] is None
    assert answered(*LLAMA3_8B)["decode_tok_s"] is None


def test_the_keys_of_the_contract() -> None:
    assert list(answered(*LLAMA3_8B)) == [
        "schema",
        "decode_tok_s",
        "decode_ms_per_token",
        "bandwidth_ceiling_tok_s",
        "prefill_tok_s",
        "prefill_ms",
        "ttft_ms",
        "total_ms",
        "phase_share",
        "kv_bytes",
        "weights_bytes",
        "fits",
        "range",
        "basis",
    ]


def test_the_cache_costs_time_and_memory() -> None:
    context = ("--kv-bytes-per-token", "131072", "--device", "RTX 4090", "--output", "1000")
    short = answered(*LLAMA3_8B, *context, "--prompt", "1000", "--cached", "1000")
    long = answered(*LLAMA3_8B, *context, "--prompt", "31000", "--cached", "31000")
    assert short["kv_bytes"] == 2000 * 131_072
    assert long["kv_bytes"] == 32_000 * 131_072
    extra_ms = 30_000 * 131_072 / (0.95 * 1008e6)
    assert long["decode_ms_per_token"] - short["decode_ms_per_token"] == pytest.approx(extra_ms)
    assert long["prefill_ms"] == 0
    deep = answered(*LLAMA3_8B, *context, "--context-depth", "31000")
    assert deep["decode_tok_s"] == long["decode_tok_s"]
    slow = answered(*LLAMA3_8B, *context, "--context-depth", "31000", "--no-flash-attention")
    assert slow["decode_tok_s"] < 0.65 * deep["decode_tok_s"]


@pytest.mark.parametrize(
    ("vram", "kv", "fits"),
    [("24GiB", "131072", True), ("6GiB", "131072", False), ("6GiB", None, None), ("4GiB", None, False)],
)
def test_whether_it_fits(vram: str, kv: str | None, fits: bool | None) -> None:
    cache = ("--kv-bytes-per-token", kv) if kv else ()
    data = answered(*LLAMA3_8B, *cache, "--bandwidth", "500", "--vram", vram, "--prompt", "8000")
    assert data["fits"] is fits


def test_listed_memory_is_used_where_none_is_given() -> None:
    fits = ("--weights-bytes", "20GB", "--kv-bytes-per-token", "131072", "--output", "100")
    assert answered(*fits, "--device", "RTX 4090")["fits"] is True
    assert answered(*fits, "--device", "RTX 4070")["fits"] is False
    assert answered(*fits, "--device", "Apple M2 Max")["fits"] is None


def test_prefill_from_two_points_and_from_one() -> None:
    two = answered(
        *("--prompt", "8192", "--prefill-point", "512:7138.99", "--prefill-point", "4096:5265.68"),
    )
    assert two["prefill_tok_s"] == pytest.approx(4039.68, rel=0.03)
    one = answered("--prompt", "8192", "--prefill-point", "4096:5265.68")
    assert one["prefill_tok_s"] == pytest.approx(5265.68)
    assert one["range"]["prefill_ms"][1] > two["prefill_ms"]
    assert one["decode_tok_s"] is None


def test_a_mixture_reads_part_of_its_weights() -> None:
    dense = answered("--weights-bytes", "20GB", "--layers", "48", "--device", "RTX 4090")
    mixture = answered(
        *(
            "--weights-bytes",
            "20GB",
            "--active-weights-bytes",
            "2GB",
            "--layers",
            "48",
            "--device",
            "RTX 4090",
        )
    )
    assert mixture["bandwidth_ceiling_tok_s"] == pytest.approx(10 * dense["bandwidth_ceiling_tok_s"])
    assert mixture["weights_bytes"] == dense["weights_bytes"]
    low, high = mixture["range"]["decode_tok_s"]
    assert high / low == pytest.approx(1.6 / 0.5)


def test_a_machine_said_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "phasewise.toml").write_text('[machine]\ndevice = "RTX 4090"\n', "utf-8")
    monkeypatch.chdir(tmp_path)
    assert answered(*LLAMA3_8B)["decode_tok_s"] == pytest.approx(129.9, abs=0.05)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), ("--gguf", "--weights-bytes", "--device", "--bandwidth")),
        (("--device", "RTX 4090", "--output", "10"), ("--weights-bytes",)),
        ((*LLAMA3_8B, "--device", "Voodoo 2"), ("Voodoo 2", "--bandwidth")),
        (("--layers", "32", "--bandwidth", "100"), ("--layers", "--weights-bytes")),
        (("--weights-bytes", "lots", "--bandwidth", "100"), ("--weights-bytes lots", "4.58GiB")),
        (("--weights-bytes", "0", "--bandwidth", "100"), ("--weights-bytes 0",)),
        (("--weights-bytes", "1GB", "--active-weights-bytes", "2GB"), ("--active-weights-bytes 2GB", "more")),
        ((*LLAMA3_8B, "--vram", "24"), ("--vram 24", "24GiB")),
        ((*LLAMA3_8B, "--prompt", "10", "--cached", "11"), ("--cached 11", "--prompt 10")),
        (("--prompt", "10", "--prefill-point", "512"), ("--prefill-point 512", "TOKENS:TOK_S")),
        (("--prompt", "10", "--prefill-point", "0:nan"), ("--prefill-point 0:nan",)),
        (("--prompt", "-1"), ("prompt",)),
        ((*LLAMA3_8B, "--bandwidth", "nan"), ("--bandwidth",)),
        (("--output", "10", "--decode-tok-s", "inf"), ("--decode-tok-s inf",)),
        (("--gguf", "missing.gguf"), ("missing.gguf",)),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(arguments: tuple[str, ...], words: tuple[str, ...]) -> None:
    refused(phasewise("estimate", *arguments), 2, *words)


# --- the page


def test_the_page_puts_the_answer_first() -> None:
    ran = phasewise(
        *("estimate", "--prompt", "12000", "--output", "500", "--prefill-point", "12000:1500"),
        *("--decode-tok-s", "40"),
    )
    assert (ran.status, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[2] == "THE ANSWER"
    assert "20.5 s: 8.0 s to the first token (39 %), then 500 tokens at 40.0 tok/s" in lines[3]
    assert "prefill 8.0 s (39 %)" in ran.out
    assert max(len(line) for line in lines) <= 80


def test_the_page_says_what_is_missing_and_what_does_not_fit() -> None:
    ran = phasewise("estimate", *LLAMA3_8B, "--device", "RTX 4070", "--prompt", "4000", "--output", "100")
    text = " ".join(ran.out.split())
    assert "--prefill-point TOKENS:TOK_S" in text
    assert "--kv-bytes-per-token N" in text
    big = phasewise("estimate", "--weights-bytes", "40GB", "--device", "RTX 4090", "--output", "9")
    assert "does not fit" in big.out


def test_changes_are_priced_on_the_same_request() -> None:
    model = Model(
        "m", Q4, Q4, layers=32, kv_bytes_per_token=131_072, parameters=8.03e9, quantization="Q4_K_M"
    )
    hardware = Hardware("RTX 4090", "geforce", (1008, 1008), memory_bytes=24 * GIB)
    now = estimate(model, hardware, Ask(prompt=8000, output=500))
    changed = dict(what_if(now))
    assert list(changed) == [
        *(f"weights in {quant}" for quant in ("F16", "Q8_0", "Q6_K", "Q5_K_M")),
        "KV cache in q8_0",
        "half the context",
    ]
    assert now.decode.value is not None
    f16 = changed["weights in F16"]
    assert f16.model is not None
    assert f16.model.weights_bytes == pytest.approx(16.06e9, rel=2e-3)
    assert f16.decode.value == pytest.approx(
        1000 / (1e3 / now.decode.value + 11.15e9 / 0.95 / 1008e6), rel=5e-3
    )
    assert changed["KV cache in q8_0"].kv_bytes == pytest.approx(8500 * 131_072 * 34 / 64)
    assert changed["half the context"].kv_bytes == 4500 * 131_072
    assert now.needed_bytes == Q4 + 8500 * 131_072 + SPARE_BYTES


def test_a_measured_rate_changes_as_the_predicted_one_does() -> None:
    model = Model("m", Q4, Q4, layers=32, parameters=8.03e9, quantization="Q4_K_M")
    hardware = Hardware("RTX 4090", "geforce", (1008, 1008))
    predicted = estimate(model, hardware, Ask(output=100))
    measured = estimate(model, hardware, Ask(output=100, decode_tok_s=65))
    assert predicted.decode.value is not None
    for (_, one), (_, other) in zip(what_if(predicted), what_if(measured), strict=True):
        assert one.decode.value is not None
        assert other.decode.value == pytest.approx(65 * one.decode.value / predicted.decode.value)
    assert what_if(estimate(model, Hardware(), Ask(output=100, decode_tok_s=65))) == []


# --- model files


def write(
    path: Path,
    tensors: dict[str, NDArray[np.float32]],
    facts: dict[str, Any] | None = None,
    architecture: str = "llama",
) -> Path:
    writer = GGUFWriter(str(path), architecture)
    writer.add_file_type(7)
    for key, value in (facts or {}).items():
        name = f"{architecture}.{key.replace('__', '.')}"
        if isinstance(value, list):
            writer.add_array(name, value)
        else:
            writer.add_uint32(name, value)
    for name, data in tensors.items():
        kind = F16 if data.ndim == 1 else Q8_0
        writer.add_tensor(name, quantize(data, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def zeros(*shape: int) -> NDArray[np.float32]:
    return np.zeros(shape, dtype=np.float32)


SHAPE = {
    "block_count": 2,
    "embedding_length": 64,
    "attention__head_count": 4,
    "attention__head_count_kv": 2,
    "context_length": 4096,
}
LAYERS = {f"blk.{layer}.attn_q.weight": zeros(64, 64) for layer in range(2)}
EMBEDDING, HEAD = {"token_embd.weight": zeros(1000, 64)}, {"output.weight": zeros(1000, 64)}


def q8(parameters: int) -> float:
    return parameters * 34 / 32


def test_an_embedding_is_read_only_where_it_is_the_head(tmp_path: Path) -> None:
    untied = read_model(write(tmp_path / "untied.gguf", {**EMBEDDING, **LAYERS, **HEAD}, SHAPE))
    assert untied.weights_bytes == q8(2 * 64_000 + 2 * 4096)
    assert untied.read_bytes == q8(64_000 + 2 * 4096)
    assert (untied.parameters, untied.active_parameters) == (136_192, 72_192)
    assert untied.head_parameters == 64_000
    tied = read_model(write(tmp_path / "tied.gguf", {**EMBEDDING, **LAYERS}, SHAPE))
    assert tied.read_bytes == tied.weights_bytes == q8(64_000 + 2 * 4096)
    assert tied.head_parameters == 64_000
    assert (tied.layers, tied.attention_layers, tied.attention_width) == (2, 2, 64)
    assert tied.quantization == "Q8_0"


def test_of_experts_the_chosen_ones_are_read(tmp_path: Path) -> None:
    experts = {"blk.0.ffn_up_exps.weight": zeros(8, 32, 64), "blk.0.ffn_up_shexp.weight": zeros(32, 64)}
    model = read_model(
        write(
            tmp_path / "moe.gguf", {**HEAD, **experts}, {**SHAPE, "expert_count": 8, "expert_used_count": 2}
        )
    )
    assert model.mixture
    assert model.read_bytes == q8(64_000 + 8 * 2048 * 2 // 8 + 2048)
    assert model.weights_bytes == q8(64_000 + 8 * 2048 + 2048)


def test_layers_that_predict_further_tokens_rest(tmp_path: Path) -> None:
    shape = {**SHAPE, "block_count": 3, "nextn_predict_layers": 1}
    tensors = {**HEAD, **LAYERS, "blk.2.attn_q.weight": zeros(64, 64)}
    model = read_model(write(tmp_path / "mtp.gguf", tensors, shape))
    assert model.layers == 2
    assert model.weights_bytes - model.read_bytes == q8(4096)
    assert model.cache is not None
    assert len(model.cache) == 2


def test_a_model_in_parts_is_one_model(tmp_path: Path) -> None:
    first = write(tmp_path / "m-00001-of-00002.gguf", {**EMBEDDING, **LAYERS}, SHAPE)
    refused(phasewise("estimate", "--gguf", first), 2, "part 2 of 2 is missing")
    second = write(tmp_path / "m-00002-of-00002.gguf", HEAD)
    assert read_model(first).weights_bytes == read_model(second).weights_bytes == q8(136_192)
    assert read_gguf(second)["kv_heads"] == 2


def test_windows_are_read_from_the_file(tmp_path: Path) -> None:
    shape = {**SHAPE, "block_count": 6, "attention__sliding_window": 512}
    model = read_model(write(tmp_path / "g.gguf", {**EMBEDDING, **LAYERS}, shape, "gemma3"))
    assert model.cache is not None
    assert [layer.window_tokens for layer in model.cache] == [512] * 5 + [None]
    data = answered("--gguf", tmp_path / "g.gguf", "--context-depth", "100000")
    assert data["kv_bytes"] == 2 * 2 * 2 * 16 * (100_000 + 5 * 1024)


def test_latent_attention_keeps_no_values(tmp_path: Path) -> None:
    shape = {
        **SHAPE,
        "attention__head_count_kv": 1,
        "attention__key_length": 576,
        "attention__value_length": 512,
        "attention__key_length_mla": 192,
        "attention__value_length_mla": 128,
    }
    path = write(tmp_path / "d.gguf", {**EMBEDDING, **LAYERS}, shape, "deepseek2")
    assert answered("--gguf", path, "--context-depth", "1000")["kv_bytes"] == 2 * 576 * 2 * 1000
    facts = read_gguf(path)
    assert (facts["head_dim_k"], facts["head_dim_v"]) == (576, 0)


def test_a_file_on_a_known_device(tmp_path: Path) -> None:
    path = write(tmp_path / "tiny.gguf", {**EMBEDDING, **LAYERS, **HEAD}, SHAPE)
    data = answered("--gguf", path, "--device", "RTX 4090", "--prompt", "1000", "--output", "100")
    assert data["prefill_ms"] is None
    assert data["total_ms"] is None
    low, high = data["range"]["prefill_ms"]
    assert high / low == pytest.approx(1 / 0.17)
    flops = 2 * 72_192 * 1000 + 4 * 2 * 64 * 1000**2 / 2
    assert low == pytest.approx(flops / 165.2e9)
    given = answered("--gguf", path, "--device", "RTX 4090", "--prompt", "1000", "--tflops", "82.6")
    assert given["range"]["prefill_ms"][0] == pytest.approx(2 * low)
    page = phasewise(
        "estimate", "--gguf", path, "--device", "RTX 4090", "--prompt", "1000", "--output", "100"
    )
    assert "weights in Q4_K_M" in page.out
    assert "weights in Q8_0" not in page.out
    assert "TFLOPS alone" in " ".join(page.out.split())


def test_numbers_given_go_before_the_files(tmp_path: Path) -> None:
    path = write(tmp_path / "tiny.gguf", {**EMBEDDING, **LAYERS, **HEAD}, SHAPE)
    data = answered("--gguf", path, "--kv-bytes-per-token", "1000", "--context-depth", "10")
    assert data["kv_bytes"] == 10_000


def test_no_model_file(tmp_path: Path) -> None:
    (tmp_path / "text.gguf").write_text("no model", "utf-8")
    refused(phasewise("estimate", "--gguf", tmp_path / "text.gguf"), 2, "text.gguf", "GGUF")
    empty = write(tmp_path / "empty.gguf", {})
    refused(phasewise("estimate", "--gguf", empty), 2, "no weights")
