"""Embedding and rerank requests are kept apart.

What it looks at:
    Requests that generate no text.

Why it matters:
    They have no decode, and llama-server logs no time for them at all. In the split they would only blur
    it; yet they take slots and computing time from the others.

When not to worry:
    When they run on a server of their own.

What to change:
    Nothing for the numbers. If they disturb chats, give them their own process.

Sources:
    llama-server logs a launch and a release for such a task, and no timing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from rules.rule import Caveat

if TYPE_CHECKING:
    from rules.measures import Measures

ID = "embedding-requests"


def check(m: Measures) -> Caveat | None:
    """Say how many are left out."""
    apart = m.requests.filter(pl.col("kind").is_in(["embedding", "rerank"]))
    if not apart.height:
        return None
    which = " and ".join(sorted(set(apart["kind"].to_list())))
    requests = "request is" if apart.height == 1 else "requests are"
    timed = "" if apart["total_ms"].drop_nulls().len() else "; the log has no times for them"
    return Caveat(ID, f"{apart.height:,} {which} {requests} not in the phase split{timed}.")
