"""Moves the rows of sources into a session, from threads of their own."""

from __future__ import annotations

from threading import Thread
from typing import TYPE_CHECKING

from advisor.errors import InputError
from parsers.limits import SlowPatternError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from advisor.live.session import Session
    from advisor.live.tails import Tail

WAIT_S = 0.2
"""How long a source may be silent until rows that waited for more lines are given."""

_MANY_LINES = 200


class Pump:
    """Moves one source's rows.

    Attributes:
        note: what happened to the source last, a sentence as it may be shown; empty if nothing did.
        ended: nothing more will come.
        runs: the session's number of each process start of the source.
    """

    def __init__(self, tail: Tail, session: Session) -> None:
        self.tail = tail
        self.note = ""
        self.ended = False
        self.runs: dict[int, int] = {}
        self._session = session
        self._doubted = False

    def run(self) -> None:
        """Move rows until the source ends, fails, or the session stops; whatever fails, the others go on."""
        try:
            self._move()
        except (InputError, SlowPatternError) as error:
            self._session.fail(self, str(error))
        except Exception as error:  # a fault of ours in one source
            self._session.fail(
                self, f"{self.tail.name}: reading stopped at a fault ({type(error).__name__})."
            )
        finally:
            self.ended = True
            self.tail.close()

    def _move(self) -> None:
        session = self._session
        while not session.stopped.is_set():
            rows = self.tail.read(WAIT_S)
            if rows is None:
                session.take(self, [], self.tail.notes())
                return
            session.take(self, rows, [*self.tail.notes(), *self._doubts()])
            session.wait_turn()
        session.take(self, self.tail.rest(), self.tail.notes())

    def _doubts(self) -> list[str]:
        """Said once: much has been read, and no engine is known by it."""
        if self._doubted or self.tail.engine is not None or self.tail.lines < _MANY_LINES:
            return []
        self._doubted = True
        return [f"{self.tail.name}: no engine's log that I know, after {self.tail.lines:,} lines."]


def threads(pumps: Sequence[Pump], *, in_turn: bool) -> list[Thread]:
    """Threads that run the pumps: one for all, one after the other, or one for each."""
    groups = [pumps] if in_turn else [[pump] for pump in pumps]
    return [Thread(target=_run, args=(group,), daemon=True) for group in groups]


def _run(pumps: Sequence[Pump]) -> None:
    for pump in pumps:
        pump.run()
