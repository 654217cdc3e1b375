"""The engine is never full: the client sends too few requests at once for a batch job.

What it looks at:
    Windows or batch lines over five minutes or more in which the engine was hardly ever idle, no request
    ever waited, less than 30 % of the KV cache was in use, and the number of running requests hardly changed.
    That is the mark of a client with a fixed number of workers, each sending its next request when the last
    one is done.

Why it matters:
    An engine reads its weights once a step for all that run. With few requests the steps are nearly as slow
    as with many, so most of what it could do in the same time is not asked for.

When not to worry:
    Interactive use, where each user waits for an answer: then a short queue is what is wanted. The log can't
    tell the two apart, so this is advice only, and it says nothing of engines that reached their limit of
    running requests.

What to change:
    More requests in flight, until some wait: vLLM and SGLang batch them by themselves. How much faster the
    job gets, the log doesn't say; the verification does.

Sources:
    SGLang docs/advanced_features (hyperparameter tuning: #queue-req and token usage); arXiv:2211.05102.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from rules.rule import CannotTell, Confidence, NotApplicable, Phase, Rule, Threshold
from rules.samples import median
from rules.words import duration, percent

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.rule import Answer

RULE = Rule(
    id="client-too-slow",
    phase=Phase.QUEUE,
    title="The engine could take more requests at once",
    engines=("vllm", "sglang", "lmdeploy", "tensorrt-llm"),
    remedies=("submit-more",),
    verify="Double the requests in flight: the tokens a second of the engine should rise nearly as much.",
    sources=("SGLang docs/advanced_features/hyperparameter_tuning", "arXiv:2211.05102"),
    thresholds={
        "minutes": Threshold(5.0, "minutes of work without a pause; first guess"),
        "kv_usage": Threshold(0.3, "share of the KV cache in use, median; SGLang's docs call 0.9 good"),
        "spread": Threshold(0.25, "standard deviation of the running requests over their mean; first guess"),
    },
    fault=False,
)

WORKING = 0.95
"""Of the lines, in which requests ran: people pause more than that."""

OF_LIMIT = 0.8
"""Of the most that may run at once: more workers would only wait."""


_UNTOLD = "the lines don't say how many requests wait and how full the KV cache is"


def check(m: Measures) -> Answer:
    """Ask whether a batch client keeps the engine half empty."""
    rows = m.intervals.filter(pl.col("kind").is_in(["window", "decode_batch"])).drop_nulls("running")
    if not rows.height:
        return CannotTell("no windows or batches are logged")
    t = m.thresholds(RULE)
    if rows["waiting"].null_count() or rows["kv_usage"].null_count() == rows.height:
        return CannotTell(_UNTOLD)
    if int(rows["waiting"].sum()):
        return NotApplicable("requests were waiting")
    working = rows.filter(pl.col("running") > 0)
    work_ms = float(working["span_ms"].sum())
    if working.height < WORKING * rows.height or work_ms < t["minutes"] * 60_000:
        return NotApplicable("the engine had pauses, or worked too short a time to tell")
    kv_usage = median(working.select("kv_usage"))
    if kv_usage is None:
        return CannotTell(_UNTOLD)
    if kv_usage >= t["kv_usage"]:
        return NotApplicable(f"{percent(kv_usage)} of the KV cache is in use")
    mean, deviation = working["running"].mean(), working["running"].std()
    if not isinstance(mean, float) or not isinstance(deviation, float) or deviation > t["spread"] * mean:
        return NotApplicable("the number of running requests changes as people's does")
    limit = m.setup.max_running
    if limit is not None and mean >= OF_LIMIT * limit:
        return NotApplicable("as many requests run as may run at once")
    at_once = round(mean)
    return RULE.finding(
        confidence=Confidence.POSSIBLE,
        why=f"For {duration(work_ms)} about {at_once} requests ran at once, none waited, and "
        f"{percent(kv_usage)} of the KV cache was in use: a client that sends a fixed number at a time. If "
        "that is a batch job, the engine can do more of it at once.",
        evidence=(
            m.evidence("running at once, mean", round(mean, 1), "requests", rows=working),
            m.evidence("waiting, at most", 0, "requests"),
            m.evidence("KV cache in use, median", round(kv_usage, 4), "share"),
            *([m.stated("max_running", "allowed to run at once", unit="requests")] if limit else []),
        ),
        requests=at_once,
        fixes=(m.fix("submit-more", requests=_more(at_once, limit)),),
    )


def _more(at_once: int, limit: int | None) -> int:
    """Four times as many, within what may run at once."""
    more = max(4 * at_once, 8)
    return more if limit is None else min(more, limit)
