"""What several inputs tell of is counted once."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

from tests.advisor.helpers import ROOT, Asked, phasewise, prefixed

if TYPE_CHECKING:
    from pathlib import Path

REAL = ROOT / "tests" / "logs" / "llama-server-b11434" / "d_parallel4_12req"


def page(*paths: Path, cwd: Path | None = None) -> dict[str, object]:
    data: dict[str, object] = json.loads(phasewise(*paths, "--format", "json", cwd=cwd).out)
    return data


def test_a_log_its_copy_and_what_the_client_saved_are_the_same_requests(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    shutil.copy(REAL / "server.log", log)
    alone = page(log)
    shutil.copy(REAL / "server.log", tmp_path / "server.log.1")
    shutil.copy(REAL / "ground_truth.jsonl", tmp_path / "client.jsonl")
    together = page(log, tmp_path / "server.log.1", tmp_path / "client.jsonl")
    assert isinstance(together["caveats"], list)
    told = [c["text"] for c in together["caveats"] if c["id"] == "repeated-requests"]
    assert told == ["24 requests stand more than once in the inputs; each counts once."]
    for key in ("requests", "wall_ms"):
        assert together["summary"][key] == alone["summary"][key]  # type: ignore[index]


def test_a_client_that_saw_all_but_one_tells_of_the_same_requests() -> None:
    pair = ROOT / "tests" / "logs" / "pairs" / "rag_chunks" / "before"
    both, alone = page(pair), page(pair / "server.log")
    for key in ("requests", "wall_ms"):
        assert both["summary"][key] == alone["summary"][key]  # type: ignore[index]
    assert both["setup"] == alone["setup"]


def test_a_log_that_was_pasted_twice(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_bytes((REAL / "server.log").read_bytes() * 3)
    [twice, alone] = page(log), page(REAL / "server.log")
    for key in ("requests", "wall_ms"):
        assert twice["summary"][key] == alone["summary"][key]  # type: ignore[index]


def test_containers_that_were_asked_alike_are_no_copies(tmp_path: Path) -> None:
    lines = prefixed([Asked(500 + 10 * i, 311.5 + i, 90 + i, 2500.25) for i in range(20)]).splitlines()
    log = tmp_path / "compose.log"
    text = "".join(f"llm-{n}  | {line}\n" for line in lines for n in (1, 2, 3))
    log.write_text(text)
    assert page(log)["summary"]["requests"] == 60  # type: ignore[index]
    log.write_text(text * 2)  # pasted twice
    assert page(log)["summary"]["requests"] == 60  # type: ignore[index]


def test_of_several_engines_no_copy_is_called_an_engine_s(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_bytes((REAL / "server.log").read_bytes() * 2)
    caveats = page(log, ROOT / "sample_logs" / "vllm.log")["caveats"]
    assert isinstance(caveats, list)
    [told] = [c["text"] for c in caveats if c["id"] == "repeated-requests"]
    assert told == "12 requests stand more than once in the inputs; each counts once."
    assert any(c["text"].startswith("vllm: ") for c in caveats)


def test_requests_without_a_name_are_no_copies(tmp_path: Path) -> None:
    """TabbyAPI prints rates with one decimal: under load, two requests often print the same line."""
    rates = [(2000.0, 40.0), (1990.5, 39.8), (2010.2, 39.9)]
    lines = [
        f"INFO:     Metrics: 128 tokens generated in {512 / read + 128 / made + 0.02:.2f} seconds "
        f"(Queue: 0.0 s, Process: 0 cached tokens and 512 new tokens at {read} T/s, "
        f"Generate: {made} T/s, Context: 512 tokens)"
        for read, made in rates * 30
    ]
    log = tmp_path / "tabby.log"
    log.write_text("\n".join(lines) + "\n")
    summary = page(log)["summary"]
    assert isinstance(summary, dict)
    assert summary["requests"] == 90


def test_export_keeps_what_each_input_says(tmp_path: Path) -> None:
    shutil.copy(REAL / "server.log", tmp_path / "a.log")
    shutil.copy(REAL / "server.log", tmp_path / "b.log")
    assert len(phasewise("export", tmp_path, "--format", "jsonl").out.splitlines()) == 24


def test_rules_that_are_off_are_said_to_be(tmp_path: Path) -> None:
    (tmp_path / "phasewise.toml").write_text('[rules]\nenable = ["prefill-*"]\n')
    caveats = page(REAL / "server.log", cwd=tmp_path)["caveats"]
    assert isinstance(caveats, list)
    assert any(c["id"] == "rules-off" and "switched off" in c["text"] for c in caveats)


def test_a_device_that_the_log_contradicts_is_a_caveat() -> None:
    log = ROOT / "sample_logs" / "ollama-reload.log"
    data = json.loads(phasewise(log, "--device", "RTX 4090", "--format", "json").out)
    [text] = [c["text"] for c in data["caveats"] if c["id"] == "setup-contradiction"]
    assert text.startswith("devices is RTX 4090 by --device and NVIDIA GeForce RTX")
