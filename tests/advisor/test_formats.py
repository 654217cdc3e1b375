"""Formats at the command line: the list, a user's own file, its check, and what is not read."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from parsers import FORMATS
from tests.advisor.helpers import ROOT, one_sentence, phasewise, refused

if TYPE_CHECKING:
    from pathlib import Path

_PAGE = (ROOT / "docs" / "adding-a-format.md").read_text("utf-8")
_BLOCKS = re.findall(r"```toml\n(.*?)```", _PAGE, re.DOTALL)
LOG = b"".join(
    b"2026-03-02 10:00:0%(n)d.000 toyserve: request r%(n)d accepted\n"
    b"2026-03-02 10:00:0%(n)d.100 toyserve: request r%(n)d prompt: 640 tokens in 1.25 s, waited 0.1 s\n"
    b"2026-03-02 10:00:0%(n)d.200 toyserve: request r%(n)d answer: 33 tokens at 20.00 tok/s\n" % {b"n": n}
    for n in range(4)
)
UNREAD = b'toyserve: request r1 thought 12 tokens of "my secret plan" for jane in 5 ms\n'


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    [block] = _BLOCKS
    path = tmp_path / "toyserve.toml"
    path.write_text(block, "utf-8")
    return path


def test_the_list_names_every_engine_and_what_it_times() -> None:
    ran = phasewise("formats")
    assert (ran.status, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert len(lines) >= len(FORMATS)
    assert all(any(line.startswith(f.engine) and f.splits in line for line in lines) for f in FORMATS)


def test_the_file_of_the_docs_is_right(toy: Path) -> None:
    ran = phasewise("formats", "check", toy)
    assert (ran.status, ran.err) == (0, "")
    assert "toyserve, 4 lines, 1 sample: as expected" in ran.out


def test_a_wrong_file_is_pointed_into(toy: Path) -> None:
    toy.write_text(toy.read_text("utf-8").replace("prefill_ms = 1250.0", "prefill_ms = 1251.0"), "utf-8")
    ran = phasewise("formats", "check", toy)
    assert (ran.status, ran.out) == (1, "")
    head, line, caret, end = ran.err.splitlines()
    assert re.fullmatch(r".*toyserve\.toml:\d+:14: expected 1251\.0, got 1250\.0", head)
    assert line[caret.index("^") :] == "1251.0"
    assert end.endswith("1 problem.")


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    refused(phasewise("formats", "check", tmp_path / "none.toml"), 2, "none.toml", "can't be read")
    refused(phasewise("formats", "check"), 2, "FILE")
    (tmp_path / "x.toml").write_bytes(b"\xff\xfe")
    refused(phasewise("formats", "check", tmp_path / "x.toml"), 2, "UTF-8")


def test_a_format_file_is_used(toy: Path) -> None:
    ran = phasewise("export", "-", "--format-file", toy, stdin=LOG)
    assert (ran.status, ran.err) == (0, "")
    rows = [json.loads(line) for line in ran.out.splitlines()]
    assert [(r["engine"], r["request_id"], r["prefill_ms"], r["decode_ms"]) for r in rows] == [
        ("toyserve", f"r{n}", 1250.0, 1600.0) for n in range(4)
    ]
    page = phasewise("-", "--format-file", toy, "--engine", "toyserve", stdin=LOG)
    assert page.status == 0
    assert "Decode takes 54 %" in page.out
    assert phasewise("-", stdin=LOG).status == 3


def test_formats_in_the_users_folder_are_found(toy: Path, tmp_path: Path) -> None:
    home = {"XDG_CONFIG_HOME": str(tmp_path), "APPDATA": str(tmp_path), "HOME": str(tmp_path)}
    folder = tmp_path / "phasewise" / "formats"
    folder.mkdir(parents=True)
    if phasewise("formats", env=home).out.count("toyserve"):
        pytest.fail("there before it was put there")
    (folder / "toy.toml").write_text(toy.read_text("utf-8"), "utf-8")
    assert "toyserve" in phasewise("formats", env=home).out
    assert phasewise("-", stdin=LOG, env=home).status == 0


def test_a_broken_format_file_is_one_sentence(toy: Path) -> None:
    toy.write_text(toy.read_text("utf-8").replace("(?P<prefill_ms>", "(?P<prefill_s>"), "utf-8")
    ran = phasewise("-", "--format-file", toy, stdin=LOG)
    refused(ran, 2, "prefill_s", "no column", "formats check")
    refused(phasewise("-", "--format-file", "none.toml", stdin=LOG), 2, "none.toml")


@pytest.mark.parametrize("verb", ["analyze", "export"])
def test_what_is_not_read_is_shown_by_its_shape(verb: str, toy: Path) -> None:
    log = LOG + UNREAD * 3
    plain = phasewise(verb, "-", "--format-file", toy, stdin=log)
    debug = phasewise(verb, "-", "--format-file", toy, "--debug-unparsed", stdin=log)
    assert (plain.status, plain.out) == (debug.status, debug.out)
    assert plain.err == ""
    head, shape = debug.err.splitlines()
    assert "3 lines" in head
    assert re.fullmatch(r" +3  -:13  toyserve: request … N tokens … N ms", shape)
    assert not {"secret", "jane", "plan"} & set(re.findall(r"\w+", debug.err))


def test_shapes_are_shown_of_a_log_that_nobody_knows() -> None:
    ran = phasewise("-", "--debug-unparsed", stdin=UNREAD)
    assert ran.status == 3
    assert "N tokens … N ms" in ran.err


def test_a_log_that_is_read_whole_has_no_shapes(toy: Path) -> None:
    ran = phasewise("-", "--format-file", toy, "--debug-unparsed", stdin=LOG)
    assert ran.status == 0
    one_sentence(ran, "every line")
