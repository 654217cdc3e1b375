"""llama-bench's layouts against each other: what the table rounds, the others state."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from statistics import fmean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.parsers.reading import join, read

LOGS = Path(__file__).parents[1] / "logs" / "llama-bench-b11434"
JSONL = (LOGS / "llama-bench.jsonl").read_text(encoding="utf-8")
HEAD = "| model | size | params | backend | threads | test | t/s |"


def exact() -> list[dict[str, object]]:
    return [json.loads(text) for text in JSONL.splitlines()]


def printed(rate: float, spread: float) -> str:
    return f"| llama 1B Q4_0 | 600.00 MiB | 1.10 B | CPU | 4 | pp512 | {rate:.2f} ± {spread:.2f} |"


def test_real_rows_are_as_exact_as_the_engine_states_them() -> None:
    log = read(JSONL.encode())
    assert log.stream.engine == "llama-bench"
    assert [row.total_ms for row in log.requests] == [816.324702, 138.10383, 1108.270746, 190.480476]
    assert [row.request_id for row in log.requests] == ["pp256", "tg16", "pp256 @ d1024", "tg16 @ d1024"]
    assert {row.kind for row in log.requests} == {"benchmark"}


def test_a_real_table_gives_the_tests_and_no_more_digits_than_it_prints() -> None:
    log = read((LOGS / "llama-bench.md").read_bytes())
    assert [row.request_id for row in log.requests] == ["pp256", "tg16", "pp256 @ d1024", "tg16 @ d1024"]
    assert [row.total_ms for row in log.requests] == [730.9, 129.0, 1151.0, 204.1]
    assert log.setup.engine_version == "b11434"
    assert log.setup.threads == 2


def test_every_layout_of_the_same_tests_gives_the_same_rows() -> None:
    rows = [{k: v for k, v in row.items() if not k.startswith("samples")} for row in exact()]
    values = [[str(int(v) if isinstance(v, bool) else v) for v in row.values()] for row in rows]
    table = io.StringIO()
    csv.writer(table, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(values)
    head = f"INSERT INTO llama_bench ({', '.join(rows[0])}) VALUES ("
    layouts = {
        "csv": ",".join(rows[0]) + "\n" + table.getvalue(),
        "json": json.dumps([row | {"samples_ts": 0} for row in rows], indent=2),
        "sql": "".join(head + ", ".join(f"'{v}'" for v in row) + ");\n" for row in values),
    }
    places = ("line", "first_line", "offset")
    lines = read(JSONL.encode())
    for name, layout in layouts.items():
        log = read(layout.encode())
        assert log.told(*places) == lines.told(*places), name
        assert log.setup.model_dump(exclude={"origin", "line"}) == lines.setup.model_dump(
            exclude={"origin", "line"}
        ), name


@given(st.lists(st.floats(900, 1100), min_size=1, max_size=5))
def test_a_time_made_of_a_rate_is_as_near_to_the_mean_time_as_it_claims(times_ms: list[float]) -> None:
    rates = [512e3 / ms for ms in times_ms]
    rate = fmean(rates)
    spread = stdev(rates) if len(rates) > 1 else 0.0
    [row] = read(join([HEAD, printed(rate, spread)])).requests
    assert row.prefill_ms is not None
    doubt_ms = 1000 * (0.005 / rate + (spread / rate) ** 2)
    assert abs(row.prefill_ms - fmean(times_ms)) <= 7 * doubt_ms


@pytest.mark.parametrize(
    "row",
    [
        "| a row | of | another | table | 4 | pp512 | 100.00 ± 1.00 | 7 |",
        "| llama 1B Q4_0 | 600.00 MiB | 1.10 B | CPU | 4 | pp | 100.00 ± 1.00 |",
        "| llama 1B Q4_0 | 600.00 MiB | 1.10 B | CPU | 4 | pp512 | n/a |",
    ],
)
def test_other_tables_give_no_rows(row: str) -> None:
    assert read(join([HEAD, row])).requests == []


def test_a_row_without_its_header_says_nothing() -> None:
    assert read(join([printed(100, 1), "tokens/t/s |"])).requests == []


def test_settings_that_differ_between_rows_are_no_fact() -> None:
    rows = exact()
    rows[1]["n_threads"] = 8
    setup = read("".join(f"{json.dumps(row)}\n" for row in rows).encode()).setup
    assert setup.threads is None
    assert "threads" not in setup.origin
    assert setup.quantization == "Q4_1"


@pytest.mark.parametrize("indent", [None, 2])
def test_a_model_that_is_no_text_can_be_written(indent: int | None) -> None:
    row = exact()[0] | {"model_filename": "a\ud800", "samples_ns": 0, "samples_ts": 0}
    log = read((json.dumps([row], indent=indent) if indent else json.dumps(row)).encode() + b"\n")
    assert [row.model for row in log.requests] == ["a?"]
    assert log.setup.model == "a?"
