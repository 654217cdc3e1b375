"""A file that grows, is rotated in every way, and is read once."""

from __future__ import annotations

import gzip
import os
import random
import shutil
import sys
import time
from typing import TYPE_CHECKING

import pytest

from advisor.errors import InputError
from advisor.sources import follow, opened
from advisor.sources.follow import Followed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

HEADER = "build: 5760 (a1b2c3d4e) with cc for x86_64-linux-gnu\n"
renames = pytest.mark.skipif(sys.platform == "win32", reason="Windows renames no file that is open")


class Log:
    """A log, its writer and its reader."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines = 0
        self.said: list[str] = []
        path.touch()
        self.followed = Followed(str(path))

    def add(self, text: str | bytes, path: Path | None = None) -> None:
        with (path or self.path).open("ab") as file:
            file.write(text.encode() if isinstance(text, str) else text)

    def put(self, text: str) -> None:
        """Write the file anew, in place."""
        self.path.write_bytes(text.encode())

    def line(self) -> str:
        """A line that no other is like."""
        self.lines += 1
        rest = random.Random(self.lines).randbytes(30).hex()
        return f"0.{self.lines:02d}.000.000 I slot print_timing: id  0 | task {self.lines} | {rest}\n"

    def read(self, wait_s: float = 0.0) -> str:
        """All that there is now; after a wait for its first byte."""
        parts = []
        while data := self.followed.read(wait_s):
            parts.append(data)
            wait_s = 0.0
        assert data is not None
        self.said += self.followed.notes()
        return b"".join(parts).decode()

    def wait_for(self, text: str) -> None:
        """Read until so much has come; it must be this."""
        got, until_s = "", time.monotonic() + 5
        while len(got) < len(text) and time.monotonic() < until_s:
            got += self.read(0.05)
        assert got == text


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Log]:
    monkeypatch.setattr(follow, "_LINGER_S", 0.1)
    monkeypatch.setattr(follow, "_GONE_S", 0.05)
    monkeypatch.setattr(follow, "_AGAIN_S", 0.0)
    monkeypatch.setattr(follow, "POLL_S", 0.005)
    log = Log(tmp_path / "server.log")
    yield log
    log.followed.close()
    assert log.followed.read(0) is None


def test_what_is_appended_comes_once_and_torn(log: Log) -> None:
    log.add("one\ntw")
    assert log.read() == "one\ntw"
    assert log.read() == ""
    log.add("o\n")
    assert log.read() == "o\n"
    assert log.said == []


def test_a_read_is_no_more_than_a_mebibyte(log: Log) -> None:
    text = random.Random(1).randbytes(3 << 20)
    log.add(text)
    parts = []
    while part := log.followed.read(0):
        parts.append(part)
    assert b"".join(parts) == text
    assert max(map(len, parts)) <= 1 << 20
    assert len(parts) <= 4


@renames
def test_what_is_added_to_the_renamed_file_comes_before_the_new_one(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "_LINGER_S", 0.5)
    log.add("one\n")
    assert log.read() == "one\n"
    log.add("two\n")
    old = log.path.with_suffix(".log.1")
    log.path.rename(old)
    log.add("three\n", old)
    assert log.read() == "two\nthree\n"
    log.path.touch()
    log.add("four\n", old)
    assert log.read() == "four\n"
    log.add("six\n")
    log.add("five\n", old)
    assert log.read() == "five\n"
    assert log.read(2) == "six\n"
    assert log.said == [
        "server.log: replaced; going on with the new file.".replace("server.log", str(log.path))
    ]


@renames
def test_files_that_are_rotated_faster_than_read(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "_MANY", 4)
    log.add("0\n")
    assert log.read() == "0\n"
    for turn in range(1, 50):
        log.path.rename(log.path.with_name(f"old.{turn}"))
        log.path.touch()
        log.followed.read(0)
        if turn % 3 == 0:
            log.add(f"{turn}\n")
    assert len(log.followed._files) <= 1 + 49 // 3 + 4
    log.add("last\n")
    text, until_s = "", time.monotonic() + 5
    while not text.endswith("last\n") and time.monotonic() < until_s:
        text += log.read(0.05)
    assert text.split() == [str(turn) for turn in range(3, 50, 3)] + ["last"]


@renames
def test_an_old_file_that_grows_on_and_on_is_left_at_last(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "_PATIENCE_S", 0.1)
    old = log.path.with_suffix(".1")
    log.add("old\n")
    assert log.read() == "old\n"
    log.path.rename(old)
    log.add("new\n")
    text, until_s = "", time.monotonic() + 5
    while not text.endswith("new\n") and time.monotonic() < until_s:
        log.add("old\n", old)
        text += (log.followed.read(0) or b"").decode()
    assert text.endswith("old\nnew\n")


@renames
def test_a_line_that_was_torn_does_not_run_into_the_new_file(log: Log) -> None:
    log.add("torn")
    assert log.read() == "torn"
    log.path.rename(log.path.with_suffix(".1"))
    log.add("new\n")
    assert log.read(2) == "\nnew\n"


@renames
def test_lines_stay_apart_in_utf_16(log: Log) -> None:
    log.add("torn".encode("utf-16"))
    first = log.followed.read(0) or b""
    log.path.rename(log.path.with_suffix(".1"))
    log.add("new\n".encode("utf-16"))
    assert (first + (log.followed.read(2) or b"")).decode("utf-16") == "torn\nnew\n"


@renames
def test_an_old_file_that_is_compressed_and_removed_is_read_to_its_end(log: Log) -> None:
    log.add("one\n")
    old = log.path.with_suffix(".1")
    log.path.rename(old)
    with old.open("rb") as file, gzip.open(f"{old}.gz", "wb") as packed:
        shutil.copyfileobj(file, packed)
    old.unlink()
    log.add("two\n")
    log.wait_for("one\ntwo\n")


@renames
def test_an_old_file_is_never_read_again(log: Log) -> None:
    text = "".join(log.line() for _ in range(20))
    log.add(text)
    assert log.read() == text
    old = log.path.with_suffix(".1")
    log.path.rename(old)
    log.read()
    old.write_bytes(os.urandom(1500))
    assert log.read(0.3) == ""
    old.write_bytes(os.urandom(3000))
    assert log.read() == ""
    log.add("new\n")
    assert log.read(2) == "new\n"


def _cut(path: Path) -> None:
    shutil.copyfile(path, path.with_suffix(".copy"))
    os.truncate(path, 0)


def test_a_file_that_is_cut_begins_anew_and_its_torn_line_goes_on(log: Log) -> None:
    text = HEADER + "".join(log.line() for _ in range(10)) + "prompt eval ti"
    log.add(text)
    assert log.read() == text
    _cut(log.path)
    assert log.read() == ""
    log.add("me = 12 ms\nnext\n")
    assert log.read() == "me = 12 ms\nnext\n"
    assert log.said == [f"{log.path}: cut to nothing; going on from its start."]


def test_a_program_started_anew_begins_a_line(log: Log) -> None:
    log.add(HEADER + log.line() + "torn")
    log.read()
    log.put(HEADER.replace("5760", "5761") + "more\n")
    assert log.read() == "\n" + HEADER.replace("5760", "5761") + "more\n"


def test_a_file_that_was_cut_and_outgrew_its_old_size_between_two_looks(log: Log) -> None:
    log.add(HEADER + log.line() * 3)
    log.read()
    _cut(log.path)
    text = "".join(log.line() for _ in range(20))
    log.add(text)
    assert log.read() == text


def test_a_file_that_was_cut_and_has_its_old_size(log: Log) -> None:
    old, new = log.line(), log.line()
    log.add(old)
    assert log.read() == old
    time.sleep(0.02)  # the clock of file systems has a coarse hand
    log.put(new)
    assert log.read() == new


def test_a_restart_with_the_same_first_lines_is_read_from_its_start(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opened, "_DOUBT_S", 0.2)
    log.add(HEADER + log.line())
    log.read()
    log.put(HEADER)
    assert log.read(0.01) == ""
    assert log.read(2) == HEADER
    log.add(log.line())
    assert log.read().endswith("\n")


def test_a_short_file_that_was_cut_begins_anew_whatever_it_says(log: Log) -> None:
    log.add("same\n")
    assert log.read() == "same\n"
    log.put("")
    assert log.read() == ""
    log.add("same\nsame\n")
    assert log.read() == "same\nsame\n"


def test_a_restart_with_a_long_header_that_is_the_same(log: Log) -> None:
    log.add(HEADER * 100 + log.line())
    log.read()
    log.put(HEADER * 50)
    assert log.read() == ""
    text = HEADER * 100 + log.line() * 2
    log.put(text)
    assert log.read() == text


def test_the_same_text_written_anew_is_not_read_again(log: Log) -> None:
    """An editor saves a file in place; a network share says an old size."""
    text = HEADER + "".join(log.line() for _ in range(20))
    log.add(text)
    assert log.read() == text
    for part in ("", text[:500], text):
        log.put(part)
        assert log.read() == ""
    log.add("more\n")
    assert log.read() == "more\n"
    log.put(text[:500])
    assert log.read() == ""
    log.put("something else\n" + text)
    assert log.read() == "something else\n" + text


def test_a_change_in_place_is_not_read_again(log: Log) -> None:
    text = "".join(log.line() for _ in range(100))
    log.add(text)
    assert log.read() == text
    with log.path.open("r+b") as file:
        file.seek(-40, os.SEEK_END)
        file.write(b"?")
    log.add("more\n")
    assert log.read() == "more\n"


def test_a_writer_that_does_not_append_leaves_a_hole(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opened, "_DOUBT_S", 0.2)
    with log.path.open("wb", buffering=0) as writer:
        writer.write(log.line().encode() * 3)
        assert log.read().count("\n") == 3
        os.truncate(log.path, 0)
        assert log.read() == ""
        writer.write(b"one\n")
        assert log.read() == "one\n"
        os.truncate(log.path, 0)
        assert log.read(0.3) == ""
        writer.write(b"two\n")
        assert log.read() == "two\n"


@pytest.mark.skipif(not hasattr(os, "SEEK_DATA"), reason="this system tells of no holes, and may write them")
def test_a_hole_of_gigabytes_is_skipped_at_once(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    looks, look = [0], opened.Opened.read

    def counted(self: opened.Opened, **more: bool) -> bytes:
        looks[0] += 1
        return look(self, **more)

    monkeypatch.setattr(opened.Opened, "read", counted)
    with log.path.open("wb", buffering=0) as writer:
        writer.write(b"one\n")
        assert log.read() == "one\n"
        writer.seek(1 << 33)
        writer.write(b"two\n")
        assert log.read(5) == "two\n"
        assert looks[0] < 100


def test_a_hole_that_is_filled_later_is_waited_for(log: Log) -> None:
    log.add(b"one\n" + bytes(200))
    assert log.read() == "one\n"
    with log.path.open("r+b") as file:
        file.seek(4)
        file.write(b"y" * 199 + b"\n")
    log.add("three\n")
    assert log.read() == "y" * 199 + "\nthree\n"


def test_what_stood_there_is_told_from_what_is_written_now(log: Log) -> None:
    log.add(log.line() * 40_000)
    assert len(log.followed.read(0) or b"") > 1 << 19
    assert not log.followed.has_caught_up
    log.read()
    assert log.followed.has_caught_up
    log.add("new\n")
    assert log.read() == "new\n"
    assert log.followed.has_caught_up


@renames
def test_another_file_is_moved_over_it(log: Log) -> None:
    log.add(log.line() * 2)
    log.read()
    other = log.path.with_suffix(".new")
    text = "".join(log.line() for _ in range(9))
    log.add(text, other)
    other.replace(log.path)
    assert log.read(2) == text


@renames
def test_a_longer_copy_is_moved_over_it(log: Log) -> None:
    """As `rsync` brings a copy up to date; and as a share gives the same file another number."""
    log.add("".join(log.line() for _ in range(9)) + "to")
    log.read()
    other = log.path.with_suffix(".new")
    shutil.copyfile(log.path, other)
    log.add("rn\n", other)
    other.replace(log.path)
    assert log.read(0.2) == "rn\n"
    assert log.said == []


@renames
@pytest.mark.parametrize("same", [slice(0, 5000), slice(5000, 10_000)])
def test_what_only_begins_or_goes_on_alike_is_another_file(log: Log, same: slice) -> None:
    old = random.Random(1).randbytes(5000).hex()
    new = random.Random(2).randbytes(6000).hex()
    log.add(old)
    assert log.read() == old
    new = new[: same.start] + old[same] + new[same.stop :]
    other = log.path.with_suffix(".new")
    log.add(new, other)
    other.replace(log.path)
    assert log.read(2) == "\n" + new


@renames
def test_a_file_that_was_moved_away_and_back(log: Log) -> None:
    log.add(HEADER + log.line())
    log.read()
    aside = log.path.rename(log.path.with_suffix(".1"))
    assert log.read() == ""
    aside.rename(log.path)
    assert log.read() == ""
    text = log.line()
    log.put(text)
    assert log.read() == text


@renames
def test_deleted_and_created_later(log: Log) -> None:
    log.add("one\n")
    assert log.read() == "one\n"
    log.path.unlink()
    assert log.read(0.2) == ""
    log.add("two\n")
    assert log.read(2) == "two\n"
    assert [said.removeprefix(str(log.path)) for said in log.said] == [
        ": gone; waiting for a new file of this name.",
        ": replaced; going on with the new file.",
    ]


def test_created_late(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "late.log"
    followed = Followed(str(path))
    assert followed.read(0.2) == b""
    assert followed.notes() == [f"{path}: no such file yet; waiting for it."]
    path.parent.mkdir()
    path.write_bytes(b"one\n")
    assert followed.read(1) == b"one\n"
    assert followed.notes() == [f"{path}: there it is."]
    followed.close()


def test_something_else_appears_first(log: Log) -> None:
    log.followed.close()
    log.path.unlink()
    log.followed = Followed(str(log.path))
    log.path.mkdir()
    assert log.read(0.1) == ""
    log.path.rmdir()
    log.path.write_bytes(bytes(range(32)) * 9)
    assert log.read(0.1) == ""
    log.path.write_bytes(b"text\n")
    assert log.read(1) == "text\n"
    assert [said.removeprefix(str(log.path)) for said in log.said] == [
        ": no such file yet; waiting for it.",
        ": this is a folder; name a log file in it.",
        ": this is a binary file, not a log.",
        ": there it is.",
    ]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no permission bits")
def test_no_permission_is_said_once_and_tried_again(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a file system that refuses: for root, none does."""
    log.add("one\n")
    assert log.read() == "one\n"
    log.path.rename(log.path.with_suffix(".1"))
    log.add("two\n")
    with monkeypatch.context() as refusing:
        refusing.setattr(follow, "Opened", _refuse)
        assert log.read(0.05) == ""
        assert log.read(0.05) == ""
    assert log.said == [f"{log.path}: can't be opened (Permission denied); trying again."]
    assert log.read(1) == "two\n"


def _refuse(path: Path) -> None:
    raise PermissionError(13, "Permission denied", str(path))


@renames
def test_a_stale_handle_is_opened_again_at_its_place(log: Log) -> None:
    text = "".join(log.line() for _ in range(9))
    log.add(text)
    assert log.read() == text
    log.followed._files[0]._file.close()
    log.followed._files[0]._file = open(os.open(log.path, os.O_WRONLY), "wb", buffering=0)  # noqa: PTH123, SIM115
    log.add("more\n")
    assert log.read(1) == "more\n"
    assert len(log.said) == 1
    assert "trying again" in log.said[0]


def test_a_handle_that_was_left_behind_is_opened_again_at_its_place(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a file of a container's image is first written to, on older systems."""
    monkeypatch.setattr(follow, "_AGAIN_S", 0.05)
    text = "".join(log.line() for _ in range(9))
    log.add(text)
    assert log.read() == text
    layer = log.path.with_suffix(".layer")
    shutil.copyfile(log.path, layer)
    log.followed._files[0]._file.close()
    log.followed._files[0]._file = layer.open("rb", buffering=0)
    log.add("more\n")
    assert log.read() == ""
    assert log.read(1) == "more\n"
    assert log.said == []


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: path.mkdir(), "this is a folder"),
        (lambda path: path.write_bytes(gzip.compress(b"text\n")), "read it with `phasewise tui`"),
        (lambda path: path.write_bytes(bytes(range(32)) * 9), "this is a binary file, not a log"),
        pytest.param(lambda path: os.mkfifo(path), "`phasewise tail -`", marks=renames),
    ],
)
def test_what_cannot_be_followed(tmp_path: Path, make: Callable[[Path], None], words: str) -> None:
    path = tmp_path / "server.log"
    make(path)
    with pytest.raises(InputError, match=words):
        Followed(str(path))


def test_what_is_named_like_a_compressed_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="compressed"):
        Followed(str(tmp_path / "none.log.gz"))


@renames
@pytest.mark.parametrize("seed", range(12))
def test_every_byte_once_and_in_order(log: Log, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Random torn writes and rotations of every kind, with a look between any two of them."""
    monkeypatch.setattr(follow, "_LINGER_S", 0.01)
    script = _Script(log, random.Random(seed))
    for _ in range(60):
        script.step()
    script.drain()
    script.writer.close()
    assert script.rotations > 5


class _Script:
    def __init__(self, log: Log, dice: random.Random) -> None:
        self.log = log
        self.dice = dice
        self.writer = log.path.open("ab", buffering=0)
        self.rest = ""
        self.expected = self.got = ""
        self.rotations = 0
        self.turn = 0

    def step(self) -> None:
        for _ in range(self.dice.randrange(4)):
            self.write()
        if self.dice.random() < 0.6:
            self.look()
        if self.dice.random() < 0.3:
            self.look()
            self.rotations += 1
            self.dice.choice([self.rename, self.cut, self.replace, self.recreate])()

    def look(self) -> None:
        self.got += self.log.read()
        assert self.expected.startswith(self.got)

    def drain(self) -> None:
        until_s = time.monotonic() + 5
        while self.got != self.expected and time.monotonic() < until_s:
            self.got += self.log.read(0.02)
        assert self.got == self.expected

    def write(self) -> None:
        """A piece of a line, or some lines."""
        text = self.rest or "".join(self.log.line() for _ in range(self.dice.choice([1, 1, 2, 50])))
        size = self.dice.randint(1, len(text))
        self.writer.write(text[:size].encode())
        self.expected += text[:size]
        self.rest = text[size:]

    def reopen(self) -> None:
        """The writer changes to a new file with a new line; the rest of a torn one is lost."""
        self.writer.close()
        self.writer = self.log.path.open("ab", buffering=0)
        if not self.expected.endswith("\n") and self.expected:
            self.expected += "\n"
            self.rest = self.log.line()
            self.got += self.log.read()

    def aside(self) -> Path:
        self.turn += 1
        return self.log.path.with_name(f"aside.{self.turn}")

    def rename(self) -> None:
        self.log.path.rename(self.aside())
        self.write()
        if self.dice.random() < 0.5:
            self.log.path.touch()
            self.look()
            self.write()
        self.reopen()
        self.write()

    def cut(self) -> None:
        self.drain()
        _cut(self.log.path)
        self.log.read()

    def replace(self) -> None:
        new = self.aside()
        new.touch()
        new.replace(self.log.path)
        self.write()
        self.reopen()
        self.write()

    def recreate(self) -> None:
        self.log.path.unlink()
        self.look()
        self.write()
        self.look()
        self.reopen()
        self.write()
