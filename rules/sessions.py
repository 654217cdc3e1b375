"""Who talks over which slot: requests in the order a slot served them, each beside the one before it.

A log names no conversations. What stands in for one is a slot of one process and model: its requests, in the
order the slot took them. A prompt that repeats the one before it and adds to it is longer, so a slot whose
prompts keep growing carries a conversation, and one whose prompts go up and down serves strangers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from rules.savings import Array

RUN = ("source", "run", "model")
SLOT = (*RUN, "slot")
REQUEST = ("source", "run", "request_id")

STEPS = 5
"""Fewer pairs show no pattern: of six prompts in random order, one in 720 grows every time."""

GROWING_SHARE = 0.8
"""A new conversation on the same slot starts short again, so not every step must grow."""

PROMPT = pl.coalesce("prompt_tokens", pl.col("prefill_tokens") + pl.col("cached_tokens"), "prefill_tokens")
"""All tokens of a prompt; where only the evaluated ones are known, at least these."""

EVALUATED = pl.coalesce("prefill_tokens", pl.col("prompt_tokens") - pl.col("cached_tokens"), "prompt_tokens")
"""Evaluated tokens of a prompt; where the cached ones are unknown, at most all of it."""


def turns(requests: pl.DataFrame, *, serial: bool = False) -> pl.DataFrame:
    """The requests, in their own order, each beside the one before it on the same slot.

    Added columns: ``row`` (its place here) and ``talk`` (a number for each slot); in tokens ``prompt`` (see
    `PROMPT`), ``previous`` (the prompt before), ``held`` (what the slot held after it: that prompt and its
    answer) and ``reusable`` (the most this prompt can share with that); ``grows`` says that this prompt is
    longer, by less than was there. What is about the request before is null for a slot's first.

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
    return (
        requests.with_row_index("row")
        .with_columns(prompt=PROMPT)
        .sort("source", "run", "first_line", "line", maintain_order=True)
        .with_columns(
            talk=pl.col("row").first().over(speakers),
            previous=pl.col("prompt").shift(1).over(speakers),
            held=held.shift(1).over(speakers),
        )
        .with_columns(
            reusable=pl.when(pl.col("held").is_not_null()).then(pl.min_horizontal("held", "prompt")),
            grows=pl.col("prompt").is_between(pl.col("previous"), 2 * pl.col("held"), closed="right"),
        )
        .sort("row")
    )


def growing(turned: pl.DataFrame) -> pl.DataFrame:
    """The turns that grow, of slots that carry conversations: enough pairs, and most of them upwards."""
    pairs = turned.filter(pl.col("grows").is_not_null())
    steady = (pl.len().over("talk") >= STEPS) & (pl.col("grows").mean().over("talk") >= GROWING_SHARE)
    return pairs.filter(steady).filter("grows")


def reprocessed(events: pl.DataFrame) -> pl.DataFrame:
    """Requests that the engine read from the start because the model's memory can't go back."""
    return events.filter(pl.col("kind") == "full_reprocess").select(REQUEST).unique()


def in_place(turned: pl.DataFrame, part: pl.DataFrame, value: pl.Expr) -> Array:
    """An array over all turns that holds ``value`` where ``part`` has a turn, and 0 elsewhere."""
    array = np.zeros(turned.height)
    array[part["row"].to_numpy()] = part.select(value.cast(pl.Float64).fill_null(0)).to_series().to_numpy()
    return array
