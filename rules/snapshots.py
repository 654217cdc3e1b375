"""Snapshots of an engine's sums in files of their own: which are of one server, and what came between.

Sums count from the server's start, so of two snapshots of one server the later has the earlier in it. They
are of one server if nothing in them says otherwise: the same engine and model, the same start where it is
stated, and no sum smaller than before. Where the snapshots have no time, the smaller one is the earlier:
files are given in the order of their names, and `after` comes before `before`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Told = dict[str, Any]
"""A row of sums by its columns."""

SUMS = (
    *("requests", "prompt_tokens", "cached_tokens", "prefill_tokens", "output_tokens", "decode_steps"),
    *("queue_ms", "prefill_ms", "decode_ms", "other_ms", "total_ms", "ttft_ms", "ttft_requests"),
)
_RISING = tuple(name for name in SUMS if name not in ("other_ms", "decode_steps", "cached_tokens"))
"""What an engine counts itself; the others are differences of these."""

_KEPT = ("source", "line", "engine", "model", "time", "run", "ttft_from")


def servers(ends: Sequence[tuple[Told, Told]]) -> Iterator[list[tuple[Told, Told]]]:
    """The sources of each server, from the first snapshot to the last.

    Args:
        ends: of each source, its first and its last snapshot since one start of one engine and model.
    """
    timed = all(first["time"] is not None for first, _ in ends)
    chains: list[list[tuple[Told, Told]]] = []
    for pair in sorted(ends, key=lambda pair: pair[0]["time"] if timed else _size(pair[0])):
        fitting = [chain for chain in chains if _goes_on(chain[-1][1], pair[0])]
        if fitting:
            max(fitting, key=lambda chain: _size(chain[-1][1])).append(pair)
        else:
            chains.append([pair])
    yield from chains


def between(first: Told, last: Told) -> Told:
    """What was added from one snapshot to another, if anything; percentiles are not of a difference."""
    if not any((last[name] or 0) > (first[name] or 0) for name in _RISING):
        return last
    row = {name: value if name in _KEPT else None for name, value in last.items()}
    for name in SUMS:
        if first[name] is not None and last[name] is not None:
            row[name] = max(last[name] - first[name], 0)
    row["kind"] = "between"
    if first["time"] is not None and last["time"] is not None:
        row["span_ms"] = (last["time"] - first["time"]).total_seconds() * 1000
    return row


def _size(row: Told) -> tuple[float, ...]:
    return tuple(float(row[name] or 0) for name in ("requests", "output_tokens", "total_ms", "prefill_ms"))


def _goes_on(earlier: Told, later: Told) -> bool:
    """Whether a snapshot can be of the same server: none of the sums that both state has fallen."""
    if earlier["since"] is not None and later["since"] is not None and earlier["since"] != later["since"]:
        return False
    both = [(earlier[name], later[name]) for name in _RISING if None not in (earlier[name], later[name])]
    return bool(both) and all(before <= after for before, after in both)
