"""How fast a stream of tokens feels to a reader."""

from __future__ import annotations

READING_WORDS_PER_MINUTE = 238
"""Silent reading of English non-fiction (Brysbaert 2019, J. Mem. Lang. 109): 4 words or 5 tokens a second."""

OUTRUNS_READING_TOK_S = 10.0
"""English decode rate, twice that reading speed, from which more speed no longer helps a reader."""

_TOKENIZERS = ("o200k", "cl100k", "llama3", "llama2")

CHARS_PER_TOKEN = {
    language: dict(zip(_TOKENIZERS, values, strict=True))
    for language, values in {
        "English": (4.73, 4.73, 4.73, 4.19),
        "Russian": (3.40, 2.19, 2.98, 2.46),
        "Chinese (traditional)": (1.28, 0.90, 1.31, 0.73),
        "Chinese (simplified)": (1.30, 0.81, 1.22, 0.68),
        "Japanese": (1.23, 0.90, 1.43, 0.86),
        "Korean": (1.73, 0.97, 1.64, 0.60),
        "German": (4.31, 3.64, 3.64, 3.64),
        "Spanish": (4.56, 3.97, 3.97, 3.62),
        "Arabic": (2.64, 1.30, 2.42, 1.05),
        "Hindi": (3.46, 1.04, 2.01, 0.90),
        "Python code": (2.51, 2.51, 2.51, 2.14),
    }.items()
}
"""Characters per token by language and tokenizer family, measured on short texts: good to about 10 %."""


def chars_per_second(
    decode_tok_s: float, language: str = "English", tokenizer: str = "llama3"
) -> float | None:
    """Characters that appear per second; None for a language or tokenizer that was not measured.

    Args:
        decode_tok_s: Decode rate.
        language: A key of `CHARS_PER_TOKEN`.
        tokenizer: `o200k`, `cl100k`, `llama3` (vocabularies of 100k and more) or `llama2` (32k).
    """
    chars = CHARS_PER_TOKEN.get(language, {}).get(tokenizer)
    return None if chars is None else decode_tok_s * chars


def outruns_reading(decode_tok_s: float) -> bool:
    """Whether English text streams faster than people read.

    Then a faster decode only helps thinking tokens, agents, code and batch jobs.
    """
    return decode_tok_s >= OUTRUNS_READING_TOK_S
