"""What can be watched on this machine: where engines log here, and which of them listen on loopback."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from parsers.formats.prometheus.scrape import Scraper

CONNECT_S, ANSWER_S = 0.3, 1.0
"""How long all ports may take to be found open, and then to say who is there."""

_ADDRESS = "127.0.0.1"
PORTS = {
    11434: "ollama",
    11435: "ollama",
    8080: "llama-server",
    8081: "llama-server",
    8000: "vllm",
    30000: "sglang",
    3000: "tgi",
    23333: "lmdeploy",
    1234: "lmstudio",
    1337: "llama-server",
    5001: "koboldcpp",
    5000: "tabbyapi",
    4000: "litellm",
}
"""Ports that engines use where nothing else is said. Most are others' too: who answers decides."""

_UNIT = "ollama"
_UNIT_FOLDERS = ("/etc/systemd/system", "/run/systemd/system", "/usr/lib/systemd/system")

_LMSTUDIO = {"lmstudio": "~/.lmstudio/server-logs"}
_LOGS = {
    "darwin": {"ollama": "~/.ollama/logs/server.log", **_LMSTUDIO},
    "win32": {"ollama": "~/AppData/Local/Ollama/server.log", **_LMSTUDIO},
    "linux": {"ollama": "journalctl -u ollama --no-pager -o short-iso | phasewise -", **_LMSTUDIO},
}
"""By system, a file or folder below the user's own, or what prints the log."""


@dataclass(frozen=True, slots=True)
class Found:
    """Something that can be watched.

    Attributes:
        engine: whose it is.
        kind: what `place` is: a file, a systemd unit, or an address.
        place: a path, a unit's name, or an address.
        sure: `answers` in a way that only this engine does; `exists` as this engine's usual log; `listens` on
            the port that this engine usually has, and nothing tells whether it is this one.
    """

    engine: str
    kind: Literal["file", "unit", "address"]
    place: str
    sure: Literal["answers", "exists", "listens"]

    @property
    def arguments(self) -> list[str]:
        """What `phasewise tail` is called with to watch it."""
        return ["--unit", self.place] if self.kind == "unit" else [self.place]


def places() -> list[tuple[str, str, bool]]:
    """Where engines log on this system: engine, a path or a command, and whether it is there."""
    paths = {engine: (place, _own(place)) for engine, place in _known().items()}
    return [
        (engine, str(path or place), path.exists() if path else not place.startswith("~"))
        for engine, (place, path) in paths.items()
    ]


def found() -> list[Found]:
    """What is there now: engines that answer first, then logs, the newest first."""
    return [*listening(), *logs()]


def logs() -> list[Found]:
    """Logs where engines write them, the newest first; a unit's journal before all others."""
    files = [(engine, path) for engine, path in _files() if _written(path) is not None]
    files.sort(key=lambda file: -(_written(file[1]) or 0.0))
    units = [Found("ollama", "unit", _UNIT, "exists")] if _has_unit() else []
    return [*units, *(Found(engine, "file", str(path), "exists") for engine, path in files)]


def _known() -> Mapping[str, str]:
    return _LOGS.get(sys.platform, _LOGS["linux"])


def _own(place: str) -> Path | None:
    """The path of a place below the user's own folder; ``None`` for another, or where there is no folder."""
    with suppress(RuntimeError):
        return Path(place).expanduser() if place.startswith("~") else None
    return None


def _files() -> Iterator[tuple[str, Path]]:
    for engine, place in _known().items():
        path = _own(place)
        newest = _newest(path) if path is not None and path.is_dir() else path
        if newest is not None:
            yield engine, newest


def _newest(folder: Path) -> Path | None:
    """The log below a folder that was written last."""
    return max(folder.rglob("*.log"), key=lambda path: _written(path) or 0.0, default=None)


def _written(path: Path) -> float | None:
    """When a file was written last, if it is one that can be read."""
    with suppress(OSError):
        if path.is_file() and os.access(path, os.R_OK):
            return path.stat().st_mtime
    return None


def _has_unit() -> bool:
    """Whether systemd knows Ollama's service, and its journal can be read."""
    if not sys.platform.startswith("linux") or shutil.which("journalctl") is None:
        return False
    return any(Path(folder, f"{_UNIT}.service").exists() for folder in _UNIT_FOLDERS)


def listening(ports: Mapping[int, str] | None = None) -> list[Found]:
    """Engines that listen on this machine's loopback address.

    Args:
        ports: where to look, and who is there usually; default `PORTS`.
    """
    ports = PORTS if ports is None else ports
    told: dict[int, Found | None] = {}
    _at_once(CONNECT_S, [Thread(target=_connect, args=(*port, told), daemon=True) for port in ports.items()])
    told_open = dict(told)
    if told_open:
        import_module("httpx")
        from parsers.formats import FORMATS
        from parsers.formats.prometheus.scrape import scrapers

        known = scrapers(FORMATS)
        _at_once(ANSWER_S, [Thread(target=_ask, args=(port, known, told), daemon=True) for port in told_open])
    return [one for port in ports if (one := told.get(port)) is not None]


def _at_once(within_s: float, threads: list[Thread]) -> None:
    """Run them; what is late is not waited for."""
    end_s = time.monotonic() + within_s
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(end_s - time.monotonic(), 0.0))


def _connect(port: int, usual: str, told: dict[int, Found | None]) -> None:
    with suppress(OSError), socket.create_connection((_ADDRESS, port), CONNECT_S):
        told[port] = Found(usual, "address", f"http://{_ADDRESS}:{port}", "listens")


def _ask(port: int, known: list[Scraper], told: dict[int, Found | None]) -> None:
    """Who answers there; whoever asks for a key or is slow may be who is usually there."""
    from advisor.sources.served.engines import look
    from advisor.sources.served.web import NoAnswerError, Web

    web = Web(f"http://{_ADDRESS}:{port}", answer_s=ANSWER_S)
    try:
        looked = look(web.get, known)
        if looked.engine is not None:
            told[port] = Found(looked.engine.name, "address", web.name, "answers")
        elif not {401, 503}.intersection(answer.status for answer in looked.answers.values()):
            told[port] = None
    except NoAnswerError as error:
        told[port] = told[port] if error.is_late else None
    finally:
        web.close()
