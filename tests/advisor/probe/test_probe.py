"""`phasewise probe` against engines with known times, and against what goes wrong."""

from __future__ import annotations

import json
import time
from concurrent.futures import wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import typer

from advisor.errors import InputError
from advisor.lengths import lengths_of
from advisor.live.opening import TOKEN
from advisor.options import EstimateFormat as ProbeFormat
from advisor.probe import asking
from advisor.probe.asking import ask_all
from advisor.probe.client import ask
from advisor.probe.plan import Kind, Plan, Planned
from advisor.probe.target import Api, Target
from advisor.sources.served.web import NoAnswerError, Web
from advisor.verbs.probe import probe
from tests.advisor.probe.servers import CHAT, COMPLETIONS, OLLAMA, Engine, playing

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future
    from http.server import BaseHTTPRequestHandler

    from advisor.probe.client import Sample
    from tests.advisor.stand import Stand

SIZES = {"lengths": "60,150,400", "output": 10}


@pytest.fixture(autouse=True)
def _no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN, raising=False)


def probed(stand: Stand, capsys: pytest.CaptureFixture[str], **more: Any) -> dict[str, Any]:
    probe(address=stand.address, format=ProbeFormat.JSON, **{**SIZES, **more})
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_one_lane_is_taken_apart_by_the_stream_alone(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with playing(Engine(fixed_s=0.06, token_s=5e-4, step_s=0.01)) as stand:
        found = probed(stand, capsys, rows=tmp_path / "rows.jsonl")
    assert found["schema"] == "phasewise.probe/1"
    assert (found["engine"], found["model"], found["requests"]) == ("unknown", "tiny", 16)
    assert found["is_complete"]
    assert found["decode"]["tok_s"] is not None
    assert found["decode"]["itl_p50_ms"] is not None
    assert [one["prefill_from"] for one in found["lengths"]] == ["stream"] * 3
    queue = found["queue"]
    assert (queue["at_once"], queue["served_at_once"], queue["waited_from"]) == (4, 1, "stream")
    assert queue["waited_ms"][-1] < queue["last_ttft_ms"]
    assert found["alone"]["share"]["queue"] is None
    assert found["cached"]["is_cached"] is not True
    assert found["server"] is None
    assert any(said.startswith("Whether other users' requests were in the way") for said in found["unknown"])
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert len(rows) == 16
    assert {(row["ttft_from"], row["output_tokens"], row["prefill_ms"]) for row in rows} == {
        ("arrival", 10, None)
    }
    assert all(row["ttft_ms"] + row["decode_ms"] == pytest.approx(row["total_ms"], abs=0.01) for row in rows)


def test_what_is_sent_is_said_before(capsys: pytest.CaptureFixture[str]) -> None:
    with playing(Engine()) as stand:
        probe(address=stand.address, **SIZES)
        said = capsys.readouterr()
        sent = [body for _, body in stand.posted]
    assert f"sending 17 requests to {stand.address} (unknown, model tiny): about 3,758 prompt" in said.err
    assert "at most 170 to generate" in said.err
    assert len(sent) == 17
    assert sum(len(body["messages"][0]["content"]) for body in sent) / 5 == pytest.approx(2670, rel=0.25)
    assert all(body["max_tokens"] == 10 and body["stream"] for body in sent)
    assert not any("ignore_eos" in body for body in sent)
    texts = [body["messages"][0]["content"] for body in sent]
    assert len(set(texts)) == 15
    assert len({text[:8] for text in texts}) == 15
    assert "THE ANSWER" in said.out


def test_several_at_once_share_and_that_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with playing(Engine(lanes=8, step_s=0.02)) as stand:
        found = probed(stand, capsys)
    assert found["queue"]["served_at_once"] == 4
    assert found["queue"]["waited_ms"] == [None] * 4
    assert found["together"]["share"]["queue"] is None
    assert any("4 requests got tokens at the same time" in said for said in found["unknown"])


def test_two_lanes(capsys: pytest.CaptureFixture[str]) -> None:
    with playing(Engine(fixed_s=0.06, lanes=2, step_s=0.02)) as stand:
        found = probed(stand, capsys)
    assert found["queue"]["served_at_once"] == 2
    assert sum(bool(ms) for ms in found["queue"]["waited_ms"]) == 2


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
def test_thoughts_are_tokens_and_a_cache_is_seen(key: str, capsys: pytest.CaptureFixture[str]) -> None:
    with playing(Engine(key=key, caches=True, step_s=0.001)) as stand:
        found = probed(stand, capsys)
    assert found["decode"]["tokens_per_event"] == 1
    assert found["cached"]["is_cached"]
    assert found["cached"]["cached_tokens"] == found["cached"]["prompt_tokens"] - 1


def test_without_counts_no_rates(capsys: pytest.CaptureFixture[str]) -> None:
    with playing(Engine(counts=False, step_s=0.001)) as stand:
        found = probed(stand, capsys)
    assert found["prefill"] is None
    assert found["decode"]["tok_s"] is None
    assert {one["prompt_tokens"] for one in found["lengths"]} == {None}
    assert sum("usage" in said for said in found["unknown"]) == 2


def test_events_of_several_tokens(capsys: pytest.CaptureFixture[str]) -> None:
    with playing(Engine(per_event=5)) as stand:
        found = probed(stand, capsys)
    assert found["decode"]["tokens_per_event"] == 5
    assert found["decode"]["itl_p50_ms"] is None
    assert "Gaps between tokens: an event holds 5.0 of them." in found["unknown"]


def test_tokens_of_the_first_event() -> None:
    """By its share of the text, whether an engine holds the first token back or sends it alone."""
    target = Target("unknown", None, None, None, "tiny", Api.CHAT)

    def first_tokens(*texts: str) -> int:
        pieces: list[dict[str, Any]] = [{"choices": [{"delta": {"content": text}}]} for text in texts]
        ends = [{"choices": [{"delta": {}, "finish_reason": "stop"}]}, {"usage": {"completion_tokens": 16}}]
        stand.says(CHAT, "".join(f"data: {json.dumps(said)}\n\n" for said in [*pieces, *ends]).encode())
        return ask(Web(stand.address), target, Planned(Kind.LENGTH, "n", 9), 4.5, 16).first_tokens

    with playing(Engine()) as stand:
        assert first_tokens(*["some four more words"] * 4) == 4
        assert first_tokens("word", *["some four more words"] * 4) == 1
        assert first_tokens("unquestionably", *["a"] * 14) == 1


def test_a_server_that_only_completes(capsys: pytest.CaptureFixture[str]) -> None:
    with playing(Engine(step_s=0.001), COMPLETIONS) as stand:
        found = probed(stand, capsys)
    assert found["api"] == COMPLETIONS
    assert [path for path, _ in stand.posted].count(CHAT) == 1


def test_ollama_by_its_own_api_and_clock(capsys: pytest.CaptureFixture[str]) -> None:
    with playing(Engine(fixed_s=0.02), OLLAMA, ("tiny:latest", "other:7b")) as stand:
        found = probed(stand, capsys, model="tiny")
    assert (found["engine"], found["engine_version"], found["model"]) == ("ollama", "0.31.2", "tiny:latest")
    assert [one["prefill_from"] for one in found["lengths"]] == ["server"] * 3
    assert found["queue"]["waited_from"] == "server"
    assert found["queue"]["waited_ms"][-1] > 50
    assert found["server"]["decode_tok_s"] == pytest.approx(250)


def test_a_stream_that_breaks_off_keeps_what_came(capsys: pytest.CaptureFixture[str]) -> None:
    with playing(Engine(step_s=0.001)) as stand:
        whole = stand.pages[CHAT]
        assert callable(whole)

        def breaks(handler: BaseHTTPRequestHandler) -> None:
            if len(stand.posted) > 5:
                stand.says(CHAT, b'data: {"error": {"message": "out of memory"}}\n\n')
                stand.pages[CHAT] = 200, b'data: {"error": {"message": "out of memory"}}\n\n'
            whole(handler)

        stand.pages[CHAT] = breaks
        with pytest.raises(typer.Exit) as ended:
            probed(stand, capsys)
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert ended.value.exit_code == 2
    assert found["requests"] == 5
    assert not found["is_complete"]
    assert said.err.endswith(f"{stand.address}: it broke off: out of memory.\n")


def test_lengths_that_do_not_fit_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    with playing(Engine(step_s=0.001)) as stand:
        whole = stand.pages[CHAT]
        assert callable(whole)

        def small(handler: BaseHTTPRequestHandler) -> None:
            if len(stand.posted[-1][1]["messages"][0]["content"]) > 1500:
                error = {"message": "This model's maximum context length is 300 tokens."}
                body = json.dumps({"error": error}).encode()
                handler.send_response(400)
                handler.send_header("Content-Length", str(len(body)))
                handler.end_headers()
                handler.wfile.write(body)
            else:
                whole(handler)

        stand.pages[CHAT] = small
        found = probed(stand, capsys)
        assert sum(path == CHAT for path, _ in stand.posted) == 15
    assert [one["aimed_tokens"] for one in found["lengths"]] == [60, 150]
    assert not found["is_complete"]
    assert any(said.startswith("400 prompt tokens: they don't fit") for said in found["unknown"])


def refused(stand: Stand, **more: Any) -> str:
    with pytest.raises(InputError) as caught:
        probe(address=stand.address, **{**SIZES, **more})
    return str(caught.value)


def test_sentences_for_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    with playing(Engine(), models=("one", "two")) as stand:
        assert refused(stand).endswith("has several models; say --model with one of one, two.")
        assert refused(stand, model="three").endswith("has one, two.")
        assert not stand.posted
        stand.says(CHAT, {"detail": "no"}, 401)
        assert "wants a key: put it into PHASEWISE_TOKEN (HTTP 401)" in refused(stand, model="one")
        monkeypatch.setenv(TOKEN, "wrong")
        assert "refuses the key in PHASEWISE_TOKEN (HTTP 401)" in refused(stand, model="one")
        stand.says(CHAT, None)
        assert "it is not OpenAI-compatible (HTTP 404 at /v1/completions" in refused(stand, model="one")
        stand.says(CHAT, {"error": "the model is on fire."}, 500)
        assert refused(stand, model="one").endswith("it refuses (HTTP 500: the model is on fire).")
        stand.says(CHAT, b"not a stream")
        assert "no text that comes in a stream" in refused(stand, model="one")
        stand.says(CHAT, b'data: {"choices": [{"delta": {"content": "And"}}]}\n\n')
        assert refused(stand, model="one").endswith("its answer broke off.")
    assert refused(stand, model="one").endswith("connection refused.")


def test_only_this_machine_and_no_other_by_redirect() -> None:
    with pytest.raises(InputError, match=r"^example\.org is not this machine; say --allow-remote"):
        probe(address="http://example.org:8000")
    with pytest.raises(InputError, match=r"^192\.0\.2\.1 is not this machine"):
        probe(address="http://192.0.2.1:8000")
    with pytest.raises(InputError, match="give an address such as"):
        probe(address="localhost:8000")
    with playing(Engine()) as stand:

        def redirect(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(307)
            handler.send_header("Location", "http://example.org/v1/chat/completions")
            handler.send_header("Content-Length", "0")
            handler.end_headers()

        stand.pages[CHAT] = redirect
        assert refused(stand).endswith("it redirects to another address, which is not followed.")


@pytest.mark.parametrize("lengths", ["", "0", "x", "5,-1", "1000001", ",".join(map(str, range(1, 10)))])
def test_lengths_that_are_none(lengths: str) -> None:
    with pytest.raises(InputError, match="--lengths: give at most 8 prompt lengths"):
        probe(address="http://127.0.0.1:1", lengths=lengths)


def test_lengths_are_sorted_for_a_probe_and_each_taken_once() -> None:
    assert lengths_of("512, 128,512") == (512, 128)


HOSTILE = "/home/bob/\x1b[31mtiny\x9b31m-sk-abcdefghijklmnopqrstuvwx.gguf"


def test_texts_of_the_server_are_cleaned_and_what_is_private_masked(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def told(*, no_redact: bool) -> list[str]:
        rows = tmp_path / "rows.jsonl"
        with playing(Engine(0.001, 2e-5, 2e-4), models=(HOSTILE,)) as stand:
            found = probed(stand, capsys, rows=rows, no_redact=no_redact)
            probe(address=stand.address, **SIZES, no_redact=no_redact)
        said = capsys.readouterr()
        assert not {"\x1b", "\x9b"} & {*said.out, *said.err}
        return [found["model"], *{json.loads(line)["model"] for line in rows.read_text().splitlines()}]

    with playing(Engine(), models=(HOSTILE, "two")) as stand:
        assert refused(stand).endswith("one of /home/bob/tiny31m-sk-abcdefghijklmnopqrstuvwx.gguf, two.")
    assert told(no_redact=True) == ["/home/bob/tiny31m-sk-abcdefghijklmnopqrstuvwx.gguf"] * 2
    for model in told(no_redact=False):
        assert "bob" not in model
        assert "abcdefgh" not in model


def test_rows_that_can_not_be_kept(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="give a file; standard output is for the result"):
        probe(address="http://127.0.0.1:1", rows=Path("-"))
    with pytest.raises(InputError, match="can't be written"):
        probe(address="http://127.0.0.1:1", rows=tmp_path)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_is_a_fault(capsys: pytest.CaptureFixture[str]) -> None:
    with playing(Engine(step_s=0.001)) as stand, pytest.raises(typer.Exit) as ended:
        probed(stand, capsys, rows=Path("/dev/full"))
    said = capsys.readouterr()
    assert ended.value.exit_code == 2
    assert json.loads(said.out)["is_complete"]
    assert "/dev/full: later rows are missing" in said.err


def test_what_is_cut_while_it_connects_is_never_sent() -> None:
    with playing(Engine(hangs=True)) as stand:
        web = Web(stand.address, answer_s=3)

        def trace(event: str) -> None:
            if event == "connection.connect_tcp.started":
                web.cut()

        with pytest.raises(NoAnswerError) as caught, web.post(CHAT, {}, trace):
            pass
        assert not caught.value.is_late
        web.close()
        assert not stand.posted


def test_ctrl_c_while_a_request_hangs_keeps_what_came(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(step_s=0.001)
    target = Target("unknown", None, None, None, "tiny", Api.CHAT)
    await_all = asking._await

    def interrupted(jobs: Sequence[Future[Sample]]) -> None:
        if not engine.hangs:
            await_all(jobs)
            return
        wait(jobs, 0.3)
        raise KeyboardInterrupt

    monkeypatch.setattr(asking, "_await", interrupted)
    with playing(engine) as stand:
        steps = 0

        def tell(_: object) -> None:
            nonlocal steps
            steps += 1
            engine.hangs = steps == 4

        began_s = time.monotonic()
        asked = ask_all(target, Plan((40, 80), 4), lambda: Web(stand.address), tell)
        took_s = time.monotonic() - began_s
    assert asked.is_interrupted
    assert len(asked.samples) == 2
    assert took_s < 15  # not until the request's own end, which is later
