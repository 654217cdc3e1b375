"""What a running llama-server says of itself: ``--props`` with its address, or with its answer in a file."""

from __future__ import annotations

import json
import re
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from advisor.errors import InputError

ORIGIN = "/props"
TIMEOUT_S = 5.0
LARGEST_BYTES = 16 << 20
"""A chat template takes some kilobytes."""


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
    settings = data.get("default_generation_settings") if isinstance(data, dict) else None
    if not isinstance(settings, dict):
        raise InputError(f"--props {_shown(place)}: not what llama-server answers to GET /props.")
    build = re.match(r"b[1-9]\d*", str(data.get("build_info", "")))
    return {
        "engine_version": build[0] if build else None,
        "model": _text(data.get("model_path")),
        "quantization": _text(data.get("model_ftype")),
        "slots": _count(data.get("total_slots")),
        "context": _count(settings.get("n_ctx")),
    }


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(LARGEST_BYTES)


def _shown(place: str) -> str:
    """An address without the name and password in it."""
    return re.sub(r"//[^/@]*@", "//", place)


def _fetched(place: str) -> bytes:
    address = place.rstrip("/").removesuffix("/props") + "/props"
    try:
        scheme = urlsplit(address).scheme
    except ValueError as error:
        raise InputError(f"--props {_shown(place)}: no address ({error}).") from None
    if scheme not in ("http", "https"):
        raise InputError(f"--props {_shown(place)}: give an http or https address, or a file.")
    try:
        with urlopen(Request(address), timeout=TIMEOUT_S) as answer:
            body: bytes = answer.read(LARGEST_BYTES)
            return body
    except HTTPError as error:
        raise InputError(
            f"--props {_shown(address)}: the server answers {error.code} {error.reason}."
        ) from None
    except (URLError, HTTPException, TimeoutError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise InputError(f"--props {_shown(address)}: no answer ({reason}).") from None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
