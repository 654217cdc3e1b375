"""Prompt lengths as ``--lengths`` gives them."""

from __future__ import annotations

from advisor.errors import InputError

MOST_LENGTHS, MOST_TOKENS = 8, 1_000_000


def lengths_of(text: str) -> tuple[int, ...]:
    """``256,1024`` as numbers, each once, in their order.

    Raises:
        InputError: they are none, too many, or too large.
    """
    words = [word.strip() for word in text.split(",")]
    lengths = [int(word) for word in words if word.isascii() and word.isdigit() and len(word) < 8]
    once = tuple(dict.fromkeys(lengths))
    if (
        len(lengths) < len(words)
        or len(once) > MOST_LENGTHS
        or not 1 <= min(once) <= max(once) <= MOST_TOKENS
    ):
        raise InputError(
            f"--lengths: give at most {MOST_LENGTHS} prompt lengths in tokens, each to {MOST_TOKENS:,}, "
            "such as 256,1024."
        )
    return once
