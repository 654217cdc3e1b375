"""Which models are loaded, and which of them a request is for.

A load names the model's file, a request its identifier, and nothing says which identifier is which file. So
the first request after a load that is for a new identifier claims it.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from datetime import datetime

    from parsers.formats.process import Process
    from parsers.records import Request
    from parsers.setup import Setup

_MOST_OPEN = 64
_NAMELESS = "LM STUDIO SERVER"


class Loaded(NamedTuple):
    """A model as it was loaded: its setup, and the number rows carry."""

    setup: Setup
    run: int


class Asked(NamedTuple):
    """A request that came in, and when."""

    model: str | None
    time: datetime | None


class Models:
    """The requests that are open, and what each identifier was loaded as."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._open: deque[Asked] = deque(maxlen=_MOST_OPEN)
        self._loaded: dict[str, Loaded] = {}
        self._unclaimed: Loaded | None = None

    def load(self) -> None:
        """A model was loaded; the process's setup is now its own."""
        self._unclaimed = Loaded(self._process.setup, self._process.run)

    def ask(self, name: bytes | None, time: datetime | None) -> None:
        """A request came in. Before 0.3.20 its line doesn't name the model."""
        model = name.decode("utf-8", "replace") if name else None
        model = None if model == _NAMELESS else model
        self._open.append(Asked(model, time))
        if model is not None and self._unclaimed is not None:
            self._loaded[model], self._unclaimed = self._unclaimed, None

    def end(self, name: bytes | None) -> Asked | None:
        """A request has ended; ``None`` where it can't be told which."""
        model = name.decode("utf-8", "replace") if name else None
        fitting = [asked for asked in self._open if model in (None, _NAMELESS, asked.model)] or list(
            self._open
        )
        if not fitting:
            return None
        self._open.remove(fitting[0])
        return fitting[0] if len(fitting) == 1 else Asked(fitting[0].model, None)

    @property
    def only(self) -> Asked | None:
        """The one request that is open; of several for one model, that model; else ``None``."""
        if not self._open or len({asked.model for asked in self._open}) > 1:
            return None
        return self._open[0] if len(self._open) == 1 else Asked(self._open[0].model, None)

    def release(self, row: Request, asked: Asked | None) -> None:
        """Let a row go under the setup of the model that it is for."""
        process, now = self._process, self._process.setup
        model = None if asked is None else asked.model
        loaded = self._loaded.get(model) if model else None
        if loaded is not None:
            process.setup, row.run = loaded
        row.model = model or row.model
        process.release(row)
        process.setup = now
