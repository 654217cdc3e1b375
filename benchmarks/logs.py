"""Generates the logs that `parse.py` times: the same bytes every time, and every row that they hold."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CHATTER = "{t} I srv  update_slots: posting NEXT_RESPONSE, n_tokens = {n}\n"
HEADER = """\
{t} I srv  llama_server: initializing ...
{t} I srv    load_model: loading model '/models/some-model-q4_k_m.gguf'
{t} I srv    load_model: initializing, n_slots = 4, n_ctx_slot = 8192, kv_unified = 'true'
"""
REQUEST = """\
{t} I slot get_availabl: id  {slot} | task -1 | selected slot by LCP similarity, f_sim_best = 0.649 (> 0.100 thold), f_keep = 0.421
{t} I slot launch_slot_: id  {slot} | task {task} | processing task, is_child = 0
{t} I slot print_timing: id  {slot} | task {task} | prompt eval time = {p_ms:10.2f} ms / {p_n:5d} tokens ({p_1:8.2f} ms per token, {p_s:8.2f} tokens per second)
{t} I slot print_timing: id  {slot} | task {task} |        eval time = {d_ms:10.2f} ms / {d_n:5d} tokens ({d_1:8.2f} ms per token, {d_s:8.2f} tokens per second)
{t} I slot print_timing: id  {slot} | task {task} |       total time = {ms:10.2f} ms / {n:5d} tokens
{t} I slot print_timing: id  {slot} | task {task} |    graphs reused = {task:10d}
{t} I slot      release: id  {slot} | task {task} | stop processing: n_tokens = {context}, truncated = 0
"""  # noqa: E501
TOTAL_LINE = 5
WINDOW = (
    "(APIServer pid=18) INFO 11-29 {clock} [loggers.py:257] Engine 000: "
    "Avg prompt throughput: {p_s}.0 tokens/s, Avg generation throughput: {d_s}.0 tokens/s, "
    "Running: {running} reqs, Waiting: 0 reqs, GPU KV cache usage: {kv}.0%, Prefix cache hit rate: 0.0%\n"
)
REQUESTS = {
    "line": pl.Int64,
    "request_id": pl.String,
    "slot": pl.Int64,
    "prefill_tokens": pl.Int64,
    "prefill_ms": pl.Float64,
    "output_tokens": pl.Int64,
    "decode_ms": pl.Float64,
    "total_ms": pl.Float64,
    "context_tokens": pl.Int64,
}
INTERVALS = {"line": pl.Int64, "prefill_tok_s": pl.Float64, "decode_tok_s": pl.Float64, "running": pl.Int64}


class Kind(NamedTuple):
    """What a log is made of.

    Attributes:
        chatter: lines between two requests.
        services: containers of llama-server; with one there are no labels unless ``labelled``.
        windows: whether a vLLM container prints between them.
        restart: requests after which a server starts anew; 0 for never.
    """

    chatter: int = 0
    services: int = 1
    labelled: bool = False
    windows: bool = False
    restart: int = 0


KINDS = {
    "sparse": Kind(chatter=600),
    "sparse, labelled": Kind(chatter=600, labelled=True),
    "dense": Kind(),
    "dense, labelled": Kind(labelled=True),
    "mixed": Kind(chatter=10, services=3, labelled=True, windows=True, restart=50),
}


class Truth(NamedTuple):
    """The rows of a log, in the order of their lines."""

    requests: pl.DataFrame
    intervals: pl.DataFrame


class _Block(NamedTuple):
    """Lines of one container, and the row that they give, if any."""

    text: str
    table: list[tuple[object, ...]] | None = None
    row: tuple[object, ...] = ()
    at: int = 0


def write(path: Path, size: int, kind: Kind) -> Truth:
    """Write about ``size`` bytes of log."""
    requests: list[tuple[object, ...]] = []
    windows: list[tuple[object, ...]] = []
    servers = [_server(number, kind, requests) for number in range(kind.services)]
    if kind.windows:
        servers.append(_windows(windows))
    written, lines = 0, 0
    with path.open("w", encoding="ascii", newline="\n") as file:
        for turn in count():
            which = turn % len(servers)
            block = next(servers[which])
            label = f"llm-{which + 1}  | " if kind.labelled else ""
            text = (
                "".join(label + line for line in block.text.splitlines(keepends=True))
                if label
                else block.text
            )
            if block.table is not None:
                block.table.append((lines + block.at, *block.row))
            lines += text.count("\n")
            written += file.write(text)
            if written >= size:
                break
    return Truth(
        pl.DataFrame(requests, REQUESTS, orient="row"), pl.DataFrame(windows, INTERVALS, orient="row")
    )


def _server(number: int, kind: Kind, rows: list[tuple[object, ...]]) -> Iterator[_Block]:
    """A llama-server: its requests one after the other, and what it prints between them."""
    state = 1 + number
    for turn in count():
        at_ms = 40 * (turn % kind.restart if kind.restart else turn)
        t = f"{at_ms // 60_000}.{at_ms // 1000 % 60:02d}.{at_ms % 1000:03d}.000"
        header = HEADER.format(t=t) if kind.restart and turn % kind.restart == 0 else ""
        state = state * 1103515245 + 12345 & 0x7FFFFFFF
        p_n, d_n = 20 + state % 3000, 1 + state // 3000 % 400
        p_ms, d_ms = round(p_n * 3.21, 2), round(d_n * 9.87, 2)
        slot, task, context = turn % 4, 1 + turn * 7, p_n + d_n + 11
        text = REQUEST.format(
            t=t,
            slot=slot,
            task=task,
            p_ms=p_ms,
            p_n=p_n,
            p_1=p_ms / p_n,
            p_s=1000 * p_n / p_ms,
            d_ms=d_ms,
            d_n=d_n,
            d_1=d_ms / d_n,
            d_s=1000 * d_n / d_ms,
            ms=p_ms + d_ms,
            n=p_n + d_n,
            context=context,
        )
        row = (str(task), slot, p_n, p_ms, d_n, d_ms, round(p_ms + d_ms, 2), context)
        chatter = "".join(CHATTER.format(t=t, n=n) for n in range(kind.chatter))
        yield _Block(header + text + chatter, rows, row, header.count("\n") + TOTAL_LINE)


def _windows(rows: list[tuple[object, ...]]) -> Iterator[_Block]:
    """A vLLM: a line every ten seconds."""
    for turn in count():
        second = turn * 10 % 86_400
        clock = f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
        p_s, d_s, running = 1 + turn % 4999, 1 + turn % 997, 1 + turn % 8
        text = WINDOW.format(clock=clock, p_s=p_s, d_s=d_s, running=running, kv=turn % 100)
        yield _Block(text, rows, (float(p_s), float(d_s), running), 1)
