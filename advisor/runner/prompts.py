"""Prompts from a file of the user's: JSON Lines of prompts or chats, or one text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from advisor.errors import InputError
from advisor.redact import clean
from advisor.runner.workload import Ask, Segment, Workload

if TYPE_CHECKING:
    from pathlib import Path

OUTPUT_TOKENS = 128
_JSON = (".jsonl", ".ndjson", ".json")
_FORMS = (
    '{"prompt": "..."} or {"messages": [{"role": "user", "content": "..."}]}, each with "max_tokens" or not'
)


def read_prompts(path: Path, output_tokens: int | None) -> Workload:
    """The requests of a file: a line of JSON Lines is a request, any other file is one prompt.

    Args:
        path: the file.
        output_tokens: of each answer; ``None`` for the file's own ``max_tokens``, else `OUTPUT_TOKENS`.

    Raises:
        InputError: it can't be read, or a line is no request.
    """
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise InputError(f"{path}: can't be read ({reason}).") from None
    if path.suffix.lower() not in _JSON:
        asks = [_ask("prompt", {"prompt": text}, output_tokens)] if text.strip() else []
    else:
        lines = [(n, line) for n, line in enumerate(text.split("\n"), 1) if line.strip()]
        asks = [_ask(f"line {n}", _object(path, n, line), output_tokens) for n, line in lines]
    if not asks:
        raise InputError(f"{path}: there is no prompt in it.")
    return Workload(clean(path.name), tuple(asks))


def _object(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict) or not (_is_prompt(said) or _is_chat(said)):
        raise InputError(f"{path}:{number}: not a request; write {_FORMS}.")
    try:
        json.dumps(said, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise InputError(f"{path}:{number}: half of a character (an escape such as \\ud83d alone).") from None
    most = said.get("max_tokens")
    if most is not None and (isinstance(most, bool) or not isinstance(most, int) or not 1 <= most <= 10**6):
        raise InputError(f"{path}:{number}: max_tokens is no number of tokens.")
    return said


def _is_prompt(said: dict[str, Any]) -> bool:
    return isinstance(said.get("prompt"), str) and bool(said["prompt"].strip())


def _is_chat(said: dict[str, Any]) -> bool:
    messages = said.get("messages")
    return (
        isinstance(messages, list)
        and bool(messages)
        and all(
            isinstance(m, dict) and isinstance(m.get("role"), str) and isinstance(m.get("content"), str)
            for m in messages
        )
    )


def _ask(label: str, said: dict[str, Any], output_tokens: int | None) -> Ask:
    tokens = output_tokens or said.get("max_tokens") or OUTPUT_TOKENS
    messages = tuple((m["role"], m["content"]) for m in said.get("messages", ()))
    segment = Segment(label, text=said.get("prompt", ""), messages=messages)
    return Ask(label, (segment,), tokens)
