"""Who is probed: the engine behind an address, its model, and how it wants to be asked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from advisor.errors import InputError
from advisor.redact import clean
from advisor.sources.served.engines import look
from advisor.sources.served.web import NoAnswerError
from parsers.formats import FORMATS
from parsers.formats.json_values import text
from parsers.formats.prometheus.scrape import scrapers

if TYPE_CHECKING:
    from advisor.sources.served.web import Answer, Web

UNKNOWN = "unknown"
MODELS = "/v1/models"
_MOST_NAMED = 10
_OBEY = frozenset({"llama-server", "vllm", "sglang"})
"""Engines that take ``ignore_eos``; others may refuse what they don't know."""


class Api(StrEnum):
    """What a server is asked by: the path."""

    CHAT = "/v1/chat/completions"
    COMPLETIONS = "/v1/completions"
    OLLAMA = "/api/chat"


@dataclass(frozen=True, slots=True)
class Target:
    """What is known of a server.

    Attributes:
        engine: as rows call it; `UNKNOWN` where it does not say.
        version, context, slots: as far as it says.
        model: to ask for, without what would reach a terminal as commands; ``None`` where it has no list.
        api: how.
        with_usage: it is asked to count tokens; a few servers refuse the question.
    """

    engine: str
    version: str | None
    context: int | None
    slots: int | None
    model: str | None
    api: Api
    with_usage: bool = True

    def body(self, prompt: str, output: int) -> dict[str, Any]:
        """The JSON that asks for at most so many tokens, greedily, as a stream."""
        said: dict[str, Any] = {"model": self.model} if self.model is not None else {}
        said |= {"stream": True}
        messages = [{"role": "user", "content": prompt}]
        if self.api is Api.OLLAMA:
            return said | {"messages": messages, "options": {"num_predict": output, "temperature": 0}}
        said |= {"max_tokens": output, "temperature": 0}
        said |= {"stream_options": {"include_usage": True}} if self.with_usage else {}
        said |= {"ignore_eos": True} if self.engine in _OBEY else {}
        return said | ({"messages": messages} if self.api is Api.CHAT else {"prompt": prompt})

    @property
    def title(self) -> str | None:
        """The model for people: of a path only the file."""
        return self.model and (self.model.replace("\\", "/").rpartition("/")[2] or self.model)

    def by_completions(self) -> Target:
        """The same server, asked without a chat template."""
        return replace(self, api=Api.COMPLETIONS)

    def without_usage(self) -> Target:
        """The same server, not asked to count."""
        return replace(self, with_usage=False)


def require_near(address: str) -> None:
    """Refuse an address of another machine.

    Raises:
        InputError: it is one, or no address at all.
    """
    try:
        host = urlsplit(address).hostname
    except ValueError:
        host = None
    if host is None or host == "localhost" or host.endswith(".localhost"):
        return  # what is no address is told by who asks it
    try:
        ip = ip_address(host)
        is_near = ip.is_loopback or ip.is_unspecified
    except ValueError:
        is_near = False
    if not is_near:
        raise InputError(f"{clean(host)} is not this machine; say --allow-remote to send it requests.")


def find(web: Web, model: str | None) -> Target:
    """Find out who answers, and which model to ask for.

    Args:
        web: the server.
        model: as the user named it.

    Raises:
        InputError: nobody answers, or it can't be told which model is meant.
    """
    try:
        looked = look(web.get, scrapers(FORMATS))
        models = looked.answers.get(MODELS) or web.get(MODELS)
    except NoAnswerError as error:
        raise InputError(f"{web.name}: {error}.") from None
    require_key(web, models)
    engine = looked.engine
    facts: dict[str, Any] = {}
    for path, told in engine.once.items() if engine is not None else ():
        said = looked.answers[path].json()
        facts |= {name: value for name, value in told(said).items() if value is not None} if said else {}
    name = engine.name if engine is not None else UNKNOWN
    chosen = _chosen(web.name, _names(models.json()), model)
    api = Api.OLLAMA if name == "ollama" else Api.CHAT
    version = clean(facts.get("engine_version") or "") or None
    return Target(name, version, facts.get("context"), facts.get("slots"), chosen, api)


def require_key(web: Web, answer: Answer) -> None:
    """Say what to do where the server wants a key.

    Raises:
        InputError: it does.
    """
    if answer.status in (401, 403):
        need = f"refuses {web.key}" if web.key else "wants a key: put it into PHASEWISE_TOKEN"
        raise InputError(f"{web.name} {need} (HTTP {answer.status}).")


def _names(said: Any) -> list[str]:
    listed = said.get("data") if isinstance(said, dict) else None
    named = (text(one, "id") for one in listed if isinstance(one, dict)) if isinstance(listed, list) else ()
    return [shown for name in named if name is not None and (shown := clean(name))]


def _chosen(address: str, names: list[str], asked: str | None) -> str | None:
    """The model to ask for.

    Raises:
        InputError: there is none of that name, or there are several and none was named.
    """
    if not names:
        return asked
    there = ", ".join(names[:_MOST_NAMED])
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    if asked is None and len(names) > 1:
        raise InputError(f"{address} has several models; say --model with one of {there}{more}.")
    if asked is None:
        return names[0]
    found = next((name for name in names if name in (asked, f"{asked}:latest")), None)
    if found is None:
        raise InputError(f"--model {clean(asked)}: {address} has {there}{more}.")
    return found
