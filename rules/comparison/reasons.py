"""Why a wait changed, in words: other work, another speed, queue, load."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.words import count, duration, percent

if TYPE_CHECKING:
    from rules.comparison import Compared
    from rules.comparison.quantities import Quantity
    from rules.comparison.split import Part, Split

_WORTH_SAYING = 0.1
"""Of the whole change."""

_OTHER_SHARE, _OTHER_SIZE, _OTHER_LEVEL = 0.05, 0.1, 1.3
"""From here on a cached share, a median number of tokens, or requests at once are others."""


def reasons(c: Compared, q: Quantity, split: Split) -> list[str]:
    """Sentences on where the change of the mean comes from; none where mean and median went apart."""
    change = split.change_ms
    if change * (q.sign or 0) <= 0:
        return []
    parts = [part for part in split.parts if _counts(part, change)]
    main = max(parts, key=lambda part: part.ms * (q.sign or 0), default=None)
    said = [words for part in parts if (words := _part(c, part, split))]
    told = [_opening(q, change, said)] if main and _part(c, main, split) else []
    return told + [words for phase in ("prefill", "decode") if (words := _untold(c, split, phase))]


def _opening(q: Quantity, change: float, said: list[str]) -> str:
    """The reasons as a sentence."""
    whole = f"{duration(abs(change))} {'less' if change < 0 else 'more'}"
    if q.typical is None or not q.typical.sign:
        return f"Of that: {', '.join(said)}."
    if len(said) == 1 and said[0].startswith(whole):
        return f"On average that is {said[0]}."
    return f"On average that is {whole}: {', '.join(said)}."


def _counts(part: Part, change: float) -> bool:
    """Whether a part is worth saying: a tenth of the change, and its direction is sure."""
    return abs(part.ms) >= _WORTH_SAYING * abs(change) and part.sure


def _part(c: Compared, part: Part, split: Split) -> str:
    less = part.ms < 0
    way = "less" if less else "more"
    amount = f"{_amount(part)} {way}"
    match part.cause:
        case "queue":
            return f"{amount} waiting for a slot"
        case "load":
            return f"{amount} loading of models"
        case "prefill-work":
            return f"{amount} because {_prompts(c, less=less) or f'there is {way} to read'}"
        case "decode-work":
            return f"{amount} because {_answers(c, less=less) or f'there is {way} to generate'}"
        case "prefill-speed" | "decode-speed":
            phase = part.cause.removesuffix("-speed")
            if _told(c, phase) == (-1 if less else 1):
                return f"{amount} because {phase} is {'faster' if less else 'slower'}"
            if _told(c, phase) is not None:
                return ""
            company = _company(c, less=less)
            return f"{amount} {phase} for as many tokens{company and f', while {company}'}"
        case "other":
            return f"{amount} in no phase that both logs tell{_one_sided(split)}"
    return f"{amount} {part.cause}{_as_well(c, part)}"


def _one_sided(split: Split) -> str:
    """Which phases only one of the logs tells."""
    names = {"queue": "waiting for a slot", "load": "loading the model"}
    said = " and ".join(names.get(phase, phase) for phase in split.one_sided)
    return f" (only one tells {said})" if said else ""


def _as_well(c: Compared, part: Part) -> str:
    """Of a phase that is not split into work and speed, what else went the same way."""
    less = part.ms < 0
    work = (_prompts if part.cause == "prefill" else _answers)(c, less=less)
    words = " and ".join(filter(None, (work, _company(c, less=less))))
    return f", while {words}" if words else ""


def _company(c: Compared, *, less: bool) -> str:
    """That more or fewer requests ran at once, as far as it goes the way of the change."""
    most, mean = c.pair("requests at once", "most"), c.pair("requests at once while generating", "mean")
    if most is None or mean is None or most[0] == most[1]:
        return ""
    if (most[1] < most[0]) != less or max(mean) < _OTHER_LEVEL * min(mean):
        return ""
    return f"up to {count(most[1])} ran at once instead of {count(most[0])}"


def _told(c: Compared, phase: str) -> int | None:
    q = c.of(phase)
    return None if q is None else q.sign


def _amount(part: Part) -> str:
    low, high = sorted((abs(part.low), abs(part.high)))
    if duration(low) == duration(high):
        return duration(abs(part.ms))
    return f"{duration(low)} to {duration(high)}"


def _prompts(c: Compared, *, less: bool) -> str:
    """What is different about the prompts, as far as it goes the way of the change."""
    why = []
    shares = c.pair("prompt tokens from the cache", "share")
    if shares and (shares[1] - shares[0] > _OTHER_SHARE if less else shares[0] - shares[1] > _OTHER_SHARE):
        why.append(
            f"{percent(shares[1])} of the prompt tokens come from the cache instead of {percent(shares[0])}"
        )
    lengths = c.pair("prompt tokens", "median")
    if lengths and _moved(lengths, less=less):
        word = "shorter" if less else "longer"
        why.append(f"prompts are {word} ({count(lengths[1])} tokens instead of {count(lengths[0])})")
    return " and ".join(why)


def _answers(c: Compared, *, less: bool) -> str:
    lengths = c.pair("output tokens", "median")
    if lengths and _moved(lengths, less=less):
        word = "shorter" if less else "longer"
        return f"answers are {word} ({count(lengths[1])} tokens instead of {count(lengths[0])})"
    return ""


def _moved(pair: tuple[float, float], *, less: bool) -> bool:
    before, after = pair
    return after <= (1 - _OTHER_SIZE) * before if less else after >= (1 + _OTHER_SIZE) * before


def _untold(c: Compared, split: Split, phase: str) -> str:
    """That the speed of a phase, which could matter here, is not known to have changed."""
    speed = next((part for part in split.parts if part.cause in (f"{phase}-speed", phase)), None)
    q = c.of(phase)
    if speed is None or q is None or q.sign:
        return ""
    if max(abs(speed.low), abs(speed.high)) < _WORTH_SAYING * abs(split.change_ms):
        return ""
    if q.sign is None:
        return f"Whether {phase} itself is faster or slower can't be told: {q.not_compared}."
    return f"At like work {phase} shows no measurable difference."
