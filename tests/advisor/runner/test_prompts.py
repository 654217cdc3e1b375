"""A user's file of prompts, right and wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from advisor.errors import InputError
from advisor.runner.prompts import OUTPUT_TOKENS, read_prompts

if TYPE_CHECKING:
    from pathlib import Path


def test_lines_are_prompts_or_chats(tmp_path: Path) -> None:
    file = tmp_path / "asked.jsonl"
    file.write_text(
        '{"prompt": "Count to ten.", "max_tokens": 7}\n\n'
        '{"messages": [{"role": "user", "content": "Hello \\u00e9"}]}\n',
        encoding="utf-8",
    )
    asks = read_prompts(file, None).asks
    assert [ask.label for ask in asks] == ["line 1", "line 3"]
    assert [ask.output_tokens for ask in asks] == [7, OUTPUT_TOKENS]
    assert asks[1].segments[0].messages == (("user", "Hello é"),)
    assert {ask.output_tokens for ask in read_prompts(file, 3).asks} == {3}


def test_a_byte_order_mark_and_a_separator_in_a_text_are_no_line(tmp_path: Path) -> None:
    file = tmp_path / "asked.jsonl"
    file.write_text('\ufeff{"prompt": "one\u2028two\u0085three"}\r\n', "utf-8", newline="")
    (ask,) = read_prompts(file, None).asks
    assert ask.segments[0].text == "one\u2028two\u0085three"


def test_any_other_file_is_one_prompt(tmp_path: Path) -> None:
    file = tmp_path / "prompt.txt"
    file.write_text("A long text.\nOf two lines.\n", encoding="utf-8")
    (ask,) = read_prompts(file, None).asks
    assert ask.segments[0].text == "A long text.\nOf two lines.\n"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "there is no prompt in it"),
        (b"\xff\xfe\x00", "it is not UTF-8 text"),
        (b'{"prompt": "fine"}\nnot json\n', ":2: not a request"),
        (b'{"prompt": 3}\n', ":1: not a request"),
        (b'{"messages": [{"role": "user"}]}\n', ":1: not a request"),
        (b'{"prompt": "fine", "max_tokens": true}\n', ":1: max_tokens is no number"),
        (b"[" * 100_000, ":1: not a request"),
        (b'{"prompt": "half: \\ud83d"}\n', ":1: half of a character"),
    ],
)
def test_a_bad_file_is_one_sentence(tmp_path: Path, content: bytes, says: str) -> None:
    file = tmp_path / "asked.jsonl"
    file.write_bytes(content)
    with pytest.raises(InputError, match=says):
        read_prompts(file, None)


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"can't be read \(No such file"):
        read_prompts(tmp_path / "none.jsonl", None)
