"""The limits that can be set: one name for the command line and for ``[check]`` of ``phasewise.toml``.

A name is ``max-`` or ``min-``, what is measured, and which figure of it::

    [check]
    max-ttft-p95 = "2s"
    min-decode-tok-s = 20
    max-phase-share = { prefill = "40%" }
    fail-on = "likely"
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from advisor.check import units
from advisor.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from advisor.check.units import Unit

Bound: TypeAlias = Literal["max", "min"]
PHASES = ("queue", "load", "prefill", "decode", "other")
SURE = ("certain", "likely", "possible")
FAIL_ON, PHASE_SHARE = "fail-on", "max-phase-share"
EXAMPLE = "--max-ttft-p95 2s"

_STATS = ("p95", "p50", "p90", "p99", "max", "mean")
_TIMES = {
    "ttft": "time to first token",
    "tpot": "time per output token",
    "total": "total time",
    "queue": "time in the queue",
}
_RATES = {"prefill-tok-s": "prefill rate", "decode-tok-s": "decode rate"}
_ENDS = {"aborted": "requests aborted", "failed": "requests failed", "incomplete": "requests cut off"}


@dataclass(frozen=True, slots=True)
class Kind:
    """What can be limited.

    Attributes:
        name: its option without the dashes, and its key.
        what: for people.
        quantity: what is measured.
        stat: which figure of it; empty where there is but one.
        bound: whether the limit is the most or the least.
        read: the value as written, to a number and its unit.
        takes: what the option takes, for help.
        help: the option's help; empty for a figure that the help of another one names.
    """

    name: str
    what: str
    quantity: str
    stat: str
    bound: Bound
    read: Callable[[str], tuple[float, Unit]]
    takes: str
    help: str


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit that was set.

    Attributes:
        allowed: in ``unit``; of ``fail-on`` 0 findings.
        of: the phase, or the confidence from which findings count.
    """

    kind: Kind
    allowed: float
    unit: Unit
    of: str = ""

    @property
    def name(self) -> str:
        """What tells it from the others; stable, whatever its value."""
        return f"{self.kind.name} {self.of}" if self.kind.name == PHASE_SHARE else self.kind.name

    @property
    def what(self) -> str:
        """For people."""
        return self.kind.what.format(self.of)

    def holds(self, value: float) -> bool:
        """Whether a measured value keeps it."""
        return value <= self.allowed if self.kind.bound == "max" else value >= self.allowed


def _no_findings(_text: str) -> tuple[float, Unit]:
    return 0.0, "findings"


def _kinds() -> Iterable[Kind]:
    for quantity, what in _TIMES.items():
        for stat in _STATS:
            also = ", ".join(f"-{other}" for other in _STATS[1:])
            said = f"{what.capitalize()}, 95th percentile; also {also}." if stat == _STATS[0] else ""
            figure = {"p50": "median", "max": "slowest"}.get(stat, stat)
            yield Kind(
                f"max-{quantity}-{stat}",
                f"{what}, {figure}",
                quantity,
                stat,
                "max",
                units.duration,
                "DURATION",
                said,
            )
    for quantity, what in _RATES.items():
        for stat in ("p50", "p10", "p5"):
            said = f"{what.capitalize()}, median; also -p10, -p5." if stat == "p50" else ""
            name, figure = (
                (f"min-{quantity}", "median") if stat == "p50" else (f"min-{quantity}-{stat}", stat)
            )
            yield Kind(name, f"{what}, {figure}", quantity, stat, "min", units.rate, "N", said)
    yield Kind(
        PHASE_SHARE,
        "share of time in {}",
        "phase-share",
        "",
        "max",
        units.share,
        "PHASE=SHARE",
        "Share of all time in a phase, such as prefill=40%. Repeatable.",
    )
    yield Kind(
        "min-cached-share",
        "prompt tokens from the cache",
        "cached-share",
        "",
        "min",
        units.share,
        "SHARE",
        "Share of prompt tokens that came from a cache.",
    )
    for quantity, what in _ENDS.items():
        said = f"{what.capitalize()}: a number, or a share such as 1%."
        yield Kind(f"max-{quantity}", what, quantity, "", "max", units.requests_or_share, "N|SHARE", said)
    yield Kind(
        "min-requests",
        "requests measured",
        "requests",
        "",
        "min",
        units.requests,
        "N",
        "Requests that must be in the log.",
    )
    yield Kind(
        FAIL_ON,
        "findings at least {}",
        "findings",
        "",
        "max",
        _no_findings,
        "CONFIDENCE",
        "Findings that are at least certain, likely or possible: none may be there.",
    )


KINDS = {kind.name: kind for kind in _kinds()}
_ORDER = list(KINDS)


def limits(given: Mapping[str, Any], configured: Iterable[tuple[Path, Mapping[str, Any]]]) -> list[Limit]:
    """The limits of the command line, completed by those of the files, the nearer file first.

    Args:
        given: what options gave, by name; ``None`` for those that were not.
        configured: each file with its ``[check]``.

    Raises:
        InputError: one of them is none, or there are none.
    """
    found: dict[str, Limit] = {}
    for name, value in given.items():
        for one in value if isinstance(value, list) else [] if value is None else [value]:
            limit = _limit(name, one, f"--{name} {one}")
            found[limit.name] = limit
    for path, section in configured:
        for limit in _of_file(path, section):
            found.setdefault(limit.name, limit)
    if not found:
        raise InputError(
            f"check needs at least one limit, such as {EXAMPLE}, or [check] in phasewise.toml; "
            "see `phasewise check --help`."
        )
    return sorted(found.values(), key=lambda one: (_ORDER.index(one.kind.name), one.name))


def _of_file(path: Path, section: Mapping[str, Any]) -> Iterable[Limit]:
    for name, value in section.items():
        where = f"{path}: [check] {name}"
        if name not in KINDS:
            near = get_close_matches(name, KINDS, n=1)
            hint = f"{near[0]} is the nearest" if near else "`phasewise check --help` lists them"
            raise InputError(f"{where}: there is no such limit; {hint}.")
        if name == PHASE_SHARE:
            if not isinstance(value, dict):
                raise InputError(f'{where} = {value!r}: write {{ prefill = "40%" }}.')
            for phase, allowed in value.items():
                yield _limit(name, f"{phase}={_written(allowed)}", f"{where}.{phase} = {allowed!r}")
        else:
            yield _limit(name, _written(value), f"{where} = {value!r}")


def _written(value: Any) -> str:
    """A TOML value as it is written on the command line; what is neither text nor number is no limit."""
    plain = isinstance(value, str | int | float) and not isinstance(value, bool)
    return str(value) if plain else ""


def _limit(name: str, text: str, where: str) -> Limit:
    kind, of = KINDS[name], ""
    try:
        if name == PHASE_SHARE:
            of, equals, text = (part.strip() for part in text.partition("="))
            if not equals or of not in PHASES:
                raise ValueError(
                    f"give a phase and its share, such as prefill=40%; phases are {', '.join(PHASES)}"
                )
        elif name == FAIL_ON:
            of = text.strip().lower()
            if of not in SURE:
                raise ValueError(f"give one of {', '.join(SURE)}")
        allowed, unit = kind.read(text)
    except ValueError as error:
        raise InputError(f"{where}: {error}.") from None
    return Limit(kind, allowed, unit, of)
