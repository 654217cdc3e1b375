"""llama-server (llama.cpp), b3761 and newer: two layouts of the timing lines, one life of a task.

- `lifecycle.py`: launch, new prompt, cached prefix, shift, cancel, release, the same in both layouts.
- `bare.py`: until b9229 a `slot print_timing` header is followed by timing lines without any prefix.
- `prefixed.py`: since b9230 every timing line carries its slot and task.
- `body.py`: answers with a `timings` object, as clients log them.
- `task.py`: one task and the request it makes; `tasks.py`: the open ones; `reader.py`: line by line.
"""

from __future__ import annotations

from parsers.formats.base import Format
from parsers.formats.llama_server import bare, body, lifecycle, prefixed
from parsers.formats.llama_server.reader import ServerReader

FORMAT = Format(
    engine="llama-server",
    title="llama-server (llama.cpp)",
    versions="b3761 and newer",
    grain="request",
    identify=(b" | task ", b"srv  ", b"prompt eval time =", b'"timings":'),
    lines=(*prefixed.LINES, *lifecycle.LINES, *bare.LINES, *body.LINES),
    reader=ServerReader,
)
