"""What came back at one moment, and in words what keeps us from seeing anything in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from advisor.sources.served.engines import METRICS

if TYPE_CHECKING:
    from datetime import datetime

    from advisor.sources.served.engines import Engine, Looked
    from advisor.sources.served.web import Answer
    from parsers.formats.prometheus.scrape import Scraper

_NO_KEY = {401, 403}


@dataclass(frozen=True, slots=True)
class Round:
    """What came back at one moment.

    Attributes:
        time: when, UTC.
        clock_s: the same by a clock that is never set.
        answers: by address.
        looked: who answers, where that was asked anew.
        trouble: why there is no answer, in a few words.
    """

    time: datetime
    clock_s: float
    answers: dict[str, Answer]
    looked: Looked | None = None
    trouble: str | None = None


def trouble_of(came: Round, scraper: Scraper | None, key: str) -> str | None:
    """Why nothing can be seen, in words that follow the address; ``None`` where something can.

    Args:
        came: what came back.
        scraper: what read the answers so far.
        key: what they are asked for with, in words; empty for nothing.
    """
    if came.trouble is not None:
        return f"no answer ({came.trouble}); trying again"
    statuses = [answer.status for answer in came.answers.values() if answer.status != 200]
    engine_known = came.looked is None or came.looked.engine is not None
    if not engine_known or (came.looked is None and statuses):
        if _NO_KEY.intersection(statuses):
            asks = "it asks for a key; set the environment variable PHASEWISE_TOKEN to it"
            return f"it refuses {key}" if key else asks
        if 503 in statuses:
            return "answers 503, as an engine does that loads its model; trying again"
        if engine_known:
            return f"answers {statuses[0]}; trying again"
        return "answers, but as no engine whose addresses I know; trying again"
    if came.looked is None and scraper is not None and not scraper.knows(came.answers[METRICS].body):
        return f"answers, but not with metrics at {METRICS}; trying again"
    return None


def hint(metrics: Answer, engine: Engine) -> str:
    """What to do to see more of an engine that has no metrics to read, in words that follow the address."""
    if METRICS not in engine.polled:
        return f"{engine.title}: {engine.hint}"
    return f"{engine.title} answers, but not with metrics at {METRICS} ({metrics.status}); {engine.hint}"
