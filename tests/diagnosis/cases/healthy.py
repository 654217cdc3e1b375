"""D20: nothing is wrong."""

from __future__ import annotations

from tests.diagnosis.case import ADVICE, Case
from tests.diagnosis.facts import Asked, Gpu, Machine, Model
from tests.diagnosis.writers.llama_server import prefixed

LLAMA_8B = Model(
    path="/models/Meta-Llama-3-8B-Instruct.Q4_K_M.gguf",
    name="Meta Llama 3 8B Instruct",
    file_type="Q4_K - Medium",
    size="4.58 GiB (4.89 BPW)",
    params="8.03 B",
    trained=8192,
    weights={"CPU_Mapped": 281.81, "CUDA0": 4403.49},
    cache={"CUDA0": 1024.0},
    compute={"CUDA0": 258.50, "CUDA_Host": 24.01},
)


def _healthy() -> dict[str, str]:
    """Five chats of four turns; times from the published rates at two depths.

    512 prompt tokens at 7138.99 tok/s and 8192 at 4039.68 give 0.1329 n + 0.000014 n^2 ms; 512 generated at
    130.58 tok/s and 8192 at 110.66 give 7.566 + 0.000359 context ms for each.
    """
    asks = []
    for chat in range(5):
        cached, prompt = (0, 700) if chat == 0 else (200, 500 + 250 * chat)
        for turn in range(4):
            output = 200 + 60 * ((2 * chat + 3 * turn) % 6)
            prefill_ms = _prefill_ms(prompt) - _prefill_ms(cached)
            decode_ms = (output - 1) * (7.566 + 0.000_359 * (prompt + output / 2))
            asks.append(Asked(prompt, prefill_ms, output, decode_ms, cached=cached, pause_ms=8_000))
            cached = asks[-1].held
            prompt = cached + 90 + 25 * turn
    machine = Machine(
        "AMD Ryzen 9 7950X 16-Core Processor", 63_967, 16, 32, (Gpu("NVIDIA GeForce RTX 4090", 24_080),)
    )
    return {"server.log": prefixed(LLAMA_8B, machine, asks)}


def _prefill_ms(tokens: float) -> float:
    return 0.1329 * tokens + 0.000_014 * tokens**2


SLOWER_DECODE = (
    "partial-offload",
    "ctx-steals-layers",
    "cpu-only",
    "vram-spill-sysmem",
    "decode-far-below",
    "thermal-or-power",
    "idle-clock-wake",
    "threads-too-many",
    "threads-too-few",
    "memory-channels",
    "numa",
    "paging-from-disk",
    "moe-on-cpu",
    "multi-gpu-no-gain",
    "host-limited-gpu",
    "eager-mode",
    "decode-slope-kv",
    "decode-slope-attention",
)


CASES = (
    Case(
        id="D20",
        title="healthy",
        files=_healthy,
        source="XiongjieDai's GPU benchmarks",
        confirmed="published numbers",
        only=ADVICE,
        must_not=SLOWER_DECODE,
        healthy=True,
        note="Times follow the published rates at two depths.",
    ),
)
