"""Speculative decoding costs more time than it saves.

What it looks at:
    How many drafted tokens were accepted, how many were drafted for each check, and what a token costs
    without the draft: measured where the log has requests without one, else predicted for this device. Where
    neither is known, the share accepted decides, for it is what a drafted token may cost at most, in tokens
    of the model itself: at 7 % accepted, a draft pays only if drafting 14 tokens is cheaper than generating
    one. Hardly a draft model is that cheap. From windows, the mean accepted length and the draft length.

Why it matters:
    Every drafted token is computed, by the draft and again in the check, and a refused one was for nothing.
    Long drafts of a small model that guesses badly can make generation several times slower.

When not to worry:
    Drafts looked up in the text so far (n-grams) cost next to nothing, so few accepted ones do no harm. How
    much is accepted differs by task: code and rewriting do well, free text does not. A high acceptance alone
    does not show a gain: a draft as large as the model is accepted always and still makes it slower, which a
    log without a comparison can't tell.

What to change:
    Shorter drafts, and only tokens that the draft is sure of; else no draft, or a smaller one. The saving is
    the decode time without the draft: measured or predicted, or estimated for a draft token that costs a
    fifth of the model's own.

Sources:
    Leviathan et al., arXiv:2211.17192; llama.cpp#25908 (the default of p-min became 0; 96 of 1,378
    accepted), llama.cpp#23544, llama.cpp#3649 (what a check costs).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from rules.physics.speculation import measured_speedup, verifications
from rules.rule import CannotTell, Confidence, NotApplicable, Phase, Rule, Threshold
from rules.samples import IS_VALID_DECODE, median
from rules.savings import decode_scaled
from rules.words import duration, percent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rules.measures import Measures
    from rules.remedies import Fix
    from rules.rule import Answer, Evidence
    from rules.savings import Array

RULE = Rule(
    id="spec-unprofitable",
    phase=Phase.DECODE,
    title="The draft costs more time than it saves",
    needs=("draft_tokens", "accepted_tokens"),
    remedies=("draft-settings", "no-draft"),
    verify="Run the same prompts once without speculation: the tokens per second decide.",
    sources=("arXiv:2211.17192", "llama.cpp#25908", "llama.cpp#23544", "llama.cpp#3649"),
    thresholds={
        "speedup": Threshold(
            1.05, "decode rate with the draft over that without, below which it isn't worth it"
        ),
        "draft_cost": Threshold(0.2, "a drafted token over one of the model's own; draft models 0.1 to 0.5"),
        "least_cost": Threshold(0.1, "the same of the cheapest draft models: a tenth of the layers"),
        "drafted": Threshold(100, "drafted tokens, fewer of which say nothing of acceptance; first guess"),
    },
)

FREE = ("ngram", "lookup", "suffix")
"""Drafts that are looked up: no model runs for them."""

SHORT_DRAFT = 4
"""Drafted tokens for each check: below that, shorter drafts change little."""

FEWEST_PLAIN = 3

_NOT_ACCEPTED = "A larger draft model: it is accepted more often, and each of its tokens costs more."


@dataclass(frozen=True, slots=True)
class _Drafting:
    """What the drafts of this log came to.

    Attributes:
        rows: the requests or windows behind it.
        accepted: share of the drafted tokens; also the most that one may cost, in tokens of the model.
        length: drafted tokens for each check.
        ms_per_token: of requests with drafts.
    """

    rows: pl.DataFrame
    accepted: float
    length: float
    ms_per_token: float | None = None

    def speedup(self, draft_cost: float) -> float:
        """Rate with the draft over that without, if a check costs one step, and times count in steps."""
        return measured_speedup(1 + self.accepted * self.length, draft_cost * self.length, target_ms=1.0)


def check(m: Measures) -> Answer:
    """Ask whether generating would be faster without the draft."""
    drafted = m.generations.filter(pl.col("draft_tokens") > 0).drop_nulls(
        ["accepted_tokens", "output_tokens"]
    )
    if drafted.height:
        return _requests(m, drafted)
    if m.setup.speculative is None and not m.intervals["accept_length"].count():
        return NotApplicable("no speculation is in use")
    return _windows(m)


def _requests(m: Measures, drafted: pl.DataFrame) -> Answer:
    t = m.thresholds(RULE)
    tokens, accepted = int(drafted["draft_tokens"].sum()), int(drafted["accepted_tokens"].sum())
    checks = verifications(int(drafted["output_tokens"].sum()), accepted)
    if tokens < t["drafted"] or checks <= 0:
        return CannotTell(f"{tokens} drafted tokens are too few to tell")
    valid = drafted.filter(IS_VALID_DECODE)
    d = _Drafting(drafted, accepted / tokens, tokens / checks, _ms_per_token(valid))
    plain_ms, how = _plain_ms(m, drafted)
    if plain_ms is not None and d.ms_per_token is not None:
        speedup = plain_ms / d.ms_per_token
        if speedup >= t["speedup"]:
            return NotApplicable(f"the draft makes generating {speedup:.1f} times as fast")
        return _finding(m, d, speedup, plain_ms, how, Confidence.LIKELY)
    if _free(m):
        return NotApplicable("the drafts are looked up in the text, which costs next to nothing")
    unprofitable = d.speedup(t["draft_cost"]) < t["speedup"]
    if unprofitable and m.setup.speculative is None:
        return CannotTell("the log doesn't say whether a model drafts or drafts are looked up in the text")
    if not unprofitable:
        return CannotTell(
            f"{percent(d.accepted)} of the drafted tokens were accepted, but what a token costs without the "
            "draft is not in this log: run a few requests without it"
        )
    likely = d.speedup(t["least_cost"]) < 1
    return _finding(
        m, d, d.speedup(t["draft_cost"]), None, "", Confidence.LIKELY if likely else Confidence.POSSIBLE
    )


def _finding(
    m: Measures, d: _Drafting, speedup: float, plain_ms: float | None, how: str, confidence: Confidence
) -> Answer:
    change = decode_scaled(_without_draft(m, d, speedup))
    saving = m.saving(change)
    if not m.worth(saving.ms, d.rows.height):
        return NotApplicable("too little time to matter")
    tokens, accepted = int(d.rows["draft_tokens"].sum()), int(d.rows["accepted_tokens"].sum())
    why = f"{accepted:,} of {tokens:,} drafted tokens were accepted ({percent(d.accepted)}). "
    if plain_ms is not None and d.ms_per_token is not None:
        why += f"A token takes {duration(d.ms_per_token)} with the draft and {duration(plain_ms)} {how}."
    else:
        cost = m.thresholds(RULE)["draft_cost"]
        why += (
            f"So drafting pays only if a drafted token costs less than {percent(d.accepted)} of one of the "
            f"model's own. At {percent(cost)}, which is usual for a small draft model, generating without it "
            f"is {1 / speedup:.1f} times as fast."
        )
    return RULE.finding(
        confidence=confidence,
        why=why,
        evidence=tuple(_evidence(m, d, plain_ms, how)),
        requests=d.rows.height,
        saving=saving,
        change=change,
        fixes=_fixes(m, d),
        wont_help=() if _free(m) else (_NOT_ACCEPTED,),
    )


def _without_draft(m: Measures, d: _Drafting, speedup: float) -> Array:
    """Of each generation's decode, what is left without the draft."""
    drafted = pl.col("draft_tokens").fill_null(0) > 0
    left = pl.when(drafted).then(min(speedup, 1.0)).otherwise(1.0)
    array: Array = m.generations.select(left).to_series().to_numpy()
    return array


def _evidence(m: Measures, d: _Drafting, plain_ms: float | None, how: str) -> Iterator[Evidence]:
    yield m.evidence("drafted tokens accepted", round(d.accepted, 4), "share", rows=d.rows)
    yield m.evidence("drafted for each check, mean", round(d.length, 1), "tokens")
    yield m.evidence("time per token with the draft, median", d.ms_per_token, "ms", rows=d.rows)
    if plain_ms is not None:
        yield m.evidence(f"time per token {how}", round(plain_ms, 2), "ms")
    if m.setup.speculative is not None:
        yield m.stated("speculative", "kind of speculation")
    if m.setup.draft_max is not None:
        yield m.stated("draft_max", "tokens in a draft, at most", unit="tokens")


def _plain_ms(m: Measures, drafted: pl.DataFrame) -> tuple[float | None, str]:
    """What a token costs without the draft, and where that is from.

    Requests of the same log without a drafted token: of another start, or of one in which the draft had
    nothing to offer, which if anything makes the draft look better.
    """
    plain = m.valid_decode.filter(pl.col("draft_tokens").fill_null(0) == 0)
    plain = plain.join(drafted.select("model").unique(), on="model", how="semi", nulls_equal=True)
    if plain.height >= FEWEST_PLAIN:
        return _ms_per_token(plain), "without"
    return m.decoding.predicted_ms(), "predicted for this device without"


def _ms_per_token(rows: pl.DataFrame) -> float | None:
    return median(rows.select(pl.col("decode_ms") / pl.col("decode_steps")))


def _free(m: Measures) -> bool:
    return any(kind in (m.setup.speculative or "").lower() for kind in FREE)


def _fixes(m: Measures, d: _Drafting) -> tuple[Fix, ...]:
    shorter, off = m.fix("draft-settings"), m.fix("no-draft")
    return (shorter, off) if d.length > SHORT_DRAFT else (off, shorter)


def _windows(m: Measures) -> Answer:
    """From the mean accepted length, which counts the token that each check gives anyway."""
    rows = m.intervals.filter(pl.col("accept_length") >= 1)
    length = median(rows.select("accept_length"))
    if length is None:
        return CannotTell("the log doesn't say how many drafted tokens were accepted")
    if _free(m):
        return NotApplicable("the drafts are looked up in the text, which costs next to nothing")
    t, drafted = m.thresholds(RULE), m.setup.draft_max
    if drafted is None and length - 1 >= t["draft_cost"]:
        return CannotTell("the log doesn't say how many tokens are drafted for each check")
    d = _Drafting(rows, (length - 1) / (drafted or 1), drafted or 1)
    if d.speedup(t["draft_cost"]) >= t["speedup"]:
        return NotApplicable(f"a check gives {length:.1f} tokens")
    return RULE.finding(
        confidence=Confidence.LIKELY if d.speedup(t["least_cost"]) < 1 else Confidence.POSSIBLE,
        why=f"A check of drafted tokens gives {length:.2f} tokens, where 1 would come without a draft. So "
        f"drafting pays only if it costs less than {percent(length - 1)} of a step.",
        evidence=(
            m.evidence("accepted length, median", round(length, 2), "tokens", rows=rows),
            *([m.stated("draft_max", "tokens in a draft, at most", unit="tokens")] if drafted else []),
        ),
        requests=rows.height,
        fixes=_fixes(m, d),
    )
