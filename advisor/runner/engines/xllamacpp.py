"""The native llama-server inside the `xllamacpp` wheel: no compiler, no wait.

A prompt reuses what the one before it left in the server's one slot, and nothing after `forget`.
"""

from __future__ import annotations

import json
import secrets
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from importlib import metadata
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from advisor.errors import InputError
from advisor.runner import gpus
from advisor.runner.engine import EngineError, Processor, Timed
from advisor.runner.engines.child import Child, python
from advisor.runner.engines.xllamacpp_fields import fields_of
from advisor.runner.engines.xllamacpp_host import KEY
from advisor.runner.model_file import check_memory, checked, free_memory
from advisor.sources.served.web import NoAnswerError, Web, whole
from advisor.streamed import error_of, streamed
from parsers.formats.json_records import NOWHERE
from parsers.formats.json_values import count
from parsers.formats.llama_server.body import request_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType
    from typing import Self

    from advisor.runner.settings import Settings
    from advisor.sources.served.web import Answer
    from advisor.streamed import Event

PACKAGE = "xllamacpp"
HOST = Path(__file__).with_name("xllamacpp_host.py")
_LONGEST_S = 24 * 3600.0
"""A prompt may take hours on a slow machine; when the engine ends, its connection does too."""
_GPUS = {"gpu", "igpu"}


class Xllamacpp:
    """The backend of this name."""

    id = "xllamacpp"
    extra = "runner-lite"
    engine = "llama-server"

    def is_installed(self) -> bool:
        """Whether the wheel is there."""
        return find_spec(PACKAGE) is not None

    def start(self, settings: Settings, log: Path) -> LlamaServer:
        """Load a model in a server of its own on a free port of this machine.

        Raises:
            EngineError: why it can't.
        """
        if not gpus.present():
            _require_room(settings)
        return LlamaServer(settings, log)


def _require_room(settings: Settings) -> None:
    """Refuse what main memory can't hold; of a file that can't be read the engine says more.

    Raises:
        EngineError: it can't.
    """
    model = None
    with suppress(InputError):
        model = checked(settings.model)
    if model is not None:
        check_memory(model, settings, free_memory())


def command(fields: dict[str, Any]) -> list[str]:
    """The words that start a server with these fields of the wheel's `CommonParams`."""
    return [*python(HOST), json.dumps(fields)]


class LlamaServer:
    """A llama-server with one slot, which answers nobody else.

    Args:
        settings: how.
        log: its own log is appended there.

    Raises:
        EngineError: it can't start.
    """

    name = Xllamacpp.engine

    def __init__(self, settings: Settings, log: Path) -> None:
        self.version: str | None = None
        self.notes: tuple[str, ...] = ()
        with suppress(metadata.PackageNotFoundError):
            self.version = f"{PACKAGE} {metadata.version(PACKAGE)}"
        self._is_drafting = settings.draft_model is not None or settings.lookup is not None
        self._held = ExitStack()
        try:
            self._begin(settings, log)
        except BaseException:
            self.close()
            raise

    def _begin(self, settings: Settings, log: Path) -> None:
        folder = self._held.enter_context(TemporaryDirectory(prefix="phasewise-", ignore_cleanup_errors=True))
        key = secrets.token_urlsafe()
        self._child = Child(self.name, command(fields_of(settings, folder)), log, {KEY: key})
        self._held.callback(self._child.close)
        line = self._child.line()
        if line is None:
            raise self._child.failure("can't load the model")
        said = json.loads(line)
        if "error" in said:
            raise EngineError(f"{self.version or PACKAGE} can't be started so: {said['error']}.")
        self.processors = tuple(_processor(one) for one in said["devices"])
        self._web = Web(said["address"], token=key, answer_s=_LONGEST_S)
        self._held.callback(self._web.close)
        props = self._got("/props")
        told = props.get("default_generation_settings") if isinstance(props, dict) else None
        context = count(told, "n_ctx") if isinstance(told, dict) else None
        if context is None:
            raise EngineError(f"{self.version or PACKAGE} does not say how large its context is.")
        self.context = context
        if context < settings.context:
            why = "the model was trained for no more"
            self.notes += (f"The context has {context:,} tokens, not {settings.context:,}: {why}.",)
        if settings.gpu_layers and (sentence := gpus.unused(PACKAGE, self.processors)):
            self.notes += (sentence,)

    @property
    def pid(self) -> int:
        """Its process number."""
        return self._child.pid

    def tokens(self, text: str) -> list[int]:
        """The tokens of a text, without a token for its begin; special tokens written out are taken as such.

        Raises:
            EngineError: the engine ended.
        """
        tokens: list[int] = self._posted("/tokenize", {"content": text})["tokens"]
        return tokens

    def chat_text(self, messages: Sequence[dict[str, str]]) -> str:
        """Messages as the model's own chat template writes them.

        Raises:
            EngineError: the template can't take them, or the engine ended.
        """
        return str(self._posted("/apply-template", {"messages": list(messages)})["prompt"])

    def forget(self) -> None:
        """Erase what the slot holds.

        Raises:
            EngineError: the engine ended.
        """
        self._posted("/slots/0?action=erase", {})

    def ask(self, prompt: Sequence[int], output_tokens: int) -> Timed:
        """Evaluate a prompt and generate exactly so many tokens, greedily.

        Raises:
            EngineError: it does not fit the context, or the engine ended.
        """
        if not prompt:
            raise EngineError("an empty prompt can't be measured.")
        if len(prompt) + output_tokens > self.context:
            raise EngineError(
                f"{len(prompt):,} prompt tokens and {output_tokens:,} to generate don't fit a context of "
                f"{self.context:,} tokens."
            )
        asked = {
            "prompt": list(prompt),
            "n_predict": output_tokens,
            "ignore_eos": True,
            "temperature": 0,
            "cache_prompt": True,
            "stream": True,
            "return_tokens": True,
            "timings_per_token": self._is_drafting,
        }
        started_at = datetime.now(UTC)
        try:
            with streamed(self._web, "/completion", asked) as reply:
                if reply.refused is not None:
                    raise _refused(reply.refused)
                return _timed(reply.events, reply.sent_s, started_at)
        except NoAnswerError:
            raise self._child.failure("ended before the answer did") from None

    def close(self) -> None:
        """End the server."""
        self._held.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.close()

    def _got(self, path: str) -> Any:
        try:
            return self._web.get(path).json()
        except NoAnswerError:
            raise self._child.failure("does not answer") from None

    def _posted(self, path: str, said: dict[str, Any]) -> Any:
        try:
            with self._web.post(path, said) as came:
                answer = whole(came)
        except NoAnswerError:
            raise self._child.failure("does not answer") from None
        if answer.status != 200:
            raise _refused(answer)
        return answer.json()


def _processor(told: dict[str, Any]) -> Processor:
    is_gpu = told["kind"] in _GPUS
    return Processor(
        told["name"], told["description"], is_gpu, told["memory_bytes"] or None, told["free_bytes"] or None
    )


def _refused(answer: Answer) -> EngineError:
    said = error_of(answer.any_json()) or f"HTTP {answer.status} {answer.reason}"
    return EngineError(f"llama-server refuses: {said}.")


def _timed(events: Iterator[Event], sent_s: float, started_at: datetime) -> Timed:
    """What the stream says and how it came; the last event has the server's own counters.

    Each token is an event; those of one step, a draft that was accepted, say the same time of decode.
    """
    steps, end_s, last = dict[float, float](), sent_s, dict[str, Any]()
    for event in events:
        if not isinstance(event.data, dict):
            continue
        last = event.data
        if last.get("tokens"):
            end_s = event.at_s
            steps.setdefault((last.get("timings") or {}).get("predicted_ms", end_s), end_s)
    told = request_of(last, NOWHERE, NOWHERE)
    if told is None or told.prompt_tokens is None or told.output_tokens is None or not steps:
        why = error_of(last) or "its counters are missing"
        raise EngineError(f"llama-server broke off its answer: {why}.")
    stamps_ms = [1000 * (at_s - sent_s) for at_s in steps.values()]
    return Timed(
        started_at=started_at,
        prompt_tokens=told.prompt_tokens,
        cached_tokens=told.cached_tokens,
        prefill_tokens=told.prefill_tokens,
        prefill_ms=told.prefill_ms,
        output_tokens=told.output_tokens,
        decode_ms=told.decode_ms,
        decode_steps=told.decode_steps,
        ttft_ms=stamps_ms[0],
        total_ms=1000 * (end_s - sent_s),
        inter_token_ms=tuple(b - a for a, b in pairwise(stamps_ms)),
        draft_tokens=told.draft_tokens,
        accepted_tokens=told.accepted_tokens,
        finish_reason=told.finish_reason,
    )
