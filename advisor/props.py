"""What a running llama-server says of itself: ``--props`` with its address, or with its answer in a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from advisor.errors import InputError
from advisor.redact import clean
from advisor.sources.served import llama_server
from advisor.sources.served.web import LARGEST_BYTES, NoAnswerError, Web

ORIGIN = "/props"
TIMEOUT_S = 5.0


def read_props(place: str) -> dict[str, Any]:
    """Facts under the names of `Setup`.

    Raises:
        InputError: nothing answers or can be read there, or it is not llama-server's answer.
    """
    try:
        data = json.loads(_fetched(place) if "://" in place else _read(Path(place)))
    except OSError as error:
        raise InputError(f"--props {place}: can't be read ({error.strerror or error}).") from None
    except (ValueError, RecursionError):
        data = None
    if not llama_server.is_props(data):
        raise InputError(f"--props {_shown(place)}: not what llama-server answers to GET /props.")
    return llama_server.props(data)


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(LARGEST_BYTES)


def _shown(place: str) -> str:
    """An address without the name and password in it."""
    scheme, separator, rest = place.partition("://")
    return clean(f"{scheme}{separator}{rest.rpartition('@')[2]}" if separator else place)


def _fetched(place: str) -> bytes:
    try:
        web = Web(place.rstrip("/").removesuffix(ORIGIN), answer_s=TIMEOUT_S)
    except InputError as error:
        raise InputError(f"--props {error}") from None
    try:
        answer = web.get(ORIGIN)
    except NoAnswerError as error:
        raise InputError(f"--props {web.name}{ORIGIN}: no answer ({error}).") from None
    finally:
        web.close()
    if answer.status != 200:
        said = f"{answer.status} {answer.reason}".rstrip()
        raise InputError(f"--props {web.name}{ORIGIN}: the server answers {said}.")
    return answer.body
