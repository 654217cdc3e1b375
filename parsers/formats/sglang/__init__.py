"""SGLang: a line for each prefill batch and every 40 decode steps, and requests where they are logged.

- `batches.py`: the ``Prefill batch`` and ``Decode batch`` lines, and which of their rates mean a speed;
- `requests.py`: finished requests, from ``--log-requests``, ``--export-metrics-to-file`` and
  ``--enable-request-time-stats-logging``;
- `setup.py`: what a server says of itself when it starts.

`record.py` knows the head of a line and its ranks; `reader.py` joins it all.
"""

from __future__ import annotations

from parsers.formats.base import Format
from parsers.formats.sglang.reader import IDENTIFY, LINES, SglangReader

FORMAT = Format(
    engine="sglang",
    title="SGLang",
    versions="0.2 and newer",
    grain="interval",
    identify=IDENTIFY,
    lines=LINES,
    reader=SglangReader,
    splits="none: a label for each batch; queue, prefill, decode of logged requests",
    ends=("aborted", "failed"),
)
