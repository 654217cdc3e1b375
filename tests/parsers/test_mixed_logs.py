"""Logs of several programs in one source without labels: each row is of the program that ran."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

import pytest

from tests.parsers.reading import read
from tests.parsers.scenarios import scenario
from tests.parsers.test_samples import SAMPLES

if TYPE_CHECKING:
    from parsers.records import Row

LOGS = {
    "ollama": (SAMPLES / "ollama-two-servers.log").read_bytes(),
    "llama-server": scenario("llama-server-b11434/a_short_default").log,
    "vllm": (SAMPLES / "vllm-v1.log").read_bytes(),
    "llama-cpp-python": (SAMPLES / "llama-cpp-python-server.log").read_bytes(),
}


def rows_of(rows: list[Row]) -> list[tuple[str, str]]:
    return sorted((type(row).__name__, row.engine) for row in rows)


@pytest.mark.parametrize(("first", "second"), list(permutations(LOGS, 2)))
def test_a_program_after_another(first: str, second: str) -> None:
    both = read(LOGS[first] + LOGS[second])
    assert rows_of(both.rows) == rows_of(read(LOGS[first]).rows + read(LOGS[second]).rows)
    assert all(row.engine in (first, second) for row in both.rows)


def test_ollama_after_an_older_llama_server() -> None:
    older = scenario("llama-server-mid2025/a_short_default").log
    both = read(older + LOGS["ollama"])
    assert rows_of(both.rows) == rows_of(read(older).rows + read(LOGS["ollama"]).rows)


@pytest.mark.parametrize("first", ["ollama", "llama-server"])
def test_vllm_has_a_setup_of_its_own(first: str) -> None:
    both = read(LOGS[first] + LOGS["vllm"])
    alone = read(LOGS["vllm"]).setup
    assert both.setup.model_dump(exclude={"line", "origin"}) == alone.model_dump(exclude={"line", "origin"})
