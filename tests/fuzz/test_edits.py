"""Edits of samples: what they make stays small, and the sample stays what it was."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz import seeds
from tests.fuzz.edits import as_json, edited_lines, edited_value
from tests.fuzz.targets import TARGETS

INTO_ITSELF = b"".join(b"\x03" + step.to_bytes(2, "little") + b"\x00" for step in range(1, 25))
"""The whole value at places further and further in: it doubles and doubles."""


@pytest.mark.parametrize("sample", [{"a": [1, {"b": 2}]}, [[0], [1]], seeds.records()[-1]])
def test_a_value_put_into_itself_stays_small(sample: Any) -> None:
    told = json.dumps(sample)
    grown = as_json(edited_value(bytes(2) + INTO_ITSELF, [sample]))
    assert len(told) < len(grown) < 1 << 18
    assert json.dumps(sample) == told


@given(st.binary(max_size=128))
def test_a_sample_is_never_changed(data: bytes) -> None:
    samples = [[0, {"a": 1}], {"b": [[]]}]
    edited_value(data, samples)
    assert samples == [[0, {"a": 1}], {"b": [[]]}]


def test_no_edits_give_the_sample() -> None:
    assert edited_value(b"\x01\x00", [1, {"a": 2}]) == {"a": 2}
    assert edited_lines(b"\x01\x00", [b"a", b"b\nc"]) == b"b\nc"


@pytest.mark.parametrize("name", ["logs", "records", "metrics", "answers", "json-lines"])
def test_fuzzing_begins_with_each_sample_as_it_is_and_edited(name: str) -> None:
    begun = TARGETS[name].begin()
    assert len({len(one) for one in begun}) == 2
    assert len(set(begun)) == len(begun)


def test_lines_are_carried() -> None:
    sample = b"a\nb\nc"
    assert edited_lines(bytes(2) + b"\x0a\x01\x00\x00", [sample]) == b"a\nllama-1  | b\nllama-1  | c"
    assert edited_lines(bytes(2) + b"\x0a\x02\x01\x01", [sample]) == b"vllm-2  | a\nb\nvllm-2  | c"
    in_json = edited_lines(bytes(2) + b"\x0a\x02\x0a\x00", [sample]).splitlines()[-1]
    assert json.loads(in_json)["log"] == "c\n"


def test_lines_carried_again_and_again_stay_small() -> None:
    assert len(edited_lines(bytes(2) + b"\x0a\x00\x0a\x00" * 24, [b'"\n"'])) < 1 << 18
