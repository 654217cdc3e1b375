from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.setup import Device
from rules.attribution import verdict
from rules.decode import at_bandwidth_ceiling, cpu_only, output_long, partial_offload, quantise_weights
from rules.hardware import Machine
from rules.ranking import rank
from rules.rule import CannotTell, Confidence, Finding, NotApplicable, Phase
from rules.savings import output_capped
from tests.rules.helpers import measures, read

if TYPE_CHECKING:
    from rules.rule import Answer

MODULES = (output_long, quantise_weights, at_bandwidth_ceiling, partial_offload, cpu_only)
GIB = 1 << 30
LLAMA_3_8B: dict[str, Any] = {
    "weights_bytes": 4_917_737_553,
    "quantization": "Q4_K - Medium",
    "parameters": 8_030_000_000,
    "layers": 32,
    "kv_heads": 8,
    "head_dim_k": 128,
    "head_dim_v": 128,
    "experts": 0,
    "slots": 1,
}
ON_4090: dict[str, Any] = {
    **LLAMA_3_8B,
    "layers_offloaded": 33,
    "layers_offloadable": 33,
    "devices": [Device(name="NVIDIA GeForce RTX 4090", backend="CUDA", memory_bytes=24_080 << 20)],
}


def chats(tok_s: float, n: int = 20, output: int = 300, **more: Any) -> list[dict[str, Any]]:
    """Requests of 1,000 tokens, read at 5,000 tok/s, with equal answers."""
    prompt = {"prompt_tokens": 1_000, "cached_tokens": 0, "prefill_ms": 200.0, "slot": 0}
    answer = {"output_tokens": output, "decode_ms": output * 1_000 / tok_s}
    return [{**prompt, **answer, **more} for _ in range(n)]


def found(answer: Answer) -> Finding:
    assert isinstance(answer, Finding), answer
    return answer


def saved_ms(finding: Finding) -> float:
    assert finding.saving is not None
    return finding.saving.ms


# --- output-long


def test_worked_example_is_decode() -> None:
    m = measures(
        [{"prompt_tokens": 1_000, "prefill_ms": 500.0, "output_tokens": 300, "decode_ms": 7_500.0}] * 5
    )

    assert m.wall_ms == pytest.approx(5 * 8_000)
    assert verdict(m.attribution).phase == "decode"
    assert verdict(m.attribution).share == pytest.approx(0.9375)
    assert isinstance(output_long.check(m), NotApplicable)


def test_long_answers_cost_what_a_cap_would_save() -> None:
    finding = found(output_long.check(measures(chats(40, n=10, output=800))))

    assert saved_ms(finding) == pytest.approx(10 * 500 * 25)
    assert not finding.fault
    assert finding.fixes[0].apply == '"max_tokens": 300'
    assert "-n 300" in finding.fixes[0].where


@pytest.mark.parametrize(
    ("engine", "switch"),
    [("ollama", '"num_predict": 300'), ("llama-cli", "-n 300"), ("vllm", '"max_tokens": 300')],
)
def test_cap_in_each_engines_words(engine: str, switch: str) -> None:
    rows = chats(40, output=800, engine=engine)

    assert found(output_long.check(measures(rows))).fixes[0].apply == switch


@pytest.mark.parametrize(
    ("rows", "setup"),
    [
        (chats(40, output=399), {}),
        (chats(40, output=400, prefill_ms=7_000.0), {}),
        (chats(4, output=800), {"layers_offloaded": 15, "layers_offloadable": 33}),
        (chats(40, output=800), {"eager": True}),
        (chats(60, output=800), ON_4090),
    ],
    ids=["shorter", "prefill matters", "layers on the CPU", "eager", "half as fast as it should be"],
)
def test_no_cap_where_answers_are_not_the_matter(rows: list[dict[str, Any]], setup: dict[str, Any]) -> None:
    assert isinstance(output_long.check(measures(rows, setup=setup)), NotApplicable)


def test_decode_advice_ranks_below_prefill_where_text_outruns_reading() -> None:
    rows = [
        {"prompt_tokens": 12_000, "prefill_ms": 8_000.0, "output_tokens": 500, "decode_ms": 12_500.0}
    ] * 20
    m = measures(rows)
    decode = found(output_long.check(m))
    prefill = replace(decode, rule="some-prefill-rule", phase=Phase.PREFILL, fixes=(), change=None)
    prefill = replace(prefill, saving=replace(decode.saving, ms=1.0) if decode.saving else None)

    assert saved_ms(decode) > saved_ms(prefill)
    assert [f.rule for f in rank([decode, prefill], m)] == ["some-prefill-rule", "output-long"]


def test_cap_predicts_what_a_real_server_saved() -> None:
    """Eight requests of 240 tokens, then of 80: the clients measured 19.77 s and 8.74 s."""
    m = read("pairs/output_cap/before")
    warm_up, *_ = m.generations["total_ms"]
    saving = m.saving(output_capped(80))

    assert saving.ms == pytest.approx(19_768 - 8_737, rel=0.25)
    assert saving.ms < m.wall_ms - warm_up
    assert isinstance(output_long.check(m), NotApplicable)


# --- at-bandwidth-ceiling


def test_d20_healthy_4090() -> None:
    rows = [
        row for i in range(20) for row in chats(130.58, n=1, output=200 + 15 * i, prompt_tokens=500 + 125 * i)
    ]
    m = measures(rows, setup=ON_4090)
    finding = found(at_bandwidth_ceiling.check(m))

    assert m.decoding.health == pytest.approx(1.0, abs=0.1)
    assert m.decoding.reached == pytest.approx(0.64, abs=0.05)
    assert not finding.fault
    assert finding.saving is None
    assert "100 %" in finding.title
    assert any("FLOPs" in vain for vain in finding.wont_help)
    others = (output_long, quantise_weights, partial_offload, cpu_only)
    assert not [mod for mod in others if isinstance(mod.check(m), Finding)]


def test_d13_cpu_at_its_bandwidth() -> None:
    rows = chats(13.8, n=8, engine="lmstudio")
    m = measures(rows, setup={**LLAMA_3_8B, "threads": 20}, machine=Machine(bandwidth_gb_s=89.6, cores=20))
    finding = found(at_bandwidth_ceiling.check(m))

    assert "78 %" in finding.title
    assert any("threads" in vain and "-tb" in vain for vain in finding.wont_help)
    assert any("fewer bytes" in fix.title for fix in finding.fixes[:2])


@pytest.mark.parametrize(("unknown", "told"), [((), True), (("quantization", "parameters"), False)])
def test_bits_that_are_unknown_are_not_few(unknown: tuple[str, ...], *, told: bool) -> None:
    setup = {**ON_4090, **dict.fromkeys(unknown)}
    finding = found(at_bandwidth_ceiling.check(measures(chats(130), setup=setup)))

    assert any("below 4.9 bits" in vain for vain in finding.wont_help) == told


def test_d19_without_eager_mode_is_at_the_ceiling() -> None:
    setup = {**LLAMA_3_8B, "weights_bytes": 15_200_000_000}
    m = measures(chats(45.9), setup=setup, machine=Machine("NVIDIA RTX A6000"))

    assert "100 %" in found(at_bandwidth_ceiling.check(m)).title


def test_options_carry_their_savings() -> None:
    f16 = {**ON_4090, "weights_bytes": 16_063_177_687, "quantization": "F16"}
    finding = found(at_bandwidth_ceiling.check(measures(chats(54.84, output=500), setup=f16)))
    options = {e.label: e.value for e in finding.evidence if e.unit == "ms"}

    assert finding.fixes[0].apply == "-m MODEL-Q8_0.gguf"
    q8 = options["a Q8_0 file would save"]
    assert isinstance(q8, float)
    assert 0.3 < q8 / (20 * 500 * 1_000 / 54.84) < 0.47
    assert options["answers of at most 300 tokens would save"] == pytest.approx(
        20 * 200 * 1_000 / 54.84, rel=0.01
    )


D16 = {"draft_tokens": 1_378, "accepted_tokens": 96}
MIXTURE = {**ON_4090, "experts": 128, "weights_bytes": 18 * GIB}


@pytest.mark.parametrize(
    ("rows", "setup", "machine", "answer"),
    [
        (chats(130.58, **D16), ON_4090, None, NotApplicable),
        (chats(130.58), {**ON_4090, "speculative": "draft"}, None, NotApplicable),
        (chats(130.58), MIXTURE, None, CannotTell),
        (chats(130.58), {**ON_4090, "weights_bytes": None}, None, CannotTell),
        (chats(13.8), LLAMA_3_8B, None, CannotTell),
        (chats(130.58, prefill_ms=9_000.0), ON_4090, None, NotApplicable),
        (chats(60), ON_4090, None, NotApplicable),
        (chats(200), ON_4090, None, NotApplicable),
        (chats(11.2), {**LLAMA_3_8B, "weights_bytes": 15_200_000_000}, Machine("RTX A6000"), NotApplicable),
        (chats(2.4), {**LLAMA_3_8B, "weights_bytes": 141 * 10**9}, Machine(None, 819.0), NotApplicable),
    ],
    ids=[
        "D16 drafts",
        "a draft model",
        "a mixture of experts",
        "no size",
        "no bandwidth",
        "prefill matters",
        "half speed",
        "too fast to be true",
        "D19 eager",
        "D14 two sockets",
    ],
)
def test_no_ceiling_without_its_evidence(
    rows: list[dict[str, Any]], setup: dict[str, Any], machine: Machine | None, answer: type
) -> None:
    assert isinstance(at_bandwidth_ceiling.check(measures(rows, setup=setup, machine=machine)), answer)


def timed(starts: list[float], tok_s: float) -> list[dict[str, Any]]:
    return [
        {**row, "slot": i % 2, "clock_start_ms": start, "clock_end_ms": start + 3_000}
        for i, (start, row) in enumerate(zip(starts, chats(tok_s, n=len(starts)), strict=True))
    ]


def test_only_requests_alone_measure_the_memory() -> None:
    together = timed([i * 1_000.0 for i in range(10)], 130.58)
    m = measures(together, setup={**ON_4090, "slots": 2})
    assert m.decoding.alone.height == 0
    assert isinstance(at_bandwidth_ceiling.check(m), CannotTell)

    mixed = [*timed([0.0, 5_000.0, 10_000.0], 130.58), *timed([20_000.0, 21_000.0, 22_000.0], 40)]
    mixed = [{**row, "line": i} for i, row in enumerate(mixed, 1)]
    m = measures(mixed, setup={**ON_4090, "slots": 2})
    assert m.decoding.alone["line"].to_list() == [1, 2, 3]
    assert found(at_bandwidth_ceiling.check(m)).requests == 3


# --- quantise-weights


def published(device: str, quant: str) -> dict[str, float]:
    """A row of the published table at 512 tokens: ms a token and bytes."""
    with (Path(__file__).parent / "data" / "decode_rows.tsv").open() as file:
        rows = csv.DictReader(file, delimiter="\t")
        row = next(
            r
            for r in rows
            if (r["device"], r["quant"], r["gpus"], r["output_tokens"]) == (device, quant, "1", "512")
            and "8B" in r["model"]
        )
    return {"tok_s": float(row["decode_tok_s"]), "bytes": float(row["weight_bytes"])}


@pytest.mark.parametrize("device", ["NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 3090"])
def test_quantising_saves_what_was_measured(device: str) -> None:
    f16, q4 = published(device, "F16"), published(device, "Q4_K_M")
    setup = {
        **ON_4090,
        "weights_bytes": int(f16["bytes"]),
        "quantization": "F16",
        "devices": [Device(name=device, backend="CUDA")],
    }
    finding = found(quantise_weights.check(measures(chats(f16["tok_s"], n=10, output=512), setup=setup)))

    measured = 10 * 512 * 1_000 * (1 / f16["tok_s"] - 1 / q4["tok_s"])
    assert saved_ms(finding) == pytest.approx(measured, rel=0.15)
    assert finding.saving is not None
    assert finding.saving.bound == "estimate"


@pytest.mark.parametrize(
    ("name", "n_bytes", "tok_s"), [("all F16", 16_063_177_687, 29.17), ("Q8_0", 8_536_247_500, 50.93)]
)
def test_without_a_known_device_the_saving_is_a_bound(name: str, n_bytes: int, tok_s: float) -> None:
    """llama.cpp tools/quantize/README.md: F16 29.17, Q8_0 50.93, Q4_K_M 71.93 tok/s on one machine."""
    setup = {**LLAMA_3_8B, "weights_bytes": n_bytes, "quantization": name}
    finding = found(quantise_weights.check(measures(chats(tok_s, n=10), setup=setup)))

    decode_ms = 10 * 300 * 1_000 / tok_s
    measured = decode_ms * (1 - tok_s / 71.93)
    assert finding.saving is not None
    assert finding.saving.bound == "at_most"
    assert measured < finding.saving.ms < 1.5 * measured


@pytest.mark.parametrize(
    ("setup", "machine", "answer"),
    [
        ({}, None, CannotTell),
        ({"quantization": "Q4_K - Medium"}, None, NotApplicable),
        ({"quantization": "Q6_K"}, None, NotApplicable),
        ({"quantization": "F16", "layers_offloaded": 20, "layers_offloadable": 33}, None, NotApplicable),
        ({"quantization": "BF16", "eager": True}, None, NotApplicable),
        ({"quantization": "F16", "weights_bytes": 141 * 10**9}, Machine(None, 819.0), NotApplicable),
    ],
    ids=["no quantization", "4.9 bits", "6.6 bits", "partial offload", "D19 eager", "D14 two sockets"],
)
def test_no_smaller_file_where_it_is_not_the_matter(
    setup: dict[str, Any], machine: Machine | None, answer: type
) -> None:
    rows = chats(2.4, output=200)

    assert isinstance(quantise_weights.check(measures(rows, setup=setup, machine=machine)), answer)


# --- partial-offload


def test_part_on_the_cpu_against_all_on_the_gpu() -> None:
    """22 of 33 layers at 1,008 GB/s and the rest at 60: 30.7 ms a token instead of 7.7."""
    setup = {**ON_4090, "layers_offloaded": 22}
    finding = found(partial_offload.check(measures(chats(1_000 / 30.7), setup=setup)))

    assert finding.confidence is Confidence.CERTAIN
    assert saved_ms(finding) == pytest.approx(20 * 300 * (30.7 - 7.9), rel=0.02)
    assert finding.saving is not None
    assert finding.saving.bound == "estimate"
    assert finding.evidence[0].lines[0].line == 1


D09 = {"weights_bytes": int(4.33 * GIB), "layers_offloaded": 15, "layers_offloadable": 33}
D10 = {
    "weights_bytes": int(87.3 * GIB),
    "layers_offloaded": 44,
    "layers_offloadable": 81,
    "kv_bytes": int(19.5 * GIB),
    "kv_bytes_per_token": 19.5 * GIB / 64_000,
    "context": 64_000,
    "slots": 1,
    "devices": [Device(name=f"GPU {i}", backend="CUDA", memory_bytes=22 * GIB) for i in range(4)],
}
D11 = {
    "weights_bytes": int(9.6 * GIB),
    "gpu_weights_bytes": int(3.5 * GIB),
    "cpu_weights_bytes": int(6.1 * GIB),
    "layers_offloaded": 42,
    "layers_offloadable": 43,
    "context": 32_768,
}


def test_d10_says_that_the_weights_leave_no_room() -> None:
    rows = chats(2.1, n=8, output=300, prompt_tokens=8_700, engine="ollama")
    finding = found(partial_offload.check(measures(rows, setup=D10)))

    assert "Weights of 87.3 GiB leave no room on 88.0 GiB for the 19.5 GiB of KV cache" in finding.why
    assert "a smaller context only adds layers" in finding.why
    first, second = finding.fixes[:2]
    assert first.knob == "weights-file"
    assert second.apply == '"num_ctx": 16384'
    assert finding.saving is not None
    assert finding.saving.bound == "at_most"


def test_d11_weighs_bytes_and_not_layers() -> None:
    finding = found(partial_offload.check(measures(chats(11, n=8, engine="ollama"), setup=D11)))

    assert "42 of 43 layers" in finding.why
    assert "6.1 of 9.6 GiB" in finding.why
    assert {fix.knob for fix in finding.fixes[:2]} == {"context", "model"}
    by_layers = found(
        partial_offload.check(measures(chats(11, n=8), setup={**D11, "gpu_weights_bytes": None}))
    )
    assert saved_ms(finding) == saved_ms(by_layers)


def test_d09_is_partial_and_not_cpu_only() -> None:
    m = measures(chats(9, engine="ollama"), setup=D09)

    assert found(partial_offload.check(m)).title == "18 of 33 layers run on the CPU"
    assert isinstance(cpu_only.check(m), NotApplicable)


SLOTS_64: dict[str, Any] = {
    **LLAMA_3_8B,
    **D09,
    "kv_bytes": 16 * GIB,
    "kv_bytes_per_token": 131_072.0,
    "context": 2_048,
    "slots": 64,
    "devices": [Device(name="A100 MIG 2g.20gb", backend="CUDA", memory_bytes=19_968 << 20)],
}


@pytest.mark.parametrize(
    ("engine", "switch"), [("llama-server", "-np 4 -c 8192"), ("ollama", "OLLAMA_NUM_PARALLEL=4")]
)
def test_d09_slots_that_nobody_uses_go_first(engine: str, switch: str) -> None:
    rows = [
        {
            **row,
            "slot": i % 3,
            "clock_start_ms": 10_000.0 * (i // 3),
            "clock_end_ms": 10_000.0 * (i // 3) + 9_000,
        }
        for i, row in enumerate(chats(9, n=12, prompt_tokens=600, engine=engine))
    ]
    fixes = found(partial_offload.check(measures(rows, setup=SLOTS_64))).fixes

    assert fixes[0].title == "Keep room for 4 requests at once, not 64"
    assert fixes[0].apply == switch
    assert "weights-file" not in {fix.knob for fix in fixes}


@pytest.mark.parametrize(("unified", "total"), [(True, 4_096), (False, 8_192)])
def test_slots_that_share_the_context_need_it_once(unified: bool, total: int) -> None:
    setup = {**SLOTS_64, "slots": 4, "context": 32_768, "kv_unified": unified}
    rows = chats(9, prompt_tokens=2_000, clock_start_ms=0.0, clock_end_ms=1.0)
    apart = [{**row, "clock_start_ms": 2.0 * i, "clock_end_ms": 2.0 * i + 1} for i, row in enumerate(rows)]

    fixes = found(partial_offload.check(measures(apart, setup=setup))).fixes

    assert f"-c {total}" in [fix.apply for fix in fixes]


def test_ollama_makes_no_q6_files() -> None:
    def smaller(engine: str) -> str | None:
        m = measures(chats(30, engine=engine), setup={**LLAMA_3_8B, "quantization": "Q8_0"})
        return m.decoding.smaller_quant

    assert smaller("llama-server") == "Q6_K"
    assert smaller("ollama") == "Q4_K_M"


def test_room_for_all_layers_asks_for_all_layers() -> None:
    setup = {**ON_4090, "layers_offloaded": 22, "kv_bytes": GIB}
    rows = chats(1_000 / 30.7, engine="llama-cpp-python")
    finding = found(partial_offload.check(measures(rows, setup=setup)))

    assert [fix.apply for fix in finding.fixes] == ["n_gpu_layers=-1"]


def test_a_context_that_fills_the_gpu_goes_first() -> None:
    setup = {**ON_4090, "layers_offloaded": 22, "kv_bytes": 20 * GIB, "context": 160_000}
    finding = found(partial_offload.check(measures(chats(1_000 / 30.7), setup=setup)))

    assert "would fit 23.5 GiB, but not beside 20.0 GiB" in finding.why
    assert finding.fixes[0].apply == "-c 2048"


@pytest.mark.parametrize(
    ("facts", "answer"),
    [
        ({}, CannotTell),
        ({"layers_offloaded": 33, "layers_offloadable": 33}, NotApplicable),
        ({"layers_offloaded": 0, "layers_offloadable": 33}, NotApplicable),
        (
            {"layers_offloaded": 49, "layers_offloadable": 49, "experts": 128, "cpu_weights_bytes": 9 * GIB},
            NotApplicable,
        ),
    ],
    ids=["not said", "all", "none", "experts on the CPU on purpose"],
)
def test_no_partial_offload(facts: dict[str, Any], answer: type) -> None:
    assert isinstance(partial_offload.check(measures(chats(20), setup=facts)), answer)


def test_as_fast_as_on_the_gpu_is_no_matter() -> None:
    assert isinstance(
        partial_offload.check(measures(chats(125), setup={**ON_4090, "layers_offloaded": 32})), NotApplicable
    )


@given(on_gpu=st.integers(1, 79), tok_s=st.floats(0.1, 200), weights=st.floats(1e8, 1e12))
def test_offload_saves_at_most_the_decode(on_gpu: int, tok_s: float, weights: float) -> None:
    setup = {"layers_offloaded": on_gpu, "layers_offloadable": 80, "weights_bytes": int(weights)}
    answer = partial_offload.check(measures(chats(tok_s, n=5), setup=setup))

    if isinstance(answer, Finding):
        assert 0 < saved_ms(answer) <= 5 * 300 * 1_000 / tok_s


# --- cpu-only


def test_cpu_only_server_is_told_and_is_no_fault() -> None:
    finding = found(cpu_only.check(read("llama-server-b11434/k_multiturn_lv4")))

    assert finding.confidence is Confidence.POSSIBLE
    assert not finding.fault
    assert finding.saving is None
    assert "If this machine has a GPU" in finding.why
    assert "nvidia-smi" in finding.verify
    assert finding.evidence[0].lines[0].line == 127


def test_hidden_header_says_nothing() -> None:
    assert isinstance(cpu_only.check(read("llama-server-b11434/a_short_default")), CannotTell)


def test_idle_gpu_is_a_fault() -> None:
    gpu = [Device(name="NVIDIA GeForce RTX 4090", backend="CUDA", memory_bytes=24 * GIB)]
    setup = {**LLAMA_3_8B, "layers_offloaded": 0, "layers_offloadable": 33, "devices": gpu}
    finding = found(cpu_only.check(measures(chats(10), setup=setup)))

    assert finding.fault
    assert "RTX 4090" in finding.why
    assert saved_ms(finding) == pytest.approx(20 * 300 * (100 - 7.9), rel=0.01)
    assert finding.fixes[0].apply == "-ngl 99"


def test_named_gpu_that_the_log_does_not_use() -> None:
    logged = {
        **LLAMA_3_8B,
        "cpu_weights_bytes": 4_917_737_553,
        "devices": [Device(name="CPU", backend="CPU")],
    }
    given = {**logged, "devices": [Device(name="RTX 4090")]}
    m = measures(chats(10), setup=given, setups=[logged], machine=Machine("RTX 4090"))

    assert found(cpu_only.check(m)).fault


def test_only_a_cpu_among_the_devices_seems_to_be_all() -> None:
    m = measures(chats(10), setup={"devices": [Device(name="AMD EPYC", backend="CPU")]})

    assert "seem" in found(cpu_only.check(m)).why


def test_d13_the_ceiling_goes_before_the_news_that_all_is_on_the_cpu() -> None:
    setup = {**LLAMA_3_8B, "layers_offloaded": 0, "layers_offloadable": 33}
    m = measures(chats(13.9), setup=setup, machine=Machine(bandwidth_gb_s=89.6))

    ranked = rank([found(module.check(m)) for module in (cpu_only, at_bandwidth_ceiling)], m)

    assert [finding.rule for finding in ranked] == ["at-bandwidth-ceiling", "cpu-only"]
