"""A rotated log goes on with its process; a strange log without a header doesn't."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from advisor.reading import read
from advisor.rotated import continued
from tests.advisor.helpers import ROOT, phasewise

if TYPE_CHECKING:
    from pathlib import Path

LOG = ROOT / "tests" / "logs" / "llama-server-b11434" / "c2_multiturn_timestamp_first" / "server.log"
TAKEN = b"selected slot by"


def parts(log: bytes) -> tuple[bytes, bytes]:
    """The log before and from the fourth request on."""
    at = -1
    for _ in range(4):
        at = log.index(TAKEN, at + 1)
    start = log.rindex(b"\n", 0, at) + 1
    return log[:start], log[start:]


def said(*paths: Path) -> list[tuple[str, int]]:
    data = json.loads(phasewise(*paths, "--format", "json").out)
    return [(finding["rule"], finding["requests"]) for finding in data["findings"]]


def test_a_conversation_goes_on_in_the_next_file(tmp_path: Path) -> None:
    first, second = parts(LOG.read_bytes())
    (tmp_path / "1.log").write_bytes(first)
    (tmp_path / "2.log").write_bytes(second)
    assert said(tmp_path / "1.log", tmp_path / "2.log") == said(LOG) == [("prefix-unstable", 5)]


def test_a_part_of_another_process_does_not_join(tmp_path: Path) -> None:
    first, second = parts(LOG.read_bytes())
    (tmp_path / "1.log").write_bytes(second)
    (tmp_path / "2.log").write_bytes(first[first.index(b"\n", first.index(b"listening on")) + 1 :])
    reading = read([str(tmp_path / "1.log"), str(tmp_path / "2.log")])
    assert len(reading.setups) == 2
    assert continued(reading.tables.requests, reading.setups) == {}
