"""The first prompt after a start is read several times slower than the others.

What it looks at:
    The first request of each process start that the log shows, and requests that waited for a load: their
    prefill against what this log's other prompts say it should take.

Why it matters:
    Kernels are compiled, memory is mapped and graphs are captured on first use. One reader after each load
    waits for all of it.

When not to worry:
    A server that starts once a day makes one reader wait once. The rule is silent unless these waits are 5 %
    of all time, and where every request loads the model, which is the larger trouble.

What to change:
    Send one request of the usual length after each start, before anyone waits. The engine's own warm-up run
    is too short to touch all that a long prompt uses. If loads come often, keep the model loaded.

Sources:
    llama.cpp#9492 (first query slow); vllm-ascend#7193 (compiles on the first request);
    github.com/ollama/ollama docs/faq.mdx (preloading).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from rules.fits import alone, on_one_setup
from rules.loads import LOAD_MS
from rules.prefilling import shorter_prefill, usual_ms
from rules.rule import CannotTell, Confidence, NotApplicable, Phase, Rule, Threshold
from rules.samples import IS_VALID_PREFILL, median
from rules.words import duration, plural

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.rule import Answer

RULE = Rule(
    id="prefill-after-load-slow",
    phase=Phase.PREFILL,
    title="The first prompt after a load is slow",
    needs=("prefill_tokens", "prefill_ms"),
    remedies=("warm-up-request", "keep-loaded"),
    verify="Restart, send the same prompt three times (with prompt caching off): only the first is slow now.",
    sources=("llama.cpp#9492", "vllm-ascend#7193", "github.com/ollama/ollama docs/faq.mdx"),
    thresholds={
        "factor": Threshold(3.0, "times what other prompts of that length take"),
        "others": Threshold(3, "other prompts that are needed to compare with"),
        "load_ms": Threshold(LOAD_MS, "ms of loading from which a request is the first after a load"),
    },
    fault=False,
)

SEVERAL_LOADS = 3


def check(m: Measures) -> Answer:
    """Ask whether readers wait for an engine that is still cold."""
    t = m.thresholds(RULE)
    valid = on_one_setup(m, _with_cold(m, t["load_ms"]))
    cold, others = alone(m, valid.filter("cold")), valid.filter(~pl.col("cold"))
    if not cold.height:
        return NotApplicable("no long prompt came first after a load")
    if others.height < t["others"]:
        return CannotTell("too few prompts came later to compare with")
    expected_ms = pl.Series(usual_ms(others, cold), dtype=pl.Float64)
    rows = cold.with_columns(expected_ms=expected_ms).filter(
        pl.col("prefill_ms") > t["factor"] * pl.col("expected_ms")
    )
    longer_ms = float((rows["prefill_ms"] - rows["expected_ms"]).sum())
    if not rows.height or not m.worth(longer_ms, rows.height):
        return NotApplicable("the first prompts after a load cost little more than others")
    change = shorter_prefill(m, rows, 1 - pl.col("expected_ms") / pl.col("prefill_ms"))
    always = rows.height >= SEVERAL_LOADS and 2 * rows.height > cold.height
    return RULE.finding(
        confidence=Confidence.LIKELY if always else Confidence.POSSIBLE,
        why=f"After {plural(rows.height, 'load')} the first prompt took "
        f"{duration(median(rows.select('prefill_ms')))} where {duration(median(rows.select('expected_ms')))} "
        f"is usual for its length: {duration(longer_ms)} more in all.",
        evidence=(
            m.evidence("first prompts, median", median(rows.select("prefill_ms")), "ms", rows=rows),
            m.evidence("usual for their length", round(median(rows.select("expected_ms")) or 0, 1), "ms"),
            m.evidence("other prompts to compare with", others.height, "prompts", rows=others),
        ),
        requests=rows.height,
        saving=m.saving(change, bound="at_most"),
        change=change,
        fixes=(m.fix("warm-up-request"), m.fix("keep-loaded")),
    )


def _with_cold(m: Measures, load_ms: float) -> pl.DataFrame:
    """Valid prefills, with ``cold``: the first of a process start whose header is in the log, or of a load.

    Where the header is missing, others may have come before.
    """
    started = [run for run, setup in enumerate(m.setups) if setup.weights_bytes or setup.context]
    first = pl.col("line") == pl.col("line").min().over("source", "run")
    loaded = (pl.col("load_ms") >= load_ms).fill_null(value=False)
    cold = loaded | (first & pl.col("run").is_in(started))
    told = m.generations.select(cold=cold, valid=IS_VALID_PREFILL).filter("valid")
    return m.valid_prefill.with_columns(told["cold"])
