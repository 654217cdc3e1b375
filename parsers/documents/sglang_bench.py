"""`sglang.bench_serving`: one JSON object a line, appended by each run; `--output-details` adds the requests.

Without `--backend` names that stream, or with `--disable-stream`, the time to first token is the whole time
and is left out. `server_info` is not read.

Read: SGLang 0.5.23 (sglang/benchmark/serving.py) and 0.5 (python/sglang/bench_serving.py at 0033168).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parsers.documents.base import Document, has
from parsers.documents.serving import run_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from parsers.formats.process import Counts
    from parsers.records import Row

ENGINE = "sglang-bench"


def _rows(run: Any, counts: Counts) -> Iterator[Row]:
    return run_rows(run, ENGINE, "e2e_latency", counts)


DOCUMENT = Document(
    name="result of sglang.bench_serving",
    detect=lambda head: has(head, "dataset_name", "sharegpt_output_len", "random_input_len"),
    rows=_rows,
)
