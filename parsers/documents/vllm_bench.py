"""`vllm bench serve` (earlier benchmark_serving.py): a run as one JSON object, or one a line.

`--save-result` writes one object, `--append-result` one a line; `--save-detailed` adds the requests. The
summary of whole requests (`e2el`) is there only where `--percentile-metrics` asks for it, and percentiles are
those that `--metric-percentiles` names. `queue_times` is the client's own wait for its `--max-concurrency`,
before a request is sent, and no part of any time here. `start_times` are on the client's clock since its
machine started.

Read: vLLM main of 2026-11 (vllm/benchmarks/serve.py, lib/endpoint_request_func.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parsers.documents.base import Document, has
from parsers.documents.serving import run_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from parsers.formats.process import Counts
    from parsers.records import Row

ENGINE = "vllm-bench"


def _rows(run: Any, counts: Counts) -> Iterator[Row]:
    return run_rows(run, ENGINE, "e2el", counts)


DOCUMENT = Document(
    name="result of vllm bench serve",
    detect=lambda head: has(head, "model_id", "num_prompts", "request_rate"),
    rows=_rows,
)
