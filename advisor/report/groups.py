"""Groups in words and tables, the header first: shared by the terminal, Markdown and HTML."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from advisor.group_answer import named
from advisor.report.page import PHASES
from advisor.report.tables import fact
from rules.words import count, duration, percent, plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from advisor.group_model import (
        GroupModel,
        Groups,
        OtherFactModel,
        OtherWorkModel,
        OutlierModel,
        SampledModel,
    )

Row = tuple[str, ...]

FEW_ROWS, MANY_ROWS, LEAST_HOURS = 12, 200, 48
"""Groups that a page for a terminal lists, and other pages; of hours no page fewer than that."""

_MASKED = re.compile(r"\[[a-z]+-\d+\]")

_LONGEST_NAME = 22
_MARK = " *"
_TOLD_BY = {
    "folder": "a folder of logs",
    "file": "a log file",
    "label": "a container, pod or unit that the lines name",
    "file and label": "a file, and a container, pod or unit that its lines name",
    "address": "an address that the lines name",
}


def title(groups: Groups) -> str:
    """``By host``."""
    return f"By {groups.by}"


def context(groups: Groups | None) -> dict[str, object] | None:
    """What the templates draw; None where nothing was asked for."""
    if groups is None:
        return None
    return {
        "title": title(groups),
        "sentence": groups.sentence,
        "table": joined(times(groups, MANY_ROWS), shares(groups, MANY_ROWS)),
        "outliers": [(named(one.group, groups.by), why(one)) for one in groups.outliers],
        "notes": notes(groups, MANY_ROWS),
    }


def times(groups: Groups, most: int) -> list[Row]:
    """Waits and rates; without columns that no group tells."""
    header = (groups.by, "n", "TTFT", "p95", "total", "prefill/s", "decode/s", "windows", "tok/s")
    shown = _shown(groups, most)
    names = _names(shown, groups)
    return _told([header, *((name, *_times(one)) for name, one in zip(names, shown, strict=True))])


def shares(groups: Groups, most: int) -> list[Row]:
    """Where each group's time goes; empty where no group tells."""
    shown = _shown(groups, most)
    rows = [(name, *_shares(one)) for name, one in zip(_names(shown, groups), shown, strict=True)]
    told = _told([(groups.by, *PHASES), *rows])
    return told if told and len(told[0]) > 1 else []


def joined(one: list[Row], more: list[Row]) -> list[Row]:
    """Two tables of the same groups as one."""
    return [(*left, *right[1:]) for left, right in zip(one, more, strict=True)] if more else one


def why(one: OutlierModel) -> list[str]:
    """What is different about a group that stands out, a sentence each."""
    said = [one.sentence]
    if one.facts:
        said.append(f"Its setup is another one: {'; '.join(map(_fact, one.facts))}.")
    if one.work:
        said.append(f"Its requests are others: {'; '.join(map(_work, one.work))}.")
    said += [f"Only there: {finding.title} ({finding.rule})." for finding in one.findings]
    if one.slower and not (one.facts or one.findings or one.work):
        said.append(
            "These logs don't say why: no known fact of its setup is different, and no finding is its own."
        )
    return said


def notes(groups: Groups, most: int) -> list[str]:
    """What a host is here, what was compared, and which rows are left out."""
    if not groups.groups:
        return []
    said = []
    if any(one.requests for one in groups.groups):
        said.append("TTFT and total at the median, p95 of TTFT; prefill and decode in tokens a second.")
    if groups.outliers:
        said.append("* stands out. It is compared with the others together, speeds at like work.")
    if groups.told_by is not None:
        said.append(f"A host is {_TOLD_BY[groups.told_by]}: what differs between their names.")
    if groups.by == "hour":
        said.append("Hours are UTC, by when a request finished.")
    if any(map(_only_windows, groups.groups)):
        said.append(
            "Windows and batches are of all requests together: tok/s is what these generate, at the median; "
            "it is not judged."
        )
    if any(_MASKED.search(one.name or "") for one in groups.groups):
        said.append("`--no-redact` shows the names that are masked here.")
    if groups.sampled is not None:
        said.append(_sampled(groups.sampled, groups.by))
    if (more := len(groups.groups) - _most(groups, most)) > 0:
        said.append(f"{plural(more, groups.by)} more: `--format json` has all.")
    return said


def _sampled(of: SampledModel, by: str) -> str:
    all_of = f"{count(of.requests)} of " if of.requests < of.of else ""
    return (
        f"Compared were {all_of}{count(of.of)} requests, each {by} with at most {count(of.others)} of the "
        "others, spread over them; the table is of all."
    )


def _shown(groups: Groups, most: int) -> Sequence[GroupModel]:
    """As many groups, in their order: those that stand out, then those with most requests."""
    out = {one.group for one in groups.outliers}
    places = range(len(groups.groups))
    first = sorted(places, key=lambda i: (groups.groups[i].name not in out, -groups.groups[i].requests))
    return [groups.groups[i] for i in sorted(first[: _most(groups, most)])]


def _most(groups: Groups, most: int) -> int:
    return max(most, LEAST_HOURS) if groups.by == "hour" else most


def _only_windows(one: GroupModel) -> bool:
    return one.intervals > 0 and not one.requests


def _names(shown: Sequence[GroupModel], groups: Groups) -> list[str]:
    """What each is called: long names without their beginning or middle where that tells them apart."""
    full = [named(one.name, groups.by) for one in shown]
    half = _LONGEST_NAME // 2
    ends = [f"…{name[1 - _LONGEST_NAME :]}" if len(name) > _LONGEST_NAME else name for name in full]
    middles = [f"{name[: half - 1]}…{name[-half:]}" if len(name) > _LONGEST_NAME else name for name in full]
    named_apart = next((names for names in (ends, middles) if len(set(names)) == len(names)), full)
    out = {one.group for one in groups.outliers}
    return [name + _MARK * (one.name in out) for name, one in zip(named_apart, shown, strict=True)]


def _times(one: GroupModel) -> Row:
    waits = (one.ttft_ms.p50, one.ttft_ms.p95, one.total_ms.p50)
    rates = (one.prefill_tok_s.p50, one.decode_tok_s.p50)
    return (
        count(one.requests),
        *("" if ms is None else duration(ms) for ms in waits),
        *map(_rate, rates),
        *((count(one.intervals), _rate(one.together_tok_s.p50)) if _only_windows(one) else ("", "")),
    )


def _rate(tok_s: float | None) -> str:
    return "" if tok_s is None else f"{tok_s:,.0f}" if tok_s >= 100 else f"{tok_s:.1f}"


def _shares(one: GroupModel) -> Row:
    told = (getattr(one.phase_share, phase) for phase in PHASES)
    return tuple("" if share is None else percent(share) for share in told)


def _told(rows: list[Row]) -> list[Row]:
    """Without columns that are empty, or nothing, in all groups."""
    kept = [column for column in zip(*rows, strict=True) if set(column[1:]) - {"", "0", "0 %"}]
    return list(zip(*kept, strict=True))


def _work(one: OtherWorkModel) -> str:
    say = {"share": percent, "mean": "{:,.1f}".format}.get(one.how, count)
    return f"{one.name} {say(one.here)} here, {say(one.others)} on the others"


def _fact(one: OtherFactModel) -> str:
    name = one.fact.removesuffix("_bytes").replace("_", " ")
    here, others = ("off" if value is None else fact(one.fact, value) for value in (one.here, one.others))
    return f"{name} {here} here, {others} on the others"
