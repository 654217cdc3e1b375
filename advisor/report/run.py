"""The page of ``phasewise run``: rates at each length, and what each remedy did."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from advisor.report.blocks import hanging, indented, put, standard_console, table, title
from advisor.runner.settings import ALL_LAYERS, BATCH, UBATCH
from rules.samples import VALID_DECODE_MS, VALID_DECODE_TOKENS, VALID_PREFILL_TOKENS
from rules.words import count, duration, percent, plural, rate

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console, RenderableType

    from advisor.runner.result import Outcome, PhaseMs, Run, Spread, Summary, Try

Row = tuple[str, ...]

_UNKNOWN = "?"
_WIDE, _APART = 0.05, 0.25
"""Of a rate: turns that differ by more are told, and by both ends."""

_SHORT = (
    f"?: a rate needs {VALID_PREFILL_TOKENS} tokens to read, {VALID_DECODE_TOKENS} to generate and "
    f"{duration(VALID_DECODE_MS)}, over all turns together; --lengths, --output and --rounds make more."
)


def show(run: Run, console: Console | None = None) -> None:
    """Print the page to standard output."""
    put(console or standard_console(), page(run))


def page(run: Run) -> list[RenderableType]:
    """The page's blocks."""
    blocks: list[RenderableType] = [Text(heading(run), style="dim"), Text()]
    for tried in run.tries:
        blocks += [title("Tried"), indented(Text(name(tried)))]
        blocks += [indented(hanging("", tried.sentence, style="bold"))]
        if rows := trial_rows(tried):
            blocks += [indented(table(rows))]
        blocks += [indented(hanging("- ", words)) for words in details(tried)]
        blocks += [Text()]
    if run.summary:
        blocks += [title("What was measured")]
        blocks += [indented(hanging("", run.sentence, style="bold"))] if run.sentence else []
        for number, (side, lines) in enumerate(by_side(run.summary)):
            blocks += [Text()] if number else []
            blocks += [indented(Text(side))] if run.tries else []
            blocks += [indented(table(summary_rows(lines)))]
        blocks += [Text()]
    if words := to_know(run):
        blocks += [title("What to know")]
        blocks += [indented(hanging("- ", word)) for word in words]
        blocks += [Text()]
    return blocks[:-1]


def name(tried: Try) -> str:
    """What was tried: the finding's fix and the knobs that stand for it."""
    return " = ".join(filter(None, (tried.title, tried.remedy)))


def to_know(run: Run) -> list[str]:
    """What disturbed the turns, how far the run came, and what to know of engine and requests."""
    cut = [] if run.is_complete else ["The run ended early: what is here is of the turns before that."]
    is_short = any(line.prefill_tok_s is None or line.decode_tok_s is None for line in run.summary)
    short = [_SHORT] if is_short else []
    return [*cut, *run.disturbances, *run.notes, *short]


def heading(run: Run) -> str:
    """Model, engine and device in a line."""
    engine = f"{run.engine} {run.engine_version}" if run.engine_version else run.engine
    used = [p for p in run.processors if p.is_gpu] or run.processors
    devices = ", ".join(dict.fromkeys(p.description for p in used))
    settings = ", ".join(f"{name}={value}" for name, value in told_settings(run.settings).items())
    return "; ".join(
        filter(None, (f"{run.model} with {engine}", devices, settings, f"workload {run.workload}"))
    )


def told_settings(settings: dict[str, object]) -> dict[str, object]:
    """Those that were set to something unusual, as ``--set`` takes them."""
    usual = {"gpu_layers": ALL_LAYERS, "mlock": False, "batch": BATCH, "ubatch": UBATCH}
    told = {name: value for name, value in settings.items() if value is not None and value != usual.get(name)}
    if "flash_attention" in told:
        told["flash"] = "on" if told.pop("flash_attention") else "off"
    if told.get("kv_type_k") == told.get("kv_type_v") and "kv_type_k" in told:
        told["kv"] = told.pop("kv_type_k")
        del told["kv_type_v"]
    names = {"kv_type_k": "kv-k", "kv_type_v": "kv-v", "draft_model": "draft"}
    return {names.get(name, name.replace("_", "-")): value for name, value in told.items()}


def by_side(lines: Iterable[Summary]) -> list[tuple[str, list[Summary]]]:
    """The summary of each side in its order."""
    sides: dict[str, list[Summary]] = {}
    for line in lines:
        sides.setdefault(line.side, []).append(line)
    return list(sides.items())


def summary_rows(lines: Sequence[Summary]) -> list[Row]:
    """A side's requests as a table, the header first; rates in tok/s."""
    header = ("request", "prompt", "cached", "prefill tok/s", "TTFT", "decode tok/s", "gap p90")
    return [
        header,
        *(
            (
                line.label,
                count(line.prompt_tokens),
                count(line.cached_tokens),
                spread(line.prefill_tok_s),
                duration(None if line.ttft_ms is None else line.ttft_ms.p50),
                spread(line.decode_tok_s),
                duration(line.inter_token_p90_ms),
            )
            for line in lines
        ),
    ]


def spread(value: Spread | None) -> str:
    """A rate, and half of what lies between its turns where that is much."""
    if value is None:
        return _UNKNOWN
    least, middle, most = (rate(one).removesuffix(" tok/s") for one in (value.min, value.p50, value.max))
    reach = (value.max - value.min) / 2 / value.p50
    if reach > _APART:
        return f"{middle} ({least} to {most})"
    return middle if reach < _WIDE else f"{middle} ±{percent(reach)}"


def trial_rows(tried: Try) -> list[Row]:
    """What was predicted and measured of each phase, the header first; empty for what was not tried."""
    if tried.measured is None:
        return []
    phases = (("prefill", "prefill_ms"), ("decode", "decode_ms"))
    outcomes: dict[str, Outcome] = {outcome.phase: outcome for outcome in tried.outcomes}
    rows = [
        (
            name,
            duration(_of(tried.before, key)),
            duration(_of(tried.predicted, key)),
            duration(_of(tried.measured, key)),
            _interval(getattr(tried.measured.interval_95, key)),
            _word(outcomes.get(name)),
        )
        for name, key in phases
    ]
    return [("a request's", "before", "predicted", "measured", "95 % within", ""), *rows]


def _word(outcome: Outcome | None) -> str:
    """A verdict; what turns can't tell is none."""
    return _UNKNOWN if outcome is None else outcome.verdict if outcome.is_clear else "can't tell"


def _of(times: PhaseMs | None, key: str) -> float | None:
    return None if times is None else getattr(times, key)


def _interval(ends: tuple[float, float] | None) -> str:
    return _UNKNOWN if ends is None else f"{duration(ends[0])} to {duration(ends[1])}"


def details(tried: Try) -> list[str]:
    """Each phase in words, what the prediction rests on, and how many turns were compared."""
    lines = [outcome.sentence for outcome in tried.outcomes if outcome.phase != "total"]
    lines += tried.basis
    if tried.pairs:
        against = f" against {tried.baseline}" if tried.baseline else ""
        lines += [f"{plural(tried.pairs, 'pair')} of turns{against}, each in a fresh process."]
    return lines
