"""The tests of a benchmark: tokens per second of each phase."""

from __future__ import annotations

import altair as alt
import polars as pl

from advisor.report.charts.base import Chart, Drawing, Missing, layered
from rules.words import plural, rate

MOST, ROW_PX = 40, 30
_TITLE = "Speed of each test"


def draw(d: Drawing) -> Chart | Missing | None:
    """A bar for each test and phase, in the order of the log, on an axis for each phase."""
    tests = d.m.requests.filter(pl.col("kind") == "benchmark").with_row_index("number", offset=1)
    if not tests.height:
        return None
    rates = pl.concat(
        [
            _rates(tests, "prefill", pl.coalesce("prefill_tokens", "prompt_tokens"), "prefill_ms"),
            _rates(tests, "decode", pl.col("decode_steps"), "decode_ms"),
        ]
    ).drop_nulls("tok_s")
    if not rates.height:
        return Missing(_TITLE, "no test tells how long a phase took")
    shown = rates.filter(pl.col("number").is_in(rates["number"].unique().sort().head(MOST).implode()))
    order = shown.sort("number", "place")["test"].unique(maintain_order=True).to_list()
    phases = [phase for phase in ("prefill", "decode") if (shown["phase"] == phase).any()]
    base = alt.Chart(alt.InlineData(values=shown.to_dicts())).encode(
        y=alt.Y("test:N", sort=order, title=None, axis=alt.Axis(labelLimit=220, domain=False, ticks=False)),
        x=alt.X(
            "tok_s:Q",
            title="tokens per second, log scale",
            scale=alt.Scale(type="log", nice=False, domain=_domain(shown)),
            axis=alt.Axis(ticks=False),
        ),
        tooltip=[alt.Tooltip("test:N"), alt.Tooltip("phase:N"), alt.Tooltip("said:N", title="speed")],
    )
    points = base.mark_point(filled=True, size=110, opacity=1).encode(
        color=d.phase_colour(phases),
        shape=alt.Shape(
            "phase:N", scale=alt.Scale(domain=phases, range=["square", "circle"][: len(phases)]), sort=phases
        ),
    )
    words = base.mark_text(align="left", dx=10, color=d.colours["ink"]).encode(text="said:N")
    of = (
        f"The first {MOST} of {plural(tests.height, 'test')}"
        if tests.height > MOST
        else plural(tests.height, "test")
    )
    says, height = f"{of}: {_ranges(shown)}.", ROW_PX * len(order) + 10
    return Chart("benchmark", _TITLE, says, layered(points, words), height)


def _domain(shown: pl.DataFrame) -> list[float]:
    """With room for words to the right of the fastest."""
    low, high = (float(end) for end in (shown["tok_s"].min(), shown["tok_s"].max()))  # type: ignore[arg-type]
    return [low / 1.5, high * max(2.0, (high / low) ** 0.25)]


def _rates(tests: pl.DataFrame, phase: str, tokens: pl.Expr, ms: str) -> pl.DataFrame:
    name = pl.coalesce("request_id", pl.format("line {}", "line"))
    rate_tok_s = pl.when(pl.col(ms) > 0).then(1000 * tokens / pl.col(ms))
    return tests.select(
        "number",
        place=pl.lit(phase == "decode"),
        phase=pl.lit(phase),
        test=pl.format("{} ({})", name, "number") if tests["request_id"].n_unique() < tests.height else name,
        tok_s=rate_tok_s.round(2),
        said=rate_tok_s.map_elements(rate, return_dtype=pl.String),
    )


def _ranges(shown: pl.DataFrame) -> str:
    spans = (
        shown.group_by("phase")
        .agg(low=pl.col("tok_s").min(), high=pl.col("tok_s").max())
        .sort("phase", descending=True)
    )
    return ", ".join(
        f"{phase} {rate(low)}" if low == high else f"{phase} {rate(low)} to {rate(high)}"
        for phase, low, high in spans.iter_rows()
    )
