"""Long prompts: what they seem to be made of, and what they would be with fewer chunks retrieved."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from rules.savings import prompts_cut
from rules.sessions import EVALUATED
from rules.words import count

if TYPE_CHECKING:
    from rules.savings import Array, Change

LONG_TOKENS = 1_000

CHUNKS, KEPT_CHUNKS = 20, 5

FIXED_SHARE = 1 / 9
"""System prompt and question, where no cached prefix measures them: 12,000 tokens then become 4,000."""

FLAT = 0.12
"""Standard deviation over mean below which prompts count as equally long: 20 chunks with lengths that vary by
half give 0.11, lengths spread evenly over a range whose end is 1.8 times its start 0.165."""


def long_prompts(turns: pl.DataFrame) -> pl.DataFrame:
    """The turns (see `rules.sessions.turns`) whose prompts are worth cutting."""
    return turns.filter(pl.col("prompt") >= LONG_TOKENS)


def cached_share(turns: pl.DataFrame) -> float | None:
    """Median share of the prompt that came from the cache; ``None`` where no request tells."""
    shares = turns.filter(pl.col("prompt") > 0).select(pl.col("cached_tokens") / pl.col("prompt"))
    value = shares.to_series().median()
    return float(value) if isinstance(value, int | float) else None


def spread(turns: pl.DataFrame) -> float | None:
    """Standard deviation of the prompts' lengths over their mean; ``None`` of fewer than two."""
    mean, deviation = turns["prompt"].mean(), turns["prompt"].std()
    return deviation / mean if isinstance(mean, float) and isinstance(deviation, float) and mean else None


def equally_long(turns: pl.DataFrame) -> bool:
    """Whether these prompts have about one length, as a fixed number of retrieved chunks gives."""
    found = spread(turns)
    return found is not None and found < FLAT


def lengths(turns: pl.DataFrame) -> str:
    """The shortest and the longest of these prompts, in tokens."""
    shortest, longest = (turns["prompt"].cast(pl.Float64).quantile(q) for q in (0.0, 1.0))
    return count(shortest) if shortest == longest else f"{count(shortest)} to {count(longest)}"


def with_fewer_chunks(rows: pl.DataFrame) -> Array:
    """Prompt tokens of each of these turns if it held `KEPT_CHUNKS` chunks where it holds `CHUNKS`.

    The chunks are all of the prompt but its fixed part: the common cached prefix (the median of the cached
    tokens that are known) or `FIXED_SHARE` of the prompt, whichever is larger.
    """
    prompt: Array = rows["prompt"].cast(pl.Float64).to_numpy()
    common = rows["cached_tokens"].median()
    fixed = np.maximum(prompt * FIXED_SHARE, common if isinstance(common, int | float) else 0.0)
    kept: Array = fixed + np.maximum(prompt - fixed, 0.0) * KEPT_CHUNKS / CHUNKS
    return kept


def fewer_chunks(turns: pl.DataFrame, rows: pl.DataFrame) -> Change:
    """These turns hold `KEPT_CHUNKS` chunks, not `CHUNKS`; other turns, and what was cached, stay."""
    evaluated = turns.select(EVALUATED.cast(pl.Float64).fill_null(0)).to_series().to_numpy().copy()
    cached = rows["cached_tokens"].cast(pl.Float64).fill_null(0).to_numpy()
    evaluated[rows["row"].to_numpy()] = np.maximum(with_fewer_chunks(rows) - cached, 1.0)
    return prompts_cut(evaluated)
