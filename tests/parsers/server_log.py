"""Logs of a llama-server of 2026 as its default verbosity has them, with lines that are not as usual."""

# ruff: noqa: E501

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

_START = (
    "{t} I srv  llama_server: initializing ...",
    "{t} I srv    load_model: loading model '/models/a-model-q4_k_m.gguf'",
    "{t} I srv    load_model: initializing, n_slots = 4, n_ctx_slot = 8192, kv_unified = 'true'",
)
_BETWEEN = (
    "prompt eval time =     306.93 ms /   104 tokens (    2.95 ms per token,   338.84 tokens per second)",
    "       eval time =    2404.28 ms /    24 tokens (  104.53 ms per token,     9.57 tokens per second)",
    "slot print_timing: id  0 | task 7 |       total time =    2711.21 ms /   128 tokens",
    "{t} I srv  update_slots: all slots are idle",
    "{t} I srv          stop: cancel task, id_task = {task}",
    "{t} I slot   operator(): id  1 | task {task} | slot context shift, n_keep = 0, n_left = 2, n_discard = 1",
    "{t} W slot   operator(): id  2 | task {task} | forcing full prompt re-processing due to lack of cache data",
    "{t} I srv    send_error: task id = {task}, error: the request exceeds the available context size",
    "{t} I slot print_timing: id  1 | task {task} | draft acceptance = 0.88889 (   40 accepted /    45 generated)",
    "{t} I srv  log_server_r: done request: POST /v1/embeddings 127.0.0.1 200",
    "{t} I srv  update_slots:  - cache state: 4 prompts, 7582.135 MiB (limits: 8192.000 MiB, 131072 tokens)",
    "{t} I srv  server is entering sleeping state",
    "{t} I chat template, example_format: 'a'",
    "INFO 03-02 10:00:00 [loggers.py:257] Engine 000: Avg prompt throughput: 3.0 tokens/s",
    "2026-03-02T10:00:00.000000Z DEBUG generate{{parameters=x}}: text_generation_router::server: router/src/server.rs:185: Input: why is",
    '2026-03-02T10:00:09.000000Z  INFO generate{{parameters=x total_time="1.5s" validation_time="1ms" queue_time="2ms" inference_time="1.4s" time_per_token="1ms" seed="None"}}: text_generation_router::server: router/src/server.rs:325: Success',
    "words \u00e9 of \x1b[31msomebody\x1b[0m\r",
    "",
    *_START,
)


def server_log(random: Random, requests: int, odd: float = 0.0) -> list[bytes]:
    """The lines of four slots that serve requests, and of restarts.

    Args:
        random: decides everything.
        requests: how many.
        odd: the share of lines that are edited, doubled, lost, moved or not of these.
    """
    lines: list[str] = []
    ms, task, busy = 1000, 0, dict[int, tuple[int, int, int]]()
    verbose = random.random() < 0.5
    lines += [line.format(t=_clock(0)) for line in _START]
    for _ in range(requests):
        ms += random.randrange(2, 40_000)
        if random.random() < 0.002:
            ms, task, busy = 1000, 0, {}
            lines += [line.format(t=_clock(0)) for line in _START]
        slot = random.randrange(4)
        if slot in busy:
            lines += _end(random, _clock(ms), slot, *busy[slot])
        task += random.randrange(1, 60)
        prompt, cached = random.randrange(1, 6000), random.choice([0, random.randrange(2000)])
        busy[slot] = task, prompt, cached
        lines += _begin(random, _clock(ms + 1), slot, task, prompt + cached, cached, verbose=verbose)
    if odd:
        lines = list(_with_odd(random, lines, odd, task))
    return [line.encode() for line in lines]


def _clock(ms: int) -> str:
    return f"{ms // 60_000}.{ms // 1000 % 60:02d}.{ms % 1000:03d}.{ms * 7 % 1000:03d}"


def _begin(
    random: Random, t: str, slot: int, task: int, prompt: int, cached: int, *, verbose: bool
) -> list[str]:
    similar, kept = random.choice([0.25, 0.649, 1.0, 0.999]), random.random()
    chosen = (
        f"selected slot by LCP similarity, f_sim_best = {similar:.3f} (> 0.100 thold), f_keep = {kept:.3f}",
        "selected slot by LRU, t_last = -1",
        f"selected slot by LRU, t_last = {random.randrange(1 << 40)}",
    )
    lines = [
        f"{t} I slot get_availabl: id {slot:2d} | task -1 | {random.choice(chosen)}",
        f"{t} I slot launch_slot_: id {slot:2d} | task {task} | processing task, is_child = 0",
    ]
    if verbose:
        head = f"{t} I slot   operator(): id {slot:2d} | task {task} | "
        lines += [
            f"{head}new prompt, n_ctx_slot = 8192, n_keep = 0, task.n_tokens = {prompt}",
            f"{head}cached n_tokens = {cached}, memory_seq_rm [{cached}, end)",
            f"{head}prompt processing progress, n_tokens = {prompt}, batch.n_tokens = 99, progress = 0.990000",
        ]
    return lines


def _end(random: Random, t: str, slot: int, task: int, prompt: int, cached: int) -> list[str]:
    output = random.randrange(1, 900)
    prefill_ms, decode_ms = (
        round(prompt * random.uniform(0.2, 9), 2),
        round(output * random.uniform(3, 99), 2),
    )
    head = f"{t} I slot print_timing: id {slot:2d} | task {task} | "
    held = cached + prompt + output - 1
    return [
        f"{head}prompt eval time = {_phase(prefill_ms, prompt)}",
        f"{head}       eval time = {_phase(decode_ms, output)}",
        f"{head}      total time = {prefill_ms + decode_ms:10.2f} ms / {prompt + output:5d} tokens",
        f"{head}   graphs reused = {output:10d}",
        f"{t} I slot      release: id {slot:2d} | task {task} | stop processing: n_tokens = {held}, truncated = 0",
    ]


def _phase(ms: float, tokens: int) -> str:
    rates = f"{ms / tokens:8.2f} ms per token, {1000 * tokens / ms:8.2f} tokens per second"
    return f"{ms:10.2f} ms / {tokens:5d} tokens ({rates})"


def _with_odd(random: Random, lines: list[str], share: float, most: int) -> list[str]:
    odd: list[str] = []
    for at, line in enumerate(lines):
        if random.random() >= share:
            odd.append(line)
            continue
        match random.randrange(7):
            case 0:
                pass
            case 1:
                odd += [line, line]
            case 2:
                odd += [
                    line,
                    random.choice(_BETWEEN).format(t=line.split(" ")[0], task=random.randrange(most)),
                ]
            case 3:
                odd.append(_renumbered(random, line))
            case 4:
                odd.append(line[: random.randrange(len(line) + 1)])
            case 5:
                odd += [line, lines[random.randrange(len(lines))]]
            case _:
                odd += [lines[min(at + random.randrange(9), len(lines) - 1)], line]
    return odd


def _renumbered(random: Random, line: str) -> str:
    """With one of its numbers replaced, in as many columns."""
    numbers = [*re.finditer(r"\d+", line)]
    if not numbers:
        return line
    one = random.choice(numbers)
    told = random.choice(["0", "1", "7", "99999", "nan", "-1", "2.5", str(random.randrange(10_000))])
    return line[: one.start()] + told.rjust(len(one[0]), "0") + line[one.end() :]
