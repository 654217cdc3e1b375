"""Logs in an object store are read as if they were here."""

from __future__ import annotations

import gzip
import json
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import TYPE_CHECKING

import pytest

from advisor.crews.packing import packed
from advisor.crews.ray_worker import Stretch, read_stretch
from advisor.errors import InputError
from advisor.parts import Task
from advisor.sources import ranges, stores
from advisor.sources.files import Input
from benchmarks.logs import KINDS, write
from parsers import FORMATS
from tests.advisor.helpers import environment, phasewise, refused

from .logs import BROKEN, COUNT
from .store import BUCKET, KEY, SECRET

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.advisor.helpers import Ran

    from .store import Store

pytestmark = pytest.mark.fleet
ROOT = f"s3://{BUCKET}"


def ask(store: Store, *arguments: str, **changed: str) -> Ran:
    """Run a command with the store's environment; an empty value takes a variable away."""
    return phasewise(*arguments, env=store.environment | changed)


def same(here: Ran, there: Ran, folder: Path) -> None:
    """Both said the same, but for where the logs are."""
    assert there.status == here.status
    assert there.out.replace(f"{ROOT}/logs/", f"{folder}/") == here.out


def test_a_folder_of_a_store_is_analysed_as_one_on_disk(store: Store, logs: Path) -> None:
    here = phasewise("analyze", logs, "--format", "json", "--no-redact")
    there = ask(store, "analyze", f"{ROOT}/logs/", "--format", "json", "--no-redact")
    same(here, there, logs)
    assert here.status == 2
    assert len(json.loads(there.out)["sources"]) == COUNT
    assert f"{BROKEN}: the compressed file is broken or cut off." in there.err
    jobs = ask(store, "analyze", f"{ROOT}/logs/", "--format", "json", "--no-redact", "--jobs", "2")
    same(here, jobs, logs)


@pytest.mark.parametrize("format", ["jsonl", "csv"])
def test_rows_are_the_same(store: Store, logs: Path, format: str) -> None:  # noqa: A002
    same(
        phasewise("export", logs, "--format", format, "--no-redact"),
        ask(store, "export", f"{ROOT}/logs", "--format", format, "--no-redact"),
        logs,
    )


def test_a_pattern_names_what_it_names_on_disk(store: Store, logs: Path) -> None:
    there = ask(store, "analyze", f"{ROOT}/logs/host-[01]?.log.gz", "--format", "json", "--no-redact")
    names = [source["path"] for source in json.loads(there.out)["sources"]]
    assert names == [f"{ROOT}/logs/{path.name}" for path in sorted(logs.glob("host-[01]?.log.gz"))]
    everywhere = ask(store, "analyze", f"{ROOT}/**/host-0?.log", "--format", "json", "--no-redact")
    assert len(json.loads(everywhere.out)["sources"]) == len(list(logs.glob("host-0?.log")))


def test_an_odd_name_is_read(store: Store) -> None:
    there = ask(store, "analyze", f"{ROOT}/odd/x y [1] é.log", "--format", "json", "--no-redact")
    assert [source["path"] for source in json.loads(there.out)["sources"]] == [f"{ROOT}/odd/x y [1] é.log"]


def test_anonymize_reads_it(store: Store, logs: Path) -> None:
    there = ask(store, "anonymize", f"{ROOT}/logs/host-00.log")
    assert there.status == 0
    assert there.raw == phasewise("anonymize", logs / "host-00.log").raw


def test_report_check_and_compare_read_it(store: Store, tmp_path: Path) -> None:
    log, page = f"{ROOT}/logs/host-00.log", tmp_path / "page.html"
    assert ask(store, "report", log, "-o", str(page)).status == 0
    assert "prefill" in page.read_text(encoding="utf-8")
    assert ask(store, "check", log, "--max-ttft-p95", "1h").status == 0
    assert ask(store, "compare", log, log).status == 0


@pytest.mark.parametrize(
    ("path", "changed", "words"),
    [
        ("s3://no-such-bucket/logs/", {}, "there is no bucket no-such-bucket"),
        (f"{ROOT}/nothing.log", {}, "no such object or folder"),
        (f"{ROOT}/logs/*.none", {}, "no object matches this pattern"),
        ("s3:///logs", {}, "name one bucket"),
        (f"s3://{KEY}:{SECRET}@bucket/logs", {}, "credentials belong in the environment"),
        (f"{ROOT}/a//b.log", {}, "no such name is possible"),
        (f"{ROOT}/logs/", {"AWS_ALLOW_HTTP": "false"}, "set AWS_ALLOW_HTTP=true"),
        (f"{ROOT}/logs/", {"AWS_ENDPOINT_URL": "nonsense"}, "AWS_ENDPOINT_URL is no address"),
        (f"{ROOT}/logs/", {"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}, "the store can't be reached"),
    ],
)
def test_what_fails_is_one_sentence(store: Store, path: str, changed: dict[str, str], words: str) -> None:
    ran = ask(store, "analyze", path, **changed)
    refused(ran, 2, words)
    assert SECRET not in ran.err
    assert KEY not in ran.err


def test_what_is_no_log_says_so(store: Store) -> None:
    refused(ask(store, "analyze", f"{ROOT}/empty.log"), 3, "the file is empty")


def test_a_store_is_not_tailed(store: Store) -> None:
    refused(ask(store, "tail", "--plain", f"{ROOT}/logs/host-00.log"), 2, "doesn't grow")


@pytest.fixture
def connected(store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """The store, for this process."""
    for name, value in store.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(ranges, "RANGE", 10_000)
    stores._store.cache_clear()
    yield store
    stores._store.cache_clear()


def test_ranges_join_from_any_byte(connected: Store) -> None:
    body = bytes(range(256)) * 400
    connected.put("ranges.log", body)
    with stores.opened(f"{ROOT}/ranges.log") as remote:
        assert remote.read(15_000) + remote.readall() == body
        for start in (0, 9_999, 10_000, 65_432, len(body)):
            assert remote.seek(start) == start
            assert remote.readall() == body[start:]


def test_an_object_that_changes_is_named(connected: Store) -> None:
    connected.put("changes.log", b"before " * 20_000)
    with stores.opened(f"{ROOT}/changes.log") as remote:
        assert remote.read(1)
        connected.put("changes.log", b"after! " * 20_000)
        with pytest.raises(InputError, match=r"changes\.log: it changed while it was read\."):
            remote.readall()


def first_stretch(name: str) -> Stretch:
    return Stretch(Task(Input(name), formats=(), size=1 << 20), ".", None)


def test_an_object_that_changes_between_stretches_is_named(connected: Store, tmp_path: Path) -> None:
    name, log = f"{ROOT}/stretched.log", tmp_path / "a.log"
    write(log, 2_500_000, KINDS["dense"])
    connected.put("stretched.log", log.read_bytes())
    begun = first_stretch(name)
    _, (_, after) = read_stretch(begun, packed(FORMATS))
    assert after is not None
    source = Input(name, version=after.version)
    task = replace(begun.task, source=source, begin=after.begin, state=after.state)
    connected.put("stretched.log", log.read_bytes()[: after.begin])
    (part,), (_, after) = read_stretch(replace(begun, task=task), packed(FORMATS))
    assert after is None
    assert part.ending is not None
    assert str(part.ending.problem) == f"{name}: it changed while it was read."
    assert part.ending.found is not None
    assert part.ending.found.requests > 0


def test_a_packed_object_is_one_stretch(connected: Store, tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    write(log, 3_000_000, KINDS["dense"])
    body = gzip.compress(log.read_bytes(), 1)
    connected.put("packed.log", body)
    _, (taken, after) = read_stretch(first_stretch(f"{ROOT}/packed.log"), packed(FORMATS))
    assert (taken, after) == (len(body), None)


@contextmanager
def silent(method: str) -> Iterator[tuple[str, Event]]:
    """A store that takes such requests and answers none of them: its address, and that there was one."""
    came, over = Event(), Event()

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            if self.command == method:
                came.set()
                over.wait(60)
            self.send_response(200)
            self.send_header("Content-Length", "50000000")
            self.send_header("ETag", '"x"')
            self.send_header("Last-Modified", "Mon, 30 Nov 2026 10:00:00 GMT")
            self.end_headers()

        def do_GET(self) -> None:
            self.do_HEAD()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", came
        finally:
            over.set()
            server.shutdown()


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT to a child there")
@pytest.mark.parametrize("method", ["HEAD", "GET"])
def test_a_store_that_does_not_answer_is_left_at_once(store: Store, method: str) -> None:
    command = (sys.executable, "-m", "advisor", "analyze", f"{ROOT}/a.log")
    with silent(method) as (endpoint, came):
        env = environment(**store.environment | {"AWS_ENDPOINT_URL": endpoint})
        with subprocess.Popen(command, stdout=-1, stderr=-1, env=env) as child:
            try:
                assert came.wait(30)
                child.send_signal(signal.SIGINT)
                assert child.communicate(timeout=10) == (b"", b"phasewise: interrupted.\n")
            finally:
                child.kill()
        assert child.returncode == 130
