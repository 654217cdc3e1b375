"""What a probe found as scripts read it: the keys of ``probe --format json``, schema ``phasewise.probe/1``.

Unknown is null, never 0; ``unknown`` says why. Times are ms on the clock of who asked, unless a key says
``server``. Shares are 0-1.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from advisor.section import Phases, Section
from rules.attribution import VerdictPhase

SCHEMA = "phasewise.probe/1"


class Interval(Section):
    """A value and its 95 % interval."""

    value: float
    low: float
    high: float | None


class Length(Section):
    """Medians over the prompts of one length that ran alone, none of them cached.

    ``prefill_ms`` is the server's own where it says one, else the time to the first token without what every
    request costs: ``prefill_from``.
    """

    aimed_tokens: int
    requests: int
    prompt_tokens: float | None
    ttft_ms: float
    prefill_ms: float | None
    prefill_tok_s: float | None
    prefill_from: Literal["server", "stream"] | None
    decode_ms: float
    tpot_ms: float | None
    decode_tok_s: float | None


class Prefill(Section):
    """What is added to ``fixed_ms``, which every request costs, for each token of a prompt.

    ``tok_s`` is null where attention makes longer prompts slower: each of ``lengths`` then has its own rate.
    """

    tok_s: Interval | None
    fixed_ms: Interval
    requests: int


class Decode(Section):
    """Of all requests that ran alone; ``itl`` are gaps between tokens, null where an event holds several."""

    tpot_ms: float | None
    tok_s: float | None
    itl_p50_ms: float | None
    itl_p90_ms: float | None
    itl_max_ms: float | None
    tokens_per_event: float | None


class Cached(Section):
    """The same prompt again; ``is_cached`` null where it can't be told."""

    first_ttft_ms: float
    repeat_ttft_ms: float
    prompt_tokens: int | None
    cached_tokens: int | None
    is_cached: bool | None


class Queue(Section):
    """Requests sent at once; ``served_at_once`` is how many got tokens at the same time.

    ``waited_ms`` are the waits, the shortest first; null where waiting can't be told from sharing.
    """

    at_once: int
    served_at_once: int
    alone_ttft_ms: float
    first_ttft_ms: float
    last_ttft_ms: float
    waited_ms: list[float | None]
    waited_from: Literal["server", "stream"] | None


class Server(Section):
    """The server's own clock beside the stream's: medians of the same requests."""

    prefill_tok_s: float | None
    stream_prefill_tok_s: float | None
    decode_tok_s: float | None
    stream_decode_tok_s: float | None


class Shares(Section):
    """Where the time of a set of the probe's requests went."""

    wall_ms: float
    share: Phases
    phase: VerdictPhase


class Probe(Section):
    """All of it."""

    schema_: str = Field(SCHEMA, alias="schema")
    address: str
    engine: str
    engine_version: str | None
    model: str | None
    context: int | None
    slots: int | None
    api: str
    output_tokens: int
    requests: int
    is_complete: bool
    lengths: list[Length]
    prefill: Prefill | None
    decode: Decode | None
    cached: Cached | None
    queue: Queue | None
    server: Server | None
    alone: Shares | None
    together: Shares | None
    unknown: list[str]
    next: list[str]
