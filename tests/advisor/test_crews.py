"""Several processes read what one would, in the same order, whatever happens to them."""

from __future__ import annotations

import gzip
import os
import pickle
import signal
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

from advisor.crews import chosen as choice
from advisor.crews import processes
from advisor.crews.chosen import chosen
from advisor.crews.here import Here
from advisor.crews.processes import Processes
from advisor.errors import InputError, MissingError, NotInstalledError
from advisor.parts import Task, parts
from advisor.reading import read
from advisor.sources.files import Input
from parsers import FORMATS
from parsers.formats.user import load
from tests.advisor.helpers import SAMPLES, Asked, phasewise, prefixed
from tests.parsers.test_user_formats import SINGLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from advisor.parts import Part

MANY = prefixed([Asked(500 + i % 900, 311.07 + 13.7 * (i % 50), 100 + i % 37, 2500.13) for i in range(9_000)])


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Of all kinds: long, packed, another engine's, none, broken, empty."""
    folder = tmp_path_factory.mktemp("logs")
    (folder / "a.log").write_text(MANY)
    (folder / "b.log.gz").write_bytes(gzip.compress(MANY.encode()))
    (folder / "c.log").write_text("nothing\n" * 100)
    (folder / "d.log.gz").write_bytes(gzip.compress(MANY.encode())[:-200])
    (folder / "e.log").touch()
    (folder / "f.log").write_bytes((SAMPLES / "vllm.log").read_bytes())
    return [str(path) for path in sorted(folder.iterdir())]


def told(found: Iterable[tuple[int, Part]]) -> list[object]:
    """Everything of the parts but how they were cut."""
    frames: dict[tuple[int, str], list[pl.DataFrame]] = {}
    endings: list[object] = []
    for at, part in found:
        for table, frame in part.frames:
            frames.setdefault((at, table), []).append(frame)
        if (ending := part.ending) is not None:
            setups = list(ending.setups)
            endings.append((at, ending.found, repr(ending.problem), setups, ending.counts))
    return [*endings, *((key, hash(pl.concat(found).write_csv())) for key, found in sorted(frames.items()))]


@pytest.fixture(scope="module")
def expected(logs: list[str]) -> list[object]:
    return told(Here().parts(tasks(logs)))


def tasks(logs: Sequence[str]) -> list[Task]:
    return [Task(Input(log)) for log in logs]


def test_processes_find_what_one_finds(logs: list[str], expected: list[object]) -> None:
    taken: list[int] = []
    found = told(Processes(2, FORMATS, taken.append).parts(tasks(logs)))
    assert found == expected
    assert sum(taken) == sum(Path(log).stat().st_size for log in logs)


def test_little_waits_for_an_earlier_source(
    logs: list[str], expected: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_MOST_WAITING", 1)
    assert told(Processes(3, FORMATS).parts(tasks(logs))) == expected


@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_process_that_dies(
    logs: list[str], expected: list[object], monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """Its source is read again, from its first row on, and no row is there twice."""
    started, start = [], processes._start

    def starting(*given: object) -> object:
        started.append(start(*given))  # type: ignore[arg-type]
        return started[-1]

    monkeypatch.setattr(processes, "_start", starting)
    monkeypatch.setattr(processes, "_MOST_WAITING", 1)
    crew, found = Processes(2, FORMATS), []
    for count, one in enumerate(crew.parts(tasks(logs))):
        found.append(one)
        if count == after:
            for lane in started:
                os.kill(lane.process.pid, getattr(signal, "SIGKILL", signal.SIGTERM))
    assert told(found) == expected


def test_nobody_goes_on_reading(logs: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Who takes only the first rows leaves no process behind."""
    started, start = [], processes._start

    def starting(*given: object) -> object:
        started.append(start(*given))  # type: ignore[arg-type]
        return started[-1]

    monkeypatch.setattr(processes, "_start", starting)
    coming = Processes(2, FORMATS).parts(tasks(logs))
    next(coming)
    coming.close()  # type: ignore[attr-defined]
    assert [lane.process.is_alive() for lane in started] == [False, False]


def test_formats_of_ones_own(tmp_path: Path) -> None:
    names = [tmp_path / "a.log", tmp_path / "b.log"]
    for name in names:
        name.write_text("toy: 5 prompt, 0 cached, 1 read, 7 out, 2 write, 3.0s all\n" * 20)
    own = (load(SINGLE, "toy.toml"), *FORMATS)
    given = [Task(Input(str(name)), formats=own) for name in names]
    assert told(Processes(2, own).parts(given)) == told(Here().parts(given))
    slow = (load(SINGLE.replace(" all", " all.*a.*a.*a.*a.*a.*a.*b$"), "toy.toml"),)
    names[1].write_text("toy: 5 prompt, 0 cached, 1 read, 7 out, 2 write, 3.0s all" + "a" * 5000 + "\n")
    with pytest.raises(InputError, match=r"takes longer than .* of .*b\.log"):
        told(Processes(2, slow).parts([replace(task, formats=slow) for task in given]))


def test_where_it_pays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [str(tmp_path / f"{n}.log") for n in range(4)]
    for name in names:
        Path(name).write_text("x" * 1000)
    inputs = [Input(name) for name in names]
    monkeypatch.setattr(choice, "_cores", lambda: 4)
    monkeypatch.setattr(choice, "PAYS_BYTES", 4000)
    assert isinstance(chosen(inputs, FORMATS, None), Processes)
    assert isinstance(chosen(inputs[:3], FORMATS, None), Here)
    assert isinstance(chosen(inputs, FORMATS, 1), Here)
    assert isinstance(chosen(inputs[:1], FORMATS, 8), Here)
    assert isinstance(chosen(inputs[:2], FORMATS, 2), Processes)
    assert isinstance(chosen([*inputs, Input("-")], FORMATS, 2), Here)
    Path(names[0]).write_text("x" * 10_000)
    assert isinstance(chosen(inputs[:2], FORMATS, None), Here)
    monkeypatch.setattr(choice, "_cores", lambda: 1)
    assert isinstance(chosen(inputs, FORMATS, None), Here)


@pytest.mark.parametrize("error", [InputError("x: no."), MissingError("x"), NotInstalledError("x.", ["y"])])
def test_errors_come_home_as_they_are(error: InputError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


def test_a_page_is_the_same_however_it_was_read(logs: list[str]) -> None:
    pages = [phasewise("export", *logs, "--jobs", jobs, "--format", "csv") for jobs in ("1", "2")]
    assert pages[0] == pages[1]
    assert pages[0].out.count("\n") > 25_000


def test_stretches_of_a_file_are_the_file(logs: list[str]) -> None:
    task, cut = Task(Input(logs[0]), size=300_000), []
    while True:
        *_, last = found = list(parts(task))
        cut += found
        if last.ending is not None:
            break
        task = Task(Input(logs[0]), begin=last.read, size=300_000, state=last.state)
    assert len([part for part in cut if part.state]) >= 3
    assert told((0, part) for part in cut) == told(Here().parts(tasks(logs[:1])))
    assert len(read(logs[:1]).setups) == 1
