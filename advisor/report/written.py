"""The report as text, in the format that its file's ending names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from advisor.options import ReportFormat

if TYPE_CHECKING:
    from advisor.ticket import Report
    from rules.measures import Measures

ENDINGS = {
    ".md": ReportFormat.MD,
    ".markdown": ReportFormat.MD,
    ".html": ReportFormat.HTML,
    ".htm": ReportFormat.HTML,
    ".json": ReportFormat.JSON,
}


def text_of(report: Report, measures: Measures, kind: ReportFormat, *, unicode: bool = True) -> str:
    """The report's text.

    Args:
        report: what it says.
        measures: what the charts of a page are drawn from.
        kind: its format.
        unicode: without it, only ASCII; a page of HTML says itself how it is encoded.
    """
    if kind is ReportFormat.MD:
        from advisor.report.markdown import render

        return render(report, unicode=unicode)
    if kind is ReportFormat.HTML:
        from advisor.report.html import render as render_html

        return render_html(report, measures)
    from advisor.output import json_text

    return json_text(report, unicode=unicode)
