"""The tables of a report, cells in words, the header first: what was measured, the slowest, the setup."""

from __future__ import annotations

from typing import TYPE_CHECKING

from advisor.report.page import PHASES, VISIBLE, where
from advisor.section import Percentiles
from rules.caveats.log_hides_timings import ALL_SHOWN
from rules.words import count, duration, percent, rate, size

if TYPE_CHECKING:
    from collections.abc import Callable

    from advisor.model import Analysis, BenchmarkTest, Source, Steps, Summary
    from advisor.ticket import Report, SlowRequest

SHORT = ("p50", "p95", "max")
LONG = ("p50", "p90", "p95", "p99", "max")
MOST_TESTS = 40
"""Of a benchmark, as many as a page lists."""

_SIZES = ("_bytes", "_bytes_per_token")
_AMOUNTS = (
    "requests",
    "tests",
    "intervals",
    "aggregates",
    "aborted requests",
    "failed requests",
    "incomplete requests",
)
_NAMES = {
    "weights_bytes": "weights",
    "kv_bytes": "KV cache",
    "kv_bytes_per_token": "KV cache per token",
    "kv_cpu_bytes": "KV cache in main memory",
    "kv_type_k": "KV cache type, K",
    "kv_type_v": "KV cache type, V",
    "kv_heads": "KV heads",
    "kv_unified": "KV cache shared by slots",
    "cpu_weights_bytes": "weights in main memory",
    "gpu_weights_bytes": "weights on GPUs",
    "compute_bytes": "compute buffers on GPUs",
    "host_cache_bytes": "host prompt cache, at most",
    "threads_available": "hardware threads",
    "threads_batch": "threads for prefill",
}
_TOKENS = {
    "prompt": "prompt_tokens",
    "cached": "cached_tokens",
    "evaluated": "prefill_tokens",
    "output": "output_tokens",
}
_NO_FACT = {"source", "line", "label", "origin", "disputed", "devices"}


def measured(analysis: Analysis, at: tuple[str, ...] = SHORT) -> list[tuple[str, ...]]:
    """The table: header first; of requests, tests, sums, steps or windows; empty without any.

    Args:
        analysis: what to show.
        at: the percentiles of requests to give, `SHORT` or `LONG`.
    """
    s = analysis.summary
    if not s.requests:
        return _tests(s) or _means(s) or _steps(s) or _windows(s)
    start = {"slot": " (from slot)", "arrival": " (from arrival)"}.get(s.ttft_from or "", "")
    blank = ("",) * (len(at) - 1)
    evaluated = s.prefill_tokens if s.prompt_tokens.n < s.prefill_tokens.n else Percentiles()
    rows = [
        (f"time to first token{start}", *_spread(s.ttft_ms, at, duration)),
        ("total", *_spread(s.total_ms, at, duration)),
        ("time per token (TPOT)", *_spread(s.tpot_ms, at, duration)),
        ("prompt tokens", *_spread(s.prompt_tokens, at, count)),
        ("prompt tokens evaluated", *_spread(evaluated, at, count)),
        ("output tokens", *_spread(s.output_tokens, at, count)),
        ("prefill", rate(s.prefill_tok_s.p50), *blank, count(s.prefill_tok_s.n)),
        ("decode", rate(s.decode_tok_s.p50), *blank, count(s.decode_tok_s.n)),
    ]
    shown = [row for row in rows if row[1] != "?"]
    if s.cached_share is not None:
        shown.append(("prompt tokens from cache", percent(s.cached_share), *blank, ""))
    return [("", *at, "n"), *shown] if shown else []


def _tests(s: Summary) -> list[tuple[str, ...]]:
    """A benchmark's tests; a column that none of them fills is left out."""
    if not s.tests:
        return []
    several = len({test.model for test in s.tests}) > 1
    rows = [
        ("test", "model", "prefill", "decode", "total", "evaluated", "output", "context"),
        *(_test(test, several=several) for test in s.tests[:MOST_TESTS]),
    ]
    told = [column for column in zip(*rows, strict=True) if any(column[1:])]
    more = len(s.tests) - MOST_TESTS
    rest = [(f"{more:,} more", *("" for _ in told[1:]))] if more > 0 else []
    return [*zip(*told, strict=True), *rest]


def _test(test: BenchmarkTest, *, several: bool) -> tuple[str, ...]:
    speeds = (rate(test.prefill_tok_s), rate(test.decode_tok_s), duration(test.total_ms))
    sizes = (count(n) for n in (test.prefill_tokens, test.output_tokens, test.context_tokens))
    model = (test.model or "") if several else ""
    return (
        test.name or f"line {test.line:,}",
        model,
        *("" if said == "?" else said for said in (*speeds, *sizes)),
    )


def _means(s: Summary) -> list[tuple[str, ...]]:
    if (means := s.means) is None:
        return []
    start = {"slot": " (from slot)", "arrival": " (from arrival)"}.get(s.ttft_from or "", "")
    rows = [
        (f"time to first token{start}", duration(means.ttft_mean_ms), *_bucket_ends(s.ttft_ms)),
        ("total", duration(means.total_mean_ms), "", "", count(means.requests)),
        ("waiting", duration(means.queue_mean_ms), "", "", count(means.requests)),
        ("prefill", duration(means.prefill_mean_ms), "", "", count(means.requests)),
        ("decode", duration(means.decode_mean_ms), "", "", count(means.requests)),
        ("time per token (TPOT)", duration(means.tpot_mean_ms), *_bucket_ends(s.tpot_ms)),
        ("prompt tokens", count(means.prompt_tokens_mean), "", "", count(means.requests)),
        ("output tokens", count(means.output_tokens_mean), "", "", count(means.requests)),
        ("prefill, tokens by time", rate(means.prefill_tok_s), "", "", ""),
        ("decode, tokens by time", rate(means.decode_tok_s), "", "", ""),
        ("prompt tokens from cache", percent(s.cached_share), "", "", ""),
    ]
    shown = [(name, mean.replace("?", ""), *more) for name, mean, *more in rows if mean != "?" or more[0]]
    return [("", "mean", "p50", "p95", "n"), *shown] if shown else []


def _bucket_ends(p: Percentiles) -> tuple[str, str, str]:
    p50, p95 = ("" if value is None else duration(value) for value in (p.p50, p.p95))
    return p50, p95, count(p.n) if p.n else ""


def _steps(s: Summary) -> list[tuple[str, ...]]:
    rows = [
        (f"{x.phase} steps", count(x.steps), duration(x.total_ms), duration(x.p50_ms), _tokens(x))
        for x in s.steps
    ]
    return [("", "n", "in all", "p50", "tokens"), *rows] if rows else []


def _tokens(steps: Steps) -> str:
    return f"{count(steps.prefill_tokens)} in, {count(steps.decode_tokens)} out"


def _windows(s: Summary) -> list[tuple[str, ...]]:
    if (w := s.windows) is None:
        return []
    rows = [
        ("windows", count(w.windows)),
        ("of them busy", count(w.busy)),
        ("running, at most", count(w.running_max)),
        ("waiting, at most", count(w.waiting_max)),
        ("KV cache in use, at most", percent(w.kv_usage_max)),
        ("prefix cache hits, last", percent(w.prefix_hit_rate)),
    ]
    return [("", "value"), *(row for row in rows if row[1] != "?")]


def _spread(p: Percentiles, at: tuple[str, ...], say: Callable[[float | None], str]) -> tuple[str, ...]:
    return *(say(getattr(p, q)) for q in at), count(p.n)


def slowest(report: Report) -> list[tuple[str, ...]]:
    """The slowest requests, each split; a phase or a number that none of them tells has no column."""
    if not report.slowest:
        return []
    header = ("request", "total", *PHASES, *_TOKENS)
    whole = all(one.prompt_tokens is not None for one in report.slowest)
    rows = [header, *(_slow(one, whole=whole) for one in report.slowest)]
    told = [column for column in zip(*rows, strict=True) if set(column[1:]) - {"?", ""}]
    return list(zip(*told, strict=True))


def _slow(one: SlowRequest, *, whole: bool) -> tuple[str, ...]:
    """A row; what was evaluated is told only where not every prompt is."""
    phases = (_visible(getattr(one, f"{phase}_ms"), phase, one.total_ms) for phase in PHASES)
    told = {what: getattr(one, name) for what, name in _TOKENS.items()}
    tokens = ("" if whole and what == "evaluated" else count(n) for what, n in told.items())
    return f"{one.source}:{one.line}", duration(one.total_ms), *phases, *tokens


def _visible(ms: float | None, phase: str, total_ms: float) -> str:
    """A phase's time; a remainder that is only rounding is none."""
    return "" if phase == "other" and ms is not None and ms < VISIBLE * total_ms else duration(ms)


def sources(analysis: Analysis) -> list[tuple[str, ...]]:
    """What was read, file by file; a number that is 0 everywhere has no column."""
    header = ("log", "engine", "size", "lines", *_AMOUNTS)
    rows: list[tuple[str, ...]] = [header]
    benchmarks = {test.source for test in analysis.summary.tests}
    for one in analysis.sources:
        engine = " ".join(filter(None, (one.engine, one.engine_version)))
        amounts = (count(_amount(one, what, tests=one.path in benchmarks)) for what in _AMOUNTS)
        rows.append((one.path, engine, size(one.bytes), count(one.lines), *amounts))
    kept = [column for column in zip(*rows, strict=True) if set(column[1:]) != {"0"}]
    return list(zip(*kept, strict=True))


def _amount(source: Source, what: str, *, tests: bool) -> int:
    """How many of these a source holds; what a benchmark's output counts as requests are its tests."""
    if what in ("requests", "tests"):
        return source.requests if tests == (what == "tests") else 0
    amount: int = getattr(source, what.replace(" ", "_"))
    return amount


def facts(analysis: Analysis) -> list[tuple[str, ...]]:
    """Every known fact of the setup, its value, and where it came from."""
    setup = analysis.setup
    rows = [
        (_NAMES.get(name, name.replace("_", " ")), fact(name, value), _origin(analysis, name))
        for name, value in setup
        if value is not None and name not in _NO_FACT
    ]
    for device in setup.devices:
        held = None if device.memory_bytes is None else size(device.memory_bytes)
        speed = None if device.bandwidth_gb_s is None else f"{device.bandwidth_gb_s:,.0f} GB/s"
        told = [one for one in (device.name, device.backend, held, speed) if one is not None]
        rows.append(("device", ", ".join(told), _origin(analysis, "devices")))
    return [("fact", "value", "from"), *rows] if rows else []


def fact(name: str, value: object) -> str:
    """The value of a setup's fact in words."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if name == "verbosity" and value == ALL_SHOWN:
        return "all"
    if isinstance(value, int | float):
        return size(value) if name.endswith(_SIZES) else f"{value:,}"
    return str(value)


def _origin(analysis: Analysis, name: str) -> str:
    said = analysis.setup.origin.get(name, "")
    other = analysis.setup.disputed.get(name)
    return f"{said}; {other}" if other else said


def incidents(report: Report) -> list[tuple[str, ...]]:
    """What went wrong, how often, and the first lines; empty where nothing did."""
    rows = [
        (one.detail or one.kind.replace("_", " "), count(one.times), where(one.lines))
        for one in report.incidents
    ]
    return [("what", "times", "lines"), *rows] if rows else []
