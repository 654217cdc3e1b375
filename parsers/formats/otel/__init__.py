"""OpenTelemetry spans of language models: OTLP/JSON, one batch of spans on each line, and Jaeger's JSON.

The collector's file exporter, `OTEL_TRACES_EXPORTER=otlp/file` and OTLP over HTTP write them so. A file that
begins with a batch of more than 64 KiB, or is printed over many lines, is read whole. Of so long a line that
comes later only the spans at its ends are kept: let the collector batch fewer.

- `spans.py`: a span's attributes, and the row it gives;
- `jaeger.py`: the same spans as Jaeger's API and the download of its UI have them;
- `reader.py`: which spans are requests, each told once.

vLLM's ``llm_request`` has all phases. Spans of the GenAI conventions are those of a client or a gateway: the
time to the first chunk holds the queue, the prefill and the network.

Read in vllm/tracing/utils.py and v1/engine/output_processor.py (V1), engine/llm_engine.py (V0), in SGLang's
tests of APIServerReqTimeStats, and in the OTLP file exporter's specification. The GenAI conventions are
those of 2026: ``gen_ai.usage.input_tokens`` has the cached ones in it.
"""

from __future__ import annotations

from parsers.documents.base import Document
from parsers.formats.base import Format
from parsers.formats.json_records import is_spread
from parsers.formats.otel.reader import IDENTIFY, LINES, OtelReader
from parsers.formats.otel.spans import rows

FORMAT = Format(
    engine="opentelemetry",
    title="OpenTelemetry spans (vLLM, GenAI conventions)",
    versions="OTLP/JSON, Jaeger JSON; vLLM 0.5 and newer",
    grain="request",
    identify=IDENTIFY,
    lines=LINES,
    reader=OtelReader,
    documents=(
        Document(
            name="batch of OpenTelemetry spans",
            detect=lambda head: is_spread(head, "resourceSpans"),
            rows=rows,
            opens=(b"{",),
        ),
        Document(
            name="list of Jaeger traces",
            detect=lambda head: is_spread(head, "traceID", "operationName", "spans"),
            rows=rows,
            opens=(b"{",),
        ),
    ),
    splits="queue, prefill, decode for vLLM; else time to first chunk, the rest",
    ends=("failed", "incomplete"),
)
