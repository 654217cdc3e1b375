"""Ollama's own clock: slog prints its zone, gin and the lines before slog don't."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING

from parsers.formats.ollama.durations import plausible
from parsers.times import parse_iso

if TYPE_CHECKING:
    from parsers.formats.base import At

_ZONE = re.compile(r"(?:Z|([+-])([01]\d):?([0-5]\d))$")


class Clock:
    """Reads the clock of Ollama's lines.

    Attributes:
        zone: the zone that the lines so far have named; UTC until one has.
    """

    def __init__(self) -> None:
        self.zone: timezone = UTC

    def read(self, m: re.Match[bytes], at: At) -> At:
        """The place of a line, with the line's own time."""
        printed = m["time"].decode("ascii", "replace")
        if zone := _ZONE.search(printed):
            offset = timedelta(hours=int(zone[2] or 0), minutes=int(zone[3] or 0))
            self.zone = timezone(-offset if zone[1] == "-" else offset)
            return at._replace(time=plausible(parse_iso(m["time"]) or at.time))
        try:
            local = plausible(datetime.strptime(printed, "%Y/%m/%d %H:%M:%S").replace(tzinfo=self.zone))
        except ValueError:
            return at
        return at._replace(time=plausible(at.time) or (local and local.astimezone(UTC)))
