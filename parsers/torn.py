"""A source's last line where no newline ends it: it may still be written, and its last value with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import re
    from collections.abc import Callable

_CLOSING = (b")", b"]", b"}", b">", b'"', b"'", b"%", b"%.", b"|")
_MORE = (b"0", b"a")


def may_go_on(match: Callable[[bytes], re.Match[bytes] | None], body: bytes) -> bool:
    """Whether more bytes would go on with what a pattern reads at the end of a line.

    Args:
        match: the pattern's, which matches the line.
        body: the line, unwrapped.
    """
    if body.endswith(_CLOSING):
        return False
    longer = (match(body + more) for more in _MORE)
    return any(m is not None and max(end for _, end in m.regs) > len(body) for m in longer)
