"""The runner's engine without a compiler: its answers are what its log says, and what was waited."""

from __future__ import annotations

import json
import os
import signal
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from advisor.runner.engine import EngineError
from advisor.runner.engines.xllamacpp import LlamaServer, Xllamacpp
from advisor.runner.settings import Settings
from advisor.runner.workload import prose
from advisor.sources.served.web import Web
from parsers import read_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.engine

PRINTED_TO_MS = 0.005 + 1e-9


@contextmanager
def engine(model: Path, folder: Path, **more: object) -> Iterator[LlamaServer]:
    settings = replace(Settings(model, context=512, threads=1, threads_batch=1), **more)  # type: ignore[arg-type]
    with Xllamacpp().start(settings, folder / "engine.log") as started:
        yield started


def test_the_log_says_what_the_engine_said(model_path: Path, tmp_path: Path) -> None:
    with engine(model_path, tmp_path, ubatch=128, kv_type_k="q8_0", draft_model=model_path) as started:
        prompt = started.tokens(prose("maps", 500))
        asked = [(prompt, 9), (prompt, 1), (prompt[:50] + prompt[:20], 8), (prompt[1:], 7)]
        said = [started.ask(tokens, output) for tokens, output in asked]
    rows = read_rows(tmp_path / "engine.log").requests.to_dicts()
    assert len(rows) == len(said)
    for row, timed in zip(rows, said, strict=True):
        for column in ("prompt_tokens", "cached_tokens", "prefill_tokens", "output_tokens", "decode_steps"):
            assert row[column] == getattr(timed, column), column
        assert row["prefill_ms"] == pytest.approx(timed.prefill_ms, abs=PRINTED_TO_MS)
        assert row["decode_ms"] == pytest.approx(timed.decode_ms, abs=PRINTED_TO_MS)
        assert (row["draft_tokens"] or 0, row["accepted_tokens"] or 0) == (
            timed.draft_tokens or 0,
            timed.accepted_tokens or 0,
        )
    assert [timed.output_tokens for timed in said] == [9, 1, 8, 7]
    assert [timed.cached_tokens for timed in said] == [0, len(prompt) - 1, 50, 0]
    assert said[0].accepted_tokens
    assert (said[1].prefill_tokens, said[1].decode_steps) == (1, 0)  # the last of a prompt is prefill
    for timed in said:
        assert timed.prefill_ms is not None
        assert timed.ttft_ms is not None
        assert timed.prefill_ms <= timed.ttft_ms <= timed.total_ms
        assert len(timed.inter_token_ms) == timed.output_tokens - 1 - (timed.accepted_tokens or 0)
        assert sum(timed.inter_token_ms) <= timed.total_ms - timed.ttft_ms + 1e-6


def test_nobody_else_is_answered(model_path: Path, tmp_path: Path) -> None:
    with engine(model_path, tmp_path) as started:
        timed = started.ask(list(range(1000, 1020)), 6)
        assert 0 < len(timed.inter_token_ms) <= 5
        asked = json.loads(psutil.Process(started.pid).cmdline()[-1])
        assert Path(asked["slot_save_path"]).is_dir()
        stranger = Web(started._web.name)
        assert stranger.get("/props").status == 401
        stranger.close()
        key = started._web._headers["Authorization"].removeprefix("Bearer ")
        assert key not in str(asked)
    assert key not in (tmp_path / "engine.log").read_text()
    assert not Path(asked["slot_save_path"]).exists()


def test_nothing_is_reused_after_forgetting(model_path: Path, tmp_path: Path) -> None:
    with engine(model_path, tmp_path, lookup=4) as started:
        one, other = (started.tokens(prose(name, 200)) for name in ("one", "other"))
        assert [started.ask(one, 2).cached_tokens for _ in range(2)] == [0, len(one) - 1]
        started.forget()
        assert started.ask(one, 2).cached_tokens == 0
        started.ask(other, 2)
        assert started.ask(one, 2).cached_tokens == 0  # nothing is kept aside either
        assert started.tokens(started.chat_text([{"role": "user", "content": "Hi"}]))
        assert started.processors[0].memory_bytes


def test_what_does_not_fit_is_refused_with_numbers(model_path: Path, tmp_path: Path) -> None:
    with engine(model_path, tmp_path) as started:
        with pytest.raises(EngineError, match=r"508 prompt tokens and 5 to generate .* 512 tokens\.$"):
            started.ask([1] * 508, 5)
        assert started.ask([1] * 508, 4).output_tokens == 4
        with pytest.raises(EngineError, match="llama-server refuses: "):
            started.chat_text([{"role": "user"}])


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"flash_attention": False, "kv_type_v": "q8_0"}, "quantized V cache requires flash_attn"),
        ({"kv_type_k": "q9"}, "cache_type_k can't be GGML_TYPE_Q9"),
        ({"lookup": 4, "draft_model": "any.gguf"}, "choose one"),
        ({"draft_model": __file__}, "can't load the model: .*magic"),
    ],
)
def test_why_it_does_not_start(model_path: Path, tmp_path: Path, more: dict[str, object], why: str) -> None:
    with pytest.raises(EngineError, match=why) as caught, engine(model_path, tmp_path, **more):
        pass
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_model(model_path: Path, tmp_path: Path) -> None:
    (tmp_path / "no.gguf").write_text("no model")
    with pytest.raises(EngineError, match=r"can't load the model: .*magic"):
        Xllamacpp().start(Settings(tmp_path / "no.gguf"), tmp_path / "engine.log")


def test_a_context_larger_than_trained_is_told(model_path: Path, tmp_path: Path) -> None:
    with engine(model_path, tmp_path, context=9000) as started:
        assert started.context == 8192
        assert "8,192 tokens, not 9,000" in started.notes[0]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no such signal")
def test_an_engine_that_is_killed(model_path: Path, tmp_path: Path) -> None:
    with engine(model_path, tmp_path) as started:
        os.kill(started.pid, signal.SIGKILL)
        with pytest.raises(EngineError, match="it was killed"):
            started.ask([1, 2, 3], 2)
