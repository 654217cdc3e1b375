"""ik_llama.cpp's server: lines that only this fork of llama.cpp prints, so its rows carry its own name.

Its timings and tasks are read as llama-server's: key=value until December 2025 (0e91b89), since then the
timings in the bare layout and the rest as before. What only it prints stands behind eight `=`, once for each
prompt, before anything else is said of it. Without these lines, as in the older builds, it is not to be
told from llama-server.

Read in ik_llama.cpp of 2026-08-15 (8337e4c).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parsers.formats.base import Format, Reader, line

if TYPE_CHECKING:
    import re

    from parsers.formats.base import At

_ENGINE = "ik-llama"
_SERVER = "llama-server"

LINES = (
    line("noted", b"======== Prompt cache: cache size: ", rb"={8} Prompt cache: cache size: \d+, n_keep: "),
    line("noted", b"======== Cache: cache_size = ", rb"={8} Cache: cache_size = \d+, n_past = "),
)


class ForkReader(Reader):
    """Says who logged, no more."""

    engine = _ENGINE

    def noted(self, m: re.Match[bytes], at: At) -> None:
        """``======== Prompt cache: cache size: 0, n_keep: 0, n_discarded_prompt: 0, ...``."""
        self.process.forks[_SERVER] = _ENGINE
        if self.process.setup.engine in (None, _SERVER):
            self.process.setup.engine = self.process.name_of(_SERVER)


FORMAT = Format(
    engine=_ENGINE,
    title="ik_llama.cpp server",
    versions="2025-12 and newer; older ones are read as llama-server",
    grain="request",
    identify=(b"======== Prompt cache: cache size: ", b"======== Cache: cache_size = "),
    lines=LINES,
    reader=ForkReader,
    inside=(_SERVER,),
    splits="prefill, decode",
    ends=("aborted", "failed", "incomplete"),
)
