"""A running engine watched over HTTP: what goes wrong, and that nothing is given away or counted twice."""

from __future__ import annotations

import gzip
import re
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from advisor.errors import InputError
from advisor.sources.served import Served, web
from advisor.sources.served.engines import look
from advisor.sources.served.round import Round
from advisor.sources.served.watch import Watch
from advisor.sources.served.web import ANSWER_S, Answer, NoAnswerError, Web
from parsers.formats import FORMATS
from parsers.formats.prometheus.scrape import scrapers
from parsers.records import Aggregate, Interval
from tests.advisor.stand import (
    PROPS,
    TOKEN,
    VLLM,
    Stand,
    answered,
    has_sums,
    llama,
    notes_of,
    rows_of,
    send,
    standing,
    summed,
    watching,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from http.server import BaseHTTPRequestHandler
    from pathlib import Path


def test_a_restart_is_a_new_run_that_counts_from_zero() -> None:
    with standing() as stand:
        stand.says("/props", PROPS)
        llama(stand, prompt=1000, output=100)
        with watching(stand) as served:
            answered(served, 2)
            llama(stand, prompt=1100, output=110)
            rows = rows_of(served, has_sums)
            stand.says("/props", {**PROPS, "build_info": "b12000-x"})
            llama(stand, prompt=30, output=3)
            rows += rows_of(served, has_sums)
            assert notes_of(served, "restarted") == [f"{served.name}: restarted: its counters began anew."]
            answered(served, 3)
            setups = served.setups
    assert [(row.run, row.prefill_tokens) for row in rows if isinstance(row, Aggregate)] == [
        (0, 100),
        (1, 30),
    ]
    assert [setup.engine_version for setup in setups] == ["b11434", "b12000"]


def test_a_restart_that_counted_more_meanwhile_is_seen_by_its_start() -> None:
    def started(at: int, output: int) -> bytes:
        body = b"\n".join(
            line
            for line in (VLLM / "metrics_during.txt").read_bytes().splitlines()
            if b"_created" not in line
        )
        assert b"process_start_time_seconds" in body
        body = re.sub(rb"(?m)^process_start_time_seconds .*$", b"process_start_time_seconds %d" % at, body)
        return re.sub(rb"(?m)^(vllm:generation_tokens_total\{.*\}) .*$", rb"\1 %d" % output, body)

    with standing() as stand:
        stand.says("/metrics", started(1_700_000_000, 452))
        with watching(stand) as served:
            answered(served, 2)
            stand.says("/metrics", started(1_700_009_000, 999))
            rows = rows_of(served, has_sums)
            assert "restarted" in notes_of(served, "restarted")[0]
    assert summed(rows, "requests") == 15


def test_several_engines_behind_one_address_are_not_summed_up() -> None:
    turn = {"n": 0}

    def in_turn(handler: BaseHTTPRequestHandler) -> None:
        turn["n"] += 1
        output = (5000 if turn["n"] % 2 else 70) + turn["n"]
        name = "llamacpp:tokens_predicted_total"
        send(handler, 200, f"# TYPE {name} counter\n{name} {output}\n".encode())

    with standing() as stand:
        stand.pages["/metrics"] = in_turn
        with watching(stand) as served:
            rows = answered(served, 10)
            notes = served.notes()
    assert len(served.setups) == 1
    assert summed(rows, "output_tokens") <= turn["n"]
    assert [note for note in notes if "several engines" in note] == notes
    assert len(notes) == 1


def test_the_time_of_an_answer_is_when_its_numbers_came() -> None:
    """Who answers is asked after that, and may take a while to say so."""

    def later(handler: BaseHTTPRequestHandler) -> None:
        time.sleep(0.3)
        send(handler, 200, b'{"version": "0.32.0"}')

    body = b"""# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{model_name="m"} 1
vllm:num_requests_waiting{model_name="m"} 0
vllm:prompt_tokens_total{model_name="m"} 100
vllm:generation_tokens_total{model_name="m"} %d
"""
    with standing() as stand:
        stand.says("/metrics", body % 100)
        stand.pages["/version"] = later
        with watching(stand) as served:
            rows = answered(served, 1)
            stand.says("/metrics", body % 130)
            rows += answered(served, 1)
    first, second = (row for row in rows if isinstance(row, Interval))
    assert first.span_ms is None
    assert second.span_ms is not None
    assert second.span_ms >= 300
    assert first.time is not None
    assert second.time is not None
    assert (second.time - first.time).total_seconds() * 1000 == pytest.approx(second.span_ms, abs=200)


def test_a_fault_of_ours_ends_it_with_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(_: Web, path: str) -> Answer:
        raise RuntimeError("secret")

    with standing() as stand:
        llama(stand, prompt=5, output=5)
        with watching(stand) as served:
            answered(served, 2)
            monkeypatch.setattr(Web, "get", breaks)
            end_s = time.monotonic() + 10
            while served.read(0.05) is not None:
                assert time.monotonic() < end_s
            assert served.notes() == [
                f"{served.name}: asking it broke off by a fault of phasewise (RuntimeError)."
            ]
            assert served.read(0.05) is None
            assert served.notes() == []


def test_a_model_that_is_unloaded_and_loaded_again() -> None:
    def body(**models: int) -> bytes:
        lines = ["# TYPE vllm:num_requests_running gauge"]
        for name, done in models.items():
            label = f'{{model_name="{name}"}}'
            lines += [
                f"vllm:num_requests_running{label} 1",
                f"vllm:num_requests_waiting{label} 0",
                f"vllm:prompt_tokens_total{label} {done * 100}",
                f"vllm:generation_tokens_total{label} {done * 10}",
                f"vllm:e2e_request_latency_seconds_sum{label} {done}",
                f"vllm:e2e_request_latency_seconds_count{label} {done}",
            ]
        return ("\n".join(lines) + "\n").encode()

    known, watch, rows = scrapers(FORMATS), Watch("s"), []
    for at, done in enumerate(
        ({"a": 5, "b": 50}, {"a": 6, "b": 55}, {"a": 7}, {"b": 56}, {"b": 2}, {"a": 8})
    ):
        pages = {"/metrics": Answer(200, "", body(**done))}
        looked = look(lambda path: pages.get(path, Answer(404, "", b"")), known) if not at else None  # noqa: B023
        if at == 4:
            assert watch.notes() == []
            watch.take(Round(datetime.now(UTC), at - 0.5, {"/metrics": Answer(200, "", body(a=7))}))
        rows += watch.take(Round(datetime.now(UTC), float(at), pages, looked))
    sums = [row for row in rows if isinstance(row, Aggregate)]
    assert [(row.model, row.requests, row.span_ms) for row in sums] == [
        ("a", 1, 1000.0),
        ("b", 5, 1000.0),
        ("a", 1, 1000.0),
        ("b", 1, 2000.0),
        ("b", 2, 500.0),
        ("a", 1, 1500.0),
    ]
    assert [row.decode_tok_s for row in rows if isinstance(row, Interval)][-3:] == [
        5.0,
        40.0,
        pytest.approx(6.667, abs=0.001),
    ]
    assert watch.notes() == ["s: b was loaded again: its counters began anew."]


def test_an_engine_that_goes_away_and_comes_back() -> None:
    stand = Stand()
    stand.says("/props", PROPS)
    llama(stand, prompt=10, output=10)
    with standing(stand):
        port = int(stand.address.rpartition(":")[2])
        served = Served(stand.address, every_s=0.02)
        answered(served, 2)
    notes = notes_of(served, "no answer")
    answered(served, 2)
    assert served.notes() == []
    llama(stand, prompt=30, output=15)
    with standing(stand, port):
        back = notes_of(served, "answers again")
        served.close()
    assert len(notes) == 1
    assert re.search(r"no answer \(.*\); trying again\.$", notes[0])
    assert back == [f"{served.name}: answers again."]
    assert served.read(0.1) is None


def test_a_key_is_asked_for_sent_there_alone_and_never_shown() -> None:
    def guarded(handler: BaseHTTPRequestHandler) -> None:
        ok = handler.headers["Authorization"] == f"Bearer {TOKEN}"
        body = (
            b"# TYPE llamacpp:prompt_tokens_total counter\nllamacpp:prompt_tokens_total 5\n" if ok else b"no"
        )
        send(handler, 200 if ok else 401, body)

    with standing() as stand:
        stand.pages["/metrics"] = guarded
        with watching(stand) as served:
            assert notes_of(served, "PHASEWISE_TOKEN") == [
                f"{served.name}: it asks for a key; set the environment variable PHASEWISE_TOKEN to it."
            ]
            assert set(stand.paths()) == {"/metrics"}
        with watching(stand, token="wrong") as served:
            assert "refuses the key" in notes_of(served, "PHASEWISE_TOKEN")[0]
        with watching(stand, token=TOKEN) as served:
            answered(served, 2)
            assert (served.engine, served.notes()) == ("llama-server", [])
        stand.address = stand.address.replace("//", "//me:pass%20word@")
        with watching(stand, token=TOKEN) as served:
            notes = notes_of(served, "refuses")
    assert stand.asked[-1][1] == "Basic bWU6cGFzcyB3b3Jk"
    assert "pass" not in served.name + str(notes).replace("password", "")
    assert "name and password" in notes[0]
    with pytest.raises(InputError) as refused:
        Web("http://127.0.0.1:1", token="two\nlines")
    assert "lines" not in str(refused.value)


def test_proxies_and_passwords_of_the_environment_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password secret\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with standing() as stand:
        llama(stand, prompt=5, output=5)
        with watching(stand) as served:
            answered(served, 1)
        assert {key for _, key in stand.asked} == {None}


def redirecting(target: str) -> Callable[[BaseHTTPRequestHandler], None]:
    def redirect(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(307)
        handler.send_header("Location", target)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return redirect


def test_redirects_stay_on_the_host_and_port() -> None:
    with standing() as other, standing() as stand:
        stand.pages["/metrics"] = redirecting("/metrics/")
        stand.says(
            "/metrics/", b"# TYPE llamacpp:prompt_tokens_total counter\nllamacpp:prompt_tokens_total 5\n"
        )
        with watching(stand, token=TOKEN) as served:
            answered(served, 2)
            assert served.engine == "llama-server"
        for target in (
            f"{other.address}/metrics",
            "//elsewhere.example/",
            "https://127.0.0.1/",
            "file:///etc/passwd",
        ):
            stand.pages["/metrics"] = redirecting(target)
            with watching(stand, token=TOKEN) as served:
                (note,) = notes_of(served, "redirects")
                assert note.endswith(
                    "no answer (it redirects to another address, which is not followed); trying again."
                )
        stand.pages["/metrics"] = redirecting("/metrics")
        with watching(stand) as served:
            assert notes_of(served, "again and again")
        assert other.asked == []


def drip(handler: BaseHTTPRequestHandler) -> None:
    handler.close_connection = True
    handler.send_response(200)
    handler.send_header("Content-Length", "100000")
    handler.end_headers()
    for _ in range(1000):
        handler.wfile.write(b"#")
        time.sleep(0.02)


def drip_head(handler: BaseHTTPRequestHandler) -> None:
    handler.close_connection = True
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
    for _ in range(1000):
        handler.wfile.write(b"x")
        time.sleep(0.02)


def flood(handler: BaseHTTPRequestHandler) -> None:
    handler.close_connection = True
    handler.send_response(200)
    handler.end_headers()
    for _ in range(64):
        handler.wfile.write(b"# TYPE " * 2048)


def garbage(handler: BaseHTTPRequestHandler) -> None:
    handler.close_connection = True
    handler.wfile.write(b"\x1b]0;gotcha\x07 220 ready " + TOKEN.encode() + b"\r\n\r\n")


def large_head(handler: BaseHTTPRequestHandler) -> None:
    handler.close_connection = True
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    for number in range(20_000):
        handler.wfile.write(b"X-%d: %s\r\n" % (number, b"x" * 500))


def soon(handler: BaseHTTPRequestHandler) -> None:
    handler.close_connection = True
    for _ in range(1000):
        handler.wfile.write(b"HTTP/1.1 102 Processing\r\n\r\n")
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("page", "answer_s", "words"),
    [
        (large_head, 20.0, "not HTTP"),
        (soon, 0.3, "not within 0.3 s"),
        (drip, 0.3, "not within 0.3 s"),
        (drip_head, 0.3, "not within 0.3 s"),
        (flood, 20.0, "larger than"),
        (garbage, 20.0, "not HTTP"),
    ],
)
def test_answers_that_are_none(
    page: Callable[[BaseHTTPRequestHandler], None],
    answer_s: float,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(web, "LARGEST_BYTES", 100_000)
    with standing() as stand:
        stand.pages["/metrics"] = page
        asked = Web(stand.address, answer_s=answer_s, token=TOKEN)
        began_s = time.monotonic()
        with pytest.raises(NoAnswerError, match=words) as refused:
            asked.get("/metrics")
        asked.close()
    assert time.monotonic() - began_s < 10
    assert TOKEN not in str(refused.value)
    assert "gotcha" not in str(refused.value)


@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd", "deflate"])
def test_an_answer_is_not_unpacked(encoding: str) -> None:
    packed = gzip.compress(b"# TYPE " * (8 << 20), mtime=0)

    def bomb(handler: BaseHTTPRequestHandler) -> None:
        assert handler.headers["Accept-Encoding"] == "identity"
        handler.send_response(200)
        handler.send_header("Content-Encoding", encoding)
        handler.send_header("Content-Length", str(len(packed)))
        handler.end_headers()
        handler.wfile.write(packed)

    with standing() as stand:
        stand.pages["/metrics"] = bomb
        asked = Web(stand.address)
        assert asked.get("/metrics").body == packed
        asked.close()


def test_closing_does_not_wait_for_an_answer() -> None:
    with standing() as stand:
        stand.pages["/metrics"] = drip
        served = Served(stand.address)
        assert served.read(0.2) == []
        began_s = time.monotonic()
        served.close()
        assert time.monotonic() - began_s < ANSWER_S / 2
        assert served.read(0.1) is None


@pytest.mark.parametrize(
    "body", [b"<html>hello</html>", b"{}", b"", b"\xff\xfe\x00", gzip.compress(b"x" * 999, mtime=0)]
)
def test_a_page_that_is_no_metrics(body: bytes) -> None:
    with standing() as stand:
        stand.says("/metrics", body)
        with watching(stand) as served:
            assert notes_of(served, "no engine") == [
                f"{served.name}: answers, but as no engine whose addresses I know; trying again."
            ]
            llama(stand, prompt=5, output=5)
            assert notes_of(served, "answers again")
            stand.says("/metrics", body)
            assert notes_of(served, "not with metrics")


def test_a_model_that_loads() -> None:
    with standing() as stand:
        stand.says("/metrics", b'{"error": {"message": "Loading model"}}', 503)
        with watching(stand) as served:
            assert "loads its model" in notes_of(served, "503")[0]


def test_numbers_that_can_not_be_are_left_out() -> None:
    body = (
        b"# TYPE llamacpp:prompt_tokens_total counter\nllamacpp:prompt_tokens_total %s\n"
        b"llamacpp:tokens_predicted_total 1.2.3\nllamacpp:requests_processing{ 1\n"
    )
    with standing() as stand:
        stand.says("/metrics", body % b"5")
        with watching(stand) as served:
            answered(served, 2)
            for value in (b"NaN", b"-7", b"1e999", b"9" * 400):
                stand.says("/metrics", body % value)
                answered(served, 2)
            assert served.counts.impossible_values > 0


@pytest.mark.parametrize(
    ("given_address", "words"),
    [
        ("ftp://host/", "give an address such as http://127.0.0.1:8080"),
        ("http://", "give an address"),
        ("http://[::1", "no address"),
        ("http://host:99999", "no address"),
        ("http://me:secret@host?key=secret", "without"),
    ],
)
def test_what_is_no_address(given_address: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as refused:
        Served(given_address)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("path", ["", "/", "/metrics", "/v1", "/props/"])
def test_an_address_with_a_path(path: str) -> None:
    with standing() as stand:
        llama(stand, prompt=5, output=5)
        stand.says("/under/metrics", stand.pages["/metrics"][1])  # type: ignore[index]
        for under in ("", "/under"):
            served = Served(f"{stand.address}{under}{path}", every_s=0.02)
            assert served.name == f"{stand.address}{under}"
            answered(served, 1)
            served.close()
            assert served.engine == "llama-server"
