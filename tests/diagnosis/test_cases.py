"""The twenty cases are answered right: `python -m tests.diagnosis` shows how."""

from __future__ import annotations

from functools import cache

import pytest

from tests.diagnosis.cases import CASES
from tests.diagnosis.evaluate import Answer, answer, score


@cache
def _answers() -> dict[str, Answer]:
    return {case.id: answer(case) for case in CASES}


@pytest.mark.parametrize("name", [case.id for case in CASES])
def test_case(name: str) -> None:
    said = _answers()[name]

    assert said.top, f"{said.case.title}: expected {said.case.expect}, found {said.found}"
    assert said.fix, f"{said.case.fix} is not among the first two fixes but at {said.fix_at}"
    assert not said.wrong
    assert said.saving, f"stated {said.stated_ms} ms, expected {said.case.saving_ms}"
    assert said.health, f"healthy: {said.healthy}"


def test_the_bars_are_met() -> None:
    got = score(list(_answers().values()))

    assert got.cases == 20
    assert got.passed, got
