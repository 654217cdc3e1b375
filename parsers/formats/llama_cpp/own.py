"""Tells the header's own lines from quotes of them."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, TypeVar

from parsers.formats.base import Reader

if TYPE_CHECKING:
    import re
    from collections.abc import Callable

    from parsers.formats.base import At

FAMILY = frozenset(
    {
        *("llama-server", "llama-cli", "llama-cpp-python", "llama-bench", "llama-batched-bench"),
        *("ik-llama", "llama-sweep-bench", "llamafile", "koboldcpp", "cortex", "ollama", "lmstudio"),
        *("text-generation-webui", "llama-swap", "lemonade"),
    }
)
"""The engines that are llama.cpp, or run it and log what it says."""

_Lines = TypeVar("_Lines", bound=Reader)


def own(
    method: Callable[[_Lines, re.Match[bytes], At], None],
) -> Callable[[_Lines, re.Match[bytes], At], None]:
    """Drops a line without a clock where the process's lines have one: a prompt or an answer quotes it.

    Not for lines that may be the first of the next process, which may have no clock.
    """

    @wraps(method)
    def checked(self: _Lines, m: re.Match[bytes], at: At) -> None:
        if m["clock"] is not None:
            self.process.see_clock()
        if (m["clock"] is not None or not self.process.clocked) and self.process.ends_other(FAMILY, at):
            method(self, m, at)
            self.process.belong(FAMILY)

    return checked
