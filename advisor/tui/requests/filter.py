"""The filter of the requests: words to look for, and comparisons such as ``ttft>2s``."""

from __future__ import annotations

import operator
import re
from typing import TYPE_CHECKING

import polars as pl

from advisor.check.units import duration, rate, share

if TYPE_CHECKING:
    from collections.abc import Callable

    Compare = Callable[[pl.Expr, float], pl.Expr]

_TERM = re.compile(
    r"(?P<name>[A-Za-z#][\w/#-]*)\s*(?P<how><=|>=|!=|==|=|<|>)"
    r"\s*(?P<value>\"[^\"]*\"|[\d.,]+\s+(?:[uµμm]?s|sec|m|min|h|%|t(?:ok(?:ens)?)?/s)|[^\s<>=!]*)(?=\s|$)"
    r"|(?P<and>&+)(?=\s|$)|\"(?P<quoted>[^\"]*)\"|(?P<word>\S+)",
    re.IGNORECASE,
)
_COMPARE: dict[str, Compare] = {
    "<=": operator.le,
    ">=": operator.ge,
    "!=": operator.ne,
    "==": operator.eq,
    "=": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
}
_TIMES = ("ttft", "total", "queue", "load", "prefill", "decode", "other")
_COUNTS = {
    "prompt": "prompt_tokens",
    "cached": "cached_tokens",
    "evaluated": "prefill_tokens",
    "output": "output_tokens",
    "context": "context_tokens",
    "slot": "slot",
    "line": "line",
}
_RATES = {"tok/s": "decode_tok_s", "prefill-tok/s": "prefill_tok_s"}
_TEXTS = {
    "id": "request_id",
    "model": "model",
    "engine": "engine",
    "source": "source",
    "kind": "kind",
    "finish": "finish_reason",
}
_SEARCHED = ("request_id", "model", "engine", "source", "kind")
_EXACT = {"request_id"}

EXAMPLE = "ttft>2s prompt>4000 cached<50% model=qwen"
_KNOWN = ", ".join((*_TIMES, *_COUNTS, *_RATES, *_TEXTS))


class FilterError(ValueError):
    """It is no filter; says in a sentence why."""


def parse(text: str) -> pl.Expr | None:
    """Which requests pass: those that all of its terms are true of; ``None`` where it has none.

    What is unknown of a request passes no comparison.

    Raises:
        FilterError: a term is none.
    """
    terms = [_term(found) for found in _TERM.finditer(text) if not found["and"]]
    return pl.all_horizontal(terms).fill_null(value=False) if terms else None


def is_begun(text: str) -> bool:
    """Whether its last word may still become a comparison, or one lacks its value."""
    last = text.split(" ")[-1].lower()
    names = (*_TIMES, *_COUNTS, *_RATES, *_TEXTS)
    return bool(last) and (any(name.startswith(last) for name in names) or last[-1] in "<>=!")


def _term(found: re.Match[str]) -> pl.Expr:
    if found["name"] is None:
        word = found["word"] if found["quoted"] is None else found["quoted"]
        if re.search(r"[<>=]", word) and found["quoted"] is None:
            raise FilterError(f"{word} is no comparison. Write for example {EXAMPLE}.")
        return pl.any_horizontal(_holds(column, word).fill_null(value=False) for column in _SEARCHED)
    name, how, value = found["name"].lower(), found["how"], found["value"].strip('"')
    if name in _TEXTS:
        return _text(name, how, value)
    if not value:
        raise FilterError(f"{name}{how} lacks a value. Write for example {EXAMPLE}.")
    column, number = _number(name, value)
    return _COMPARE[how](column, number)


def _text(name: str, how: str, value: str) -> pl.Expr:
    column = _TEXTS[name]
    if how not in {"=", "==", "!="}:
        raise FilterError(f"{name} is a text: it takes = and !=, not {how}.")
    is_it = pl.col(column) == value if column in _EXACT or how == "==" else _holds(column, value)
    return ~is_it if how == "!=" else is_it


def _holds(column: str, word: str) -> pl.Expr:
    return pl.col(column).str.contains(f"(?i){_escaped(word)}")


def _escaped(word: str) -> str:
    """For the patterns of polars, which know no escapes of letters."""
    return "".join(sign if sign.isalnum() or sign.isspace() else f"\\x{{{ord(sign):x}}}" for sign in word)


def _number(name: str, value: str) -> tuple[pl.Expr, float]:
    """The column, or what is made of it, and the number that it is compared with."""
    value = value.lower()
    try:
        if name in _TIMES:
            return pl.col(f"{name}_ms"), duration(value)[0]
        if name in _RATES:
            return pl.col(_RATES[name]), rate(value)[0]
        if name == "cached" and ("%" in value or "." in value):
            return pl.col("cached_tokens") / pl.col("prompt_tokens"), share(value)[0]
    except ValueError as error:
        raise FilterError(f"{name}: {error}.") from None
    if name not in _COUNTS:
        raise FilterError(f"There is no {name} to filter by; there are {_KNOWN}.")
    whole = value.replace(",", "").replace("_", "")
    if not re.fullmatch(r"-?\d{1,15}", whole):
        raise FilterError(f"{name} is a whole number, and {value} is none.")
    return pl.col(_COUNTS[name]), float(whole)
