"""The targets of fuzzing: a function that takes any bytes and fails where what must hold does not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from parsers import FORMATS
from tests.fuzz import fast_way, files, logs, models, seeds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


@dataclass(frozen=True)
class Target:
    """Something that reads what others wrote.

    Attributes:
        run: reads bytes; raises where something that must hold does not.
        begin: inputs to begin with.
        words: what such inputs are made of.
        longest: no longer input is made.
    """

    run: Callable[[bytes], None]
    begin: Callable[[], Sequence[bytes]]
    words: Callable[[], Iterable[bytes]] = tuple
    longest: int = 2048

    @property
    def name(self) -> str:
        """How it is called on the command line."""
        return self.run.__name__.replace("_", "-")

    def seeds(self) -> list[bytes]:
        """Inputs to begin with, those that found a fault once among them."""
        return [*self.begin(), *self.kept()]

    def kept(self) -> list[bytes]:
        """Inputs that found a fault once."""
        return seeds.kept(self.name)


def _programs(samples: Callable[[], Sequence[object]], before: bytes = b"") -> Callable[[], list[bytes]]:
    """Each sample as it is, and after three edits."""

    def begin() -> list[bytes]:
        heads = [before + at.to_bytes(2, "little") for at in range(len(samples()))]
        return [*heads, *(head + _edits(at) for at, head in enumerate(heads))]

    return begin


def _edits(at: int) -> bytes:
    """Three edits, of other kinds and at other places for each number."""
    return bytes(byte % 256 for step in range(3) for byte in (3 * at + step, 7 * at + step, step, 11 * at))


def _of_engines() -> list[bytes]:
    """Each sample of each engine as it is."""
    known = enumerate(seeds.sample_engines())
    return [
        engine.to_bytes(2, "little") + at.to_bytes(2, "little")
        for engine, (_, samples) in known
        for at in range(len(samples))
    ]


def _after(head: bytes, inputs: Callable[[], Iterable[bytes]]) -> Callable[[], list[bytes]]:
    return lambda: [head + one for one in inputs()]


def _documents() -> list[bytes]:
    """Pieces of documents as bytes, and short documents with edits."""
    pieces = _after(_CUTS + b"\x00", lambda: seeds.cut(seeds.documents(), 1800))
    return pieces() + _programs(seeds.short_documents, _CUTS + b"\x80")()


def _literals() -> set[bytes]:
    """What lines are looked for by."""
    return {
        literal
        for fmt in FORMATS
        for literal in (*fmt.identify, *(part for line in fmt.lines for part in (line.needle, line.word)))
        if literal
    }


def _json_words() -> set[bytes]:
    return {b'"%s":' % key.encode() for one in seeds.records() if isinstance(one, dict) for key in one}


_CUTS = bytes(range(0, 240, 30))

TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        Target(logs.core, _after(_CUTS, lambda: seeds.cut(seeds.samples(), 800)), _literals, longest=1024),
        Target(logs.logs, _programs(seeds.short_samples, _CUTS), longest=128),
        Target(logs.going_on, _programs(seeds.short_samples, bytes((200, 0))), longest=128),
        Target(fast_way.fast_way, _programs(seeds.usual, _CUTS[1:5]), longest=128),
        Target(logs.formats, _of_engines, longest=128),
        Target(logs.json_lines, _programs(seeds.json_lines), longest=128),
        Target(logs.metrics, _programs(seeds.metrics), longest=128),
        Target(logs.prompts, _after(bytes(4), lambda: seeds.lines()[::7]), _literals, longest=512),
        Target(logs.carriers, seeds.carried, seeds.carrier_words, longest=512),
        Target(logs.shapes, lambda: seeds.lines()[::5], longest=256),
        Target(logs.blocks, _after(_CUTS, seeds.torn), lambda: (b"\xff\xfe", b"__CURSOR=", b"MESSAGE")),
        Target(logs.documents, _documents, _json_words),
        Target(logs.records, _programs(seeds.records), longest=128),
        Target(files.scrapes, _programs(seeds.metrics), longest=128),
        Target(files.gguf, models.gguf, lambda: (b"GGUF", b"llama.", b"\xff" * 8), longest=1024),
        Target(files.compressed, seeds.compressed, longest=1024),
        Target(files.format_file, seeds.toml, seeds.toml_words),
        Target(files.answers, _programs(seeds.answers), longest=128),
        Target(files.redact, lambda: seeds.private(), seeds.private, longest=512),
    )
}
