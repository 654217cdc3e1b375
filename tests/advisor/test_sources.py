"""Which inputs a name stands for, and the bytes they give."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import subprocess
import sys
import time
from hashlib import sha256
from typing import TYPE_CHECKING, Any, cast

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.errors import InputError, UnrecognisedError
from advisor.reading import read
from advisor.sources import packed
from advisor.sources.files import Input, blocks, expand
from tests.advisor.helpers import SAMPLES, Asked, environment, prefixed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LOG = prefixed([Asked(900, 700, 100, 2500)] * 3)
CODECS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstd": zstandard.ZstdCompressor().compress,
}


def names(*paths: str) -> list[str]:
    inputs, problems = expand(paths)
    assert problems == []
    return [one.name for one in inputs]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("a.log", "b.LOG.1", "c.log.gz", "notes.md", "deep/er/d.jsonl", "deep/e.bin", "[f].log"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(LOG)
    return tmp_path


def test_a_folder_is_its_logs(folder: Path) -> None:
    assert names("deep") == [os.path.join("deep", "er", "d.jsonl")]  # noqa: PTH118
    assert set(names(".")) >= {"a.log", "c.log.gz", "[f].log"}
    assert "notes.md" not in names(".")


def test_a_rotated_log_counts_in_any_case(folder: Path) -> None:
    assert "b.LOG.1" in names(".")


def test_a_pattern_and_a_file_named_like_one(folder: Path) -> None:
    assert names("*.log") == ["[f].log", "a.log"]
    assert names("[f].log") == ["[f].log"]
    assert names("**/*.jsonl") == [os.path.join("deep", "er", "d.jsonl")]  # noqa: PTH118


def test_each_file_once_under_its_first_name(folder: Path) -> None:
    (folder / "link.log").symlink_to(folder / "a.log")
    assert names("a.log", "./a.log", str(folder / "a.log"), "link.log", "a.*") == ["a.log"]
    assert names("-", "-") == ["-"]


def test_a_name_the_user_gave_counts_as_named(folder: Path) -> None:
    (folder / "a.log").write_text("nothing\n")
    assert read(["."]).unrecognised == []
    assert [s.split(":")[0] for s in read([".", "a.log"]).unrecognised] == ["a.log"]


def test_a_dangling_link_is_no_file(folder: Path) -> None:
    (folder / "gone.log").symlink_to(folder / "nowhere")
    inputs, (problem,) = expand(["gone.log"])
    assert inputs == []
    assert "gone.log" in str(problem)
    assert "gone.log" not in names(".")


def test_a_folder_of_none_but_broken_files_says_why(folder: Path) -> None:
    (folder / "c.log.gz").write_bytes(gzip.compress(LOG.encode())[:40])
    reading = read(["c.log.gz", "deep/e.bin"])
    assert [s.split(":")[0] for s in reading.problems] == ["c.log.gz"]
    assert len(reading.sources) == 1


# --- bytes


@pytest.mark.parametrize("codec", CODECS)
def test_any_codec_under_any_name(tmp_path: Path, codec: str) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(CODECS[codec](LOG.encode()))
    assert b"".join(blocks(Input(str(path)))) == LOG.encode()


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cc", "Cs"])).map(str.encode), max_size=4),
    st.sampled_from(list(CODECS)),
)
@settings(max_examples=60)
def test_parts_packed_one_after_the_other(
    tmp_path_factory: pytest.TempPathFactory, parts: list[bytes], codec: str
) -> None:
    data = b"text " + b"".join(parts)
    path = tmp_path_factory.mktemp("parts") / "x.log"
    pieces = parts if codec != "plain" else [b"".join(parts)]
    path.write_bytes(b"".join(CODECS[codec](piece) for piece in [b"text ", *pieces]))
    assert b"".join(blocks(Input(str(path)))) == data


@pytest.mark.parametrize("codec", ["gzip", "bzip2", "xz", "zstd"])
@pytest.mark.parametrize("share", [0.02, 0.5, 0.98])
def test_a_cut_gives_what_came_before_and_then_says_so(tmp_path: Path, codec: str, share: float) -> None:
    data = prefixed([Asked(500 + i, 300 + i * 1.7, 100, 2500 + i * 3.1) for i in range(2000)]).encode()
    whole = CODECS[codec](data)
    path = tmp_path / "x.log"
    path.write_bytes(whole[: int(share * len(whole))])
    parts: list[bytes] = []
    with pytest.raises(InputError, match="broken or cut off"):
        parts.extend(blocks(Input(str(path))))
    assert data.startswith(b"".join(parts))
    assert parts or share < 0.5 or codec == "bzip2"


def test_zeros_after_a_packed_file_are_none_of_it(tmp_path: Path) -> None:
    path = tmp_path / "x.log.gz"
    path.write_bytes(gzip.compress(LOG.encode()) + bytes(100_000) + gzip.compress(b"more\n") + bytes(7))
    assert b"".join(blocks(Input(str(path)))) == LOG.encode() + b"more\n"


def test_frames_to_be_skipped(tmp_path: Path) -> None:
    pack, skipped = zstandard.ZstdCompressor().compress, b"\x5a\x2a\x4d\x18\x04\0\0\0note"
    path = tmp_path / "x.log.zst"
    path.write_bytes(skipped + pack(b"text one\n") + skipped + skipped + pack(b"text two\n") + skipped)
    assert b"".join(blocks(Input(str(path)))) == b"text one\ntext two\n"


@pytest.mark.parametrize("at", [-8, -5, -3], ids=["checksum", "its end", "length"])
def test_a_changed_byte_is_noticed(tmp_path: Path, at: int) -> None:
    changed = bytearray(gzip.compress(LOG.encode()))
    changed[at] ^= 1
    path = tmp_path / "x.log.gz"
    path.write_bytes(changed)
    parts: list[bytes] = []
    with pytest.raises(InputError, match="broken or cut off"):
        parts.extend(blocks(Input(str(path))))
    assert LOG.encode().startswith(b"".join(parts))


def test_gzip_without_its_fast_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "isal.igzip_lib", cast("Any", None))
    path = tmp_path / "x.log.gz"
    path.write_bytes(gzip.compress(LOG.encode() * 5000) + gzip.compress(b"more\n"))
    assert b"".join(blocks(Input(str(path)))) == LOG.encode() * 5000 + b"more\n"
    path.write_bytes(gzip.compress(LOG.encode())[:-4])
    with pytest.raises(InputError, match="broken or cut off"):
        list(blocks(Input(str(path))))


def _far_reaching() -> bytes:
    parameters = zstandard.ZstdCompressionParameters(window_log=28, compression_level=1)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    return packer.compress(LOG.encode()) + packer.flush()


def _large_dictionary() -> bytes:
    return lzma.compress(LOG.encode(), filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 512 << 20}])


@pytest.mark.parametrize(
    ("pack", "program"), [(_far_reaching, "zstd -dc --long=31"), (_large_dictionary, "xz -dc")]
)
def test_what_takes_much_memory_to_unpack(tmp_path: Path, pack: Callable[[], bytes], program: str) -> None:
    path = tmp_path / "x y.log"
    path.write_bytes(pack())
    with pytest.raises(InputError) as refused:
        list(blocks(Input(str(path))))
    way_on = f"`{program} '{path}' | phasewise analyze -`"
    said = "takes more than 128 MiB of memory to unpack"
    assert str(refused.value) == f"{path}: {said}; if it is one: {way_on}."


@pytest.mark.parametrize("codec", ["gzip", "bzip2", "xz", "zstd"])
def test_a_file_that_unpacks_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codec: str) -> None:
    """The log in front of it counts, and ten unpacked megabytes of it do; a gigabyte in truth."""
    monkeypatch.setattr(packed, "FREE_BYTES", 10 << 20)
    path = tmp_path / "bomb.log"
    path.write_bytes(CODECS[codec](LOG.encode()) + CODECS[codec]((b"n" * 30_000 + b"\n") * 2_000))
    reading = read([str(path)])
    assert [source.requests for source in reading.sources] == [3]
    assert reading.sources[0].bytes < 32 << 20
    (said,) = reading.problems
    assert "unpacks to more than 500 times its size, which no log does; if it is one: `" in said


def test_folders_in_circles(folder: Path) -> None:
    (folder / "deep" / "round").symlink_to(folder / "deep", target_is_directory=True)
    (folder / "deep" / "er" / "up").symlink_to(folder, target_is_directory=True)
    (folder / "loop.log").symlink_to(folder / "loop.log")
    assert names("**/*.jsonl") == [os.path.join("deep", "er", "d.jsonl")]  # noqa: PTH118
    assert names("deep") == [os.path.join("deep", "er", "d.jsonl")]  # noqa: PTH118
    assert expand(["loop.log"])[0] == []


@pytest.mark.parametrize(
    "junk", [b"\x1f\x8bnot gzip", b"\x28\xb5\x2f\xfdnot zstd at all", b"BZhnope nope", b"\xfd7zXZ\0nope"]
)
def test_what_only_begins_like_a_packed_file(tmp_path: Path, junk: bytes) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(junk * 10)
    with pytest.raises(InputError, match=r"x\.log"):
        list(blocks(Input(str(path))))


def test_a_binary_inside_a_packed_file(tmp_path: Path) -> None:
    path = tmp_path / "x.log.gz"
    path.write_bytes(gzip.compress(b"\x7fELF\x02\x01\x01" + bytes(100)))
    with pytest.raises(UnrecognisedError, match="binary"):
        list(blocks(Input(str(path))))


@pytest.mark.parametrize(
    "log",
    [LOG.replace("launch", "la\0unch"), "\0" * 5000 + LOG, "\0" * 3_000_000 + LOG],
    ids=["one", "hole", "large hole"],
)
def test_a_log_with_zero_bytes_is_no_binary(tmp_path: Path, log: str) -> None:
    path = tmp_path / "x.log"
    path.write_text(log)
    assert [s.requests for s in read([str(path)]).sources] == [3]


def test_noise_is_binary(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(b"".join(sha256(bytes([i])).digest() for i in range(256)))
    with pytest.raises(UnrecognisedError, match="binary"):
        list(blocks(Input(str(path))))


def test_windows_text_is_no_binary(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_text(LOG, encoding="utf-16")
    assert [s.requests for s in read([str(path)]).sources] == [3]


@pytest.mark.parametrize("codec", ["plain", "gzip", "zstd"])
def test_a_pipe_that_trickles(codec: str) -> None:
    """Standard input that gives a byte, then the rest, is recognised as what it is."""
    data = CODECS[codec](LOG.encode())
    child = subprocess.Popen(
        [sys.executable, "-m", "advisor", "export", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment(),
    )
    pipe = cast("Any", child.stdin)
    for part in (data[:1], data[1:3], data[3:]):
        pipe.write(part)
        pipe.flush()
        time.sleep(0.05)
    out, _ = child.communicate(timeout=30)
    assert (child.returncode, out.count(b"\n")) == (0, 3)


def test_lines_come_as_they_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe's lines are handed on at once, not when a block is full."""
    ours, theirs = os.pipe()
    with os.fdopen(ours, "rb") as end, os.fdopen(theirs, "wb", buffering=0) as writer:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(cast("Any", end)))
        writer.write(b"first line\n")
        given_blocks = blocks(Input("-"))
        assert next(given_blocks) == b"first line\n"
        writer.write(b"second\n")
        assert next(given_blocks) == b"second\n"


def test_the_samples_are_all_recognised() -> None:
    reading = read([str(SAMPLES)])
    assert reading.problems == reading.unrecognised == []
    assert len(reading.sources) == len(list(SAMPLES.glob("*.log")))
