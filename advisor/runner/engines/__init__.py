"""The engines that can be installed beside this project, the preferred one first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from advisor.errors import InputError, NotInstalledError
from advisor.runner import gpus
from advisor.runner.engines.llama_cpp_python import LlamaCppPython
from advisor.runner.engines.xllamacpp import Xllamacpp

if TYPE_CHECKING:
    from advisor.runner.engine import Backend

BACKENDS: tuple[Backend, ...] = (LlamaCppPython(), Xllamacpp())


def backend(name: str | None = None) -> Backend:
    """The backend of this name, or the first that is installed.

    Raises:
        InputError: there is none of this name, or what would have to be installed is not.
    """
    known = {one.id: one for one in BACKENDS}
    if name is not None and name not in known:
        raise InputError(f"--backend {name}: unknown; known are {', '.join(known)}.")
    wanted = BACKENDS if name is None else (known[name],)
    installed = next((one for one in wanted if one.is_installed()), None)
    if installed is None:
        missing = "no engine is installed" if name is None else f"{name} is not installed"
        lines = [gpus.install_line(one.extra) for one in reversed(wanted)]
        raise NotInstalledError(f"{missing}; to measure here:", lines)
    return installed
