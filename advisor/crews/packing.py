"""Formats on their way to another process: the built-in ones by their place, a user's own as they are."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

from parsers import FORMATS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from parsers.formats import Format


class PackingError(ValueError):
    """These formats can't be sent to another process."""


def packed(formats: Sequence[Format]) -> bytes:
    """Formats as bytes.

    Raises:
        PackingError: one of them can't be sent.
    """
    places = {id(fmt): place for place, fmt in enumerate(FORMATS)}
    try:
        return pickle.dumps([places.get(id(fmt), fmt) for fmt in formats])
    except (TypeError, AttributeError, pickle.PicklingError) as error:
        raise PackingError(str(error)) from None


def unpacked(formats: bytes) -> list[Format]:
    """The formats that `packed` has packed."""
    return [FORMATS[fmt] if isinstance(fmt, int) else fmt for fmt in pickle.loads(formats)]
