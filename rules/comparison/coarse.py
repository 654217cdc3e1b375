"""What can be compared of logs that hold no requests: an engine's steps, or sums over requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from rules.comparison.dimensions import EVALUATED_TOKENS, LEVEL
from rules.comparison.quantities import Quantity, Side, of_speed
from rules.comparison.samples import Samples
from rules.comparison.split import Phase, Split, exact
from rules.snapshots import between, servers
from rules.sums import Sums

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.snapshots import Told

NO_INTERVAL = "only sums are known, so whether this is chance can't be told"

_MEANS = {
    "ttft": ("ttft_ms", "ttft_requests"),
    "queue": ("queue_ms", "requests"),
    "prefill": ("prefill_ms", "prefill_tokens"),
    "decode": ("decode_ms", "decode_steps"),
    "total": ("total_ms", "requests"),
}
_PHASES: tuple[Phase, ...] = ("queue", "prefill", "decode")


def has_steps(m: Measures) -> bool:
    """Whether the log holds an engine's steps, each with its time."""
    return m.intervals.filter((pl.col("kind") == "iteration") & (pl.col("span_ms") > 0)).height > 0


def step_quantities(before: Measures, after: Measures) -> list[Quantity]:
    """Prefill and decode of two logs of steps: each request gets a token a step."""
    steps = pl.concat(
        m.intervals.filter((pl.col("kind") == "iteration") & (pl.col("span_ms") > 0)).with_columns(
            after=pl.lit(value=late),
            norm=pl.lit(1.0),
            level=pl.coalesce("decode_tokens", "running"),
            evaluated=pl.col("prefill_tokens"),
        )
        for late, m in ((False, before), (True, after))
    )
    prefill = steps.filter((pl.col("phase") == "prefill") & (pl.col("prefill_tokens") > 0)).with_columns(
        value=pl.col("span_ms") / pl.col("prefill_tokens")
    )
    decode = steps.filter(pl.col("phase") == "decode").with_columns(value=pl.col("span_ms"))
    found = [
        of_speed(Samples(prefill, (EVALUATED_TOKENS,)), "prefill"),
        of_speed(Samples(decode, (LEVEL,)), "decode"),
    ]
    return [q for q in found if q.before.n or q.after.n]


OVERLAPPING = (
    "the sums of one side may hold those of the other, since both count from a server's start: restart the "
    "server between the runs, and name the earlier sums first"
)


def apart(before: Sums, after: Sums) -> tuple[Sums, Sums] | None:
    """The sums of both sides, no request in both.

    A server's sums count from its start, so those after a change without a restart hold those before it: of
    such a server, what was added is after.

    Returns:
        None where one side may hold the other, and nothing tells.
    """
    told, added = before.rows.to_dicts(), []
    for later in after.rows.to_dicts():
        chains = [chain for earlier in told if len(chain := _chain(earlier, later)) > 1]
        if any(chain[0][0] is later or later["since"] is None for chain in chains):
            return None
        firsts = [chain[0][0] for chain in chains]
        first = max(firsts, key=lambda row: row["requests"] or 0, default=None)
        added.append(later if first is None else {**between(first, later), "kind": later["kind"]})
    return before, Sums(pl.DataFrame(added, schema=after.rows.schema)) if added else after


def _chain(earlier: Told, later: Told) -> list[tuple[Told, Told]]:
    """Both rows in their order if one may count what the other counted, else one of them alone."""
    if any(row["kind"] != "since_start" for row in (earlier, later)):
        return []
    if (earlier["engine"], earlier["model"]) != (later["engine"], later["model"]):
        return []
    return next(servers([(earlier, earlier), (later, later)]))


def sum_quantities(before: Sums, after: Sums) -> list[Quantity]:
    """Means on both sides, with no interval."""
    found = []
    for name, (ms, of) in _MEANS.items():
        then, now = (Side(_count(sums, of), mean=sums.per(ms, of)) for sums in (before, after))
        if then.mean is None and now.mean is None:
            continue
        only = "after" if then.mean is None else "before" if now.mean is None else None
        why = f"only the log {only} has it" if only else NO_INTERVAL
        found.append(Quantity(name, then, now, unknown=why, alike_unknown=why))
    return found


def sum_split(before: Sums, after: Sums) -> Split | None:
    """How the mean total changed, phase by phase."""
    totals = [sums.per("total_ms", "requests") for sums in (before, after)]
    if totals[0] is None or totals[1] is None:
        return None
    parts = []
    for phase in _PHASES:
        means = [sums.per(f"{phase}_ms", "requests") for sums in (before, after)]
        if means[0] is not None and means[1] is not None:
            parts.append(exact(phase, means[1] - means[0]))
    rest = totals[1] - totals[0] - sum(part.ms for part in parts)
    return Split(totals[0], totals[1], (*parts, exact("other", rest)))


def _count(sums: Sums, column: str) -> int:
    total = sums.total(column)
    return 0 if total is None else int(total)
