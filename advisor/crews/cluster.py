"""The Ray cluster: one that is running, or one of this machine for the time of the command."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from socket import create_connection
from threading import get_ident
from typing import Any, TextIO, cast
from urllib.parse import urlsplit

from advisor.errors import InputError

_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS": "0",  # which would print at the end what it held back
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
_ANSWER_S = 5.0
_HOME = Path(__file__).parents[2]


def connected() -> Any:
    """Ray, connected: to ``RAY_ADDRESS``, to the cluster that runs on this machine, or to a new one here.

    It stays so until the process ends, and the new one ends with it.

    Raises:
        InputError: Ray is not installed, or the cluster can't be used.
    """
    os.environ.update(_QUIET)
    try:
        import ray
    except ImportError:
        raise InputError("--on ray needs Ray: pip install ray into phasewise's environment.") from None
    if not ray.is_initialized():
        _begin(ray)
        if sys.stdout is not None:
            sys.stdout = cast("TextIO", _Ours(sys.stdout))
    return ray


class _Ours:
    """Standard output of this thread alone: on others, Ray tells there of workers that died."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._thread = get_ident()

    def write(self, text: str) -> int:
        """Write it, if it is ours."""
        return self._stream.write(text) if get_ident() == self._thread else len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _begin(ray: Any) -> None:
    """Connect, and send this installation's code along."""
    address = os.environ.get("RAY_ADDRESS", "")
    _require_answer(address)
    code = [str(_HOME / package) for package in ("advisor", "parsers", "rules")]
    ends = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(
            include_dashboard=False,
            log_to_driver=False,
            logging_level="CRITICAL",
            runtime_env={
                "py_modules": code,
                "excludes": ["**/__pycache__/"],
                "env_vars": {"POLARS_MAX_THREADS": "1"},
            },
        )
    except (ConnectionError, TimeoutError):
        where = address or "this machine"
        why = "no Ray cluster answers, or it wants a token (RAY_AUTH_TOKEN_PATH; docs/fleet.md)"
        raise InputError(f"{where}: {why}.") from None
    except (RuntimeError, ValueError) as error:
        told = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise InputError(f"the Ray cluster can't be used: {told.rstrip('.')}.") from None
    finally:
        signal.signal(signal.SIGTERM, ends)  # Ray puts its own there


def _require_answer(address: str) -> None:
    """Ray itself waits for minutes.

    Raises:
        InputError: nothing listens there, or it is Ray Client's.
    """
    if address.startswith("ray://"):
        raise InputError(
            f"{address}: Ray Client is not supported; run the command on a node (ray job submit)."
        )
    try:
        place = urlsplit(f"//{address}")
        if place.hostname and place.port:
            create_connection((place.hostname, place.port), _ANSWER_S).close()
    except (OSError, ValueError):
        raise InputError(f"no Ray cluster answers at {address}.") from None
