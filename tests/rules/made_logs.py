"""Logs made for comparisons: requests whose times scatter and drift as those of a real machine do."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rules.testing import measures

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rules.measures import Measures

    Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Engine:
    """A machine under a workload.

    Attributes:
        kind: ``chat`` (caches, all sizes), ``rag`` (long prompts alike), ``api`` (no cache told) or
            ``queued`` (waits and loads too).
        ms_per_1000: prefill of 1,000 tokens.
        ms_per_token: decode of a token at an empty context.
        noise: standard deviation of log times.
        drift: correlation of that noise from one request to the next.
        prompt_tokens: median.
        cached: share of a prompt in the cache; None draws it.
    """

    kind: str = "chat"
    ms_per_1000: float = 660.0
    ms_per_token: float = 12.0
    noise: float = 0.05
    drift: float = 0.3
    prompt_tokens: int = 2_000
    output_tokens: int = 200
    cached: float | None = None

    def slower(self, *, prefill: float = 1.0, decode: float = 1.0) -> Engine:
        return replace(self, ms_per_1000=self.ms_per_1000 * prefill, ms_per_token=self.ms_per_token * decode)

    def log(self, requests: int, seed: int, setup: dict[str, Any] | None = None) -> Measures:
        return measures(self.rows(requests, seed), setup=setup)

    def rows(self, requests: int, seed: int) -> list[dict[str, Any]]:
        rng = np.random.default_rng(seed)
        noise = [np.exp(drifting(rng, requests, self.drift, self.noise)) for _ in range(2)]
        rows, now_ms = [], 0.0
        for prefill_noise, decode_noise in zip(*noise, strict=True):
            row = self._row(rng, float(prefill_noise), float(decode_noise))
            row["clock_start_ms"] = now_ms
            now_ms += row["total_ms"] - row.get("queue_ms", 0.0)
            row["clock_end_ms"] = now_ms
            now_ms += float(rng.exponential(2_000))
            rows.append(row)
        return rows

    def _row(self, rng: np.random.Generator, prefill_noise: float, decode_noise: float) -> dict[str, Any]:
        prompt = self._tokens(rng, self.prompt_tokens, 0.03 if self.kind == "rag" else 0.7)
        output = self._tokens(rng, self.output_tokens, 0.6)
        share = rng.choice([0.0, 0.5, 0.9]) if self.cached is None else self.cached
        cached = None if self.kind == "api" else 24 if self.kind == "rag" else int(share * prompt)
        evaluated = prompt - (cached or 0)
        pairs = evaluated * ((cached or 0) + evaluated / 2)
        prefill_ms = (20 + self.ms_per_1000 * evaluated / 1_000 + 2e-5 * pairs) * prefill_noise
        if rng.random() < 0.03:
            prefill_ms *= 3
        depth = prompt + output / 2
        decode_ms = (output - 1) * self.ms_per_token * (1 + depth / 40_000) * decode_noise
        waits = {"queue_ms": 0.0, "load_ms": 0.0}
        if self.kind == "queued":
            waits["queue_ms"] = float(rng.exponential(800)) if rng.random() < 0.3 else 0.0
            waits["load_ms"] = 6_000.0 if rng.random() < 0.05 else 0.0
        ttft_ms = prefill_ms + sum(waits.values())
        return {
            "prompt_tokens": prompt,
            "cached_tokens": cached,
            "prefill_tokens": evaluated,
            "prefill_ms": prefill_ms,
            "output_tokens": output,
            "decode_steps": output - 1,
            "decode_ms": decode_ms,
            "slot": 0,
            "model": "m.gguf",
            "ttft_from": "arrival" if self.kind == "queued" else "slot",
            "ttft_ms": ttft_ms,
            "total_ms": ttft_ms + decode_ms,
            **(waits if self.kind == "queued" else {}),
        }

    @staticmethod
    def _tokens(rng: np.random.Generator, median: int, spread: float) -> int:
        return int(median * np.exp(spread * rng.normal())) + 5


def drifting(rng: np.random.Generator, n: int, correlation: float, scale: float) -> Array:
    """Noise of this standard deviation whose neighbours correlate (a first-order autoregression)."""
    steps = rng.normal(size=n + 100) * np.sqrt(1 - correlation**2)
    noise = np.zeros(n + 100)
    for i in range(1, n + 100):
        noise[i] = correlation * noise[i - 1] + steps[i]
    return scale * noise[100:]
