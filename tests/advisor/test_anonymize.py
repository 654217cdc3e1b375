"""A log that can be shared parses to the same rows, and nothing of what was said is in it."""

from __future__ import annotations

import gzip
import json
import os
import re
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest
import zstandard

from advisor.anonymize import anonymize
from advisor.anonymize.mask import Masker
from advisor.anonymize.names import Names
from advisor.anonymize.prose import Prose
from advisor.anonymize.rewrite import Asked, parse, redacted_rows, rewrite
from advisor.errors import InputError, UnrecognisedError
from advisor.sources.files import Input, blocks
from parsers import FORMATS
from tests.advisor.helpers import SAMPLES, prefixed
from tests.advisor.helpers import Asked as Request

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
LOGS = sorted(
    path
    for folder in ("parsers/formats/samples", "parsers/documents/samples", "sample_logs")
    for path in (ROOT / folder).iterdir()
    if path.suffix in {".log", ".json", ".jsonl"} and ".expected." not in path.name
)
SAID = (
    "Dear Zanzibar, my patient Okonkwo rang 5551234567 about hunter2xyz; mail jane.roe@corp.example or "
    "http://gpu77.corp.example:80 10.77.66.55 /home/janeroe/x sk-proj-abcdefghijklmnop99 fe80::77aa:1"
)
SECRETS = (
    *("zanzibar", "okonkwo", "5551234567", "hunter2xyz", "roe", "gpu77", "10.77", "abcdefghijklmnop99"),
    *("77aa", "secretpod", "acmecorp"),
)


def _rewritten(path: Path, folder: Path, name: str = "x.log") -> tuple[str | None, str]:
    """Where the rows differ, and the new log."""
    asked = Asked(name, None, FORMATS, datetime(2026, 6, 1, tzinfo=UTC))
    new = folder / "new.log"
    with new.open("wb") as file:
        return rewrite(path, file, asked, parse(path, asked)), new.read_bytes().decode()


@pytest.mark.parametrize("path", LOGS[::3], ids=lambda path: path.name)
def test_the_rows_stay(tmp_path: Path, path: Path) -> None:
    different, new = _rewritten(path, tmp_path)
    assert different is None
    assert new.count("\n") == path.read_bytes().count(b"\n")


def test_a_clock_that_looks_like_an_address_stays(tmp_path: Path) -> None:
    log = ROOT / "tests/logs/conversations/client_trims_history/server.log"
    different, new = _rewritten(log, tmp_path)
    assert different is None
    assert "1.23.112.133 I slot print_timing" in new


PLACES: dict[str, Callable[[str], str]] = {
    "lines of their own": lambda line: f"{line}\n{SAID}",
    "ends of lines": lambda line: line if line.rstrip()[-1:] in set("}],[{") else f"{line} {SAID}",
    "keys": lambda line: re.sub(
        r'\{(?=")', f'{{"prompt":"{SAID}","prompt_token_ids":[5551234567,2,3,4,5551234567,6,7,8,9],', line
    ),
    "values": lambda line: re.sub(r'("(?:content|text|prompt|error|user)": ?)"[^"]*"', rf'\1"{SAID}"', line),
    "pods": lambda line: f"[pod/secretpod-7d9f5b-abc/acmecorp-llm] {line}",
    "hosts": lambda line: f"2026-01-02T03:04:05.123456+00:00 secretpod acmecorp-ollama[12]: {line}",
    "containers": lambda line: f"acmecorp_llm-1  | {line}",
    "docker": lambda line: json.dumps(
        {"log": f"{line}\n", "stream": "stdout", "time": "2026-01-02T03:04:05.12Z", "attrs": {"tag": SAID}}
    ),
    "quotes": lambda line: f'prompt: "{SAID}" {line}',
}
PLANTED = (
    "llama-server-b9160",
    "ollama-llama-server",
    "vllm-v0",
    "sglang-0.5.23",
    "ollama-body",
    "vllm-bench-summary",
)


@pytest.mark.parametrize("place", PLACES)
def test_nothing_that_was_said_is_left(tmp_path: Path, place: str) -> None:
    kinds = (".log", ".json") if place in {"keys", "values"} else (".log",)
    for path in (path for path in LOGS if path.stem in PLANTED and path.suffix in kinds):
        lines = path.read_text("utf-8", errors="replace").split("\n")
        (tmp_path / "said.log").write_text(
            "\n".join(PLACES[place](line) if line else "" for line in lines), "utf-8"
        )
        different, new = _rewritten(tmp_path / "said.log", tmp_path)
        assert different is None, path.name
        assert [secret for secret in SECRETS if secret in new.lower()] == [], path.name


def test_two_machines_stay_apart(tmp_path: Path) -> None:
    log = (SAMPLES / "ollama-reload.log").read_text("utf-8").splitlines()
    heads = ("Nov 29 10:00:00 alpha ollama[1]: ", "Nov 29 10:00:00 beta ollama[2]: ")
    (tmp_path / "x.log").write_text("".join(f"{head}{line}\n" for line in log for head in heads), "utf-8")
    different, new = _rewritten(tmp_path / "x.log", tmp_path)
    assert different is None
    assert "alpha" not in new
    assert len({line.split()[3] for line in new.splitlines() if line}) == 2


def test_names_are_those_of_reports(tmp_path: Path) -> None:
    model = "/home/alice/models/m of jane@example.org at 10.0.0.7.gguf"
    (tmp_path / "x.log").write_text(prefixed([Request(900, 700, 100, 2500)] * 3, model=model), "utf-8")
    different, new = _rewritten(tmp_path / "x.log", tmp_path)
    assert different is None
    assert "loading model '/home/m of [mail-1] at [ip-1].gguf'" in new


def test_a_file_a_stream_and_what_is_compressed(tmp_path: Path) -> None:
    log = tmp_path / "x.log.gz"
    log.write_bytes(gzip.compress((SAMPLES / "vllm.log").read_bytes()))
    os.utime(log, (1.6e9, 1.6e9))
    for name in ("new.log", "new.log.gz", "new.log.zst"):
        anonymize(str(log), tmp_path / name)
        assert (tmp_path / name).stat().st_mtime == 1.6e9
    plain = (tmp_path / "new.log").read_bytes()
    assert gzip.decompress((tmp_path / "new.log.gz").read_bytes()) == plain
    assert b"".join(blocks(Input(str(tmp_path / "new.log.zst")))) == plain
    assert zstandard.frame_content_size((tmp_path / "new.log.zst").read_bytes()) != 0
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        {"x.log.gz", "new.log", "new.log.gz", "new.log.zst"}
    )


def test_no_file_is_written_unless_it_says_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Masker, "line", lambda *_: "")
    with pytest.raises(InputError, match=r"it would not say the same \(the \w+ of line \d+, \w+\)"):
        anonymize(str(SAMPLES / "vllm.log"), tmp_path / "new.log")
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_log(tmp_path: Path) -> None:
    (tmp_path / "x.log").write_text("nothing\n")
    with pytest.raises(UnrecognisedError, match="no engine's log"):
        anonymize(str(tmp_path / "x.log"), tmp_path / "new.log")
    (tmp_path / "y.log").write_text("nothing\n")
    with pytest.raises(InputError, match="2 files"):
        anonymize(str(tmp_path), tmp_path / "new.log")


def test_redaction_finds_nothing_more(tmp_path: Path) -> None:
    path = SAMPLES / "ollama-reload.log"
    _rewritten(path, tmp_path)
    asked = Asked("x.log", None, FORMATS, datetime(2026, 6, 1, tzinfo=UTC))
    parsed = parse(tmp_path / "new.log", asked)
    frames, _ = redacted_rows(parsed)
    texts = pl.col("request_id", "finish_reason")
    assert frames["requests"].select(texts).equals(parsed.frames["requests"].select(texts))


FORMATS_OF = ROOT / "parsers/formats/samples"
COMMON = (
    "The model wrote tokens per second and the user name is root, so please answer: what error did the "
    "server return when the request ended with 4111222233334444"
)
DUMPS: dict[str, tuple[str, Callable[[str], str]]] = {
    "a body's answer": (
        "ollama-body",
        lambda line: re.sub(r'\{(?=")', json.dumps({"content": COMMON})[:-1] + ",", line, count=1),
    ),
    "a body's prompts": (
        "ollama-body",
        lambda line: re.sub(r'\{(?=")', json.dumps({"prompt": [COMMON, "yes"]})[:-1] + ",", line, count=1),
    ),
    "after a line": ("llama-server-b9160", lambda line: f"{line} {COMMON}"),
    "after a vLLM line": ("vllm-v0", lambda line: f"{line} {COMMON}"),
    "a message": ("vllm-v1", lambda line: f'{line} prompt: "{COMMON}"'),
    "the text of a request": ("sglang-0.5.23", lambda line: f"{line} obj=GenerateReqInput(text='{COMMON}')"),
}


@pytest.mark.parametrize("dump", DUMPS)
def test_common_words_are_private_too(tmp_path: Path, dump: str) -> None:
    name, said = DUMPS[dump]
    lines = (FORMATS_OF / f"{name}.log").read_text("utf-8").split("\n")
    log = "\n".join(
        said(line) if line.rstrip()[-1:] not in {*"}],[{"} or "{" in line else line for line in lines
    )
    (tmp_path / "said.log").write_text(log, "utf-8")
    different, new = _rewritten(tmp_path / "said.log", tmp_path)
    assert different is None
    assert log.count(COMMON) > 1
    left = ("wrote", "please", "the user", "root", "answer:", "what error", "when the", "1112222")
    assert [word for word in left if word in new.lower()] == []


def test_cells_of_csv(tmp_path: Path) -> None:
    log = (FORMATS_OF / "guidellm-csv.log").read_text("utf-8").replace('""say ', '""Zanzibar the user ')
    (tmp_path / "x.log").write_text(log, "utf-8")
    different, new = _rewritten(tmp_path / "x.log", tmp_path)
    assert different is None
    assert "the user" not in new


def test_many_private_ids_take_no_longer_each(tmp_path: Path) -> None:
    names = Names({f"id-{n}@corp.example": f"[mail-{n}]" for n in range(20_000)})
    text = " ".join(f"id-{n}@corp.example," for n in range(0, 20_000, 10))
    began = time.perf_counter()
    shown = names.replaced(text)
    assert time.perf_counter() - began < 2
    assert shown.startswith("[mail-0], [mail-10], ")
    assert "corp" not in shown


def test_digits_and_a_letter_end_soon() -> None:
    masker = Masker((), Prose(()), Names({}), (), str)
    assert masker.text("1" * 60 + "q") == "x1"


def test_numbers_of_texts_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("advisor.anonymize.mask._REMEMBERED", 10)
    masker = Masker((), Prose(()), Names({}), (), str)
    assert [masker.number(str(n)) for n in range(30)] == list(range(1, 31))
    assert masker.number("29") == 30
    assert len(masker._numbers) == 10


def test_lines_of_a_prompt_have_no_heads(tmp_path: Path) -> None:
    log = (SAMPLES / "vllm.log").read_text("utf-8").splitlines()
    said = [
        "4111111111111111  | yes",
        "Bob  | the user",
        "(Zed pid=4711) INFO no",
        "order-4711 555 the model",
    ]
    (tmp_path / "x.log").write_text("\n".join([*log, *said, *log]) + "\n", "utf-8")
    different, new = _rewritten(tmp_path / "x.log", tmp_path)
    assert different is None
    assert new.splitlines()[len(log) : len(log) + 4] == [""] * 4


def test_a_full_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    with pytest.raises(InputError, match=r"none: can't be written"):
        anonymize(str(SAMPLES / "vllm.log"), tmp_path / "new.log")
