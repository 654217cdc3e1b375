"""The raw lines of a request: those that were read, and of them only what was.

Lines that no pattern read are never shown, since they may hold a prompt; they are counted.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from advisor.errors import InputError
from advisor.live.raw_words import said
from advisor.live.tails import TailedLog
from advisor.sources.files import STDIN, Input, blocks
from parsers import Stream, UnknownEngineError
from parsers.limits import SlowPatternError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from advisor.live.session import Session
    from advisor.redact import Plain
    from parsers.formats import Format
    from parsers.stream import Taken

MOST_BYTES = 4 << 20
"""Of a request's span that is looked at."""

MOST_LINES = 400
"""Of a request that are shown."""

_AFTER = 16
"""Lines behind a request's last timing line among which its end may be told."""

_NAMES = ("task", "id", "rid")
"""Groups that say which request a line is about."""

GONE = "These lines are no longer at hand: of a log that is followed, only the last 16 MiB are kept."
_UNREADABLE = "These lines can't be read again: {reason}"
_NOT_APART = "No line of this log can be told to be this request's."


@dataclass(frozen=True, slots=True)
class RawLine:
    """A line that was read.

    Attributes:
        number: 1-based, in its source.
        text: as it may be shown.
        marks: where the values stand in it that were read.
    """

    number: int
    text: str
    marks: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Raw:
    """The lines of a request.

    Attributes:
        lines: those that were read and are its own.
        unread: between them, lines that no pattern read.
        others: between them, lines that were read and are not its own.
        reached: they were looked through up to this line.
        problem: a sentence, where they can't be shown.
    """

    lines: tuple[RawLine, ...] = ()
    unread: int = 0
    others: int = 0
    reached: int = 0
    problem: str = ""


def raw_lines(session: Session, row: Mapping[str, Any], is_over: Callable[[], bool] = lambda: False) -> Raw:
    """The lines that a request was read from, where they are still at hand.

    Args:
        session: which read it.
        row: the request, its source as it may be shown.
        is_over: asked now and then whether nobody waits for them any more.
    """
    words = session.options.words
    tail = session.tail_of(row["run"])
    if not isinstance(tail, TailedLog):
        return Raw(problem=GONE)
    try:
        data = tail.kept.get(row["offset"], MOST_BYTES)
        if data is None and tail.name != STDIN and tail.path is not None and tail.path.is_file():
            data = _again(tail, tail.path, row["offset"], is_over)
    except InputError as error:
        return Raw(problem=_UNREADABLE.format(reason=words.text(str(error))))
    if data is None:
        return Raw(problem=GONE)
    return raw_of(row, data, session.formats, words, (row["engine"], tail.engine, None))


def _again(tail: TailedLog, path: Path, offset: int, is_over: Callable[[], bool]) -> bytes | None:
    """At most `MOST_BYTES` of what was read, from an offset on; ``None`` where its file has it no more.

    Raises:
        InputError: a file that is complete can't be read again.
    """
    with suppress(OSError), path.open("rb") as file:
        at, told = tail.kept.first()
        file.seek(at)
        if told and file.read(len(told)) == told:
            file.seek(offset)
            return file.read(MOST_BYTES) or None
    return None if tail.grows else _unpacked(blocks(Input(str(path))), offset, is_over)


def _unpacked(source: Iterator[bytes], offset: int, is_over: Callable[[], bool]) -> bytes | None:
    """The bytes of a compressed file from an offset on; ``None`` where it is shorter now."""
    at, kept = 0, bytearray()
    for block in source:
        if at + len(block) > offset:
            kept += block[max(offset - at, 0) :]
        at += len(block)
        if len(kept) >= MOST_BYTES or is_over():
            break
    return bytes(kept[:MOST_BYTES]) or None


def raw_of(
    row: Mapping[str, Any],
    data: bytes,
    formats: Sequence[Format],
    words: Plain,
    engines: Iterable[str | None] = (None,),
) -> Raw:
    """The lines of a request.

    Args:
        row: the request.
        data: the source's bytes from its first line on.
        formats: what its log was read as.
        words: says texts as they may be shown.
        engines: whose log it may be, until one knows its lines; ``None`` for whoever shows.
    """
    if len(data) >= MOST_BYTES:
        data = data[: data.rfind(b"\n", 0, MOST_BYTES) + 1]
    found = Raw(problem=_NOT_APART)
    for engine in dict.fromkeys(engines):
        span = _Span(row, words)
        try:
            stream = Stream(row["source"], engine=engine, formats=formats, watch=span.see)
            stream.feed(_marked(data))
            stream.close()
        except UnknownEngineError:
            continue
        except SlowPatternError as error:
            return Raw(problem=_UNREADABLE.format(reason=words.text(str(error))))
        if (found := span.told()).lines:
            break
    return found


def _marked(data: bytes) -> bytes:
    """With the byte order mark that text in UTF-16 has at its start, which is far above."""
    if data[1:2] == b"\0":
        return b"\xff\xfe" + data
    return b"\xfe\xff" + data if data[:1] == b"\0" else data


@dataclass
class _Span:
    """Takes the lines from a request's first on, and keeps its own."""

    row: Mapping[str, Any]
    words: Plain
    seen: list[tuple[int, bool | None, list[RawLine]]] = field(default_factory=list)
    at: int = 0
    is_mine: bool = False

    def see(self, number: int, line: bytes, taken: list[Taken] | None) -> None:
        """Take the next line, as it was read."""
        self.at = number + self.row["first_line"] - 1
        if self.at > self.row["line"] + _AFTER:
            return
        if not taken:
            self.seen.append((self.at, None, []))
            return
        self.is_mine = any(self._owns(one) for one in taken)
        shown = [self._shown(one) for one in taken] if self.is_mine else []
        self.seen.append((self.at, self.is_mine, shown))

    def _owns(self, taken: Taken) -> bool:
        """Whether a line is about the request: it names it, or stands among the lines of its own."""
        groups = taken.match.groupdict()
        named = next((groups[name] for name in _NAMES if groups.get(name)), None)
        request_id = self.row["request_id"]
        if named is not None and request_id is not None:
            name = named.decode("utf-8", "replace")
            slot = groups.get("slot")
            same_slot = slot is None or self.row["slot"] is None or slot == b"%d" % self.row["slot"]
            return same_slot and request_id in (name, self.words.text(name))
        if self.at == self.row["line"]:
            return True
        if self.at > self.row["line"]:
            return False
        return request_id is None or (self.is_mine and self._follows())

    def _follows(self) -> bool:
        """Whether the line above was read too."""
        return bool(self.seen) and self.seen[-1][1] is not None

    def _shown(self, taken: Taken) -> RawLine:
        text, marks = said(taken.match)
        shown = self.words.text(text)
        return RawLine(self.at, shown, marks if shown == text else tuple(_found(shown, text, marks)))

    def told(self) -> Raw:
        """What was found."""
        mine = [number for number, is_mine, _ in self.seen if is_mine]
        if not mine:
            return Raw(problem=_NOT_APART)
        between = [one for one in self.seen if one[0] <= mine[-1]]
        lines = [line for _, _, lines in between for line in lines]
        return Raw(
            lines=tuple(lines[:MOST_LINES]),
            unread=sum(is_mine is None for _, is_mine, _ in between),
            others=sum(is_mine is False for _, is_mine, _ in between),
            reached=min(self.at, self.row["line"]),
        )


def _found(shown: str, text: str, marks: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Where the values stand after something else was masked; those that were masked themselves do not."""
    after = 0
    for start, end in marks:
        at = shown.find(text[start:end], after)
        if at >= 0:
            after = at + end - start
            yield at, after
