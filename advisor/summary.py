"""What was measured, over all generations: phase times, percentiles, rates, and windows or steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from advisor.model import BenchmarkTest, Means, Steps, Summary, Windows
from advisor.section import Percentiles, Phases, Rate
from rules.attribution import busy_windows

if TYPE_CHECKING:
    from rules.measures import Measures


def summarise(m: Measures) -> Summary:
    """The summary of these measures."""
    rows, means = m.generations, _means(m)
    attributed = m.attribution if means is None else m.sums.attribution
    timed = (rows if means is None else m.sums.rows).select("ttft_ms", "ttft_from").drop_nulls("ttft_ms")
    starts = timed["ttft_from"].unique().to_list()
    return Summary(
        requests=rows.height,
        intervals=m.intervals.height,
        aggregates=m.aggregates.height,
        wall_ms=round(attributed.wall_ms, 3),
        phase_ms=Phases(**{p: rounded(ms, 3) for p, ms in attributed.phase_ms.items()}),
        phase_share=Phases(**{p: rounded(share) for p, share in attributed.phase_share.items()}),
        ttft_ms=_percentiles(rows["ttft_ms"]) if means is None else _bucketed(m, "ttft", "ttft_requests"),
        ttft_from=starts[0] if len(starts) == 1 else None,
        tpot_ms=_percentiles(m.ms_each_token.to_series())
        if means is None
        else _bucketed(m, "tpot", "requests"),
        total_ms=_percentiles(rows["total_ms"]),
        prefill_tok_s=Rate(n=m.prefill_samples, p50=rounded(m.prefill_tok_s, 2)),
        decode_tok_s=Rate(n=m.decode_samples, p50=rounded(m.decode_tok_s, 2)),
        cached_share=rounded(
            m.cached_share if means is None else m.sums.per("cached_tokens", "prompt_tokens")
        ),
        prompt_tokens=_percentiles(rows["prompt_tokens"]),
        prefill_tokens=_percentiles(rows["prefill_tokens"]),
        output_tokens=_percentiles(rows["output_tokens"]),
        concurrency=m.overlap.most,
        steps=_steps(m.intervals),
        windows=_windows(m.intervals),
        means=means,
        tests=_tests(m.requests),
    )


def _means(m: Measures) -> Means | None:
    """Means of what is only known summed up; ``None`` where there are requests, or no sums either."""
    if m.generations.height or not m.sums.rows.height:
        return None
    per, requests = m.sums.per, m.sums.total("requests")
    return Means(
        kind=m.sums.kind,
        requests=None if requests is None else int(requests),
        queue_mean_ms=rounded(per("queue_ms", "requests"), 3),
        prefill_mean_ms=rounded(per("prefill_ms", "requests"), 3),
        decode_mean_ms=rounded(per("decode_ms", "requests"), 3),
        ttft_mean_ms=rounded(per("ttft_ms", "ttft_requests"), 3),
        total_mean_ms=rounded(per("total_ms", "requests"), 3),
        tpot_mean_ms=rounded(per("decode_ms", "decode_steps"), 3),
        prompt_tokens_mean=rounded(per("prompt_tokens", "requests"), 1),
        output_tokens_mean=rounded(per("output_tokens", "requests"), 1),
        prefill_tok_s=rounded(m.sums.per_second("prefill_tokens", "prefill_ms"), 2),
        decode_tok_s=rounded(m.sums.per_second("decode_steps", "decode_ms"), 2),
    )


def _bucketed(m: Measures, what: str, count: str) -> Percentiles:
    """The percentiles that the buckets of one row gave; those of several rows can't be put together."""
    rows, of = m.sums.rows, m.sums.total(count)
    told = rows.row(0, named=True) if rows.height == 1 else {}
    at = {q: rounded(told.get(f"{what}_{q}_ms"), 3) for q in ("p50", "p90", "p95", "p99")}
    return Percentiles(n=int(of or 0), **at)


def _percentiles(values: pl.Series) -> Percentiles:
    known = values.drop_nulls().sort()
    if not known.len():
        return Percentiles()

    def at(q: float) -> float | None:
        return rounded(known.quantile(q, interpolation="linear"), 3)

    return Percentiles(n=known.len(), p50=at(0.5), p90=at(0.9), p95=at(0.95), p99=at(0.99), max=at(1.0))


def rounded(value: float | None, digits: int = 4) -> float | None:
    """A value rounded; unknown stays ``None``."""
    return None if value is None else round(value, digits)


def _steps(intervals: pl.DataFrame) -> list[Steps]:
    """The engine's steps by phase, longest first."""
    steps = intervals.filter(pl.col("kind") == "iteration").drop_nulls("span_ms")
    by_phase = steps.group_by("phase").agg(
        pl.len().alias("steps"),
        pl.col("span_ms").sum().alias("total_ms"),
        pl.col("span_ms").median().alias("p50_ms"),
        *(
            pl.when(pl.col(name).count() > 0).then(pl.col(name).sum()).alias(name)
            for name in ("prefill_tokens", "decode_tokens")
        ),
    )
    return [Steps(**row) for row in by_phase.sort("total_ms", descending=True).iter_rows(named=True)]


def _tests(requests: pl.DataFrame) -> list[BenchmarkTest]:
    """The tests of a benchmark, in the order of the log."""
    evaluated = pl.coalesce("prefill_tokens", "prompt_tokens")
    tests = requests.filter(pl.col("kind") == "benchmark").select(
        "source",
        "line",
        "model",
        "output_tokens",
        "context_tokens",
        "total_ms",
        name="request_id",
        prefill_tokens=evaluated,
        prefill_tok_s=_tok_s(evaluated, "prefill_ms"),
        decode_tok_s=_tok_s(pl.col("decode_steps"), "decode_ms"),
    )
    return [BenchmarkTest(**test) for test in tests.iter_rows(named=True)]


def _tok_s(tokens: pl.Expr, ms: str) -> pl.Expr:
    return pl.when(pl.col(ms) > 0).then((1000 * tokens / pl.col(ms)).round(2))


def _windows(intervals: pl.DataFrame) -> Windows | None:
    """The windows of an engine that logs averages; ``None`` without any."""
    windows = intervals.filter(pl.col("kind") == "window")
    if not windows.height:
        return None
    most = windows.select(pl.col("running", "waiting", "kv_usage").max()).row(0, named=True)
    hits = windows["prefix_hit_rate"].drop_nulls()
    return Windows(
        windows=windows.height,
        busy=busy_windows(windows).height,
        running_max=most["running"],
        waiting_max=most["waiting"],
        kv_usage_max=rounded(most["kv_usage"]),
        prefix_hit_rate=rounded(hits[-1]) if hits.len() else None,
    )
