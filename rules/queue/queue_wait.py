"""Requests wait for a free slot before anything happens.

What it looks at:
    Where the engine logs it, the time each request spent waiting: a fifth of all time, or two seconds for
    one request in twenty. Where it logs windows, how many of the busy ones had requests waiting. Ollama's
    latency holds the wait, but no line names it: there, what latency has beyond load, prefill and decode
    while another request was running. llama-server logs nothing on arrival: there, all slots busy and a new
    request in the same moment that one ends is a sign, and so is a cancelled request that held its slot
    long after its client had left.

Why it matters:
    Waiting adds to the time to first token in full, and it grows steeply once the slots are busy most of
    the time.

When not to worry:
    Batch jobs that submit everything at once always queue; there the sum counts, not the wait. As many
    clients as slots, each sending its next request when the last one ends, look like a queue in a
    llama-server log and are none.

What to change:
    More requests at once, if decode is not already limited by arithmetic; a larger KV cache where that is
    what is full; else another replica. The saving assumes twice the slots and no slowdown, so it is an
    upper bound.

Sources:
    llama.cpp tools/server (`/metrics`, `/slots`); Ollama docs/faq.mdx (parallel requests); vLLM
    docs/configuration/optimization.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from rules.attribution import PHASES, busy_windows
from rules.measures import FEW, median
from rules.queue import concurrency_over_saturated
from rules.remedies import fix
from rules.rule import CannotTell, Confidence, Finding, NotApplicable, Phase, Rule, Threshold
from rules.savings import queue_scaled
from rules.words import duration, percent

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.remedies import Fix
    from rules.rule import Answer

RULE = Rule(
    id="queue-wait",
    phase=Phase.QUEUE,
    title="Requests wait for a free slot",
    remedies=("more-slots", "more-replicas", "smaller-batch", "larger-kv-pool"),
    verify="Under the same load, the engine's count of waiting requests should be 0 most of the time.",
    sources=("Ollama docs/faq.mdx", "vLLM docs/configuration/optimization.md"),
    thresholds={
        "queue_share": Threshold(0.2, "least share of all time that waiting takes"),
        "slow_ms": Threshold(2_000, "ms that the slowest twentieth waits, from which it matters anyway"),
        "waiting_share": Threshold(0.2, "least share of busy windows with requests waiting"),
    },
)

SLOWEST = 0.95
WAITING_WINDOWS = 3
KV_FULL = 0.9

AT_ONCE_MS = 50.0
"""A server that has a request waiting starts it 1 to 10 ms after a slot is free (12 requests on 4 slots)."""

HELD_MS = 1_000.0

BEYOND_MS = 1_000.0
"""Templates, tokenizing and the network take a few hundred milliseconds at most."""

_LOOK = (
    "Start llama-server with --metrics and watch llamacpp:requests_deferred under load; or compare a "
    "client's time to first token with the prompt eval time: what is above it was spent waiting."
)

_NO_SLOTS = (
    "More slots: the next request then shares the machine with the abandoned one. Behind a dropped prompt of "
    "2,500 tokens, on two cores, it waited 7 s with -np 2 and 0.7 s with -b 256."
)

_ONE_BY_ONE = (
    "Send the same requests one after the other: if each then takes about its load, prefill and decode, they "
    "had been waiting; if not, the time goes elsewhere, and more slots won't help."
)


def check(m: Measures) -> Answer:
    """Ask whether requests waited, in the words of what this engine logs."""
    if m.generations["queue_ms"].count():
        return _logged(m)
    if m.intervals["waiting"].count():
        return _windows(m)
    return _unnamed(m) or _inferred(m)


def _logged(m: Measures) -> Answer:
    t = m.thresholds(RULE)
    rows = m.generations.drop_nulls("queue_ms")
    share, slow_ms = m.share(Phase.QUEUE), float(rows["queue_ms"].quantile(SLOWEST) or 0.0)
    if share < t["queue_share"] and slow_ms < t["slow_ms"]:
        return NotApplicable(f"waiting takes {percent(share)} of the time")
    waited = rows.filter(pl.col("queue_ms") > 0)
    queue_ms = float(waited["queue_ms"].sum())
    if not m.worth(queue_ms, waited.height):
        return NotApplicable("too little time to matter")
    change = queue_scaled(0.5)
    return RULE.finding(
        confidence=Confidence.LIKELY,
        why=f"Requests waited {duration(queue_ms)} of {duration(m.wall_ms)} for a slot, one in "
        f"twenty for {duration(slow_ms)} or more.",
        evidence=(
            m.evidence("waiting, of all request time", round(share, 4), "share"),
            m.evidence("wait, median", median(rows.select("queue_ms")), "ms"),
            m.evidence("wait, 95th percentile", slow_ms, "ms", rows=waited.sort("queue_ms", descending=True)),
        ),
        requests=waited.height,
        saving=m.saving(change, bound="at_most"),
        change=change,
        fixes=(_more_slots(m, m.setup.max_running or m.setup.slots),),
    )


def _windows(m: Measures) -> Answer:
    told = m.intervals.drop_nulls("waiting")
    busy = busy_windows(told)
    waiting = busy.filter(pl.col("waiting") > 0)
    if not waiting.height or waiting.height < m.thresholds(RULE)["waiting_share"] * busy.height:
        return NotApplicable(f"requests were waiting in {waiting.height} of {busy.height} busy windows")
    peak = int(waiting.select(pl.col("waiting").max()).item())
    running = busy.select(pl.col("running").max()).item()
    cap = m.setup.max_running
    kv_usage = median(waiting.select("kv_usage"))
    kv_full = kv_usage is not None and kv_usage >= KV_FULL
    return RULE.finding(
        confidence=Confidence.LIKELY if waiting.height >= WAITING_WINDOWS else Confidence.POSSIBLE,
        why=f"In {waiting.height} of {busy.height} busy windows requests were waiting, up to {peak}, "
        f"with at most {running} running"
        + (f" of {cap} allowed" if cap else "")
        + (f"; the KV cache was {percent(kv_usage)} full." if kv_usage is not None else "."),
        evidence=(
            m.evidence("busy windows with requests waiting", round(waiting.height / busy.height, 4), "share"),
            m.evidence("most waiting", peak, "requests", rows=waiting.sort("waiting", descending=True)),
            m.evidence("most running", running, "requests"),
            *([m.stated("max_running", "allowed to run at once", unit="requests")] if cap else []),
            m.evidence("KV cache in use while waiting, median", kv_usage, "share"),
        ),
        requests=peak,
        fixes=(m.fix("larger-kv-pool"),) if kv_full else (_more_slots(m, cap or running),),
        wont_help=("More requests at once: the KV cache is full, so they would push each other out.",)
        if kv_full
        else (),
    )


def _unnamed(m: Measures) -> Finding | None:
    """From latency that no phase explains, where another request was running meanwhile."""
    rows = m.generations.filter(pl.col("engine") == "ollama").drop_nulls(
        ["total_ms", "prefill_ms", "decode_ms"]
    )
    named = sum((pl.col(f"{phase}_ms").fill_null(0) for phase in PHASES), pl.lit(0.0))
    waited = (
        rows.join(_busy_until(m.requests), on=["source", "line"], how="left")
        .with_columns(beyond_ms=pl.col("total_ms") - named)
        .filter(pl.col("beyond_ms") >= BEYOND_MS)
    )
    shared = waited.filter(pl.col("busy_ms") >= 0.5 * pl.col("beyond_ms"))
    clocked = waited["busy_ms"].count() > 0
    if clocked:
        waited = shared
    beyond_ms = float(waited["beyond_ms"].sum())
    if beyond_ms < m.thresholds(RULE)["queue_share"] * m.wall_ms or not m.worth(beyond_ms, waited.height):
        return None
    meanwhile = ", while others were running" if clocked else ""
    return RULE.finding(
        title="Requests may be waiting for a free slot",
        confidence=Confidence.POSSIBLE,
        why=f"{waited.height} of {rows.height} requests took {duration(median(waited.select('beyond_ms')))} "
        f"longer than their load, prefill and decode together{meanwhile}: {duration(beyond_ms)} of "
        f"{duration(m.wall_ms)}. They may have waited for a free slot.",
        evidence=(
            m.evidence("latency beyond load, prefill and decode", round(beyond_ms, 1), "ms"),
            m.evidence(
                "the same, median of these",
                median(waited.select("beyond_ms")),
                "ms",
                rows=waited.sort("beyond_ms", descending=True),
            ),
            *([m.stated("slots", "slots")] if m.setup.slots else []),
        ),
        requests=waited.height,
        fixes=(_more_slots(m, m.setup.slots),),
        verify=_ONE_BY_ONE,
    )


def _busy_until(requests: pl.DataFrame) -> pl.DataFrame:
    """How long after each request's arrival one that had arrived before was still running, in ms."""
    still = pl.col("finished_at").cum_max().shift(1).over("source") - pl.col("started_at")
    return (
        requests.drop_nulls(["started_at", "finished_at"])
        .sort("source", "started_at", "finished_at")
        .select("source", "line", busy_ms=(still.dt.total_microseconds() / 1000).fill_null(0))
    )


def _inferred(m: Measures) -> Answer:
    """From the process's clock: who started the moment another ended, and whose slot was held for nobody."""
    slots = m.setup.slots
    held = m.events.filter((pl.col("kind") == "aborted") & (pl.col("value") >= HELD_MS))
    held_ms = float(held["value"].sum())
    timed = m.generations.drop_nulls(["clock_start_ms", "clock_end_ms"])
    started = _started_at_once(timed, slots) if slots and slots > 1 else timed.clear()
    queued = started.height >= FEW and started.height >= 0.5 * timed.height
    blocked = m.worth(held_ms, held.height)
    if not queued and not blocked:
        return CannotTell("this engine logs nothing on arrival, so a wait leaves no line")
    why = []
    if queued:
        why.append(
            f"{started.height} of {timed.height} requests started within {AT_ONCE_MS:.0f} ms of another's "
            f"end, with all {slots} slots busy until then: they may have been waiting for it."
        )
    if blocked:
        why.append(
            f"{held.height} cancelled request{'' if held.height == 1 else 's'} held a slot for "
            f"{duration(held_ms)} after the client had left, since a cancel is seen only between "
            "batches; whoever came then had to wait."
        )
    more, smaller = _more_slots(m, slots or m.concurrency), m.fix("smaller-batch")
    return RULE.finding(
        title="Requests may be waiting for a free slot" if queued else "Cancelled requests held their slot",
        confidence=Confidence.POSSIBLE,
        why=" ".join(why),
        evidence=(
            *(
                [m.evidence("started as a slot came free", started.height, "requests", rows=started)]
                if queued
                else []
            ),
            *(
                [m.evidence("slots held for cancelled requests", round(held_ms, 1), "ms", rows=held)]
                if blocked
                else []
            ),
            *([m.stated("slots", "slots")] if slots else []),
        ),
        requests=started.height if queued else held.height,
        fixes=(*([more] if queued else []), *([smaller] if blocked else [])),
        wont_help=() if queued else (_NO_SLOTS,),
        verify=_LOOK,
    )


def _started_at_once(timed: pl.DataFrame, slots: int) -> pl.DataFrame:
    """Requests that began as another ended, on a server whose slots were all busy until then."""
    starts = timed.with_row_index("at").select("source", "run", "at", t="clock_start_ms", step=pl.lit(1))
    ends = timed.select("source", "run", at=pl.lit(None, pl.UInt32), t="clock_end_ms", step=pl.lit(-1))
    process = ("source", "run")
    walked = (
        pl.concat([starts, ends])
        .sort("source", "run", "t", "step")
        .with_columns(
            running=pl.col("step").cum_sum().over(process),
            freed=pl.when(pl.col("step") < 0).then("t").forward_fill().over(process),
        )
        .filter(pl.col("step") > 0)
    )
    chosen = walked.filter((pl.col("running") == slots) & (pl.col("t") - pl.col("freed") <= AT_ONCE_MS))
    return timed.with_row_index("at").join(chosen.select("at"), on="at", how="semi")


def _more_slots(m: Measures, slots: int | None) -> Fix:
    """Twice as many as are known to run at once; in words where that is not known.

    Where more requests at once give no more tokens, another machine.
    """
    if isinstance(concurrency_over_saturated.check(m), Finding):
        return m.fix("more-replicas")
    return m.fix("more-slots", slots=2 * slots) if slots else fix("more-slots", None, slots="more")
