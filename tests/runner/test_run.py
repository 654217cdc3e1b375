"""`phasewise run` as a user runs it, with each engine that is installed."""

from __future__ import annotations

import importlib.util
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from advisor.errors import InputError
from advisor.runner.model_file import demo_model
from parsers.records import Request
from tests.advisor.helpers import Ran, environment, one_sentence, phasewise, refused
from tests.required import skip

pytestmark = pytest.mark.filterwarnings("error")

BACKENDS = [
    pytest.param("llama-cpp-python", marks=pytest.mark.runner),
    pytest.param("xllamacpp", marks=pytest.mark.engine),
]
PACKAGES = {"llama-cpp-python": "llama_cpp", "xllamacpp": "xllamacpp"}
TIMEOUT_S = 240.0
TOLERANCE = 0.05
"""By which rows may differ from a stopwatch."""


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    """An engine that is installed, with the demo model."""
    name: str = request.param
    if importlib.util.find_spec(PACKAGES[name]) is None:
        skip(f"no {name} here")
    try:
        demo_model()
    except InputError as error:
        skip(str(error))
    return name


@pytest.fixture
def asked(tmp_path: Path) -> Path:
    """Three short prompts, of which two begin alike."""
    system = {"role": "system", "content": "You are the librarian of a small town. " * 20}
    questions = ("Where are the maps?", "Where is the poetry?")
    lines: list[dict[str, Any]] = [
        {"messages": [system, {"role": "user", "content": question}], "max_tokens": 12}
        for question in questions
    ]
    lines.append({"prompt": "Once upon a time there was", "max_tokens": 5})
    file = tmp_path / "asked.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return file


def _run(backend: str, *more: str | Path) -> Ran:
    return phasewise("run", "--model", "demo", "--backend", backend, *more, timeout_s=TIMEOUT_S)


def test_rows_are_what_was_asked_and_agree_with_a_stopwatch(
    backend: str, asked: Path, tmp_path: Path
) -> None:
    rows, log = tmp_path / "rows.jsonl", tmp_path / "engine.log"
    kept = ("--rows", rows, "--log", log, "--format", "json")
    ran = _run(backend, "--prompts", asked, "--rounds", "1", "--set", "threads=1,context=1024", *kept)
    assert ran.status == 0, ran.err
    run = json.loads(ran.out)
    assert (run["schema"], run["is_complete"], run["tries"]) == ("phasewise.run/1", True, [])
    requests = run["requests"]
    columns = {name for name, f in Request.__dataclass_fields__.items() if not f.metadata["inside"]}
    assert all(columns <= request.keys() for request in requests)
    assert [request["output_tokens"] for request in requests] == [12, 12, 5]
    assert requests[0]["cached_tokens"] == 0
    assert requests[1]["cached_tokens"] > 60
    for request in requests:
        assert request["prompt_tokens"] == request["cached_tokens"] + request["prefill_tokens"]
        gaps = request["inter_token_ms"]
        assert len(gaps) == request["output_tokens"] - 1
        stopwatch_ms = request["ttft_ms"] + sum(gaps)
        assert stopwatch_ms == pytest.approx(request["total_ms"], rel=TOLERANCE, abs=5)
        booked_ms = request["prefill_ms"] + request["decode_ms"]
        assert booked_ms == pytest.approx(request["total_ms"], rel=TOLERANCE, abs=25)
    assert [json.loads(line) for line in rows.read_text("utf-8").splitlines()] == requests

    of_rows, of_log = (_exported(file) for file in (rows, log))
    for row, request in zip(of_rows, requests, strict=True):
        assert {c: row[c] for c in columns - {"source", "line"}} == {
            c: request[c] for c in columns - {"source", "line"}
        }
    for row, request in zip(of_log[-len(requests) :], requests, strict=True):
        for column in ("prompt_tokens", "cached_tokens", "prefill_tokens", "output_tokens"):
            assert row[column] == request[column], column
        for column in ("prefill_ms", "decode_ms"):
            assert row[column] == pytest.approx(request[column], abs=0.01), column


def _exported(file: Path) -> list[dict[str, Any]]:
    ran = phasewise("export", file, "--format", "jsonl")
    assert ran.status == 0, ran.err
    return [json.loads(line) for line in ran.out.splitlines()]


def test_a_trial_says_what_a_change_does(backend: str, asked: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.md"
    report.write_text("# A report\n", "utf-8")
    ran = _run(
        *(backend, "--prompts", asked, "--output", "4", "--rounds", "4", "--set", "threads=1"),
        *("--try", "prefix=kept", "--append-to", report, "--format", "json"),
    )
    assert ran.status == 0, ran.err
    run = json.loads(ran.out)
    (tried,) = run["tries"]
    assert (tried["remedy"], tried["baseline"], tried["pairs"]) == ("prefix=kept", "prefix=broken", 4)
    prefill = next(one for one in tried["outcomes"] if one["phase"] == "prefill")
    assert prefill["verdict"] == "faster"
    assert prefill["low"] < prefill["ratio"] < prefill["high"] < 0.9
    assert tried["measured"]["prefill_ms"] < tried["before"]["prefill_ms"]
    broken, kept = (_evaluated(run, side) for side in ("prefix=broken", "prefix=kept"))
    assert broken > kept + 100
    predicted = tried["predicted"]["prefill_ms"] / tried["before"]["prefill_ms"]
    assert predicted == pytest.approx(kept / broken, rel=0.15)
    text = report.read_text("utf-8")
    assert text.startswith("# A report\n\n## What was tried\n")
    assert "### prefix=kept" in text


def _evaluated(run: dict[str, Any], side: str) -> int:
    """Prompt tokens that a turn of a side evaluated."""
    turn = [one for one in run["requests"] if one["side"] == side]
    assert len({one["block"] for one in turn}) == 4
    return sum(int(one["prefill_tokens"]) for one in turn) // 4


def test_a_side_that_can_t_run_is_told_and_the_others_are_measured(backend: str, tmp_path: Path) -> None:
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("The maps lie on the third shelf. " * 40, "utf-8")
    ran = _run(
        *(backend, "--prompts", prompt, "--output", "12", "--rounds", "4", "--set", "threads=1"),
        *("--try", "context=64", "--try", "output=3", "--format", "json"),
    )
    run = json.loads(ran.out)
    small, short = run["tries"]
    assert small["verdict"] == "not-tried"
    assert small["sentence"].startswith("Not tried. ")
    assert "tokens" in small["sentence"]
    assert small["measured"] is None
    assert next(one for one in short["outcomes"] if one["phase"] == "decode")["verdict"] == "faster"


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT to a child there")
def test_ctrl_c_keeps_what_was_measured(backend: str, asked: Path, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    child = subprocess.Popen(
        [
            *(sys.executable, "-m", "advisor", "run", "--model", "demo", "--backend", backend),
            *("--prompts", str(asked), "--rounds", "50", "--set", "threads=1"),
            *("--rows", str(rows), "--format", "json"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    deadline_s = time.monotonic() + 60
    while not (rows.exists() and rows.read_bytes().count(b"\n") >= 2):
        assert time.monotonic() < deadline_s, "nothing was measured"
        time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=30)
    assert (child.returncode, err) == (130, b"phasewise: interrupted.\n")
    run = json.loads(out)
    assert not run["is_complete"]
    assert len(run["requests"]) >= 2
    assert len(rows.read_text("utf-8").splitlines()) == len(run["requests"])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_a_full_disk_is_told_and_the_rows_are_still_said(backend: str, asked: Path) -> None:
    kept = ("--rows", "/dev/full", "--format", "json")
    ran = _run(backend, "--prompts", asked, "--rounds", "1", "--set", "threads=1", *kept)
    assert ran.status == 2
    one_sentence(ran, "/dev/full", "No space left on device")
    assert len(json.loads(ran.out)["requests"]) == 3


def test_a_prompt_that_does_not_fit_is_one_sentence(backend: str) -> None:
    ran = _run(backend, "--lengths", "900", "--set", "context=512")
    refused(ran, 2, "900", "512")
