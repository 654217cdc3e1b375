"""`phasewise compare`: real pairs against what their clients measured, the JSON, the pages, the verb."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any

import pytest
import typer
from jsonschema import Draft202012Validator
from markdown_it import MarkdownIt
from typer.testing import CliRunner, Result

from advisor.analysis import Options, measure
from advisor.comparison import compare
from advisor.comparison_model import Comparison, QuantityModel
from advisor.errors import InputError
from advisor.reading import read
from advisor.report.comparison import render, text
from advisor.verbs.compare import compare as verb
from rules.testing import measures
from tests.advisor.helpers import at_rates, prefixed
from tests.rules.helpers import LOGS
from tests.rules.made_logs import Engine

ROOT = Path(__file__).parents[2]
SAMPLES, FORMATS = ROOT / "sample_logs", ROOT / "parsers" / "formats" / "samples"


def of_logs(before: str, after: str) -> Comparison:
    sides = (read([str(LOGS / log / "server.log")]) for log in (before, after))
    return compare(*(measure(side, Options(), once=True) for side in sides))


def of_pair(name: str) -> Comparison:
    return of_logs(f"pairs/{name}/before", f"pairs/{name}/after")


def quantity(c: Comparison, name: str) -> QuantityModel:
    return next(q for q in c.quantities if q.name == name)


def client(log: str, key: str) -> float:
    """The median that the client of a log measured, ms."""
    lines = (LOGS / "pairs" / log / "ground_truth.jsonl").read_text("utf-8").splitlines()
    return float(median(json.loads(line)[key] for line in lines))


# --- real pairs


@pytest.mark.parametrize(
    ("pair", "name", "key", "verdict"),
    [
        ("rag_chunks", "ttft", "ttft_ms", "faster"),
        ("rag_chunks", "total", "total_ms", "faster"),
        ("output_cap", "ttft", "ttft_ms", "no-difference"),
        ("output_cap", "total", "total_ms", "faster"),
        ("threads", "ttft", "ttft_ms", "faster"),
        ("threads", "total", "total_ms", "faster"),
    ],
)
def test_waits_are_what_the_clients_measured(pair: str, name: str, key: str, verdict: str) -> None:
    found = quantity(of_pair(pair), name)

    before, after = (client(f"{pair}/{side}", key) for side in ("before", "after"))
    assert found.verdict == verdict
    assert found.before.median == pytest.approx(before, rel=0.03)
    assert found.after.median == pytest.approx(after, rel=0.03)
    effect = found.median_ratio or found.geometric_mean_ratio
    assert effect is not None
    assert effect.low < after / before < effect.high


def test_fewer_chunks_are_other_work() -> None:
    c = of_pair("rag_chunks")
    assert c.verdict == "faster"
    assert "prompts are shorter (915 tokens instead of 3,565)" in c.headline
    assert quantity(c, "prefill").verdict == "not-comparable"


def test_capped_answers_are_other_work_and_no_faster_decode() -> None:
    c = of_pair("output_cap")
    assert "answers are shorter (80 tokens instead of 240)" in c.headline
    assert quantity(c, "decode").verdict == "no-difference"
    assert c.settings == []


def test_another_thread_is_another_speed_and_named() -> None:
    c = of_pair("threads")
    assert [quantity(c, name).verdict for name in ("prefill", "decode")] == ["faster", "faster"]
    assert "because prefill is faster" in c.headline
    assert [(s.fact, s.before, s.after) for s in c.settings if s.fact == "threads"] == [("threads", 1, 2)]


def test_a_second_slot_lets_the_cache_serve() -> None:
    c = of_logs("conversations/two_chats_one_slot", "conversations/two_chats_two_slots")
    assert c.verdict == "faster"
    assert "83 % of the prompt tokens come from the cache instead of 36 %" in c.headline


# --- what scripts read


def test_the_json_follows_its_schema_and_holds_no_infinity() -> None:
    schema = Comparison.model_json_schema(by_alias=True, mode="serialization")
    for c in (of_pair("threads"), of_pair("rag_chunks"), compare(measures(), measures())):
        data = json.loads(c.model_dump_json(by_alias=True), parse_constant=_no_json)
        Draft202012Validator(schema).validate(data)
        assert data["schema"] == "phasewise.comparison/1"
        assert Comparison.model_validate(data) == c


def _no_json(name: str) -> None:
    raise AssertionError(f"{name} is no JSON")


# --- pages


def test_the_page_fits_a_terminal_and_says_the_answer_first() -> None:
    lines = text(of_pair("threads")).splitlines()
    assert lines[lines.index("THE ANSWER") + 1].startswith(
        "  The first token comes after 1.0 s instead of 1.8 s"
    )
    assert max(map(len, lines)) <= 100
    assert not any("…" in line for line in lines)


def test_markdown_draws_every_table_and_no_markup_of_a_log() -> None:
    engine = Engine("rag")
    evil = "<script>alert(1)</script>|[x](javascript:y)`.gguf"
    sides = [
        measures(
            [{**row, "source": evil, "model": evil} for row in engine.rows(20, seed)],
            setup={"model": f"{evil}{seed}"},
        )
        for seed in (1, 2)
    ]

    page = MarkdownIt("gfm-like", {"html": True, "linkify": False}).render(render(compare(*sides)))

    assert page.count("<table>") >= 3
    assert "<script" not in page
    assert "<a " not in page
    assert page.count("<details>") == page.count("</details>") == 1


def test_logs_of_any_engine_can_be_put_side_by_side() -> None:
    paths = sorted(FORMATS.glob("*.log"))[::9] + sorted(SAMPLES.glob("*.log"))
    sides = [measure(side, Options()) for side in (read([str(path)]) for path in paths) if side.sources]
    for before, after in zip(sides, sides[1:] + sides[:1], strict=True):
        c = compare(before, after)
        assert c.headline.endswith(".")
        assert render(c)
        assert not any("…" in line for line in text(c).splitlines())
        same = compare(before, before)
        assert same.verdict in ("no-difference", "no-interval", "not-comparable"), same.before.sources


# --- the verb


def ran(*arguments: str | Path) -> Result:
    app = typer.Typer()
    app.command()(verb)
    app.callback()(lambda: None)
    return CliRunner().invoke(app, ["compare", *map(str, arguments)])


BEFORE, AFTER = (LOGS / "pairs" / "threads" / side / "server.log" for side in ("before", "after"))


def test_the_verb_prints_a_page_json_or_markdown() -> None:
    page, data, markdown = (
        ran(BEFORE, AFTER, *more) for more in ([], ["--format", "json"], ["--format", "md"])
    )
    assert (page.exit_code, data.exit_code, markdown.exit_code) == (0, 0, 0)
    assert "THE ANSWER" in page.stdout
    assert json.loads(data.stdout)["verdict"] == "faster"
    assert markdown.stdout.startswith("# Before and after")


@pytest.mark.parametrize(
    ("name", "begins"), [("a.md", "# Before"), ("a.json", "{"), ("a.markdown", "# Before")]
)
def test_a_file_is_written_by_its_ending(tmp_path: Path, name: str, begins: str) -> None:
    done = ran(BEFORE, AFTER, "-o", tmp_path / name)
    assert (done.exit_code, done.stdout) == (0, "")
    assert (tmp_path / name).read_text("utf-8").startswith(begins)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((BEFORE, AFTER, "-o", "a.pdf"), "name it .md or .json"),
        (("-", "-"), "one of the sides"),
        ((BEFORE, AFTER, "--since", "2026-01-01"), "wall clock"),
    ],
)
def test_what_can_not_be_asked_is_said(arguments: tuple[Any, ...], words: str) -> None:
    done = ran(*arguments)
    assert isinstance(done.exception, InputError)
    assert words in str(done.exception)


def test_exit_status_is_that_of_the_worse_side(tmp_path: Path) -> None:
    (tmp_path / "other.log").write_text("a cron job's log\n")
    assert ran(BEFORE, tmp_path / "missing.log").exit_code == 2
    assert ran(tmp_path / "other.log", AFTER).exit_code == 3


def test_models_of_one_file_name_are_told_apart(tmp_path: Path) -> None:
    logs = []
    for folder, seed in (("llama-q8", 1), ("llama-q4", 2)):
        asked = [at_rates(1_200 + seed * i, 1_800, 150, 40 * seed) for i in range(12)]
        logs.append(tmp_path / f"{folder}.log")
        logs[-1].write_text(prefixed(asked, model=f"/srv/secret-{folder}/model.gguf"))

    data = json.loads(ran(*logs, "--format", "json").stdout)

    told = [(s["before"], s["after"]) for s in data["settings"] if s["fact"] == "model"]
    assert told == [("another model.gguf", "model.gguf")]
    assert "another-model" in [caveat["id"] for caveat in data["caveats"]]
    assert "secret" not in json.dumps([data["settings"], data["before"]["model"], data["after"]["model"]])


def test_filters_apply_to_both_sides() -> None:
    done = ran(BEFORE, AFTER, "--model", "no-such-model", "--format", "json")
    data = json.loads(done.stdout)
    assert (data["before"]["requests"], data["after"]["requests"]) == (0, 0)
    assert data["verdict"] == "not-comparable"
    assert "nothing of either log passes the filters" in data["headline"]
