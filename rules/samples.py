"""What the requests alone tell, whoever asks: phase times, samples of rates, and their place on the clock.

A rate comes from valid samples only: a prefill of at least 256 evaluated tokens and 50 ms, a decode of at
least 32 tokens and 300 ms. Sums and shares of time use every request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from rules import attribution
from rules.frames import passing
from rules.loads import loads
from rules.physics.prefill import fit_prefill
from rules.placed import clocked, most_at_once
from rules.savings import Ledger
from rules.sessions import EVALUATED
from rules.shared import from_requests

if TYPE_CHECKING:
    from rules.physics.prefill import PrefillFit

VALID_PREFILL_TOKENS, VALID_PREFILL_MS = 256, 50.0
VALID_DECODE_TOKENS, VALID_DECODE_MS = 32, 300.0
IS_VALID_PREFILL = (pl.col("prefill_tokens") >= VALID_PREFILL_TOKENS) & (
    pl.col("prefill_ms") >= VALID_PREFILL_MS
)
IS_VALID_DECODE = (pl.col("output_tokens") >= VALID_DECODE_TOKENS) & (pl.col("decode_ms") >= VALID_DECODE_MS)
"""Of a generation: whether its rate means something."""


class Samples:
    """Requests, and what they tell.

    Args:
        requests: the rows, internal columns included.
        whole: those that these may be all of; then nothing is told twice.
    """

    def __init__(self, requests: pl.DataFrame, whole: Samples | None = None) -> None:
        self.requests = requests
        all_there = whole is not None and requests is whole.requests
        self.of_requests: dict[str, Any] = whole.of_requests if whole and all_there else {}

    @from_requests
    def generations(self) -> pl.DataFrame:
        """Requests that generate text: embeddings, reranks and benchmarks stay out of attribution."""
        return passing(self.requests, pl.col("kind") == "generation")

    @from_requests
    def attribution(self) -> attribution.Attribution:
        """Phase times and shares over all generations."""
        return attribution.attribute(self.generations)

    @property
    def wall_ms(self) -> float:
        """Summed total time of the generations."""
        return self.attribution.wall_ms

    @from_requests
    def valid_prefill(self) -> pl.DataFrame:
        """Generations whose prefill rate means something."""
        return passing(self.generations, IS_VALID_PREFILL)

    @from_requests
    def valid_decode(self) -> pl.DataFrame:
        """Generations whose decode rate means something."""
        return passing(self.generations, IS_VALID_DECODE)

    @from_requests
    def prefill_samples(self) -> int:
        """How many prefill rates mean something."""
        return int(self.generations.select(IS_VALID_PREFILL.sum()).item())

    @from_requests
    def decode_samples(self) -> int:
        """How many decode rates mean something."""
        return int(self.generations.select(IS_VALID_DECODE.sum()).item())

    @from_requests
    def prefill_tok_s(self) -> float | None:
        """Median prefill rate over valid samples."""
        return median(self._of(IS_VALID_PREFILL, 1000 * pl.col("prefill_tokens") / pl.col("prefill_ms")))

    @from_requests
    def decode_tok_s(self) -> float | None:
        """Median decode rate over valid samples."""
        return median(self._of(IS_VALID_DECODE, 1000 * pl.col("decode_steps") / pl.col("decode_ms")))

    @from_requests
    def ms_per_token(self) -> float | None:
        """Median time per generated token over valid samples, ms."""
        return median(self.ms_each_token)

    @property
    def ms_each_token(self) -> pl.DataFrame:
        """Time per generated token of each valid sample, ms."""
        return self._of(IS_VALID_DECODE, pl.col("decode_ms") / pl.col("decode_steps"))

    def _of(self, passes: pl.Expr, value: pl.Expr) -> pl.DataFrame:
        """A value of the generations that pass; no other column is copied."""
        return self.generations.lazy().filter(passes).select(value).collect()

    @from_requests
    def prefill_fit(self) -> PrefillFit | None:
        """This log's own prefill cost: ms against evaluated and cached tokens."""
        valid = self.valid_prefill
        if not valid.height:
            return None
        return fit_prefill(
            valid["prefill_tokens"].to_numpy().astype(np.float64),
            valid["cached_tokens"].fill_null(0).to_numpy().astype(np.float64),
            valid["prefill_ms"].to_numpy(),
        )

    @from_requests
    def cached_share(self) -> float | None:
        """Share of prompt tokens that came from the cache, over requests where both are known."""
        known = self.generations.select("cached_tokens", "prompt_tokens").drop_nulls()
        total = int(known["prompt_tokens"].sum())
        return int(known["cached_tokens"].sum()) / total if total else None

    @from_requests
    def loads(self) -> pl.DataFrame:
        """The requests, each beside the last use of its model: see `rules.loads`."""
        return loads(self.requests)

    @from_requests
    def clocked(self) -> pl.DataFrame:
        """The generations with their place on the clock: see `rules.placed`."""
        return clocked(self.requests, self.generations)

    @from_requests
    def most_at_once(self) -> int | None:
        """Most generations that ran at once: see `rules.placed`."""
        return most_at_once(self.clocked)

    @from_requests
    def ledger(self) -> Ledger:
        """The generations as they were, for counterfactuals."""
        rows = self.generations.with_columns(prefill_tokens=EVALUATED)
        return Ledger.of(rows, self.prefill_fit.model if self.prefill_fit else None)


def median(frame: pl.DataFrame) -> float | None:
    """Median of a one-column frame; ``None`` of nothing."""
    value = frame.to_series().median()
    return float(value) if isinstance(value, int | float) else None
