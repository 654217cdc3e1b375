"""Words of a command line that are in the wrong place or misspelt, and where they belong."""

from __future__ import annotations

import re
import shlex
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

WRITES = ("-o", "--output")
NO_OUTPUT = "no such option: -o; `phasewise report LOG -o page.md` writes the page to a file."
_LIKE_A_VERB = re.compile("[A-Za-z]{1,20}")
_NEAR = 0.7


def refuse_misplaced(arguments: Sequence[str], verbs: Collection[str]) -> None:
    """Refuse a command line without a verb in front whose first word, or a later one, was meant as one.

    Args:
        arguments: all words, at least one.
        verbs: what phasewise can do.

    Raises:
        InputError: with the command that was meant.
    """
    first, *rest = arguments
    for word in _positional(arguments):
        if word in verbs and not _exists(word):
            others = list(arguments)
            others.remove(word)
            raise InputError(f"{word}: the verb goes first: {_command(word, others)}.")
    if not _LIKE_A_VERB.fullmatch(first) or _exists(first):
        return
    neither = f"{first}: no such file or folder, and no verb of phasewise"
    if near := get_close_matches(first.lower(), sorted(verbs), 1, _NEAR):
        raise InputError(f"{neither}; the nearest is {_command(near[0], rest)}.")
    if not rest:
        raise InputError(f"{neither} either.")


def _positional(arguments: Sequence[str]) -> Iterator[str]:
    """The words that are no option and no option's value."""
    before = ""
    for word in arguments:
        if word == "--":
            return
        if not word.startswith("-") and not before.startswith("--"):
            yield word
        before = word


def _exists(name: str) -> bool:
    try:
        return Path(name).exists()
    except OSError:
        return True  # what is wrong with it is said where it is read


def _command(verb: str, rest: Sequence[str]) -> str:
    return f"`{shlex.join(['phasewise', verb, *rest])}`"
