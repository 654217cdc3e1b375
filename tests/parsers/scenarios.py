"""The real llama-server runs under `tests/logs`: what the server logged, and what its clients were told."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

LOGS = Path(__file__).parents[1] / "logs"


@dataclass(frozen=True)
class Scenario:
    """One run of a server."""

    folder: Path

    def __str__(self) -> str:
        return self.folder.relative_to(LOGS).as_posix()

    @property
    def log(self) -> bytes:
        return (self.folder / "server.log").read_bytes()

    @property
    def clients(self) -> list[dict[str, Any]]:
        """One record for each request, as its client saw it."""
        path = self.folder / "ground_truth.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    @property
    def answered(self) -> list[dict[str, Any]]:
        """The clients that got the server's own timings."""
        return [client for client in self.clients if client.get("timings")]

    @property
    def command(self) -> list[str]:
        """The server's command line; empty where the run didn't keep it."""
        path = self.folder / "run.json"
        command: list[str] = json.loads(path.read_text()).get("cmd", []) if path.exists() else []
        return command

    def flag(self, name: str) -> str | None:
        return self.command[self.command.index(name) + 1] if name in self.command else None


@cache
def scenarios() -> tuple[Scenario, ...]:
    logs = [*LOGS.glob("llama-server-*/*/server.log"), *LOGS.glob("pairs/*/*/server.log")]
    return tuple(Scenario(log.parent) for log in sorted(logs))


def scenario(name: str) -> Scenario:
    return Scenario(LOGS / name)
