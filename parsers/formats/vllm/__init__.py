"""vLLM, V0 and V1 engines: windows of a few seconds, engine steps, aborts, failures, preemptions, setup.

vLLM times no single request in its log: answers and what scripts print do. What there is, is read in

- `stats.py`: the throughput line, one window every 5 s (V0) or 10 s (V1), and how long a window was;
- `iterations.py`: one line for each engine step, with ``--enable-logging-iteration-details``;
- `requests.py`: aborted, failed and preempted requests;
- `deaths.py`: engines that died or did not start;
- `setup.py`: version, model and settings;
- `bodies.py`: answers with ``--enable-per-request-metrics``, all phases of a request;
- `offline.py`: the metrics of a `RequestOutput`, all phases of a request.

`record.py` knows the head of a record and splits lines that hold more than one, `json_logs.py` records that
are JSON; `reader.py` joins it all. Aphrodite prints the same lines, unless it is asked for its own.
"""

from __future__ import annotations

from parsers.formats.base import Format
from parsers.formats.vllm.bodies import DOCUMENT
from parsers.formats.vllm.reader import IDENTIFY, LINES, VllmReader

FORMAT = Format(
    engine="vllm",
    title="vLLM",
    versions="0.2 and newer (V0 and V1 engines)",
    grain="interval",
    identify=IDENTIFY,
    lines=LINES,
    reader=VllmReader,
    documents=(DOCUMENT,),
    splits="none: a label for each window or step; queue, prefill, decode of answers with metrics",
    ends=("failed",),
)
