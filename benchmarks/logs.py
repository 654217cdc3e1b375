"""Generates the logs that `parse.py` times: the same bytes every time, and every row that they hold.

Dense is llama-server at its default verbosity and a little more: four slots whose lines interleave,
restarts that lose what was open, 28 % timing lines. Sparse is the same with `-v`: prompts are printed that
quote timing lines, and 1.4 % of the lines are an engine's own timing. vLLM and SGLang print windows and
batches among access lines. Mixed is three llama-servers that restart and a vLLM in one file of compose.
"""

from __future__ import annotations

import json
from itertools import count
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

Row: TypeAlias = "tuple[object, ...]"

HEADER = """\
{t} I srv  llama_server: initializing ...
{t} I srv    load_model: loading model '/models/some-model-q4_k_m.gguf'
{t} I srv    load_model: initializing, n_slots = 4, n_ctx_slot = 8192, kv_unified = 'true'
"""
BEGIN = """\
{t} I slot get_availabl: id  {slot} | task -1 | selected slot by LCP similarity, f_sim_best = 0.649 (> 0.100 thold), f_keep = 0.421
{t} I slot launch_slot_: id  {slot} | task {task} | processing task, is_child = 0
{t} I slot   operator(): id  {slot} | task {task} | new prompt, n_ctx_slot = 8192, n_keep = 0, task.n_tokens = {prompt}
{t} I slot   operator(): id  {slot} | task {task} | cached n_tokens = {cached}, memory_seq_rm [{cached}, end)
"""  # noqa: E501
PROGRESS = (
    "{t} I slot   operator(): id  {slot} | task {task} | prompt processing progress, n_tokens = {n}, "
    "batch.n_tokens = 512, progress = 0.512000\n"
)
END = """\
{t} I slot print_timing: id  {slot} | task {task} | prompt eval time = {p_ms:10.2f} ms / {p_n:5d} tokens ({p_1:8.2f} ms per token, {p_s:8.2f} tokens per second)
{t} I slot print_timing: id  {slot} | task {task} |        eval time = {d_ms:10.2f} ms / {d_n:5d} tokens ({d_1:8.2f} ms per token, {d_s:8.2f} tokens per second)
{t} I slot print_timing: id  {slot} | task {task} |       total time = {ms:10.2f} ms / {n:5d} tokens
{t} I slot print_timing: id  {slot} | task {task} |    graphs reused = {task:10d}
{t} I slot      release: id  {slot} | task {task} | stop processing: n_tokens = {context}, truncated = 0
"""  # noqa: E501
TIMED = 3
"""Which line of these ends the timing."""
CHATTER = "{t} D srv  update_slots: posting NEXT_RESPONSE, n_tokens = {n}\n"
DUMP = (
    "The log below was pasted by a user on day {n}, who asks why the first token takes so long:\n",
    "prompt eval time =     {n}.53 ms /    14 tokens (    3.63 ms per token,   275.43 tokens per second)\n",
    "       eval time =     {n}.76 ms /    48 tokens (    7.48 ms per token,   133.61 tokens per second)\n",
    "      total time =     {n}.59 ms /    62 tokens\n",
    "slot print_timing: id  0 | task {n} |       total time =     402.59 ms /    62 tokens\n",
    *("and then some more words of the same prompt, which say nothing at all; part {n}.\n",) * 29,
)
WINDOW = (
    "(APIServer pid=18) INFO 11-29 {clock} [loggers.py:257] Engine 000: "
    "Avg prompt throughput: {p_s}.0 tokens/s, Avg generation throughput: {d_s}.0 tokens/s, "
    "Running: {running} reqs, Waiting: 0 reqs, GPU KV cache usage: {kv}.0%, Prefix cache hit rate: 0.0%\n"
)
ACCESS = 'INFO:     10.0.0.{n}:52222 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
PREFILL = (
    "[2026-03-02 {clock}] Prefill batch, #new-seq: 1, #new-token: {p_n}, #cached-token: {cached}, "
    "token usage: 0.25, #running-req: {running}, #queue-req: 0\n"
)
DECODE = (
    "[2026-03-02 {clock}] Decode batch, #running-req: {running}, #token: 9000, token usage: 0.25, "
    "cuda graph: True, gen throughput (token/s): {d_s}.50, #queue-req: 0\n"
)
REQUESTS = {
    "line": pl.Int64,
    "request_id": pl.String,
    "slot": pl.Int64,
    "prompt_tokens": pl.Int64,
    "cached_tokens": pl.Int64,
    "prefill_tokens": pl.Int64,
    "prefill_ms": pl.Float64,
    "output_tokens": pl.Int64,
    "decode_ms": pl.Float64,
    "total_ms": pl.Float64,
    "context_tokens": pl.Int64,
}
INTERVALS = {
    "line": pl.Int64,
    "kind": pl.String,
    "running": pl.Int64,
    "prefill_tokens": pl.Int64,
    "cached_tokens": pl.Int64,
    "prefill_tok_s": pl.Float64,
    "decode_tok_s": pl.Float64,
}


class Truth(NamedTuple):
    """The rows of a log, in the order of their lines."""

    requests: pl.DataFrame
    intervals: pl.DataFrame


class Block(NamedTuple):
    """Lines that an engine writes at once, and the rows they complete: which of them, and its values."""

    text: str
    rows: tuple[tuple[int, Row], ...] = ()


class Kind(NamedTuple):
    """What a log is made of.

    Attributes:
        engines: write their lines in turn.
        carrier: what wraps them: a line, whose it is and its number in; the line as it stands in the log out.
    """

    engines: tuple[Callable[[], Iterator[Block]], ...]
    carrier: Callable[[str, int, int], str] | None = None


def write(path: Path, size: int, kind: Kind) -> Truth:
    """Write about ``size`` bytes of log."""
    requests: list[Row] = []
    intervals: list[Row] = []
    engines = [engine() for engine in kind.engines]
    written, lines = 0, 0
    with path.open("w", encoding="ascii", newline="\n") as file:
        for turn in count():
            which = turn % len(engines)
            block = next(engines[which])
            text = block.text
            if kind.carrier is not None:
                bare = text.splitlines(keepends=True)
                text = "".join(kind.carrier(line, which, lines + at) for at, line in enumerate(bare))
            for at, row in block.rows:
                (requests if len(row) == len(REQUESTS) - 1 else intervals).append((lines + at, *row))
            lines += text.count("\n")
            written += file.write(text)
            if written >= size:
                break
    return Truth(
        pl.DataFrame(requests, REQUESTS, orient="row"), pl.DataFrame(intervals, INTERVALS, orient="row")
    )


def server(*, restart: int, chatter: int = 0, dumps: int = 0) -> Iterator[Block]:
    """A llama-server: whenever a slot ends a request it begins the next one, while the others go on.

    Args:
        restart: after how many requests it starts anew; what is open then is lost.
        chatter: how many lines it prints of what it does, for each request.
        dumps: how many texts it prints.
    """
    state = restart
    while True:
        yield Block(HEADER.format(t=_clock(0)))
        busy: dict[int, dict[str, float]] = {}
        for turn in range(restart):
            t, slot = _clock(40 * turn), turn % 4
            state = state * 1103515245 + 12345 & 0x7FFFFFFF
            if slot in busy:
                yield _end(t, busy[slot])
            p_n, d_n, cached = 20 + state % 3000, 1 + state // 3000 % 400, state // 1_200_000 % 1000
            request = busy[slot] = {"slot": slot, "task": turn * 7, "p_n": p_n, "d_n": d_n, "cached": cached}
            told = BEGIN.format(t=t, prompt=cached + p_n, **request)
            for chunk in range(1 if p_n < 1000 else 2):
                told += PROGRESS.format(t=t, n=512 * (chunk + 1), **request)
            yield Block(told)
            for part in range(dumps):
                yield Block("".join(line.format(n=turn % 90 + part) for line in DUMP))
            if chatter:
                yield Block("".join(CHATTER.format(t=t, n=n) for n in range(chatter)))


def _clock(ms: int) -> str:
    return f"{ms // 60_000}.{ms // 1000 % 60:02d}.{ms % 1000:03d}.000"


def _end(t: str, request: dict[str, float]) -> Block:
    p_n, d_n, cached = int(request["p_n"]), int(request["d_n"]), int(request["cached"])
    p_ms, d_ms, context = round(p_n * 3.21, 2), round(d_n * 9.87, 2), cached + p_n + d_n - 1
    text = END.format(
        t=t,
        p_ms=p_ms,
        p_1=p_ms / p_n,
        p_s=1000 * p_n / p_ms,
        d_ms=d_ms,
        d_1=d_ms / d_n,
        d_s=1000 * d_n / d_ms,
        ms=p_ms + d_ms,
        n=p_n + d_n,
        context=context,
        **request,
    )
    ids = str(request["task"]), request["slot"]
    total_ms = round(p_ms + d_ms, 2)
    return Block(text, ((TIMED, (*ids, cached + p_n, cached, p_n, p_ms, d_n, d_ms, total_ms, context)),))


def vllm() -> Iterator[Block]:
    """A vLLM: a window every ten seconds, among access lines."""
    for turn in count():
        p_s, d_s, running = 1 + turn % 4999, 1 + turn % 997, 1 + turn % 8
        text = WINDOW.format(clock=_time(turn * 10), p_s=p_s, d_s=d_s, running=running, kv=turn % 100)
        access = "".join(ACCESS.format(n=n) for n in range(8))
        yield Block(text + access, ((1, ("window", running, None, None, float(p_s), float(d_s))),))


def sglang() -> Iterator[Block]:
    """An SGLang: a prefill batch, and four lines about decoding, among access lines."""
    for turn in count():
        p_n, cached, running, clock = 1 + turn % 4000, turn % 900, 1 + turn % 30, _time(turn)
        text = PREFILL.format(clock=clock, p_n=p_n, cached=cached, running=running)
        rows: list[tuple[int, Row]] = [(1, ("prefill_batch", running, p_n, cached, None, None))]
        for step in range(4):
            d_s = 100 + (turn + step) % 900
            text += DECODE.format(clock=clock, running=running, d_s=d_s)
            rate = d_s + 0.5 if turn or step else None  # the first one's time is not known
            rows.append((2 + step, ("decode_batch", running, None, None, None, rate)))
        yield Block(text + "".join(ACCESS.format(n=n) for n in range(6)), tuple(rows))


def _time(second: int) -> str:
    second %= 86_400
    return f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"


def compose(line: str, which: int, number: int) -> str:
    """As docker compose prints it."""
    return f"llm-{which + 1}  | {line}"


def docker(line: str, which: int, number: int) -> str:
    """As docker keeps it: an object of JSON for each line."""
    time = f"2026-11-29T{_time(number // 1000)}.{number % 1000:03d}Z"
    text = json.dumps(line).replace(">", "\\u003e")  # as Go writes it
    return f'{{"log":{text},"stream":"stderr","time":"{time}"}}\n'


def journald(line: str, which: int, number: int) -> str:
    """As journalctl prints it."""
    return f"Nov 29 {_time(number // 1000)} gpu-7 llama-server[4711]: {line}"


def _dense() -> Iterator[Block]:
    return server(restart=5000)


def _sparse() -> Iterator[Block]:
    return server(restart=500, chatter=101, dumps=3)


def _mixed() -> Iterator[Block]:
    return server(restart=50, chatter=3)


KINDS = {
    "dense": Kind((_dense,)),
    "dense, docker": Kind((_dense,), docker),
    "dense, journald": Kind((_dense,), journald),
    "sparse": Kind((_sparse,)),
    "sparse, docker": Kind((_sparse,), docker),
    "sparse, journald": Kind((_sparse,), journald),
    "vllm": Kind((vllm,)),
    "sglang": Kind((sglang,)),
    "mixed": Kind((_mixed, _mixed, _mixed, vllm), compose),
}
