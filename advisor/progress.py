"""How much was read so far, and a bar on the terminal once that takes its time."""

from __future__ import annotations

import os
import stat
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.sources import stores

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from advisor.sources.files import Input

_SILENT_S, _PERIOD_S = 1.0, 0.1
MB = 1_000_000


class Meter:
    """Counts the bytes that are taken from the sources, packed as they lie there.

    Attributes:
        total: how many there are; ``None`` where that can't be known.
        taken: how many were taken.
    """

    def __init__(self) -> None:
        self.total: int | None = None
        self.taken = 0

    def begin(self, sources: Sequence[Input]) -> None:
        """These are going to be read."""
        sizes = [size_of(source) for source in sources]
        known = [size for size in sizes if size is not None]
        self.total = sum(known) if len(known) == len(sizes) else None

    def took(self, size: int) -> None:
        """So many more bytes were taken."""
        self.taken += size

    def end(self) -> None:
        """Nothing more comes."""

    @property
    def said(self) -> str:
        """How much was read, for a sentence."""
        if self.total is None:
            return megabytes(self.taken)
        return f"{megabytes(self.taken)} of {megabytes(self.total)}"


def megabytes(size: int) -> str:
    """Bytes as one says them."""
    if size < MB:
        return f"{size / 1000:.0f} kB"
    return f"{size / MB:.1f} MB" if size < 10 * MB else f"{size / MB:.0f} MB"


def size_of(source: Input) -> int | None:
    """The size of a file or an object; ``None`` for what is neither."""
    if stores.is_store(source.name):
        return stores.size_of(source.name)
    try:
        found = Path(source.name).stat()
    except (OSError, ValueError):
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


class Bar(Meter):
    """Draws itself on standard error, and leaves nothing there."""

    def __init__(self) -> None:
        super().__init__()
        self._begun_s = self._drawn_s = time.monotonic()
        self._bar: Any = None

    def took(self, size: int) -> None:
        """So many more bytes were taken; ``0`` when only time passed."""
        super().took(size)
        now_s = time.monotonic()
        if now_s - self._begun_s < _SILENT_S or now_s - self._drawn_s < _PERIOD_S:
            return
        self._drawn_s = now_s
        if self._bar is None:
            self._bar = _bar(self.total)
            self._bar.start()
        self._bar.update(self._bar.task_ids[0], completed=self.taken, refresh=True)

    def end(self) -> None:
        """Wipe it away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


@contextmanager
def metered() -> Iterator[Meter]:
    """A bar where somebody looks at it, else a meter that only counts."""
    shown = sys.stderr.isatty() and os.environ.get("TERM", "").lower() not in {"dumb", "unknown"}
    meter = Bar() if shown else Meter()
    try:
        yield meter
    finally:
        meter.end()


def _bar(total: int | None) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.progress import TransferSpeedColumn as Rate

    known = [] if total is None else [BarColumn(), TextColumn("{task.percentage:>3.0f} %")]
    left = [] if total is None else [TimeRemainingColumn(compact=True), TextColumn("left")]
    columns = (TextColumn("reading"), *known, DownloadColumn(), Rate(), *left)
    bar = Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False)
    bar.add_task("", total=total)
    return bar
