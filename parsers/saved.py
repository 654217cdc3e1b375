"""A reader of a source put by, to go on later or elsewhere: in another process, or when the log has grown.

It is pickled without what every installation has: formats, and what is made from them, are kept by their
place. Loading calls no function and no constructor that a state names: objects of this package are made empty
and filled, those of others are plain values from a short list, and a method of one part of a reader that
another part calls (a `Hook`) can't be called before all is loaded.

That is a second line. The first is that nobody else can write a state: what a forged one holds is handed to
the readers' own code afterwards, so trust it as the program's own files.
"""

from __future__ import annotations

import copyreg
import io
import pickle
import sys
from functools import lru_cache, partial
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from parsers.documents.base import Document
from parsers.formats import FORMATS
from parsers.formats.base import Format, Line, Reader
from parsers.limits import Limited
from parsers.search import Trial
from parsers.source import SourceReader
from parsers.stream import Stream

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

_PLAIN = {
    "array": {"_array_reconstructor", "array"},
    "collections": {"Counter", "OrderedDict", "defaultdict", "deque"},
    "datetime": {"datetime", "timedelta", "timezone"},
}
"""What others' modules may be asked for: plain values, and what puts them together."""

_SPINE = ((), ("_log",), ("_log", "_blocks"), ("_log", "_search"))
"""The parts of a reader that decide what runs."""

_NEVER = (Document, Format, Limited, Line, Trial)
"""What calls patterns and functions that it was given; none of it is put by."""


class StateError(ValueError):
    """What was put by is none of this version's."""


class Hook:
    """A method of one reader's part that another part calls; it can't be called while it is being loaded."""

    def __init__(self, owner: object, name: str) -> None:
        self._owner = owner
        self._name = name
        self._method: MethodType | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return hook, (self._owner, self._name)

    def __call__(self, *given: Any) -> Any:
        """What the method gives."""
        if self._method is None:
            raise StateError("a method is called too soon")
        return self._method(*given)

    def ready(self, homes: set[str]) -> None:
        """All is loaded.

        Raises:
            StateError: it is no method of a class of these packages.
        """
        found = None if self._name.startswith("__") else getattr(type(self._owner), self._name, None)
        if not isinstance(found, FunctionType) or _home(found.__module__) not in homes:
            raise StateError(f"{self._name} is no method of a reader")
        self._method = MethodType(found, self._owner)


def hook(owner: object, name: str) -> Hook:
    """A method, by its name."""
    return Hook(owner, name)


def saved(reader: SourceReader, formats: Sequence[Format] = FORMATS) -> bytes | None:
    """A reader as bytes; ``None`` for one of a document, which is read as one.

    Args:
        reader: of a source, at any byte.
        formats: that it was made with.
    """
    if reader.reader is not reader.log:
        return None
    out = io.BytesIO()
    try:
        _Pickler(out, formats).dump(reader)
    except (TypeError, AttributeError, RecursionError, pickle.PicklingError):
        return None
    return out.getvalue()


def resumed(
    state: bytes, formats: Sequence[Format] = FORMATS, latest: datetime | None = None
) -> SourceReader:
    """The reader that `saved` put by.

    Args:
        state: what was put by.
        formats: that it was made with.
        latest: when the source was last written, if that is another time now.

    Raises:
        StateError: it was put by otherwise.
    """
    unpickler = _Unpickler(io.BytesIO(state), formats)
    try:
        reader: SourceReader = unpickler.load()
        _require_whole(reader, formats)
        for one in unpickler.hooks:
            one.ready(unpickler.homes)
        if latest is not None:
            reader.log.written(latest)
    except Exception as error:
        raise StateError(str(error)) from None
    return reader


def _home(module: str) -> str:
    return module.partition(".")[0]


def _maker(fmt: Format) -> Any:
    return fmt.reader.func if isinstance(fmt.reader, partial) else fmt.reader


def _given(formats: Sequence[Format]) -> list[Any]:
    """What is kept by its place: formats, their documents, and what their readers are made with."""
    given: list[Any] = []
    for fmt in formats:
        given += [fmt, *fmt.documents]
        if isinstance(fmt.reader, partial):
            given += [*fmt.reader.args, *fmt.reader.keywords.values()]
    return given


def _homes(formats: Sequence[Format]) -> set[str]:
    """The packages whose objects are put by: this one, and those that add formats to it."""
    return {_home(__name__), *(_home(_maker(fmt).__module__) for fmt in formats)}


class _Pickler(pickle.Pickler):
    def __init__(self, out: io.BytesIO, formats: Sequence[Format]) -> None:
        super().__init__(out, pickle.HIGHEST_PROTOCOL)
        self._places = {id(value): place for place, value in enumerate(_given(formats))}
        self._homes = _homes(formats)

    def persistent_id(self, value: object) -> int | None:
        return self._places.get(id(value))

    def reducer_override(self, value: Any) -> Any:
        kind = type(value)
        if kind is MethodType:
            return hook, (value.__self__, value.__name__)
        if (
            isinstance(value, (type, FunctionType))
            or kind is Hook
            or _home(kind.__module__) not in self._homes
        ):
            return NotImplemented
        made, args, *rest = value.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
        if made is not copyreg.__newobj__ or args[0] is not kind or isinstance(value, _NEVER):  # type: ignore[attr-defined]
            raise pickle.PicklingError(f"{kind.__name__} is not put by")
        return blank, (kind.__module__, kind.__name__, *args[1:]), *rest


def blank(module: str, name: str, *values: Any) -> Any:
    """An object of a class without its contents; a tuple with them."""
    kind = getattr(sys.modules.get(module), name, None)
    if not isinstance(kind, type) or kind.__module__ != module or issubclass(kind, (*_NEVER, type)):
        raise StateError(f"{module}.{name} is no part of a reader")
    return kind.__new__(kind, *values)


class _Unpickler(pickle.Unpickler):
    def __init__(self, state: io.BytesIO, formats: Sequence[Format]) -> None:
        super().__init__(state)
        self.hooks: list[Hook] = []
        self.homes = _homes(formats)
        self._given = _given(formats)

    def persistent_load(self, place: int) -> Any:
        return self._given[place]

    def find_class(self, module: str, name: str) -> Any:
        if module == __name__ and name in ("blank", "hook"):
            return self._blank if name == "blank" else self._hook
        if name in _PLAIN.get(module, ()):
            return getattr(sys.modules[module], name)
        raise pickle.UnpicklingError(f"{module}.{name} is no part of a reader")

    def _blank(self, module: str, name: str, *values: Any) -> Any:
        if _home(module) not in self.homes:
            raise StateError(f"{module}.{name} is no part of a reader")
        return blank(module, name, *values)

    def _hook(self, owner: object, name: str) -> Hook:
        self.hooks.append(hook(owner, name))
        return self.hooks[-1]


def _part(reader: Any, names: tuple[str, ...]) -> Any:
    for name in names:
        reader = vars(reader)[name]
    return reader


@lru_cache(maxsize=1)
def _of_new() -> list[tuple[type, set[str]]]:
    """What these parts of a new reader are, and what each of them holds."""
    parts = [_part(SourceReader(Stream("")), names) for names in _SPINE]
    return [(type(part), set(vars(part))) for part in parts]


def _require_whole(reader: Any, formats: Sequence[Format]) -> None:
    """Require the parts that decide what runs to be what they are in a new reader.

    Raises:
        StateError: one is another.
    """
    for (kind, keys), names in zip(_of_new(), _SPINE, strict=True):
        part = _part(reader, names)
        if type(part) is not kind or vars(part).keys() != keys:
            raise StateError("it is no reader")
    log = vars(reader.log)
    looked_for = vars(log["_search"])["_formats"]
    joins = all(isinstance(one, Reader) and fmt in formats for (_, fmt), one in log["_readers"].items())
    if not joins or any(fmt not in formats for fmt in looked_for):
        raise StateError("it reads other formats")
