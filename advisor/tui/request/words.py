"""What a request waited for, its tokens and its rates, in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from advisor.tui.request.stretches import UNTOLD, stretches
from rules.samples import VALID_DECODE_MS, VALID_DECODE_TOKENS, VALID_PREFILL_MS, VALID_PREFILL_TOKENS
from rules.words import count, duration, percent, plural, rate

if TYPE_CHECKING:
    from collections.abc import Mapping

    Row = Mapping[str, Any]


def heading(row: Row, number: int) -> str:
    """``Request 57 · task 312 · slot 2 · qwen3``."""
    kind = "Request" if row["kind"] == "generation" else str(row["kind"]).capitalize()
    parts = [
        f"{kind} {number + 1:,}",
        "" if row["request_id"] is None else f"id {row['request_id']}",
        "" if row["slot"] is None else f"slot {row['slot']}",
        row["model"] or "",
    ]
    return " · ".join(filter(None, parts))


def place(row: Row) -> str:
    """``lines 187-193 · llama-server · 19:39:17 to 19:39:25 UTC · server.log``."""
    first, last = row["first_line"], row["line"]
    lines = f"lines {first:,}-{last:,}" if 0 < first < last else f"line {last:,}"
    source = "standard input" if row["source"] == "-" else row["source"]
    return " · ".join(filter(None, (lines, row["engine"], _when(row), source)))


def _when(row: Row) -> str:
    began, ended = row["started_at"], row["finished_at"]
    if began is not None and ended is not None:
        days = "" if began.date() == ended.date() else "%Y-%m-%d "
        return f"{began:%Y-%m-%d %H:%M:%S} to {ended:{days}%H:%M:%S} UTC"
    if ended is not None:
        return f"ended {ended:%Y-%m-%d %H:%M:%S} UTC"
    if row["clock_start_ms"] is not None and row["clock_end_ms"] is not None:
        return (
            f"{duration(row['clock_start_ms'])} to {duration(row['clock_end_ms'])} after the engine started"
        )
    return ""


def waited(row: Row) -> list[str]:
    """What it waited for, in the order in which it did."""
    said = [_queue(row), _load(row), _prefill(row), _decode(row), _other(row)]
    told = [sentence for sentence in said if sentence]
    if all(row[f"{phase}_ms"] is None for phase in ("queue", "load", "prefill", "decode")):
        told.insert(0, "How its time is made up, this log does not say.")
    return told


def _queue(row: Row) -> str:
    if row["queue_ms"] is None:
        told = row["prefill_ms"] is not None or row["decode_ms"] is not None
        told = told and row["kind"] != "benchmark"
        return "How long it waited to be taken, this log does not say." if told else ""
    if row["queue_ms"] < 1:
        return "It did not have to wait to be taken."
    return f"{duration(row['queue_ms'])} until it was taken (queue)."


def _load(row: Row) -> str:
    return f"{duration(row['load_ms'])} for the model to be loaded (load)." if row["load_ms"] else ""


def _prefill(row: Row) -> str:
    if row["prefill_ms"] is None:
        return ""
    new, cached = row["prefill_tokens"], row["cached_tokens"]
    read = "its prompt was read" if new is None else f"{plural(new, 'prompt token')} were read"
    if new == 1:
        read = "1 prompt token was read"
    kept = f"; {count(cached)} came from the cache" if cached else ""
    return f"{duration(row['prefill_ms'])} while {read} (prefill){kept}."


def _decode(row: Row) -> str:
    if row["decode_ms"] is None:
        return ""
    tokens, steps = row["output_tokens"], row["decode_steps"]
    made = (
        "its answer was generated"
        if tokens is None
        else f"{plural(tokens, 'token')} of answer were generated"
    )
    if tokens == 1:
        made = "1 token of answer was generated"
    each = f", {duration(row['decode_ms'] / steps)} a token" if steps and row["decode_ms"] else ""
    return f"{duration(row['decode_ms'])} while {made} (decode){each}."


def _other(row: Row) -> str:
    parts = [part for part in stretches(row) if part.phase == "other"]
    if not parts:
        return ""
    where = [f"{duration(part.ms)} {part.about}" for part in parts if part.about != UNTOLD]
    if not where:
        return (
            f"{duration(parts[0].ms)} that the log names no phase for (other); when in its time is not told."
        )
    return f"{' and '.join(where)} that the log names no phase for (other)."


def tokens(row: Row) -> list[tuple[str, str]]:
    """Its counts, those that are known."""
    cached, prompt = row["cached_tokens"], row["prompt_tokens"]
    share = f" ({percent(cached / prompt)})" if cached and prompt else ""
    context = row["context_tokens"]
    told = [
        ("prompt", "?" if prompt is None else plural(prompt, "token")),
        ("from cache", "?" if cached is None else f"{count(cached)}{share}"),
        ("evaluated", count(row["prefill_tokens"])),
        ("output", "?" if row["output_tokens"] is None else plural(row["output_tokens"], "token")),
        ("context at its end", "" if context is None else plural(context, "token")),
        ("drafted", _drafted(row)),
        ("ended by", row["finish_reason"] or ""),
        ("cut", "yes: its prompt or its context did not fit" if row["truncated"] else ""),
    ]
    generates = row["kind"] == "generation"
    return [(name, said) for name, said in told if said and (generates or said != "?")]


def _drafted(row: Row) -> str:
    drafted, accepted = row["draft_tokens"], row["accepted_tokens"]
    if not drafted or accepted is None:
        return ""
    return f"{plural(drafted, 'token')}, {count(accepted)} accepted ({percent(accepted / drafted)})"


def rates(row: Row) -> list[tuple[str, str]]:
    """Its speeds, or why it has none."""
    if row["kind"] == "benchmark":
        return []
    ttft = {"slot": ", from when a slot took it", "arrival": ", from its arrival"}.get(
        row["ttft_from"] or "", ""
    )
    told = [("first token after", f"{duration(row['ttft_ms'])}{ttft}")] if row["ttft_ms"] is not None else []
    told.append(("total", duration(row["total_ms"])))
    if row["kind"] != "generation":
        return told
    return [*told, ("prefill", _prefill_rate(row)), ("decode", _decode_rate(row))]


def _prefill_rate(row: Row) -> str:
    if row["prefill_tok_s"] is not None:
        return rate(row["prefill_tok_s"])
    return _no_rate(
        row["prefill_tokens"], row["prefill_ms"], VALID_PREFILL_TOKENS, VALID_PREFILL_MS, "evaluated"
    )


def _decode_rate(row: Row) -> str:
    if row["decode_tok_s"] is not None:
        return rate(row["decode_tok_s"])
    return _no_rate(row["output_tokens"], row["decode_ms"], VALID_DECODE_TOKENS, VALID_DECODE_MS, "generated")


def _no_rate(amount: int | None, ms: float | None, least: int, least_ms: float, what: str) -> str:
    if amount is None or ms is None:
        return "no rate: its tokens or its time are not logged"
    if amount < least:
        return f"no rate: {plural(amount, 'token')} {what}, {least} are needed to tell"
    if ms < least_ms:
        return f"no rate: {duration(ms)} are too short to tell, {duration(least_ms)} are needed"
    return "no rate: the tokens that its time paid for are not known"
