"""What carriers put before a line: clocks stay, containers, pods and machines are numbered."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from parsers.carriers import unwrap

if TYPE_CHECKING:
    from collections.abc import Callable

_CHUNK = re.compile(r"[\w@.-]*\w")
_IPV4 = re.compile(r"(?:\d{1,3}\.){3}\d{1,3}")
_VERSION = re.compile(r"(.*?)(@\d[\d.]*)?")
ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
_CLOCK = re.compile(r"Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec|(?<![\w-])\d[\d:.+TZ-]*(?![\w-])")
_PLAIN = re.compile(
    r"\d{1,7}|\d{4}-\d\d-\d\dT?[\d:.+Z-]*|\d*[:.+TZ-][\d:.+TZ-]*|\d\d[AP]M"
    r"|Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec|Mon|Tue|Wed|Thu|Fri|Sat|Sun|std(?:out|err)|F|P|pod|pid|ip|DEBUG|INFO|WARN|ERROR|MESSAGE"
    r"|APIServer|ApiServer|EngineCore\w*|Worker_\w*|DPCoordinator|GRPC|DBG|time|level|msg|id|line"
)
"""Clocks, months, and the words of carriers."""


class Heads:
    """Masks the heads of lines.

    Args:
        name: masks a name, so that names that differ still do.
    """

    def __init__(self, name: Callable[[str], str]) -> None:
        self._name = name
        self._nodes: dict[str, int] = {}
        self._met: set[str] = set()

    def parted(self, line: str) -> tuple[str, str]:
        """The masked head of a line, and the rest of the line; no head where nothing carries it."""
        plain = ANSI.sub("", line)
        body = unwrap(plain.encode("utf-8", "replace")).body.decode("utf-8", "replace")
        if not body or not plain.endswith(body):
            return "", line
        head, brace, _ = plain[: len(plain) - len(body)].partition("{")
        return self.label(head), plain[len(head) :] if brace else body

    def read(self, head: str) -> str:
        """The masked head of a line that was read."""
        masked = self.label(head)
        self._met.add(_shape(masked))
        return masked

    def known(self, line: str) -> str:
        """The masked head of a line that was not read: a prompt's line may look as if it had one.

        So it is only kept if one like it was met on a line that was read.
        """
        head = self.parted(line)[0]
        return head if _shape(head) in self._met else ""

    def label(self, head: str) -> str:
        """A head, or the name of a container."""
        return _CHUNK.sub(lambda m: self._chunk(m[0]), head)

    def _chunk(self, chunk: str) -> str:
        if _IPV4.fullmatch(chunk):
            node = self._nodes.setdefault(chunk, len(self._nodes) + 1)
            return f"0.0.{node >> 8 & 255}.{node & 255}"
        if _PLAIN.fullmatch(chunk):
            return chunk
        name, _, version = chunk.partition("@")
        return f"{self._name(name)}@{version}" if version[:1].isdigit() else self._name(chunk)


def _shape(head: str) -> str:
    """A head without its clock."""
    return _CLOCK.sub("0", head)
