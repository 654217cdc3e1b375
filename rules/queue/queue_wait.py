"""Requests wait for a free slot before anything happens.

What it looks at:
    Where the engine logs it, the time each request spent waiting: a fifth of all time, or two seconds for
    one request in twenty; of metrics, the share in their sums. Where it logs windows or batches, how many of
    the busy ones had requests waiting, and what was full meanwhile: the KV cache, the limit of requests at
    once, or neither. Ollama's latency holds the wait, but no line names it: there, what latency has
    beyond load, prefill and decode while another request was running. llama-server logs nothing on arrival:
    there, all slots busy and a new request in the same moment that one ends is a sign, and so is a cancelled
    request that held its slot long after its client had left.

Why it matters:
    Waiting adds to the time to first token in full, and it grows steeply once the slots are busy most of
    the time.

When not to worry:
    Batch jobs that submit everything at once always queue; there the sum counts, not the wait. A backlog that
    only shrinks looks like one, and is then no fault. As many
    clients as slots, each sending its next request when the last one ends, look like a queue in a
    llama-server log and are none.

What to change:
    More requests at once where the limit is reached and the KV cache has room for them, if decode is not
    already limited by arithmetic; a larger KV cache where that is what is full; where neither is, a larger
    step is one of several things to try; else another replica. The saving assumes twice the slots and no
    slowdown, so it is an upper bound.

Sources:
    llama.cpp tools/server (`/metrics`, `/slots`); Ollama docs/faq.mdx (parallel requests); vLLM
    docs/configuration/optimization.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from rules.attribution import PHASES, SAMPLES, busy_samples
from rules.frames import known
from rules.measures import FEW
from rules.rule import CannotTell, Confidence, Finding, NotApplicable, Phase, Rule, Threshold
from rules.samples import median
from rules.savings import queue_scaled
from rules.stalls import largest
from rules.waits import busy_until, drains, holdup, more_slots, started_at_once, while_stalled
from rules.words import duration, percent

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.rule import Answer

RULE = Rule(
    id="queue-wait",
    across=True,
    phase=Phase.QUEUE,
    title="Requests wait for a free slot",
    remedies=("more-slots", "larger-kv-pool", "quantise-kv", "admit-more", "more-replicas", "smaller-batch"),
    verify="Under the same load, the engine's count of waiting requests should be 0 most of the time.",
    sources=("Ollama docs/faq.mdx", "vLLM docs/configuration/optimization.md"),
    thresholds={
        "queue_share": Threshold(0.2, "least share of all time that waiting takes"),
        "slow_ms": Threshold(2_000, "ms that the slowest twentieth waits, from which it matters anyway"),
        "waiting_share": Threshold(0.2, "least share of busy windows or batches with requests waiting"),
    },
)

SLOWEST = 0.95
WAITING_WINDOWS = 3

AT_ONCE_MS = 50.0
"""A server that has a request waiting starts it 1 to 10 ms after a slot is free (12 requests on 4 slots)."""

HELD_MS = 1_000.0

BEYOND_MS = 1_000.0
"""Templates, tokenizing and the network take a few hundred milliseconds at most."""

_LOOK = (
    "Start llama-server with --metrics and watch llamacpp:requests_deferred under load; or compare a "
    "client's time to first token with the prompt eval time: what is above it was spent waiting."
)

_BATCH_JOB = (
    "The backlog only shrank, as when a batch job hands in everything at once: then the job's time counts, "
    "not how long a request waits."
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
    if not m.generations.height and m.sums.total("queue_ms") is not None:
        return _summed(m)
    if m.intervals["waiting"].count():
        return _intervals(m)
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
    change, held = queue_scaled(0.5), holdup(m, m.intervals.filter(pl.col("waiting") > 0))
    why = (
        f"Requests waited {duration(queue_ms)} of {duration(m.wall_ms)} for a slot, one in twenty for "
        f"{duration(slow_ms)} or more."
    )
    return RULE.finding(
        confidence=Confidence.LIKELY,
        why=f"{why} {held.why}".rstrip(),
        evidence=(
            m.evidence("waiting, of all request time", round(share, 4), "share"),
            m.evidence("wait, median", median(rows.select("queue_ms")), "ms"),
            m.evidence("wait, 95th percentile", slow_ms, "ms", rows=waited.sort("queue_ms", descending=True)),
        ),
        requests=waited.height,
        saving=m.saving(change, bound="at_most"),
        change=change,
        fixes=held.fixes,
        wont_help=held.wont_help,
        verify=held.verify,
    )


def _summed(m: Measures) -> Answer:
    """From the sums of an engine's metrics, which know no single request."""
    share, requests = m.sums.attribution.phase_share["queue"], m.sums.total("requests")
    if share is None or requests is None:
        return CannotTell("the sums have no total")
    if share < m.thresholds(RULE)["queue_share"] or requests < FEW:
        return NotApplicable(f"waiting takes {percent(share)} of the time of {requests:.0f} requests")
    mean_ms, held = m.sums.per("queue_ms", "requests"), holdup(m, m.intervals.filter(pl.col("waiting") > 0))
    why = f"{requests:.0f} requests waited {duration(mean_ms)} on average, {percent(share)} of all time."
    return RULE.finding(
        confidence=Confidence.LIKELY,
        why=f"{why} {held.why}".rstrip(),
        evidence=(
            m.evidence("waiting, of all request time", round(share, 4), "share", rows=m.sums.rows),
            m.evidence("wait, mean", mean_ms, "ms"),
        ),
        requests=int(requests),
        fixes=held.fixes,
        wont_help=held.wont_help,
        verify=held.verify,
    )


def _intervals(m: Measures) -> Answer:
    busy = busy_samples(m.intervals.drop_nulls("waiting"))
    what = SAMPLES[str(busy["kind"][0])] if busy.height else "windows"
    waiting = busy.filter(pl.col("waiting") > 0)
    if not waiting.height or waiting.height < m.thresholds(RULE)["waiting_share"] * busy.height:
        return NotApplicable(f"requests were waiting in {waiting.height:,} of {busy.height:,} busy {what}")
    if while_stalled(m, waiting):
        return NotApplicable("they wait while long prompts are read, and prefill-stalls-decode says it")
    peak, running = (largest(rows) for rows in (waiting["waiting"], busy["running"]))
    cap, kv_usage = m.setup.max_running, median(waiting.select("kv_usage"))
    held, batch = holdup(m, waiting), drains(busy)
    sure = held.sure and not batch and waiting.height >= WAITING_WINDOWS
    why = (
        f"In {waiting.height:,} of {busy.height:,} busy {what} requests were waiting, up to {peak}, "
        f"with at most {running} running"
        + (f" of {cap} allowed" if cap else "")
        + (f"; the KV cache was {percent(kv_usage)} full. " if kv_usage is not None else ". ")
        + (_BATCH_JOB if batch else held.why)
    )
    return RULE.finding(
        title="A batch job's requests wait for their turn" if batch else None,
        confidence=Confidence.LIKELY if sure else Confidence.POSSIBLE,
        fault=not batch,
        why=why.rstrip(),
        evidence=(
            m.evidence(f"busy {what} with requests waiting", round(waiting.height / busy.height, 4), "share"),
            m.evidence("most waiting", peak, "requests", rows=waiting.sort("waiting", descending=True)),
            m.evidence("most running", running, "requests"),
            *([m.stated("max_running", "allowed to run at once", unit="requests")] if cap else []),
            m.evidence("KV cache in use while waiting, median", kv_usage, "share"),
        ),
        requests=peak or 0,
        fixes=held.fixes,
        wont_help=held.wont_help,
        verify=held.verify,
    )


def _unnamed(m: Measures) -> Finding | None:
    """From latency that no phase explains, where another request was running meanwhile."""
    rows = m.generations.filter(pl.col("engine") == "ollama").drop_nulls(
        ["total_ms", "prefill_ms", "decode_ms"]
    )
    if not rows.height:
        return None
    named = sum((pl.col(f"{phase}_ms").fill_null(0) for phase in PHASES), pl.lit(0.0))
    waited = (
        rows.join(busy_until(m.requests), on=["source", "line"], how="left")
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
        why=f"{waited.height:,} of {rows.height:,} requests took "
        f"{duration(median(waited.select('beyond_ms')))} longer than their load, prefill and decode "
        f"together{meanwhile}: {duration(beyond_ms)} of "
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
        fixes=(more_slots(m, m.setup.slots),),
        verify=_ONE_BY_ONE,
    )


def _inferred(m: Measures) -> Answer:
    """From the process's clock: who started the moment another ended, and whose slot was held for nobody."""
    slots = m.setup.slots
    held = m.events.filter((pl.col("kind") == "aborted") & (pl.col("value") >= HELD_MS))
    held_ms = float(held["value"].sum())
    timed = known(m.generations, ["clock_start_ms", "clock_end_ms"])
    started = started_at_once(timed, slots, AT_ONCE_MS) if slots and slots > 1 else timed.clear()
    queued = started.height >= FEW and started.height >= 0.5 * timed.height
    blocked = m.worth(held_ms, held.height)
    if not queued and not blocked:
        return CannotTell("this engine logs nothing on arrival, so a wait leaves no line")
    why, evidence, fixes = [], [], []
    if queued:
        why.append(
            f"{started.height:,} of {timed.height:,} requests started within {AT_ONCE_MS:.0f} ms of "
            f"another's end, with all {slots} slots busy until then. They may have been waiting for it; or "
            f"{slots} clients each send their next request when the last one is done, and nobody waits."
        )
        evidence.append(m.evidence("started as a slot came free", started.height, "requests", rows=started))
        fixes.append(more_slots(m, slots or m.overlap.most))
    if blocked:
        why.append(
            f"{held.height:,} cancelled request{'' if held.height == 1 else 's'} held a slot for "
            f"{duration(held_ms)} after the client had left, since a cancel is seen only between "
            "batches; whoever came then had to wait."
        )
        evidence.append(m.evidence("slots held for cancelled requests", round(held_ms, 1), "ms", rows=held))
        fixes.append(m.fix("smaller-batch"))
    if slots:
        evidence.append(m.stated("slots", "slots"))
    return RULE.finding(
        title="Requests may be waiting for a free slot" if queued else "Cancelled requests held their slot",
        confidence=Confidence.POSSIBLE,
        why=" ".join(why),
        evidence=evidence,
        requests=started.height if queued else held.height,
        fixes=fixes,
        wont_help=() if queued else (_NO_SLOTS,),
        verify=_LOOK,
    )
