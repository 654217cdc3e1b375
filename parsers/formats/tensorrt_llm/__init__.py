"""TensorRT-LLM (`trtllm-serve`, LLM API) and its Triton backend: engine steps, and requests with all phases.

- `steps.py`: one line for each step (`print_iter_log: true`), the list that `/metrics` returns
  (`enable_iter_perf_stats`), and the statistics of Triton's backend;
- `requests.py`: when a request arrived, was scheduled, made its first and its last token
  (`return_perf_metrics`), from `/perf_metrics` or in an answer of Triton;
- `reader.py`: joins them.
"""

from __future__ import annotations

from parsers.documents.base import Document
from parsers.formats.base import Format
from parsers.formats.json_records import is_spread
from parsers.formats.tensorrt_llm import requests, steps
from parsers.formats.tensorrt_llm.reader import IDENTIFY, LINES, TensorRtReader

FORMAT = Format(
    engine="tensorrt-llm",
    title="TensorRT-LLM, also in Triton",
    versions="0.6 and newer (Triton backend), 0.19 and newer (PyTorch engine)",
    grain="interval",
    identify=IDENTIFY,
    lines=LINES,
    reader=TensorRtReader,
    documents=(
        Document(
            name="list of TensorRT-LLM's /perf_metrics",
            detect=lambda head: is_spread(head, "timing_metrics", "first_scheduled_time"),
            rows=requests.rows,
        ),
        Document(
            name="list of TensorRT-LLM's /metrics",
            detect=lambda head: is_spread(head, "inflightBatchingStats", "iterLatencyMS"),
            rows=steps.rows,
        ),
    ),
    splits="steps by phase; queue, prefill, decode with return_perf_metrics",
    ends=("incomplete",),
)
