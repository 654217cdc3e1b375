"""Targets that read other files and answers: models, formats of users, compressed files, servers, texts."""

from __future__ import annotations

import json
import math
import tempfile
import unicodedata
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.errors import InputError
from advisor.gguf import read_gguf, read_model
from advisor.redact import Redactor
from advisor.sources import files
from advisor.sources.served import engines, llama_server, ollama
from parsers import FORMATS, Stream
from parsers.formats.possible import is_possible
from parsers.formats.prometheus.rows import aggregate, state, times_by_request
from parsers.formats.prometheus.scrape import scrapers
from parsers.formats.user import FormatFileError, format_of, parse
from parsers.formats.user.messages import message
from tests.fuzz import seeds
from tests.fuzz.checks import rows_are_sound, text_is_sound
from tests.fuzz.edits import edited_lines, edited_value

if TYPE_CHECKING:
    from collections.abc import Iterator

_NOW = datetime(2026, 1, 1, tzinfo=UTC)
_MOST_BLOCKS = 8
_TOY = b"11-29 20:15:30 toy: 400 in, 40 out, 2.5s\n12-31 23:59:59 toy: 1 in, 0 out, nans\n"


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="fuzz-")


def _written(data: bytes, name: str) -> Path:
    """A new file each time: the last one may still be mapped."""
    path = Path(_folder().name) / name
    path.unlink(missing_ok=True)
    path.write_bytes(data)
    return path


def gguf(data: bytes) -> None:
    """A model file is read, or one sentence says why not."""
    path = _written(data, "model.gguf")
    try:
        facts, model = read_gguf(path), read_model(path)
    except InputError as error:
        text_is_sound(str(error))
        return
    for name, value in facts.items():
        assert is_possible(value), (name, value)
    for number in (model.active_parameters, model.read_bytes, model.parameters, model.weights_bytes):
        assert math.isfinite(number)
        assert number >= 0


def compressed(data: bytes) -> None:
    """A compressed file gives blocks of limited size, or one sentence says why not."""
    source = files.Input(str(_written(data, "log.gz")))
    try:
        for count, block in enumerate(files.blocks(source)):
            assert len(block) <= files.BLOCK
            if count >= _MOST_BLOCKS:
                break
    except InputError as error:
        text_is_sound(str(error))


def format_file(data: bytes) -> None:
    """A user's format file is one, or each thing wrong with it is pointed at; first byte: bytes or values."""
    if data[:1] < b"\x80":
        text = data[1:].decode("utf-8", "replace")
    else:
        text = _toml(edited_value(data[1:], seeds.format_files()))
    try:
        spec = parse(text)
    except FormatFileError as error:
        for problem in error.problems:
            assert message(text, "my.toml", problem).count("\n") >= 2
        return
    stream = Stream("log", engine=spec.engine, latest=_NOW, formats=(format_of(spec, "my.toml"),))
    rows_are_sound(stream.feed(_TOY) + stream.close(), stream.lines)


def _toml(value: Any) -> str:
    if not isinstance(value, dict):
        return f"x = {_inline(value)}"
    return "\n".join(f"{json.dumps(key)} = {_inline(one)}" for key, one in value.items())


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_inline(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return "false" if value is None else json.dumps(value).replace("NaN", "nan").replace("Infinity", "inf")


_SCRAPERS = scrapers(FORMATS)


def scrapes(data: bytes) -> None:
    """An edited answer of ``/metrics`` is a snapshot, or too many series."""
    body = edited_lines(data, seeds.metrics())
    for scraper in _SCRAPERS:
        if scraper.knows(body) and (now := scraper.read(body, 1, _NOW)) is not None:
            for numbers in now.models.values():
                by_request = times_by_request(numbers, scraper.names)
                aggregate(numbers, scraper.names, by_request=by_request)
                state(numbers, scraper.names)


def answers(data: bytes) -> None:
    """What servers answer tells facts that can be, or nothing."""
    value = edited_value(data, seeds.answers())
    for facts in _facts(value):
        for name, fact in facts.items():
            assert is_possible(fact), (name, fact)
            if isinstance(fact, str):
                text_is_sound(fact)
    if (slots := llama_server.slots(value)) is not None:
        assert min(slots.all, slots.prefilling, slots.decoding, slots.open_prompt, slots.open_output) >= 0
    llama_server.process(value)
    for name, model in (ollama.loaded(value) or {}).items():
        assert all(map(is_possible, model.facts.values()))
        text_is_sound(name + model.placed)


def _facts(value: Any) -> Iterator[dict[str, Any]]:
    for engine in engines._ENGINES.values():
        for read in engine.once.values():
            yield read(value)
    for _, _, shows in engines._SIGNS:
        shows(value)
    ollama.is_version(value)


def redact(data: bytes) -> None:
    """No text of a log leaves with controls in it, in whatever it is said."""
    text, words = data.decode("utf-8", "surrogateescape"), Redactor()
    for said in (words.text(text), words.model(text), words.version(text), words.private(text)):
        said.encode("utf-8", "surrogateescape")
    controls = {c for c in words.text(text) if unicodedata.category(c) in {"Cc", "Cf", "Cs", "Zl", "Zp"}}
    assert not controls, controls
