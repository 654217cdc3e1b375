"""llama-server (llama.cpp), b1413 and newer: four layouts of the timing lines, one life of a task.

- `keyvalue.py`: b2259 to b3760, and what was built on it: all lines with their values as key=value or JSON.
- `lifecycle.py`: since b3761 launch, new prompt, cached prefix, shift, cancel, release.
- `bare.py`: b3761 to b9229, a `slot print_timing` header followed by timing lines without any prefix; the
  same lines behind `print_timings:` until b2258.
- `prefixed.py`: since b9230 every timing line carries its slot and task.
- `body.py`: answers with a `timings` object, as clients log them; `pretty.py`: printed over many lines.
- `cache.py`: caches, the choice of a slot, images; `models.py`: loads by a router, and of a server that woke.
- `lanes.py`: the servers that a host runs side by side; `own.py`: what the server says of itself;
  `failures.py`: why it could not load a model.
- `usual.py`: the lines printed most, as layouts; `together.py`: joins many of them at once.
- `task.py`: one task and the request it makes; `tasks.py`: the open ones; `reader.py`: line by line.

With ``--log-jsonl`` (2026-09) the same lines stand in JSON, and Docker Model Runner logs them in quotes: see
`parsers/json_logs.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parsers.formats.base import Format
from parsers.formats.llama_server import (
    bare,
    body,
    cache,
    failures,
    keyvalue,
    lifecycle,
    models,
    prefixed,
    pretty,
)
from parsers.formats.llama_server.reader import ServerReader

if TYPE_CHECKING:
    from parsers.usual import Layouts


def _usual() -> Layouts:
    """The layouts of the lines that it prints most; they load numpy."""
    from parsers.formats.llama_server.together import LAYOUTS

    return LAYOUTS


FORMAT = Format(
    engine="llama-server",
    title="llama-server (llama.cpp)",
    versions="b1413 and newer",
    grain="request",
    identify=(
        b" | task ",
        b"srv  ",
        b"prompt eval time =",
        b'"timings":',
        b"slot is processing task",
        b"print_timings",
    ),
    banner=rb"(?:\d[\d.]* [IWED] )?(?:srv  |slot )",
    lines=(
        *prefixed.LINES,
        *lifecycle.LINES,
        *cache.LINES,
        *models.LINES,
        *failures.LINES,
        *bare.LINES,
        *keyvalue.LINES,
        *body.LINES,
        *pretty.LINES,
    ),
    reader=ServerReader,
    splits="prefill, decode",
    usual=_usual,
    ends=("aborted", "failed", "incomplete"),
)
