"""llama-cpp-python for real: what it says of a request, what its log says, and how it fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from advisor.runner.engine import EngineError
from advisor.runner.engines.llama_cpp_python import _KV_TYPES, LlamaCppPython, Running, _options
from advisor.runner.knobs.values import KV_TYPES
from tests.parsers.reading import read

if TYPE_CHECKING:
    from advisor.runner.engine import Timed
    from advisor.runner.settings import Settings
    from parsers.records import Request

pytestmark = pytest.mark.runner

ROUNDING_MS = 0.0051
PROMPT = list(range(1000, 1060))


def test_its_log_tells_the_same(running: Running, log_path: Path) -> None:
    begin = log_path.stat().st_size
    head = log_path.read_bytes()[:begin]
    asks = [
        (True, PROMPT, 4),
        (False, [*PROMPT, *range(2000, 2020)], 4),  # a stable prefix
        (False, PROMPT[:30], 1),  # all of it is there, and its last token is evaluated again
        (False, [7, *PROMPT], 4),  # a broken prefix
        (False, list(range(3000, 3513)), 3),  # the last token of a batch of its own
        (True, PROMPT, 1),
        (True, [9], 3),
    ]
    timed = []
    for is_fresh, prompt, output in asks:
        if is_fresh:
            running.forget()
        timed.append(running.ask(prompt, output))
    rows = read(head + log_path.read_bytes()[begin:]).requests[-len(asks) :]

    assert [one.cached_tokens for one in timed] == [0, 60, 29, 0, 0, 0, 0]
    is_alone = [one.prefill_tokens == 1 for one in timed]
    assert is_alone == [False, False, True, False, False, False, True]
    for row, one, alone in zip(rows, timed, is_alone, strict=True):
        for column in ("prompt_tokens", "cached_tokens", "prefill_tokens", "output_tokens"):
            assert getattr(row, column) == getattr(one, column), (column, one)
        assert (row.decode_steps or 0) == (one.decode_steps or 0) + alone, one
        assert _both_ms(row) == pytest.approx(_both_ms(one), abs=2 * ROUNDING_MS), one
        if not alone:
            for column in ("prefill_ms", "decode_ms"):
                printed, booked = getattr(row, column), getattr(one, column)
                assert (printed is None) == (booked is None), one
                assert printed is None or printed == pytest.approx(booked, abs=ROUNDING_MS), one


def _both_ms(row: Request | Timed) -> float:
    return (row.prefill_ms or 0) + (row.decode_ms or 0)


def test_the_last_token_of_a_cached_prompt_is_prefill(running: Running) -> None:
    running.forget()
    running.ask(PROMPT, 2)
    again = running.ask(PROMPT, 4)
    assert (again.cached_tokens, again.prefill_tokens, again.decode_steps) == (len(PROMPT) - 1, 1, 3)
    assert again.prefill_ms is not None
    assert again.decode_ms is not None
    assert again.ttft_ms is not None
    assert 0 < again.prefill_ms <= again.ttft_ms
    assert 0 < again.decode_ms <= again.total_ms - again.ttft_ms
    alone = running.ask(PROMPT, 1)
    assert (alone.prefill_tokens, alone.decode_ms, alone.decode_steps) == (1, None, None)
    assert alone.prefill_ms


def test_the_clock_agrees_with_the_counters(running: Running) -> None:
    running.forget()
    timed = running.ask(PROMPT * 5, 16)
    assert timed.ttft_ms is not None
    assert timed.prefill_ms is not None
    assert timed.decode_ms is not None
    assert timed.prefill_ms <= timed.ttft_ms
    assert timed.decode_ms <= sum(timed.inter_token_ms)
    assert len(timed.inter_token_ms) == 15
    assert timed.ttft_ms + sum(timed.inter_token_ms) == pytest.approx(timed.total_ms)


def test_an_exact_repeat_evaluates_nothing(running: Running) -> None:
    running.forget()
    running.ask(PROMPT, 1)
    again = running.ask(PROMPT, 3)
    assert (again.cached_tokens, again.prefill_tokens, again.prefill_ms) == (len(PROMPT), 0, None)
    assert again.decode_steps == 2


def test_forgetting_leaves_nothing_to_reuse(running: Running) -> None:
    running.ask(PROMPT, 2)
    running.forget()
    assert running.ask(PROMPT, 2).cached_tokens == 0


def test_what_it_says_of_itself(running: Running) -> None:
    assert running.version is not None
    assert running.context == 768
    assert any(not one.is_gpu and one.memory_bytes for one in running.processors)
    text = running.chat_text([{"role": "user", "content": "hello"}])
    assert text.startswith("<|im_start|>")
    assert len(running.tokens(text)) < len(text) / 3  # its special tokens are tokens
    with pytest.raises(EngineError, match=r"can't write these messages"):
        running.chat_text([{"role": "user"}])


def test_what_does_not_fit_is_not_sent(running: Running) -> None:
    with pytest.raises(EngineError, match=r"of 760 tokens and 9 to generate don't fit in a context of 768"):
        running.ask([1] * 760, 9)
    assert running.ask([1] * 20, 2).prompt_tokens == 20


def test_prompt_lookup_counts_its_drafts(settings: Settings, tmp_path: Path) -> None:
    with LlamaCppPython().start(replace(settings, lookup=6), tmp_path / "log") as engine:
        timed = engine.ask(list(range(100, 120)) * 10, 24)
        assert [note[:13] for note in engine.notes] == ["Prompt lookup"]
    assert timed.draft_tokens
    assert timed.accepted_tokens is not None
    assert 0 <= timed.accepted_tokens <= timed.draft_tokens
    assert len(timed.inter_token_ms) == 23 - timed.accepted_tokens
    assert timed.decode_steps == 23


def test_settings_arrive(settings: Settings, tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert set(_KV_TYPES) == set(KV_TYPES)
    given = replace(settings, flash_attention=True, kv_type_k="q8_0", kv_type_v="q4_0", batch=640, ubatch=640)
    with LlamaCppPython().start(replace(given, context=9000), log) as engine:
        assert engine.notes == (
            "The context of 9,216 tokens is more than the 8,192 the model was trained on.",
        )
    setup = read(log.read_bytes()).setup
    assert (setup.kv_type_k, setup.kv_type_v, setup.flash_attention) == ("q8_0", "q4_0", True)
    assert (setup.batch, setup.ubatch, setup.context) == (640, 640, 9216)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"context": 40_000_000}, r"A context of 40,000,000 tokens takes 858\.3 GiB .* would fit\.$"),
        ({"kv_type_v": "q8_0"}, r"quantized V cache requires flash_attn to be enabled\.$"),
        ({"kv_type_k": "q9_0"}, r"q9_0: no type of a KV cache"),
        ({"draft_model": Path("x.gguf")}, r"no draft models"),
        ({"model": Path("none.gguf")}, r"none\.gguf: no such file\.$"),
    ],
)
def test_what_can_t_be_loaded(
    changed: dict[str, object], sentence: str, settings: Settings, tmp_path: Path
) -> None:
    with pytest.raises(EngineError, match=sentence):
        LlamaCppPython().start(replace(settings, **changed), tmp_path / "log")  # type: ignore[arg-type]


def test_the_engine_s_own_reason(settings: Settings, tmp_path: Path) -> None:
    cut = tmp_path / "cut.gguf"
    with settings.model.open("rb") as whole:
        cut.write_bytes(whole.read(20_000_000))
    for changed, reason in (
        (replace(settings, model=cut), r"not within the file bounds"),
        (replace(settings, context=40_000_000), r"failed to allocate CPU buffer"),
    ):
        with pytest.raises(EngineError, match=r"llama-cpp-python can't load the model: .*" + reason):
            Running(changed, _options(changed), None, tmp_path / "log")


def _ask_on(engine: Running) -> None:
    for _ in range(1000):
        engine.forget()
        engine.ask(PROMPT * 5, 8)


def test_an_engine_that_is_killed(settings: Settings, tmp_path: Path) -> None:
    engine = LlamaCppPython().start(settings, tmp_path / "log")
    threading.Timer(0.3, psutil.Process(engine._child.pid).kill).start()
    with pytest.raises(EngineError, match=r"^llama-cpp-python can't go on: "):
        _ask_on(engine)
    engine.close()


def test_an_engine_that_is_closed_in_the_midst(settings: Settings, tmp_path: Path) -> None:
    engine = LlamaCppPython().start(settings, tmp_path / "log")
    threading.Timer(0.3, engine.close).start()
    begin_s = time.monotonic()
    with pytest.raises(EngineError):
        _ask_on(engine)
    assert time.monotonic() - begin_s < 10
    assert not engine._child.is_running


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a disk that is full by itself: Linux only")
def test_a_log_that_can_t_be_written(settings: Settings) -> None:
    with pytest.raises(EngineError, match=r"^llama-cpp-python: its log can't be written \(No space left"):
        LlamaCppPython().start(settings, Path("/dev/full"))


@pytest.mark.skipif(sys.platform == "win32", reason="how a process is killed there is another matter")
def test_it_ends_with_who_started_it(settings: Settings, tmp_path: Path) -> None:
    script = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from advisor.runner.engines.llama_cpp_python import LlamaCppPython\n"
        "from advisor.runner.settings import Settings\n"
        "engine = LlamaCppPython().start(Settings(Path(sys.argv[1]), context=256), Path(sys.argv[2]))\n"
        "print(engine._child.pid, flush=True)\n"
        "while True: engine.forget(); engine.ask(range(100, 300), 20)\n"
    )
    words = [sys.executable, "-c", script, str(settings.model), str(tmp_path / "log")]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        os.kill(parent.pid, signal.SIGKILL)
    end_s = time.monotonic() + 10
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < end_s
        time.sleep(0.05)
