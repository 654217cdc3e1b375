"""`--by`: a fleet's numbers group by group, which of them stands out, and why."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from rich.console import Console

from advisor.analysis import Options, analyze
from advisor.by import grouped
from advisor.group_model import SampledModel
from advisor.options import GroupBy
from advisor.reading import read
from advisor.report.groups import notes, times
from advisor.report.html import render as render_html
from advisor.report.markdown import render
from advisor.report.terminal import show
from advisor.ticket import report
from parsers.setup import Device
from rules.testing import measures
from tests.advisor.fleet import written_fleet
from tests.advisor.helpers import SAMPLES, at_rates, phasewise, prefixed
from tests.diagnosis.rows import RTX_4090
from tests.rules.made_logs import Engine
from tests.rules.test_outliers import CHAT, fleet, with_one

if TYPE_CHECKING:
    from pathlib import Path

    from advisor.group_model import Groups
    from advisor.ticket import Report
    from rules.measures import Measures


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written_fleet(tmp_path_factory.mktemp("fleet"))


@pytest.fixture(scope="module")
def made(logs: Path) -> tuple[Report, Measures]:
    return reported(logs)


def reported(logs: Path, by: GroupBy | None = GroupBy.HOST) -> tuple[Report, Measures]:
    return report(read([str(logs)]), Options(by=by), ["phasewise", "report"])


def groups_of(made: tuple[Report, Measures]) -> Groups:
    assert made[0].groups is not None
    return made[0].groups


# --- what is told


def test_the_slow_host_is_named_with_its_phase(logs: Path) -> None:
    ran = phasewise("analyze", ".", "--by", "host", "--format", "json", cwd=logs)
    assert (ran.status, ran.err) == (0, "")
    groups = json.loads(ran.out)["groups"]

    assert (groups["by"], groups["told_by"], groups["judged"]) == ("host", "folder", 6)
    assert [one["name"] for one in groups["groups"]] == [f"gpu-{n}" for n in range(1, 7)]
    assert sum(one["requests"] for one in groups["groups"]) == 150
    (out,) = groups["outliers"]
    assert (out["group"], out["phase"], out["slower"]) == ("gpu-4", "decode", True)
    told = {one["quantity"]: one for one in out["differences"]}
    assert told["decode"]["low"] < 45 / 22 < told["decode"]["high"]
    assert told["decode"]["cost_ms"] > 1_000
    assert groups["sentence"].startswith("gpu-4 stands out among 6 hosts: slower decode costs ")


def test_a_group_has_the_numbers_of_its_log_alone(logs: Path, made: tuple[Report, Measures]) -> None:
    alone = analyze(read([str(logs / "gpu-4")])).summary
    four = groups_of(made).groups[3]
    assert four.name == "gpu-4"
    for key in set(type(four).model_fields) - {"name", "together_tok_s"}:
        assert getattr(four, key) == getattr(alone, key)


def test_the_page_fits_80_columns_and_marks_the_outlier(made: tuple[Report, Measures]) -> None:
    file = StringIO()
    show(made[0], console=Console(file=file, width=80, highlight=False, markup=False))
    printed = file.getvalue()
    assert max(map(len, printed.splitlines())) <= 80
    page = printed[printed.index("BY HOST") : printed.index("WHAT THIS CAN'T TELL")]
    assert "gpu-4 stands out among 6 hosts" in page
    assert "gpu-4 *" in page
    assert "A host is a folder of logs" in page
    assert "gpu-3 *" not in page


def test_reports_have_a_section(logs: Path, tmp_path: Path, made: tuple[Report, Measures]) -> None:
    ran = phasewise("report", ".", "--by", "host", "-o", tmp_path / "r.md", cwd=logs)
    assert (ran.status, ran.err) == (0, "")
    text = (tmp_path / "r.md").read_text("utf-8")
    for words in ("## By host", "**gpu-4 stands out among 6 hosts", "| gpu-4 \\* | 25 |"):
        assert words in text
    page = render_html(*made)
    for words in ('<section id="groups"', '<a href="#groups">By host</a>', "gpu-4 stands out among"):
        assert words in page


def test_without_it_there_are_no_groups() -> None:
    without = reported(SAMPLES / "llama-server-chat.log", None)[0]
    assert without.groups is None
    assert "## By" not in render(without)


@pytest.mark.parametrize(
    ("by", "names"),
    [
        (GroupBy.ENGINE, ["llama-server", "ollama", "vllm"]),
        (GroupBy.HOUR, ["2026-08-19 07:00", "2026-11-29 19:00", None]),
    ],
)
def test_true_logs_apart(by: GroupBy, names: list[str | None]) -> None:
    groups = groups_of(reported(SAMPLES, by))
    assert [one.name for one in groups.groups] == names
    assert groups.outliers == []


def test_names_are_redacted_and_are_no_markup(tmp_path: Path) -> None:
    labels = ("gpu1.corp.internal", "gpu2.corp.internal", "llama_1_")
    lines = [
        f"{label} | {line}\n"
        for number, label in enumerate(labels)
        for line in prefixed([at_rates(500, 900 + number, 50, 40)] * 3).splitlines()
    ]
    (tmp_path / "all.log").write_text("".join(lines))
    made = reported(tmp_path)
    text = render(made[0])
    assert [one.name for one in groups_of(made).groups] == ["[host-1]", "[host-2]", "llama_1_"]
    assert "corp.internal" not in text
    assert "`--no-redact` shows the names" in text
    assert "\n| llama\\_1\\_ | 3 |" in text


def test_pods_in_one_stream_are_hosts(logs: Path, tmp_path: Path) -> None:
    lines = [
        f"[pod/llama-{n}/server] {line}\n"
        for n in range(1, 4)
        for line in (logs / f"gpu-{n}" / "server.log").read_text().splitlines()
    ]
    (tmp_path / "all.log").write_text("".join(lines))
    groups = groups_of(reported(tmp_path))
    assert groups.told_by == "label"
    assert [(one.name, one.requests) for one in groups.groups] == [(f"llama-{n}", 25) for n in range(1, 4)]


def test_a_log_without_rows_has_no_groups(tmp_path: Path) -> None:
    (tmp_path / "s.log").write_text(prefixed([]))
    made = reported(tmp_path)
    assert groups_of(made).groups == []
    show(made[0], console=Console(file=StringIO(), width=80))
    assert "There is nothing to compare." in render(made[0])


# --- why


def served_by(engines: list[Engine], setups: list[dict[str, Any]]) -> Groups:
    m = fleet(engines, 30)
    made = measures(m.requests.iter_rows(named=True), setups=setups)
    for setup, name in zip(made.setups, m.requests["source"].unique(maintain_order=True), strict=True):
        setup.source = name
    return grouped(made, "host")


def test_what_is_different_about_its_setup_is_told_and_what_the_rules_say_of_it() -> None:
    """Twenty of 33 layers on the GPU: the decode of it is slow, and of no other."""
    same = {**RTX_4090, "devices": [Device(name="NVIDIA GeForce RTX 4090", backend="CUDA")]}
    other = {**same, "layers_offloaded": 20, "gpu_weights_bytes": 2_800_000_000}
    (out,) = served_by(
        with_one(CHAT, CHAT.slower(decode=3.0)), [other if n == 4 else same for n in range(8)]
    ).outliers

    assert out.group == "gpu05"
    facts = {fact.fact: (fact.here, fact.others) for fact in out.facts}
    assert facts["layers_offloaded"] == (20, 33)
    assert set(facts) == {"layers_offloaded", "gpu_weights_bytes"}
    assert "partial-offload" in {finding.rule for finding in out.findings}


def test_longer_prompts_are_told_as_other_requests() -> None:
    rag = Engine("rag", prompt_tokens=3_000, output_tokens=60)
    longer = Engine("rag", prompt_tokens=12_000, output_tokens=60)
    (out,) = served_by(with_one(rag, longer), [RTX_4090] * 8).outliers

    assert (out.phase, out.facts, out.slower) == (None, [], True)
    work = {one.name: one for one in out.work}
    assert work["prompt tokens"].here > 3 * work["prompt tokens"].others


def test_what_cannot_be_told_is_said() -> None:
    assert served_by([CHAT] * 8, [RTX_4090] * 8).sentence.startswith(
        "None of 8 hosts stands out. At like work, "
    )
    assert "of several kinds" in served_by([CHAT] * 4 + [CHAT.slower(decode=2)] * 4, [{}] * 8).sentence
    assert grouped(fleet([CHAT] * 3, 5), "host").sentence.startswith("Too few requests to tell")
    assert grouped(fleet([CHAT], 20), "host").sentence.startswith("All of this is one host")
    assert grouped(fleet([CHAT] * 2, 20), "hour").sentence.startswith("Nothing here tells its hour")
    two = served_by([CHAT, CHAT.slower(decode=2)], [{}] * 2).sentence
    assert two.startswith("gpu02 is slower than gpu01: ")
    assert "Of two, neither is the outlier." in two


def test_a_host_that_could_not_be_compared_is_named() -> None:
    m = fleet([CHAT] * 3 + [replace(CHAT, prompt_tokens=60_000)], 20)
    times = ("ttft_ms", "total_ms", "queue_ms", "load_ms")
    hidden = [pl.when(pl.col("run") < 3).then(name).alias(name) for name in times]
    groups = grouped(measures(m.requests.with_columns(hidden).iter_rows(named=True), setups=[{}] * 4), "host")
    assert groups.sentence.startswith("None of 3 hosts stands out.")
    assert groups.sentence.endswith(" gpu04 could not be compared.")
    assert groups.judged == 3


def test_other_work_is_not_called_too_few_requests() -> None:
    few = fleet([CHAT] * 3, 20).requests.filter((pl.col("run") < 2) | (pl.col("line") < 5))
    times = ("ttft_ms", "total_ms", "queue_ms", "load_ms")
    cached = pl.when(pl.col("run") == 0).then("cached_tokens").alias("cached_tokens")
    prompts = (pl.col("prompt_tokens") * (1 + 100 * pl.col("run"))).alias("prompt_tokens")
    rows = few.with_columns(*(pl.lit(None).alias(name) for name in times), cached, prompts)
    made = grouped(measures(rows.iter_rows(named=True), setups=[{}] * 3), "host")
    assert made.sentence.endswith("their requests are not alike enough.")


def test_that_a_sample_is_compared_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    m = fleet([CHAT] * 3, 40)
    assert grouped(m, "host").sampled is None
    monkeypatch.setattr("rules.among.MOST_OTHERS", 60)
    groups = grouped(m, "host")
    assert groups.sampled == SampledModel(requests=120, of=120, others=60)
    assert (
        "Compared were 120 requests, each host with at most 60 of the others, spread over them; the table is "
        "of all."
    ) in notes(groups, 12)


def test_windows_can_not_be_compared() -> None:
    rows = [
        {"source": f"{n}/v.log", "run": n, "kind": "window", "phase": "decode", "running": 3} for n in (0, 1)
    ] * 20
    groups = grouped(measures(intervals=rows, setups=[{}, {}]), "host")
    assert [one.intervals for one in groups.groups] == [20, 20]
    assert "no single requests are logged, only windows" in groups.sentence


def test_of_windows_their_number_and_rate_are_shown() -> None:
    rows = [
        {
            "source": f"{n}/v.log",
            "run": n,
            "kind": "window",
            "phase": "decode",
            "running": 3,
            "decode_tok_s": 60.0 + 30 * n,
        }
        for n in (0, 1)
    ] * 20
    groups = grouped(measures(intervals=rows, setups=[{}, {}]), "host")
    assert times(groups, 12) == [("host", "windows", "tok/s"), ("0", "20", "60.0"), ("1", "20", "90.0")]
    assert any("not judged" in note for note in notes(groups, 12))


def test_whose_decode_was_not_compared_is_said() -> None:
    m = fleet([*[CHAT] * 3, CHAT.slower(decode=3)], 30)
    short = [
        pl.when(pl.col("run") == 3).then(1).otherwise(name).alias(name)
        for name in ("output_tokens", "decode_steps")
    ]
    rows = m.requests.with_columns(short).iter_rows(named=True)
    sentence = grouped(measures(rows, setups=[{}] * 4), "host").sentence
    assert "Decode of gpu04 can't be compared: too few valid samples" in sentence


def test_a_log_read_in_part_is_not_called_all_there_is() -> None:
    sentence = grouped(fleet([CHAT], 20), "host", interrupted=True).sentence
    assert sentence == "Only server.log was read before the interruption. There is nothing to compare."


def test_a_copy_of_a_log_is_said_to_be_one(logs: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.log").write_text((logs / "gpu-1" / "server.log").read_text())
    assert groups_of(reported(tmp_path)).sentence == (
        "All of this is one host, a.log. 25 requests of other logs, or of the same, are told twice and count "
        "once. There is nothing to compare."
    )


def test_filters_that_leave_nothing_leave_no_groups(logs: Path) -> None:
    ran = phasewise("analyze", ".", "--by", "host", "--model", "nothing", cwd=logs)
    assert "passes the filters" in ran.out
    assert "BY HOST" not in ran.out


def test_hours_have_no_gaps() -> None:
    began = datetime(2026, 11, 29, tzinfo=UTC)
    rows = [{"total_ms": 9.0, "finished_at": began + timedelta(hours=hour)} for hour in (*range(26), 3)]
    groups = grouped(measures(rows), "hour")
    assert len(times(groups, 12)) == 1 + 26


def test_of_one_hour_and_no_clock_nothing_is_judged() -> None:
    rows: list[dict[str, Any]] = [
        {"total_ms": 9.0},
        {"total_ms": 9.0, "finished_at": datetime(2026, 1, 1, tzinfo=UTC)},
    ]
    assert grouped(measures(rows), "hour").sentence.startswith(
        "What tells its hour is all of one, 2026-01-01 00:00."
    )
