"""Answers stand still while other requests' prompts are read.

What it looks at:
    What a running answer gets while another's prompt is read, beside what it gets otherwise. From requests on
    a clock: time per token of those beside which prompts were read for a fifth of their decode or more,
    against those with next to none. From vLLM's windows: windows in which all answers together got less than
    a third of what one gets alone, and prompts were in the works. From its step lines: steps with prompt
    tokens against steps without. From SGLang's lines: decode batches with prefills in between, against those
    without.

Why it matters:
    A step that reads 8,192 prompt tokens takes as long as those tokens, and a running answer gets one token
    from it. A stream that flows at 27 tok/s then drops to one token in three seconds, for as long as the
    prompt lasts.

When not to worry:
    Batch jobs, where only the sum counts: the prompts have to be read anyway. Short prompts, whose stall
    nobody sees. Where requests are only slower because they share the machine, the rule doesn't fire: the
    stall must explain at least half of the loss.

What to change:
    Smaller steps of prompt tokens: more tokens come through, and the prompt takes a little longer. It makes
    the stall bearable, not short. Short it gets by reading less (a cached prefix, shorter prompts), by
    sending long prompts when nobody streams, or by prefill on another machine. The saving is what answers
    lost to prompts; from interval lines, what one answer lost. Smaller steps win only part of it.

Sources:
    Sarathi-Serve, arXiv:2403.02310; vLLM docs/configuration/optimization.md (chunked prefill);
    blazux/qwen3.8-Flash-DGX#9 (0.2 tok/s for 110 s); local-inference-lab/vllm#541.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from rules.clocks import unplaced
from rules.measures import GATE_SHARE, GATE_SINGLE_MS
from rules.physics.batching import decode_tok_s_during_prefill
from rules.rule import CannotTell, Confidence, NotApplicable, Phase, Rule, Saving, Threshold
from rules.samples import IS_VALID_DECODE, median
from rules.savings import decode_scaled, significant
from rules.stalls import largest, of_intervals
from rules.words import duration, rate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rules.measures import Measures
    from rules.remedies import Fix
    from rules.rule import Answer, Evidence
    from rules.savings import Array
    from rules.stalls import Stall

RULE = Rule(
    id="prefill-stalls-decode",
    phase=Phase.DECODE,
    title="Answers stand still while other prompts are read",
    remedies=("smaller-chunk", "stable-prefix"),
    verify="Start a long prompt while an answer streams: tokens should keep coming.",
    sources=(
        "arXiv:2403.02310",
        "vLLM docs/configuration/optimization.md",
        "blazux/qwen3.8-Flash-DGX#9",
        "local-inference-lab/vllm#541",
    ),
    thresholds={
        "times_slower": Threshold(3.0, "time per token beside prompts over that without; first guess"),
        "samples": Threshold(3, "requests, windows or batches of each kind; first guess"),
    },
)

STALLED, CLEAR = 0.2, 0.05
"""Of a request's decode, while other prompts were read: from here on it counts as stalled, up to here not."""

EXPLAINED = 0.5

DEFAULT_STEP = {"llama-server": 2_048, "ollama": 512, "tabbyapi": 2_048, "mlx-lm": 2_048}
"""Prompt tokens in a step where the log doesn't say: the engines' own defaults."""

USUAL_STEP, SMALLEST_STEP, SMALLER = 2_048, 256, 4

_PLURALS = {"window": "windows", "iteration": "steps", "decode_batch": "batches"}

_NEEDED = ("source", "line", "output_tokens", "decode_ms", "decode_steps", "stalled_ms")
_NOT_MEMORY = "More memory for the KV cache: nothing was pushed out of it."
_NOT_SLOTS = "More requests at once: they would stand still together."


def check(m: Measures) -> Answer:
    """Ask what running answers get while prompts are read."""
    if m.generations["decode_ms"].count():
        return _requests(m)
    return _intervals(m)


# --- requests


def _requests(m: Measures) -> Answer:
    t = m.thresholds(RULE)
    if not m.overlap.known:
        return CannotTell(unplaced(m))
    if m.decoding.speculative:
        return CannotTell("with speculation, a token has no time of its own to compare")
    valid = m.overlap.requests.select(_NEEDED).filter(IS_VALID_DECODE)
    beside = pl.col("stalled_ms") / pl.col("decode_ms")
    stalled, clear = valid.filter(beside >= STALLED), valid.filter(beside <= CLEAR)
    if stalled.height < t["samples"]:
        return NotApplicable("hardly any answer was generated while other prompts were read")
    if clear.height < t["samples"]:
        return CannotTell("no answers without other prompts beside them to compare with")
    slow_ms, clear_ms = _ms_per_token(stalled), _ms_per_token(clear)
    if slow_ms < t["times_slower"] * clear_ms:
        return NotApplicable(f"a token takes {slow_ms:,.1f} ms beside prompts and {clear_ms:,.1f} ms without")
    lost_ms = (stalled["decode_ms"] - stalled["decode_steps"] * clear_ms).clip(lower_bound=0)
    stalled = stalled.with_columns(lost_ms=pl.min_horizontal(lost_ms, "stalled_ms"))
    if float(stalled["lost_ms"].sum()) < EXPLAINED * float(lost_ms.sum()):
        return NotApplicable("sharing the machine explains more of it than prompts do")
    change = decode_scaled(_without(m, stalled))
    saving = m.saving(change, bound="at_most")
    if not m.worth(saving.ms, stalled.height):
        return NotApplicable("too little time to matter")
    longest = stalled.sort("stalled_ms", descending=True)
    return RULE.finding(
        confidence=Confidence.LIKELY,
        why=f"A token takes {slow_ms:,.0f} ms where other prompts are read meanwhile and {clear_ms:,.0f} ms "
        f"where none is. {stalled.height:,} answers stood beside prompts for "
        f"{duration(float(stalled['stalled_ms'].sum()))}, one of them for "
        f"{duration(float(longest['stalled_ms'][0]))}.",
        evidence=(
            m.evidence("time per token beside prompts, median", round(slow_ms, 2), "ms", rows=stalled),
            m.evidence("time per token without, median", round(clear_ms, 2), "ms", rows=clear),
            m.evidence("longest stall of one answer", float(longest["stalled_ms"][0]), "ms", rows=longest),
        ),
        requests=stalled.height,
        saving=saving,
        change=change,
        fixes=_fixes(m, None),
        wont_help=(_NOT_SLOTS,),
    )


def _ms_per_token(rows: pl.DataFrame) -> float:
    return median(rows.select(pl.col("decode_ms") / pl.col("decode_steps"))) or 0.0


def _without(m: Measures, stalled: pl.DataFrame) -> Array:
    """Of each generation's decode, the part that is left without what it lost."""
    lost = m.generations.select("source", "line").join(
        stalled.select("source", "line", left=1 - pl.col("lost_ms") / pl.col("decode_ms")),
        on=["source", "line"],
        how="left",
        maintain_order="left",
    )
    left: Array = lost["left"].fill_null(1.0).to_numpy()
    return left


# --- windows, steps, batches


def _intervals(m: Measures) -> Answer:
    t = m.thresholds(RULE)
    stall = of_intervals(m, t["times_slower"])
    if isinstance(stall, str):
        return CannotTell(stall)
    if stall.rows.height < t["samples"]:
        return NotApplicable("answers keep coming while prompts are read")
    if stall.lost_ms is not None and stall.lost_ms < max(GATE_SINGLE_MS, GATE_SHARE * stall.busy_ms):
        return NotApplicable("too little time to matter")
    what = _PLURALS[str(stall.rows["kind"][0])]
    lasted = "" if stall.lost_ms is None else f", {duration(float(stall.rows['span_ms'].sum()))} in all"
    return RULE.finding(
        confidence=Confidence.LIKELY,
        why=f"In {stall.rows.height:,} {what}{lasted}, prompts were read and running answers got "
        f"{rate(stall.slow)}; without prompts one answer gets {rate(stall.clear)}.{_smaller(m, stall)}",
        evidence=tuple(_evidence(m, stall, what)),
        requests=largest(stall.rows["running"]) or 0,
        saving=_saving(stall),
        fixes=_fixes(m, stall.step_tokens),
        wont_help=() if _waits_elsewhere(m, stall) else (_NOT_MEMORY, _NOT_SLOTS),
    )


def _waits_elsewhere(m: Measures, stall: Stall) -> bool:
    """Whether requests also wait while answers come, for which slots or memory may be the reason."""
    waiting = m.intervals.filter(pl.col("waiting") > 0)
    return waiting.join(stall.rows, on=["source", "line"], how="anti").height > 0


def _saving(stall: Stall) -> Saving | None:
    """What one answer lost, of the time that the engine worked: no line says how many were running."""
    if stall.lost_ms is None or not stall.busy_ms:
        return None
    return Saving(significant(stall.lost_ms, 3), round(stall.lost_ms / stall.busy_ms, 4), "at_most")


def _smaller(m: Measures, stall: Stall) -> str:
    """What the smaller step would let through."""
    now, tokens = _step_tokens(m, stall.step_tokens), _smaller_step(m, stall.step_tokens)
    if not stall.prefill_tok_s or tokens >= now:
        return ""
    through = decode_tok_s_during_prefill(tokens, stall.prefill_tok_s)
    return (
        f" Steps of {tokens:,} prompt tokens would let about {rate(min(through, stall.clear))} through; "
        "only less to read ends the stall sooner."
    )


def _evidence(m: Measures, stall: Stall, what: str) -> Iterator[Evidence]:
    yield m.evidence(f"{what} in which answers stood still", stall.rows.height, what, rows=stall.rows)
    yield m.evidence("answers while prompts are read, median", round(stall.slow, 2), "tok/s", rows=stall.rows)
    yield m.evidence("one answer without, median", round(stall.clear, 2), "tok/s")
    if stall.lost_ms is not None:
        yield m.evidence("lost by each running answer", round(stall.lost_ms, 1), "ms")
    if m.setup.chunk_tokens is not None:
        yield m.stated("chunk_tokens", "prompt tokens in a step, at most", unit="tokens")
    elif stall.step_tokens:
        yield m.evidence("largest step of prompt tokens", stall.step_tokens, "tokens")


# --- what to change


def _fixes(m: Measures, seen: int | None) -> tuple[Fix, ...]:
    tokens = _smaller_step(m, seen)
    smaller = (m.fix("smaller-chunk", tokens=tokens),) if tokens < _step_tokens(m, seen) else ()
    return (*smaller, m.fix("stable-prefix"))


def _step_tokens(m: Measures, seen: int | None) -> int:
    s = m.setup
    stated = s.batch if m.engine in ("llama-server", "ollama") else s.chunk_tokens
    return stated or seen or DEFAULT_STEP.get(m.engine or "", 4 * USUAL_STEP)


def _smaller_step(m: Measures, seen: int | None) -> int:
    """A quarter of the step now: a power of two that other settings still allow."""
    quarter = max(_step_tokens(m, seen) // SMALLER, SMALLEST_STEP)
    return min(1 << (quarter.bit_length() - 1), USUAL_STEP)
