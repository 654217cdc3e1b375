"""Loading the model takes longer than a solid-state disk would need to read it.

What it looks at:
    The model's size over the time of its loads, less what starting a process and clearing its KV cache
    take. Two loads at least at under half a GB/s: the first one may find the file in no cache, or download
    it.

Why it matters:
    A load is time to first token. A network share or a hard disk reads a model at a tenth of the rate of a
    local NVMe disk.

When not to worry:
    The model is loaded once a day. Loads that need not be at all come first: `reload-each-request`,
    `reload-after-idle` and `models-evict-each-other`.

What to change:
    Keep the file on a fast local disk, and leave enough memory free for the system to cache it. The saving
    takes 2 GB/s, what a plain NVMe disk gives, so it is a bound.

Sources:
    Rates of disks: hard disks and 1 Gbit/s networks 0.1 to 0.2 GB/s, SATA solid-state disks 0.5, NVMe 2 and
    more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from rules.loads import generations_in
from rules.rule import CannotTell, Confidence, NotApplicable, Phase, Rule, Threshold
from rules.samples import median
from rules.savings import loads_avoided
from rules.words import duration, size

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.rule import Answer

RULE = Rule(
    id="load-slow-disk",
    across=True,
    phase=Phase.LOAD,
    title="The model is loaded slower than a fast disk would allow",
    needs=("load_ms", "weights_bytes"),
    remedies=("faster-disk",),
    verify="Time `cat MODEL > /dev/null` right after a load: as slow, and the disk is the limit; quick, and "
    "the load waits for something else.",
    thresholds={
        "slow_gb_s": Threshold(0.5, "1e9 bytes per second: what a SATA solid-state disk reads"),
        "loads": Threshold(2, "slow loads: the first may have downloaded the file"),
    },
)

START_MS = 2_000.0
"""Starting a process, finding the GPUs and a first run through the model."""

CLEARED_GB_S = 5.0
"""Rate at which a new KV cache is cleared: the slow end of main memory."""

NVME_GB_S = 2.0


def check(m: Measures) -> Answer:
    """Ask whether the disk is what a load waits for."""
    rows = m.loads
    timed = (
        rows.join(_sizes(m, rows["run"].unique()), on="run", how="left", maintain_order="left")
        .filter("loaded")
        .drop_nulls("weights")
        .with_columns(reading_ms=pl.col("load_ms") - START_MS - pl.col("kv") / (CLEARED_GB_S * 1e6))
    )
    if not timed.height:
        return CannotTell("the log does not say how large a model is that it loads, or how long that takes")
    t = m.thresholds(RULE)
    slow = timed.filter(pl.col("weights") < t["slow_gb_s"] * 1e6 * pl.col("reading_ms"))
    if slow.height < max(t["loads"], timed.height / 2):
        return NotApplicable("loads are as fast as a solid-state disk")
    slow = slow.with_columns(saved=_saved_ms() / pl.col("load_ms"))
    saved_ms = float(slow.select(_saved_ms().sum()).item())
    if not m.worth(saved_ms, slow.height):
        return NotApplicable("too little time to matter")
    change = loads_avoided(generations_in(rows, slow, pl.col("saved")))
    gb_s = median(slow.select(pl.col("weights") / (1e6 * pl.col("reading_ms")))) or 0.0
    return RULE.finding(
        confidence=Confidence.POSSIBLE,
        why=f"{slow.height:,} of {timed.height:,} loads took {duration(median(slow.select('load_ms')))} for "
        f"{size(median(slow.select('weights')))} of weights: {gb_s:.2g} GB/s, where a plain NVMe disk gives "
        f"{NVME_GB_S:.0f}.",
        evidence=(
            m.evidence("slow loads", slow.height, "requests", rows=slow),
            m.evidence("load, median", median(slow.select("load_ms")), "ms"),
            m.evidence("read at about", round(gb_s, 3), "GB/s"),
        ),
        requests=slow.height,
        saving=m.saving(change, bound="at_most"),
        change=change,
        fixes=(m.fix("faster-disk"),),
        wont_help=("A faster GPU: the weights arrive at the disk's rate.",),
    )


def _sizes(m: Measures, runs: pl.Series) -> pl.DataFrame:
    """Weights and KV cache, in bytes, of each process; those of the only one where there is one."""
    setups = [m.setups[run] if run < len(m.setups) else m.setup for run in runs]
    weights = pl.Series([s.weights_bytes for s in setups], dtype=pl.Float64)
    kv = pl.Series([s.kv_bytes or 0 for s in setups], dtype=pl.Float64)
    return pl.DataFrame({"run": runs, "weights": weights, "kv": kv})


def _saved_ms() -> pl.Expr:
    return pl.col("reading_ms") - pl.col("weights") / (NVME_GB_S * 1e6)
