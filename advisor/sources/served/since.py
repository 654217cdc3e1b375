"""One model's sums since we first looked, told in rows that add up to exactly that."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from parsers.formats.prometheus.rows import aggregate, times_by_request_since
from parsers.records import Aggregate
from rules.snapshots import SUMS

if TYPE_CHECKING:
    from parsers.formats.prometheus.names import Names
    from parsers.formats.prometheus.snapshot import Numbers


@dataclass(slots=True)
class Since:
    """What came since a first answer.

    Some engines count a part of a request before the request itself, its queue when it leaves it. Such a sum
    is told as soon as it is of the finished requests alone, so a row may hold what earlier rows left out.

    Attributes:
        names: what the engine calls its numbers.
        first: what it had counted when we first looked; ``None`` where it began after that.
    """

    names: Names
    first: Numbers | None
    _told: dict[str, float] = field(default_factory=dict)

    def row(self, now: Numbers) -> Aggregate | None:
        """What is added to the rows so far; ``None`` where that is nothing.

        Percentiles are left out: they are not of so few requests.
        """
        by_request = times_by_request_since(self.first, now, self.names)
        whole = aggregate(now.added_since(self.first), self.names, by_request=by_request)
        row = Aggregate(engine=whole.engine, kind="between", ttft_from=whole.ttft_from)
        came = False
        for column in SUMS:
            value = getattr(whole, column)
            if value is None:
                continue
            more = max(value - self._told.get(column, 0), 0)
            self._told[column] = self._told.get(column, 0) + more
            setattr(row, column, more)
            came = came or more > 0
        return row if came else None
