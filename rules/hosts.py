"""Which machine wrote what, as far as names tell: folders and files of logs, labels of their lines.

A log seldom names its machine. What differs between the names of a fleet's logs most often does; so that, and
no more, is what a host is here, and every page says which of these names it is.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Place: TypeAlias = tuple[str, str | None]
"""A source, and the label of a process in it: a container, pod, unit or port."""

Naming: TypeAlias = Literal["folder", "file", "label", "file and label", "address"]
"""What hosts are told apart by."""

_DAY = r"(?:20\d\d-\d\d-\d\d|20\d{6})(?:[T_-]?\d\d(?:[:.-]?\d\d){0,2}Z?)?"
_DATE = re.compile(_DAY)
_DATED = re.compile(rf"[._-]?(?<!\d){_DAY}(?!\d)")
_PACKED = re.compile(r"\.(?:gz|zst|xz|bz2|lz4)$")
_NUMBERED = re.compile(r"(?<=.)\.\d{1,3}$")
_NUMBERS = re.compile(r"(?:\d{1,3}\.){3}\d{1,3}$")
_ENDING = re.compile(r"(?<=.)\.[A-Za-z]\w*$")
_ADDRESS = re.compile(r"\bip=([^\s,)]+)")
_PORT = re.compile(r"\d+")


def hosts(places: Iterable[Place]) -> tuple[Naming, dict[Place, str | None]]:
    """A host for each place, None where nothing tells it, and what it is told by.

    - Labels, where one source holds several; that of Ray's lines is an address. Ports are no hosts. A source
      without any is a host by its own name, among several.
    - Else folders, where there are several: what differs between them.
    - Else files: what differs between their names. Dates and the numbers of rotated files are no difference;
      four numbers are an address.
    """
    known = list(dict.fromkeys(places))
    labels = {place: _label(place[1]) for place in known}
    by_source = Counter(source for source, _ in {(place[0], labels[place]) for place in known})
    naming, files = _files(list(by_source))
    if max(by_source.values(), default=0) < 2:
        return naming, {place: files[place[0]] for place in known}
    told = [label for label in labels.values() if label is not None]
    labelled = {source for (source, _), label in labels.items() if label is not None}
    unlabelled = {source: file for source, file in files.items() if source not in labelled}
    addresses = {label: found[1] for label in told if (found := _ADDRESS.search(label))}
    if len(addresses) == len(set(told)):
        return "address", {p: addresses.get(labels[p] or "", unlabelled.get(p[0])) for p in known}
    short = _differing({label: re.split(r"[/ ]+", label) for label in told})
    names = {place: short.get(label or "") for place, label in labels.items()}
    if len(set(files.values())) < 2:
        return "label", names
    return "file and label", {
        place: unlabelled.get(place[0]) if name is None else f"{files[place[0]]} {name}"
        for place, name in names.items()
    }


def _label(label: str | None) -> str | None:
    return None if label is None or _PORT.fullmatch(label) else label


def _files(paths: Sequence[str]) -> tuple[Naming, dict[str, str]]:
    """By folder where there are several, else by file."""
    parts = {path: [p for p in re.split(r"[/\\]+", path) if p not in ("", ".")] or [path] for path in paths}
    folders = {path: [p for p in told[:-1] if not _DATE.fullmatch(p)] for path, told in parts.items()}
    if len({tuple(folder) for folder in folders.values()}) > 1:
        return "folder", _differing(folders)
    names = {path: _unrotated(told[-1]) for path, told in parts.items()}
    endings = {name[len(_ENDING.sub("", name)) :] for name in names.values()}
    if len(endings) == 1 and len(set(names.values())) > 1:
        names = {path: _ENDING.sub("", name) for path, name in names.items()}
    return "file", {path: {"-": "standard input"}.get(name, name) for path, name in names.items()}


def _unrotated(name: str) -> str:
    """A file's name without its date, its number among rotated files, and how it is packed."""
    undated = _DATED.sub("", _PACKED.sub("", name))
    bare = undated if _NUMBERS.search(undated) else _NUMBERED.sub("", undated)
    return bare if _ENDING.sub("", bare).strip("._-") else name


def _differing(names: Mapping[str, list[str]]) -> dict[str, str]:
    """Names without the parts that all of them begin or end with; ``.`` where nothing is left."""
    told = [tuple(parts) for parts in names.values()]
    if len(set(told)) < 2:
        return {name: "/".join(parts) or "." for name, parts in names.items()}
    first = _alike(told)
    last = _alike([parts[first:][::-1] for parts in told])
    return {name: "/".join(parts[first : len(parts) - last]) or "." for name, parts in names.items()}


def _alike(names: Sequence[Sequence[str]]) -> int:
    """How many parts all names begin with."""
    same = 0
    for parts in zip(*names, strict=False):
        if len(set(parts)) > 1:
            break
        same += 1
    return same
