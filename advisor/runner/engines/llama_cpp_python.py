"""The engine llama-cpp-python, in a process of its own.

Its threads spin while they wait for each other, as GNU OpenMP does unless ``OMP_WAIT_POLICY`` says otherwise;
that is left as it is, for it is what everybody's llama-cpp-python does. Measured on 2 cores with the demo
model, 256 tokens of context, 2 threads:

- cores free: 8.8 ms a token where they spin, 23.5 ms with ``PASSIVE``; prefill 335 tok/s either way
- another process busy on one of them: 143 to 863 ms where they spin, 34 to 43 ms with ``PASSIVE``; prefill
  29 to 45 tok/s against 73 to 86
- the same with 1 thread: 20 ms where they spin, 26 ms with ``PASSIVE``; prefill 118 tok/s against 88

So ``PASSIVE`` would show a machine at rest as nearly three times slower than it is. What busy cores do to a
figure has to be noticed by who measures.
"""

from __future__ import annotations

import importlib.util
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.errors import InputError
from advisor.redact import clean
from advisor.runner import gpus, model_file
from advisor.runner.engine import EngineError, Processor, Timed
from advisor.runner.engines.child import Child, cause, python
from advisor.runner.settings import LOOKUP_NGRAM

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Self

    from advisor.gguf import ModelFile
    from advisor.runner.settings import Settings

_NAME = "llama-cpp-python"
_WORKER = Path(__file__).with_name("llama_cpp_worker.py")
_KV_TYPES = {
    "f32": 0,
    "f16": 1,
    "q4_0": 2,
    "q4_1": 3,
    "q5_0": 6,
    "q5_1": 7,
    "q8_0": 8,
    "iq4_nl": 20,
    "bf16": 30,
}
"""The numbers in ggml.h of those that llama.cpp offers for a cache; the package does not name them all."""
_LOOKUP_NOTE = (
    f"Prompt lookup is {_NAME}'s own: it looks for the last {LOOKUP_NGRAM} tokens, then for fewer, where "
    f"llama-server's takes {LOOKUP_NGRAM} or nothing, so other drafts are accepted. Its phases are by the "
    "clock, not by the engine's counters, which makes decode seem 1 to 2 % slower."
)


class LlamaCppPython:
    """The preferred backend: compiled for this machine."""

    id = _NAME
    extra = "runner"
    engine = _NAME

    def is_installed(self) -> bool:
        """Whether its package is there; nothing of it is imported."""
        return importlib.util.find_spec("llama_cpp") is not None

    def start(self, settings: Settings, log: Path) -> Running:
        """Load a model in a process of its own.

        Raises:
            EngineError: why it can't, in one sentence.
        """
        options = _options(settings)
        try:
            model = model_file.checked(settings.model)
        except InputError as error:
            raise EngineError(str(error)) from None
        return Running(settings, options, model, log)


class Running:
    """A model that is loaded.

    Args:
        settings: how.
        options: the same as `Llama` of llama-cpp-python takes them.
        model: what the model's file says, if it could be read.
        log: the engine's log.

    Raises:
        EngineError: it can't be loaded.
    """

    name = _NAME

    def __init__(
        self, settings: Settings, options: dict[str, Any], model: ModelFile | None, log: Path
    ) -> None:
        self._child = Child(_NAME, python(_WORKER), log)
        self._asked = 0
        try:
            hello = self._said("can't be started", "hello")
            self.version: str | None = hello["version"]
            self.processors = tuple(Processor(**one) for one in hello["processors"])
            if model is not None:
                free_bytes = _free_bytes(self.processors, settings)
                model_file.check_memory(model, settings, free_bytes, logits=settings.lookup is not None)
            given = {"options": options, "lookup": settings.lookup, "ngram": LOOKUP_NGRAM}
            loaded = self._said("can't load the model", "load", **given)
        except BaseException:
            self.close()
            raise
        self.context: int = loaded["context"]
        self.notes = tuple(_notes(settings, self.processors, hello["offloads"], self.context, model))

    def tokens(self, text: str) -> list[int]:
        """The tokens of a text, without a token for its begin.

        Raises:
            EngineError: the engine ended.
        """
        found: list[int] = self._said("can't tokenise", "tokens", text=text)
        return found

    def chat_text(self, messages: Sequence[dict[str, str]]) -> str:
        """Messages as the model's own chat template writes them.

        Raises:
            EngineError: the model has no usable template, or the engine ended.
        """
        text: str | None = self._said(
            "can't write these messages by the model's chat template", "chat_text", messages=list(messages)
        )
        if text is None:
            raise EngineError("The model has no chat template; give its prompts as text.")
        return text

    def forget(self) -> None:
        """Drop what is cached: nothing of the next prompt is reused.

        Raises:
            EngineError: the engine ended.
        """
        self._said("can't drop its cache", "forget")

    def ask(self, prompt: Sequence[int], output_tokens: int) -> Timed:
        """Evaluate a prompt and generate exactly so many tokens, greedily; end tokens don't end it.

        Raises:
            EngineError: it does not fit, or the engine ended.
        """
        if not prompt or output_tokens < 1:
            raise EngineError("A request needs a token to evaluate and one to generate.")
        if len(prompt) + output_tokens > self.context:
            raise EngineError(
                f"A prompt of {len(prompt):,} tokens and {output_tokens:,} to generate don't fit in a "
                f"context of {self.context:,}."
            )
        said = self._said("can't go on", "ask", prompt=list(prompt), output_tokens=output_tokens)
        cached: int | None = said["cached_tokens"]
        return Timed(
            started_at=datetime.fromtimestamp(said["started_at"], UTC),
            prompt_tokens=len(prompt),
            cached_tokens=cached,
            prefill_tokens=None if cached is None else len(prompt) - cached,
            prefill_ms=said["prefill_ms"],
            output_tokens=output_tokens,
            decode_ms=said["decode_ms"],
            decode_steps=said["decode_steps"],
            ttft_ms=said["ttft_ms"],
            total_ms=said["total_ms"],
            inter_token_ms=tuple(said["inter_token_ms"]),
            draft_tokens=said.get("draft_tokens"),
            accepted_tokens=said.get("accepted_tokens"),
            finish_reason="length",
        )

    def close(self) -> None:
        """End the process; its log is complete after that."""
        self._child.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.close()

    def _said(self, otherwise: str, do: str, **given: Any) -> Any:
        """The answer to a question.

        Raises:
            EngineError: there is none; begins with ``otherwise``.
        """
        self._asked += 1
        self._child.write(json.dumps({"id": self._asked, "do": do, "with": given}))
        while (line := self._child.line()) is not None:
            answer = json.loads(line)
            if answer["id"] != self._asked:
                continue  # of a question that nobody waits for any more
            if "unwritten" in answer:
                self.close()
                raise EngineError(f"{_NAME}: its log can't be written ({clean(answer['unwritten'])}).")
            if "failed" in answer:
                raise EngineError(f"{_NAME} {otherwise}: {cause(answer['failed'])}.")
            return answer["said"]
        raise self._child.failure(otherwise)


def _options(settings: Settings) -> dict[str, Any]:
    """The settings as `Llama` takes them; what is not set is left to it.

    Raises:
        EngineError: it has no such setting.
    """
    if settings.draft_model is not None:
        raise EngineError(f"{_NAME} has no draft models, only prompt lookup; take --backend xllamacpp.")
    options = {
        "model_path": str(settings.model),
        "n_ctx": settings.context,
        "n_gpu_layers": settings.gpu_layers,
        "n_batch": settings.batch,
        "n_ubatch": settings.ubatch,
        "n_threads": settings.threads,
        "n_threads_batch": settings.threads_batch,
        "flash_attn": settings.flash_attention,
        "type_k": _kv_type(settings.kv_type_k),
        "type_v": _kv_type(settings.kv_type_v),
        "use_mlock": settings.mlock or None,
    }
    return {name: value for name, value in options.items() if value is not None}


def _kv_type(name: str | None) -> int | None:
    if name is None:
        return None
    if name not in _KV_TYPES:
        raise EngineError(f"{clean(name)}: no type of a KV cache; there are {', '.join(_KV_TYPES)}.")
    return _KV_TYPES[name]


def _free_bytes(processors: Sequence[Processor], settings: Settings) -> int:
    """Of main memory, and of the GPUs if layers go there."""
    on_gpus = sum(one.free_bytes or 0 for one in processors if one.is_gpu) if settings.gpu_layers else 0
    return model_file.free_memory() + on_gpus


def _notes(
    settings: Settings,
    processors: Sequence[Processor],
    offloads: bool,
    context: int,
    model: ModelFile | None,
) -> list[str]:
    """What a setting came to, where that is not what it says."""
    notes = []
    if settings.gpu_layers and not offloads and (sentence := gpus.unused(_NAME, processors)):
        notes.append(sentence)
    trained = model.facts.get(f"{model.architecture}.context_length") if model else None
    if isinstance(trained, int) and context > trained:
        notes.append(
            f"The context of {context:,} tokens is more than the {trained:,} the model was trained on."
        )
    if settings.lookup is not None:
        notes.append(_LOOKUP_NOTE)
    return notes
