"""Which request continues which, where several conversations take turns on the same slots.

A log names no conversations. A later turn repeats all of an earlier prompt and adds to it, so it is longer,
and what came from the cache says which one it repeats. A cache that works is taken for granted here: a turn
that misses it right after its own predecessor is `prefix-unstable`'s matter. Strangers can look alike by
chance: a conversation is believed only where some of its turns found their predecessor in the cache, or
where a few long ones explain nearly every request.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from dataclasses import dataclass, field
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from rules.frames import beside, without
from rules.sessions import EVALUATED, RUN, may_grow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rules.measures import Measures

MAX_OPEN = 64
"""Conversations that may still go on; the one that waited longest is given up for a new one."""

LARGEST_STEP = 2.0
"""A turn adds less than what was there."""

REUSED_SHARE, LOST_SHARE = 0.7, 0.3
"""Of the prompt before: a working cache gives more than 0.9, a lost one no more than the fixed start."""

SAME_SHARE = 0.9
"""Of an earlier prompt: with so much of it cached, this is the text that was found."""

LONG_TURNS = 5
"""Requests of a conversation that shows a pattern."""

FOLLOWING_SHARE = 0.8

PROVEN = 3
"""Turns that found their predecessor, from which the cache is known to work for conversations."""

RUNS = ("talker", "before", "said", "kept", "others", "taken")
_FIRST = (-1,) * 5
"""Of a conversation's first request: what the columns after ``talker`` hold."""


@dataclass(slots=True)
class _Talk:
    """A conversation at its last request."""

    number: int
    row: int
    part: int
    line: int
    prompt: int
    left: int
    slot: int | None
    written: int

    def goes_on(self, prompt: int, part: int, begun: int) -> bool:
        """Whether a prompt that a request began with here can be its next: not too long, and after it."""
        return prompt <= LARGEST_STEP * self.left and (self.part != part or self.line < begun)


@dataclass(slots=True)
class _Walk:
    """The conversations of one process that may still go on, while its requests are walked in order."""

    talks: dict[int, _Talk] = field(default_factory=dict)
    by_left: list[tuple[int, int]] = field(default_factory=list)
    by_prompt: list[tuple[int, int]] = field(default_factory=list)
    on_slot: dict[int | None, int] = field(default_factory=dict)
    written: int = 0

    def continued(
        self, prompt: int, cached: int | None, slot: int | None, part: int, begun: int
    ) -> _Talk | None:
        """The conversation that a prompt goes on with.

        With most of it cached, the one whose text that is. A prompt that misses the cache goes on with the
        longest that it has room for, but not with what its slot held last: that it would have found.
        """
        if cached is not None and 2 * cached >= prompt:
            return self._found(prompt, cached, part, begun)
        but = None if cached is None else self.on_slot.get(slot)
        for talk in self._shorter(prompt):
            if talk.goes_on(prompt, part, begun) and (cached is None or talk.number != but):
                return talk
        return None

    def _found(self, prompt: int, cached: int, part: int, begun: int) -> _Talk | None:
        """The one with the least text that has what was cached; ahead of all, those whose answer fits too."""
        best: _Talk | None = None
        for at in range(bisect_left(self.by_left, (cached, 0)), bisect_left(self.by_left, (prompt + 1, 0))):
            talk = self.talks[self.by_left[at][1]]
            if best is not None and talk.left > best.left:
                return best
            if SAME_SHARE * talk.prompt <= cached and talk.goes_on(prompt, part, begun):
                best = talk
        if best is not None:
            return best
        longer = (t for t in self._by_prompt(prompt) if SAME_SHARE * t.prompt <= cached <= t.left)
        return min((t for t in longer if t.goes_on(prompt, part, begun)), key=lambda t: t.left, default=None)

    def _shorter(self, prompt: int) -> Iterator[_Talk]:
        """Conversations with a shorter prompt, longest first; ahead of all, those whose answer fits too."""
        for at in range(bisect_left(self.by_left, (prompt + 1, 0)) - 1, -1, -1):
            yield self.talks[self.by_left[at][1]]
        yield from self._by_prompt(prompt)

    def _by_prompt(self, prompt: int) -> Iterator[_Talk]:
        for at in range(bisect_left(self.by_prompt, (prompt, 0)) - 1, -1, -1):
            yield self.talks[self.by_prompt[at][1]]

    def note(self, talk: _Talk) -> None:
        """The conversation goes on with this request, or begins."""
        before = self.talks.pop(talk.number, None)
        if before is None and len(self.talks) == MAX_OPEN:
            before = self.talks.pop(next(iter(self.talks)))
        if before is not None:
            del self.by_left[bisect_left(self.by_left, (before.left, before.number))]
            del self.by_prompt[bisect_left(self.by_prompt, (before.prompt, before.number))]
        self.talks[talk.number] = talk
        insort(self.by_left, (talk.left, talk.number))
        insort(self.by_prompt, (talk.prompt, talk.number))
        self.on_slot[talk.slot] = talk.number


def follow(turned: pl.DataFrame) -> pl.DataFrame:
    """The turns (see `rules.sessions.turns`), each beside the request that it seems to go on with.

    Added columns: ``talker`` (a number for each conversation) and, null for its first request, ``before``
    (the row it goes on with), in tokens ``said`` (the prompt before), ``kept`` (all that was there after it)
    and ``others`` (what other requests wrote since), and ``taken``: another conversation used that slot
    since. Requests whose prompt is unknown are left out.
    """
    rows = (
        turned.with_columns(part=pl.col("row").min().over("source"))
        .drop_nulls("prompt")
        .with_columns(
            left=pl.coalesce("context_tokens", pl.col("prompt") + pl.col("output_tokens").fill_null(0)),
            wrote=EVALUATED.fill_null(0) + pl.col("output_tokens").fill_null(0),
        )
        .sort("run", "part", "first_line", "line", maintain_order=True)
    )
    walks: dict[tuple[object, ...], _Walk] = {}
    found = array("q")
    columns = (*RUN, "row", "part", "first_line", "line", "slot", "prompt", "cached_tokens", "left", "wrote")
    for *run, row, part, begun, line, slot, prompt, cached, left, wrote in rows.select(columns).iter_rows():
        walk = walks.setdefault(tuple(run), _Walk())
        old = walk.continued(prompt, cached, slot, part, begun or line)
        number = old.number if old else row
        if old:
            taken = walk.on_slot.get(old.slot) != number
            found.extend((number, old.row, old.prompt, old.left, walk.written - old.written, taken))
        else:
            found.extend((number, *_FIRST))
        walk.written += wrote
        walk.note(_Talk(number, row, part, line, prompt, left, slot, walk.written))
    told = pl.DataFrame(np.asarray(found, dtype=np.int64).reshape(-1, len(RUNS)), schema=list(RUNS))
    told = told.with_columns(pl.when(pl.col("before") >= 0).then(pl.col(*RUNS[1:])))
    return beside(rows.drop("part"), told.with_columns(pl.col("taken").cast(pl.Boolean)))


def later_turns(followed: pl.DataFrame) -> pl.DataFrame:
    """Requests that go on with an earlier one, where what came from the cache and the time are known.

    Added columns: ``share`` of the prompt before that came from the cache, ``lost`` and ``found`` (see
    `LOST_SHARE`), and ``proven``: its conversation once found its predecessor.
    """
    share = pl.col("cached_tokens") / pl.col("said")
    return (
        followed.filter(pl.col("said") > 0)
        .drop_nulls(["cached_tokens", "prefill_ms"])
        .with_columns(share=share, lost=share < LOST_SHARE, found=share >= REUSED_SHARE)
        .with_columns(proven=pl.col("found").any().over("talker"))
    )


def at_once(followed: pl.DataFrame) -> int:
    """Most conversations under way at a time, each of two requests or more, from its first to its last."""
    order = followed.with_row_index("place").with_columns(length=pl.len().over("talker"))
    spans = (
        order.filter(pl.col("length") > 1)
        .group_by("talker")
        .agg(first=pl.col("place").cast(pl.Int64).min(), last=pl.col("place").cast(pl.Int64).max())
    )
    if not spans.height:
        return 0
    begins = spans.select(place="first", step=pl.lit(1))
    ends = spans.select(place=pl.col("last") + 1, step=pl.lit(-1))
    walked = pl.concat([begins, ends]).sort("place", "step")
    return int(walked.select(pl.col("step").cum_sum().max()).item())


def hardly_chance(followed: pl.DataFrame) -> bool:
    """Whether these conversations explain the requests better than prompts in random order would.

    Nearly all requests must go on with another, each conversation at once must have five of them, and there
    must be few at once: random order falls into about twice the square root of their number.
    """
    if not followed.height:
        return False
    following = followed["before"].count() / followed.height
    most = min(followed.height / LONG_TURNS, 1 + sqrt(followed.height) / 2)
    return following >= FOLLOWING_SHARE and at_once(followed) <= most


@dataclass(frozen=True, slots=True)
class PushedOut:
    """Turns that came back to a slot that another conversation had used since, and found little there.

    Attributes:
        lost: those turns, as `later_turns` gives them.
        alone: turns with nothing in between, which found their history.
        sessions: most conversations under way at once.
        shown: the turns alone show that the cache works when nobody interferes.
    """

    lost: pl.DataFrame
    alone: pl.DataFrame
    sessions: int
    shown: bool


def pushed_out(m: Measures, least: float) -> PushedOut | None:
    """The turns that conversations on shared slots lost to each other; ``None`` where none are seen.

    Without turns alone to compare with, prompts must go up and down: where nearly all grow, they may as well
    be one conversation, or a batch that is sorted by length.

    Args:
        m: the log's measures.
        least: turns below which there is no pattern.
    """
    turns = without(later_turns(m.followed), m.reprocessed)
    alone = turns.filter(~pl.col("taken"), "found")
    lost = turns.filter("taken", "lost")
    proven = lost.filter("proven")
    shown = alone.height >= PROVEN and proven.height >= least
    if shown:
        lost = proven
    elif may_grow(m.turns) or not (hardly_chance(m.followed) and turns.filter("taken")["lost"].mean() == 1.0):
        return None
    sessions = at_once(m.followed)
    return PushedOut(lost, alone, sessions, shown) if sessions >= 2 and lost.height >= least else None
