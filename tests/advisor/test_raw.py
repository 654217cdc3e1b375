from __future__ import annotations

import gzip
import re
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from advisor.analysis import Options
from advisor.live.kept import Kept
from advisor.live.raw import _NOT_APART, GONE, MOST_BYTES, Raw, raw_lines, raw_of
from advisor.live.raw_words import said
from advisor.live.session import Session
from advisor.live.tails import TailedLog
from advisor.redact import Plain, Redactor
from advisor.sources.files import Input
from advisor.sources.finished import Finished
from parsers import SourceReader, Stream
from parsers.formats import FORMATS
from parsers.records import Request

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).parents[2]
FOUR_SLOTS = ROOT / "sample_logs" / "llama-server-four-slots.log"
SAMPLES = sorted((ROOT / "parsers" / "formats" / "samples").glob("*.log"))
HEAD = (
    b"0.00.000.001 I srv  llama_server: initializing ...\n"
    b"0.00.000.002 I srv    load_model: initializing, n_slots = 2, n_ctx_slot = 8192, kv_unified = 'true'\n"
)


RATE = "(    3.00 ms per token,   333.33 tokens per second)"


def timed(task: int, slot: int = 0, between: bytes = b"", clock: str = "0.01.000") -> bytes:
    who = f"id  {slot} | task {task} | "
    slot_says = f"{clock}.000 I slot print_timing: {who}"
    return b"".join(
        [
            f"{clock}.000 I slot launch_slot_: {who}processing task, is_child = 0\n".encode(),
            between,
            f"{slot_says}prompt eval time =     300.00 ms /   100 tokens {RATE}\n".encode(),
            f"{slot_says}       eval time =     150.00 ms /    50 tokens {RATE}\n".encode(),
            f"{slot_says}      total time =     450.00 ms /   150 tokens\n".encode(),
        ]
    )


def requests(data: bytes, name: str = "server.log") -> list[tuple[Request, str | None]]:
    stream = Stream(name)
    rows = stream.feed(data) + stream.close()
    return [(row, stream.engine) for row in rows if isinstance(row, Request)]


def raws(data: bytes, words: Plain | None = None) -> list[tuple[Request, Raw]]:
    return [
        (
            row,
            raw_of(asdict(row), data[row.offset :], FORMATS, words or Redactor(), (row.engine, engine, None)),
        )
        for row, engine in requests(data)
    ]


def marked(raw: Raw) -> list[str]:
    return [line.text[start:end] for line in raw.lines for start, end in line.marks]


def test_each_slot_has_its_own_lines() -> None:
    data = FOUR_SLOTS.read_bytes()
    lines = data.split(b"\n")
    for row, raw in raws(data):
        assert raw.lines[0].number == row.first_line
        assert row.line in [line.number for line in raw.lines]
        for line in raw.lines:
            assert f"task {row.request_id} |".encode() in lines[line.number - 1]
            assert line.text.split(" …")[0] in lines[line.number - 1].decode()
        assert {f"{row.prefill_ms:.2f}", f"{row.decode_ms:.2f}", row.request_id} <= set(marked(raw))
        assert raw.unread
        assert raw.reached == row.line


def test_a_block_without_prefixes_belongs_to_its_header() -> None:
    block = (
        "slot launch_slot_: id  {slot} | task {task} | processing task\n"
        "{more}"
        "slot print_timing: id  {slot} | task {task} | \n"
        "prompt eval time =     300.00 ms /   100 tokens {rate}\n"
        "       eval time =     150.00 ms /    50 tokens {rate}\n"
        "      total time =     450.00 ms /   150 tokens\n"
    )
    inner = block.format(slot=1, task=9, more="", rate=RATE)
    found = raws(block.format(slot=0, task=7, more=inner, rate=RATE).encode())
    numbers = {row.request_id: [line.number for line in raw.lines] for row, raw in found}
    assert numbers == {"9": [2, 3, 4, 5, 6], "7": [1, 7, 8, 9, 10]}
    assert {row.request_id: raw.others for row, raw in found} == {"9": 0, "7": 5}


def test_what_was_not_read_is_counted_and_not_shown() -> None:
    secret = b"What did my doctor say?\nprompt: total time of my illness\n"
    ((_, raw),) = raws(HEAD + timed(1, between=secret))
    assert raw.unread == 2
    assert not any("doctor" in line.text or "illness" in line.text for line in raw.lines)


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_no_text_of_people_is_shown(path: Path) -> None:
    told = re.sub(
        rb'("(?:content|text|prompt|response|input|output|message|messages|reasoning\w*)"|text|prompt)(: ?|=)'
        rb"([\"'])(?:[^\"'\\]|\\.)*?\3",
        rb"\1\2\3zebra crossing 4711\3",
        path.read_bytes(),
    )
    for _, raw in raws(told):
        for line in raw.lines:
            assert "zebra" not in line.text
            assert "4711" not in line.text


def test_prose_beside_what_a_pattern_reads_is_hidden() -> None:
    log = HEAD + timed(1).replace(b"processing task, is_child = 0", b"processing task of my doctor")
    ((_, raw),) = raws(log)
    assert raw.lines[0].text.endswith("| task 1 | processing task …")


@pytest.mark.parametrize(
    ("pattern", "line", "shown", "values"),
    [
        (rb"(?P<text>.*)", "Paris", "…", []),
        (rb"(?P<text>.*)", "42", "…", []),
        (
            rb"(?P<body>\{.*\})",
            '{"content": "n: 5 secret", "prompt_n": 7, "age": 41, "x": "\\"n\\": 9"}',
            "… prompt_n: 7 …",
            ["7"],
        ),
        (
            rb"obj=(?P<text>.*)",
            """obj=In(text='the "time": 5 s=3', n_ms=4, b="it's n=2")""",
            "obj=… n_ms: 4 …",
            ["4"],
        ),
        (rb"obj=(?P<text>.*)", "obj=In(n_ms=4, text='cut n=3", "obj=… n_ms: 4 …", ["4"]),
        (rb"a: .* n = (?P<n>\d+)", "a: my n n doctor n = 5", "a: … n … = 5", ["5"]),
        (rb"model (?P<model>.*)", "model of my doctor", "model …", []),
        (rb"model (?P<model>\S+)", "model qwen3:8b", "model qwen3:8b", ["qwen3:8b"]),
        (rb"took (?P<took>.*?), by (\w+)", "took 1.5 s, by doctor", "took 1.5 s, by …", ["1.5 s"]),
        (rb"took (?P<ms>\d+)", "took 15 ms per token", "took 15 ms per token", ["15"]),
        (rb"took (?P<ms>\d+)", "took 15 ms per doctor", "took 15 …", ["15"]),
    ],
)
def test_what_is_shown_of_a_line(pattern: bytes, line: str, shown: str, values: list[str]) -> None:
    match = re.compile(pattern).match(line.encode())
    assert match is not None
    text, marks = said(match)
    assert text == shown
    assert [text[start:end] for start, end in marks] == values


def test_marks_stay_on_values_behind_what_is_masked() -> None:
    sample = next(path for path in SAMPLES if path.stem == "llamafile-llamafiler").read_bytes()
    _, (_, raw) = raws(sample.replace(b"127.0.0.1", b"203.0.113.7"))
    assert "[ip-1]" in raw.lines[0].text
    assert marked(raw)[-2:] == ["0", "stop"]


def test_no_escape_is_shown() -> None:
    log = (HEAD + timed(1)).replace(b"I slot print", b"\x1b[31mI slot\x1b[0m print")
    ((_, raw),) = raws(log)
    assert raw.lines
    assert not any(re.search(r"[\x00-\x1f\x7f-\x9f]", line.text) for line in raw.lines)
    assert "300.00" in marked(raw)


def test_utf_16_is_read_from_its_middle() -> None:
    data = (HEAD + timed(1) + timed(2)).decode().encode("utf-16")
    for row, raw in raws(data):
        assert [line.number for line in raw.lines][-1] == row.line


def test_a_long_span_is_cut() -> None:
    chatter = b"0.01.000.000 I srv  some_thing: " + b"x" * 990 + b"\n"
    ((row, raw),) = raws(HEAD + timed(1, between=chatter * (MOST_BYTES // len(chatter) + 9)))
    assert raw.reached < row.line
    assert len(raw.lines) == 1


# --- from a session


class Piped:
    """Standard input that gives these blocks."""

    name = "-"
    has_caught_up = False

    def __init__(self, parts: Iterable[bytes]) -> None:
        self._parts: Iterator[bytes] = iter(parts)

    def read(self, wait_s: float) -> bytes | None:
        return next(self._parts, None)

    def notes(self) -> list[str]:
        return []

    def close(self) -> None: ...


def ended(tail: TailedLog) -> tuple[Session, list[dict[str, Any]]]:
    session = Session([tail], Options(), history=1_000)
    session.start()
    while not session.ended:
        time.sleep(0.005)
    session.settle()
    return session, session.so_far()[0]["requests"].to_dicts()


def test_kept_lines_are_shown_and_older_ones_read_again(tmp_path: Path) -> None:
    path = tmp_path / "server.log.gz"
    path.write_bytes(gzip.compress(HEAD + timed(1) + timed(2)))
    tail = TailedLog(Finished(Input(str(path))), SourceReader(Stream(str(path))), grows=False, path=path)
    session, rows = ended(tail)
    kept = [raw_lines(session, row) for row in rows]
    assert [len(raw.lines) for raw in kept] == [4, 4]
    tail.kept = Kept()
    assert [raw_lines(session, row) for row in rows] == kept
    path.unlink()
    assert raw_lines(session, rows[0]).problem == GONE


def test_a_plain_file_is_not_read_from_its_beginning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "server.log"
    data = HEAD + b"".join(timed(task) for task in range(200))
    path.write_bytes(data)
    for grows in (True, False):
        tail = TailedLog(Finished(Input(str(path))), SourceReader(Stream(str(path))), grows=grows, path=path)
        session, rows = ended(tail)
        kept = [raw_lines(session, row) for row in rows]
        tail.kept = Kept(limit=1)
        tail.kept.add(data[: rows[150]["offset"]])
        tail.kept.add(data[rows[150]["offset"] :])
        with monkeypatch.context() as patched:
            patched.delattr("advisor.live.raw.blocks")
            assert [raw_lines(session, row) for row in rows] == kept
        path.write_bytes(data.replace(b"task", b"TASK"))
        found = raw_lines(session, rows[0])
        assert found.problem == (GONE if grows else _NOT_APART)
        path.write_bytes(data)


def test_a_pipe_cannot_be_read_again() -> None:
    tail = TailedLog(Piped([HEAD, timed(1)]), Stream("-"))
    session, rows = ended(tail)
    assert len(raw_lines(session, rows[0]).lines) == 4
    tail.kept = Kept()
    assert raw_lines(session, rows[0]) == Raw(problem=GONE)
