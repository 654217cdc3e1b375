"""One S3 server and one fleet's logs, shared by the tests of this folder."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

import pytest

from tests.required import skip

from .logs import fleet
from .store import Store, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of forty logs."""
    folder = tmp_path_factory.mktemp("fleet")
    fleet(folder)
    return folder


@pytest.fixture(scope="session")
def store(logs: Path) -> Iterator[Store]:
    """A store that holds them below ``logs/``, with something else beside them."""
    for package, extra in (("moto", "moto[server]"), ("obstore", "phasewise[stores]")):
        if importlib.util.find_spec(package) is None:
            skip(f"no {package}: pip install '{extra}'")
    with serving() as running:
        for path in sorted(logs.iterdir()):
            running.put(f"logs/{path.name}", path.read_bytes())
        running.put("logs/a picture.png", b"\x89PNG")
        running.put("odd/x y [1] é.log", (logs / "host-00.log").read_bytes())
        running.put("empty.log", b"")
        yield running
