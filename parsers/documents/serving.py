"""What `vllm bench serve` and `sglang.bench_serving` have in common: a summary, and arrays of requests.

Each run is one object. Its summary is in ms; with `--save-detailed` (vLLM) or `--output-details` (SGLang) it
also holds an entry for each request in arrays of seconds: the time to first token, and the gaps after it,
which add up to the last one. Mean times `completed` is a sum, exact in JSON.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parsers.documents.base import items, ms, number, percentiles, request, summary, text, total, whole
from parsers.records import Aggregate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from parsers.formats.process import Counts
    from parsers.records import Request, Row

_ARRAYS = ("input_lens", "output_lens", "ttfts", "itls")
_EMPTY_PIECES = 2
"""Pieces of an answer that may hold no token: its end, and one without text."""


def run_rows(run: Any, engine: str, e2e: str, counts: Counts) -> Iterator[Row]:
    """The rows of one run: its requests where they are all told, else its summary.

    Args:
        run: the decoded object.
        engine: the tool.
        e2e: what it calls the whole time of a request in its keys.
        counts: takes note of failed requests.
    """
    requests = list(_requests(run, engine, counts))
    yield from requests
    if not requests:
        counts.failed_requests += whole(run, "failed") or 0
    completed = whole(run, "completed")
    if completed and len(requests) < completed:
        yield _summary(run, engine, e2e, completed, counts)


def _summary(run: Any, engine: str, e2e: str, completed: int, counts: Counts) -> Aggregate:
    row = Aggregate(
        engine=engine,
        model=text(run, "model_id"),
        span_ms=ms(number(run, "duration")),
        requests=completed,
        prompt_tokens=whole(run, "total_input_tokens"),
        cached_tokens=whole(run, "cache_report", "total_cached_tokens"),
        output_tokens=whole(run, "total_output_tokens"),
        ttft_ms=total(number(run, "mean_ttft_ms") or None, completed),
        total_ms=total(number(run, f"mean_{e2e}_ms") or None, completed) or _latencies_ms(run, completed),
    )
    for column in ("ttft", "tpot"):
        percentiles(row, column, lambda p, name=column: _percentile(run, name, p))  # type: ignore[misc]
    return summary(row, counts, streamed=number(run, "mean_itl_ms") != 0.0)


def _latencies_ms(run: Any, completed: int) -> float | None:
    """The sum of all whole times, which newer vLLM writes even where it leaves out the other arrays."""
    times = [number(latency) for latency in items(run, "latencies")]
    if len(times) != completed or None in times or whole(run, "failed"):
        return None
    return ms(sum(time for time in times if time is not None))


def _percentile(run: Any, column: str, percentile: int) -> float | None:
    stated = number(run, f"p{percentile}_{column}_ms")
    if stated is None and percentile == 50:
        stated = number(run, f"median_{column}_ms")
    return stated or None


def _requests(run: Any, engine: str, counts: Counts) -> Iterator[Request]:
    """The requests that succeeded; none where the arrays are not of one length."""
    arrays = {key: items(run, key) for key in _ARRAYS}
    size = len(arrays["ttfts"])
    if any(len(array) != size for array in arrays.values()):
        return
    errors, starts = items(run, "errors"), items(run, "start_times")
    latencies, cached = items(run, "latencies"), items(run, "cached_tokens")
    for at in range(size):
        output, ttft_s = whole(arrays["output_lens"][at]), number(arrays["ttfts"][at])
        if _at(errors, at) or (not output and not ttft_s):
            counts.failed_requests += 1
            continue
        gaps = arrays["itls"][at]
        last_s = number(_at(latencies, at)) or _last(ttft_s, gaps)
        if output is not None and isinstance(gaps, list) and len(gaps) > output + _EMPTY_PIECES:
            counts.impossible_values += 1
            output = None
        row = request(
            engine,
            ms(ttft_s),
            ms(last_s),
            counts,
            model=text(run, "model_id"),
            prompt_tokens=whole(arrays["input_lens"][at]),
            cached_tokens=whole(_at(cached, at)),
            output_tokens=output,
        )
        _place(row, number(_at(starts, at)))
        yield row


def _last(ttft_s: float | None, gaps: Any) -> float | None:
    """When the last piece came: the first one's time and all gaps, if each of them is a time."""
    times = [number(gap) for gap in gaps] if isinstance(gaps, list) else [None]
    if ttft_s is None or None in times:
        return None
    return ttft_s + sum(time for time in times if time is not None)


def _place(row: Request, start_s: float | None) -> None:
    """Put a request on the client's own clock, from its first token on: before, it may have waited."""
    if start_s is not None and row.ttft_ms is not None and row.total_ms is not None:
        row.clock_start_ms = round(1000 * start_s + row.ttft_ms, 6)
        row.clock_end_ms = round(1000 * start_s + row.total_ms, 6)


def _at(values: list[Any], at: int) -> Any:
    return values[at] if at < len(values) else None
