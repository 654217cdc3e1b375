"""Several containers in one file: each is read as it is alone, whatever the others print."""

from __future__ import annotations

import json
from itertools import chain, zip_longest
from typing import TYPE_CHECKING

import pytest

from tests.parsers.reading import QUOTED, Read, bytewise, join, lines_of, read, wrap
from tests.parsers.test_samples import LOGS, SAMPLES

if TYPE_CHECKING:
    from pathlib import Path

FIRST, SECOND = b"py-1   | ", b"cli-1  | "
PODS = (b"[pod/a-0/c] ", b"[pod/b-0/c] ", b"[pod/b-1/c] ")
PLACES = ("line", "first_line", "offset", "run")
NEAR_IN_FILE = {"ollama-llama-server"}
"""An access line before its timings must stand near them in the file."""
OTHERS = ("llama-cpp-python-server", "llama-server-caches")


def sample(name: str) -> bytes:
    return (SAMPLES / f"{name}.log").read_bytes()


def rows(log: Read) -> list[str]:
    return sorted(json.dumps(row, default=str, sort_keys=True) for row in log.told(*PLACES))


def interleave(*logs: bytes) -> bytes:
    """Their lines in turn."""
    return b"".join(line for line in chain(*zip_longest(*map(lines_of, logs))) if line)


def whole(data: bytes) -> bytes:
    """With a newline at its end."""
    return data if data.endswith(b"\n") else data + b"\n"


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("log", LOGS, ids=lambda path: path.stem)
def test_two_containers(log: Path, other: str) -> None:
    one, two = wrap(whole(sample(other)), FIRST), wrap(whole(log.read_bytes()), SECOND)
    alone = sorted(rows(read(one)) + rows(read(two)))
    assert rows(read(one + two)) == alone
    assert rows(read(interleave(one, two))) == alone


def journal(log: bytes, name: str) -> bytes:
    """As ``journalctl -o json`` prints a service's lines."""
    records = (
        {
            "__REALTIME_TIMESTAMP": str(1_764_500_000_000_000 + 1000 * number),
            "MESSAGE": line.decode("utf-8", "replace").rstrip("\r\n"),
            "SYSLOG_IDENTIFIER": name,
        }
        for number, line in enumerate(lines_of(log))
    )
    return join(json.dumps(record, ensure_ascii=False) for record in records)


@pytest.mark.parametrize("log", LOGS, ids=lambda path: path.stem)
def test_two_services_in_the_journal(log: Path) -> None:
    one = journal(log.read_bytes(), "engine")
    others = lines_of(journal(b"GET / 200\n" * 12 * one.count(b"\n"), "web"))
    both = [
        b"".join((line, *others[12 * number : 12 * number + 12])) for number, line in enumerate(lines_of(one))
    ]
    assert rows(read(b"".join(both))) == rows(read(one))


@pytest.mark.parametrize("log", LOGS, ids=lambda path: path.stem)
def test_three_pods_of_one_engine(log: Path) -> None:
    data = whole(log.read_bytes())
    pods = [wrap(data, pod) for pod in PODS]
    alone = sorted(3 * rows(read(pods[0])))
    assert rows(read(b"".join(pods))) == alone
    if log.stem not in NEAR_IN_FILE:
        assert rows(read(interleave(*pods))) == alone


def gathered(log: bytes, pod: str) -> bytes:
    """As Fluent Bit writes a pod's lines, without a clock."""
    names = {"pod_name": pod, "namespace_name": "ai", "container_name": "c"}
    return join(
        json.dumps({"log": line.decode("utf-8", "replace"), "kubernetes": names}, ensure_ascii=False)
        for line in lines_of(log)
    )


@pytest.mark.parametrize("log", LOGS, ids=lambda path: path.stem)
def test_pods_that_fluent_bit_gathered(log: Path) -> None:
    data = whole(log.read_bytes())
    pods = [gathered(data, pod) for pod in ("a-0", "b-0")]
    alone = rows(read(wrap(data, PODS[0])))
    assert rows(read(pods[0])) == alone
    if log.stem not in NEAR_IN_FILE:
        assert rows(read(interleave(*pods))) == sorted(2 * alone)


def test_what_a_containers_label_is_inside_of_is_the_same_place() -> None:
    """A router's children are identified in one of them, and by the line of none in all."""
    head, body = (b"main: router server is listening on http://0.0.0.0:8080\n", join(QUOTED))
    children = wrap(body, b"[41000] ") + wrap(body, b"[41001] ")
    for log in (head + children, wrap(head + children, FIRST)):
        assert len(read(log).requests) == 2


def test_bytes_one_at_a_time() -> None:
    one, two = wrap(sample(OTHERS[0]), FIRST), wrap(sample("mlx-lm-generate"), SECOND)
    data = interleave(one, two)
    assert bytewise(data).told() == read(data).told()
