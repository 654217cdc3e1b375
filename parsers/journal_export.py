"""The journal's export format (`journalctl -o export`): a field a line, an empty line after each entry.

Which unit an entry is of and when may stand behind its message, so an entry is held until it is whole. It is
told as `journalctl -o short-iso-precise` would, on the lines where its message stands; its other lines are
empty. A value with line breaks or control bytes is its name alone, eight bytes that say its size, its bytes.

See JOURNAL_EXPORT_FORMATS.md of systemd.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from parsers.cut import MAX_LINE, ends_of

BEGINS = b"__CURSOR="
"""What each entry begins with."""

_UNITS = (b"CONTAINER_NAME", b"SYSLOG_IDENTIFIER", b"_SYSTEMD_UNIT")
_KEPT = {b"MESSAGE", b"__REALTIME_TIMESTAMP", b"_PID", *_UNITS}
_SIZE = 8
_LARGEST = 768 << 20
"""The journal takes no larger value."""
_NO_UNIT = re.compile(rb"[^\w@./-]")


class Told(NamedTuple):
    """Whole lines of text, and for each where it stands in the source."""

    text: bytes = b""
    offsets: tuple[int, ...] = ()


class JournalExport:
    """Bytes of an export in, its messages as lines out: as many lines as the source has."""

    def __init__(self, offset: int) -> None:
        self._offset = offset
        self._kept = bytearray()
        self._fields: dict[bytes, bytes] = {}
        self._lines: list[tuple[int, bytes | None]] = []
        self._name: bytes | None = None
        self._left: int | None = None
        self._line = bytearray()
        self._line_offset: int | None = None

    def feed(self, data: bytes) -> Told:
        """Take the next bytes; return the lines of the entries that they complete."""
        self._kept += data
        told: list[Told] = []
        while self._step():
            if self._lines and self._is_over:
                told.append(self._entry())
        return _joined(told)

    def close(self) -> Told:
        """The source ends: what there is of the last entry, its last line maybe without a newline."""
        rest = bytes(self._kept)
        self._kept.clear()
        if self._name is not None:
            self._take(rest)
            rest = bytes(self._line)
            value, at = rest if self._name == b"MESSAGE" else None, self._line_offset or self._offset
        else:
            name, equals, text = rest.partition(b"=")
            value, at = text if name == b"MESSAGE" and equals else None, self._offset
        torn = [(at, value)] if rest else []
        self._lines += torn
        whole = self._entry() if self._lines else Told()
        return Told(whole.text[:-1] if torn else whole.text, whole.offsets)

    # --- steps

    def _step(self) -> bool:
        """Read one more line or piece of a value; false if there is none."""
        self._is_over = False
        if self._name is None:
            return self._field()
        if self._left is None:
            return self._size()
        piece = bytes(self._kept[: self._left])
        if not piece:
            return False
        del self._kept[: len(piece)]
        self._left -= len(piece)
        self._take(piece)
        if not self._left:
            self._name = self._left = None
        return True

    def _field(self) -> bool:
        """A line that is a field, the name of a long one, or the end of the entry."""
        end = self._kept.find(b"\n") + 1
        if not end:
            return False
        line = bytes(self._kept[: end - 1])
        del self._kept[:end]
        name, equals, value = line.partition(b"=")
        self._lines.append((self._offset, value if name == b"MESSAGE" and equals else None))
        self._offset += end
        if equals and name in _KEPT:
            self._fields[name] = value
        elif line and not equals:
            self._name = name
        self._is_over = not line
        return True

    def _size(self) -> bool:
        """The size of a value; the byte after it is a newline."""
        if len(self._kept) < _SIZE:
            return False
        size = int.from_bytes(self._kept[:_SIZE], "little")
        if size > _LARGEST:
            self._name = None
            return True
        self._lines += [(self._offset, None)] * self._kept[:_SIZE].count(b"\n")
        del self._kept[:_SIZE]
        self._offset += _SIZE
        self._left = size + 1
        return True

    def _take(self, piece: bytes) -> None:
        """Part of a value; each of its lines is a line of the message."""
        *whole, torn = piece.split(b"\n")
        for part in whole:
            self._grow(part)
            line = bytes(self._line)
            self._lines.append((self._line_offset or 0, line if self._name == b"MESSAGE" else None))
            if self._name in _KEPT and self._name != b"MESSAGE":
                self._fields[self._name or b""] = line
            self._line.clear()
            self._line_offset = None
            self._offset += 1
        self._grow(torn)

    def _grow(self, part: bytes) -> None:
        if self._line_offset is None:
            self._line_offset = self._offset
        self._offset += len(part)
        if self._name in _KEPT:
            self._line += part
            if len(self._line) > 4 * MAX_LINE:
                self._line[:] = ends_of(bytes(self._line)).replace(b"\n", b" ")

    def _entry(self) -> Told:
        head, lines = _head(self._fields), self._lines
        self._fields, self._lines = {}, []
        text = b"".join(b"\n" if value is None else head + value + b"\n" for _, value in lines)
        return Told(text, tuple(at for at, _ in lines))


def _head(fields: dict[bytes, bytes]) -> bytes:
    """What `journalctl` puts before a line."""
    unit = next((_NO_UNIT.sub(b"-", fields[name]) for name in _UNITS if fields.get(name)), None)
    us = fields.get(b"__REALTIME_TIMESTAMP", b"")
    if not us.isdigit() or len(us) > 17:
        return b"MESSAGE="
    time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(us))
    iso = time.strftime("%Y-%m-%dT%H:%M:%S.%f+0000").encode()
    if unit is None:
        return iso + b" "
    pid = fields.get(b"_PID", b"")
    return iso + b" host " + unit + b"[" + (pid if pid.isdigit() else b"0") + b"]: "


def _joined(told: list[Told]) -> Told:
    return Told(b"".join(one.text for one in told), tuple(at for one in told for at in one.offsets))
