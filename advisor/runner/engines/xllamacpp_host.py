"""Hosts the native llama-server of the `xllamacpp` wheel until standard input closes.

Run as a script in a process of its own, with ``-P``: a module beside it is called `xllamacpp` too. The server
logs to standard error. The one line of standard output is a JSON object: ``address``, ``devices``; or
``error``, a sentence's end. Argument: a JSON object of `CommonParams` fields. ``a.b`` is a field of a field,
and members of enumerations are given by their names. The environment's ``PHASEWISE_ENGINE_KEY``, which other
users of the machine can't read, is what clients have to show, if it is there.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from enum import Enum
from typing import Any

FAILED = 1
GRACE_S = 2.0
"""For the server to end by itself, its log complete: it may be loading, or in the midst of a long batch."""
KEY = "PHASEWISE_ENGINE_KEY"


class _NoSettingError(Exception):
    """This build can't be set so."""


def main() -> None:
    """Start the server, say where it listens, and wait for the end of standard input."""
    out = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)
    ended = threading.Event()
    threading.Thread(target=end_with_input, args=(ended,), daemon=True).start()
    import xllamacpp

    def say(**said: Any) -> None:
        print(json.dumps(said), file=out, flush=True)

    params = xllamacpp.CommonParams()
    if key := os.environ.pop(KEY, None):
        params.api_keys = [key]
    try:
        for name, value in json.loads(sys.argv[1]).items():
            put(params, name, value)
    except _NoSettingError as error:
        say(error=str(error))
        raise SystemExit(FAILED) from None
    try:
        server = xllamacpp.Server(params)
    except RuntimeError:
        raise SystemExit(FAILED) from None
    devices = [
        {
            "name": one["name"],
            "description": one["description"],
            "kind": one["type"].name.rpartition("_")[2].lower(),
            "memory_bytes": one["memory_total"],
            "free_bytes": one["memory_free"],
        }
        for one in xllamacpp.get_device_info()
    ]
    say(address=server.listening_address, devices=devices)
    ended.wait()
    del server


def end_with_input(ended: threading.Event) -> None:
    """When the input ends say so, and end the process a little later, whatever it does."""
    while os.read(0, 1024):  # a reader of Python's would be locked when the process ends by itself
        pass
    ended.set()
    time.sleep(GRACE_S)
    os._exit(0)


def put(params: Any, name: str, value: Any) -> None:
    """Set a field, or a field of a field.

    Raises:
        _NoSettingError: there is none, or it can't be that.
    """
    *path, last = name.split(".")
    for step in path:
        params = getattr(params, step, None)
    if not hasattr(params, last):
        raise _NoSettingError(f"it has no setting {name}")
    before = getattr(params, last)
    try:
        setattr(params, last, _like(before, value))
    except (KeyError, TypeError, ValueError, OverflowError):
        raise _NoSettingError(f"its setting {name} can't be {value}") from None


def _like(before: Any, value: Any) -> Any:
    """A value as the kind that stands there now."""
    if isinstance(before, Enum):
        return type(before)[value]
    if isinstance(before, list) and before and isinstance(before[0], Enum):
        return [type(before[0])[one] for one in value]
    return value


if __name__ == "__main__":
    main()
