"""Prefill time against the tokens that were evaluated, with the fit of the whole log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import altair as alt
import numpy as np

from advisor.report.charts.axes import request_tooltip
from advisor.report.charts.base import Chart, Drawing, Missing, layered
from rules.words import count, duration, percent, plural, rate

if TYPE_CHECKING:
    from rules.physics.prefill import PrefillFit

ENOUGH, STEPS = 3, 40

ALIKE = 1.1
"""Longest over shortest prompt below which a line has no length."""

_TITLE = "Prefill time against prompt length"


def draw(d: Drawing) -> Chart | Missing | None:
    """Points of valid samples, and the line that the savings are computed with."""
    if not d.rows.requests.height:
        return None
    valid, fit = d.m.valid_prefill, d.m.prefill_fit
    if fit is None or valid.height < ENOUGH:
        few = (
            "no request evaluates" if not valid.height else f"only {plural(valid.height, 'request')} evaluate"
        )
        return d.missing(_TITLE, f"{few} 256 tokens or more in a prefill of 50 ms or more")
    evaluated = valid["prefill_tokens"].to_numpy().astype(np.float64)
    cached = float(np.median(valid["cached_tokens"].fill_null(0).to_numpy()))
    alike = fit.span < ALIKE
    lengths = np.linspace(evaluated.min(), evaluated.max(), STEPS if fit.quadratic else 2)
    line = [
        {"tokens": round(float(u)), "seconds": round(float(fit.model.predict_ms(u, cached)) / 1000, 4)}
        for u in lengths
    ]
    x = alt.X("tokens:Q", title="tokens evaluated (not cached)")
    y = alt.Y("seconds:Q", title="seconds of prefill")
    points = (
        alt.Chart(d.requests)
        .transform_filter("isValid(datum.prefill_tok_s)")
        .transform_calculate(tokens="datum.evaluated", seconds="datum.prefill_ms / 1000")
        .mark_circle(color=d.colours["prefill"], **d.dots(valid.height))
        .encode(
            x=x,
            y=y,
            tooltip=request_tooltip(
                d.rows,
                alt.Tooltip("tokens:Q", title="tokens evaluated", format=","),
                alt.Tooltip("seconds:Q", format=",.3~r"),
                alt.Tooltip("prefill_tok_s:Q", title="tok/s", format=",.3~r"),
            ),
        )
    )
    fitted = (
        alt.Chart(alt.InlineData(values=line))
        .mark_line(color=d.colours["ink"], strokeDash=[6, 4])
        .encode(
            x=x,
            y=y,
            tooltip=[
                alt.Tooltip("tokens:Q", title="fit at tokens", format=","),
                alt.Tooltip("seconds:Q", format=",.3~r"),
            ],
        )
    )
    drawn = layered(points) if alike or d.several else layered(points, fitted)
    return Chart("prefill-length", _TITLE, _says(d, fit, cached, alike=alike), drawn)


def _says(d: Drawing, fit: PrefillFit, cached: float, *, alike: bool) -> str:
    if d.several:
        return f"{plural(fit.n, 'sample')} of several models or settings. No fit: each has a line of its own."
    good = f"half of {plural(fit.n, 'sample')} within {percent(fit.median_error)} of it"
    if not fit.quadratic:
        median = f"the median rate, {rate(1000 / fit.model.a_ms)}; {good}"
        drawn = f"T{median[1:]}" if alike else f"Dashed: {median}"
        return f"{drawn}. The lengths are too much alike, or too few, to tell what longer prompts cost."
    base = f" with {count(cached)} tokens cached" if cached else ""
    fixed = f", {duration(fit.model.c_ms)} fixed" if fit.model.c_ms >= 1 else ""
    attention = (
        f"attention on top: {duration(1e6 * fit.model.b_ms / 2)} at 1,000 tokens, four times that at 2,000"
    )
    growth = attention if fit.model.b_ms else "no growth of that with length"
    return f"Dashed: the fit{base}, {fit.model.a_ms:.3g} ms a token{fixed}, {growth}; {good}."
