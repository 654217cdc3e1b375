"""Texts that an engine prints, prompts and answers, may hold another engine's log: it tells of nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parsers.quotes import LONGEST_TEXT
from tests.parsers.reading import QUOTED, TIMED, bytewise, join, read, wrap
from tests.parsers.test_samples import SAMPLES
from tests.parsers.test_stream import pieces

if TYPE_CHECKING:
    from tests.parsers.reading import Read

VLLM = (
    "INFO 11-29 19:39:27 [loggers.py:257] Engine 000: Avg prompt throughput: 100.0 tokens/s, Avg generation "
    "throughput: 40.0 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 1.0%, "
    "Prefix cache hit rate: 0.0%"
)
SGLANG = (
    "[2026-03-02 10:01:12] Decode batch, #running-req: 2, #token: 9000, token usage: 0.10, "
    "cuda graph: True, gen throughput (token/s): 90.00, #queue-req: 0, "
)
BODY = (
    '{"id":"x1","created":1766000000,"timings":{"cache_n":0,"prompt_n":5,"prompt_ms":10.0,'
    '"predicted_n":7,"predicted_ms":70.0}}'
)
WEBUI = (
    "16:20:32-000003 INFO     Output generated in 0.25 seconds (40.00 tokens/s, 10 tokens, context 50, "
    "seed 1)"
)
QUOTES = {
    "llama-server": (*TIMED[1:], "", *QUOTED),
    "its container": tuple(f"llama-1  | {line}" for line in QUOTED),
    "its header": (
        "build: 4589 (abcdef12) with cc for x86_64-linux-gnu",
        "llama_model_loader: loaded meta data with 1 key-value pairs from /models/o.gguf (version GGUF V3)",
        "print_info: n_layer = 99",
    ),
    "ollama": (
        "total duration:       4.2s",
        "load duration:        20ms",
        "prompt eval count:    26 token(s)",
        "prompt eval duration: 130ms",
        "eval count:           298 token(s)",
        "eval duration:        4s",
        "eval rate:            74.5 tokens/s",
        '[GIN] 2026/08/20 - 18:02:56 | 200 | 15.569353619s |       127.0.0.1 | POST     "/api/chat"',
    ),
    "vllm": (VLLM,),
    "sglang": (SGLANG,),
    "a body": (BODY,),
    "a block": (
        "llama_perf_context_print: prompt eval time =      20.00 ms /     8 tokens (    2.50 ms per token)",
        "llama_perf_context_print:        eval time =    5110.00 ms /   511 runs   (   10.00 ms per token)",
        "llama_perf_context_print:       total time =    5200.00 ms /   519 tokens",
    ),
}
UNKNOWABLE = {
    ("llama-cli", "a block"),
    ("text-generation-webui", "a block"),
    ("ollama", "ollama"),
    ("localai", "its container"),
}
"""Their own lines look like that, and nothing else tells one from a quote of it."""


def sample(name: str) -> list[str]:
    return (SAMPLES / f"{name}.log").read_bytes().decode().split("\n")[:-1]


_KOBOLD = sample("koboldcpp-clock")
_VERBOSE = sample("ollama-verbose")
_BENCH = sample("openvino-genai-llm-bench")
_TABBY = sample("tabbyapi-file")
_CLI = sample("llama-cli-common-perf")
_SERVER = sample("llama-server-b3779")
_STATS = sample("lmstudio-stats")


_TGI = sample("tgi-text")
_DEBUG = (
    "2024-05-01T09:02:13.000000Z DEBUG generate{parameters=GenerateParameters { best_of: None, stop: [] }}: "
    "text_generation_router::server: router/src/server.rs:291"
)
_MLX = sample("mlx-openai-server")
_MLX_HEAD = "2026-01-05 06:14:19 | INFO     | app.utils.debug_logging:"
_MISTRAL = sample("mistral-rs-chat")
_KTRANSFORMERS = sample("ktransformers-local-chat")
_CHAT = [
    "build      : b8179-ecbcb7ea9",
    "model      : q.gguf",
    "modalities : text",
    "",
    "available commands:",
    "  /exit or Ctrl+C     stop or exit",
    "  /clear              clear the chat history",
    "",
    "> hello",
    "Hi!",
    "",
    "[ Prompt: 225.6 t/s | Generation: 76.3 t/s ]",
    "",
    "> and at night?",
]


def _at(lines: list[str], part: str) -> int:
    return next(number for number, line in enumerate(lines) if part in line)


def _around(lines: list[str], part: str, *head: str, after: bool = True) -> tuple[list[str], list[str]]:
    """The log up to the line that holds this, with what announces a text, and the rest."""
    place = _at(lines, part) + after
    return [*lines[:place], *head], lines[place:]


TEXTS = {
    "koboldcpp": _around([*_KOBOLD, "", "[21:09:00] Input Received", *_KOBOLD[4:]], "Output: "),
    "tabbyapi": _around(
        [*_TABBY, *_TABBY], "Received completion", "2025-04-01 10:00:00.101 | INFO     | Raw prompt (ID: 01):"
    ),
    "text-generation-webui": (
        ["16:20:31-000001 INFO     PROMPT="],
        [
            "",
            "16:20:31-000002 INFO     GENERATE_PARAMS=",
            *TIMED[1:],
            WEBUI,
        ],
    ),
    "mlx-lm": (
        [
            "==========",
            "x",
            "==========",
            "Prompt: 12 tokens, 96.125 tokens-per-sec",
            "Generation: 3 tokens, 18.5 tokens-per-sec",
            "==========",
        ],
        [
            "==========",
            "Prompt: 13 tokens, 97.125 tokens-per-sec",
            "Generation: 4 tokens, 18.5 tokens-per-sec",
            "Peak memory: 17.202 GB",
        ],
    ),
    "llama-cli": _around(_CLI, "generate: n_ctx"),
    "llama-server": _around(_SERVER, "chat template, ", after=True),
    "localai": (
        ["2:41PM DBG Prompt (after templating): why is this slow?"],
        [
            f"2:42PM DBG GRPC(m.gguf-127.0.0.1:1): stderr {line}"
            for line in (QUOTED[0], *QUOTED[1:5], QUOTED[5])
        ],
    ),
    "ollama": _around(_VERBOSE, ">>> and at night?"),
    "openvino-genai": _around(_BENCH, "[1][P0] First infer", "[ INFO ] [1][P0] Generated: it says:"),
    "tgi": _around(_TGI, "Args {", f"{_DEBUG}: Input: why is this slow?"),
    "tgi's answer": _around(_TGI, "queue_time=", f"{_DEBUG}: Output: since"),
    "mlx-openai-server's prompt": (
        [
            f"{_MLX_HEAD}log_debug_prompt:85 | {7 * '━'}INPUT PROMPT{7 * '━'}",
            f"{_MLX_HEAD}log_debug_prompt:86 | hi",
        ],
        [f"{_MLX_HEAD}log_debug_prompt:87 | {20 * '━'}", *_MLX, VLLM],
    ),
    "mlx-openai-server's answer": (
        [*_MLX, f"{_MLX_HEAD}log_debug_raw_text_response:101 | Raw text: it says"],
        [f"{_MLX_HEAD}log_debug_raw_text_response:102 | {20 * '━'}", *_MLX],
    ),
    "vllm-rs": (
        ["2026-01-12T09:15:02.001301Z  INFO vllm_rs: [seq_id 0] 📄✨ Response: since"],
        [
            "2026-01-12T09:15:02.001301Z  INFO vllm_rs: ⏱️ Prompt tokens: 12 in 0.02s (600.00 tokens/s)",
            "2026-01-12T09:15:02.001301Z  INFO vllm_rs: ⏱️ Decoded tokens: 20 in 0.50s (40.00 tokens/s)",
            VLLM,
        ],
    ),
    "vllm-rs's chat": (
        ["🤖✨ Enter a new prompt (Press Ctrl+C to exit):", "~/models〉why?"],
        ["2026-01-12T09:15:02.001301Z  INFO vllm_rs: ⏱️ Prompt tokens: 12 in 0.02s (600.00 tokens/s)", VLLM],
    ),
    "mistral-rs": (
        [
            "2026-05-02T10:00:00.1Z  INFO Starting interactive loop with sampling params: SamplingParams { }",
            *_MISTRAL[:10],
        ],
        _MISTRAL[10:],
    ),
    "llama-cli's chat": (_CHAT, ["[ Prompt: 225.6 t/s | Generation: 76.3 t/s ]", "", "Exiting...", "", VLLM]),
    "ktransformers": (_KTRANSFORMERS[:9], _KTRANSFORMERS[12:18]),
    "lmstudio": _around([*_STATS, "timestamp: 5/2/2026, 9:49:47 PM"], "output:"),
}


def told(log: Read) -> tuple[list[dict[str, object]], object, list[dict[str, object]]]:
    """What a log says, but for where."""
    setups = [s.model_dump(exclude={"line", "origin"}) for s in log.stream.setups]
    return log.told("line", "first_line", "offset", "run"), log.stream.counts, setups


def _cases() -> list[tuple[str, str]]:
    return [(who, what) for who in TEXTS for what in QUOTES if (who, what) not in UNKNOWABLE]


@pytest.mark.parametrize("who", TEXTS)
def test_without_a_quote_they_say_something(who: str) -> None:
    before, after = TEXTS[who]
    assert read(join([*before, *after])).rows


@pytest.mark.parametrize(("who", "what"), _cases())
def test_a_quote_adds_nothing(who: str, what: str) -> None:
    before, after = TEXTS[who]
    plain = read(join([*before, "hello", *after]))
    quoting = read(join([*before, "hello", *QUOTES[what], *after]))
    assert told(quoting) == told(plain)


@pytest.mark.parametrize("who", TEXTS)
def test_in_any_pieces(who: str) -> None:
    before, after = TEXTS[who]
    data = join(
        [*before, *QUOTES["sglang"], *QUOTES["llama-server"], *QUOTES["ollama"], *QUOTES["vllm"], *after]
    )
    whole = read(data)
    assert bytewise(data).told() == whole.told()

    @settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(st.integers(0, 1 << 30), max_size=12))
    def cut(cuts: list[int]) -> None:
        harmed = read(*pieces(data, cuts))
        assert harmed.told() == whole.told()
        assert harmed.stream.counts == whole.stream.counts

    cut()


@pytest.mark.parametrize("who", TEXTS)
def test_a_text_is_over_some_day(who: str) -> None:
    before, _ = TEXTS[who]
    filled = [*before, *["words"] * (LONGEST_TEXT + 1), *QUOTES["sglang"]]
    assert any(row.engine == "sglang" for row in read(join(filled)).rows)


@pytest.mark.parametrize("who", [who for who in TEXTS if who != "localai"])
def test_containers_do_not_hear_each_others_texts(who: str) -> None:
    before, after = TEXTS[who]
    other = join(QUOTES["sglang"])
    one = wrap(join([*before]), b"a-1  | ")
    rest = wrap(join([*after]), b"a-1  | ")
    both = read(one + wrap(other, b"b-1  | ") + rest)
    assert sorted(
        json.dumps(row, default=str) for row in both.told("line", "first_line", "offset", "run")
    ) == (
        sorted(
            json.dumps(row, default=str)
            for log in (read(one + rest), read(wrap(other, b"b-1  | ")))
            for row in log.told("line", "first_line", "offset", "run")
        )
    )


STATS = ("Prompt: 1 tokens, 10.00 T/s", "Decode: 4 tokens, 51.20 T/s", "Prefix cache: 0 hits / 1 turns", "")
ENDS = {
    "mistral-rs": (*STATS, "> /exit"),
    "mistral-rs 0.6": (*STATS, "[search] > \\exit"),
    "ktransformers": (
        "Traceback (most recent call last):",
        '    content = input("Chat: ")',
        "KeyboardInterrupt",
    ),
    "ktransformers 0.4": ("Exit all rank with KeyboardInterrupt!",),
    "llama-cli's chat": ("", "Exiting..."),
}


@pytest.mark.parametrize("who", ENDS)
def test_a_program_that_says_it_ends_is_heard(who: str) -> None:
    before, _ = TEXTS[who.partition(" 0")[0]]
    assert not any(row.engine == "sglang" for row in read(join([*before, SGLANG])).rows)
    ended = read(join([*before, *ENDS[who], SGLANG]))
    assert any(row.engine == "sglang" for row in ended.rows)


def test_an_answer_that_says_exit_is_no_end() -> None:
    before, _ = TEXTS["mistral-rs"]
    said = [*before, *STATS, "> how do I leave?", *["words"] * 9, "> /exit", SGLANG]
    assert not any(row.engine == "sglang" for row in read(join(said)).rows)
