"""Who waited, of requests that were sent at once.

Where the server tells what its phases took, a wait is what is left of the time to the first token, less what
a request costs that runs alone. Else it is seen in who got tokens when: with n requests served at once, the
next one got its first token after one of them had ended, and waited for that at least.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Literal

from advisor.probe.plan import Kind
from advisor.probe.result import Queue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from advisor.probe.client import Sample

_NO_MORE = 1.5
"""Up to so many times the time to the first token alone, nobody waited for long."""


@dataclass(frozen=True, slots=True)
class Waits:
    """What each of the requests waited.

    Attributes:
        samples: the requests, in the order of their first tokens.
        ms: of each; ``None`` where waiting can't be told from sharing.
        source: whose clock told it; ``None`` where none did.
        served: how many got tokens at the same time.
        alone_ms: time to the first token of such a request that runs alone.
    """

    samples: tuple[Sample, ...]
    ms: tuple[float | None, ...]
    source: Literal["server", "stream"] | None
    served: int
    alone_ms: float

    @property
    def result(self) -> Queue:
        """The same for scripts."""
        return Queue(
            at_once=len(self.samples),
            served_at_once=self.served,
            alone_ttft_ms=self.alone_ms,
            first_ttft_ms=min(one.ttft_ms for one in self.samples),
            last_ttft_ms=max(one.ttft_ms for one in self.samples),
            waited_ms=sorted(self.ms, key=lambda ms: ms or 0.0),
            waited_from=self.source,
        )


def waits(samples: Sequence[Sample]) -> Waits | None:
    """What those waited that were sent at once; ``None`` without any, or if none like them ran alone."""
    together = sorted(
        (one for one in samples if one.planned.kind is Kind.AT_ONCE), key=lambda one: one.came_s[0]
    )
    if len(together) < 2:
        return None
    size = together[0].planned.tokens
    alike = [one for one in samples if one.planned.kind is Kind.LENGTH and one.planned.tokens == size]
    if not alike:
        return None
    alone_ms, served = median(one.ttft_ms for one in alike), lanes(together)
    by_server = _by_server(together, alike)
    ms = by_server or _by_stream(together, served, alone_ms)
    known = any(one is not None for one in ms)
    source: Literal["server", "stream"] = "server" if by_server else "stream"
    return Waits(tuple(together), tuple(ms), source if known else None, served, alone_ms)


def lanes(samples: Sequence[Sample]) -> int:
    """How many got tokens at the same time, at most."""
    return max(
        sum(other.came_s[0] <= one.came_s[0] <= other.came_s[-1] for other in samples) for one in samples
    )


def own_ms(sample: Sample) -> float | None:
    """Load and prefill by the server's own clock; ``None`` where it tells none."""
    if sample.own is None or sample.own.prefill_ms is None:
        return None
    return sample.own.prefill_ms + (sample.own.load_ms or 0.0)


def _by_server(together: Sequence[Sample], alike: Sequence[Sample]) -> list[float | None]:
    """Waits by the server's clock; nothing where it does not tell all of them."""
    alone = [one.ttft_ms - ms for one in alike if (ms := own_ms(one)) is not None]
    left = [one.ttft_ms - ms for one in together if (ms := own_ms(one)) is not None]
    if not alone or len(left) < len(together):
        return []
    return [max(ms - median(alone), 0.0) for ms in left]


def _by_stream(together: Sequence[Sample], served: int, alone_ms: float) -> list[float | None]:
    """Waits by who got tokens when; only where fewer were served at once than were sent."""
    if served == len(together):
        return [None] * len(together)
    ends_s = sorted(one.came_s[-1] for one in together)
    first = [0.0 if one.ttft_ms <= _NO_MORE * alone_ms else None for one in together[:served]]
    later = [
        max(1000 * (end_s - one.sent_s), 0.0) for one, end_s in zip(together[served:], ends_s, strict=False)
    ]
    return [*first, *later]
