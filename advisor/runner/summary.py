"""What the turns of each request say together."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from advisor.runner.result import PhaseShare, Spread, Summary
from rules.samples import VALID_DECODE_MS, VALID_DECODE_TOKENS, VALID_PREFILL_MS, VALID_PREFILL_TOKENS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from advisor.runner.block import Measured
    from advisor.runner.engine import Timed


def summarise(measured: Iterable[Measured]) -> list[Summary]:
    """One line for each request of each side, in the order they were first asked."""
    groups: dict[tuple[str, str], list[Measured]] = {}
    for one in measured:
        groups.setdefault((one.side, one.prompt.ask.label), []).append(one)
    return [_summary(side, label, [m.timed for m in of]) for (side, label), of in groups.items()]


def phase_share(measured: Sequence[Measured]) -> PhaseShare | None:
    """What each phase takes of the requests' time; ``None`` where one of them is not known of a request."""
    known = [(t.prefill_ms, t.decode_ms, t.total_ms) for t in (one.timed for one in measured)]
    whole_ms = sum(total for _, _, total in known)
    if not whole_ms or any(prefill is None or decode is None for prefill, decode, _ in known):
        return None
    return PhaseShare(
        prefill=round(sum(prefill or 0.0 for prefill, _, _ in known) / whole_ms, 4),
        decode=round(sum(decode or 0.0 for _, decode, _ in known) / whole_ms, 4),
    )


def _summary(side: str, label: str, of: Sequence[Timed]) -> Summary:
    gaps = list(chain.from_iterable(t.inter_token_ms for t in of))
    p50, p90, most = np.quantile(gaps, [0.5, 0.9, 1.0]) if gaps else (None, None, None)
    return Summary(
        side=side,
        label=label,
        requests=len(of),
        prompt_tokens=of[0].prompt_tokens,
        cached_tokens=_same(t.cached_tokens for t in of),
        output_tokens=of[0].output_tokens,
        prefill_tok_s=_rates(
            [(t.prefill_tokens, t.prefill_ms) for t in of], VALID_PREFILL_TOKENS, VALID_PREFILL_MS
        ),
        ttft_ms=_spread([t.ttft_ms for t in of]),
        decode_tok_s=_rates(
            [(t.decode_steps, t.decode_ms) for t in of], VALID_DECODE_TOKENS, VALID_DECODE_MS
        ),
        inter_token_p50_ms=_rounded(p50),
        inter_token_p90_ms=_rounded(p90),
        inter_token_max_ms=_rounded(most),
    )


def _rates(of: Sequence[tuple[int | None, float | None]], tokens: int, ms: float) -> Spread | None:
    """Rates of turns that together have enough tokens and time to make one."""
    known = [(n, took) for n, took in of if n and took]
    if sum(n for n, _ in known) < tokens or sum(took for _, took in known) < ms:
        return None
    return _spread([1000 * n / took for n, took in known])


def _spread(values: Sequence[float | None]) -> Spread | None:
    known = [value for value in values if value is not None]
    if not known:
        return None
    least, middle, most = np.quantile(known, [0.0, 0.5, 1.0])
    return Spread(p50=_digits(middle), min=_digits(least), max=_digits(most))


def _same(values: Iterable[int | None]) -> int | None:
    """What all turns agree on."""
    told = set(values)
    return told.pop() if len(told) == 1 else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else _digits(value)


def _digits(value: float) -> float:
    return round(float(value), 3)
