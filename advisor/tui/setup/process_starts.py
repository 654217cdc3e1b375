"""The process starts of a log: the one whose facts are shown, then those that served most requests."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

import polars as pl

from rules.words import count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from parsers.setup import Setup
    from rules.measures import Measures

MOST = 12


def rows(m: Measures) -> list[tuple[str, ...]]:
    """A table, the header first: where each begins, what differs between them, how many requests it served.

    Empty where there is one start only.
    """
    told = [run for run, setup in enumerate(m.setups) if not setup.is_empty]
    if len(told) < 2:
        return []
    served: dict[int, int] = dict(m.requests.group_by("run").agg(pl.len()).iter_rows())
    ordered = sorted(told, key=lambda run: (not _is_shown(m, run), -served.get(run, 0), run))
    shown = ordered[:MOST]
    names = _starts([m.setups[run] for run in shown])
    differing = _differing([_facts(m.setups[run]) for run in shown])
    table: list[tuple[str, ...]] = [("start", "what differs", "requests")]
    for run, name, facts in zip(shown, names, differing, strict=True):
        table.append((f"{name}{' (shown)' if _is_shown(m, run) else ''}", facts, count(served.get(run, 0))))
    if rest := ordered[MOST:]:
        table.append((f"{len(rest):,} more", "", count(sum(served.get(run, 0) for run in rest))))
    return table


def _is_shown(m: Measures, run: int) -> bool:
    setup = m.setups[run]
    return (setup.source, setup.line) == (m.setup.source, m.setup.line)


def _starts(setups: Sequence[Setup]) -> list[str]:
    """Where each begins: the line, with the file's name where there are several."""
    if len({setup.source for setup in setups}) == 1:
        return [f"line {setup.line:,}" for setup in setups]
    return [f"{PurePath(setup.source).name}:{setup.line}" for setup in setups]


def _facts(setup: Setup) -> tuple[str, ...]:
    on_gpu = setup.layers_offloaded
    return (
        " ".join(filter(None, (setup.engine, setup.engine_version))),
        setup.model or "",
        setup.quantization or "",
        "" if on_gpu is None else f"{on_gpu}/{count(setup.layers_offloadable)} layers on GPU",
        "" if setup.context is None else f"context {count(setup.context)}",
    )


def _differing(facts: Sequence[tuple[str, ...]]) -> list[str]:
    """The known facts of each that are not the same for all."""
    telling = [place for place, told in enumerate(zip(*facts, strict=True)) if len(set(told)) > 1]
    return [", ".join(one[place] for place in telling if one[place]) for one in facts]
