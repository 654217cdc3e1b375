"""Models that one log serves are judged apart."""

from __future__ import annotations

from typing import Any

from advisor.diagnosis import diagnose
from parsers.setup import Device
from rules.catalogue import all_rules
from rules.deployments import deployments, names
from tests.rules.helpers import measures

ON_4090 = Device(name="NVIDIA GeForce RTX 4090", backend="CUDA", memory_bytes=24_080 << 20)
SMALL: dict[str, Any] = {
    "model": "small.gguf",
    "quantization": "Q4_K_M",
    "weights_bytes": 4_920_000_000,
    "parameters": 8_030_000_000,
    "layers": 32,
    "layers_offloaded": 33,
    "layers_offloadable": 33,
    "devices": [ON_4090],
    "slots": 1,
}
LARGE: dict[str, Any] = {
    **SMALL,
    "model": "large.gguf",
    "weights_bytes": 42_500_000_000,
    "parameters": 70_600_000_000,
    "layers": 80,
    "layers_offloaded": 42,
    "layers_offloadable": 81,
}
CHAT: dict[str, Any] = {
    "slot": 0,
    "prompt_tokens": 600,
    "cached_tokens": 0,
    "prefill_ms": 90.0,
    "output_tokens": 200,
    "decode_ms": 200 * 7.8,
}
SLOW = {**CHAT, "prefill_ms": 900.0, "decode_ms": 200 * 345.0, "run": 1, "model": "large.gguf"}


def both(few: int = 8) -> Any:
    rows = [{**CHAT, "run": 0, "model": "small.gguf"}] * 20 + [SLOW] * few
    return measures([{**row, "line": i} for i, row in enumerate(rows, 1)], setups=[SMALL, LARGE])


def test_the_slow_model_is_found_though_the_fast_one_has_more_requests() -> None:
    findings = {f.rule: f for f in diagnose(both()).findings}
    assert findings["partial-offload"].title.startswith("large.gguf: 39 of 81 layers")
    assert findings["partial-offload"].requests == 8
    assert findings["at-bandwidth-ceiling"].title.startswith("small.gguf: ")
    assert "decode-far-below" not in findings


def test_the_setup_is_the_one_that_takes_the_time() -> None:
    longest = deployments(both())
    assert [part.setup.model for part in longest] == ["large.gguf", "small.gguf"]
    assert [part.generations.height for part in longest] == [8, 20]


def test_advice_is_worth_its_share_of_the_whole_log() -> None:
    rows = [SLOW | {"run": 0, "model": "small.gguf", "decode_ms": 1e7}] + [SLOW] * 3
    m = measures([{**r, "line": i} for i, r in enumerate(rows, 1)], setups=[SMALL, LARGE])
    slow = deployments(m)[1]
    assert slow.setup.model == "large.gguf"
    assert slow.wall_ms < 0.05 * m.wall_ms
    assert not slow.worth(slow.wall_ms, slow.generations.height)


def test_starts_of_one_model_are_one_deployment() -> None:
    known = {**SMALL, "context": 4_096}
    unknown = {"slots": 1}
    other = {**SMALL, "context": 8_192}
    rows = [{**CHAT, "run": run, "line": run + 1} for run in range(3)]
    m = measures(rows, setups=[known, unknown, other])
    assert deployments(m) == [m]


def test_names_tell_equal_models_apart() -> None:
    rows = [{**CHAT, "run": run, "line": run + 1} for run in range(2)]
    parts = deployments(measures(rows, setups=[SMALL, {**SMALL, "layers_offloaded": 20}]))
    assert sorted(names(parts)) == [
        "small.gguf (layers offloaded 20)",
        "small.gguf (layers offloaded 33)",
    ]


def test_rules_about_loads_and_queues_see_all_models() -> None:
    across = {loaded.rule.id for loaded in all_rules() if loaded.rule.across}
    assert across == {
        "load-slow-disk",
        "models-evict-each-other",
        "queue-wait",
        "reload-after-idle",
        "reload-each-request",
    }
