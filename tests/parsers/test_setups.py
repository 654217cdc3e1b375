"""A log with many process starts keeps what they say alike once, and gives each back as it was."""

from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from parsers import Stream
from parsers.formats.base import At
from parsers.formats.process import Counts, Process
from parsers.setup import Device, Setup, Setups
from tests.parsers.reading import read
from tests.parsers.scenarios import scenario

LOG = scenario("llama-server-b11434/d_parallel4_12req").log
facts = st.fixed_dictionaries(
    {},
    optional={
        "model": st.text(max_size=9),
        "layers": st.integers(0, 1 << 50),
        "kv_bytes_per_token": st.floats(0, 1e9),
        "mmap": st.booleans(),
        "devices": st.lists(st.builds(Device, name=st.text(max_size=5)), max_size=2),
    },
)


@given(st.lists(st.tuples(facts, st.integers(1, 99), st.sampled_from(["log line 7", "--gguf"])), max_size=5))
def test_what_is_sealed_comes_back(all_facts: list[tuple[dict[str, object], int, str]]) -> None:
    setups, plain = Setups(), list[Setup]()
    for stated, line, origin in all_facts:
        setup = Setup(source="log", line=line, engine="x")
        setup.learn(origin, **stated)
        setups.append(setup)
        plain.append(setup.model_copy(deep=True))
    for run in range(0, len(setups), 2):
        setups.seal(run)
    more = Setups()
    more.extend(setups)
    assert list(setups) == list(more) == plain
    assert setups[1:] == plain[1:]
    assert [one.origin for one in more] == [one.origin for one in plain]


def test_restarts_cost_little_memory() -> None:
    stream = Stream("log")
    tracemalloc.start()
    sizes = []
    for _ in range(3):
        for _ in range(60):
            stream.feed(LOG)
        sizes.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert len(stream.setup_of_run) == 180
    assert (sizes[2] - sizes[1]) / 60 < 1000
    last = read(LOG * 3).stream.setup_of_run
    assert [setup.line for setup in last][0::2] == [1, 1 + 2 * LOG.count(b"\n")]
    assert [stream.setup_of_run[run].line for run in (0, 1, 2)] == [setup.line for setup in last]
    assert stream.setup_of_run[1].model_dump() == last[1].model_dump()


def test_devices_that_no_longer_hold_come_back_as_none() -> None:
    """A benchmark on two devices has none of its own; when another process begins, its setup is put by."""
    setups = Setups()
    process = Process("log", Counts(), [], setups)
    at = At(1, 0, None, b"", 1)
    process.learn(at, devices=[Device(name="A GPU")], engine_version="b1")
    process.forget("devices")
    process.restart(at)
    assert [setup.devices for setup in setups] == [[], []]
