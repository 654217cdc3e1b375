"""llama-server's slots: which one a request is given, what it held, and when its lines are printed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.diagnosis.facts import Asked, Model

PROMPT_CACHE_MIB = 8192.0
SIMILAR = 0.1
LISTENING_MS = 5_000.0

Timed = tuple[float, str]


@dataclass(slots=True)
class PromptCache:
    """Prompts that left their slot, saved in the machine's memory: the oldest go when it is full."""

    mib_per_token: float
    context: int
    saved_mib: list[float] = field(default_factory=list)

    def swap(self, held: int, keep: float, similar: float, word: str) -> list[str]:
        """A slot is given to another prompt; what it held is saved."""
        lines = ["srv  get_availabl: updating prompt cache"]
        if held:
            size = held * self.mib_per_token
            lines.append(
                f"srv   prompt_save:  - saving prompt with length {held}, total state size = {size:.3f} MiB"
            )
            self.saved_mib.append(size)
        told = keep if held else -1.0
        lines.append(
            f"srv          load:  - looking for better prompt, base f_keep = {told:.3f}, {word} = "
            f"{similar:.3f}"
        )
        while sum(self.saved_mib) > PROMPT_CACHE_MIB:
            oldest = self.saved_mib.pop(0)
            lines.append(
                f"srv        update:  - cache size limit reached, removing oldest entry (size = "
                f"{oldest:.3f} MiB)"
            )
        used = sum(self.saved_mib)
        lines.append(
            f"srv        update:  - cache state: {len(self.saved_mib)} prompts, {used:.3f} MiB "
            f"(limits: {PROMPT_CACHE_MIB:.3f} MiB, {self.context} tokens, {self.context} est)"
        )
        return [*lines, f"srv  get_availabl: prompt cache update took {used / 40:.2f} ms"]


@dataclass(slots=True)
class Slots:
    """What each slot holds, and how the next prompt is given to one."""

    cache: PromptCache
    similar_word: str
    best_word: str
    held: dict[int, int] = field(default_factory=dict)

    def pick(self, request: Asked, now_ms: float) -> list[str]:
        """How the slot was chosen: by a similar beginning, else the one unused for longest."""
        held = self.held.get(request.slot, 0)
        similar = request.cached / request.prompt
        keep = request.cached / held if held else 0.0
        head = f"slot get_availabl: id {request.slot:2d} | task -1 | selected slot by"
        self.held[request.slot] = request.held
        if similar > SIMILAR:
            return [
                (
                    f"{head} LCP similarity, {self.best_word} = {similar:.3f} (> 0.100 thold), f_keep = "
                    f"{keep:.3f}"
                )
            ]
        last = round(now_ms * 1000) if held else -1
        return [f"{head} LRU, t_last = {last}", *self.cache.swap(held, keep, similar, self.similar_word)]


def slots_of(model: Model, mib_per_token: float | None, similar: str, best: str) -> Slots:
    """Empty slots; ``mib_per_token`` of a saved prompt where it is not that of the KV cache alone."""
    each = mib_per_token if mib_per_token is not None else model.cache_mib / model.context
    return Slots(PromptCache(each, model.context), similar, best)


def tasks(
    requests: Sequence[Asked],
    before: Callable[[Asked, int, float], list[str]],
    after: Callable[[Asked, int, float], list[str]],
    start_ms: float = LISTENING_MS,
) -> list[Timed]:
    """Timed lines of the requests, each after its pause; a task takes one id for each step."""
    lines: list[Timed] = []
    now_ms, task = start_ms, 0
    for request in requests:
        now_ms += request.pause_ms
        lines += [(now_ms, text) for text in before(request, task, now_ms)]
        now_ms += request.busy_ms
        lines += [(now_ms, text) for text in after(request, task, now_ms)]
        task += request.output + 1
    return sorted(lines, key=lambda line: line[0])
