"""The page of ``phasewise estimate``: the answer, what it rests on, what would change it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from advisor.estimate import what_if
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
from rules.words import count, duration, percent, rate, size

if TYPE_CHECKING:
    from rich.console import RenderableType

    from advisor.estimate import Estimate
    from rules.physics.predict import Guess


def show(found: Estimate) -> None:
    """Print the page to standard output."""
    console = standard_console()
    blocks: list[RenderableType] = [Text(_heading(found), style="dim"), Text()]
    blocks += [title("The answer"), indented(Text(answer(found), style="bold"))]
    phases = {"prefill": found.prefill.value, "decode": found.decode_ms.value}
    if None not in phases.values() and (
        drawn := drawn_bar(bar_of(phases, console.width - 4, unicode=is_unicode(console)))
    ):
        blocks += [indented(drawn)]
    blocks += [Text(), title("What it rests on")]
    blocks += [indented(hanging("- ", line)) for line in basis(found)]
    if changes := _changes(found):
        blocks += [Text(), title("What would change it"), indented(table(changes))]
    if untold := cannot_tell(found):
        blocks += [Text(), title("What this can't tell")]
        blocks += [indented(hanging("- ", line)) for line in untold]
    put(console, blocks)


def _heading(found: Estimate) -> str:
    ask = found.ask
    asked = [
        found.model.name if found.model else None,
        f"on {found.hardware.name}" if found.hardware.name else None,
    ]
    request = [
        None if ask.prompt is None else f"{count(ask.prompt)} prompt tokens",
        f"{count(ask.cached)} of them cached" if ask.cached else None,
        f"{count(ask.depth)} in the context before" if ask.depth else None,
        None if ask.output is None else f"{count(ask.output)} output tokens",
    ]
    words = [" ".join(filter(None, asked)), ", ".join(filter(None, request))]
    return _capital(": ".join(filter(None, words))) or "Estimate"


def answer(found: Estimate) -> str:
    """The headline."""
    ask, total, decode = found.ask, found.total_ms, found.decode
    said = []
    if total.value and found.prefill.value is not None:
        share = percent(found.prefill.value / total.value)
        said += [f"{duration(total.value)}: {duration(found.prefill.value)} to the first token ({share})"]
        if ask.output:
            said += [f"then {count(ask.output)} tokens at {_speed(found)}"]
    elif decode.value and found.decode_ms.value:
        said += [f"{count(ask.output)} tokens take {duration(found.decode_ms.value)} at {_speed(found)}"]
    elif decode.value:
        said += [f"decode at {_speed(found)}"]
    elif found.prefill.value:
        said += [f"{duration(found.prefill.value)} to the first token"]
    if found.prefill.value is None and found.prefill.low is not None:
        said += [f"the first token after {_between(found.prefill)}"]
    if found.fits is False:
        said += ["but this does not fit the device's memory"]
    return f"{_capital(', '.join(said))}." if said else "These numbers tell no time."


def _speed(found: Estimate) -> str:
    return f"{rate(found.decode.value)} ({duration(found.ms_per_token)} each)"


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def _between(guess: Guess) -> str:
    return f"{duration(guess.low)} to {duration(guess.high)}"


def basis(found: Estimate) -> list[str]:
    """What each number rests on, and how far it may be off."""
    lines = []
    if found.decode.value is not None:
        measured = found.ask.decode_tok_s is not None
        spread = "" if measured else f", within {rate(found.decode.low)} to {rate(found.decode.high)}"
        lines += [f"Decode {rate(found.decode.value)}{spread}: {found.decode.basis}."]
    if found.ceiling_tok_s and found.model:
        reads = f"{size(found.model.read_bytes)} of weights{' and the KV cache' if found.kv_bytes else ''}"
        most = f"a token reads {reads}, and memory delivers {_bandwidth(found)}"
        lines += [f"At most {rate(found.ceiling_tok_s)}: {most}."]
    if found.prefill.low is not None and found.prefill.basis and found.prefill.value != 0.0:
        lines += [f"Prefill within {_between(found.prefill)}: {found.prefill.basis}."]
    if found.total_ms.low is not None and found.total_ms.value:
        lines += [f"In all within {_between(found.total_ms)}."]
    if found.needed_bytes is not None and found.model is not None:
        parts = (
            f"{size(found.model.weights_bytes)} of weights, {size(found.kv_bytes)} of KV cache, 1 GiB spare"
        )
        lines += [f"Memory {size(found.needed_bytes)}: {parts}{_fits_words(found)}."]
    return lines


def _bandwidth(found: Estimate) -> str:
    low, high = found.hardware.bandwidth_bounds_gb_s or (0.0, 0.0)
    told = f"{high:,.0f} GB/s" if low == high else f"{low:,.0f} to {high:,.0f} GB/s"
    calibrated = found.hardware.calibrated
    return told if calibrated is None else f"{told}, {calibrated.words}"


def _fits_words(found: Estimate) -> str:
    if found.fits is None:
        return ""
    held = size(found.hardware.memory_bytes)
    return f"; it fits {held}" if found.fits else f"; the device has {held}"


def _changes(found: Estimate) -> list[tuple[str, ...]]:
    rows = [("as asked", found), *what_if(found)]
    if len(rows) == 1:
        return []
    header = ("", "decode", "first token", "in all", "memory", "fits")
    table = [header, *((name, *_cells(one)) for name, one in rows)]
    told = [column for column in zip(*table, strict=True) if set(column[1:]) != {"?"}]
    return list(zip(*told, strict=True))


def _cells(one: Estimate) -> tuple[str, ...]:
    fits = {True: "yes", False: "no", None: "?"}[one.fits]
    return (
        rate(one.decode.value),
        duration(one.prefill.value),
        duration(one.total_ms.value),
        size(one.needed_bytes),
        fits,
    )


def _needed(found: Estimate) -> str:
    """What would tell the decode rate."""
    if found.model is None:
        return "give --gguf FILE or --weights-bytes N"
    if found.hardware.calibrated is None:
        return "give --device NAME or --bandwidth GB/s"
    if not found.ask.flash_attention and found.hardware.calibrated.model:
        return "it was measured with flash attention only"
    return "memory alone does not tell it; run `phasewise calibrate --model FILE` with a model of this size"


def cannot_tell(found: Estimate) -> list[str]:
    """What is missing, and the option that would say it."""
    ask, model, hardware = found.ask, found.model, found.hardware
    lines = []
    if found.decode.value is None:
        lines += [f"Decode: {_needed(found)}."]
    if ask.prompt and found.prefill.value is None:
        lines += ["Prefill: data sheets don't tell it; give a measured rate, --prefill-point TOKENS:TOK_S."]
    if model is not None and found.kv_bytes is None:
        lines += ["The KV cache, in the time and in the memory: give --kv-bytes-per-token N."]
    if model is not None and hardware.memory_bytes is None:
        lines += ["Whether it fits: give --vram SIZE."]
    if found.fits is False:
        lines += ["The time with part of the model elsewhere: what is shown holds if all of it fitted."]
    if model is not None and model.mixture:
        lines += ["A mixture of experts more closely: its kernels differ, so its range is wide."]
    return lines
