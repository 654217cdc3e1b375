"""The order of turns, and the file of rows on a disk that fills up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.errors import InputError
from advisor.runner.arm import Arm
from advisor.runner.block import Side, turns
from advisor.runner.rows import KeptRows
from advisor.runner.settings import Settings
from advisor.runner.workload import Workload


@given(st.integers(1, 4), st.integers(1, 12))
def test_every_side_has_its_turns_and_an_even_drift_falls_on_all_alike(sides: int, rounds: int) -> None:
    arm = Arm(Settings(Path("model.gguf")), Workload("none", ()))
    order = [side.label for side in turns([Side(str(n), arm) for n in range(sides)], rounds)]
    places = {label: [at for at, one in enumerate(order) if one == label] for label in order}
    assert {len(of) for of in places.values()} == {rounds}
    if rounds % 2 == 0:
        assert len({sum(of) for of in places.values()}) == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_a_full_disk_is_told_once_and_stops_nothing() -> None:
    with KeptRows(Path("/dev/full")) as kept:
        kept.add({"engine": "one"})
        first = kept.fault
        kept.add({"engine": "two"})
    assert first is not None
    assert "later rows are missing (No space left on device)" in first
    assert kept.fault == first


def test_rows_are_whole_lines_as_they_come(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    with KeptRows(file) as kept:
        kept.add({"engine": "one", "prefill_ms": None})
        assert json.loads(file.read_text("utf-8")) == {"engine": "one", "prefill_ms": None}
    assert kept.fault is None


def test_a_file_that_can_t_be_written_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="can't be written"):
        KeptRows(tmp_path / "no" / "rows.jsonl")
