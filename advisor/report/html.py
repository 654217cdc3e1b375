"""The report as one HTML file that opens offline: no part of it comes from, or goes to, anywhere else.

Its policy names each script and style by hash, and allows nothing else: no network, no evaluated text, no
inline handlers. Vega runs its expressions in an interpreter for that.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from advisor.report import groups, page, tables
from advisor.report.charts import CSS, REQUESTS, drawn, version
from advisor.report.listing import Listing
from advisor.report.rows import Rows
from rules.words import measure

if TYPE_CHECKING:
    from advisor.model import FindingModel
    from advisor.report.charts import Chart, Missing
    from advisor.ticket import Report, SlowRequest
    from rules.measures import Measures

_SCRIPTS = ("theme.js", "copy.js", "table.js", "charts.js", "print.js")
_EXPOSED = "window.vegaEmbed = vegaEmbed;"
"""Of Vega's bundle, all that the page uses."""

_BAR_CELLS = 1_000

Part = tuple[str, float, float]


def render(report: Report, measures: Measures) -> str:
    """The page.

    Args:
        report: what it says.
        measures: what its charts and its table are drawn from.
    """
    rows = Rows(measures)
    charts, missing = drawn(rows, CSS)
    listing = Listing(rows)
    parts = page.bar(report, _BAR_CELLS)
    widths = "".join(f".bar .{part.phase}{{flex-grow:{part.cells}}}" for part in parts)
    styles = [_asset("page.css"), widths]
    scripts = [*([_vega()] if charts else []), _own_script()]
    data = {"listing": listing.data(), "charts": _specs(charts), "requests": REQUESTS}
    return (
        environment()
        .get_template("report.html.j2")
        .render(
            r=report,
            title=_title(report),
            heading=page.heading(report),
            parts=parts,
            charts=charts,
            missing=_by_reason(missing),
            listing=listing,
            measured=_told(tables.measured(report, tables.LONG)),
            concurrency=page.concurrency(report),
            groups=groups.context(report.groups),
            setup=page.named_setup(report),
            starts=page.starts(report),
            facts=tables.facts(report),
            slowest=tables.slowest(report),
            incidents=tables.incidents(report),
            splits=_splits(report.slowest),
            sources=tables.sources(report),
            untold=page.unanswered(report),
            made=page.made(report),
            together=page.together(report),
            nothing=page.nothing_to_change(report),
            saved=page.saved,
            pasted=page.pasted,
            evidence=_evidence,
            comparison=_comparison(report),
            data=json_block(data),
            styles=[Markup(style) for style in styles],
            scripts=[Markup(script) for script in scripts],
            policy=_policy(styles, scripts),
        )
    )


def environment() -> Environment:
    """Templates of HTML; text is escaped."""
    made = Environment(
        loader=PackageLoader("advisor.report", package_path=""),
        undefined=StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters["words"] = words
    return made


def words(text: str) -> Markup:
    """Text whose `code` is set as code; markup in it stays text."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _told(rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """A table without columns that are empty from top to bottom."""
    told = [column for column in zip(*rows, strict=True) if any(column)]
    return list(zip(*told, strict=True))


def _title(report: Report) -> str:
    names = page.named([source.path for source in report.sources], "logs")
    return names.replace("\\", "/").rpartition("/")[2]


def _asset(name: str) -> str:
    return files("advisor.report").joinpath("assets", name).read_text("utf-8")


def _own_script() -> str:
    """The page's own scripts in one block, whose names can't meet those of Vega."""
    return "".join(["{\n", *(_asset(name) for name in _SCRIPTS), "}\n"])


@cache
def _vega() -> str:
    """Vega, Vega-Lite and Vega-Embed, with their licences."""
    import vl_convert

    bundle = vl_convert.javascript_bundle(_EXPOSED, vl_version=version())
    return f"/*!\n{_asset('vega-licences.txt')}*/\n{bundle}"


def _comparison(report: Report) -> dict[str, object] | None:
    """What is said of before and after, where there is a before."""
    if report.comparison is None:
        return None
    from advisor.report.comparison import context

    return context(report.comparison)


def _evidence(finding: FindingModel) -> list[tuple[str, str, str]]:
    """What speaks for a finding, and the lines it is from."""
    rows = [(e.label, measure(e.value, e.unit), page.where(e.lines)) for e in finding.evidence]
    return [("what", "value", "lines"), *rows]


def _splits(slowest: list[SlowRequest]) -> list[list[Part]]:
    """The bars of the slowest requests; none where no request is split."""
    return [_split(one) for one in slowest] if any(one.other_ms is not None for one in slowest) else []


def _split(one: SlowRequest) -> list[Part]:
    """Each phase of a request, where its bar begins and how wide it is, in percent of the request."""
    parts: list[Part] = []
    begin = 0.0
    if one.other_ms is None:
        return parts
    for phase in page.PHASES:
        width = 100 * (getattr(one, f"{phase}_ms") or 0.0) / (one.total_ms or 1.0)
        if width > 0:
            parts.append((phase, round(begin, 2), round(width, 2)))
        begin += width
    return parts


def _specs(charts: list[Chart]) -> list[dict[str, Any]]:
    return [{"name": chart.name, "spec": chart.spec(CSS, "container")} for chart in charts]


def json_block(data: object) -> Markup:
    """Data as JSON that no text in it can end, or open a comment in."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c"))


def _policy(styles: list[str], scripts: list[str]) -> str:
    """The Content-Security-Policy: these styles and scripts, and nothing else."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {' '.join(map(_hash, scripts))}",
            f"style-src {' '.join(map(_hash, styles))}",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _by_reason(missing: list[Missing]) -> list[tuple[str, str]]:
    """Titles of what isn't drawn and the reason, each reason once."""
    titles: dict[str, list[str]] = {}
    for one in missing:
        titles.setdefault(one.why, []).append(one.title)
    return [("; ".join(names), why) for why, names in titles.items()]
