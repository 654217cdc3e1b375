"""Logs of several programs in one source without labels: each row is of the program that ran."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

import pytest

from tests.parsers.reading import join, read
from tests.parsers.scenarios import scenario
from tests.parsers.test_samples import SAMPLES

if TYPE_CHECKING:
    from parsers.records import Row

LOGS = {
    "ollama": (SAMPLES / "ollama-two-servers.log").read_bytes(),
    "llama-server": scenario("llama-server-b11434/a_short_default").log,
    "vllm": (SAMPLES / "vllm-v1.log").read_bytes(),
    "llama-cpp-python": (SAMPLES / "llama-cpp-python-server.log").read_bytes(),
}


def rows_of(rows: list[Row]) -> list[tuple[str, str]]:
    return sorted((type(row).__name__, row.engine) for row in rows)


@pytest.mark.parametrize(("first", "second"), list(permutations(LOGS, 2)))
def test_a_program_after_another(first: str, second: str) -> None:
    both = read(LOGS[first] + LOGS[second])
    assert rows_of(both.rows) == rows_of(read(LOGS[first]).rows + read(LOGS[second]).rows)
    assert all(row.engine in (first, second) for row in both.rows)


def test_ollama_after_an_older_llama_server() -> None:
    older = scenario("llama-server-mid2025/a_short_default").log
    both = read(older + LOGS["ollama"])
    assert rows_of(both.rows) == rows_of(read(older).rows + read(LOGS["ollama"]).rows)


@pytest.mark.parametrize("first", ["ollama", "llama-server"])
def test_vllm_has_a_setup_of_its_own(first: str) -> None:
    both = read(LOGS[first] + LOGS["vllm"])
    alone = read(LOGS["vllm"]).setup
    assert both.setup.model_dump(exclude={"line", "origin"}) == alone.model_dump(exclude={"line", "origin"})


VLLM_HEADER = (
    "INFO 11-29 19:39:17 [core.py:93] Initializing a V1 LLM engine (v0.11.0) with config: "
    "model='acme/Dense-8B', max_seq_len=32768, tensor_parallel_size=1, seed=0"
)
TABBY = (
    "INFO:     Metrics (ID: 8d3c): 196 tokens generated in 14.98 seconds (Queue: 0.0 s, Process: 0 cached "
    "tokens and 5436 new tokens at 474.76 T/s, Generate: 55.68 T/s, Context: 5436 tokens)"
)
BLOCK = (
    "prompt eval time =     100.00 ms /    50 tokens (    2.00 ms per token,   500.00 tokens per second)",
    "       eval time =      90.00 ms /    10 tokens (    9.00 ms per token,   111.11 tokens per second)",
    "      total time =     190.00 ms /    60 tokens",
)
CLI = (
    "generate: n_ctx = 4096, n_batch = 2048, n_predict = 512, n_keep = 0",
    "common_perf_print: prompt eval time =      20.00 ms /     8 tokens (    2.50 ms per token)",
    "common_perf_print:        eval time =    5110.00 ms /   511 runs   (   10.00 ms per token)",
    "common_perf_print:       total time =    5200.00 ms /   519 tokens",
)


def test_an_engine_shares_no_facts_with_the_one_before_it() -> None:
    log = read(join([VLLM_HEADER, TABBY]))
    (row,) = log.requests
    assert (row.engine, row.model) == ("tabbyapi", None)
    assert [(s.engine, s.model) for s in log.stream.setup_of_run] == [
        ("vllm", "acme/Dense-8B"),
        ("tabbyapi", None),
    ]
    assert log.stream.setup_of_run[row.run].engine == "tabbyapi"


def test_llama_cli_after_ollama_is_not_hosted() -> None:
    ollama = LOGS["ollama"]
    log = read(ollama + join(CLI))
    assert rows_of(log.rows) == rows_of(read(ollama).rows + read(join(CLI)).rows)
    assert (log.requests[-1].engine, log.requests[-1].model) == ("llama-cli", None)


def test_llama_cli_after_text_generation_webui_ends_it() -> None:
    webui = join(
        [
            *BLOCK,
            "16:22:31-123456 INFO     Output generated in 0.25 seconds (40.00 tokens/s, 10 tokens)",
            "16:22:36-123456 INFO     Output generated in 0.27 seconds (37.04 tokens/s, 10 tokens)",
        ]
    )
    log = read(webui + join(CLI))
    assert rows_of(log.rows) == rows_of(read(webui).rows + read(join(CLI)).rows)


@pytest.mark.parametrize("name", ["localai-bodies", "vllm-bodies"])
def test_a_body_with_members_of_others_is_still_read(name: str) -> None:
    """Objects are tried by what they hold: the first to know a key must not keep what isn't its own."""
    lines = (SAMPLES / f"{name}.log").read_bytes().splitlines()
    more = b', "timings": {}, "eval_duration": "1s", "total_duration": "2s"'
    if name == "localai-bodies":
        more += b', "queued": {"queue_time_ms":1, "generation_time_ms":1}'
    strange = [line[:-1] + more + b"}" if line.endswith(b"}") else line for line in lines]
    without = ("offset", "run")
    told, expected = (read(b"\n".join(each) + b"\n").told(*without) for each in (strange, lines))
    assert told == expected
    assert told


HEADER = (
    "llama_model_loader: loaded meta data with 1 key-value pairs from /models/header.gguf (version GGUF V3)",
    "print_info: n_layer = 99",
    "ggml_cuda_init: failed to initialize CUDA: no CUDA-capable device is detected",
)


@pytest.mark.parametrize("build", [(), ("build: 4589 (abcdef12) with cc for x86_64-linux-gnu",)])
@pytest.mark.parametrize("name", ["vllm-v1", "sglang-0.3", "tgi-text", "lmdeploy", "mlx-lm-generate"])
def test_a_header_is_nobodys_that_does_not_run_llama_cpp(name: str, build: tuple[str, ...]) -> None:
    alone, header = (SAMPLES / f"{name}.log").read_bytes(), join([*build, *HEADER])
    expected = [s.model_dump(exclude={"line", "origin"}) for s in read(alone).stream.setup_of_run]
    half = alone.index(b"\n", len(alone) // 2) + 1
    for data in (header + alone, alone + header, alone[:half] + header + alone[half:]):
        log = read(data)
        assert rows_of([row for row in log.rows if row.engine != "llama-server"]) == rows_of(read(alone).rows)
        for row in log.rows:
            setup = log.stream.setup_of_run[row.run]
            facts = setup.model_dump(exclude={"line", "origin"})
            assert facts in expected or (setup.model, setup.layers) == (None, None)


def test_a_header_is_of_the_first_that_can_have_printed_it() -> None:
    log = read(join([*HEADER[:2], VLLM_HEADER, TABBY, *BLOCK]))
    [tabby, llama] = log.requests
    setups = log.stream.setup_of_run
    assert (setups[tabby.run].layers, setups[llama.run].engine) == (None, "llama-server")
    assert setups[tabby.run].model is None
