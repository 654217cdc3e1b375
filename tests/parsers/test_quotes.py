"""Text that quotes a log is no log, and a block pasted out of one is."""

from __future__ import annotations

import pytest

from tests.parsers.reading import QUOTED, TIMED, join, read
from tests.parsers.scenarios import scenario
from tests.parsers.test_samples import SAMPLES


@pytest.mark.parametrize(
    "run", ["llama-server-mid2025/a_short_default", "llama-server-b11434/k_multiturn_lv4"]
)
def test_a_chat_template_that_quotes_a_log_adds_nothing(run: str) -> None:
    data = scenario(run).log
    quoting = data.replace(b"You are a helpful assistant<", join(QUOTED) + b"You are a helpful assistant<")
    assert quoting != data
    assert read(quoting).told("line", "first_line", "offset") == read(data).told(
        "line", "first_line", "offset"
    )


def test_an_answer_that_quotes_a_log_adds_nothing() -> None:
    data = scenario("llama-server-mid2025/a_short_verbose").log
    quoted = join(QUOTED).replace(b"\n", b"\\n")
    quoting = data.replace(
        b"Parsing input with format Content-only: Hello",
        b"Parsing input with format Content-only: \n" + join(QUOTED),
    ).replace(b'"content":"', b'"content":"' + quoted)
    assert quoting.count(b"task 7") > 20
    assert read(quoting).told("line", "first_line", "offset") == read(data).told(
        "line", "first_line", "offset"
    )


def test_quoted_lines_of_other_tasks_do_not_count_while_a_slot_is_known() -> None:
    run = [line.replace("task 7", "task 9").replace("task 8", "task 10") for line in QUOTED]
    own = join(line.replace("task 7", "task 5") for line in QUOTED[:6])
    assert read(own + join(run[1:])).told() == read(own).told()


@pytest.mark.parametrize(
    "lines",
    [
        TIMED[1:],
        [line.lstrip() for line in TIMED[1:]],
        [line.replace("tokens (", "runs   (") for line in TIMED[1:3]] + [TIMED[3]],
        [f"> {line}" for line in TIMED[1:]],
        [f">{line}" for line in TIMED[1:]],
        TIMED[1:3],
        ["```", *TIMED[1:], "```", "draft acceptance rate = 0.5 (    1 accepted /     2 generated)"],
    ],
    ids=["whole", "trimmed", "runs", "quoted", "quoted tight", "no total", "fenced"],
)
def test_a_pasted_block_is_one_request(lines: list[str]) -> None:
    [row] = read(join(lines)).requests
    assert (row.prefill_ms, row.prefill_tokens, row.decode_ms, row.output_tokens) == (100.0, 50, 90.0, 10)
    assert (row.slot, row.request_id, row.prompt_tokens, row.cached_tokens) == (None, None, None, None)
    assert row.total_ms == 190.0


def test_pasted_blocks_one_after_the_other() -> None:
    assert len(read(join([*TIMED[1:3], *TIMED[1:3], "", *TIMED[1:3]])).requests) == 3
    assert len(read(join([*TIMED[1:], *TIMED[1:]])).requests) == 2


@pytest.mark.parametrize(
    ("log", "said"),
    [
        ("lmstudio-0.3", "Llama.generate: "),
        ("text-generation-webui-server", "[GIN] "),
        ("llama-cli-perf-context", "[GIN] "),
        ("genai-perf-table", "NVIDIA AIPerf | "),
    ],
)
def test_a_word_in_a_text_wakes_no_format(log: str, said: str) -> None:
    data = (SAMPLES / f"{log}.log").read_bytes()
    asked = read(f"what does {said} mean?\n".encode() + data)
    assert asked.told("line", "first_line", "offset") == read(data).told("line", "first_line", "offset")
