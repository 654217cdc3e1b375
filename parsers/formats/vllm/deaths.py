"""An engine that dies, or does not start: told once, however many processes and requests report it.

The engine's own process says so at the start of a message, which no prompt can be, and its traceback follows
in the same message, with the same head on each line. The API server's complaint comes after it, or alone
where the engine's process was killed; of a server that was told to stop it tells nothing.

Read in vLLM's vllm/v1/engine/core.py and async_llm.py (V1; 0.7 logs ``hit an exception``),
vllm/engine/async_llm_engine.py and multiprocessing/engine.py (V0), and in the logs of vllm#15039,
vllm#10024, vllm#18446 and club-3090#16. ``Engine core proc ... died unexpectedly`` is no death: a script may
end with it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from parsers.formats.base import line
from parsers.records import Event

if TYPE_CHECKING:
    from collections.abc import Sequence

    from parsers.formats.base import At
    from parsers.formats.process import Process

_ENGINE = "vllm"

_DEATHS = (
    line(
        "engine",
        b"EngineCore ",
        rb"EngineCore (?:encountered a fatal error\.|(?P<start>failed to start\.)"
        rb"|hit an exception: Traceback )",
    ),
    line("engine", b"Engine background task failed", rb"Engine background task failed\s*$"),
    line("v0", b"Error(", rb"(?P<error>[A-Z]\w{0,60}Error)\((?:[\"'](?P<text>.*)|\))"),
    line(
        "v0", b" out of memory. Tried to ", rb"(?P<start>(?P<text>(?:CUDA|HIP|XPU) out of memory\. Tried .*))"
    ),
    line("server", b"AsyncLLM output_handler failed", rb"AsyncLLM output_handler failed"),
    line(
        "server",
        b", terminating server process",
        rb"(?:MQ|Async)LLMEngine (?:is already dead|has failed), terminating server process",
    ),
)
"""How a message begins, by who says it; ``v0`` is V0's engine process, which logs the exception alone."""

STOPPING = (
    line("stopping", b"Shutting down FastAPI HTTP server", rb"Shutting down FastAPI HTTP server"),
    line(
        "stopping",
        b"[shutdown] ",
        rb"\[shutdown\] (?:API server: shutdown triggered|EngineCore: trigger received signal)",
    ),
)
"""What a server that is told to stop says first, later in the second way."""

_V0_ENGINE = re.compile(rb".*[ \[/]engine\.py:\d+\]? ?$")
_CAUSE = re.compile(rb"(?:[a-zA-Z_]\w{0,60}\.){0,8}(?P<error>[A-Z]\w{0,60}(?:Error|Exception))(?:: |$)")
_OUT_OF_MEMORY = re.compile(
    rb"(?:[\w.]{1,80}Error: )?(?:Worker failed with error ')?"
    rb"(?:CUDA|HIP|XPU|NPU) out of memory(?:\. Tried to allocate (?P<size>\d+\.\d+ [KMGT]iB))?"
)
_MOST_HEADS = 64


def is_error(head: bytes) -> bool:
    """Whether a message is of a level that deaths have."""
    return b"ERROR" in head or b"CRITICAL" in head


class Head(NamedTuple):
    """Who prints a message, and what stands before each line of it."""

    process: bytes | None
    text: bytes


class Deaths:
    """The deaths of one vLLM; each waits for its traceback.

    Args:
        process: takes the events.
    """

    def __init__(self, process: Process) -> None:
        self._process = process
        self._heads: dict[bytes | None, bytes] = {}
        self.begin()

    def begin(self) -> None:
        """Another engine starts."""
        self._who: tuple[bytes, bytes] | None = None
        self._stopping = False
        self._event: Event | None = None
        self._head: Head | None = None
        self._says = self._what = ""

    @property
    def over(self) -> bool:
        """Whether this engine has died, or was told to stop."""
        return self._stopping or self._who is not None

    def stopping(self) -> None:
        """The server was told to stop: what dies now is meant to."""
        self._stopping = True

    def read(self, message: bytes, at: At, head: Head, traceback: Sequence[bytes] = ()) -> None:
        """Read a line of an error's message; the traceback is there where the message is whole."""
        if self._begins(head):
            for kind in _DEATHS:
                if kind.needle in message and (m := kind.pattern.match(message)):
                    if not self._stopping and (kind.name != "v0" or _V0_ENGINE.match(head.text)):
                        self._died(kind.name, m.groupdict(), at, head)
                    break
        elif head == self._head:
            self._blame(message)
        if head == self._head:
            for entry in traceback:
                self._blame(entry)

    def flush(self) -> None:
        """Emit the death that only waited for its traceback."""
        if self._event:
            self._process.emit(self._event)
        self._event = None

    def _begins(self, head: Head) -> bool:
        """Whether a message begins, or the last one of the same process goes on."""
        if len(self._heads) > _MOST_HEADS:
            self._heads.clear()
        known, self._heads[head.process] = self._heads.get(head.process), head.text
        return known != head.text

    def _died(self, says: str, found: dict[str, bytes | None], at: At, head: Head) -> None:
        """A death that is not known yet, or what the engine says of one that the server has told."""
        if self._is_another(head):
            self.flush()
            self._event = Event(line=at.number, engine=_ENGINE, time=at.time, kind="error")
        elif self._says != "server" or says == "server" or self._event is None:
            return
        self._says, self._head = says, head
        self._what = "the server lost its engine" if says == "server" else "the engine died"
        if found.get("start"):
            self._what = "the engine did not start"
        self._event.detail = self._what
        self._blame(found.get("text") or b"")
        self._blame(found.get("error") or b"")

    def _is_another(self, head: Head) -> bool:
        """True for the first death, and for that of a process which took the place of one that died."""
        name, _, pid = (head.process or b"").partition(b" pid=")
        if self._who is not None and (name != self._who[0] or pid == self._who[1]):
            return False
        self._who = name, pid
        return True

    def _blame(self, entry: bytes) -> None:
        """Take the cause from a line of the traceback: the last one, but a lack of memory always."""
        if self._event is None:
            return
        if m := _OUT_OF_MEMORY.match(entry):
            size = f": could not allocate {m['size'].decode()}" if m["size"] else ""
            self._event.kind, self._event.detail = "out_of_memory", self._what + size
        elif self._event.kind == "error" and (m := _CAUSE.match(entry)) and m["error"] != b"EngineDeadError":
            self._event.detail = f"{self._what} ({m['error'].decode()})"
