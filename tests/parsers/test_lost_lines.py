"""Every sample without any one of its lines: what is left of a request is its own, or null."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.parsers.reading import lines_of, read
from tests.parsers.test_samples import LOGS
from tests.parsers.test_samples_harmed import some_of

if TYPE_CHECKING:
    from pathlib import Path

    from parsers.records import Request

NUMBERS = (
    *("prompt_tokens", "cached_tokens", "prefill_tokens", "prefill_ms", "output_tokens", "decode_ms"),
    *("queue_ms", "load_ms", "context_tokens", "draft_tokens", "accepted_tokens", "kind"),
)
SUMS = ("ttft_ms", "total_ms")
MOST_LINES = 12
_ROUNDING_MS = 0.011

TOLD_OTHERWISE = {
    ("llama-cpp-python-logits-all", 39): "the block alone counts a prompt's last token as a step",
    ("llama-cpp-python-logits-all", 57): "the same",
    ("llama-cpp-python-server", 36): "the line said that the block is of two models",
    ("llama-server-b7964", 57): "nothing else says that tokens were drafted",
    ("llama-server-b9160", 17): "the same",
    ("llama-server-draft-stop", 11): "the same",
    ("lmstudio-stats", 43): "the line ends the answer's statistics",
    ("mlx-lm-server", 9): "the clock of a prompt's caches, 2 ms before, is all that is left",
    ("ollama-llama-server", 19): "the load is timed by its first and last line instead",
    ("ollama-parallel", 12): "the load cost both requests that waited for it, and is told of the first",
    ("ollama-parallel", 13): "the same",
    ("sglang-0.5.23", 4): "another line tells of the same request, with other digits",
    ("sglang-0.5.23", 18): "the same",
    ("text-generation-webui-rich", 5): "the line said that the answer failed",
    ("text-generation-webui-rich", 10): "the rest of a line is joined to a quote of its first part",
    ("ollama-llama-server", 4): "the line said that this is not a llama-server alone",
    ("litellm-csv-messages", 11): "it opened a text that never ends, and the text holds a record",
}
"""What one line said and nothing else can. All of it is that request's own."""


def own_sum(row: Request, name: str) -> bool:
    """A time that its own phases add up to: where no line is left that says more."""
    value, prefill_ms = getattr(row, name), row.prefill_ms or 0.0
    parts = [prefill_ms, prefill_ms + (row.decode_ms or 0.0)]
    return any(abs(value - part) <= max(_ROUNDING_MS, 1e-4 * part) for part in parts)


def is_part_of(left: Request, whole: Request) -> bool:
    """Whether a row says nothing that the other doesn't."""
    same = all(getattr(left, name) in (None, getattr(whole, name)) for name in NUMBERS)
    return same and all(
        value is None or own_sum(left, name) or abs(value - (getattr(whole, name) or 0.0)) <= _ROUNDING_MS
        for name in SUMS
        for value in [getattr(left, name)]
    )


def is_told_by_one_line(row: Request) -> bool:
    """What text-generation-webui says of a request where the engine inside didn't."""
    return row.engine == "text-generation-webui"


@pytest.mark.parametrize("log", LOGS, ids=lambda path: path.stem)
def test_without_any_line(log: Path) -> None:
    lines = lines_of(log.read_bytes())
    whole = read(b"".join(lines)).requests
    if not whole:
        return
    for at in some_of(len(lines), MOST_LINES):
        if (log.stem, at + 1) in TOLD_OTHERWISE:
            continue
        left = read(b"".join(lines[:at] + lines[at + 1 :])).requests
        assert len(left) <= len(whole), (at + 1, lines[at])
        for row in left:
            assert is_told_by_one_line(row) or any(is_part_of(row, one) for one in whole), (at + 1, row)
