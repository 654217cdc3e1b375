"""The verdict in a sentence, the way a good colleague would say it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from rules.attribution import busy_windows
from rules.measures import FEW
from rules.physics.reading import outruns_reading
from rules.words import duration, percent, plural, rate

if TYPE_CHECKING:
    from rules.attribution import Verdict
    from rules.measures import Measures

_DOING = {
    "prefill": "reading the prompt",
    "decode": "generating the answer token by token",
    "queue": "waiting for a slot",
    "load": "loading the model",
}


def only_benchmarks(m: Measures) -> bool:
    """Whether the rows are a benchmark's, which has nobody waiting."""
    return m.requests.height > 0 and (m.requests["kind"] == "benchmark").all()


def verdict_sentence(m: Measures, decided: Verdict, healthy: bool | None) -> str:
    """One or two sentences: which phase, how much, and what that means for a request."""
    said = _where(m, decided)
    if healthy:
        said += " Nothing is slower than this setup should be."
    return said


def _where(m: Measures, decided: Verdict) -> str:
    requests = m.generations.height
    if not requests:
        return _without_requests(m, decided)
    if decided.phase == "unknown":
        total = f" ({duration(m.wall_ms)} in all)" if m.wall_ms else ""
        return f"This log can't tell prefill from decode for its {plural(requests, 'request')}{total}."
    if decided.phase == "mixed":
        return _mixed(m)
    phase_ms = m.attribution.phase_ms[decided.phase] or 0.0
    a_request = " a request" if requests > 1 else ""
    said = (
        f"{decided.phase.capitalize()} takes {percent(decided.share)} of the time, "
        f"{duration(phase_ms / requests)} of {duration(m.wall_ms / requests)}{a_request}: "
        f"{_DOING[decided.phase]}{_speed(m, decided.phase)}."
    )
    return said + _first_token(m)


def _mixed(m: Measures) -> str:
    shares = sorted(((p, s) for p, s in m.attribution.phase_share.items() if s), key=lambda item: -item[1])
    if shares and shares[0][0] == "other":
        rest = ", ".join(f"{p} {percent(s)}" for p, s in shares[1:])
        said = f"Most of the time, {percent(shares[0][1])}, is in no phase that the log names ({rest})."
        wrong = m.counts.impossible_values
        return said + (" Much of it is likely prefill, whose time this log gets wrong." if wrong else "")
    return f"No phase leads clearly: {', '.join(f'{p} {percent(s)}' for p, s in shares)}." + _first_token(m)


def _speed(m: Measures, phase: str) -> str:
    samples = {"prefill": (m.valid_prefill, m.prefill_tok_s), "decode": (m.valid_decode, m.decode_tok_s)}
    valid, tok_s = samples.get(phase, (None, None))
    if valid is None or tok_s is None or valid.height < FEW:
        return ""
    fast = ", faster than people read" if phase == "decode" and outruns_reading(tok_s) else ""
    return f" at {rate(tok_s)}{fast}"


def _first_token(m: Measures) -> str:
    ttft = m.generations["ttft_ms"].drop_nulls()
    if not ttft.len():
        return ""
    p50, p95 = (duration(ttft.quantile(q, interpolation="linear")) for q in (0.5, 0.95))
    since = "" if m.serial else " once a slot takes the request; waiting before that is not logged"
    if ttft.len() < FEW:
        return f" The first token comes after {p50}{since}."
    return f" The first token comes after {p50} at the median, {p95} at p95{since}."


def _without_requests(m: Measures, decided: Verdict) -> str:
    if decided.share is not None:
        return f"{percent(decided.share)} of the engine's step time is {decided.phase}."
    if only_benchmarks(m):
        tests = plural(m.requests.height, "test")
        return f"This is a benchmark's output: {tests} and no request, so there is no wait to split."
    if not m.intervals.height:
        errors = m.events.filter(pl.col("kind") == "error")["detail"].drop_nulls()
        failed = [detail for detail in errors if "could not be loaded" in detail]
        if failed:
            return f"Nothing was served: {failed[-1]}."
        return "The engine is recognised, but this log holds no timings."
    busy = busy_windows(m.intervals)
    by_phase = busy.group_by("phase").len().sort("len", "phase", descending=[True, False])
    seen = ", ".join(f"{n} {phase}" for phase, n in by_phase.iter_rows())
    if decided.phase != "unknown":
        return f"{decided.phase.capitalize()} leads in nearly all busy windows ({seen}); no times are told."
    many = plural(busy.height, "busy window")
    return f"Averages over windows can't split a request's latency; of {many}: {seen or 'none'}."
