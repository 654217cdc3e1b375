"""llama-server (llama.cpp), b3761 and newer: two layouts of the timing lines, one life of a task.

- `lifecycle.py`: launch, new prompt, cached prefix, shift, cancel, release, the same in both layouts.
- `bare.py`: until b9229 a `slot print_timing` header is followed by timing lines without any prefix.
- `prefixed.py`: since b9230 every timing line carries its slot and task.
- `reader.py`: joins them to requests.
"""

from __future__ import annotations

from parsers.formats.base import Format
from parsers.formats.llama_server import bare, lifecycle, prefixed
from parsers.formats.llama_server.reader import ServerReader

FORMAT = Format(
    engine="llama-server",
    title="llama-server (llama.cpp)",
    versions="b3761 and newer",
    grain="request",
    identify=(b"print_timing: id", b"launch_slot_: id", b"llama_server: ", b"srv  ", b"prompt eval time ="),
    lines=(*prefixed.LINES, *bare.LINES, *lifecycle.LINES),
    reader=ServerReader,
)
