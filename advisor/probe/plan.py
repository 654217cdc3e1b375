"""The requests of a probe: few, of known size, each there for one number.

- A warm-up is dropped. It loads the model, and tells how many characters a token of this model has.
- Prompts of each length, all different, several times: the time to the first token against the prompt's
  tokens is prefill, and its start is what every request costs. In each round the lengths take another turn,
  so each comes as early as the others: a steady drift does not look like length.
- One prompt again: it comes faster where prefixes are cached.
- Short prompts at once: who comes late has waited.

Every text begins with words that are new in each run, so no cache can know it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from advisor.errors import InputError

LENGTHS, OUTPUT = (128, 512, 2048), 32
ROUNDS, REPEATS, AT_ONCE = 3, 2, 4
CHARACTERS = 4.5
"""Of a token of English prose, until the warm-up tells."""
_SPARE, _TEMPLATE = 1.15, 64
"""How far a prompt may come out longer than aimed at, and what a chat template adds."""
_ASKED = "Write a long story about all of this, and leave nothing out."


def _nonce() -> str:
    from secrets import token_hex

    return token_hex(6)


class Kind(StrEnum):
    """What a request is for."""

    WARM_UP = "warm-up"
    LENGTH = "length"
    REPEAT = "repeat"
    AT_ONCE = "at once"


@dataclass(frozen=True, slots=True)
class Planned:
    """One request.

    Attributes:
        kind: what it is for.
        name: of its text; the same name is the same text.
        tokens: of its prompt, about.
    """

    kind: Kind
    name: str
    tokens: int

    def text(self, characters: float) -> str:
        """The prompt.

        Args:
            characters: of a token.
        """
        from advisor.runner.workload import prose

        size = max(round(characters * self.tokens) - len(_ASKED), 0)
        return f"{prose(self.name, size)}\n\n{_ASKED}"


@dataclass(frozen=True, slots=True)
class Plan:
    """The requests in their order; those of one step are sent at once.

    Attributes:
        lengths: prompt tokens, the shortest first.
        output: tokens of each answer at most.
        nonce: begins every text.
    """

    lengths: tuple[int, ...] = LENGTHS
    output: int = OUTPUT
    nonce: str = field(default_factory=_nonce)

    def steps(self) -> list[tuple[Planned, ...]]:
        """What is asked, step by step."""
        short, middle = self.lengths[0], self.lengths[len(self.lengths) // 2]
        turns = [
            self._one(Kind.LENGTH, f"{tokens} tokens round {number}", tokens)
            for number in range(ROUNDS)
            for tokens in _turned(self.lengths, number)
        ]
        return [
            (self._one(Kind.WARM_UP, "warm-up", middle),),
            *((one,) for one in turns),
            *((self._one(kind, "again", middle),) for kind in (Kind.LENGTH, *[Kind.REPEAT] * REPEATS)),
            tuple(self._one(Kind.AT_ONCE, f"at once {n}", short) for n in range(AT_ONCE)),
        ]

    def _one(self, kind: Kind, name: str, tokens: int) -> Planned:
        return Planned(kind, f"{self.nonce} {name}", tokens)

    @property
    def requests(self) -> int:
        """How many there are."""
        return sum(len(step) for step in self.steps())

    @property
    def prompt_tokens(self) -> int:
        """Of all prompts, about, with what a chat template adds."""
        return sum(one.tokens + _TEMPLATE for step in self.steps() for one in step)

    @property
    def output_tokens(self) -> int:
        """Of all answers, at most."""
        return self.requests * self.output

    def within(self, context: int | None) -> Plan:
        """The same with the lengths that fit a context, answer and chat template included.

        Raises:
            InputError: none fits.
        """
        if context is None:
            return self
        fitting = tuple(n for n in self.lengths if n * _SPARE + self.output + _TEMPLATE <= context)
        if not fitting:
            raise InputError(
                f"--lengths: even {self.lengths[0]:,} prompt tokens don't fit the server's context of "
                f"{context:,} tokens with {self.output} to generate."
            )
        return Plan(fitting, self.output, self.nonce)


def _turned(lengths: tuple[int, ...], by: int) -> tuple[int, ...]:
    by %= len(lengths)
    return lengths[by:] + lengths[:by]
