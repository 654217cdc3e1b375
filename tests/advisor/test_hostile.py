"""Log text is hostile and private: nothing of it runs, and nothing private leaves."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import unicodedata
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from advisor import redact
from advisor.reading import read
from advisor.report.markdown import code, escape
from advisor.sources.files import Input, blocks
from tests.advisor.helpers import (
    Asked,
    bare,
    environment,
    one_sentence,
    phasewise,
    prefixed,
    refused,
    snippet,
)

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

EVIL = (
    "\x1b[31mred\x1b[0m\x1b]0;title\x07\x9b2J\x00\x08[bold red]bold[/] <script>alert(1)<br> "
    "<img src=x onerror=y> a|b `tick` **strong** [link](https://example.org) ~~gone~~ &lt; ![i](x) "
    "{0} {{ 7*7 }} {% raw %} \u202egnp\u2066\u200f\u061c\u2028\U000e0041 :smile: %s $(rm)"
)
FORMATS = ("terminal", "md", "json")


def hostile_log(model: str, name: str) -> bytes:
    """A verbose log that says these as the model's path, the device's name, the quantization and more."""
    head, rest = prefixed([Asked(900, 700, 100, 2500)] * 6, model=model).split("\n", 1)
    said = [
        "0.00.001.000 I cmn  common_param: device_info:",
        f"0.00.001.000 I cmn  common_param:   - CUDA0   : {name} (24080 MiB, 23000 MiB free)",
        f"0.00.002.000 I print_info: file type             = {name}",
        f"0.00.002.000 I print_info: arch                  = {name}",
        f"0.00.002.000 I print_info: general.name          = {name}",
    ]
    return "\n".join([head, *said, rest]).encode()


def unsafe(text: str) -> set[str]:
    """Control and invisible formatting characters other than line ends."""
    return {c for c in text if unicodedata.category(c) in {"Cc", "Cf", "Cs", "Zl", "Zp"} and c != "\n"}


def strings(data: Any) -> list[str]:
    if isinstance(data, dict):
        return [s for pair in data.items() for part in pair for s in strings(part)]
    if isinstance(data, list):
        return [s for item in data for s in strings(item)]
    return [data] if isinstance(data, str) else []


@pytest.mark.parametrize("private", [[], ["--no-redact"]])
@pytest.mark.parametrize("form", FORMATS)
def test_nothing_in_the_log_controls_the_output(form: str, private: list[str]) -> None:
    ran = phasewise("-", "--all", "--format", form, *private, stdin=hostile_log(f"/m/{EVIL}", EVIL))
    assert (ran.status, bool(ran.err)) == (0, bool(private))
    assert unsafe(ran.out) == set()
    if form == "terminal":
        assert "[bold red]bold[/]" in re.sub(r"\s+", " ", ran.out)
        assert "{{ 7*7 }}" in re.sub(r"\s+", " ", ran.out)
    if form == "json":
        assert {c for s in strings(json.loads(ran.out)) for c in unsafe(s)} == set()


def test_hostile_text_stays_text_in_markdown() -> None:
    page = phasewise("-", "--format", "md", stdin=hostile_log(f"/m/{EVIL}", EVIL)).out
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(page)
    inline = [child for token in tokens for child in token.children or []]
    html = [t.content for t in tokens if t.type == "html_block"]
    html += [t.content for t in inline if t.type == "html_inline"]
    ours = re.compile(r"</?(details|summary|code)>|<!-- -->")
    assert not any("<" in ours.sub("", text) for text in html)
    assert {t.type for t in inline} <= {
        "text",
        "strong_open",
        "strong_close",
        "code_inline",
        "html_inline",
        "softbreak",
        "text_special",
    }
    shown = "".join(t.content for t in inline if t.type in ("text", "text_special"))
    for text in ("<script>alert(1)<br>", "a|b `tick` **strong**", "~~gone~~ &lt;", "{{ 7*7 }}"):
        assert text in shown


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@pytest.mark.parametrize("private", [[], ["--no-redact"]])
def test_nothing_in_the_log_controls_an_export(kind: str, private: list[str]) -> None:
    log = hostile_log(f"/m/{EVIL}", EVIL)
    ran = phasewise("export", "-", "--format", kind, *private, stdin=log)
    assert (ran.status, bool(ran.err)) == (0, bool(private))
    assert unsafe(ran.out) == set()
    lines = ran.out.splitlines()
    assert len(lines) == 6 + (kind == "csv")
    if kind == "jsonl":
        assert {c for line in lines for s in strings(json.loads(line)) for c in unsafe(s)} == set()


@pytest.mark.parametrize("start", ["=HYPERLINK(1)", "+1+cmd", "@SUM(1)", "-2+3"])
def test_no_cell_is_a_formula(start: str) -> None:
    log = prefixed([Asked(900, 700, 100, 2500)], model=start).encode()
    header, row = phasewise("export", "-", "--format", "csv", stdin=log).out.splitlines()
    cells = dict(zip(header.split(","), row.split(","), strict=True))
    assert cells["model"] == f"'{start}"
    assert cells["source"] == "-"


@pytest.mark.skipif(sys.platform == "win32", reason="not a file name there")
@pytest.mark.parametrize("form", FORMATS)
def test_a_hostile_file_name(tmp_path: Path, form: str) -> None:
    name = "\x1b[31m[red]{x}\u202e<b>`|.log"
    (tmp_path / name).write_bytes(hostile_log("/m/x.gguf", "GPU"))
    ran = phasewise(name, "--format", form, cwd=tmp_path)
    assert (ran.status, ran.err) == (0, "")
    assert unsafe(ran.out) == set()
    bad = phasewise(f"missing{name}", cwd=tmp_path)
    assert unsafe(bad.err) == set()
    assert bad.err.count("\n") == 1


@pytest.mark.parametrize("form", FORMATS)
def test_a_very_long_name(form: str) -> None:
    log = hostile_log("/m/" + "very-long-" * 3000, "GPU " * 5000)
    ran = phasewise("-", "--format", form, stdin=log)
    assert (ran.status, ran.err) == (0, "")
    if form == "terminal":
        assert max(map(len, ran.out.splitlines())) <= 80


# --- private


@pytest.mark.parametrize("form", [*FORMATS, "csv"])
def test_nothing_private_leaves_unless_asked(tmp_path: Path, form: str) -> None:
    home = tmp_path / "home" / "alice"
    home.mkdir(parents=True)
    name = "GPU sk-proj-abcdefghijklmnop1234 of alice@example.org"
    (home / "server.log").write_bytes(hostile_log("/home/alice/hf_AbCdEfGhIjKlMnOpQrSt/x.gguf", name))
    verb = ["export", "--format", "csv"] if form == "csv" else ["analyze", "--all", "--format", form]
    closed = phasewise(*verb, home / "server.log")
    assert (closed.status, closed.err) == (0, "")
    for secret in ("alice", "sk-proj", "hf_Ab", "example.org"):
        assert secret not in re.sub(r"\s+", "", closed.out.replace("\\", ""))
    opened = phasewise(*verb, home / "server.log", "--no-redact")
    one_sentence(opened, "--no-redact", "keys")
    flat = re.sub(r"\s+", "", opened.out.replace("\\", ""))
    assert "/home/alice/hf_AbCdEfGhIjKlMnOpQrSt/x.gguf" in flat
    assert f"{home}/server.log" in flat


# --- quoted timings


QUOTED = snippet(Asked(10, 20, 30, 40))
DUMPS = {
    "json": f"srv  update_slots: prompt: {json.dumps(QUOTED)}\n",
    "raw": f"prompt text follows\n{QUOTED}and ends here\n",
    "in a sentence": "".join(f"user asks: why '{line}'?\n" for line in QUOTED.splitlines()),
    "a whole line": 'srv  log: {"content":"slot print_timing: id  0 | task 9 | \\n'
    + json.dumps(QUOTED)[1:-1]
    + '"}\n',
}


@pytest.mark.parametrize("layout", [prefixed, bare])
@pytest.mark.parametrize("dump", DUMPS.values(), ids=list(DUMPS))
@pytest.mark.parametrize("at", ["launch_slot_", "release"])
def test_a_prompt_that_quotes_timings_adds_no_row(tmp_path: Path, layout: Any, dump: str, at: str) -> None:
    log = layout([Asked(900, 700, 100, 2500), Asked(800, 600, 100, 2500)])
    lines = [line + "\n" + (dump if at in line else "") for line in log.splitlines()]
    assert _rows(tmp_path, "".join(lines)).equals(_rows(tmp_path, log))


def _rows(folder: Path, log: str) -> pl.DataFrame:
    (folder / "x.log").write_text(log)
    return read([str(folder / "x.log")]).tables.requests.drop("line", "first_line", "offset")


# --- files that are none


@pytest.mark.skipif(sys.platform == "win32", reason="no such files there")
def test_what_never_ends_ends(tmp_path: Path) -> None:
    """Devices, a hole, a link to itself: a sentence, soon, in little memory."""
    with (tmp_path / "hole.log").open("wb") as file:
        file.truncate(200 << 20)
    (tmp_path / "loop.log").symlink_to("loop.log")
    for name, said in {
        "/dev/zero": "this is a binary file",
        "/dev/urandom": "this is a binary file",
        "hole.log": "this is a binary file",
        "loop.log": "no such file",
    }.items():
        ran = phasewise(name, cwd=tmp_path)
        refused(ran, 2 if name == "loop.log" else 3, name, said)


@pytest.mark.skipif(sys.platform == "win32", reason="no such limits there")
@pytest.mark.parametrize("line", [b"slot print_timing: id  0 | task 1 | ", b"\0", b"{", b"\xff"])
def test_one_endless_line(tmp_path: Path, line: bytes) -> None:
    """Of 100 MB, between two requests: it is passed over, and takes a few megabytes."""
    log = prefixed([Asked(900, 700, 100, 2500)]).encode()
    with (tmp_path / "x.log").open("wb") as file:
        file.write(log)
        for _ in range(100):
            file.write((line * (1_000_000 // len(line) + 1))[:1_000_000])
        file.write(b"\n" + log)
    code = (
        "import resource, sys; from advisor.reading import read;"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss;"
        "print([s.requests for s in read(sys.argv[1:]).sources],"
        "resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "x.log"],
        capture_output=True,
        env=environment(),
        timeout=100,
        check=True,
    )
    requests, _, grown = ran.stdout.decode().partition("] ")
    assert requests == "[2"
    assert int(grown) * (1 if sys.platform == "darwin" else 1024) < 80 << 20


@pytest.mark.skipif(sys.platform == "win32", reason="open files can't be cut there")
def test_a_file_that_shrinks_while_it_is_read(tmp_path: Path) -> None:
    log = prefixed([Asked(900, 700, 100, 2500)] * 9000).encode()
    path = tmp_path / "x.log"
    path.write_bytes(log)
    coming = blocks(Input(str(path)))
    begun = next(coming)
    os.truncate(path, len(begun) + 500)
    got = begun + b"".join(coming)
    assert log.startswith(got)
    assert len(got) < len(log)


# --- for any text


@given(st.text())
def test_clean_text_holds_no_controls(text: str) -> None:
    assert unsafe(redact.clean(text)) == set()
    assert unsafe(redact.Redactor().text(text)) == set()


@given(st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), min_size=1))
def test_escaped_text_renders_as_itself(text: str) -> None:
    (paragraph,) = [
        t
        for t in MarkdownIt("commonmark").enable("strikethrough").parse("x " + escape(text) + " x")
        if t.type == "inline"
    ]
    shown = [c.content for c in paragraph.children or [] if c.content != "<!-- -->"]
    assert "".join(shown) == f"x {text} x"


@given(st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), min_size=1))
def test_code_renders_as_itself(text: str) -> None:
    (paragraph,) = [t for t in MarkdownIt("commonmark").parse("x " + code(text) + " x") if t.type == "inline"]
    spans = [c.content for c in paragraph.children or [] if c.type == "code_inline"]
    assert [span.strip() for span in spans] == [text.strip()] or not text.strip()
