"""One real llama-server run for each scenario, shared by the tests of this folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .scenarios import SCENARIOS, EngineRun
from .server import demo_model, require_engine

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def model_path() -> Path:
    """The demo model; skips where it or the engine is missing."""
    require_engine()
    return demo_model()


@pytest.fixture(scope="session", params=SCENARIOS)
def engine_run(
    request: pytest.FixtureRequest, model_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> EngineRun:
    """The log and answers of each scenario in turn."""
    return SCENARIOS[request.param].run(model_path, tmp_path_factory.mktemp(request.param))
