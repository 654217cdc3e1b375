"""What many rules need, computed once and only when asked for."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import polars as pl

from parsers.formats.process import Counts
from parsers.records import Aggregate, schema
from rules.concurrency import Overlap
from rules.conversations import follow
from rules.cpu import Cpu
from rules.decoding import Decoding
from rules.evidence import lines, stated
from rules.fits import DecodeSlope, decode_slope
from rules.hardware import Hardware, Machine
from rules.remedies import Fix, fix
from rules.room import Room
from rules.rule import Crashed, Evidence, Finding
from rules.samples import Samples
from rules.savings import Change, saving
from rules.sessions import growing, reprocessed, turns
from rules.settings import Settings
from rules.sums import Sums

if TYPE_CHECKING:
    from collections.abc import Callable

    from parsers.setup import Setup
    from rules.physics.devices import Device
    from rules.rule import Answer, Bound, Phase, Rule, RuleModule, Saving

    Check = Callable[["Measures"], Answer]

_LARGE = ("ledger", "loads", "valid_prefill", "valid_decode", "turns", "reprocessed", "grown", "followed")
_CLOCKED = ("generations", "clocked")
"""Tables as large as the log."""

FEW = 5
GATE_SHARE, GATE_REQUESTS, GATE_SINGLE_MS = 0.05, 3, 5_000.0


class Measures(Samples):
    """One analysis's numbers.

    Args:
        requests, intervals, events: the rows, internal columns included.
        setup: the setup that served most requests.
        setups: each process start's.
        machine: what the user gave.
        counts: what the sources held besides rows (aborted, failed, incomplete requests, impossible values).
        settings: the rules that are asked, and their thresholds.
        aggregates: the rows of sums over many requests; none where not given.
        log_wall_ms: `wall_ms` of the whole log, of which this is a part.
        whole: those that this is a part of.
    """

    def __init__(
        self,
        requests: pl.DataFrame,
        intervals: pl.DataFrame,
        events: pl.DataFrame,
        setup: Setup,
        setups: list[Setup] | None = None,
        machine: Machine | None = None,
        counts: Counts | None = None,
        settings: Settings | None = None,
        *,
        aggregates: pl.DataFrame | None = None,
        log_wall_ms: float | None = None,
        whole: Measures | None = None,
    ) -> None:
        super().__init__(requests, whole)
        self.intervals = intervals
        self.events = events
        self.setup = setup
        self.setups = setups if setups is not None else [setup]
        self.machine = machine or Machine()
        self.counts = counts or Counts()
        self.settings = settings or Settings()
        self._answers: dict[Check, Answer | Crashed] = {}
        self._log_wall_ms = log_wall_ms
        self._parts: dict[Callable[[Measures], list[Measures]], list[Measures]] = {}
        self.aggregates = aggregates if aggregates is not None else pl.DataFrame(schema=schema(Aggregate))

    # --- who

    @cached_property
    def engine(self) -> str | None:
        """The engine that most rows come from; it decides which switches are named."""
        for frame in (self.requests, self.intervals, self.aggregates, self.events):
            if frame.height:
                return str(frame["engine"].mode().sort()[0])
        return self.setup.engine

    @cached_property
    def logged(self) -> Setup:
        """The setup without what the user gave: a named GPU does not mean that the engine uses it."""
        place = (self.setup.source, self.setup.line)
        return next((s for s in self.setups if (s.source, s.line) == place), self.setup)

    @cached_property
    def hardware(self) -> Hardware:
        """The processors: see `rules.hardware`."""
        return Hardware(self.logged, self.machine)

    @property
    def device(self) -> Device | None:
        """Known facts of the device that holds the weights: the user's word first, then the log's."""
        idle = self.machine.device is None and self.setup.layers_offloaded == 0
        return None if idle else self.hardware.gpu

    @cached_property
    def bandwidth_gb_s(self) -> float | None:
        """Memory bandwidth in GB/s: given, else the device's; ``None`` where neither is known."""
        if self.hardware.given_gb_s is not None:
            return self.hardware.given_gb_s
        return self.device.bandwidth_gb_s if self.device else None

    @property
    def bandwidth_is(self) -> str:
        """What kind of figure `bandwidth_gb_s` is: ``on paper``, or measured."""
        day = self.machine.measured_on
        return "on paper" if day is None else f"measured on this machine on {day}"

    def parts(self, split: Callable[[Measures], list[Measures]]) -> list[Measures]:
        """What these measures fall into, split once."""
        if split not in self._parts:
            self._parts[split] = split(self)
        return self._parts[split]

    def forget(self, *, but_clock: bool) -> None:
        """Let go of tables as large as the log; they are made anew for whoever asks again.

        Args:
            but_clock: keep who ran beside whom, which takes longest.
        """
        for name in ("overlap", "decoding", *_LARGE, *(() if but_clock else _CLOCKED)):
            self.__dict__.pop(name, None)
            self.of_requests.pop(name, None)

    # --- where the time goes

    @cached_property
    def sums(self) -> Sums:
        """What is only known summed up over requests: see `rules.sums`."""
        return Sums(self.aggregates)

    @property
    def log_wall_ms(self) -> float:
        """`wall_ms` of the log that this is a part of; advice is worth its share of that."""
        return self.wall_ms if self._log_wall_ms is None else self._log_wall_ms

    def share(self, phase: Phase | str) -> float:
        """A phase's share of the wall time; 0 where it is unknown, so that no rule fires on it."""
        return self.attribution.phase_share.get(str(phase)) or 0.0

    # --- samples

    @cached_property
    def decoding(self) -> Decoding:
        """Decode beside what this machine should give: see `rules.decoding`."""
        return Decoding(self)

    @cached_property
    def cpu(self) -> Cpu:
        """Threads, memory and bandwidth of the CPU: see `rules.cpu`."""
        return Cpu(self)

    @cached_property
    def decode_slope(self) -> DecodeSlope | None:
        """What each token of context adds to the time per generated token: see `rules.fits`."""
        return decode_slope(self)

    @cached_property
    def room(self) -> Room:
        """GPU memory beside what wants to be in it: see `rules.room`."""
        return Room(self)

    # --- prompts and cache

    @cached_property
    def turns(self) -> pl.DataFrame:
        """The generations, each beside the one before it on its slot: see `rules.sessions.turns`."""
        return turns(self.generations, serial=self.serial)

    @cached_property
    def reprocessed(self) -> pl.Series:
        """The ``row`` of each turn that the engine read from its start: see `rules.sessions.reprocessed`."""
        return reprocessed(self.turns, self.events)["row"]

    @cached_property
    def grown(self) -> pl.DataFrame:
        """The turns that grow, without those: see `rules.sessions.growing`."""
        return growing(self.turns, but=self.reprocessed)

    @cached_property
    def followed(self) -> pl.DataFrame:
        """The turns, each beside the request that it goes on with: see `rules.conversations.follow`."""
        return follow(self.turns)

    @cached_property
    def overlap(self) -> Overlap:
        """Requests side by side on the clock: see `rules.concurrency`."""
        return Overlap(self)

    @cached_property
    def serial(self) -> bool:
        """True when no two requests ran at once: one slot in use, or a clock shows no overlap."""
        if self.overlap.most is not None:
            return self.overlap.most <= 1
        rows = self.generations
        if not rows["slot"].count() and (
            rows["finished_at"].count() or (rows["ttft_from"] == "arrival").any()
        ):
            return self.setup.slots == 1  # others may have run within the same second, or out of sight
        return self.setup.slots == 1 or rows["slot"].n_unique() <= 1

    # --- what a rule compares and says with

    def asked(self, check: Check) -> Answer | Crashed:
        """What a rule answers; each is asked once, by `ask` and by the rules that yield to it."""
        if check not in self._answers:
            try:
                self._answers[check] = check(self)
            except Exception as error:
                self._answers[check] = Crashed(error)
        return self._answers[check]

    def asks(self, rule: Rule) -> bool:
        """Whether the rule is switched on, and a matter of this engine."""
        return self.settings.enabled(rule.id) and (not rule.engines or self.engine in rule.engines)

    def finds(self, rule: RuleModule) -> bool:
        """Whether a rule is asked here and has a finding."""
        return self.asks(rule.RULE) and isinstance(self.asked(rule.check), Finding)

    def thresholds(self, rule: Rule) -> dict[str, float]:
        """The rule's thresholds in force, by name."""
        return self.settings.of(rule)

    def saving(self, change: Change, *, bound: Bound = "estimate") -> Saving:
        """What a change would have saved on these requests, as exact as the sample allows."""
        digits = 3 if self.generations.height >= FEW else 2
        return saving(self.ledger, change, self.wall_ms, bound=bound, digits=digits)

    def worth(self, affected_ms: float, requests: int) -> bool:
        """The gate of every advice: 5 % of all time and three requests, or one of five seconds."""
        if self.wall_ms <= 0 or affected_ms < GATE_SHARE * self.log_wall_ms:
            return False
        return requests >= GATE_REQUESTS or (requests > 0 and affected_ms / requests >= GATE_SINGLE_MS)

    def fix(self, remedy: str, **values: object) -> Fix:
        """A remedy with this log's engine's switch."""
        return fix(remedy, self.engine, self.setup.engine_version, **values)

    def evidence(
        self, label: str, value: float | str | None, unit: str = "", rows: pl.DataFrame | None = None
    ) -> Evidence:
        """A number with up to three of the log lines it comes from."""
        return Evidence(label, value, unit, lines(rows) if rows is not None else ())

    def stated(self, fact: str, label: str, value: float | str | None = None, unit: str = "") -> Evidence:
        """A setup fact with the log line that states it."""
        return stated(self.setup, fact, label, value, unit)
