"""What was read of big logs, kept in the user's cache folder: of a log that has grown only the rest is read.

What comes out is what reading it anew would give. `entries.py` keeps it, `same_file.py` looks at the log.
"""

from __future__ import annotations

from contextlib import ExitStack
from io import BytesIO
from itertools import chain, groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from advisor.cache import entries
from advisor.cache.entries import CacheError
from advisor.cache.keeping import Keeping
from advisor.cache.log import Log
from advisor.crews.here import Here
from advisor.errors import ChangedError, InputError
from advisor.interrupt import asked
from advisor.parts import Ending, Part, ended
from parsers.records import TABLES, schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import BinaryIO

    from advisor.crews import Crew
    from advisor.parts import Task
    from advisor.sources.files import Input


class Cached:
    """A crew that begins where the last one stopped.

    Args:
        chosen: says who reads sources of which nothing is known.
        took: told of bytes that need not be taken from the sources any more, as `Meter` counts them.
        tell: takes a sentence, at most one, on why nothing can be kept.
    """

    def __init__(
        self,
        chosen: Callable[[Sequence[Input]], Crew],
        took: Callable[[int], None],
        tell: Callable[[str], None],
    ) -> None:
        self._chosen = chosen
        self._took = took
        self._tell: Callable[[str], None] | None = tell

    def parts(self, tasks: Sequence[Task]) -> Iterator[tuple[int, Part]]:
        """Read all of them."""
        try:
            root = entries.folder()
        except CacheError as error:
            self._say(error)
            yield from self._chosen([task.source for task in tasks]).parts(tasks)
            return
        logs = [Log(root, task) for task in tasks]
        coming = self._coming([log for log in logs if not log.is_whole])
        for at, log in enumerate(logs):
            own = iter(()) if log.is_whole else next(coming)
            for part in self._both(log, own):
                yield at, part

    def _coming(self, logs: Sequence[Log]) -> Iterator[Iterator[Part]]:
        """What there is to read of each of these; the first part of it has been read."""
        if logs:
            crew = self._chosen([log.rest.source for log in logs if log.entry is None])
            for _, group in groupby(crew.parts([log.rest for log in logs]), itemgetter(0)):
                yield (part for _, part in group)

    def _both(self, log: Log, own: Iterator[Part]) -> Iterator[Part]:
        """What is kept of a log, then what came after it."""
        if log.is_whole:
            own = self._after_whole(log)
        if log.entry is not None:
            first = next(own)
            if first.ending is None or log.is_whole:
                own = chain([first], own)
            elif isinstance(first.ending.problem, ChangedError):
                log.forget()
                own = self._here(log.anew)
            else:
                yield Part(ending=Ending(problem=first.ending.problem))
                return
        with ExitStack() as files:
            known = log.opened(files)
            if known is None:
                log.forget()
                own = self._here(log.anew)
            keeping = Keeping(log)
            files.callback(keeping.close)
            self._took(log.file_bytes)
            for table, file in known or ():
                part = _part(log, table, file)
                self._trying(keeping, keeping.again, part)
                yield part
            if log.is_whole and log.place is not None:
                entries.touch(log.place)
            for part in own:
                self._trying(keeping, keeping.take, part)
                yield part

    def _after_whole(self, log: Log) -> Iterator[Part]:
        """What comes after a log of which all was kept: its end, or what came since that was seen."""
        log.is_whole = log.is_untouched() and not asked()
        return iter([ended(log.rest)]) if log.is_whole else self._here(log.rest)

    def _here(self, task: Task) -> Iterator[Part]:
        return (part for _, part in Here(took=self._took).parts([task]))

    def _trying(self, keeping: Keeping, keep: Callable[[Part], None], part: Part) -> None:
        try:
            keep(part)
        except CacheError as error:
            keeping.close()
            self._say(error)

    def _say(self, error: CacheError) -> None:
        if self._tell is not None:
            self._tell(f"--cache: nothing is kept ({error}).")
        self._tell = None


def _part(log: Log, table: str, file: BinaryIO) -> Part:
    import polars as pl

    file.seek(0)
    frame = pl.read_ipc(BytesIO(file.read()))
    if frame.schema != schema(TABLES[table]):
        raise InputError(f"{log.place}: these rows are not phasewise's; remove that folder.")
    return Part(frames=[(table, frame)], read=log.rest.begin)
