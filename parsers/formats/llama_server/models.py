"""Loads and unloads: a router that starts a server for each model, and a server that sleeps when idle.

The router says when it starts a server, when a request waits for one, and when that request goes on: the
time in between is the load. A server that wakes loads its model for the task that comes next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parsers.formats.base import line
from parsers.formats.llama_cpp import HEAD, clock_ms
from parsers.formats.llama_server.own import OwnLines
from parsers.formats.llama_server.task import ENGINE

if TYPE_CHECKING:
    import re

    from parsers.formats.base import At

_ROUTER = HEAD + rb"srv +\S+: +"

LINES = (
    line("spawning", b" name=", _ROUTER + rb"spawning server instance with name=(?P<name>\S+) on port \d+"),
    line("awaited", b" name=", _ROUTER + rb"waiting until model name=(?P<name>\S+) is fully loaded"),
    line(
        "proxying", b"proxying request to model ", _ROUTER + rb"proxying request to model (?P<name>\S+) on "
    ),
    line(
        "evicting",
        b" name=",
        _ROUTER + rb"(?:evicting idle LRU name=(?P<name>\S+) to make room for name=(?P<next>\S+)"
        rb"|models_max limit reached, removing LRU name=(?P<removed>\S+))",
    ),
    line("exited", b" name=", _ROUTER + rb"instance name=(?P<name>\S+) exited with status (?P<status>-?\d+)"),
    line("sleeps", b"ing sleeping state", _ROUTER + rb"server is entering sleeping state"),
    line("wakes", b"ing sleeping state", _ROUTER + rb"server is exiting sleeping state"),
)

_KEPT = 64


class ModelLines(OwnLines):
    """Which models come and go."""

    def _forget(self) -> None:
        super()._forget()
        self._spawned: dict[bytes, tuple[At, bytes | None, bool]] = {}
        self._reasons: dict[bytes, str] = {}
        self._woken: tuple[At, bytes | None] | None = None

    def spawning(self, m: re.Match[bytes], at: At) -> None:
        """``spawning server instance with name=a on port 41219``."""
        if self._own(m, at):
            self._tell_load(m["name"])
            self._spawned[m["name"]] = at, m["clock"], False
            if len(self._spawned) > _KEPT:
                self._tell_load(next(iter(self._spawned)))

    def awaited(self, m: re.Match[bytes], at: At) -> None:
        """``waiting until model name=b is fully loaded...``: a request waits from the load's start on."""
        if self._own(m, at) and (spawned := self._spawned.get(m["name"])):
            self._spawned[m["name"]] = *spawned[:2], True

    def proxying(self, m: re.Match[bytes], at: At) -> None:
        """``proxying request to model b on port 8093``: the request that waited goes on."""
        if m["name"] in self._spawned and self._own(m, at):
            self._tell_load(m["name"], m["clock"])

    def _tell_load(self, name: bytes, now: bytes | None = None) -> None:
        spawned = self._spawned.pop(name, None)
        if spawned is not None:
            at, began, awaited = spawned
            load_ms = _between(began, now) if awaited else None
            self.process.event(ENGINE, at, "model_load", f"model {_text(name)}", value=load_ms)

    def evicting(self, m: re.Match[bytes], at: At) -> None:
        """``evicting idle LRU name=a to make room for name=b``."""
        if self._own(m, at):
            reason = f"to make room for {_text(m['next'])}" if m["next"] else "too many were loaded"
            self._reasons[m["name"] or m["removed"]] = reason

    def exited(self, m: re.Match[bytes], at: At) -> None:
        """``instance name=a exited with status 0``."""
        if self._own(m, at):
            name, status = m["name"], int(m["status"])
            self._tell_load(name)
            why = self._reasons.pop(name, f"exit status {status}" if status else None)
            self.process.event(ENGINE, at, "model_unload", f"model {_text(name)}{f': {why}' if why else ''}")

    def sleeps(self, m: re.Match[bytes], at: At) -> None:
        """``server is entering sleeping state``: idle for long enough."""
        if self._own(m, at):
            self.process.event(ENGINE, at, "model_unload", "idle: the server sleeps")

    def wakes(self, m: re.Match[bytes], at: At) -> None:
        """``server is exiting sleeping state``."""
        if self._own(m, at):
            self._tell_wake()
            self._woken = at, m["clock"]

    def _tell_wake(self, now: bytes | None = None) -> None:
        """The task that woke the server has begun, or nothing more is known of the load."""
        if self._woken is not None:
            (at, began), self._woken = self._woken, None
            self.process.event(ENGINE, at, "model_load", "woken from sleep", value=_between(began, now))

    def _tell_loads(self) -> None:
        """The source or the process ends."""
        self._tell_wake()
        for name in list(self._spawned):
            self._tell_load(name)


def _between(began: bytes | None, ended: bytes | None) -> float | None:
    """Ms between two moments of the process's clock; ``None`` without it."""
    first, last = clock_ms(began), clock_ms(ended)
    return None if first is None or last is None or last < first else round(last - first, 3)


def _text(name: bytes) -> str:
    return name.decode("utf-8", "replace")
