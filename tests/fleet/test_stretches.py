"""Stretches of a file, as a cluster's workers read them: no cluster is needed to see that they join."""

from __future__ import annotations

import gzip
from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from advisor.crews.here import Here
from advisor.crews.packing import packed
from advisor.crews.ray_worker import After, Stretch, read_stretch, seen
from advisor.parts import Part, Task
from advisor.sources.files import Input
from benchmarks.logs import KINDS, write
from parsers import FORMATS

if TYPE_CHECKING:
    from pathlib import Path

PACKED = packed(FORMATS)


def rows(parts: list[Part]) -> dict[str, pl.DataFrame]:
    """All rows of each table."""
    tables: dict[str, list[pl.DataFrame]] = {}
    for part in parts:
        for table, frame in part.frames:
            tables.setdefault(table, []).append(frame)
    return {table: pl.concat(frames) for table, frames in tables.items()}


def test_stretches_join_to_what_one_reader_finds(tmp_path: Path) -> None:
    log = tmp_path / "mixed.log"
    write(log, 9_000_000, KINDS["mixed"])
    task = Task(Input(str(log)))
    whole = [part for _, part in Here().parts([task])]
    found: list[Part] = []
    taken = stretches = 0
    after: After | None = After(0, b"", None)
    while after is not None:
        next_one = replace(task, formats=(), size=1 << 20, begin=after.begin, state=after.state or None)
        parts, (bytes_taken, after) = read_stretch(Stretch(next_one, str(tmp_path), seen(str(log))), PACKED)
        found += parts
        taken += bytes_taken
        stretches += 1
    assert stretches > 3
    assert taken >= log.stat().st_size
    assert all(part.state is None for part in found)
    joined, expected = rows(found), rows(whole)
    assert joined.keys() == expected.keys()
    assert all(joined[table].equals(expected[table]) for table in expected)
    assert (found[-1].ending, whole[-1].ending) != (None, None)
    assert found[-1].ending is not None
    assert whole[-1].ending is not None
    assert found[-1].ending.found == whole[-1].ending.found


def test_what_is_packed_is_one_stretch(tmp_path: Path) -> None:
    log, packed_log = tmp_path / "a.log", tmp_path / "a.log.gz"
    write(log, 3_000_000, KINDS["dense"])
    packed_log.write_bytes(gzip.compress(log.read_bytes(), 1))
    task = Task(Input(str(packed_log)), formats=(), size=1 << 20)
    found, (taken, after) = read_stretch(Stretch(task, ".", seen(str(packed_log))), PACKED)
    assert (taken, after) == (packed_log.stat().st_size, None)
    assert found[-1].ending is not None
    assert found[-1].ending.found is not None
    assert found[-1].ending.found.bytes == log.stat().st_size


def test_a_file_of_another_node_is_not_read(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("the driver's\n")
    look = seen(str(log))
    log.write_text("this node's!\n")
    parts, (taken, after) = read_stretch(Stretch(Task(Input(str(log)), formats=()), ".", look), PACKED)
    assert (taken, after) == (0, None)
    assert parts[0].ending is not None
    assert "doesn't see this file" in str(parts[0].ending.problem)


def test_a_file_that_has_grown_is_the_same(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("one\n")
    look = seen(str(log))
    with log.open("a") as file:
        file.write("two\n")
    assert look is not None
    assert seen(str(log), look.size) == look
    assert seen(str(tmp_path / "none.log")) is None


def test_paths_begin_at_the_folder_of_the_command(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("nothing\n")
    look = seen(str(tmp_path / "a.log"))
    stretch = Stretch(Task(Input("a.log"), formats=()), str(tmp_path), look)
    parts, _ = read_stretch(stretch, PACKED)
    assert parts[0].ending is not None
    assert "no engine's log that I know" in str(parts[0].ending.problem)
