"""Why a model is unloaded: Ollama says it first of all, and the end of its process after that.

Both ends are told at the debug level only. What is told at every level is that one must go to make room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parsers.formats.ollama.launch import blob_name, short_model
from parsers.formats.ollama.machine import fields

if TYPE_CHECKING:
    import re
    from collections.abc import Callable

    from parsers.formats.base import At

_REASONS = {
    b"timer expired": "its keep-alive is over",
    b"runner with zero duration": "its keep-alive is 0",
    b"resetting model": "to make room for another",
}


class Unloads:
    """The unload that is under way.

    Args:
        tell: emits `model_unload` events.
    """

    def __init__(self, tell: Callable[[At, str, str], None]) -> None:
        self._tell = tell
        self._model: str | None = None
        self._reason: str | None = None
        self._evicting: At | None = None

    def expires(self, m: re.Match[bytes]) -> None:
        """``timer expired, expiring to unload`` and its kin name the model."""
        found = fields(m["runner"])
        name, path = found.get("runner.name"), found.get("runner.model") or found.get("modelPath")
        self._model = short_model(name) if name else path and blob_name(path.replace("\\\\", "\\"))
        self._reason = next(reason for said, reason in _REASONS.items() if m["said"].startswith(said))

    def evicts(self, at: At) -> None:
        """A model must go; which one is told at the debug level."""
        self._evicting = at

    def stopping(self, at: At) -> None:
        """The model's process is stopped."""
        model = f"model {self._model}" if self._model else "the model was unloaded"
        self._tell(at, "model_unload", f"{model}: {self._reason}" if self._reason else model)
        self._model = self._reason = self._evicting = None

    def loads(self) -> None:
        """Another model is loaded: whatever had to go is gone."""
        if self._evicting is not None:
            self._tell(self._evicting, "model_unload", "to make room for another model")
        self._evicting = None
