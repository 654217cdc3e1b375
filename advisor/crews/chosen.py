"""Which crew reads: several processes where that pays, else this one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.crews.here import Here
from advisor.errors import InputError
from advisor.progress import size_of
from advisor.sources.packed import ENDINGS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from advisor.crews import Crew
    from advisor.sources.files import Input
    from parsers.formats import Format
    from parsers.unparsed import Shapes

PAYS_BYTES = 256 << 20
"""Less is read before the processes have started."""
MOST_JOBS = 8
"""More than that only wait for the one that puts their rows together."""
_TIMES = 8
"""How many times its size a packed log may be expected to be."""


def chosen(
    sources: Sequence[Input],
    formats: Sequence[Format],
    jobs: int | None = 1,
    on: str | None = None,
    shapes: Shapes | None = None,
    took: Callable[[int], None] | None = None,
) -> Crew:
    """Who reads these sources.

    Args:
        sources: in their order.
        formats: what is looked for.
        jobs: how many processes may read; ``None`` for as many as pay.
        on: the cluster that reads; default this machine.
        shapes: counts the lines that look like timings and are not read.
        took: told of bytes as they are taken from the sources, packed as they lie there.
    """
    if on is not None:
        return _on_cluster(formats, shapes, took)
    jobs = _paying(sources) if jobs is None else min(jobs, len(sources))
    if jobs > 1 and shapes is None and all(size_of(source) is not None for source in sources):
        from advisor.crews.packing import PackingError
        from advisor.crews.processes import Processes

        try:
            return Processes(jobs, formats, took)
        except PackingError:
            pass
    return Here(shapes, took)


def _on_cluster(formats: Sequence[Format], shapes: Shapes | None, took: Callable[[int], None] | None) -> Crew:
    """Those of a Ray cluster.

    Raises:
        InputError: they can't do what was asked.
    """
    from advisor.crews.packing import PackingError
    from advisor.crews.ray import OnRay

    if shapes is not None:
        raise InputError("--debug-unparsed reads here; leave --on out.")
    try:
        return OnRay(formats, took)
    except PackingError:
        raise InputError("a format of your own can't be sent to a cluster; leave --on out.") from None


def _paying(sources: Sequence[Input]) -> int:
    """How many processes pay."""
    if len(sources) < 2:
        return 1
    sizes = [_unpacked_bytes(source) for source in sources]
    if sum(sizes) - max(sizes) < PAYS_BYTES / 2 or sum(sizes) < PAYS_BYTES:
        return 1
    return min(_cores(), len(sources), MOST_JOBS)


def _unpacked_bytes(source: Input) -> int:
    times = _TIMES if Path(source.name).suffix.lower() in ENDINGS else 1
    return times * (size_of(source) or 0)


def _cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
