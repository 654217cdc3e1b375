"""A snapshot's numbers as rows: sums that are of the same requests, and the state beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from parsers.formats.prometheus.buckets import quantile
from parsers.formats.prometheus.names import unit_ms
from parsers.records import Aggregate, Interval

if TYPE_CHECKING:
    from parsers.formats.prometheus.names import Names, Of
    from parsers.formats.prometheus.snapshot import Numbers

_QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
_LONGEST_MEAN_MS = 1e9
"""Eleven days: no request takes that long on average, but a time since 1970 does."""
_SUMS = (
    *("requests", "prompt_tokens", "cached_tokens", "prefill_tokens", "output_tokens"),
    *("queue_ms", "prefill_ms", "decode_ms", "total_ms", "ttft_ms"),
)
_ROUNDING = 0.001
_SIX_DIGITS = 5e-6
"""How far off llama-server's averages may be printed, as a share."""
_ALONE = 1.01
"""Slots busy on average: up to here, a sum over batches is one over requests within a percent."""


class Sum(NamedTuple):
    """A sum and how many it is of; ``None`` where a counter does not say."""

    value: float
    of: float | None


def aggregate(numbers: Numbers, names: Names, *, by_request: bool = True) -> Aggregate:
    """The row of these numbers; a sum that is not of the finished requests alone is left out.

    ``by_request`` is what `times_by_request` says of the snapshot. Times are in ms; ``total_ms`` is the
    engine's own, else the sum of queue, prefill and decode. A negative time, or one that is a date, is
    infinite here, so that the core leaves it out and counts it.
    """
    counts = (numbers.total((name, kind)) for name in names.requests for kind in ("count", ""))
    requests = next((count for count in counts if count is not None), None)

    def of_finished(of: Of, *, ms: bool = False) -> float | None:
        found = _read(numbers, of, ms=ms)
        if found is None or (None not in (found.of, requests) and found.of != requests):
            return None
        return found.value

    row = Aggregate(engine=names.engine, requests=_whole(requests))
    row.prompt_tokens = _whole(of_finished(names.prompt_tokens))
    row.cached_tokens = _whole(of_finished(names.cached_tokens))
    row.prefill_tokens = _whole(of_finished(names.prefill_tokens))
    row.output_tokens = _whole(of_finished(names.output_tokens))
    row.queue_ms = of_finished(names.queue, ms=True)
    row.prefill_ms = of_finished(names.prefill, ms=True) if by_request else None
    row.total_ms = of_finished(names.total, ms=True)
    if names.queued_before and row.total_ms is not None and row.queue_ms is not None:
        row.total_ms += row.queue_ms
    first = _read(numbers, names.first, ms=True)
    if first is not None and first.of is not None:
        row.ttft_ms, row.ttft_requests, row.ttft_from = first.value, _whole(first.of), names.first_from
    if row.output_tokens is not None and row.requests is not None:
        row.decode_steps = row.output_tokens - row.requests
    row.decode_ms = of_finished(names.decode, ms=True)
    if row.decode_ms is None:
        row.decode_ms = _after_first(numbers, names, row, first)
    _complete(row)
    _percentiles(row, numbers, names)
    return row


def has_sums(row: Aggregate) -> bool:
    """False where only a state was told."""
    return any(getattr(row, name) is not None for name in _SUMS)


def times_by_request(numbers: Numbers, names: Names) -> bool:
    """Whether prefill is summed up over requests, or over batches that never held more than one."""
    if all(numbers.total((name, "")) is None for name in names.per_batch):
        return True
    busy = _sum_of(numbers, names.busy)
    return busy is not None and busy <= _ALONE


def times_by_request_since(first: Numbers | None, now: Numbers, names: Names) -> bool:
    """The same for what was added since ``first``, whatever ran at once before.

    A printed average of many batches leaves open what the last ones held; then it is false.
    """
    if first is None or times_by_request(now, names):
        return times_by_request(now, names)
    counts = [(_sum_of(at, names.busy), _sum_of(at, names.batches)) for at in (first, now)]
    (busy, batches), (busy_now, batches_now) = counts
    if busy is None or batches is None or busy_now is None or batches_now is None:
        return False
    added, slots, slots_now = batches_now - batches, busy * batches, busy_now * batches_now
    return slots_now - slots + _SIX_DIGITS * (slots + slots_now) <= _ALONE * added


def live_tokens(added: Numbers, names: Names, row: Interval) -> None:
    """Set what was read and generated in a window with a length, as far as the engine counts it at once."""
    for column in ("prefill", "cached"):
        tokens = _whole(_sum_of(added, getattr(names, f"live_{column}")))
        setattr(row, f"{column}_tokens", tokens)
    prompt, output = (_sum_of(added, of) for of in (names.live_prompt, names.live_output))
    row.decode_tokens = _whole(output)
    if row.span_ms:
        row.prefill_tok_s = None if prompt is None else 1000 * prompt / row.span_ms
        row.decode_tok_s = None if output is None else 1000 * output / row.span_ms


def _complete(row: Aggregate) -> None:
    """Prompts from their parts, the total from the phases, and what it has beyond them."""
    if row.prefill_tokens is None and row.prompt_tokens is not None and row.cached_tokens is not None:
        row.prefill_tokens = row.prompt_tokens - row.cached_tokens
    elif row.prompt_tokens is None and row.prefill_tokens is not None and row.cached_tokens is not None:
        row.prompt_tokens = row.prefill_tokens + row.cached_tokens
    elif row.cached_tokens is None and row.prompt_tokens is not None and row.prefill_tokens is not None:
        row.cached_tokens = row.prompt_tokens - row.prefill_tokens
    phases = row.prefill_ms, row.decode_ms
    if row.total_ms is None and None not in phases:
        row.total_ms = sum(ms for ms in (row.queue_ms, *phases) if ms is not None)
    elif row.total_ms is not None and row.queue_ms is not None and None not in phases:
        rest = row.total_ms - sum(ms for ms in (row.queue_ms, *phases) if ms is not None)
        row.other_ms = max(rest, 0.0) if rest >= -_ROUNDING * row.total_ms else None


def _after_first(numbers: Numbers, names: Names, row: Aggregate, first: Sum | None) -> float | None:
    """Decode as the time after the first tokens, where that is of the same requests and tokens."""
    gaps = _read(numbers, names.gaps, ms=True)
    if gaps is not None and row.decode_steps is not None and gaps.of == row.decode_steps:
        return gaps.value
    call = _read(numbers, names.after_call, ms=True)
    if call is not None and first is not None and call.of == first.of == row.requests:
        return call.value - first.value
    return None


def _percentiles(row: Aggregate, numbers: Numbers, names: Names) -> None:
    for what, of in (("ttft", names.first), ("tpot", names.per_token)):
        for name in of:
            if buckets := numbers.buckets(name):
                for column, q in _QUANTILES.items():
                    at = quantile(q, buckets)
                    setattr(row, f"{what}_{column}_ms", None if at is None else round(at * unit_ms(name), 6))
                break


def state(numbers: Numbers, names: Names) -> Interval | None:
    """The state when it was printed, as a window without a length; ``None`` where nothing is told."""
    row = Interval(engine=names.engine, kind="window")
    row.running, row.waiting = (_whole(_sum_of(numbers, of)) for of in (names.running, names.waiting))
    row.kv_usage, row.prefix_hit_rate = (_share(numbers, of) for of in (names.kv_usage, names.hit_rate))
    if row.running is None and row.waiting is None and row.kv_usage is None:
        return None
    if row.running is not None and row.waiting is not None:
        busy = "queue" if row.waiting and row.waiting >= row.running else "unknown"
        row.phase = busy if row.running or row.waiting else "idle"
    return row


def counted(numbers: Numbers, of: Of) -> int:
    """How many of these requests there are; those that are not told are none that we know of."""
    return sum(_whole(numbers.total((name, ""))) or 0 for name in of)


def _read(numbers: Numbers, of: Of, *, ms: bool = False) -> Sum | None:
    """The first of these metrics that is whole: a histogram's sum and count, or a counter."""
    for name in of:
        value, count = numbers.total((name, "sum")), numbers.total((name, "count"))
        if value is None or count is None:
            value, count = numbers.total((name, "")), None
        if value is not None:
            return Sum(_time(value * unit_ms(name), count) if ms else value, count)
    return None


def _time(ms: float, count: float | None) -> float:
    return ms if 0 <= ms <= _LONGEST_MEAN_MS * max(count or 1.0, 1.0) else float("inf")


def _sum_of(numbers: Numbers, of: Of) -> float | None:
    return next((total for name in of if (total := numbers.total((name, ""))) is not None), None)


def _share(numbers: Numbers, of: Of) -> float | None:
    """The mean over the engines, 0-1; engines say -1 for a share that they do not have."""
    values = next((found for name in of if (found := numbers.of_ranks((name, "")))), [])
    return sum(values) / len(values) if values and all(0 <= value <= 1 for value in values) else None


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)
