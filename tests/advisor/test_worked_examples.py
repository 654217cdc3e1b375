"""The examples of the docs, worked end to end, and timing blocks as people paste them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.advisor.helpers import Asked, analysis, at_rates, bare, phasewise, prefixed, refused, snippet


@pytest.mark.parametrize("layout", [prefixed, bare])
def test_a_short_prompt_and_a_long_answer(layout: Any) -> None:
    data = analysis("-", stdin=layout([at_rates(1000, 2000, 300, 40)]).encode())
    assert data["summary"]["wall_ms"] == pytest.approx(8000)
    assert data["summary"]["phase_share"]["decode"] == pytest.approx(0.9375)
    assert data["verdict"]["phase"] == "decode"
    assert "94 %" in data["verdict"]["sentence"]
    assert "8.0 s" in data["verdict"]["sentence"]


@pytest.mark.parametrize("layout", [prefixed, bare])
def test_twenty_long_prompts(layout: Any) -> None:
    log = layout([at_rates(12_000, 1500, 500, 40)] * 20).encode()
    data = analysis("-", stdin=log)
    summary = data["summary"]
    assert summary["requests"] == 20
    assert summary["total_ms"]["p50"] == pytest.approx(20_500)
    assert summary["ttft_ms"]["p50"] / summary["total_ms"]["p50"] == pytest.approx(0.39, abs=0.001)
    assert summary["phase_share"]["prefill"] == pytest.approx(0.39, abs=0.001)
    assert data["verdict"]["phase"] == "decode"
    finding = data["findings"][0]
    assert finding["rule"] == "prefill-dominates-long-prompt"
    titles = [fix["title"].lower() for fix in finding["fixes"]]
    assert len(titles) == 3
    for title, word in zip(titles, ("chunks", "prefix", "history"), strict=True):
        assert word in title


# --- pasted


ISSUE = "Here is what I see:\n\n> ```\n{}> ```\n> on a laptop, why so slow?\n"


@pytest.mark.parametrize(
    "paste",
    [
        lambda lines: "".join(lines),
        lambda lines: ISSUE.format("".join(f"> {line}" for line in lines)),
        lambda lines: "```\n" + "".join(lines) + "```\n",
        lambda lines: "".join(lines).replace("\n", "\r\n"),
        lambda lines: "".join(lines).removesuffix("\n"),
        lambda lines: "".join(lines[:2]),
    ],
    ids=["bare", "quoted", "fenced", "windows", "no-newline", "no-total"],
)
def test_a_pasted_timing_block(paste: Any) -> None:
    lines = snippet(Asked(1000, 500.0, 300, 7500.0)).splitlines(keepends=True)
    data = analysis("-", stdin=paste(lines).encode())
    assert data["summary"]["requests"] == 1
    assert data["verdict"]["phase"] == "decode"
    assert data["verdict"]["share"] == pytest.approx(0.9375)


def test_a_log_read_as_another_engines() -> None:
    refused(
        phasewise("-", "--engine", "vllm", stdin=snippet(Asked(10, 5, 10, 50)).encode()), 3, "read as vllm"
    )
