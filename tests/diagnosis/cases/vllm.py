"""D17 to D19: vLLM, whose log has windows and no requests."""

from __future__ import annotations

from rules.hardware import Machine as Given
from tests.diagnosis.case import Case
from tests.diagnosis.writers.vllm import WINDOW_S, Engine, Window, log

REQUESTS, SHARED, WINDOWS = 200, 240, 30
EAGER_WINDOWS = 24


def _short_prefix() -> dict[str, str]:
    engine = Engine(
        version="0.27.1",
        model="Qwen/Qwen3.5-27B",
        arguments="'model_tag': 'Qwen/Qwen3.5-27B', 'model': 'Qwen/Qwen3.5-27B', 'max_model_len': 32768",
        context=32_768,
        chunk=8192,
        weights_gib=50.9217,
        kv_tokens=211_040,
        more=(
            (
                "Setting attention block size to 784 tokens to ensure that attention page size is >= mamba "
                "page size."
            ),
            (
                "Padding mamba page size by 0.13% to ensure that mamba page size and attention page size are "
                "exactly equal."
            ),
        ),
    )
    own = [150 + 250 * i // (REQUESTS - 1) for i in range(REQUESTS)]
    windows = []
    for i in range(WINDOWS):
        part = own[i * REQUESTS // WINDOWS : (i + 1) * REQUESTS // WINDOWS]
        prompt = sum(SHARED + tokens for tokens in part)
        windows.append(Window(prompt / WINDOW_S, 15.0 * len(part), 4, kv_percent=2.4))
    return {"vllm.log": log(engine, windows)}


def _starved_stream() -> dict[str, str]:
    engine = Engine(
        version="0.1.dev20073+g8e685d198",
        model="RadixArk/Qwen3.8-Flash-Next-NVFP4",
        arguments="'model_tag': 'RadixArk/Qwen3.8-Flash-Next-NVFP4', 'model': "
        "'RadixArk/Qwen3.8-Flash-Next-NVFP4', "
        "'max_model_len': 262144, 'gpu_memory_utilization': 0.8, 'max_num_batched_tokens': 8192, "
        "'max_num_seqs': 8",
        context=262_144,
        chunk=8192,
        weights_gib=79.79,
        kv_tokens=480_000,
        quantization="modelopt_fp4",
    )
    alone = [Window(0.0, rate, 1, kv_percent=6.0) for rate in (27.4, 28.1, 26.9, 27.7, 28.8, 27.2)]
    starved = [
        Window(7200.0 if i in (5, 10) else 0.0, rate, 3 if i < 6 else 2, kv_percent=20.0 + 2 * i)
        for i, rate in enumerate((0.2, 0.2, 0.3, 0.2, 0.2, 0.4, 0.2, 0.2, 0.3, 0.2, 0.6))
    ]
    after = [Window(0.0, rate, 3, kv_percent=44.0) for rate in (61.2, 63.0, 62.1, 60.8, 62.5, 61.9)]
    return {"vllm.log": log(engine, [*alone, *starved, *after])}


def _eager() -> dict[str, str]:
    engine = Engine(
        version="0.8.5",
        model="Qwen/Qwen2.5-7B-Instruct",
        arguments="'model': 'Qwen/Qwen2.5-7B-Instruct', 'enforce_eager': True, 'max_model_len': 8192",
        context=8192,
        chunk=2048,
        weights_gib=14.2487,
        kv_tokens=486_528,
        eager=True,
        processes=False,
    )
    windows = [Window(0.0 if i else 41.2, 11.2, 1, kv_percent=0.3) for i in range(EAGER_WINDOWS)]
    return {"vllm.log": log(engine, windows)}


CASES = (
    Case(
        id="D17",
        title="the shared prefix is shorter than a block",
        files=_short_prefix,
        source="vllm#54607, vllm#54608",
        confirmed="measured by the reporter",
        expect=("prefix-shorter-than-block",),
        fix=("--block-size", "--prefix-match-unit"),
        must_not=("prefix-unstable",),
        note="vLLM's log has no prompt lengths: that the prefix is shared is in none of its lines.",
    ),
    Case(
        id="D18",
        title="prefill starves a stream",
        files=_starved_stream,
        source="blazux/qwen3.8-Flash-DGX#9; vllm#4603",
        confirmed="the project reproduced it",
        expect=("prefill-stalls-decode",),
        fix=("--max-num-batched-tokens",),
        must_not=("kv-pool-full-preempt",),
    ),
    Case(
        id="D19",
        title="no CUDA graphs",
        files=_eager,
        source="VLM-Surgical-Agent-Framework#5; vllm#4449",
        confirmed="measured by the reporter",
        expect=("eager-mode",),
        fix=("--enforce-eager",),
        saving_ms=(1 - 11.2 / 45.9) * EAGER_WINDOWS * 1000 * WINDOW_S,
        not_first=("quantise-weights",),
        machine=Given(device="NVIDIA RTX A6000"),
        note="Printed: both rates. A 7B model in 16 bits stands for the one that the report does not size.",
    ),
)
