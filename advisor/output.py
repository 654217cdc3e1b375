"""Finished text to a file, whole or not at all, or to standard output."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.errors import InputError

if TYPE_CHECKING:
    from pydantic import BaseModel


def json_text(said: BaseModel, *, unicode: bool = True) -> str:
    """A model as indented JSON, in ASCII without ``unicode``."""
    text = said.model_dump_json(by_alias=True, indent=2)
    return (text if unicode else json.dumps(json.loads(text), indent=2)) + "\n"


def write_text(text: str, path: Path | None) -> None:
    """Write a text; an older file of that name stays as it is until the new one is whole.

    Raises:
        InputError: the file can't be written.
    """
    if path is None:
        sys.stdout.write(text)
        return
    try:
        if path.exists() and not path.is_file():  # a pipe or a device takes it as it comes
            path.write_text(text, "utf-8", newline="\n")
            return
        with tempfile.NamedTemporaryFile(
            "w",
            encoding="utf-8",
            newline="\n",
            dir=path.resolve().parent,
            prefix=f".{path.name}.",
            delete=False,
        ) as part:
            part.write(text)
        Path(part.name).chmod(path.stat().st_mode if path.exists() else 0o666 & ~_umask())
        Path(part.name).replace(path.resolve())
    except OSError as error:
        raise InputError(f"{path}: can't be written ({error.strerror or error}).") from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
