"""Who talks over which slot: requests in the order a slot served them, each beside the one before it.

A log names no conversations. What stands in for one is a slot of one process and model: its requests, in the
order the slot took them. A prompt that repeats the one before it and adds to it is longer, so a slot whose
prompts keep growing carries a conversation, and one whose prompts go up and down serves strangers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from rules.frames import beside, without

if TYPE_CHECKING:
    from rules.savings import Array

RUN = ("run", "model")
SLOT = (*RUN, "slot")
REQUEST = ("source", "run", "request_id")
_PLACES = ("source", *SLOT, "first_line", "line")
_BESIDE = ("prompt", "talk", "partner", "previous", "held", "answer", "reusable", "grows", "carries")

STEPS = 5
"""Fewer pairs show no pattern: of six prompts in random order, one in 720 grows every time."""

BRIEF_STEPS = 4
"""What may be a short conversation, if the prompts also have room for the answers before them. Of four
independent questions in a row, one in 24 grows every time, and a real log has them."""

GROWING_SHARE = 0.8
"""A new conversation on the same slot starts short again, so not every step must grow."""

CARRIED_SHARE = 0.8
"""Of the last answer, at least this much of a step: templates and stop tokens leave a little of it out."""

FOLLOWED = 0.9
"""Spread of the steps without the answers, over that of the steps themselves: 0.2 to 0.9 in conversations,
above 1 where answers have nothing to do with the steps."""

REUSABLE = 0.95
"""Of what the slot holds: templates and stripped reasoning change the tail of the last turn a little."""

TOP_TOKENS = 100
"""Prompts that part this early differ in the first lines of their instructions."""

PROMPT = pl.coalesce("prompt_tokens", pl.col("prefill_tokens") + pl.col("cached_tokens"), "prefill_tokens")
"""All tokens of a prompt; where only the evaluated ones are known, at least these."""

EVALUATED = pl.coalesce("prefill_tokens", pl.col("prompt_tokens") - pl.col("cached_tokens"), "prompt_tokens")
"""Evaluated tokens of a prompt; where the cached ones are unknown, at most all of it."""


def turns(requests: pl.DataFrame, *, serial: bool = False) -> pl.DataFrame:
    """The requests, in their own order, each beside the one before it on the same slot.

    Added columns: ``row`` (its place here), ``talk`` (a number for each slot of a process) and ``partner``
    (one for that slot in all processes and sources, so that a log cut in two tells the same); in tokens
    ``prompt`` (see `PROMPT`), ``previous`` (the prompt before), ``answer`` (to that one), ``held`` (what the
    slot held after both) and ``reusable`` (the most this prompt can share with that); ``grows`` says that
    this prompt is longer, by less than was there, and ``carries`` that the last answer has room in it. What
    is about the request before is null for a slot's first.

    Args:
        requests: the rows.
        serial: no two ran at once. Then a conversation that finds no slot with its prefix wanders over the
            slots, and the order of the run is tried too: the one in which more prompts grow is returned.
    """
    by_slot = _beside(requests, SLOT)
    if not serial:
        return by_slot
    return max(by_slot, _beside(requests, RUN), key=lambda turned: growing(turned).height)


def _beside(requests: pl.DataFrame, speakers: tuple[str, ...]) -> pl.DataFrame:
    held = pl.coalesce("context_tokens", pl.col("prompt") + pl.col("output_tokens").fill_null(0))
    answer = pl.coalesce(pl.col("context_tokens") - pl.col("prompt"), "output_tokens")
    rows = requests.with_row_index("row")
    told = (
        rows.select("row", *_PLACES, "context_tokens", "output_tokens", prompt=PROMPT)
        .with_columns(part=pl.col("row").min().over("source"))
        .sort("run", "part", "first_line", "line", maintain_order=True)
        .with_columns(
            talk=pl.col("row").first().over(speakers),
            partner=pl.col("row").first().over([s for s in speakers if s != "run"]),
            previous=pl.col("prompt").shift(1).over(speakers),
            held=held.shift(1).over(speakers),
            answer=answer.shift(1).over(speakers),
        )
        .with_columns(
            reusable=pl.when(pl.col("held").is_not_null()).then(pl.min_horizontal("held", "prompt")),
            grows=pl.col("prompt").is_between(pl.col("previous"), 2 * pl.col("held"), closed="right"),
            carries=pl.col("prompt") - pl.col("previous") >= CARRIED_SHARE * pl.col("answer"),
        )
        .sort("row")
    )
    return beside(rows, told.select(_BESIDE))


def growing(turned: pl.DataFrame, steps: int = STEPS, but: pl.Series | None = None) -> pl.DataFrame:
    """The turns that grow, of slots that carry conversations: enough pairs, and most of them upwards.

    Args:
        turned: see `turns`.
        steps: pairs that are enough.
        but: the ``row`` of turns that don't count.
    """
    pairs = turned.select("row", "talk", "partner", "grows").with_row_index("at").drop_nulls("grows")
    if but is not None:
        pairs = without(pairs, but)
    steady = pairs.filter(_steady("talk", steps) | _steady("partner", steps))
    return turned[steady.filter("grows")["at"]]


def _steady(group: str, steps: int) -> pl.Expr:
    return (pl.len().over(group) >= steps) & (pl.col("grows").mean().over(group) >= GROWING_SHARE)


def may_grow(turned: pl.DataFrame) -> bool:
    """Whether these may be conversations, too short to tell: of all pairs, most go upwards."""
    pairs = turned["grows"].drop_nulls()
    return len(pairs) > 1 and float(pairs.sum()) >= GROWING_SHARE * len(pairs)


def carry(turned: pl.DataFrame) -> bool:
    """Whether most of these turns have room for the answer before them, as turns of a conversation do.

    Prompts that are only sorted by length don't; nor do conversations whose thoughts are left out.
    """
    return turned.height > 0 and float(turned["carries"].sum()) >= GROWING_SHARE * turned.height


def answers_fit(turned: pl.DataFrame) -> bool | None:
    """Whether longer answers come with longer steps, as they do where the next prompt repeats them.

    ``None`` where all answers are equally long, so that nothing can be seen.
    """
    step = pl.col("prompt") - pl.col("previous")
    spread = turned.drop_nulls(["previous", "answer"]).select(
        steps=step.std(), rest=(step - pl.col("answer")).std(), answers=pl.col("answer").std()
    )
    steps, rest, answers = spread.row(0)
    return None if not answers else bool(rest < FOLLOWED * steps)


def placed(events: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """The events with the ``row`` they happened to: by request id, else the next of ``rows`` to end."""
    named = events.filter(pl.col("request_id").is_not_null())
    meant = rows.select(*REQUEST, "row").join(named, on=REQUEST, how="semi", maintain_order="left")
    by_id = named.join(meant.unique(REQUEST, keep="first"), on=REQUEST, how="left")
    unnamed = events.filter(pl.col("request_id").is_null())
    if not unnamed.height:
        return by_id
    by_line = unnamed.sort("line").join_asof(
        rows.select("source", "run", "line", "row").sort("line"),
        on="line",
        by=["source", "run"],
        strategy="forward",
        check_sortedness=False,
    )
    return pl.concat([by_id, by_line])


def reprocessed(turned: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Turns (``row``) that the engine read from the start because the model's memory can't go back."""
    said = events.filter(pl.col("kind") == "full_reprocess")
    return placed(said, turned).select("row").drop_nulls().unique()


def in_place(turned: pl.DataFrame, part: pl.DataFrame, value: pl.Expr) -> Array:
    """An array over all turns that holds ``value`` where ``part`` has a turn, and 0 elsewhere."""
    array = np.zeros(turned.height)
    array[part["row"].to_numpy()] = part.select(value.cast(pl.Float64).fill_null(0)).to_series().to_numpy()
    return array
