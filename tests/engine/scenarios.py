"""What the real server is asked to do: each scenario drives one server from start to stop."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .client import Answer, Messages, Request, ask
from .server import RunningServer, ServerOptions, running_server, wait_for_line

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SHARED_SYSTEM = (
    "You are the librarian of a small town. You know every shelf by heart, you answer in one short "
    "sentence, you never guess, and you always say on which shelf the book stands."
)


@dataclass(frozen=True)
class EngineRun:
    """The raw log of one scenario, complete, and what its clients were answered."""

    log_path: Path
    answers: tuple[Answer, ...]

    @property
    def completed(self) -> list[Answer]:
        """The answers whose clients stayed until the end."""
        return [answer for answer in self.answers if answer.completed]


@dataclass(frozen=True)
class Scenario:
    """A server's options and the requests made of it."""

    options: ServerOptions
    drive: Callable[[RunningServer], list[Answer]]

    def run(self, model: Path, folder: Path) -> EngineRun:
        """Start the server, drive it, stop it; the log lies in `folder`."""
        with running_server(model, folder, self.options) as server:
            answers = self.drive(server)
        return EngineRun(server.log_path, tuple(answers))


def _chat(question: str, system: str = SHARED_SYSTEM) -> Messages:
    return [{"role": "system", "content": system}, {"role": "user", "content": question}]


def _sequential(server: RunningServer) -> list[Answer]:
    """A cold prompt, its exact repeat, one with a shared prefix, and an unrelated one of one token."""
    maps = _chat("Where do I find a book of maps?")
    requests = [
        Request("cold", maps, max_tokens=24),
        Request("repeat", maps, max_tokens=8, stream=True),
        Request("shared-prefix", _chat("And one about rivers?"), max_tokens=16, stream=True),
        Request("unrelated-one-token", _chat("Count to ten.", system="Be brief."), max_tokens=1),
    ]
    return [ask(server.address, request) for request in requests]


def _overlapping(server: RunningServer) -> list[Answer]:
    """Four clients at once on fewer slots: two of them wait."""
    topics = ("rivers", "the stars", "old ships", "bread")
    requests = [
        Request(f"overlap-{n}", _chat(f"Which book is about {topic}?"), max_tokens=32 + n, stream=n % 2 == 0)
        for n, topic in enumerate(topics)
    ]
    with ThreadPoolExecutor(len(requests)) as clients:
        return list(clients.map(lambda request: ask(server.address, request), requests))


def _disconnect(server: RunningServer) -> list[Answer]:
    """A client hangs up in the middle of its stream; the next one gets its answer."""
    leaver = Request(
        "leaver", _chat("Tell me about every shelf."), max_tokens=1500, stream=True, leave_after=5
    )
    left = ask(server.address, leaver)
    wait_for_line(server.log_path, "cancel task")
    return [left, ask(server.address, Request("next", _chat("Where is the poetry?"), max_tokens=16))]


SCENARIOS = {
    "sequential": Scenario(ServerOptions(n_parallel=1), _sequential),
    "sequential-lv4": Scenario(ServerOptions(n_parallel=1, verbosity=4), _sequential),
    "sequential-debug": Scenario(ServerOptions(n_parallel=1, verbosity=5), _sequential),
    "overlapping": Scenario(ServerOptions(n_parallel=2), _overlapping),
    "overlapping-lv4": Scenario(ServerOptions(n_parallel=2, verbosity=4), _overlapping),
    "disconnect": Scenario(ServerOptions(n_parallel=1), _disconnect),
    "disconnect-lv4": Scenario(ServerOptions(n_parallel=1, verbosity=4), _disconnect),
}
