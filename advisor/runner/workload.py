"""What an engine is asked: prompts made of segments, so that what they share is known before they are sent.

A segment of the same name is the same text everywhere; segments of different names differ from their first
word on. A prompt is a row of segments, so a stable prefix is segments that stay, and a broken one is a
segment put before them.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from string import ascii_lowercase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from advisor.runner.engine import Engine

_LEAST_BYTES, _TEMPLATE = 2, 64
"""Bytes of a token of text in any script, nearly always; tokens that a chat's template adds."""

_TEXT_PER_TOKEN = 8
"""Characters that surely hold a token of prose."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a prompt.

    Attributes:
        name: what it is, and the seed of its text.
        size: tokens; ``None`` for all of ``text``.
        text: given text in place of made text.
        messages: a given chat, as roles and contents, in place of a text.
        is_fixed: a cut of the prompt leaves it as it is.
    """

    name: str
    size: int | None = None
    text: str | None = None
    messages: tuple[tuple[str, str], ...] = ()
    is_fixed: bool = False

    @property
    def most_tokens(self) -> int:
        """Its tokens; of given text a number that is hardly ever reached."""
        if self.size is not None:
            return self.size
        given = (self.text or "", *(word for message in self.messages for word in message))
        return sum(len(text.encode("utf-8", "replace")) for text in given) // _LEAST_BYTES + _TEMPLATE

    def words(self, characters: int) -> str:
        """Its text, at least so long where it is made."""
        return self.text if self.text is not None else prose(self.name, characters)


@dataclass(frozen=True, slots=True)
class Ask:
    """One request.

    Attributes:
        label: what it is, for people.
        segments: its prompt.
        output_tokens: to generate.
        is_fresh: the engine forgets its cache before it.
    """

    label: str
    segments: tuple[Segment, ...]
    output_tokens: int
    is_fresh: bool = False

    @property
    def most_tokens(self) -> int:
        """More tokens than prompt and answer have, surely or, of given text, nearly so."""
        return sum(segment.most_tokens for segment in self.segments) + self.output_tokens


@dataclass(frozen=True, slots=True)
class Workload:
    """Requests in their order.

    Attributes:
        name: of the shape or file they are from.
        asks: the requests.
    """

    name: str
    asks: tuple[Ask, ...]

    def with_asks(self, asks: Sequence[Ask]) -> Workload:
        """The same with other requests."""
        return replace(self, asks=tuple(asks))


@dataclass(frozen=True, slots=True)
class Prompt:
    """A request in tokens, and what it shares with the one before.

    Attributes:
        ask: the request.
        tokens: its prompt.
        shared: tokens at its begin that the prompt before has too; 0 where the cache is dropped.
    """

    ask: Ask
    tokens: tuple[int, ...]
    shared: int


def tokenised(workload: Workload, engine: Engine) -> list[Prompt]:
    """The requests as one engine's tokens.

    Raises:
        advisor.runner.engine.EngineError: the engine ended.
    """
    known: dict[Segment, tuple[int, ...]] = {}
    prompts: list[Prompt] = []
    before: tuple[int, ...] = ()
    for ask in workload.asks:
        for segment in ask.segments:
            if segment not in known:
                known[segment] = _tokens(segment, engine)
        tokens = tuple(token for segment in ask.segments for token in known[segment])
        shared = 0 if ask.is_fresh else common(before, tokens)
        prompts.append(Prompt(ask, tokens, shared))
        before = tokens
    return prompts


def common(one: Sequence[object], other: Sequence[object]) -> int:
    """How many tokens, or segments, two prompts begin with alike."""
    pairs = zip(one, other, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _tokens(segment: Segment, engine: Engine) -> tuple[int, ...]:
    if segment.messages:
        chat = [{"role": role, "content": content} for role, content in segment.messages]
        return tuple(engine.tokens(engine.chat_text(chat)))
    if segment.size is None:
        return tuple(engine.tokens(segment.words(0)))
    return tuple(engine.tokens(segment.words(_TEXT_PER_TOKEN * segment.size + 100))[: segment.size])


def prose(name: str, characters: int) -> str:
    """Readable text of at least this length, always the same for a name, and another for every other."""
    shuffled = random.Random(name)
    sentences = _sentences()
    mark = "".join(shuffled.choices(ascii_lowercase, k=8))
    parts, length = [f"{mark}: {name}."], 0
    while length < characters:
        parts.append(shuffled.choice(sentences))
        length += len(parts[-1]) + 1
    return " ".join(parts)


@cache
def _sentences() -> tuple[str, ...]:
    return tuple(files(__package__).joinpath("prose.txt").read_text("utf-8").splitlines())
