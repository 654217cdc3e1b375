"""The remedy against a GPU that rests between requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.remedies import fix

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.remedies import Fix

KEEP_S = 3_600


def keep_warm(m: Measures, every_s: float) -> Fix:
    """The engine's own switch, which only Metal has; elsewhere a request now and then.

    Args:
        m: the log's measures.
        every_s: seconds between two of those requests.
    """
    engine = m.engine if m.hardware.metal else None
    return fix("keep-warm", engine, m.setup.engine_version, keep_s=KEEP_S, every_s=every_s)
