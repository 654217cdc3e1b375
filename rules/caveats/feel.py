"""Tokens per second feel different in different languages.

What it looks at:
    The decode rate, where generating is a large part of the time and the language decides whether it is
    fast enough: from 5 to 20 tokens a second.

Why it matters:
    A token is a word in English and a syllable or less in Korean or Hindi. People read English at about 24
    characters a second; text that streams faster is waited for no more, unless nobody reads it: thinking,
    agents, code.

When not to worry:
    When a program reads the answer; then seconds are what counts.

What to change:
    Nothing: it helps to decide whether a faster decode is worth anything.

Sources:
    Brysbaert 2019, J. Mem. Lang. 109 (238 words a minute); characters per token as in
    `rules/physics/reading.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.measures import FEW
from rules.physics.reading import chars_per_second
from rules.rule import Caveat, Phase
from rules.words import count, rate

if TYPE_CHECKING:
    from rules.measures import Measures

ID = "feel"

SHARE = 0.4

SLOWEST_TOK_S, FASTEST_TOK_S = 5.0, 20.0
"""Below, text is slower than reading in every language; above, faster in every language."""

READING_CHARS_S = 24


def check(m: Measures) -> Caveat | None:
    """Say what the decode rate is in characters."""
    tok_s = m.decode_tok_s
    if tok_s is None or not SLOWEST_TOK_S <= tok_s < FASTEST_TOK_S:
        return None
    if m.decode_samples < FEW or m.share(Phase.DECODE) < SHARE:
        return None
    english, korean = (chars_per_second(tok_s, language) for language in ("English", "Korean"))
    return Caveat(
        ID,
        f"{rate(tok_s)} is about {count(english)} characters a second in English and {count(korean)} in "
        f"Korean (tokens as Llama 3 cuts them); people read about {READING_CHARS_S} in English.",
    )
