"""What llama-server says of its caches, of images and of drafting, in lines that name no task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from parsers.formats.base import line
from parsers.formats.llama_cpp import HEAD
from parsers.formats.llama_server.own import OwnLines
from parsers.formats.llama_server.prefixed import SLOT
from parsers.formats.llama_server.task import ENGINE

if TYPE_CHECKING:
    import re

    from parsers.formats.base import At

LINES = (
    line("least_used", b"selected slot by LRU", SLOT + rb"selected slot by LRU, t_last = (?P<last>-?\d+)"),
    line(
        "slot_held",  # `sim_best` until b10177
        b"selected slot by LCP similarity, ",
        SLOT + rb"selected slot by LCP similarity, (?:f_)?sim_best = (?P<sim>[\d.]+)",
    ),
    line(
        "better_prompt",  # `sim` until b10177
        b" better prompt",
        HEAD + rb"srv +\S+: +- (?:looking for better prompt, base (?P<base>)|found better prompt with )"
        rb"f_keep = (?P<keep>-?[\d.]+), (?:f_)?sim = (?P<sim>[\d.]+)",
    ),
    line(
        "cache_state",
        b" - cache state: ",
        HEAD + rb"srv +\S+: +- cache state: (?P<prompts>\d+) prompts, (?P<used>[\d.]+) MiB "
        rb"\(limits: (?P<limit>[\d.]+) MiB, ",
    ),
    line(
        "cache_evicted",  # before a prompt is saved, or after; without verbosity 4 too
        b", removing oldest entry (size = ",
        HEAD + rb"srv +\S+: +- (?:making room for prompt cache entry|cache (?:size|token) limit "
        rb"(?:\(\d+, est: \d+\) )?reached), removing oldest entry \(size = (?P<mib>[\d.]+) MiB\)",
    ),
    line(
        "cache_full",
        b"failed to find free space in the KV cache",
        HEAD + rb"srv +\S+: failed to find free space in the KV cache, retrying with smaller batch size"
        rb".*\bn_batch = (?P<batch>\d+)",
    ),
    line(
        "media",
        b" encoded in ",
        HEAD + rb"(?:(?P<what>image|audio) slice|image/slice) encoded in (?P<ms>\d{1,9}) ms",
    ),
    line(
        "drafting",
        b"#gen drafts = ",
        HEAD + rb"(?:spec +\S+: +)?statistics +(?P<how>[\w-]{1,40}): .*, dur\(b,g,a\) = "
        rb"(?P<began>[\d.]+), (?P<drafted>[\d.]+), (?P<accepted>[\d.]+) ms",
    ),
)


WHOLE = 0.9995
"""Of a prompt: printed as 1.000."""


@dataclass(slots=True)
class Miss:
    """What a prompt will find of itself in the slot that was chosen for it: too little."""

    at: At
    slot: int | None = None
    evicts: bool = False
    similarity: float | None = None
    kept: float | None = None

    def detail(self) -> str:
        """The numbers, or what happened where there are none."""
        if self.similarity is None or self.kept is None:
            return "no slot held a similar prompt: the least recently used one was taken"
        return f"sim {self.similarity:.3f}, f_keep {self.kept:.3f}"


class CacheLines(OwnLines):
    """The cache of the prompts, and of whole prompts in the machine's own memory."""

    def _forget(self) -> None:
        super()._forget()
        self._miss: Miss | None = None
        self._repeated: Miss | None = None
        self._full = False
        self._drafting_ms: dict[bytes, float] = {}

    def least_used(self, m: re.Match[bytes], at: At) -> None:
        """``selected slot by LRU, t_last = 48211003``; -1 is a slot that held nothing yet."""
        if self._own(m, at):
            self.chose_least_used(at, int(m["slot"]), int(m["last"]))

    def slot_held(self, m: re.Match[bytes], at: At) -> None:
        """``selected slot by LCP similarity, f_sim_best = 1.000 (> 0.100 thold), f_keep = 0.976``."""
        if self._own(m, at) and float(m["sim"]) >= WHOLE:
            self.chose_same(at, int(m["slot"]), float(m["sim"]))

    def better_prompt(self, m: re.Match[bytes], at: At) -> None:
        """``- looking for better prompt, base f_keep = 0.010, sim = 0.021``, and what was found."""
        if not self._own(m, at):
            return
        if m["base"] is None:
            self._miss = None
            return
        miss = self._miss = self._miss or Miss(at)
        miss.kept, miss.similarity = float(m["keep"]), float(m["sim"])
        miss.evicts = miss.evicts or miss.kept >= 0

    @property
    def has_chosen(self) -> bool:
        """Whether there is something to tell of the slot that was chosen last."""
        return self._miss is not None or self._repeated is not None

    def chose_least_used(self, at: At, slot: int, last: int) -> None:
        """A slot was chosen that holds another prompt, or none: then ``last`` is -1."""
        self._miss = Miss(at, slot, evicts=last != -1)

    def chose_same(self, at: At, slot: int, similarity: float) -> None:
        """A slot was chosen that holds this whole prompt."""
        self._repeated = Miss(at, slot, similarity=similarity)

    def tell_miss(self, slot: int, number: int) -> None:
        """The task that the slot was chosen for has begun; told once, and not of a slot's first prompt."""
        held, self._repeated = self._repeated, None
        if held is not None and held.slot == slot:
            self.process.event(
                ENGINE,
                held.at,
                "prompt_repeated",
                "the slot held this whole prompt",
                slot=slot,
                request_id=str(number),
                value=held.similarity,
            )
        miss, self._miss = self._miss, None
        if miss is not None and miss.evicts and miss.slot in (None, slot):
            self.process.event(
                ENGINE,
                miss.at,
                "cache_miss",
                miss.detail(),
                slot=slot,
                request_id=str(number),
                value=miss.similarity,
            )

    def cache_state(self, m: re.Match[bytes], at: At) -> None:
        """``- cache state: 4 prompts, 7582.135 MiB (limits: 8192.000 MiB, 131072 tokens)``; 0 is no limit."""
        prompts, used, limit = int(m["prompts"]), float(m["used"]), float(m["limit"])
        if not prompts or not self._own(m, at):
            return
        of = f"of {limit:.0f} MiB" if limit else "MiB, without a limit"
        value = used / limit if limit else None
        self.process.event(ENGINE, at, "cache_state", f"{prompts} prompts, {used:.0f} {of}", value=value)

    def cache_evicted(self, m: re.Match[bytes], at: At) -> None:
        """``- making room for prompt cache entry, removing oldest entry (size = 12.839 MiB)``."""
        if self._own(m, at):
            mib = float(m["mib"])
            detail = f"a prompt of {mib:.0f} MiB was removed from the full prompt cache"
            self.process.event(ENGINE, at, "cache_evicted", detail, value=mib)

    def cache_full(self, m: re.Match[bytes], at: At) -> None:
        """A batch found no room; the first of the retries with ever smaller ones is told."""
        if self._own(m, at) and not self._full:
            self._full = True
            detail = f"no room in the KV cache for a batch, retried with {int(m['batch'])} tokens"
            self.process.event(ENGINE, at, "context_exceeded", detail)

    def drafting(self, m: re.Match[bytes], at: At) -> None:
        """``statistics draft-simple: ... dur(b,g,a) = 0.002, 10.1, 0.004 ms``, printed after each request.

        The times are sums since the start: each line tells of what came since the one before it. With
        several slots some versions count for each, so only one slot's are told.
        """
        if self.process.setup.slots != 1 or not self._own(m, at):
            return
        total_ms = round(sum(float(m[part]) for part in ("began", "drafted", "accepted")), 3)
        before_ms = self._drafting_ms.get(m["how"], 0.0)
        self._drafting_ms[m["how"]] = total_ms
        spent_ms = round(total_ms - before_ms, 3) if total_ms >= before_ms else total_ms
        detail = f"{spent_ms:.1f} ms of drafting by {m['how'].decode()}"
        self.process.event(ENGINE, at, "draft", detail, value=spent_ms)
