"""What an engine calls its numbers in Prometheus text, as data: one `Names` for each engine.

A number is named without the engine's prefix. ``name[value]`` is the part of a metric whose selecting label
has this value. Of several names the first that is there counts: engines rename their metrics.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

Of: TypeAlias = tuple[str, ...]
Kind: TypeAlias = Literal["", "sum", "count", "created"] | float
"""Which sample of a metric: its value, a histogram's sum and count, or the bucket up to a bound."""


class Part(NamedTuple):
    """What a sample is part of: the metric without its prefix, and which sample of it."""

    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class Names:
    """One engine's names.

    Attributes:
        engine: the name rows carry.
        title: for people.
        versions: whose names are known.
        prefixes: what all names begin with.
        model: labels that hold the model's name.
        core: of several models only those with one of these numbers count; others pass requests on to them.
        ranks: labels that tell parallel engines apart; their numbers add up.
        select: by metric, the label that selects a part of it; of several (`a,b`) the first that is set.
        requests: finished requests: a counter, or a histogram that each of them enters once.
        queue, prefill, decode, total: sums of times of the finished requests.
        per_batch: metrics whose presence says that ``prefill`` counts a batch once, for all its requests.
        busy: requests in a batch, on average since the start; up to one, batches are requests.
        queued_before: the total's clock starts after the queue, so the queue is added to it.
        first: time to first token, counted when it comes, so also for requests that run on.
        first_from: where that clock starts.
        gaps: time between tokens. Its sum is decode, if it has a gap for each token but the first ones.
        after_call: time of a gateway's call to its engine: with the first token's taken off, it is decode.
        per_token: time per output token of each finished request.
        running, waiting, kv_usage, hit_rate: the state when it was printed; the last two are shares, 0-1.
        batches: how many ``busy`` is the average of.
        live_prompt, live_output: tokens read and generated so far, those of unfinished requests too. A
            prompt may be credited when it is done, and hold what was reused.
        live_prefill, live_cached: of the prompts' tokens, those evaluated and those reused.
        aborted, failed: requests that have no times.
        facts: by label of the metric ``config``, the setup's fact that it states.
    """

    engine: str
    title: str
    versions: str
    prefixes: Of
    model: Of = ("model_name",)
    core: Of = ()
    ranks: Of = ("engine",)
    select: Mapping[str, str] = field(default_factory=dict)
    requests: Of = ()
    prompt_tokens: Of = ()
    cached_tokens: Of = ()
    prefill_tokens: Of = ()
    output_tokens: Of = ()
    queue: Of = ()
    prefill: Of = ()
    decode: Of = ()
    total: Of = ()
    per_batch: Of = ()
    busy: Of = ()
    queued_before: bool = False
    first: Of = ()
    first_from: Literal["arrival", "slot"] | None = None
    gaps: Of = ()
    after_call: Of = ()
    per_token: Of = ()
    running: Of = ()
    waiting: Of = ()
    kv_usage: Of = ()
    hit_rate: Of = ()
    batches: Of = ()
    live_prompt: Of = ()
    live_prefill: Of = ()
    live_cached: Of = ()
    live_output: Of = ()
    aborted: Of = ()
    failed: Of = ()
    config: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)

    def parts(self) -> dict[str, Part]:
        """What each sample that is read is part of, by its name without the prefix."""
        found: dict[str, Part] = {self.config: Part(self.config, "config")} if self.config else {}
        for column in fields(self):
            if column.name in _NUMBERS:
                for name in getattr(self, column.name):
                    bare = name.partition("[")[0]
                    found |= {
                        bare: Part(bare, ""),
                        f"{bare.removesuffix('_total')}_created": Part(bare, "created"),
                    }
                    found |= {f"{bare}_{kind}": Part(bare, kind) for kind in ("sum", "count")}
                    if column.name in ("first", "per_token"):
                        found[f"{bare}_bucket"] = Part(bare, "bucket")
        return found

    @property
    def gauges(self) -> frozenset[str]:
        """The metrics that may fall."""
        of = (*self.running, *self.waiting, *self.kv_usage, *self.hit_rate, *self.busy)
        return frozenset(name.partition("[")[0] for name in of)


_NUMBERS = frozenset(
    (
        *("requests", "prompt_tokens", "cached_tokens", "prefill_tokens", "output_tokens"),
        *("queue", "prefill", "decode", "total", "first", "gaps", "after_call", "per_token"),
        *("running", "waiting", "kv_usage", "hit_rate", "aborted", "failed", "per_batch", "busy"),
        *("batches", "live_prompt", "live_prefill", "live_cached", "live_output"),
    )
)


def unit_ms(name: str) -> float:
    """Milliseconds of a metric's unit, which its name ends in; seconds where it does not."""
    bare = name.partition("[")[0]
    return 1.0 if bare.endswith("_ms") else 0.001 if bare.endswith("_us") else 1000.0
