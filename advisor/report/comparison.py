"""The page of ``phasewise compare``: did it help, why, what was compared, what else is different."""

from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from advisor.report.blocks import hanging, indented, put, standard_console, table, title
from advisor.report.markdown import environment, tidy
from advisor.report.page import named
from advisor.report.tables import fact
from rules.comparison.dimensions import span
from rules.comparison.sentences import NAMES, joined, per_minute, value
from rules.words import count, duration, measure, plural

if TYPE_CHECKING:
    from rich.console import RenderableType

    from advisor.comparison_model import (
        Compared,
        Comparison,
        PartModel,
        QuantityModel,
        SplitModel,
        WorkModel,
    )

Row = tuple[str, ...]

_LABELS = {
    "ttft": "time to first token",
    "queue": "waiting for a slot",
    "load": "loading the model",
    "prefill": "prefill per 1,000 tokens",
    "decode": "decode per token",
    "total": "total",
}
_CAUSES = {
    "queue": "waiting for a slot",
    "load": "loading the model",
    "prefill": "prefill",
    "prefill-work": "prompts: other work",
    "prefill-speed": "prefill: other speed",
    "decode": "decode",
    "decode-work": "answers: other work",
    "decode-speed": "decode: other speed",
    "other": "in no phase that both logs tell",
}
_PAGE = '{% from "comparison.md.j2" import comparison %}{{ comparison(c, "#") }}'
_ROUNDING_MS = 0.05
_MOST_STRATA, _FILE_WIDTH = 12, 100


def show(comparison: Comparison, console: Console | None = None) -> None:
    """Print the page to standard output."""
    put(console or standard_console(), page(comparison))


def text(comparison: Comparison) -> str:
    """The page as plain text."""
    file = StringIO()
    put(Console(file=file, width=_FILE_WIDTH, highlight=False, markup=False), page(comparison))
    return file.getvalue()


def page(c: Comparison) -> list[RenderableType]:
    """The blocks of the page for a terminal."""
    blocks: list[RenderableType] = [Text(line, style="dim") for line in sides(c)]
    blocks += [Text(), title("The answer"), indented(Text(c.headline, style="bold"))]
    tables = {
        "What changed": changes(c),
        "Where it comes from": causes(c),
        "The requests": others(c),
    }
    for name, rows in tables.items():
        if rows:
            blocks += [Text(), title(name), indented(table(rows))]
    if c.settings:
        blocks += [Text(), title("The setup")]
        blocks += [indented(hanging("- ", line)) for line in settings(c)]
    untold = unsaid(c)
    if untold:
        blocks += [Text(), title("What this can't tell")]
        blocks += [indented(hanging("- ", text)) for text in untold]
    return blocks


def render(c: Comparison) -> str:
    """The comparison as GitHub-flavoured Markdown of its own."""
    return tidy(environment().from_string(_PAGE).render(c=context(c)))


def context(c: Comparison) -> dict[str, object]:
    """What the macro of ``comparison.md.j2`` draws: tables with the header first."""
    return {
        "headline": c.headline,
        "sides": sides(c),
        "changes": changes(c),
        "causes": causes(c),
        "others": others(c),
        "settings": settings(c),
        "sentences": [q.sentence for q in c.quantities],
        "strata": [(_LABELS[q.name], strata(q)) for q in c.quantities if q.strata],
        "unsaid": unsaid(c),
    }


def sides(c: Comparison) -> list[str]:
    """What was read on each side, in a line."""
    return [f"{name}: {_side(one)}" for name, one in (("before", c.before), ("after", c.after))]


def _side(one: Compared) -> str:
    names = named(one.sources, "files")
    known = [" ".join(filter(None, (one.engine, one.engine_version))), one.model or ""]
    amounts = [(one.requests, "request"), (one.intervals, "interval"), (one.aggregates, "sum")]
    known += [plural(n, what) for n, what in amounts if n]
    return f"{names}, {', '.join(filter(None, known)) or 'nothing'}"


def changes(c: Comparison) -> list[Row]:
    """What was measured on both sides: header first; empty where nothing was."""
    rows = [_change(q) for q in c.quantities]
    return [("", "before", "after", "change"), *rows] if rows else []


def _change(q: QuantityModel) -> Row:
    how = "" if q.unit != "ms" else f", {q.shown}"
    before, after = (value(q.name, getattr(side, q.shown)) for side in (q.before, q.after))
    return f"{_LABELS[q.name]}{how}", before, after, q.change


def causes(c: Comparison) -> list[Row]:
    """What each cause did to the mean wait that changed most, header first; empty where nothing did."""
    name, split = _changed(c)
    if split is None:
        return []
    parts = [p for p in split.parts if max(abs(p.low_ms), abs(p.high_ms)) >= _ROUNDING_MS]
    rows = [(_CAUSES[p.cause], _part(p), _bounds(p)) for p in parts]
    whole = split.after_mean_ms - split.before_mean_ms
    head = (f"mean {name}", "change", "between")
    return [head, *rows, ("together", _signed(whole), "")] if rows else []


def _changed(c: Comparison) -> tuple[str, SplitModel | None]:
    """The wait to explain: the first that is told to have changed; of sums the whole."""
    splits = {"ttft": ("time to first token", c.first_token), "total": ("total", c.total)}
    told = [q.name for q in c.quantities if q.name in splits and q.verdict in ("faster", "slower")]
    if told or c.grain == "sums":
        return splits[told[0] if told else "total"]
    return "", None


def _signed(ms: float) -> str:
    if abs(ms) < _ROUNDING_MS:
        return "0"
    return f"{duration(abs(ms))} {'less' if ms < 0 else 'more'}"


def _part(part: PartModel) -> str:
    sure = part.basis == "exact" or part.low_ms * part.high_ms > 0
    return _signed(part.ms) if sure else "none that can be told"


def _bounds(part: PartModel) -> str:
    if part.basis == "exact":
        return "measured"
    ends = [_signed(part.low_ms), _signed(part.high_ms)]
    return " to ".join(dict.fromkeys(ends))


def others(c: Comparison) -> list[Row]:
    """What the requests were like, header first."""
    alone = all(w.before == w.after == 1 for w in c.work if w.how == "most")
    rows = [_work(w) for w in c.work if not (alone and w.unit == "")]
    return [("", "before", "after"), *rows] if rows else []


def settings(c: Comparison) -> list[str]:
    """What is different about the setup, a fact a line."""
    return [
        f"{s.fact.removesuffix('_bytes').replace('_', ' ')}: {_fact(s.fact, s.before)} before, "
        f"{_fact(s.fact, s.after)} after"
        for s in c.settings
    ]


def _work(w: WorkModel) -> Row:
    name = w.name if w.how in ("count", "share", "rate") else f"{w.name}, {w.how}"
    return name, _amount(w, w.before), _amount(w, w.after)


def _amount(w: WorkModel, amount: float | None) -> str:
    if amount is None:
        return "?"
    if w.unit == "share":
        return measure(amount, "share")
    if w.how == "rate":
        return per_minute(amount)
    return f"{amount:,.1f}" if w.how == "mean" else count(amount)


def _fact(name: str, said: bool | float | str | None) -> str:
    return "off" if said is None else fact(name, said)


def strata(q: QuantityModel) -> list[Row]:
    """What was compared with what at like work, header first."""
    keys = list(dict.fromkeys(key for s in q.strata for key in s.sizes))
    rows = [
        (
            *(span(key, *s.sizes[key]) if key in s.sizes else "" for key in keys),
            f"{s.before_n} and {s.after_n}",
            value(q.name, s.before),
            value(q.name, s.after),
        )
        for s in q.strata[:_MOST_STRATA]
    ]
    return [(*(key.replace("_", " ") for key in keys), "n", "before", "after"), *rows]


def unsaid(c: Comparison) -> list[str]:
    """The caveats, and why something is not compared, each reason once."""
    reasons: dict[str, list[str]] = {}
    for q in c.quantities:
        if q.verdict == "not-comparable" and q.not_compared:
            reasons.setdefault(q.not_compared, []).append(NAMES[q.name])
    said = [f"{joined(names)} can't be compared: {why}." for why, names in reasons.items()]
    return [caveat.text for caveat in c.caveats] + [one for one in said if one not in c.headline]
