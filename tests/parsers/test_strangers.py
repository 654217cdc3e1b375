"""Lines of other programs that look a little like an engine's name no engine and give no rows."""

from __future__ import annotations

import pytest

from tests.parsers.reading import join, read


@pytest.mark.parametrize(
    "lines",
    [
        ['{"timings":{"connect":3,"prompt_n":7,"wait":12}}'],
        ["{", '  "timings": {', '    "connect": 3', "  }", "}"],
        [
            "| model | size | accuracy | test | t/s |",
            "|---|---|---|---|---|",
            "| a | 1 GiB | 0.5 | pp512 | 12.50 ± 0.10 |",
        ],
        ["Metric,avg,min,max,p1,p2", "Request Latency (pages),3.0,1.0,5.0,1.0,1.0"],
        ["Response: 5 tokens generated in 3 seconds (see below)"],
    ],
)
def test_strangers(lines: list[str]) -> None:
    log = read(join(lines))
    assert (log.rows, log.stream.engine, log.stream.matched.total()) == ([], None, 0)


def test_a_table_of_times_without_numbers_gives_no_row() -> None:
    log = read(join(["Metric,avg,min,max,p1,p5,p10", "Request Latency,a,b,c,d,e,f"]))
    assert log.rows == []
