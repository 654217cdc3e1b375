"""The page of ``phasewise probe``: each phase, where the time went, what can't be told, what to do next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from advisor.report.blocks import (
    drawn_bar,
    hanging,
    indented,
    is_unicode,
    put,
    standard_console,
    table,
    title,
)
from advisor.report.page import bar_of
from rules.words import count, duration, percent, plural, rate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from advisor.probe.result import Cached, Decode, Length, Prefill, Probe, Queue, Server, Shares


def show(probe: Probe) -> None:
    """Print the page to standard output."""
    console = standard_console()
    blocks: list[RenderableType] = [Text(_heading(probe), style="dim"), Text()]
    blocks += [title("The answer"), indented(Text(answer(probe), style="bold"))]
    for name, shares in (("one at a time", probe.alone), ("at once", probe.together)):
        blocks += _drawn(name, shares, console.width - 4, unicode=is_unicode(console))
    if probe.lengths:
        blocks += [Text(), title("By length"), indented(table(_by_length(probe)))]
    for name, lines in (
        ("Phase by phase", phases(probe)),
        ("What this can't tell", probe.unknown),
        ("What to do next", probe.next),
    ):
        if lines:
            blocks += [Text(), title(name), *(indented(hanging("- ", line)) for line in lines)]
    put(console, blocks)


def _heading(probe: Probe) -> str:
    engine = " ".join(filter(None, (probe.engine, probe.engine_version)))
    model = probe.model and (probe.model.replace("\\", "/").rpartition("/")[2] or probe.model)
    words = [probe.address, engine, model, plural(probe.requests, "request")]
    slots = plural(probe.slots, "slot") if probe.slots else None
    context = f"context of {count(probe.context)}" if probe.context else None
    early = None if probe.is_complete else "ended early"
    return ", ".join(filter(None, [*words, slots, context, early]))


def answer(probe: Probe) -> str:
    """The headline: what the longest request that was measured waits for."""
    if not probe.lengths:
        return "Nothing was measured."
    longest = probe.lengths[-1]
    total_ms = longest.ttft_ms + longest.decode_ms
    prompt = count(longest.prompt_tokens or longest.aimed_tokens)
    parts = [f"{duration(longest.ttft_ms)} to the first token ({percent(longest.ttft_ms / total_ms)})"]
    if longest.prefill_tok_s is not None:
        parts += [f"prefill at {rate(longest.prefill_tok_s)}"]
    if longest.decode_tok_s is not None:
        parts += [f"decode at {rate(longest.decode_tok_s)}"]
    size = f"{prompt} prompt and {count(probe.output_tokens)} output tokens"
    return f"{size} take {duration(total_ms)}: {', '.join(parts)}."


def _drawn(name: str, shares: Shares | None, width: int, *, unicode: bool) -> list[RenderableType]:
    if shares is None:
        return []
    known = {phase: share and share * shares.wall_ms for phase, share in shares.share.model_dump().items()}
    bar = drawn_bar(bar_of(known, width, unicode=unicode))
    return [Text(), indented(Text(f"{name}: {shares.phase}")), indented(bar)] if bar else []


def _by_length(probe: Probe) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("prompt", "first token", "prefill", "", "decode", "per token")]
    rows += [
        (
            count(one.prompt_tokens) if one.prompt_tokens else f"~{count(one.aimed_tokens)}",
            duration(one.ttft_ms),
            duration(one.prefill_ms),
            rate(one.prefill_tok_s),
            rate(one.decode_tok_s),
            duration(one.tpot_ms),
        )
        for one in probe.lengths
    ]
    return rows


def phases(probe: Probe) -> list[str]:
    """A sentence for each phase that is known."""
    return [
        *_of_queue(probe.queue),
        *_of_prefill(probe.prefill, probe.lengths),
        *_of_cache(probe.cached),
        *_of_decode(probe.decode),
        *_of_server(probe.server),
    ]


def _of_queue(queue: Queue | None) -> list[str]:
    if queue is None:
        return []
    told = (
        f"Queue: of {queue.at_once} at once, {queue.served_at_once} got tokens at the same time; the first "
        f"token came after {duration(queue.first_ttft_ms)} to {duration(queue.last_ttft_ms)}, alone after "
        f"{duration(queue.alone_ttft_ms)}"
    )
    waited = [ms for ms in queue.waited_ms if ms is not None]
    if not waited:
        return [f"{told}."]
    clock = "by the server's own times" if queue.waited_from == "server" else "estimated from who ended when"
    return [f"{told}. The last waited {duration(max(waited))} ({clock})."]


def _of_prefill(line: Prefill | None, lengths: Sequence[Length]) -> list[str]:
    if line is None:
        return []
    speed, fixed = line.tok_s, line.fixed_ms
    if speed is None:
        each = [
            f"{rate(one.prefill_tok_s)} at {count(one.prompt_tokens)}"
            for one in lengths
            if one.prefill_tok_s and one.prompt_tokens
        ]
        tokens = f"Prefill: {', '.join(each)} prompt tokens (attention grows with the prompt)"
    else:
        high = rate(speed.high) if speed.high is not None else "more"
        tokens = f"Prefill: {rate(speed.value)} ({rate(speed.low)} to {high}) for each further token"
    if fixed.low <= 0:
        return [f"{tokens}; what every request costs is too little to tell (at most {duration(fixed.high)})."]
    every = f"{duration(fixed.value)} ({duration(fixed.low)} to {duration(fixed.high)})"
    return [f"{tokens}, and {every} that every request costs."]


def _of_cache(cached: Cached | None) -> list[str]:
    if cached is None:
        return []
    again, first = duration(cached.repeat_ttft_ms), duration(cached.first_ttft_ms)
    times = f"first token after {again}, the first time {first}"
    held = (
        f", {count(cached.cached_tokens)} of {count(cached.prompt_tokens)} tokens from the cache"
        if cached.cached_tokens is not None
        else ""
    )
    said = {True: "is cached", False: "is not cached", None: "may be cached or not"}[cached.is_cached]
    return [f"The same prompt again {said}: {times}{held}."]


def _of_decode(decode: Decode | None) -> list[str]:
    if decode is None or decode.tpot_ms is None:
        return []
    gaps = (
        f"; gaps between tokens {duration(decode.itl_p50_ms)} (p50), {duration(decode.itl_p90_ms)} (p90), "
        f"{duration(decode.itl_max_ms)} at most"
        if decode.itl_p50_ms is not None
        else ""
    )
    return [f"Decode: {rate(decode.tok_s)}, {duration(decode.tpot_ms)} a token{gaps}."]


def _of_server(server: Server | None) -> list[str]:
    if server is None:
        return []
    pairs = [
        f"{name} {rate(own)} against {rate(ours)}"
        for name, own, ours in (
            ("prefill", server.prefill_tok_s, server.stream_prefill_tok_s),
            ("decode", server.decode_tok_s, server.stream_decode_tok_s),
        )
        if own is not None and ours is not None
    ]
    return [f"The server's own clock against the stream's: {', '.join(pairs)}."] if pairs else []
