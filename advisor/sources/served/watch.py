"""Makes rows of what an engine answers: the difference to what it answered before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from advisor.redact import clean
from advisor.sources.served import llama_server, ollama
from advisor.sources.served.engines import METRICS
from advisor.sources.served.phases import phase_of
from advisor.sources.served.round import hint, trouble_of
from advisor.sources.served.since import Since
from parsers.formats.possible import is_possible, leave_out_impossible
from parsers.formats.process import Counts
from parsers.formats.prometheus.rows import counted, live_tokens, state
from parsers.records import Aggregate, Event, Interval
from parsers.setup import Setup, Setups

if TYPE_CHECKING:
    from collections.abc import Iterator

    from advisor.sources.served.engines import Engine, Looked
    from advisor.sources.served.round import Round
    from parsers.formats.prometheus.scrape import Scraper
    from parsers.formats.prometheus.snapshot import Numbers, Snapshot
    from parsers.records import Row


class Watch:
    """One engine, seen through its answers.

    Args:
        name: what rows call their source.
        key: what is asked with, in words; empty for nothing.

    Attributes:
        engine: who answers, as far as it is known.
        setups: one for each start of it.
        counts: rows and losses since we first looked.
        rounds: how many answers there were.
        must_look: who answers has to be asked anew.
    """

    def __init__(self, name: str, key: str = "") -> None:
        self.name = name
        self.engine: str | None = None
        self.setups = Setups()
        self.counts = Counts()
        self.rounds = 0
        self.must_look = False
        self._key = key
        self._known: Engine | None = None
        self._scraper: Scraper | None = None
        self._notes: list[str] = []
        self._trouble: str | None = None
        self._process: str | None = None
        self._clock_s: float | None = None
        self._must_learn = True
        self._said_several = False
        self._begin_anew(from_zero=False)

    def _begin_anew(self, *, from_zero: bool) -> None:
        """Another process answers: all of its counts are new, or it is unknown which are."""
        self._from_zero = from_zero
        self._last: Snapshot | None = None
        self._suspect: Snapshot | None = None
        self._numbers: dict[str | None, tuple[Numbers, float]] = {}
        self._sums: dict[str | None, Since] = {}
        self._progress = llama_server.Progress()
        self._loaded: dict[str, ollama.Model] | None = None
        self._was_busy = False

    def notes(self) -> list[str]:
        """What happened since this was last asked."""
        notes, self._notes = self._notes, []
        return notes

    def take(self, came: Round) -> list[Row]:
        """The rows of what came back."""
        self.rounds += 1
        trouble = trouble_of(came, self._scraper, self._key)
        if trouble is not None:
            self.must_look = True
            self._say_trouble(trouble)
            return []
        if self._trouble is not None:
            self._note("answers again")
            self._trouble = None
        if came.looked is not None and came.looked.engine is not None:
            self._meet(came.looked, came.looked.engine)
        return [self._told(row, came) for row in self._rows(came)]

    # --- who answers

    def _note(self, words: str) -> None:
        self._notes.append(f"{self.name}: {words}.")

    def _say_trouble(self, trouble: str) -> None:
        """Say it once until it changes; an engine that stops first breaks off, and then refuses."""
        if self._trouble is None or _kind(trouble) != _kind(self._trouble):
            self._note(trouble)
        self._trouble = trouble

    def _say_several(self) -> None:
        if not self._said_several:
            self._note("several engines answer there in turn; only one of them is watched")
        self._said_several = True

    def _meet(self, looked: Looked, engine: Engine) -> None:
        """Get to know who answers, and see whether it is another process than the one we knew."""
        before, self._known = self._known, engine
        saw_metrics, self._scraper = self._scraper is not None, looked.scraper
        self.must_look = False
        is_new = before is None or before.name != engine.name
        if is_new:
            self._begin_anew(from_zero=False)
            self._new_setup(engine.name)
        process = (
            llama_server.process(looked.answers["/props"].json()) if "/props" in looked.answers else None
        )
        if not is_new and process and self._process and process != self._process:
            self._restart()
        self._process = process or self._process
        if self._must_learn:
            self._learn_from(looked, engine)
        if is_new and before is not None:
            self._note(f"{engine.title} answers there now")
        if looked.scraper is None and (is_new or saw_metrics):
            self._note(hint(looked.answers[METRICS], engine))

    @property
    def _setup(self) -> Setup:
        return self.setups[len(self.setups) - 1]

    def _new_setup(self, engine: str) -> None:
        if len(self.setups):
            self.setups.seal(len(self.setups) - 1)
        self.engine = engine
        self.setups.append(Setup(source=self.name, line=self.rounds, engine=engine))
        self._must_learn = True

    def _restart(self) -> None:
        self._begin_anew(from_zero=True)
        self._new_setup(self.engine or "")
        self._note("restarted: its counters began anew")
        self.must_look = True

    def _learn_from(self, looked: Looked, engine: Engine) -> None:
        self._must_learn = False
        for path, facts in engine.once.items():
            if (data := looked.answers[path].json()) is not None:
                self._learn(path, facts(data))

    def _learn(self, origin: str, facts: dict[str, Any]) -> None:
        self._setup.learn(origin, **{name: fact for name, fact in facts.items() if is_possible(fact)})

    # --- rows

    def _rows(self, came: Round) -> Iterator[Row]:
        answers = came.answers
        if "/api/ps" in answers:
            yield from self._models(ollama.loaded(answers["/api/ps"].json()))
        slots = llama_server.slots(answers["/slots"].json()) if "/slots" in answers else None
        if self._scraper is not None:
            now = self._scraper.read(answers[METRICS].body, self.rounds, came.time)
            self.counts.impossible_values += self._scraper.impossible
            self._scraper.impossible = 0
            if now is not None and self._follows(now):
                yield from self._sums_of(now, self._scraper, slots, came)
        elif slots is not None:
            row = Interval(engine=llama_server.ENGINE, span_ms=self._span_ms(came), phase=slots.phase)
            self._clock_s = came.clock_s
            self._progress.tell(row, (None, None), slots)
            yield from self._busy([row])

    def _follows(self, now: Snapshot) -> bool:
        """Whether the answer is of the process we know, or of the one that came after it.

        One that counts from a new start is believed once the next answer goes on from it: several engines
        behind one address may answer in turn.
        """
        if self._last is None or not now.restarted_since(self._last):
            if self._suspect is not None:
                self._suspect = None
                self._say_several()
            return True
        if self._suspect is None or now.restarted_since(self._suspect):
            self._suspect = now
            return False
        self._restart()
        return True

    def _sums_of(
        self, now: Snapshot, scraper: Scraper, slots: llama_server.Slots | None, came: Round
    ) -> Iterator[Row]:
        self._learn_of(now)
        windows = []
        for model, numbers in now.models.items():
            earlier, span_ms = self._before(model, numbers, came)
            if model not in self._sums:
                self._sums[model] = Since(scraper.names, earlier)
            added = numbers.added_since(earlier)
            self.counts.aborted_requests += counted(added, scraper.names.aborted)
            self.counts.failed_requests += counted(added, scraper.names.failed)
            if (row := self._sums[model].row(numbers)) is not None:
                row.model, row.span_ms = model, span_ms
                yield row
            if (window := state(numbers, scraper.names)) is not None:
                window.span_ms = span_ms
                if span_ms:
                    live_tokens(added, scraper.names, window)
                self._complete(window, numbers, slots)
                windows.append(window)
        self._last, self._clock_s = now, came.clock_s
        self._numbers |= {model: (numbers, came.clock_s) for model, numbers in now.models.items()}
        yield from self._busy(windows)

    def _before(
        self, model: str | None, numbers: Numbers, came: Round
    ) -> tuple[Numbers | None, float | None]:
        """What a model had counted when it was last told, and how long ago that was.

        A model that is loaded again counts from zero: all of it has come since the last answer.
        """
        if self._last is None:
            return None if self._from_zero else numbers, None
        known, clock_s = self._numbers.get(model, (None, self._clock_s))
        if known is not None and numbers.fell_since(known):
            self._note(f"{clean(model or 'a model')} was loaded again: its counters began anew")
            self._sums.pop(model)
            known, clock_s = None, self._clock_s
        return known, None if clock_s is None else _ms(came.clock_s - clock_s)

    def _complete(self, window: Interval, numbers: Numbers, slots: llama_server.Slots | None) -> None:
        """What a window was spent on, and of llama-server how many tokens it had."""
        if self.engine == llama_server.ENGINE:
            prompt, output = (numbers.total((name, "")) for name in llama_server.TOKENS)
            self._progress.tell(window, (prompt, output), slots)
        window.phase = phase_of(window, slots)

    def _busy(self, windows: list[Interval]) -> Iterator[Interval]:
        """The windows in which something ran or was done, and the first one after those."""
        busy = any(w.running or w.waiting or w.prefill_tokens or w.decode_tokens for w in windows)
        if busy or self._was_busy:
            yield from windows
        self._was_busy = busy

    def _learn_of(self, now: Snapshot) -> None:
        models = [model for model in now.models if model is not None]
        unnamed = len(models) == 1 and self._setup.model is None
        self._learn(METRICS, {**now.facts, "model": models[0] if unnamed else None})

    def _models(self, now: dict[str, ollama.Model] | None) -> Iterator[Event]:
        """Ollama starts a runner for each model that it loads."""
        if now is None:
            return
        before, self._loaded = self._loaded, now
        for name in sorted(now.keys() - (before or {}).keys()):
            version = self._setup.engine_version
            if self._setup.model is not None:
                self._new_setup(ollama.ENGINE)
                self._must_learn = False
                self._learn("/api/version", {"engine_version": version})
            self._learn("/api/ps", now[name].facts)
        if before is not None:
            yield from ollama.changes(before, now)

    def _span_ms(self, came: Round) -> float | None:
        return None if self._clock_s is None else _ms(came.clock_s - self._clock_s)

    def _told(self, row: Row, came: Round) -> Row:
        self.counts.impossible_values += leave_out_impossible(row)
        row.source, row.line, row.run = self.name, self.rounds, len(self.setups) - 1
        if isinstance(row, (Interval, Event, Aggregate)):
            row.time = came.time
        self.counts.intervals += isinstance(row, Interval)
        self.counts.events += isinstance(row, Event)
        self.counts.aggregates += isinstance(row, Aggregate)
        return row


def _ms(seconds: float) -> float:
    return round(1000 * seconds, 3)


def _kind(trouble: str) -> str:
    return trouble.partition(" (")[0]
