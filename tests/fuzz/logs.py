"""Targets that read logs: what is read depends on the lines alone, and only sound rows leave."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

from parsers import FORMATS, SourceReader, Stream
from parsers.blocks import Blocks, width
from parsers.carriers import SAME_CONTAINER, UNUSUAL, unwrap
from parsers.cut import json_object
from parsers.documents.reader import DocumentReader
from parsers.formats.prometheus import FORMATS as METRICS
from parsers.json_logs import message_of, quoted_of
from parsers.lines import has_parts, texts_of
from parsers.saved import resumed, saved
from parsers.unparsed import _FIELDS, Vocabulary, shape_of
from tests.fuzz import seeds
from tests.fuzz.checks import counts_are_sound, rows_are_sound, setups_are_sound, text_is_sound, told
from tests.fuzz.edits import as_json, edited_lines, edited_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from parsers.formats import Format
    from parsers.formats.process import Counts
    from parsers.records import Row

NOW = datetime(2026, 1, 1, tzinfo=UTC)
"""Clocks without a year are of the year before: a fault found once is found again."""
MARK = "zqxjvk"
_CUTS = 4
_VOCABULARY = Vocabulary(FORMATS)
_KNOWN = {part.lower() for word in _VOCABULARY.words for part in re.split(r"[\d_]", word)} | _FIELDS
_WORD = re.compile(r"(?<![^\W\d_])(?!N)[^\W\d_]{3,}")
"""A word; the unit of a number stands right behind the `N` that is left of it."""


def _other_words(shape: str) -> set[str]:
    return {word for word in _WORD.findall(shape) if word.lower() not in _KNOWN}


def pieces(cuts: bytes, data: bytes) -> list[bytes]:
    """The data cut where two bytes each say."""
    places = {int.from_bytes(cuts[at : at + 2], "little") % (len(data) + 1) for at in range(0, len(cuts), 2)}
    edges = sorted({0, len(data), *places})
    return [data[a:b] for a, b in pairwise(edges)]


def _stream(
    pieces: Sequence[bytes], engine: str | None = None, formats: Sequence[Format] = FORMATS
) -> tuple[Stream, list[Row]]:
    stream = Stream("log", engine=engine, latest=NOW, formats=formats)
    rows = [row for piece in pieces for row in stream.feed(piece)]
    rows += stream.close()
    rows_are_sound(rows, stream.lines)
    counts_are_sound(stream.counts)
    setups_are_sound(stream.setups)
    return stream, rows


def _is_the_same_in(cut: Sequence[bytes], data: bytes) -> None:
    whole, rows = _stream([data])
    torn, found = _stream(cut)
    assert told(found) == told(rows)
    assert torn.counts == whole.counts
    assert (torn.lines, torn.bytes, torn.engine) == (whole.lines, len(data), whole.engine)
    assert [s.model_dump() for s in torn.setups] == [s.model_dump() for s in whole.setups]


def core(data: bytes) -> None:
    """Any bytes, whole and cut anywhere."""
    cuts, log = data[: 2 * _CUTS], data[2 * _CUTS :]
    _is_the_same_in(pieces(cuts, log), log)


def logs(data: bytes) -> None:
    """Lines of samples, edited, whole and cut anywhere."""
    log = edited_lines(data[2 * _CUTS :], seeds.short_samples())
    _is_the_same_in(pieces(data[: 2 * _CUTS], log), log)


def going_on(data: bytes) -> None:
    """The reader of edited lines is put by at a place, and goes on there."""
    log = edited_lines(data[2:], seeds.short_samples())
    assert _read(pieces(data[:2], log), put_by=True) == _read([log])


def formats(data: bytes) -> None:
    """Edited lines of one engine's samples, read as that engine's."""
    known = seeds.sample_engines()
    engine, samples = known[int.from_bytes(data[:2], "little") % len(known)]
    _stream([edited_lines(data[2:], samples)], engine)


def json_lines(data: bytes) -> None:
    """Objects on lines of the samples, with other values in them, twice."""
    line = as_json(edited_value(data, seeds.json_lines())) + b"\n"
    _stream([line + line.replace(b'": ', b'":').replace(b', "', b',"')])


def metrics(data: bytes) -> None:
    """Edited answers of ``/metrics``, as a log of scrapes."""
    _stream([edited_lines(data, seeds.metrics())], formats=METRICS)


_PROMPTS = (
    "srv  update_slots: prompt: %s",
    "slot update_slots: id  0 | task 7 | prompt: %s",
    "INFO 11-29 10:00:05 [logger.py:37] Received request cmpl-1: prompt: %s, params: SamplingParams(n=1)",
    'srv  log_server_r: request:  {"prompt": %s}',
    "Input: %s",
)


def prompts(data: bytes) -> None:
    """A log in a prompt that is printed on a line adds nothing, and nothing of it is in a row."""
    dump = data[4:].decode("utf-8", "replace")
    line = _PROMPTS[data[0] % len(_PROMPTS) if data else 0] % json.dumps(MARK + dump + MARK)
    which = int.from_bytes(data[1:3], "little") % 2
    at = data[3] if len(data) > 3 else 0
    stream, found = _stream([_beside(which, at, line.encode())])
    assert (_without_offsets(found), stream.counts) == _unprompted(which, at)
    assert MARK not in "".join(map(str, (found, stream.setups)))


def _beside(which: int, at: int, line: bytes) -> bytes:
    """A log with one more line in it."""
    lines = seeds.prompted()[which].split(b"\n")
    lines.insert(at % len(lines), line)
    return b"\n".join(lines)


@cache
def _unprompted(which: int, at: int) -> tuple[list[object], Counts]:
    stream, rows = _stream([_beside(which, at, b"")])
    return _without_offsets(rows), stream.counts


def _without_offsets(rows: Sequence[Row]) -> list[object]:
    """Rows as values, without where in the bytes they begin."""
    for row in rows:
        if hasattr(row, "offset"):
            row.offset = 0
    return list(told(rows))


def carriers(data: bytes) -> None:
    """A line out of its wrapping is part of it, and the short way gives what the long one does."""
    needle, _, line = data.partition(b"\n") if data[:1] == b"?" else (b"", b"", data)
    line = line.replace(b"\n", b" ")
    texts = texts_of(line, needle[1:], plain=False)
    for text in texts:
        assert sum(map(len, (text.body, *text.more))) <= 3 * len(line) + 64
        assert text.label is None or len(text.label) <= 3 * len(line)
        assert text.time is None or text.time.tzinfo is UTC
    unusual = b"\x1b" in line or b"\r" in line or any(literal in line for literal in UNUSUAL)
    if not unusual and not has_parts(line):
        assert unwrap(line, plain=True) == unwrap(line)
    for reading in (message_of, quoted_of, json_object):
        reading(line)
    if line:
        found = SAME_CONTAINER.match(line)
        assert found is not None
        assert found.end() == len(line)


def shapes(data: bytes) -> None:
    """The shape of a line holds no word but those that formats know."""
    shape = shape_of(data.replace(b"\n", b" "), _VOCABULARY)
    text_is_sound(shape)
    assert not _other_words(shape.rpartition(" ")[0]), shape


def blocks(data: bytes) -> None:
    """Bytes become the same lines at the same places, however they come."""
    cuts, log = data[: 2 * _CUTS], data[2 * _CUTS :]
    assert _lines_of(pieces(cuts, log)) == _lines_of([log])


def _lines_of(pieces: Sequence[bytes]) -> tuple[int, list[tuple[int, int, bytes]]]:
    blocks = Blocks()
    found = []
    for block in [one for piece in pieces for one in blocks.feed(piece)] + blocks.close():
        offset = block.offset
        for number, line in enumerate(_split(block.text)):
            offset = block.offsets[number] if block.offsets else offset
            found.append((block.number + number, offset, line))
            offset += 0 if block.offsets else width(line, block.encoding)
    return blocks.lines, found


def _split(text: bytes) -> list[bytes]:
    *lines, rest = text.split(b"\n")
    return [line + b"\n" for line in lines] + ([rest] if rest else [])


def documents(data: bytes) -> None:
    """Any bytes as a source, or an edited document, whole and cut anywhere; the first byte says which."""
    cuts, kind, rest = data[: 2 * _CUTS], data[2 * _CUTS : 2 * _CUTS + 1], data[2 * _CUTS + 1 :]
    source = rest if kind < b"\x80" else edited_lines(rest, seeds.short_documents())
    assert _read(pieces(cuts, source)) == _read([source])


def records(data: bytes) -> None:
    """Result files with other values in them."""
    value = edited_value(data, seeds.records())
    _read([as_json(value)])
    if isinstance(value, list):
        _read([b"\n".join(map(as_json, value))])


def _read(pieces: Sequence[bytes], *, put_by: bool = False) -> tuple[object, ...]:
    source = SourceReader(Stream("file", latest=NOW))
    rows: list[Row] = []
    for piece in pieces:
        if put_by and (state := saved(source, FORMATS)) is not None:
            source = resumed(state, FORMATS)
        rows += source.feed(piece)
    rows += source.close()
    reader = source.reader
    requests = reader.counts.requests if isinstance(reader, DocumentReader) else 0
    rows_are_sound(rows, reader.lines + requests)
    counts_are_sound(reader.counts)
    setups_are_sound(reader.setups)
    return told(rows), reader.counts, reader.lines, source.problem
