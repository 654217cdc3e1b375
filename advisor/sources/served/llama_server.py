"""llama-server: `/props` says what it runs, `/slots` how far each request has come.

`/metrics` counts a prompt when it is done and generated tokens when the request ends (seen on b11434), so
between the two only `/slots` tells that something moves. Prompts, which older builds print, are never kept.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from parsers.formats.json_values import count, text

if TYPE_CHECKING:
    from parsers.records import Interval

ENGINE = "llama-server"
TOKENS = ("prompt_tokens_total", "tokens_predicted_total")
"""Prompt and output tokens in `/metrics`."""


def is_props(data: Any) -> bool:
    """Whether this is what llama-server answers at ``/props``."""
    return isinstance(data, dict) and isinstance(data.get("default_generation_settings"), dict)


def props(data: dict[str, Any]) -> dict[str, Any]:
    """Facts under the names of `Setup`."""
    build = re.match(r"b[1-9]\d*", str(data.get("build_info", "")))
    return {
        "engine_version": build[0] if build else None,
        "model": text(data, "model_path"),
        "quantization": text(data, "model_ftype"),
        "slots": count(data, "total_slots") or None,
        "context": count(data["default_generation_settings"], "n_ctx") or None,
    }


def process(data: Any) -> str | None:
    """What newer builds choose by chance at each start."""
    return text(data, "media_marker") if is_props(data) else None


@dataclass(frozen=True, slots=True)
class Slots:
    """What the slots do at one moment.

    Attributes:
        all: how many there are.
        prefilling, decoding: how many do what.
        open_prompt: tokens evaluated of prompts that are not done.
        open_output: tokens generated for requests that have not ended.
    """

    all: int
    prefilling: int
    decoding: int
    open_prompt: int
    open_output: int

    @property
    def phase(self) -> str:
        """What the slots at work do; `idle` where none is."""
        if self.prefilling and self.decoding:
            return "mixed"
        return "prefill" if self.prefilling else "decode" if self.decoding else "idle"


def slots(data: Any) -> Slots | None:
    """The answer of ``/slots``; ``None`` where it does not tell how far its requests are."""
    if not isinstance(data, list) or not all(isinstance(slot, dict) for slot in data):
        return None
    busy = [slot for slot in data if slot.get("is_processing") is True]
    done = [_generated(slot) for slot in busy]
    evaluated = [count(slot, "n_prompt_tokens_processed") for slot in busy]
    if None in done or not all("is_processing" in slot for slot in data):
        return None
    outputs = [tokens or 0 for tokens in done]
    return Slots(
        all=len(data),
        prefilling=outputs.count(0),
        decoding=len(outputs) - outputs.count(0),
        open_prompt=sum(p or 0 for p, out in zip(evaluated, outputs, strict=True) if not out),
        open_output=sum(outputs),
    )


def _generated(slot: dict[str, Any]) -> int | None:
    """Tokens that a slot at work has generated; ``next_token`` was an object until 2025."""
    told = slot.get("next_token")
    first = told[0] if isinstance(told, list) and told else told
    return count(first, "n_decoded") if isinstance(first, dict) else None


@dataclass(slots=True)
class Rising:
    """A count that only rises, told by two addresses that are asked one after the other.

    A request that ends between the two answers is missed in both or counted in both, for one poll. What falls
    and stays down was cancelled.
    """

    level: int | None = None
    _fell: bool = False

    def added(self, value: int) -> int:
        """How much came since the last time."""
        if self.level is None or (value < self.level and self._fell):
            self.level, self._fell = value, False
            return 0
        if value < self.level:
            self._fell = True
            return 0
        more, self.level, self._fell = value - self.level, value, False
        return more


@dataclass(slots=True)
class Progress:
    """Tokens as they are evaluated and generated, from the sums and the slots together."""

    _prompt: Rising = field(default_factory=Rising)
    _output: Rising = field(default_factory=Rising)

    def tell(self, row: Interval, sums: tuple[float | None, float | None], now: Slots | None) -> None:
        """Complete a window.

        Args:
            row: the window.
            sums: prompt and output tokens by ``/metrics``, where that is open.
            now: what the slots do at its end, where ``/slots`` is open.
        """
        if now is not None and row.running is None:
            row.running = now.prefilling + now.decoding
        prompt, output = sums
        if now is None or prompt is None or output is None:
            return
        read = self._prompt.added(round(prompt) + now.open_prompt)
        made = self._output.added(round(output) + now.open_output)
        if row.span_ms:
            row.prefill_tokens, row.decode_tokens = read, made
            row.prefill_tok_s, row.decode_tok_s = (1000 * tokens / row.span_ms for tokens in (read, made))
