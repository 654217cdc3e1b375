"""Which numbers a row may hold: one that no engine can mean is text, cut or quoted."""

from __future__ import annotations

from operator import attrgetter

from parsers.records import Aggregate, Event, Interval, Request

NUMBERS = {
    Request: (
        *("prompt_tokens", "cached_tokens", "prefill_tokens", "output_tokens", "decode_steps", "slot"),
        *("context_tokens", "draft_tokens", "accepted_tokens", "prefill_ms", "decode_ms", "queue_ms"),
        *("load_ms", "ttft_ms", "total_ms", "clock_start_ms", "clock_end_ms"),
    ),
    Interval: (
        *("span_ms", "prefill_tokens", "cached_tokens", "decode_tokens", "prefill_tok_s", "decode_tok_s"),
        *("running", "waiting", "kv_usage", "prefix_hit_rate", "accept_length"),
    ),
    Event: ("slot", "value"),
    Aggregate: (
        *("span_ms", "requests", "prompt_tokens", "cached_tokens", "prefill_tokens", "output_tokens"),
        *("queue_ms", "prefill_ms", "decode_ms", "other_ms", "total_ms", "ttft_ms", "ttft_requests"),
        *("ttft_p50_ms", "ttft_p90_ms", "ttft_p95_ms", "ttft_p99_ms"),
        *("tpot_p50_ms", "tpot_p90_ms", "tpot_p95_ms", "tpot_p99_ms", "decode_steps"),
    ),
}
NUMBERS_OF = {row_type: attrgetter(*names) for row_type, names in NUMBERS.items()}
LARGEST = float(1 << 53)
"""No count and no time in ms is larger: from here on a float skips whole numbers, and a sum may overflow."""


def is_possible(value: object) -> bool:
    """False for a number that no engine can mean: it is text, cut or quoted."""
    return not isinstance(value, (int, float)) or -LARGEST <= value <= LARGEST
