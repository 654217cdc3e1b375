"""A row in a line, for terminals and logs that scroll."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from advisor.live.history import PLACED_AT
from advisor.report.page import saved
from rules.attribution import PHASES
from rules.words import count, duration, percent, plural, rate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from advisor.live.view import Judged
    from advisor.model import Analysis

_TOP = 3


def request_line(row: dict[str, Any]) -> str:
    """``10:03:12 llama-server 12: TTFT 840 ms, total 2.9 s = prefill 800 ms (234 tokens) + decode 2.1 s``."""
    phases = " + ".join(_phases(row))
    heard = [
        f"TTFT {duration(row['ttft_ms'])}" if row["ttft_ms"] is not None else "",
        f"total {duration(row['total_ms'])}" if row["total_ms"] is not None else "",
    ]
    waited = ", ".join(filter(None, heard))
    said = " = ".join(filter(None, (waited, phases))) or _tokens(row) or "no times logged"
    kind = "" if row["kind"] == "generation" else f" {row['kind']}"
    name = row["request_id"] or f"line {row['line']:,}"
    return f"{_who(row)}{kind} {name}: {said}"


def _phases(row: dict[str, Any]) -> Iterator[str]:
    known = [phase for phase in PHASES if row[f"{phase}_ms"] is not None]
    for phase in known:
        detail = {"prefill": _prompt, "decode": _answer}.get(phase, _nothing)(row)
        yield f"{phase} {duration(row[f'{phase}_ms'])}{f' ({detail})' if detail else ''}"


def _prompt(row: dict[str, Any]) -> str:
    """``234 tokens, 1,000 cached, 293 tok/s``."""
    parts = [
        plural(row["prefill_tokens"], "token") if row["prefill_tokens"] is not None else "",
        f"{count(row['cached_tokens'])} cached" if row["cached_tokens"] else "",
        rate(row["prefill_tok_s"]) if row["prefill_tok_s"] is not None else "",
    ]
    return ", ".join(filter(None, parts))


def _answer(row: dict[str, Any]) -> str:
    """``120 tokens, 57.1 tok/s``."""
    parts = [
        plural(row["output_tokens"], "token") if row["output_tokens"] is not None else "",
        rate(row["decode_tok_s"]) if row["decode_tok_s"] is not None else "",
    ]
    return ", ".join(filter(None, parts))


def _nothing(row: dict[str, Any]) -> str:
    return ""


def _tokens(row: dict[str, Any]) -> str:
    told = (("prompt_tokens", "prompt"), ("output_tokens", "output"))
    return ", ".join(f"{count(row[name])} {what} tokens" for name, what in told if row[name] is not None)


def interval_line(row: dict[str, Any]) -> str:
    """``10:03:12 vllm: running 3, waiting 0, prefill 1,200 tok/s, decode 310 tok/s, KV cache 41 %``."""
    told = [
        (row["running"], "running {}", count),
        (row["waiting"], "waiting {}", count),
        (row["prefill_tok_s"], "prefill {}", rate),
        (row["decode_tok_s"], "decode {}", rate),
        (row["kv_usage"], "KV cache {} used", percent),
        (row["prefix_hit_rate"], "prefix cache hits {}", percent),
    ]
    parts = [form.format(say(value)) for value, form, say in told if value is not None]
    return f"{_who(row)} {row['kind'].replace('_', ' ')}: {', '.join(parts) or 'no numbers'}"


def event_line(row: dict[str, Any]) -> str:
    """``10:03:12 llama-server ! aborted, slot 0``."""
    where = f", slot {row['slot']}" if row["slot"] is not None else ""
    detail = f": {row['detail']}" if row["detail"] else ""
    return f"{_who(row)} ! {row['kind'].replace('_', ' ')}{where}{detail}"


def sums_line(row: dict[str, Any]) -> str:
    """``10:03:12 vllm since the last look: 3 requests, prefill 800 ms, decode 2.1 s``."""
    requests = [plural(row["requests"], "request")] if row["requests"] else []
    times = [f"{phase} {duration(row[f'{phase}_ms'])}" for phase in PHASES if row.get(f"{phase}_ms")]
    told = ", ".join(requests + times)
    return f"{_who(row)} sums: {told}" if told else ""


def _who(row: dict[str, Any]) -> str:
    at: datetime | None = row[PLACED_AT]
    return " ".join(filter(None, (f"{at:%H:%M:%S}" if at else "", row["engine"])))


def verdict_line(found: Judged) -> str:
    """``== 42 requests: 61 % of the wait is prefill. 1. Most of it is the prompt: saves about 12 s``."""
    analysis = found.analysis
    requests = _judged_requests(analysis)
    seen = plural(requests, "request") if requests else ""
    if requests and found.kept < found.read:
        seen = f"the last {requests:,} of {plural(found.read, 'request')}"
    advice = [
        f"{number}. {finding.title}{f': {saved(finding.saving)}' if finding.saving else ''}."
        for number, finding in enumerate(analysis.findings[:_TOP], 1)
    ]
    return " ".join(["==", f"{seen}:" if seen else "", analysis.verdict.sentence, *advice]).replace("  ", " ")


def verdict_record(found: Judged) -> dict[str, object]:
    """The verdict as scripts read it: of how many requests, of how many read, and the first findings."""
    analysis = found.analysis
    return {
        "type": "verdict",
        **analysis.verdict.model_dump(mode="json"),
        "requests": _judged_requests(analysis),
        "requests_read": found.read,
        "findings": [
            {"rule": f.rule, "title": f.title, "saving": f.saving.model_dump() if f.saving else None}
            for f in analysis.findings[:_TOP]
        ],
    }


def _judged_requests(analysis: Analysis) -> int | None:
    """How many requests a verdict is of; ``None`` where the engine summed them up and does not say."""
    s = analysis.summary
    return s.requests if s.means is None or s.requests else s.means.requests
