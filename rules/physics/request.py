"""How the phases of one request add up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Phase = Literal["queue", "load", "prefill", "decode"]


@dataclass(frozen=True, slots=True)
class RequestTime:
    """One request split into its phases, each in ms."""

    queue_ms: float
    load_ms: float
    prefill_ms: float
    decode_ms: float

    @property
    def total_ms(self) -> float:
        """Arrival to last token."""
        return self.ttft_ms + self.decode_ms

    @property
    def ttft_ms(self) -> float:
        """Arrival to first token: queue, load and prefill."""
        return self.queue_ms + self.load_ms + self.prefill_ms

    def share(self, phase: Phase) -> float | None:
        """Part of the total, 0-1, that `phase` takes; None when the total is 0."""
        phase_ms = {
            "queue": self.queue_ms,
            "load": self.load_ms,
            "prefill": self.prefill_ms,
            "decode": self.decode_ms,
        }
        return phase_ms[phase] / self.total_ms if self.total_ms else None


def request_time(
    prompt_tokens: float,
    prefill_tok_s: float,
    output_tokens: float,
    decode_tok_s: float,
    queue_ms: float = 0.0,
    load_ms: float = 0.0,
) -> RequestTime:
    """Time of a request whose two rates are known.

    total = queue + load + prompt / prefill rate + output / decode rate. Decode counts every output token, as
    a rate quoted in tok/s does.

    Args:
        prompt_tokens: Tokens to evaluate; leave cached ones out.
        prefill_tok_s: Prefill rate in tokens per second.
        output_tokens: Tokens to generate.
        decode_tok_s: Decode rate in tokens per second.
        queue_ms: Wait for a slot.
        load_ms: Model load.

    Raises:
        ValueError: A rate that is not positive, or a negative count or time.
    """
    if prefill_tok_s <= 0 or decode_tok_s <= 0:
        raise ValueError("rates must be positive")
    if min(prompt_tokens, output_tokens, queue_ms, load_ms) < 0:
        raise ValueError("token counts and times must not be negative")
    return RequestTime(
        queue_ms=queue_ms,
        load_ms=load_ms,
        prefill_ms=1000 * prompt_tokens / prefill_tok_s,
        decode_ms=1000 * output_tokens / decode_tok_s,
    )
