"""What of the inputs is not in the numbers, said with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.rule import Caveat
from rules.words import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from advisor.reading import Reading

_NAMED = 3


def caveats(reading: Reading) -> Iterator[Caveat]:
    """Reading was interrupted, and which inputs were read in part, not at all, or tell of no work."""
    if reading.interrupted is not None:
        said = f"Reading was interrupted after {reading.interrupted}; this is of what was read."
        yield Caveat("interrupted", said)
    if reading.cut:
        was = "was" if len(reading.cut) == 1 else "were"
        said = f"{of_files(reading.cut, reading.files, was)} read only until it broke: {some(reading.cut)}."
        yield Caveat("cut-inputs", said)
    if reading.unread:
        said = of_files(reading.unread, reading.files, "could")
        yield Caveat("unread-inputs", f"{said} not be read: {some(reading.unread)}.")
    if reading.no_log:
        said = of_files(reading.no_log, reading.files, "hold")
        yield Caveat("no-log", f"{said} no engine's log: {some(reading.no_log)}.")
    idle = [s.path for s in reading.sources if not s.requests + s.intervals + s.aggregates]
    if idle and len(idle) < len(reading.sources):
        said = of_files(idle, reading.files, "tell")
        yield Caveat("idle-inputs", f"{said} of no request: {some(idle)}.")


def of_files(names: Sequence[str], files: int, verb: str) -> str:
    """``2 of 6 files hold``, ``1 of 6 files holds``."""
    ending = "s" if len(names) == 1 and verb in ("hold", "tell") else ""
    return f"{len(names):,} of {plural(files, 'file')} {verb}{ending}"


def some(names: Sequence[str]) -> str:
    """The first few of them."""
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
