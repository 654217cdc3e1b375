"""The charts of a report, one to a file: what to draw, and in words what it shows or why it isn't drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from advisor.errors import InputError
from advisor.report.charts import (
    benchmark,
    context_depth,
    over_time,
    percentiles,
    phases,
    prefill_length,
    steps,
    waterfall,
    windows,
)
from advisor.report.charts.base import CSS, LIGHT, REQUESTS, WIDTH, Chart, Drawing, Missing
from advisor.report.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from advisor.ticket import Report
    from rules.measures import Measures

__all__ = ["CSS", "LIGHT", "REQUESTS", "WIDTH", "Chart", "Missing", "drawn", "save"]

ALL = (
    phases.draw,
    over_time.ttft,
    over_time.decode,
    prefill_length.draw,
    context_depth.draw,
    waterfall.draw,
    windows.requests,
    windows.speed,
    windows.memory,
    steps.draw,
    percentiles.ttft,
    percentiles.tpot,
    benchmark.draw,
)

PNG_SCALE = 2.0

_OF_REQUESTS = (
    "Time to first token and decode speed along the log, prefill time against prompt length, time per token "
    "against context depth, requests on the clock"
)


def drawn(rows: Rows, colours: dict[str, str]) -> tuple[list[Chart], list[Missing]]:
    """The charts that this log allows, and those that it doesn't."""
    drawing = Drawing(rows.m, rows, colours)
    answers: list[Chart | Missing] = [] if rows.requests.height else [_no_requests(rows)]
    answers += [answer for draw in ALL if (answer := draw(drawing)) is not None]
    charts = [answer for answer in answers if isinstance(answer, Chart)]
    return charts, [answer for answer in answers if isinstance(answer, Missing)]


def _no_requests(rows: Rows) -> Missing:
    tests = rows.m.requests.height > 0
    what = "a benchmark's tests are no requests" if tests else "the log tells of no single request"
    return Missing(_OF_REQUESTS, what)


def save(report: Report, measures: Measures, folder: Path) -> list[Path]:
    """Write each chart as SVG and as PNG, dark on white; all are drawn before the first is written.

    Args:
        report: what the pictures are to be of; its sources name them.
        measures: what it was made from.
        folder: made where it does not exist.

    Returns:
        The files.

    Raises:
        InputError: the folder can't be written.
    """
    from advisor.output import replacing

    pictures = {folder / name: picture for name, picture in _pictures(report, Rows(measures))}
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: can't be written ({error.strerror or error}).") from None
    for path, picture in pictures.items():
        with replacing(path) as file:
            file.write(picture)
    return list(pictures)


def _pictures(report: Report, rows: Rows) -> Iterator[tuple[str, bytes]]:
    """Each chart's files by name; whatever a chart says, nothing is fetched to draw it."""
    import vl_convert

    values = rows.drawn_records()
    for chart in drawn(rows, LIGHT)[0]:
        spec = titled(chart, ", ".join(source.path for source in report.sources))
        spec["datasets"] = {**spec.get("datasets", {}), REQUESTS: values}
        how: dict[str, Any] = {"vl_version": version(), "allowed_base_urls": []}
        yield f"{chart.name}.svg", vl_convert.vegalite_to_svg(spec, **how).encode()
        yield f"{chart.name}.png", vl_convert.vegalite_to_png(spec, scale=PNG_SCALE, **how)


def titled(chart: Chart, of: str) -> dict[str, Any]:
    """A chart that stands alone: on paper, with its title and its words."""
    spec = chart.spec(LIGHT, WIDTH)
    title = {
        "text": chart.title,
        "subtitle": [of, *_wrapped(chart.says)],
        "anchor": "start",
        "color": LIGHT["ink"],
        "subtitleColor": LIGHT["muted"],
        "offset": 16,
    }
    config = {**spec["config"], "background": LIGHT["paper"], "padding": 16}
    return {**spec, "title": title, "config": config}


def _wrapped(text: str, width: int = 110) -> list[str]:
    import textwrap

    return textwrap.wrap(text, width)


def version() -> str:
    """The version of Vega-Lite that the charts are written in, as vl-convert names it."""
    import altair

    return ".".join(altair.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
