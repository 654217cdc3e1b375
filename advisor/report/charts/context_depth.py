"""Time per generated token against the context, with the fit and the least that memory allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import altair as alt
import numpy as np

from advisor.report.charts.axes import request_tooltip
from advisor.report.charts.base import Chart, Drawing, Missing, layered
from rules.fits import CONTEXT_TOKENS
from rules.words import count, plural, size

if TYPE_CHECKING:
    from collections.abc import Iterable

ENOUGH = 3

BEYOND = 1.05
"""How far past the deepest context the memory's limit is drawn."""

_TITLE = "Time per token against context depth"
_FIT, _LEAST = "fit", "memory limit"


def draw(d: Drawing) -> Chart | Missing | None:
    """Points, the fitted line where contexts differ enough, the physical line where the machine is known."""
    if not d.rows.requests.height:
        return None
    drawn = d.rows.requests.drop_nulls(["depth", "ms_token"])
    if drawn.height < ENOUGH:
        few = "no answer" if not drawn.height else f"only {plural(drawn.height, 'answer')}"
        return d.missing(_TITLE, f"{few} of 32 tokens and 300 ms or more has a known context")
    shallow, deep = (float(end) for end in (drawn["depth"].min(), drawn["depth"].max()))  # type: ignore[arg-type]
    fit, least = _fit(d, shallow, deep), _least(d, BEYOND * deep)
    x = alt.X("tokens:Q", title="tokens in the context")
    y = alt.Y("ms:Q", title="ms per generated token")
    points = (
        alt.Chart(d.requests)
        .transform_filter("isValid(datum.ms_token) && isValid(datum.depth)")
        .transform_calculate(tokens="datum.depth", ms="datum.ms_token")
        .mark_circle(color=d.colours["decode"], **d.dots(drawn.height))
        .encode(
            x=x,
            y=y,
            tooltip=request_tooltip(
                d.rows,
                alt.Tooltip("tokens:Q", title="context", format=",.0f"),
                alt.Tooltip("ms:Q", title="ms per token", format=",.3~r"),
            ),
        )
    )
    ink = d.colours["ink"]
    lines = [
        alt.Chart(alt.InlineData(values=ends))
        .mark_line(color=ink, strokeDash=dash, clip=True)
        .encode(
            x=x,
            y=y,
            tooltip=[
                alt.Tooltip("line:N"),
                alt.Tooltip("tokens:Q", title="context", format=",.0f"),
                alt.Tooltip("ms:Q", title="ms per token", format=",.3~r"),
            ],
        )
        for ends, dash in ((fit, [6, 4]), (least, [2, 3]))
        if ends
    ]
    return Chart("context-depth", _TITLE, _says(d, drawn.height, bool(least)), layered(points, *lines))


def _line(name: str, ends: Iterable[tuple[float, float]]) -> list[dict[str, object]]:
    return [{"line": name, "tokens": round(tokens), "ms": round(ms, 4)} for tokens, ms in ends]


def _fit(d: Drawing, shallow: float, deep: float) -> list[dict[str, object]]:
    slope = None if d.several else d.m.decode_slope
    if slope is None:
        return []
    return _line(_FIT, ((shallow, slope.ms_per_token(shallow)), (deep, slope.ms_per_token(deep))))


def _least(d: Drawing, deep: float) -> list[dict[str, object]]:
    """Weights and KV cache read once, at the bandwidth of the memory."""
    weights, bandwidth = d.m.setup.weights_bytes, d.m.bandwidth_gb_s
    if weights is None or bandwidth is None or d.several or _unknown(d):
        return []
    kv = kv_bytes_per_token(d) or 0.0
    return _line(_LEAST, tuple((tokens, (weights + kv * tokens) / (bandwidth * 1e6)) for tokens in (0, deep)))


def kv_bytes_per_token(d: Drawing) -> float | None:
    """KV bytes that a token of context adds; ``None`` where it isn't told, or not beyond a window."""
    if d.m.setup.sliding_window:
        return None
    read, contexts = d.m.decoding.kv_read_bytes, d.m.decoding.alone.select(CONTEXT_TOKENS).to_series()
    middle = float(np.median(contexts.drop_nulls().to_numpy())) if contexts.count() else 0.0
    return read / middle if read is not None and middle else None


def _says(d: Drawing, drawn: int, least: bool) -> str:
    ran = " that ran alone" if d.rows.alone and not d.m.serial else ""
    said = [f"{plural(drawn, 'answer')}{ran}, each at its context half-way through."]
    if d.several:
        return f"{said[0]} No lines: they are of several models or settings, and each has its own."
    if (slope := d.m.decode_slope) is not None:
        per = slope.beta_ms.times(1000)
        said.append(
            f"Dashed: the fit, {slope.alpha_ms.value:.3g} ms and {per.value:.3g} ms more for each 1,000 "
            f"tokens of context (95 % interval {per.low:.3g} to {per.high:.3g})."
        )
    elif d.m.decoding.speculative:
        said.append("No fit: a draft was used, so a token is not a step.")
    else:
        said.append("No fit: it needs 8 answers that ran alone, at contexts that differ fourfold.")
    if least:
        kv = kv_bytes_per_token(d)
        cache = f" and {size(kv)} for each token of context" if kv else ""
        weights, bandwidth = size(d.m.setup.weights_bytes), count(d.m.bandwidth_gb_s)
        split = ", were all of it on the GPU" if d.m.decoding.split else ""
        reads = f"{weights} of weights{cache} at {bandwidth} GB/s{split}"
        said.append(f"Dotted: the least that memory allows, {reads}.")
    else:
        said.append(f"No memory limit: {_unknown(d)}.")
    return " ".join(said)


def _unknown(d: Drawing) -> str:
    """Why the memory's limit is not drawn; empty where it is."""
    if d.m.decoding.mixture:
        return "of a mixture of experts no log says how much a token reads"
    if d.m.decoding.speculative:
        return "a draft was used"
    if len(d.m.hardware.gpus) > 1 or (d.m.setup.tensor_parallel or 1) > 1:
        return "several GPUs share the reading"
    facts = {"weights": d.m.setup.weights_bytes, "memory bandwidth (--bandwidth)": d.m.bandwidth_gb_s}
    lacking = [name for name, value in facts.items() if value is None]
    return f"unknown {' and '.join(lacking)}" if lacking else ""
