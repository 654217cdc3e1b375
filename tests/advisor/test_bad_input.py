"""What a user gets wrong: one sentence, the right exit status, nothing on standard output."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import zstandard

from tests.advisor.helpers import (
    SAMPLES,
    Asked,
    one_sentence,
    phasewise,
    prefixed,
    refused,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LOG = SAMPLES / "llama-server-four-slots.log"
NGINX = '192.0.2.7 - - [29/Nov/2026:19:39:17 +0000] "POST /v1/chat/completions HTTP/1.1" 200 512 "-" "curl"\n'
PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01"


@pytest.fixture(scope="module")
def many() -> bytes:
    """A log long enough to be cut in the middle, compressed too; its times don't repeat."""
    requests = [Asked(500 + i, 311.07 + 13.7 * i, 100 + i % 37, 2500.13 + 7.31 * i) for i in range(300)]
    return prefixed(requests).encode()


# --- inputs


@pytest.mark.parametrize(
    ("name", "content", "status", "words"),
    [
        ("empty.log", b"", 3, ("empty.log: the file is empty.",)),
        ("shot.png", PNG, 3, ("shot.png", "binary", "vllm", "--engine")),
        ("access.log", NGINX.encode() * 50, 3, ("access.log", "--engine", "llama-server", "vllm")),
        ("notes.txt", b"eval time = what?\nprompt eval time\n", 3, ("notes.txt", "--engine")),
    ],
)
def test_a_file_that_is_no_log(
    tmp_path: Path, name: str, content: bytes, status: int, words: tuple[str, ...]
) -> None:
    (tmp_path / name).write_bytes(content)
    refused(phasewise(tmp_path / name), status, *words)


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["missing.log"], 2, ("missing.log", "no such file")),
        (["analyse"], 2, ("analyse", "no verb", "`phasewise analyze`")),
        (["serverlog"], 2, ("serverlog", "no verb of phasewise either")),
        (["reprot", "server.log", "-o", "x.md"], 2, ("`phasewise report server.log -o x.md`",)),
        (["server.log", "report"], 2, ("report: the verb goes first: `phasewise report server.log`",)),
        (["server.log", "-o", "x.md"], 2, ("no such option: -o", "`phasewise report LOG -o page.md`")),
        (["compare", "before", "after"], 2, ("before: no such file or folder.",)),
        (["*.nothing"], 2, ("*.nothing", "pattern")),
        ([""], 2, ("empty path",)),
        (["x" * 5000], 2, ("xxx...",)),
        (["nothing-here"], 3, ("nothing-here", "no file", "--engine")),
        (["only-others"], 3, ("only-others", "1 log file", "--engine")),
        (["-"], 3, ("nothing came in on standard input.",)),
        (["export", "missing.log"], 2, ("missing.log",)),
    ],
)
def test_a_path_that_leads_nowhere(
    tmp_path: Path, arguments: list[str], status: int, words: tuple[str, ...]
) -> None:
    (tmp_path / "nothing-here").mkdir()
    (tmp_path / "nothing-here" / "picture.png").write_bytes(PNG)
    (tmp_path / "only-others").mkdir()
    (tmp_path / "only-others" / "access.log").write_text(NGINX)
    refused(phasewise(*arguments, cwd=tmp_path), status, *words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--engine", "llamafarm"], ("--engine llamafarm", "llama-server", "vllm")),
        (["--since", "yesterday"], ("--since yesterday", "2026-")),
        (["--until", "2026-13-45"], ("--until 2026-13-45",)),
        (["--since", "2026-11-01"], ("--since", "clock")),
        (["--bandwidth", "0"], ("--bandwidth", "phasewise analyze --help")),
        (["--bandwidth", "nan"], ("--bandwidth",)),
        (["--bandwidth", "inf"], ("--bandwidth",)),
        (["--vram", "much"], ("--vram much", "24GiB")),
        (["--vram", "inf"], ("--vram inf", "24GiB")),
        (["--vram", "24"], ("--vram 24", "24GiB")),
        (["--cores", "0"], ("--cores",)),
        (["--slot", "first"], ("--slot",)),
        (["--format", "yaml"], ("--format", "json")),
        (["--bogus"], ("--bogus", "--help")),
        (["--gguf", "missing.gguf"], ("missing.gguf",)),
        (["--gguf", str(LOG)], ("four-slots.log", "GGUF")),
    ],
)
def test_a_wrong_option(tmp_path: Path, arguments: list[str], words: tuple[str, ...]) -> None:
    refused(phasewise("analyze", LOG, *arguments, cwd=tmp_path), 2, *words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["analyze"], ("PATH", "phasewise analyze --help")),
        (["explain"], ("missing argument", "phasewise explain --help")),
        (["explain", "no-such-rule"], ("no-such-rule", "phasewise rules")),
        (["rules", "extra"], ("extra",)),
        (["export", str(LOG), "--table", "answers"], ("--table", "requests")),
        (["export", str(LOG), "-o", "rows.xlsx"], ("rows.xlsx", ".parquet")),
        (["export", str(LOG), "-o", "no/such/folder/rows.csv"], ("rows.csv", "written", "no/such/folder")),
        (["analyze", "-", "--svg", "missing/page.svg"], ("missing/page.svg", "written")),
        (["report", "-", "-o", "x" * 5000 + ".md"], ("written",)),
        (["report", "-", "-o", "missing/x.html"], ("missing/x.html", "written")),
        (["report", "-", "--charts", "missing/charts"], ("missing/charts", "written")),
        (["report", "-", "--baseline", "-"], ("standard input can be one of the sides only",)),
        (["anonymize", "-", "-o", "missing/x.log"], ("missing/x.log", "written")),
        (["check", "-", "--max-failed", "0", "-o", "missing/x.xml"], ("missing/x.xml", "written")),
        (
            ["check", "-", "--max-failed", "0", "--format", "github", "-o", "x.txt"],
            ("x.txt", "-o writes JUnit"),
        ),
        (["export", str(LOG), "-o", "folder.csv"], ("folder.csv", "written")),
    ],
)
def test_a_wrong_verb_or_output(tmp_path: Path, arguments: list[str], words: tuple[str, ...]) -> None:
    (tmp_path / "folder.csv").mkdir()
    refused(phasewise(*arguments, cwd=tmp_path), 2, *words)


@pytest.mark.parametrize("arguments", [["export", "--format", "csv", "-o"], ["analyze", "--svg"]])
def test_the_log_itself_is_not_overwritten(tmp_path: Path, arguments: list[str]) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(LOG.read_bytes())
    refused(phasewise(*arguments, log, "server.log", cwd=tmp_path), 2, "the log itself")
    assert log.read_bytes() == LOG.read_bytes()


# --- permissions

_AS_OWNER_WITHOUT_OVERRIDE = """
import ctypes, os, sys
for capability in (1, 2):
    ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


@pytest.fixture
def bound() -> tuple[str, ...]:
    """A Python that file permissions bind, also where the tests run as root."""
    if sys.platform == "win32":
        pytest.skip("file modes don't bind on Windows")
    if os.geteuid() != 0:
        return (sys.executable,)
    return (sys.executable, "-c", _AS_OWNER_WITHOUT_OVERRIDE)


@pytest.mark.parametrize("locked", ["locked.log", "locked", "locked/inner.log"])
def test_no_permission(tmp_path: Path, bound: tuple[str, ...], locked: str) -> None:
    (tmp_path / "locked").mkdir()
    for file in ("locked.log", "locked/inner.log"):
        (tmp_path / file).write_bytes(LOG.read_bytes())
    for name in ("locked.log", "locked"):
        (tmp_path / name).chmod(0)
    tried = [*bound, "-c", "import sys; open(sys.argv[1])", str(tmp_path / "locked.log")]
    if subprocess.run(tried, capture_output=True, check=False).returncode == 0:
        pytest.skip("nothing binds this user")
    try:
        refused(phasewise(locked, cwd=tmp_path, python=bound), 2, locked, "no permission")
    finally:
        (tmp_path / "locked").chmod(0o700)


# --- half of it is good


def test_a_forgotten_o(tmp_path: Path) -> None:
    ran = phasewise("report", LOG, "page.md", cwd=tmp_path)
    one_sentence(ran, "page.md: no such file or folder; to write it, say -o page.md.")
    assert (ran.status, ran.out[:2]) == (2, "# ")
    refused(phasewise("report", "page.md", cwd=tmp_path), 2, "page.md: no such file or folder.")


def test_a_word_that_is_an_option_s_value_or_a_file_is_no_verb(tmp_path: Path) -> None:
    (tmp_path / "report").write_bytes(LOG.read_bytes())
    assert phasewise(LOG, "report", cwd=tmp_path).status == 0
    refused(phasewise(LOG, "--engine", "rules", cwd=tmp_path), 2, "--engine rules: no such format")


def test_one_bad_path_among_good_ones(tmp_path: Path) -> None:
    ran = phasewise(LOG, "missing.log", cwd=tmp_path)
    one_sentence(ran, "missing.log")
    assert "THE ANSWER" in ran.out
    assert ran.status == 2


def test_an_empty_file_after_a_missing_one_is_told_too(tmp_path: Path) -> None:
    (tmp_path / "empty.log").touch()
    ran = phasewise("missing.log", "empty.log", cwd=tmp_path)
    assert ran.status == 2
    assert [line.split(": ")[1] for line in ran.err.splitlines()] == ["missing.log", "empty.log"]


def test_a_folder_given_twice_counts_once(tmp_path: Path) -> None:
    (tmp_path / "day").mkdir()
    (tmp_path / "day" / "server.log").write_bytes(LOG.read_bytes())
    once = phasewise("export", "day", cwd=tmp_path)
    twice = phasewise("export", "day", tmp_path / "day", "day/server.log", cwd=tmp_path)
    assert once.status == twice.status == 0
    assert once.out.count("\n") == twice.out.count("\n") == 12


def test_what_was_tried_is_told_once_and_of_no_empty_file(tmp_path: Path) -> None:
    for name, text in (("a.txt", "no\n"), ("b.txt", "log\n"), ("empty.log", "")):
        (tmp_path / name).write_text(text)
    said = phasewise("empty.log", "a.txt", "b.txt", "empty.log", cwd=tmp_path).err.splitlines()
    assert [" (tried llama-server, " in line for line in said] == [False, False, True]
    assert said[0] == "phasewise: empty.log: the file is empty."


def test_files_of_a_folder_that_tell_nothing(tmp_path: Path) -> None:
    """They are machines that would be missing in the tables of a fleet."""
    whole = LOG.read_bytes()
    packed = gzip.compress(prefixed([Asked(500 + i, 300.1 + i, 9, 200) for i in range(3000)]).encode())
    files = {"a": whole, "b": b"", "c": NGINX.encode(), "d": b"", "e": b"", "f": whole.partition(b"eval")[0]}
    for name, data in files.items():
        (tmp_path / "m" / name).mkdir(parents=True)
        (tmp_path / "m" / name / "server.log").write_bytes(data)
    (tmp_path / "m" / "a" / "old.log.gz").write_bytes(packed[: len(packed) // 2])
    ran = phasewise("report", "m", "--by", "host", "--format", "json", cwd=tmp_path)
    assert ran.status == 2  # of the broken file
    nothing = "4 of 7 files hold no engine's log: m/b/server.log, m/c/server.log, m/d/server.log and 1 more."
    broken, of_folder = ran.err.splitlines()
    assert "broken or cut off" in broken
    assert of_folder == f"phasewise: m: {nothing}"
    caveats = {one["id"]: one["text"] for one in json.loads(ran.out)["caveats"]}
    assert caveats["no-log"] == nothing
    assert caveats["cut-inputs"] == "1 of 7 files was read only until it broke: m/a/old.log.gz."
    assert caveats["idle-inputs"] == "1 of 7 files tells of no request: m/f/server.log."


def test_a_log_cut_in_the_middle_of_a_line(tmp_path: Path) -> None:
    whole = LOG.read_bytes()
    cut = whole[: whole.rindex(b"eval time =") + 5]
    (tmp_path / "cut.log").write_bytes(cut)
    ran = phasewise("export", "cut.log", cwd=tmp_path)
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.count("\n") == 11


@pytest.mark.parametrize(
    ("ending", "compress"),
    [("gz", gzip.compress), ("zst", lambda data: _in_blocks(data)), ("xz", lzma.compress)],
)
def test_a_broken_compressed_log(
    tmp_path: Path, many: bytes, ending: str, compress: Callable[[bytes], bytes]
) -> None:
    packed = compress(many)
    (tmp_path / f"whole.log.{ending}").write_bytes(packed)
    (tmp_path / f"cut.log.{ending}").write_bytes(packed[: len(packed) // 2])
    whole = phasewise("export", f"whole.log.{ending}", cwd=tmp_path)
    assert (whole.status, whole.err, whole.out.count("\n")) == (0, "", 300)
    cut = phasewise("export", f"cut.log.{ending}", cwd=tmp_path)
    assert cut.status == 2
    one_sentence(cut, f"cut.log.{ending}", "broken or cut off")
    rows = cut.out.replace("cut.log", "whole.log").splitlines()
    assert 1 < len(rows) < 300
    assert rows[:-1] == whole.out.splitlines()[: len(rows) - 1]


def _in_blocks(data: bytes) -> bytes:
    compressor = zstandard.ZstdCompressor().compressobj()
    parts = [
        compressor.compress(data[i : i + 8192]) + compressor.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
        for i in range(0, len(data), 8192)
    ]
    return b"".join([*parts, compressor.flush()])


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.ZstdCompressor().compress, bz2.compress])
def test_files_packed_one_after_the_other(
    tmp_path: Path, many: bytes, compress: Callable[[bytes], bytes]
) -> None:
    half = many.index(b"\n", len(many) // 2) + 1
    (tmp_path / "rotated.log").write_bytes(compress(many[:half]) + compress(many[half:]))
    ran = phasewise("export", "rotated.log", cwd=tmp_path)
    assert (ran.status, ran.err, ran.out.count("\n")) == (0, "", 300)


def test_nothing_usable_in_a_broken_file_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "x.log.gz").write_bytes(gzip.compress(NGINX.encode() * 500)[:60])
    refused(phasewise("x.log.gz", cwd=tmp_path), 2, "broken or cut off")


# --- names


def test_a_verb_wins_over_a_file_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "rules").write_bytes(LOG.read_bytes())
    assert "prefill" in phasewise("rules", cwd=tmp_path).out
    assert phasewise("./rules", cwd=tmp_path).out.startswith("./rules: llama-server")
    assert phasewise("analyze", "rules", cwd=tmp_path).out.startswith("rules: llama-server")


def test_a_file_named_like_an_option(tmp_path: Path) -> None:
    (tmp_path / "-x.log").write_bytes(LOG.read_bytes())
    assert phasewise("./-x.log", cwd=tmp_path).status == 0
    assert phasewise("--", "-x.log", cwd=tmp_path).status == 0
    refused(phasewise("-x.log", cwd=tmp_path), 2, "no such option")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems don't allow such names")
@pytest.mark.parametrize("arguments", [[], ["--format", "json"], ["--format", "md"]])
def test_a_name_that_is_no_utf_8(tmp_path: Path, arguments: list[str]) -> None:
    name = os.fsdecode(b"caf\xe9.log")
    (tmp_path / name).write_bytes(LOG.read_bytes())
    ran = phasewise(name, *arguments, cwd=tmp_path)
    assert (ran.status, ran.err) == (0, "")
    assert "caf?.log" in ran.out
    ran = phasewise(os.fsdecode(b"miss\xe9.log"), cwd=tmp_path)
    refused(ran, 2, "miss?.log")
