"""The verdict in a sentence, the way a good colleague would say it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules import deaths
from rules.attribution import SAMPLES, busy_windows
from rules.deployments import deployments
from rules.measures import FEW
from rules.physics.reading import outruns_reading
from rules.stalls import largest
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
    """One or two sentences: which phase, how much, and what that means for a request; a death comes first."""
    said = " ".join(filter(None, (deaths.told(m), _where(m, decided))))
    if healthy:
        said += " Nothing is slower than this setup should be."
    return said


def _where(m: Measures, decided: Verdict) -> str:
    requests = m.generations.height
    if not requests:
        return summed(m, decided) if m.sums.attribution.wall_ms else _without_requests(m, decided)
    if decided.phase == "unknown":
        return _undecided(m)
    if decided.phase == "mixed":
        return _mixed(m)
    phase_ms = m.attribution.phase_ms[decided.phase] or 0.0
    a_request = " a request on average" if requests > 1 else ""
    said = (
        f"{decided.phase.capitalize()} takes {percent(decided.share)} of the time, "
        f"{duration(phase_ms / requests)} of {duration(m.wall_ms / requests)}{a_request}: "
        f"{_DOING[decided.phase]}{_speed(m, decided.phase)}."
    )
    return said + _first_token(m)


def _undecided(m: Measures) -> str:
    requests, decode = plural(m.generations.height, "request"), m.attribution.phase_share["decode"]
    if decode is None:
        total = f" ({duration(m.wall_ms)} in all)" if m.wall_ms else ""
        return f"This log can't tell prefill from decode for its {requests}{total}."
    rest = percent(m.attribution.phase_share["other"])
    return (
        f"Decode takes {percent(decode)} of the time of {requests}; the other {rest} are in no phase that is "
        f"told apart.{_first_token(m)}"
    )


def summed(m: Measures, decided: Verdict) -> str:
    """The verdict on requests that are only known by their sums."""
    attributed, requests = m.sums.attribution, m.sums.timed_requests
    shares = sorted(((p, s) for p, s in attributed.phase_share.items() if s), key=lambda item: -item[1])
    parts = ", ".join(f"{p} {percent(s)}" for p, s in shares) or "no phase is told"
    of = plural(requests, "request") if requests else "an unknown number of requests"
    if decided.phase == "unknown":
        said = (
            f"These sums over {of} ({duration(attributed.wall_ms)}) don't tell prefill from decode: {parts}."
        )
    elif decided.phase == "mixed":
        said = f"No phase leads clearly over {of}: {parts}."
    else:
        phase_ms, wall_ms = attributed.phase_ms[decided.phase] or 0.0, attributed.wall_ms
        many = requests or 1
        each = " a request on average" if requests else " in all"
        said = (
            f"{decided.phase.capitalize()} takes {percent(decided.share)} of the time over {of}, "
            f"{duration(phase_ms / many)} of {duration(wall_ms / many)}{each}: {_DOING[decided.phase]}."
        )
    if attributed.phase_ms["queue"] is None and attributed.split:
        said += " Waiting for a slot is not in these sums."
    return said + _first_token_of_sums(m)


def _first_token_of_sums(m: Measures) -> str:
    mean_ms, medians = m.sums.per("ttft_ms", "ttft_requests"), m.sums.rows["ttft_p50_ms"]
    if mean_ms is not None:
        return f" The first token comes after {duration(mean_ms)} on average."
    if medians.len() == 1 and medians[0] is not None:
        return f" The first token comes after {duration(medians[0])} at the median."
    return ""


def _mixed(m: Measures) -> str:
    shares = sorted(((p, s) for p, s in m.attribution.phase_share.items() if s), key=lambda item: -item[1])
    if shares and shares[0][0] == "other":
        rest = ", ".join(f"{p} {percent(s)}" for p, s in shares[1:])
        said = f"Most of the time, {percent(shares[0][1])}, is in no phase that the log names ({rest})."
        wrong = m.counts.impossible_values
        return said + (" Much of it is likely prefill, whose time this log gets wrong." if wrong else "")
    return f"No phase leads clearly: {', '.join(f'{p} {percent(s)}' for p, s in shares)}." + _first_token(m)


def _speed(m: Measures, phase: str) -> str:
    told = {"prefill": (m.prefill_samples, m.prefill_tok_s), "decode": (m.decode_samples, m.decode_tok_s)}
    samples, tok_s = told.get(phase, (0, None))
    if tok_s is None or samples < FEW or len(deployments(m)) > 1:
        return ""
    fast = ", faster than people read" if phase == "decode" and outruns_reading(tok_s) else ""
    return f" at {rate(tok_s)}{fast}"


def _first_token(m: Measures) -> str:
    ttft = m.generations["ttft_ms"].drop_nulls()
    if not ttft.len():
        return ""
    p50, p95 = (duration(ttft.quantile(q, interpolation="linear")) for q in (0.5, 0.95))
    unseen = (m.generations["ttft_from"] != "arrival").any() and not m.serial
    since = " once a slot takes the request; waiting before that is not logged" if unseen else ""
    if ttft.len() < FEW:
        return f" The first token comes after {p50}{since}."
    return f" The first token comes after {p50} at the median, {p95} at p95{since}."


def _without_requests(m: Measures, decided: Verdict) -> str:
    if decided.share is not None:
        return f"{percent(decided.share)} of the engine's step time is {decided.phase}."
    if only_benchmarks(m):
        tests = plural(m.requests.height, "test")
        return f"This is a benchmark's output: {tests} and no request, so there is no wait to split."
    if m.sums.rows.height:
        told = [f"{p} {duration(ms)}" for p in _DOING if p != "load" and (ms := m.sums.total(f"{p}_ms"))]
        known = f": all that is told is {', '.join(told)}" if told else ""
        return f"What whole requests took is not in these sums{known}.{_first_token_of_sums(m)}"
    if not m.intervals.height:
        if deaths.told(m):
            return "Nothing was served." if deaths.none_lived(m) else "This log holds no timings."
        if m.engine is None:
            return "No engine is recognised in what was read: there is nothing to split."
        return "The engine is recognised, but this log holds no timings."
    if not (m.intervals["kind"] == "window").any():
        return _batches(m, decided)
    if (m.intervals["phase"] == "idle").all():
        return (
            f"The engine was idle in all {plural(m.intervals.height, 'window')}: there is nothing to split."
        )
    busy = busy_windows(m.intervals)
    by_phase = busy.group_by("phase").len().sort("len", "phase", descending=[True, False])
    seen = ", ".join(f"{n} {phase}" for phase, n in by_phase.iter_rows())
    if decided.phase != "unknown":
        return f"{decided.phase.capitalize()} leads in nearly all busy windows ({seen}); no times are told."
    many = plural(busy.height, "busy window")
    return f"Averages over windows can't split a request's latency; of {many}: {seen or 'none'}."


def _batches(m: Measures, decided: Verdict) -> str:
    counts = ((name, (m.intervals["kind"] == kind).sum()) for kind, name in SAMPLES.items())
    seen = " and ".join(f"{n:,} {name}" for name, n in counts if n)
    said = f"Lines of {seen} can't split a request's latency."
    if decided.phase == "queue":
        said = f"At least as many requests wait as run, nearly all the time. {said}"
    running, waiting = (largest(m.intervals[name]) for name in ("running", "waiting"))
    if running is None:
        return said
    waited = "" if waiting is None else f", up to {waiting:,} waited" if waiting else ", none waited"
    return f"{said} Up to {running:,} requests ran{waited}."
