"""When the phases of a request were, as far as its row tells."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from advisor.report.page import VISIBLE, bar_of
from advisor.tui.phases import phase_ms

if TYPE_CHECKING:
    from collections.abc import Mapping

    Row = Mapping[str, Any]

_SAME = 0.01
"""Engines round the times of which they make a sum."""

BEFORE, AFTER, UNTOLD = "before its first token", "after its first token", "somewhere in its time"


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a request's time.

    Attributes:
        phase, glyph: as in any bar of phases.
        ms: how long it is.
        share: of all parts.
        start_ms: when it began, after the request did; ``None`` where that can't be told.
        about: in words when it was, where `start_ms` is ``None``.
    """

    phase: str
    glyph: str
    ms: float
    share: float
    start_ms: float | None
    about: str = ""


def token_ms(row: Row) -> float | None:
    """How long after its begin its first token came; ``None`` where its row does not tell, or gainsays."""
    ttft_ms, queue_ms, before_ms = row["ttft_ms"], row["queue_ms"] or 0.0, _before_token_ms(row)
    if ttft_ms is None or (row["ttft_from"] is None and queue_ms):
        return None
    at_ms = float(ttft_ms) + (queue_ms if row["ttft_from"] == "slot" else 0.0)
    if exceeds_total(row) or at_ms < before_ms * (1 - _SAME):
        return None
    return max(at_ms, before_ms)


def exceeds_total(row: Row) -> bool:
    """Whether its phases are longer than its total, which so does not hold all of them."""
    told = sum(ms or 0.0 for phase, ms in phase_ms(row).items() if phase != "other")
    return row["total_ms"] is not None and told > row["total_ms"] * (1 + _SAME)


def stretches(row: Row) -> list[Stretch]:
    """The parts of its time in their order; empty where no phase is known.

    What no phase explains lies before the first token as far as that came later than the phases before it.
    """
    parts = bar_of(phase_ms(row), 1)
    all_ms, token = sum(part.ms for part in parts), token_ms(row)
    other = next((part for part in parts if part.phase == "other"), None)
    gap_ms = 0.0 if token is None else token - _before_token_ms(row)
    early_ms = min(gap_ms, other.ms) if other and gap_ms >= VISIBLE * all_ms else 0.0
    in_doubt = exceeds_total(row) or (other is not None and token is None)

    def about(phase: str) -> str:
        """Empty where its begin is known."""
        if phase == "queue":
            return ""
        if in_doubt:
            return UNTOLD
        return BEFORE if early_ms and phase != "decode" else ""

    found = [(part, part.ms, about(part.phase)) for part in parts if part is not other]
    if other:
        at = next((at for at, (part, *_) in enumerate(found) if part.phase == "decode"), len(found))
        late = (other, other.ms - early_ms, UNTOLD if token is None else AFTER)
        found = [*found[:at], (other, early_ms, BEFORE), *found[at:], late]
    found = [one for one in found if one[1] >= VISIBLE * all_ms or one[0] is not other]
    ends = accumulate(ms for _, ms, _ in found)
    return [
        Stretch(part.phase, part.glyph, ms, ms / all_ms, None if said else end - ms, said)
        for (part, ms, said), end in zip(found, ends, strict=True)
    ]


def _before_token_ms(row: Row) -> float:
    return sum(row[f"{phase}_ms"] or 0.0 for phase in ("queue", "load", "prefill"))
