"""One request of a probe: when its tokens came, and what the server says of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from advisor.probe.target import Api, require_key
from advisor.redact import clean
from advisor.sources.served.web import NoAnswerError
from advisor.streamed import END, error_of, streamed
from parsers.formats.base import At
from parsers.formats.json_values import count, text
from parsers.formats.llama_server import body as llama_server
from parsers.formats.ollama import bodies as ollama

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from advisor.probe.plan import Planned
    from advisor.probe.target import Target
    from advisor.sources.served.web import Answer, Web
    from advisor.streamed import Event
    from parsers.records import Request

_NOWHERE = At(0, 0, None, b"", 0)
_REFUSED = (400, 413, 422)
ALONE = 1.1
"""Up to so many tokens an event, each has one of its own; some tokens are no text."""
_TOO_LONG = ("context", "too long", "too large", "max_model_len", "maximum")


class ProbeError(Exception):
    """A request got no whole answer; the message is why, as the end of a sentence."""


class TooLongError(ProbeError):
    """The prompt does not fit the server's context."""


class NoSuchPathError(ProbeError):
    """The server does not know how it was asked."""


class NoUsageError(ProbeError):
    """The server refuses to be asked for counts."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What one request took, on the clock of who asked.

    Attributes:
        planned: what it is for.
        started_at: UTC.
        sent_s: when it was sent, on `time.perf_counter`; the connection stood by then.
        came_s: when each event with new text came.
        prompt_tokens, cached_tokens, output_tokens: as the server counts them; ``None`` where it does not.
        own: what the server's own clock says of it; ``None`` where it says nothing.
        request_id, model, finish_reason: as the server says them, cleaned.
        first_tokens: of the output, those that came with the first event: the time to the first token has
            paid for them.
    """

    planned: Planned
    started_at: datetime
    sent_s: float
    came_s: tuple[float, ...]
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    own: Request | None = None
    request_id: str | None = None
    model: str | None = None
    finish_reason: str | None = None
    first_tokens: int = 1

    @property
    def ttft_ms(self) -> float:
        """Until the first text came."""
        return 1000 * (self.came_s[0] - self.sent_s)

    @property
    def total_ms(self) -> float:
        """Until the last text came."""
        return 1000 * (self.came_s[-1] - self.sent_s)

    @property
    def decode_ms(self) -> float:
        """From the first text to the last."""
        return 1000 * (self.came_s[-1] - self.came_s[0])

    @property
    def decode_steps(self) -> int | None:
        """Tokens after those of the first event; ``None`` where nobody counts, or all came at once."""
        if self.output_tokens is None or len(self.came_s) < 2:
            return None
        return max(self.output_tokens - self.first_tokens, 0) or None

    @property
    def prefill_tokens(self) -> int | None:
        """Tokens that were evaluated; of a prompt that no cache can know all, where nobody counts."""
        return None if self.prompt_tokens is None else self.prompt_tokens - (self.cached_tokens or 0)


@dataclass(slots=True)
class _Heard:
    """What a stream has said so far."""

    came_s: list[float] = field(default_factory=list)
    characters: list[int] = field(default_factory=list)
    usage: dict[str, Any] = field(default_factory=dict)
    last: dict[str, Any] = field(default_factory=dict)
    own: Request | None = None
    finish_reason: str | None = None
    has_ended: bool = False

    def hear(self, event: Event, api: Api) -> None:
        """Take an event.

        Raises:
            ProbeError: it tells of an error.
        """
        said = event.data
        self.has_ended |= said == END
        if not isinstance(said, dict):
            return
        if said.get("error"):
            raise ProbeError(f"it broke off: {error_of(said) or 'an error that it does not explain'}")
        self.last = {**self.last, **said}
        self.usage = said["usage"] if isinstance(said.get("usage"), dict) else self.usage
        if characters := _characters(said):
            self.came_s.append(event.at_s)
            self.characters.append(characters)
        read = ollama.request_of if api is Api.OLLAMA else llama_server.request_of
        if "timings" in said or said.get("done") is True:
            self.own = read(said, _NOWHERE, _NOWHERE)
        for choice in _choices(said):
            self.finish_reason = text(choice, "finish_reason") or self.finish_reason
        self.has_ended |= bool(self.finish_reason) or said.get("done") is True


def ask(web: Web, target: Target, planned: Planned, characters: float, output: int) -> Sample:
    """Send one request, and read its answer to the end.

    Args:
        web: the server; nobody else asks with it at the same time.
        target: how it wants to be asked.
        planned: what.
        characters: of a token.
        output: tokens to generate at most.

    Raises:
        ProbeError: no whole answer came.
        InputError: the server wants a key.
    """
    started_at = datetime.now(UTC)
    try:
        with streamed(web, target.api, target.body(planned.text(characters), output)) as reply:
            if reply.refused is not None:
                require_key(web, reply.refused)
                raise _refusal(reply.refused, target)
            heard = _Heard()
            for event in reply.events:
                heard.hear(event, target.api)
    except NoAnswerError as error:
        raise ProbeError(f"no whole answer: {error}") from None
    if not heard.came_s:
        raise ProbeError("its answer has no text that comes in a stream")
    if not heard.has_ended:
        raise ProbeError("its answer broke off")
    return _sample(planned, started_at, reply.sent_s, heard)


_MOST_PER_EVENT = 256
"""Tokens: a count of more is no count."""


def _sample(planned: Planned, started_at: datetime, sent_s: float, heard: _Heard) -> Sample:
    own, usage = heard.own, heard.usage
    details = usage.get("prompt_tokens_details")
    cached = count(details, "cached_tokens") if isinstance(details, dict) else None
    prompt, output = count(usage, "prompt_tokens"), count(usage, "completion_tokens")
    if own is not None:
        prompt = own.prompt_tokens if prompt is None else prompt
        cached = own.cached_tokens if own.cached_tokens is not None else cached
        output = own.output_tokens if output is None else output
    if cached is not None and prompt is not None and cached > prompt:
        cached = None
    if output is not None and output > _MOST_PER_EVENT * len(heard.came_s):
        output = None
    finish_reason = heard.finish_reason or (own.finish_reason if own else None)
    return Sample(
        planned,
        started_at,
        sent_s,
        tuple(heard.came_s),
        prompt_tokens=prompt or None,
        cached_tokens=cached,
        output_tokens=output or None,
        own=own,
        request_id=clean(text(heard.last, "id") or "") or None,
        model=clean(text(heard.last, "model") or "") or None,
        finish_reason=clean(finish_reason or "") or None,
        first_tokens=_first_tokens(output or 0, heard.characters),
    )


def _first_tokens(output: int, characters: Sequence[int]) -> int:
    """Tokens of the first event: 1 where each has one, else by its share of the text.

    Engines differ: some hold all tokens back until there are a few, some send the first one alone.
    """
    if output <= ALONE * len(characters):
        return 1
    return max(round(output * characters[0] / sum(characters)), 1)


def _choices(said: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What the answer is made of, whichever API wrote it."""
    listed = said.get("choices")
    for one in listed if isinstance(listed, list) else ():
        if isinstance(one, dict):
            yield one


def _characters(said: dict[str, Any]) -> int:
    """Of the text that an event brings; what a model thinks is made of tokens too."""
    holders = [said.get("message"), *(choice.get("delta", choice) for choice in _choices(said))]
    keys = ("content", "reasoning_content", "reasoning", "thinking", "text")
    texts = (text(one, key) for one in holders if isinstance(one, dict) for key in keys)
    return sum(len(one) for one in texts if one is not None)


def _refusal(answer: Answer, target: Target) -> ProbeError:
    why = error_of(answer.any_json()) or clean(answer.reason) or "no reason given"
    if answer.status == 404 and target.api is Api.CHAT:
        return NoSuchPathError(why)
    if answer.status in (404, 405, 501):
        return ProbeError(f"it is not OpenAI-compatible (HTTP {answer.status} at {target.api}: {why})")
    if answer.status in _REFUSED and "stream_options" in why:
        return NoUsageError(why)
    if answer.status in _REFUSED and any(sign in why.lower() for sign in _TOO_LONG):
        return TooLongError(why)
    return ProbeError(f"it refuses (HTTP {answer.status}: {why})")
