"""What is read with the cache is what is read without it, whatever happened to the log or to the cache."""

from __future__ import annotations

import bz2
import gzip
import os
import shutil
import stat
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor import interrupt
from advisor.cache import entries, keeping
from advisor.cache import log as cached_log
from advisor.crews.here import Here
from advisor.progress import Meter
from advisor.reading import Reading, read
from parsers import FORMATS
from parsers.records import TABLES
from tests.advisor.helpers import ROOT, SAMPLES, environment, phasewise

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import polars as pl

    from advisor.parts import Part, Task

CHAT = SAMPLES / "llama-server-chat.log"
LOGS = sorted([*SAMPLES.glob("*.log"), *(ROOT / "tests" / "logs").rglob("server.log")])
TEXT = CHAT.read_bytes()
LARGE = TEXT + b"nothing of interest\n" * (cached_log.SMALLEST // 20)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own, which small logs are kept in too."""
    monkeypatch.setenv("PHASEWISE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(cached_log, "SMALLEST", 1)
    return tmp_path / "cache" / "logs"


def _told(reading: Reading) -> tuple[Any, ...]:
    frames = [getattr(reading.tables, table).to_dicts() for table in TABLES]
    setups = [setup.model_dump() for setup in reading.setups]
    return frames, reading.sources, setups, reading.counts, reading.problems, reading.unrecognised


@dataclass
class Run:
    """A reading with the cache, and how much of the logs was read for it."""

    told: tuple[Any, ...]
    begins: list[int] = field(default_factory=list)
    said: list[str] = field(default_factory=list)


class _Seen(Here):
    """Remembers where tasks begin."""

    def __init__(self, begins: list[int]) -> None:
        super().__init__()
        self._begins = begins

    def parts(self, tasks: Sequence[Task]) -> Iterator[tuple[int, Part]]:
        self._begins += [task.begin for task in tasks]
        return super().parts(tasks)


def _cached(*paths: Path, **more: Any) -> Run:
    begins: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("advisor.reading.chosen", lambda *_, **__: _Seen(begins))
        patch.setattr("advisor.cache.Here", lambda **_: _Seen(begins))
        said: list[str] = []
        reading = read([str(path) for path in paths], cached=said.append, **more)
    return Run(_told(reading), begins, said)


def _plain(*paths: Path, **more: Any) -> tuple[Any, ...]:
    return _told(read([str(path) for path in paths], **more))


_before: list[Any] = []
"""The logs that were read last, and what they told without the cache."""


def _same(*paths: Path, begins: list[int] | None = None, **more: Any) -> Run:
    """Require the same with the cache, read from these places on; those known whole are not read."""
    run = _cached(*paths, **more)
    state = [more, *((path, path.stat().st_size, path.stat().st_mtime_ns) for path in paths)]
    if _before[:1] != [state]:
        _before[:] = state, _plain(*paths, **more)
    assert run.told == _before[1]
    assert not run.said
    if begins is not None:
        assert run.begins == begins
    return run


@pytest.mark.parametrize("source", LOGS, ids=lambda path: "-".join(path.parts[-2:]))
def test_a_log_that_grows(source: Path, tmp_path: Path) -> None:
    text, log = source.read_bytes(), tmp_path / "a.log"
    half = len(text) // 2
    log.write_bytes(text[:half])
    _same(log, begins=[0])
    with log.open("ab") as file:
        file.write(text[half:])
    _same(log, begins=[half])
    _same(log, begins=[])


@settings(max_examples=10, deadline=None)
@given(st.data())
def test_appended_in_any_pieces(data: st.DataObject) -> None:
    """Cut anywhere: in lines, in characters, between a carriage return and its newline; with restarts."""
    source = data.draw(st.sampled_from(LOGS[:6]))
    text = source.read_bytes()[:40_000]
    text = data.draw(st.sampled_from([text, text + text, text.replace(b"\n", b"\r\n"), _accented(text)]))
    cuts = sorted({*data.draw(st.lists(st.integers(1, len(text) - 1), min_size=1, max_size=4)), len(text)})
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PHASEWISE_CACHE_DIR", folder)
        patch.setattr(keeping, "_ROWS", data.draw(st.sampled_from([1, 7, 1 << 17])))
        patch.setattr(keeping, "_MOST_SMALL", data.draw(st.sampled_from([0, 3, 32])))
        log, at = Path(folder) / "a.log", 0
        for cut in cuts:
            with log.open("ab") as file:
                file.write(text[at:cut])
            _same(log, begins=[at])
            at = cut


def _accented(text: bytes) -> bytes:
    return text.replace(b"\n", " ✓ né à 東京\n".encode())


def test_whatever_happens_to_the_log_in_place(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(TEXT)
    _same(log, begins=[0])
    later = TEXT.replace(b"task", b"tusk")
    for change in (
        lambda: _edited(log, b"~"),  # one byte, with the time put back
        lambda: log.write_bytes(later),  # as long as before
        lambda: log.write_bytes(TEXT[: len(TEXT) // 2]),  # truncated
        lambda: log.write_bytes(later[100:] + TEXT),  # truncated, and written further than before
        lambda: _replaced(log, TEXT),
        lambda: (log.rename(tmp_path / "a.log.1"), log.write_bytes(TEXT)),  # rotated
        lambda: _replaced(log, TEXT + TEXT),
    ):
        time.sleep(0.02)  # a clock of the file system may be as coarse as that
        change()
        assert _same(log).begins[-1] == 0
        _same(log, begins=[])


def _edited(log: Path, text: bytes) -> None:
    before = log.stat()
    with log.open("r+b") as file:
        file.seek(len(TEXT) // 3)
        file.write(text)
    os.utime(log, ns=(before.st_atime_ns, before.st_mtime_ns))


def _replaced(log: Path, text: bytes) -> None:
    """As editors save, and as tools do that keep the time."""
    before = log.stat()
    other = log.with_suffix(".new")
    other.write_bytes(text)
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(log)


def test_one_that_was_only_touched_is_not_read_again(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(TEXT)
    _same(log)
    later = time.time() + 60
    os.utime(log, (later, later))
    _same(log, begins=[len(TEXT)])
    _same(log, begins=[])


def test_any_byte_that_changed_is_noticed_though_the_log_grew(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(TEXT)
    _same(log)
    for at in (10, 20_000, len(TEXT) - 100):
        with log.open("r+b") as file:
            file.seek(at)
            file.write(b"~")
            file.seek(0, os.SEEK_END)
            file.write(TEXT[:5000])
        assert _same(log).begins[-1] == 0


def test_overwritten_while_it_is_read(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(TEXT)

    def overwriting(table: str, frame: pl.DataFrame) -> None:
        with log.open("r+b") as file:
            file.write(TEXT.replace(b"task", b"tusk"))

    read([str(log)], cached=lambda _: None, take=overwriting)
    _same(log)
    _same(log, begins=[])


@pytest.mark.parametrize("more", [b"", TEXT[:5000]], ids=["whole", "grown"])
@pytest.mark.parametrize("new", [LOGS[0].read_bytes() + TEXT * 3, b"\n" * 9, b"\x1f\x8b" + TEXT * 3])
def test_rotated_before_it_is_its_turn(new: bytes, more: bytes, tmp_path: Path) -> None:
    logs = [tmp_path / "a.log", tmp_path / "b.log"]
    for log in logs:
        log.write_bytes(TEXT)
    _same(*logs)
    logs[1].write_bytes(TEXT + more)
    rows: dict[str, list[dict[str, Any]]] = {table: [] for table in TABLES}

    def rotating(table: str, frame: pl.DataFrame) -> None:
        if not any(rows.values()):
            logs[1].rename(tmp_path / "b.log.1")
            logs[1].write_bytes(new)
        rows[table] += frame.to_dicts()

    reading = read([str(log) for log in logs], cached=lambda _: None, take=rotating)
    frames, sources, *_ = _plain(*logs)
    assert list(rows.values()) == frames
    assert reading.sources == sources
    _same(*logs)


@pytest.mark.parametrize("suffix", ["arrow", "state", None])
def test_all_bytes_are_counted_once(suffix: str | None, tmp_path: Path, folder: Path) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(TEXT)
    for more in (b"", TEXT[:5000], b""):
        with log.open("ab") as file:
            file.write(more)
        meter = Meter()
        read([str(log)], cached=lambda _: None, meter=meter)
        assert meter.taken == meter.total == log.stat().st_size
        for path in folder.rglob(f"*.{suffix}"):
            path.write_bytes(b"broken")


@pytest.mark.parametrize(("suffix", "pack"), [("gz", gzip.compress), ("bz2", bz2.compress)])
def test_a_compressed_log_is_kept_whole(suffix: str, pack: Any, tmp_path: Path) -> None:
    log = tmp_path / f"a.log.{suffix}"
    log.write_bytes(pack(TEXT[:20_000]))
    _same(log, begins=[0])
    _same(log, begins=[])
    with log.open("ab") as file:
        file.write(pack(TEXT[20_000:]))
    _same(log, begins=[0])
    _same(log, begins=[])
    log.write_bytes(log.read_bytes()[:-9])
    assert _same(log, begins=[0]).told[4]
    _same(log, begins=[0])


def test_what_cannot_be_gone_on_with_is_not_kept(tmp_path: Path, folder: Path) -> None:
    document = tmp_path / "a.json"
    result = (ROOT / "parsers" / "documents" / "samples" / "vllm-bench-detailed.json").read_bytes()
    document.write_bytes(result + b" " * 70_000)
    noise = tmp_path / "b.log"
    noise.write_bytes(bytes(range(256)) * 40)
    for _ in range(2):
        _same(document, noise, begins=[0, 0])
    assert not [path for path in folder.rglob("*") if path.is_file()]


def test_a_log_that_is_none_is_known_next_time(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("nothing of interest\n" * 400, encoding="utf-8")
    assert _same(log, begins=[0]).told[5]
    assert _same(log, begins=[]).told[5]


def test_several_logs_each_from_its_place(tmp_path: Path) -> None:
    logs = [tmp_path / f"{n}.log" for n in range(4)]
    for log, source in zip(logs, LOGS[:4], strict=True):
        log.write_bytes(source.read_bytes()[:30_000])
    sizes = [log.stat().st_size for log in logs]
    _same(*logs[1:], begins=[0, 0, 0])
    with logs[2].open("ab") as file:
        file.write(TEXT)
    _same(*logs, begins=[0, sizes[2]])
    _same(tmp_path, begins=[0, 0, 0, 0])  # found in a folder, they have other names


def test_read_otherwise_it_is_another_entry(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(TEXT)
    _same(log, begins=[0])
    _same(log, begins=[0], engine="llama-server")
    _same(log, begins=[0], formats=FORMATS[:3])
    _same(log, begins=[], formats=FORMATS[:3])
    _same(log, begins=[])


def test_a_year_in_which_a_log_may_not_have_begun(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_bytes((SAMPLES / "vllm.log").read_bytes())
    _same(log, begins=[0])
    with log.open("ab") as file:
        file.write(b"\n")
    years_on = time.time() + 3 * 366 * 86_400
    os.utime(log, (years_on, years_on))
    _same(log, begins=[0])


# --- the cache


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_it_is_for_its_owner_alone_and_small_logs_are_not_kept(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(TEXT)
    monkeypatch.setattr(cached_log, "SMALLEST", len(TEXT) + 1)
    _same(log)
    assert not _files(folder)
    if sys.platform != "win32":
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_it_may_be_removed_at_any_time(tmp_path: Path, folder: Path) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(TEXT)
    _same(log)
    for gone in ("*.state", "*.arrow", "entry.json", "*"):
        for path in list(folder.rglob(gone)):
            if path.is_file():
                path.unlink()
        _same(log, begins=[0])
        _same(log, begins=[])
    shutil.rmtree(folder)
    _same(log, begins=[0])


def test_removed_while_it_is_read_from(tmp_path: Path, folder: Path) -> None:
    """Before its rows are asked for, and after the first of them."""
    logs = [tmp_path / "a.log", tmp_path / "b.log"]
    for log in logs:
        log.write_bytes(TEXT)
    tables = _plain(*logs)[0]
    _same(*logs)
    rows = dict.fromkeys(TABLES, 0)
    with logs[1].open("ab") as file:
        file.write(TEXT)

    def removing(table: str, frame: pl.DataFrame) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        rows[table] += frame.height

    read([str(log) for log in logs], cached=lambda _: None, take=removing)
    expected = _plain(*logs)[0]
    assert list(rows.values()) == [len(table) for table in expected]
    assert tables != expected


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_broken_at_any_byte(data: st.DataObject) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PHASEWISE_CACHE_DIR", folder)
        log = Path(folder) / "a.log"
        log.write_bytes(TEXT[:20_000])
        _cached(log)
        if data.draw(st.booleans()):
            with log.open("ab") as file:
                file.write(TEXT[20_000:24_000])
        kind = data.draw(st.sampled_from(["*.state", "*.arrow", "entry.json"]))
        broken = next((Path(folder) / "logs").rglob(kind))
        text = bytearray(broken.read_bytes())
        at = int(data.draw(st.floats(0, 1, exclude_max=True)) * len(text))
        text[at] ^= data.draw(st.integers(1, 255))
        broken.write_bytes(text if data.draw(st.booleans()) else text[:at])
        _same(log)
        _same(log, begins=[])


def test_an_entry_of_another_program(tmp_path: Path, folder: Path) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(TEXT)
    _same(log)
    entry = next(folder.rglob("entry.json"))
    for text in ("", "{}", "[]", '{"schema": "phasewise.cache/2"}', "\0" * 100, "x" * 100_000):
        entry.write_bytes(entries._digest(text.encode()) + b"\n" + text.encode())
        _same(log, begins=[0])


def test_pieces_that_lead_elsewhere_are_none(tmp_path: Path, folder: Path) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(TEXT)
    _same(log)
    path = next(folder.rglob("entry.json"))
    kept = path.read_bytes().split(b"\n")[1]
    name = entries.load(path.parent)
    assert name is not None
    for elsewhere in (b"../../../secret.state", b"/etc/passwd"):
        text = kept.replace(name.state.name.encode(), elsewhere)
        path.write_bytes(entries._digest(text) + b"\n" + text)
        assert entries.load(path.parent) is None


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(TEXT)
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("PHASEWISE_CACHE_DIR", str(tmp_path / "file"))
    run = _cached(log)
    assert run.told == _plain(log)
    assert len(run.said) == 1
    assert "--cache: nothing is kept" in run.said[0]


@pytest.mark.skipif(sys.platform == "win32", reason="permissions are another thing there")
def test_a_folder_that_others_could_write_is_closed_to_them(tmp_path: Path, folder: Path) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(TEXT)
    before = os.umask(0o002)
    try:
        _same(log, begins=[0])
        folder.chmod(0o777)
        _same(log, begins=[])
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.skipif(sys.platform == "win32", reason="permissions are another thing there")
def test_what_another_user_put_there_is_not_used(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(TEXT)
    _same(log)
    place = next(folder.iterdir())
    monkeypatch.setattr(os, "geteuid", lambda: place.stat().st_uid + 1)
    assert entries.load(place) is None
    run = _cached(log)
    assert run.told == _plain(log)
    assert run.said == [f"--cache: nothing is kept ({folder}: it belongs to another user)."]


def test_what_is_no_folder_is_called_so(tmp_path: Path, folder: Path) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(TEXT)
    folder.parent.mkdir()
    folder.touch()
    assert _cached(log).said == [f"--cache: nothing is kept ({folder}: it is no folder)."]


def test_an_entry_whose_file_became_a_folder_heals(tmp_path: Path, folder: Path) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(TEXT)
    _same(log)
    entry = next(folder.rglob("entry.json"))
    entry.unlink()
    (entry / "more").mkdir(parents=True)
    _same(log, begins=[0])
    _same(log, begins=[])


def test_no_room(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half an entry is not left behind, and there is one warning for many logs."""
    logs = [tmp_path / "a.log", tmp_path / "b.log"]
    for log in logs:
        log.write_bytes(TEXT)
    put = entries.put

    def full(place: Path, data: bytes, table: str | None = None, rows: int = 0) -> entries.Piece:
        if table is None:
            raise entries.CacheError("no space left")
        return put(place, data, table, rows)

    monkeypatch.setattr(entries, "put", full)
    run = _cached(*logs)
    assert run.told == _plain(*logs)
    assert len(run.said) == 1
    assert not _files(folder)


def test_what_was_used_longest_ago_is_removed_first(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = [tmp_path / f"{n}.log" for n in range(3)]
    for log in logs:
        log.write_bytes(TEXT)
    _same(*logs[:2])
    size = sum(path.stat().st_size for path in _files(folder))
    for path in _files(folder):
        os.utime(path, (1e9, 1e9))
    _same(logs[0], begins=[])
    monkeypatch.setattr(entries, "LARGEST", int(size * 1.2))
    _same(logs[2], begins=[0])
    _same(logs[0], begins=[])
    _same(logs[1], begins=[0])


def test_what_no_entry_names_is_removed_in_time(tmp_path: Path, folder: Path) -> None:
    """When the entry is used, and when another is written."""
    logs = [tmp_path / "a.log", tmp_path / "b.log"]
    for log in logs:
        log.write_bytes(TEXT)

    def leave(place: Path) -> list[Path]:
        left = [place / name for name in ("old.arrow", "young.arrow")]
        place.mkdir(exist_ok=True)
        for path in left:
            path.write_bytes(b"")
        os.utime(left[0], (1e9, 1e9))
        return left

    _same(logs[0])
    left = leave(next(folder.iterdir()))
    _same(logs[0], begins=[])
    assert [path.exists() for path in left] == [False, True]
    left = leave(folder / "without")
    _same(logs[1], begins=[0])
    assert [path.exists() for path in left] == [False, True]


def test_nothing_is_left_of_a_run_that_ends_before_its_end(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "_ROWS", 1)
    log = tmp_path / "a.log"
    log.write_bytes(TEXT)
    written: list[Path] = []

    def ends(table: str, frame: pl.DataFrame) -> None:
        written.extend(_files(folder))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read([str(log)], cached=lambda _: None, take=ends)
    assert written
    assert not _files(folder)


def test_two_at_once(tmp_path: Path) -> None:
    """Readers and writers of one entry, while the log grows: each gives what the log held."""
    log = tmp_path / "a.log"
    log.write_bytes(TEXT[:10_000])
    wrong: list[object] = []

    def reads() -> None:
        for _ in range(6):
            try:
                run = _read_alone(log)
            except Exception as error:
                wrong.append(error)
            else:
                held = log.read_bytes()[: run.sources[0].bytes]
                alone = tmp_path / f"{threading.get_ident()}" / "a.log"
                alone.parent.mkdir(exist_ok=True)
                alone.write_bytes(held)
                if len(run.tables.requests) != len(read([str(alone)]).tables.requests):
                    wrong.append(len(held))

    threads = [threading.Thread(target=reads) for _ in range(3)]
    for thread in threads:
        thread.start()
    for at in range(10_000, 60_000, 5000):
        with log.open("ab") as file:
            file.write(TEXT[at : at + 5000])
        time.sleep(0.02)
    for thread in threads:
        thread.join()
    assert not wrong
    _same(log)


def _read_alone(log: Path) -> Reading:
    return read([str(log)], cached=lambda _: None)


@pytest.mark.parametrize("more", [b"", TEXT], ids=["whole", "grown"])
@pytest.mark.parametrize("at", [0, 1])
def test_interrupted(at: int, more: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was not looked at is not there; what is kept of a log that is the same is, with its source."""
    log = tmp_path / "a.log"
    log.write_bytes(TEXT)
    _same(log)
    tables = _plain(log)[0]
    with log.open("ab") as file:
        file.write(more)
    meter = Meter()
    monkeypatch.setattr(meter, "took", lambda _: setattr(interrupt._state, "asked", True))
    monkeypatch.setattr(interrupt._state, "asked", at == 0)
    frames, sources, *_ = _cached(log, meter=meter).told
    assert len(frames[0]) == at * len(tables[0]) == sum(source.requests for source in sources)
    assert [source.path for source in sources] == [str(log)] * at


# --- the commands


def test_two_commands_at_once_and_another_after_them(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(LARGE)
    kept = {"PHASEWISE_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "advisor", "analyze", str(log), "--format", "json", "--cache"]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, env=environment(**kept)) for _ in range(2)]
    said = [one.communicate()[0] for one in running]
    assert {*said} == {phasewise("analyze", log, "--format", "json").raw}
    assert len(_files(tmp_path / "cache")) > 1
    again = phasewise("export", log, "--format", "csv", "--cache", env=kept)
    assert again == phasewise("export", log, "--format", "csv")
