"""Statistics printed one a line, in three spellings, gathered until the answer they are of is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parsers.formats.base import line

if TYPE_CHECKING:
    import re
    from collections.abc import Callable

    from parsers.formats.base import At

_NAMES = {
    "rate": ("tokens_per_second", "tokensPerSecond", "Tokens/Second"),
    "ttft_s": (
        *("time_to_first_token", "time_to_first_token_seconds"),
        *("timeToFirstTokenSec", "Time to First Token"),
    ),
    "decode_s": ("generation_time",),
    "total_s": ("totalTimeSec",),
    "load_s": ("model_load_time_seconds",),
    "prompt": ("prompt_tokens", "input_tokens", "promptTokensCount", "Prompt Tokens"),
    "output": ("completion_tokens", "total_output_tokens", "predictedTokensCount", "Predicted Tokens"),
    "reason": ("stop_reason", "stopReason", "Stop Reason"),
    "drafted": ("totalDraftTokensCount",),
    "accepted": ("acceptedDraftTokensCount",),
    "end": ("totalTokensCount", "Total Tokens", "response_id", "system_fingerprint"),
}
FIELD_OF = {name: field for field, names in _NAMES.items() for name in names}

_KEYS = b"|".join(name.encode() for name in FIELD_OF)
_JSON = rb'\s*"(?P<key>' + _KEYS + rb')": ?"?(?P<value>[\w./+-]{1,100})"?,?\s*$'
_TEXT = rb" *(?P<key>" + _KEYS + rb"): (?P<value>[\w.+-]{1,40})\s*$"

LINES = (
    *(
        line("field", needle, _JSON)
        for needle in (
            *(b'"tokens_per_second"', b'"time_to_first_token', b'"generation_time"', b'"model_load_time'),
            *(b'_tokens":', b'"stop_reason"', b'"response_id"', b'"system_fingerprint"'),
        )
    ),
    *(
        line("field", needle, _TEXT)
        for needle in (
            *(b"okensPerSecond: ", b"timeToFirstTokenSec: ", b"totalTimeSec: ", b"TokensCount: "),
            *(b"stopReason: ", b"Tokens/Second: ", b"Time to First Token: ", b" Tokens: ", b"Stop Reason: "),
        )
    ),
)

_NEXT_LINES = 10


class Fields:
    """The statistics that stand open.

    Args:
        take: gets each block: its fields as printed, its first line and its last.
    """

    def __init__(self, take: Callable[[dict[str, str], At, At], None]) -> None:
        self._take = take
        self._fields: dict[str, str] = {}
        self._first: At | None = None
        self._last: At | None = None

    def add(self, m: re.Match[bytes], at: At) -> None:
        """One field; one that stands apart, or comes again, begins the next block."""
        field = FIELD_OF[m["key"].decode()]
        if self._last is None or at.own_number - self._last.own_number > _NEXT_LINES or field in self._fields:
            self.flush()
            self._first = at
        self._last = at
        self._fields[field] = m["value"].decode()
        if field == "end":
            self.flush()

    def flush(self) -> None:
        """The block is over."""
        fields, first, last = self._fields, self._first, self._last
        self._fields, self._first, self._last = {}, None, None
        if first is not None and last is not None:
            self._take(fields, first, last)
