"""Speculative decoding: what a draft must get right to pay for itself.

Symbols: acceptance a (0-1, of each drafted token), draft length g, draft cost c (time to draft one token over
a target step), verify cost v (time to check g + 1 tokens in one batch over a target step; 1 in theory).
"""

from __future__ import annotations

_BISECTIONS = 60


def expected_tokens(acceptance: float, draft_length: int) -> float:
    """Tokens that one verification yields: (1 - a^(g+1)) / (1 - a), Leviathan et al. (arXiv:2211.17192).

    Raises:
        ValueError: When acceptance is not within 0-1 or nothing is drafted.
    """
    if not 0 <= acceptance <= 1:
        raise ValueError("acceptance must be between 0 and 1")
    if draft_length < 1:
        raise ValueError("draft_length must be at least 1")
    return float(sum(acceptance**kept for kept in range(draft_length + 1)))


def speedup(acceptance: float, draft_length: int, draft_cost: float, verify_cost: float = 1.0) -> float:
    """Decode rate with the draft over the rate without: E / (g*c + v).

    Leviathan et al. (arXiv:2211.17192) and Chen et al. (arXiv:2302.01318) take v = 1. Real engines verify N
    tokens in more than one step's time and less than N (llama.cpp#3649): take v from a measurement.

    Raises:
        ValueError: When acceptance is not within 0-1, nothing is drafted or a cost is impossible.
    """
    if draft_cost < 0 or verify_cost <= 0:
        raise ValueError("draft_cost must not be negative and verify_cost must be positive")
    return expected_tokens(acceptance, draft_length) / (draft_length * draft_cost + verify_cost)


def break_even_acceptance(draft_length: int, draft_cost: float, verify_cost: float = 1.0) -> float | None:
    """Acceptance below which the draft costs more than it gives; None when it can never pay.

    Raises:
        ValueError: As `speedup`.
    """
    if speedup(1.0, draft_length, draft_cost, verify_cost) < 1:
        return None
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if speedup(middle, draft_length, draft_cost, verify_cost) < 1:
            low = middle
        else:
            high = middle
    return high


def tokens_per_verification(accepted_tokens: float, verifications: float) -> float | None:
    """Mean accepted length: 1 + accepted / verifications; None without any verification."""
    return 1 + accepted_tokens / verifications if verifications > 0 else None


def verifications(output_tokens: float, accepted_tokens: float) -> float:
    """Target steps behind an answer: each step gives one token of its own, the rest were accepted."""
    return output_tokens - accepted_tokens


def measured_speedup(
    tokens_per_step: float, draft_ms_per_step: float, target_ms: float, verify_cost: float = 1.0
) -> float:
    """Speedup that a log shows: mean accepted length over (v + draft time / target time).

    Args:
        tokens_per_step: From `tokens_per_verification`.
        draft_ms_per_step: Time to draft for one verification.
        target_ms: Time of one target step without a draft.
        verify_cost: Time of a verification over `target_ms`.

    Raises:
        ValueError: When the target time or the verify cost is not positive.
    """
    if target_ms <= 0 or verify_cost <= 0:
        raise ValueError("target_ms and verify_cost must be positive")
    return tokens_per_step / (verify_cost + draft_ms_per_step / target_ms)
