"""One model that llama-cpp-python has loaded, shared by the tests of this folder."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

import pytest

from advisor.errors import InputError
from advisor.runner.engines.llama_cpp_python import LlamaCppPython, Running
from advisor.runner.model_file import demo_model
from advisor.runner.settings import Settings
from tests.required import skip

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def model_path() -> Path:
    """The demo model; skips where it or the engine is missing."""
    if importlib.util.find_spec("llama_cpp") is None:
        skip("no engine: pip install llama-cpp-python")
    try:
        return demo_model()
    except InputError as error:
        skip(str(error))


@pytest.fixture(scope="session")
def settings(model_path: Path) -> Settings:
    """Small, and one thread: the others of a test run are busy too."""
    return Settings(model_path, context=768, threads=1, threads_batch=1)


@pytest.fixture(scope="session")
def log_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of `running`."""
    return tmp_path_factory.mktemp("engine") / "engine.log"


@pytest.fixture(scope="session")
def running(settings: Settings, log_path: Path) -> Iterator[Running]:
    """The engine."""
    with LlamaCppPython().start(settings, log_path) as engine:
        yield engine
