"""LM Studio: its app log with the engine's lines inside, answers of its REST API, `lms` statistics.

- `lines.py`: the app log's lines, 0.3 and 0.4.
- `fields.py`: statistics that are printed one a line: by the API, by `lms chat --stats`, by `lms log stream`.
- `stats.py`: what those numbers say of a request.
- `models.py`: which models are loaded, and which of them a request is for.
- `reader.py`: joins it.

What ``lms log stream`` prints is read in all its forms: of the server, with or without ``--json``
(`parsers/json_logs.py`), of models with ``--stats``, and of the runtime, which are the engine's own lines.

LM Studio is closed: what is read here was seen in logs of 0.3.18 to 0.4.21 (lmstudio-bug-tracker#778, #597,
#2006, #2011, #2419) and is documented for the API. Its MLX engine (mlx-engine 08f0c07) and its command line
(lms 07b7252, lmstudio-js 6ec11db) are open.
"""

from __future__ import annotations

from parsers.formats.base import Format
from parsers.formats.lmstudio import fields, lines, stats
from parsers.formats.lmstudio.reader import INSIDE, AppReader

FORMAT = Format(
    engine="lmstudio",
    title="LM Studio (app log, REST API, lms)",
    versions="0.3.18 and newer",
    grain="request",
    identify=(
        b"[LM STUDIO SERVER]",
        b"Received request: POST to /",
        b"] Running chat completion on conversation",
        b"LlamaV4::",
        b"Target model llama_perf stats:",
        b"Cache reuse summary: ",
        b"Prompt cache restore: cached_tokens=",
        b'"time_to_first_token',
        b'"llm.prediction.output"',
        b"timeToFirstTokenSec: ",
        b"type: llm.prediction.",
        b"Time to First Token: ",
    ),
    banner=rb"Received request: POST to /|\[LM STUDIO SERVER\]",
    lines=(*lines.LINES, *stats.LINES, *fields.LINES),
    reader=AppReader,
    host=True,
    inside=INSIDE,
    splits="time to first token, decode; prefill where llama.cpp logs inside",
    ends=("aborted", "failed", "incomplete"),
)
