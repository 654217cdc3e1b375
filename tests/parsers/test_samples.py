"""Each format's samples give the rows beside them, however the bytes are cut and whatever wraps them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import parsers.formats
from tests.parsers.reading import TIMES, Read, bytewise, lines_of, read, wrap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from parsers.records import Row

SAMPLES = Path(parsers.formats.__file__).parent / "samples"
LOGS = sorted(SAMPLES.glob("*.log"))
CONTAINER = b"engine-1  | "
DOCKER_TIME = "2026-11-29T20:15:30.000000000Z"


def expected_of(log: Path) -> dict[str, Any]:
    expected: dict[str, Any] = json.loads(log.with_suffix(".expected.json").read_text(encoding="utf-8"))
    return expected


def plain(row: Row, wanted: dict[str, Any]) -> dict[str, Any]:
    """The wanted fields of a row as JSON would hold them."""
    return {name: json.loads(json.dumps(getattr(row, name), default=str)) for name in wanted}


def check_rows(rows: Sequence[Row], wanted: list[dict[str, Any]], without: tuple[str, ...]) -> None:
    wanted = [{name: value for name, value in row.items() if name not in without} for row in wanted]
    assert [plain(row, fields) for row, fields in zip(rows, wanted, strict=False)] == wanted
    assert len(rows) == len(wanted)


def check(log: Read, expected: dict[str, Any], without: tuple[str, ...] = ()) -> None:
    assert log.stream.engine == expected["engine"]
    for table in ("requests", "intervals", "events", "aggregates"):
        if table in expected:
            check_rows(getattr(log, table), expected[table], without)
    for name, value in expected.get("setup", {}).items():
        found = getattr(log.setup, name)
        assert ([d.model_dump(exclude_none=True) for d in found] if name == "devices" else found) == value, (
            name
        )
    for name, value in expected.get("counts", {}).items():
        assert getattr(log.stream.counts, name) == value, name


def test_each_log_says_what_is_expected_of_it() -> None:
    assert {p.name.removesuffix(".expected.json") for p in SAMPLES.glob("*.json")} == {p.stem for p in LOGS}
    assert all(expected_of(log)["note"] for log in LOGS)


@pytest.mark.parametrize("log", LOGS, ids=lambda path: path.stem)
def test_sample(log: Path) -> None:
    data, expected = log.read_bytes(), expected_of(log)
    whole = read(data)
    check(whole, expected)
    assert bytewise(data).told() == whole.told()


@pytest.mark.parametrize("log", LOGS, ids=lambda path: path.stem)
def test_sample_in_a_container(log: Path) -> None:
    check(read(wrap(log.read_bytes(), CONTAINER)), expected_of(log), without=TIMES)


@pytest.mark.parametrize("log", LOGS, ids=lambda path: path.stem)
def test_sample_in_dockers_files(log: Path) -> None:
    """Docker's json-file driver escapes three signs more than JSON needs."""
    records = (
        {"log": line.decode("utf-8", "replace"), "stream": "stderr", "time": DOCKER_TIME}
        for line in lines_of(log.read_bytes())
    )
    plain = "".join(f"{json.dumps(record)}\n" for record in records)
    escaped = plain
    for sign in "<>&":
        escaped = escaped.replace(sign, f"\\u{ord(sign):04x}")
    assert read(escaped.encode()).told("offset") == read(plain.encode()).told("offset")
