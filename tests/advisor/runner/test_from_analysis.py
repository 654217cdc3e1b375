"""A finding of an analysis, as something to try."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from advisor.cpu import cpu_name
from advisor.errors import InputError
from advisor.runner.arm import Arm
from advisor.runner.from_analysis import Plan, from_analysis
from advisor.runner.settings import ALL_LAYERS
from rules.prediction import Expected
from tests.advisor.helpers import SAMPLES, phasewise

MODEL = Path("small.gguf")
RULE = "prefix-unstable"


def analysis(**more: Any) -> dict[str, Any]:
    """A made analysis: 2,000-token prompts of which 200 are cached, and a finding with two fixes."""
    stable = {"title": "Keep it stable", "remedy": "stable-prefix", "trial": "prefix=kept"}
    smaller = {"title": "A smaller file", "remedy": "smaller-quant", "trial": None}
    return {
        "schema": "phasewise.analysis/1",
        "setup": {"engine": "llama-server", "context": 8192, "ubatch": 512, "threads": 4, "kv_type_k": "f16"},
        "summary": {
            "phase_ms": {"prefill": 10_000.0, "decode": 5_000.0, "queue": None},
            "prompt_tokens": {"p50": 2000.0, "p90": 2000.0},
            "prefill_tokens": {"p50": 1800.0, "p90": 1800.0},
            "output_tokens": {"p50": 40.0, "p90": 60.0},
            "concurrency": 1,
        },
        "findings": [
            {
                "rule": RULE,
                "phase": "prefill",
                "title": "The prefix changes",
                "saving": {"ms": 6000.0, "share": 0.4, "bound": "at_most"},
                "fixes": [stable, smaller],
            }
        ],
    } | more


def kept(folder: Path, said: object) -> Path:
    path = folder / "analysis.json"
    path.write_text(said if isinstance(said, str) else json.dumps(said), encoding="utf-8")
    return path


def plan(folder: Path, *, budget_tokens: int = 10**9, **more: Any) -> Plan:
    return from_analysis(kept(folder, analysis(**more)), RULE, MODEL, budget_tokens=budget_tokens)


def refused(path: Path, rule: str = RULE, model: Path | None = MODEL) -> str:
    with pytest.raises(InputError) as error:
        from_analysis(path, rule, model)
    return str(error.value).replace(str(path), "FILE")


def sizes(found: Plan, number: int = 0) -> list[list[int | None]]:
    return [[segment.size for segment in ask.segments] for ask in found.planned[number].workload.asks]


# --- what a finding gives


def test_a_finding_that_can_be_tried(tmp_path: Path) -> None:
    found = plan(tmp_path)
    [planned] = found.planned
    assert (planned.change.label, planned.change.baseline(Arm(found.settings, planned.workload))) == (
        "prefix=kept",
        "prefix=broken",
    )
    assert planned.phase == "prefill"
    assert planned.expected is None
    said = f"{RULE} expects prefill to take at most 60 % less on the log's own requests"
    assert planned.notes == (
        "the first of 3 prompts is read whole either way",
        f"{said}; here the prompts and answers are made ones",
    )
    assert found.untried == (("A smaller file", "it needs another file: --try model=FILE.gguf"),)
    before, after = planned.change.sides(Arm(found.settings, planned.workload))
    assert [len(ask.segments) for ask in before.workload.asks] == [4, 4, 4]
    assert after.workload == planned.workload


def test_what_the_prefix_holds_is_what_the_finding_would_save(tmp_path: Path) -> None:
    """200 tokens were cached, and 60 % of the other 1,800 would be."""
    assert sizes(plan(tmp_path)) == [[1280, 719, 1]] * 3


def test_another_fix_is_tried_on_prompts_that_share_what_was_cached(tmp_path: Path) -> None:
    finding = analysis()["findings"][0]
    finding["fixes"] = [{"title": "Fewer chunks", "remedy": "fewer-chunks", "trial": "prompt=5/20"}]
    found = plan(tmp_path, findings=[finding])
    assert sizes(found) == [[200, 1778, 22]] * 3
    _, after = found.planned[0].change.sides(Arm(found.settings, found.planned[0].workload))
    assert [s.size for s in after.workload.asks[0].segments] == [200, 444, 22]
    assert [ask.output_tokens for ask in found.planned[0].workload.asks] == [40, 40, 60]
    assert [ask.is_fresh for ask in found.planned[0].workload.asks] == [True, False, False]


def priced(trial: str) -> dict[str, Any]:
    """A finding that gives 20 % of the decode to its first fix, then names another."""
    fixes = [
        {"title": "Turn it", "remedy": "", "trial": trial},
        {"title": "Trim", "remedy": "trim-history", "trial": "prompt=50%"},
    ]
    saving = {"ms": 1000.0, "bound": "estimate"}
    return {"rule": RULE, "phase": "decode", "title": "Slow", "saving": saving, "fixes": fixes}


def alike(**more: Any) -> dict[str, Any]:
    """A setup like that of this machine with the model that is tried."""
    here = {"name": cpu_name(), "backend": "CPU"}
    return {
        "engine": "llama-server",
        "model": "/models/Small.gguf",
        "context": 8192,
        "devices": [here],
    } | more


ABOUT = f"{RULE} expects decode to take 20 % less on the log's own requests"


def test_the_log_s_saving_is_a_promise_where_nothing_else_differs(tmp_path: Path) -> None:
    first, second = plan(tmp_path, setup=alike(), findings=[priced("ubatch=1024")]).planned
    assert first.expected == Expected(0.8, f"{RULE} on the log's own requests", "estimate")
    assert first.notes == (ABOUT,)
    assert (second.expected, second.notes) == (None, ())


@pytest.mark.parametrize(
    ("trial", "setup", "budget", "why"),
    [
        ("ubatch=1024", {"engine": "vllm"}, 10**9, "the engine is another one"),
        ("ubatch=1024", {"model": "large.gguf"}, 10**9, "the model is another one, or has another name"),
        ("ubatch=1024", {"model": None}, 10**9, "the model is another one, or has another name"),
        ("ubatch=1024", {"devices": []}, 10**9, "the machine is another one, or not known"),
        (
            "ubatch=1024",
            {"devices": [{"name": "Voodoo 2", "backend": "CUDA"}, {"name": cpu_name(), "backend": "CPU"}]},
            10**9,
            "the machine is another one, or not known",
        ),
        ("lookup=10", {}, 10**9, "the prompts and answers are made ones"),
        ("kv=q8_0", {}, 3000, "the requests are shorter"),
        ("kv=q8_0", {"context": 1024}, 10**9, "the requests are shorter"),
        ("threads=1", {"threads": 2}, 3000, ""),
    ],
)
def test_what_the_log_s_saving_is_no_promise_for(
    tmp_path: Path, trial: str, setup: dict[str, Any], budget: int, why: str
) -> None:
    found = plan(tmp_path, budget_tokens=budget, setup=alike(**setup), findings=[priced(trial)])
    assert (found.planned[0].expected is None) == bool(why)
    assert found.planned[0].notes[-1] == (f"{ABOUT}; here {why}" if why else ABOUT)


def test_a_log_s_requests_that_ran_together_promise_nothing_for_one(tmp_path: Path) -> None:
    summary = analysis()["summary"] | {"concurrency": 4}
    found = plan(tmp_path, summary=summary, setup=alike(), findings=[priced("ubatch=1024")])
    assert found.planned[0].expected is None


def test_a_phase_that_the_runner_does_not_measure(tmp_path: Path) -> None:
    finding = analysis()["findings"][0] | {"phase": "queue"}
    [planned] = plan(tmp_path, findings=[finding]).planned
    assert (planned.phase, planned.expected) == (None, None)


# --- settings


def test_settings_as_the_engine_ran(tmp_path: Path) -> None:
    settings = plan(tmp_path).settings
    assert (settings.model, settings.context, settings.ubatch, settings.batch) == (MODEL, 8192, 512, None)
    assert (settings.threads, settings.kv_type_k, settings.gpu_layers) == (4, "f16", ALL_LAYERS)


@pytest.mark.parametrize(
    ("facts", "layers"),
    [
        ({"layers_offloaded": 10, "layers_offloadable": 31}, 10),
        ({"layers_offloaded": 31, "layers_offloadable": 31}, ALL_LAYERS),
        ({"layers_offloaded": 0, "layers_offloadable": 31}, 0),
        ({"cpu_weights_bytes": 5, "gpu_weights_bytes": None}, 0),
        ({"cpu_weights_bytes": 5, "gpu_weights_bytes": 5}, ALL_LAYERS),
        ({"devices": [{"name": "EPYC", "backend": "CPU"}]}, 0),
        ({"devices": [{"backend": "CPU"}, {"backend": "CUDA"}]}, ALL_LAYERS),
    ],
)
def test_layers(tmp_path: Path, facts: dict[str, object], layers: int) -> None:
    assert plan(tmp_path, setup=facts).settings.gpu_layers == layers


def test_another_engines_facts(tmp_path: Path) -> None:
    found = plan(tmp_path, setup={"engine": "vllm", "kv_type_k": "fp8", "kv_type_v": "fp8", "context": 0})
    assert (found.settings.kv_type_k, found.settings.context) == (None, 4096)
    assert found.notes == (
        "the log is vllm's, the runner is llama.cpp: times are not comparable",
        "llama.cpp has no KV type fp8, so its default is used",
    )


# --- requests that are too large, or not told


def test_requests_are_scaled_to_a_budget_and_that_is_said(tmp_path: Path) -> None:
    [planned] = plan(tmp_path, budget_tokens=3070).planned
    assert [sum(s.size or 0 for s in ask.segments) for ask in planned.workload.asks] == [977] * 3
    assert [ask.output_tokens for ask in planned.workload.asks] == [40, 40, 60]
    assert "977 prompt and 40 answer tokens a request stand for the log's 2,000 and 40" in planned.notes[1]


def test_answers_are_cut_where_they_leave_no_room_and_never_to_nothing(tmp_path: Path) -> None:
    summary = analysis()["summary"] | {"output_tokens": {"p50": 1000.0, "p90": 1000.0}}
    asks = plan(tmp_path, budget_tokens=3000, summary=summary).planned[0].workload.asks
    assert [ask.output_tokens for ask in asks] == [500] * 3
    assert [sum(s.size or 0 for s in ask.segments) for ask in asks] == [500] * 3
    asks = plan(tmp_path, budget_tokens=150, summary=summary).planned[0].workload.asks
    assert [ask.output_tokens for ask in asks] == [32] * 3


def test_requests_fit_the_context(tmp_path: Path) -> None:
    [planned] = plan(tmp_path, setup={"context": 1024}).planned
    longest = max(sum(s.size or 0 for s in ask.segments) + ask.output_tokens for ask in planned.workload.asks)
    assert 900 < longest <= 0.96 * 1024


def test_nothing_is_known_of_the_requests(tmp_path: Path) -> None:
    [planned] = plan(tmp_path, summary={}).planned
    assert [sum(s.size or 0 for s in ask.segments) for ask in planned.workload.asks] == [1024] * 3
    assert "made up" in planned.notes[0]
    assert planned.expected is None


def test_requests_that_ran_together(tmp_path: Path) -> None:
    summary = analysis()["summary"] | {"concurrency": 4}
    [planned] = plan(tmp_path, summary=summary).planned
    assert "the log's engine ran 4 requests at once, the runner runs one" in planned.notes


# --- what there isn't


def test_a_fix_that_changes_nothing_here(tmp_path: Path) -> None:
    finding = analysis()["findings"][0]
    finding["fixes"].append({"title": "All layers", "remedy": "more-layers", "trial": "gpu-layers=all"})
    said = plan(tmp_path, findings=[finding]).untried[-1]
    assert said == (
        "All layers",
        "gpu-layers=all: that is how it runs already, so there is nothing to compare",
    )


def test_no_such_finding(tmp_path: Path) -> None:
    path = kept(tmp_path, analysis())
    assert refused(path, "numa") == "FILE: no finding numa; there are prefix-unstable."
    path = kept(tmp_path, analysis(findings=[]))
    assert refused(path, "numa") == "FILE: no finding numa; there is none."


def test_no_fix_that_can_be_tried(tmp_path: Path) -> None:
    fixes = [
        {"title": "A smaller file", "remedy": "smaller-quant", "trial": None},
        {"title": "Less context", "remedy": "smaller-context", "trial": None},
        {"title": "From elsewhere", "remedy": "../../pyproject", "trial": None},
        {"title": "From later", "remedy": "later", "trial": "warp=9"},
    ]
    finding = analysis()["findings"][0] | {"fixes": fixes}
    said = refused(kept(tmp_path, analysis(findings=[finding])))
    assert said.startswith(
        "prefix-unstable has no fix that can be tried ('A smaller file': it needs another file: --try "
        "model=FILE.gguf; 'Less context': what it would be set to is not known; 'From elsewhere': what it "
        "would be set to is not known; 'From later': warp: no such knob."
    )
    finding |= {"fixes": []}
    said = refused(kept(tmp_path, analysis(findings=[finding])))
    assert said == "prefix-unstable has no fix that can be tried, it has no fix."


def test_no_model(tmp_path: Path) -> None:
    path = kept(tmp_path, analysis(setup={"model": "qwen3-4b"}))
    assert refused(path, model=None) == "--model FILE.gguf is needed: the log's was qwen3-4b."


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("", "not an analysis; write one with"),
        ("prompt eval time = 12 ms", "not an analysis"),
        ("[]", "not an analysis"),
        ("{}", "not an analysis"),
        ("[" * 100_000, "not an analysis"),
        ({"schema": "phasewise.run/1"}, "its schema is phasewise.run/1, not phasewise.analysis/1."),
        ({"schema": "phasewise.analysis/1", "findings": 5}, "findings is not as in an analysis"),
        (
            analysis(summary={"prompt_tokens": {"p50": -5}}),
            "summary.prompt_tokens.p50 is not as in an analysis",
        ),
    ],
)
def test_another_file(tmp_path: Path, said: object, why: str) -> None:
    assert refused(kept(tmp_path, said)).startswith(f"FILE: {why}")


def test_a_missing_file(tmp_path: Path) -> None:
    assert "no such file" in refused(tmp_path / "none.json")
    assert "can't be read" in refused(tmp_path)


@pytest.mark.parametrize("log", ["llama-server-rag", "llama-server-chat", "vllm"])
def test_every_finding_of_a_real_log_is_tried_or_says_why(tmp_path: Path, log: str) -> None:
    path = tmp_path / "analysis.json"
    path.write_text(phasewise("analyze", SAMPLES / f"{log}.log", "--format", "json").out, encoding="utf-8")
    for finding in json.loads(path.read_text(encoding="utf-8"))["findings"]:
        try:
            found = from_analysis(path, finding["rule"], MODEL)
        except InputError as error:
            assert "has no fix that can be tried" in str(error)  # noqa: PT017
            continue
        for planned in found.planned:
            before, after = planned.change.sides(Arm(found.settings, planned.workload))
            assert before != after
            total = sum(s.size or 0 for ask in planned.workload.asks for s in ask.segments)
            assert total <= 4096
