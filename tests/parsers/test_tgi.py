"""TGI: durations of any length come back, with the one number of tokens that explains them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.parsers.reading import join, read

_UNITS = (("s", 10**9), ("ms", 10**6), ("µs", 10**3), ("ns", 1))
NANOSECONDS = st.integers(1, 10**12)
TEXT = st.text(st.sampled_from('"\\}: \n' + 'total_time="1s" seed=')).map(lambda text: json.dumps(text))


def rust(nanoseconds: int) -> str:
    """A duration as Rust's Debug prints it: in the largest unit that fits, all digits."""
    unit, size = next((unit, size) for unit, size in _UNITS if nanoseconds >= size)
    whole, rest = divmod(nanoseconds, size)
    digits = f"{rest:0{len(str(size)) - 1}d}".rstrip("0") if rest else ""
    return f"{whole}{'.' + digits if digits else ''}{unit}"


@given(queue=NANOSECONDS, per_token=st.integers(10**4, 10**9), tokens=st.integers(1, 4096), stop=TEXT)
@pytest.mark.parametrize("as_json", [False, True])
def test_a_request_comes_back(as_json: bool, queue: int, per_token: int, tokens: int, stop: str) -> None:
    inference = per_token * tokens + tokens // 2
    spent = {
        "total_time": queue + inference + 10,
        "validation_time": 10,
        "queue_time": queue,
        "inference_time": inference,
        "time_per_token": inference // tokens,
    }
    span = {key: rust(value) for key, value in spent.items()} | {"seed": "None"}
    parameters = f"GenerateParameters {{ stop: [{stop}] }}"
    if as_json:
        event: dict[str, object] = {
            "timestamp": "2024-05-01T09:02:04.5Z",
            "level": "INFO",
            "message": "Success",
        }
        event |= {"span": {"parameters": parameters, **span}}
        printed = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
    else:
        values = " ".join(f'{key}="{value}"' for key, value in span.items())
        printed = f"2024-05-01T09:02:04.5Z  INFO generate{{parameters={parameters} {values}}}: "
        printed += "text_generation_router::server: router/src/server.rs:432: Success"
    [row] = read(join([printed])).requests
    assert row.output_tokens == tokens
    assert row.queue_ms == pytest.approx(queue / 1e6, abs=1e-6)
    assert row.total_ms == pytest.approx(spent["total_time"] / 1e6, abs=1e-6)
    assert (row.prefill_ms, row.decode_ms, row.ttft_ms, row.prompt_tokens) == (None, None, None, None)
