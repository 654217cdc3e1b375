"""The time to first token is as the client saw it.

What it looks at:
    Requests and sums from the files of a benchmark, which is a client of the engine.

Why it matters:
    Between sending a request and its first token lie the network, the queue and the prefill. A client sees
    only their sum: under load most of it may be the queue, where a faster prefill would change little.

When not to worry:
    At one request at a time nothing waits, and nearby the network takes a millisecond or so: then nearly all
    of it is prefill.

What to change:
    Run the benchmark at concurrency 1 as well, or read the engine's log or `/metrics` of the same time, which
    tell queue and prefill apart.

Sources:
    vLLM vllm/benchmarks/lib/endpoint_request_func.py (the clock starts as the request is sent);
    llmperf token_benchmark_ray.py (tokens counted with a Llama tokenizer).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from rules.rule import Caveat
from rules.words import plural

if TYPE_CHECKING:
    from rules.measures import Measures

ID = "client-ttft"

CLIENTS = ("vllm-bench", "sglang-bench", "guidellm", "aiperf", "genai-perf", "inference-perf", "llmperf")


def check(m: Measures) -> Caveat | None:
    """Say what the time to first token holds, where a client took it."""
    seen = m.generations.filter(pl.col("engine").is_in(CLIENTS))
    summed = m.aggregates.filter(pl.col("engine").is_in(CLIENTS))
    if not seen.height and not summed.height:
        return None
    engines = set(seen["engine"].unique()) | set(summed["engine"].unique())
    text = (
        "Times are as the client saw them: the time to first token is queue, prefill and network together. "
        "At concurrency 1 it is nearly all prefill; under load only the engine's log or /metrics tell."
    )
    if seen.height > seen.n_unique(["source", "first_line"]):
        text += " Requests that a file tells on one line are counted on from it, as if each had its own."
    if seen.height and summed.height:
        of = plural(int(summed["requests"].sum()), "request")
        text += f" Summaries of {of} stand beside these and are not in the split: see `--table aggregates`."
    if "llmperf" in engines:
        text += " llmperf counts tokens with a Llama tokenizer, whatever the model's own is."
    return Caveat(ID, text)


def only_clients(m: Measures) -> bool:
    """Whether all requests are a client's, whose files can tell no more."""
    return m.generations.height > 0 and bool(m.generations["engine"].is_in(CLIENTS).all())
