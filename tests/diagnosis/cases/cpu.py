"""D14 and D15: two sockets, and models that do not fit the memory."""

from __future__ import annotations

from dataclasses import replace

from rules.hardware import Machine as Given
from tests.diagnosis.case import Case
from tests.diagnosis.facts import Asked, Machine, Model, asked
from tests.diagnosis.writers.llama_server import prefixed

LLAMA_7B = Model(
    path="C:\\models\\llama-7b-F16.gguf",
    name="LLaMA v1 7B",
    file_type="F16",
    size="12.55 GiB (16.00 BPW)",
    params="6.74 B",
    kind="7B",
    kv_heads=32,
    trained=2048,
    weights={"CPU_Mapped": 250.0, "CUDA0": 12_603.02},
    cache={"CUDA0": 1024.0},
    compute={"CUDA0": 164.0, "CUDA_Host": 12.01},
    context=2048,
)


def _two_sockets() -> dict[str, str]:
    model = Model(
        path="/models/Meta-Llama-3.1-70B-Instruct-F16.gguf",
        name="Meta Llama 3.1 70B Instruct",
        file_type="F16",
        size="131.42 GiB (16.00 BPW)",
        params="70.55 B",
        kind="70B",
        layers=80,
        heads=64,
        embedding=8192,
        offloaded=None,
        weights={"CPU_Mapped": 134_573.03},
        cache={"CPU": 2560.0},
        compute={"CPU": 1104.01},
    )
    machine = Machine("AMD EPYC 9175F 16-Core Processor", 773_000, 32, 64)
    asks = [
        asked(prompt, 300, prefill_tok_s=25.6, decode_tok_s=2.4) for prompt in (512, 430, 610, 480, 560, 520)
    ]
    return {"server.log": prefixed(model, machine, asks)}


def _slow_pages(
    model: Model, machine: Machine, seconds_per_token: list[float], prefill_s: float
) -> dict[str, str]:
    asks = [
        Asked(100 + 7 * i, 1000 * prefill_s, 40, 1000 * 39 * each) for i, each in enumerate(seconds_per_token)
    ]
    return {"server.log": prefixed(model, machine, asks)}


def _laptop_30b() -> dict[str, str]:
    model = Model(
        path="/models/llama-30b-Q4_0.gguf",
        name="LLaMA v1 30B",
        file_type="Q4_0",
        size="18.63 GiB (4.92 BPW)",
        params="32.53 B",
        kind="30B",
        layers=60,
        heads=52,
        kv_heads=52,
        embedding=6656,
        trained=2048,
        offloaded=None,
        weights={"CPU_Mapped": 19_077.12},
        cache={"CPU": 3120.0},
        compute={"CPU": 244.01},
        context=2048,
    )
    machine = Machine("12th Gen Intel(R) Core(TM) i7-1260P", 15_802, 4, 16)
    return _slow_pages(model, machine, [8.0, 20.0, 42.0, 20.0], 95.0)


def _mac_7b() -> dict[str, str]:
    model = replace(
        LLAMA_7B,
        path="/models/llama-7b-F16.gguf",
        offloaded=None,
        weights={"CPU_Mapped": 12_853.02},
        cache={"CPU": 1024.0},
        compute={"CPU": 164.0},
    )
    machine = Machine("Apple M1", 8_192, 4, 8, compiler="AppleClang 17.0.0 for arm64-apple-darwin")
    return _slow_pages(model, machine, [60.0, 180.0, 320.0, 180.0], 400.0)


CASES = (
    Case(
        id="D14",
        title="two sockets read each other's memory",
        files=_two_sockets,
        source="llama.cpp#11744",
        confirmed="measured by the reporter",
        expect=("numa",),
        fix=("--numa distribute",),
        saving_ms=(1 - 2.4 / 4.31) * 6 * 1000 * 299 / 2.4,
        not_first=("threads-too-many",),
        machine=Given(bandwidth_gb_s=819.0, cores=32, sockets=2),
        note="The report has llama-bench's numbers; here a server does the same work.",
    ),
    Case(
        id="D15-30B",
        title="the model does not fit the memory",
        files=_laptop_30b,
        source="llama.cpp#711; ollama#3054",
        confirmed="measured by the reporter",
        expect=("paging-from-disk",),
        fix=("file of the same model", "smaller"),
        must_not=("memory-channels",),
        machine=Given(bandwidth_gb_s=51.2),
        note="Printed: 20 s a token. How much they scatter is made up.",
    ),
    Case(
        id="D15-7B",
        title="the model does not fit the memory of a Mac",
        files=_mac_7b,
        source="llama.cpp#702",
        confirmed="measured by the reporter",
        expect=("paging-from-disk",),
        fix=("file of the same model", "smaller"),
        must_not=("memory-channels",),
        machine=Given(bandwidth_gb_s=68.0),
        note="Printed: 3 min a token. How much they scatter is made up.",
    ),
)
