"""What every drawn page shows, in words: shared by the terminal and Markdown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rules.measures import FEW
from rules.words import count, duration, percent, plural, rate, size

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from advisor.model import Analysis, Line, Percentiles, SavingModel, Steps, Summary

_VISIBLE = 0.005
_LOST = ("aborted", "failed", "incomplete")
PHASES = ("queue", "load", "prefill", "decode", "other")
_GLYPHS = {"queue": "·", "load": "▒", "prefill": "█", "decode": "▓", "other": "░"}
_ASCII_GLYPHS = {"queue": ".", "load": "+", "prefill": "#", "decode": "=", "other": "-"}


@dataclass(frozen=True, slots=True)
class Part:
    """One phase's part of the bar."""

    phase: str
    glyph: str
    cells: int
    ms: float
    share: float

    @property
    def legend(self) -> str:
        """``▓ decode 24.7 s (77 %)``."""
        return f"{self.glyph} {self.phase} {duration(self.ms)} ({percent(self.share)})"


def bar(analysis: Analysis, width: int, *, unicode: bool = True) -> list[Part]:
    """The phase bar of an analysis."""
    return bar_of({p: getattr(analysis.summary.phase_ms, p) for p in PHASES}, width, unicode=unicode)


def bar_of(phase_ms: Mapping[str, float | None], width: int, *, unicode: bool = True) -> list[Part]:
    """A phase bar: parts whose cells sum up to ``width``; empty where no phase is known."""
    glyphs = _GLYPHS if unicode else _ASCII_GLYPHS
    total = sum(float(ms) for ms in phase_ms.values() if ms)
    known = [(p, float(ms)) for p, ms in phase_ms.items() if ms and (p != "other" or ms >= _VISIBLE * total)]
    if not known or total <= 0 or (len(known) == 1 and known[0][0] == "other"):
        return []
    parts: list[Part] = []
    drawn, passed = 0, 0.0
    for phase, ms in known:
        passed += ms
        cells = round(width * passed / total) - drawn
        drawn += cells
        parts.append(Part(phase, glyphs[phase], cells, ms, ms / total))
    return parts


def heading(analysis: Analysis) -> str:
    """What was read: engine, version, model, amounts."""
    engines = {" ".join(filter(None, (s.engine, s.engine_version))) for s in analysis.sources}
    read = sorted(engines)
    if analysis.setup.model:
        read.append(analysis.setup.model)
    if analysis.summary.requests:
        read.append(plural(analysis.summary.requests, "request"))
    if analysis.summary.means is not None and analysis.summary.means.requests:
        read.append(f"{plural(analysis.summary.means.requests, 'request')} summed up")
    if analysis.summary.intervals:
        read.append(plural(analysis.summary.intervals, "interval"))
    lost = {w: sum(getattr(s, f"{w}_requests") for s in analysis.sources) for w in _LOST}
    read += [f"{number} {what}" for what, number in lost.items() if number]
    if analysis.summary.wall_ms:
        read.append(f"{duration(analysis.summary.wall_ms)} of request time")
    paths = [s.path for s in analysis.sources]
    names = f"{len(paths)} files" if len(paths) > 1 else "standard input" if paths == ["-"] else paths[0]
    return f"{names}: {', '.join(read)}"


def saved(saving: SavingModel) -> str:
    """``saves about 106 s (26 %)``, or ``at most``; a log of windows has no whole to have a share of."""
    about = "at most" if saving.bound == "at_most" else "about"
    share = f" ({percent(saving.share)})" if saving.share else ""
    return f"saves {about} {duration(saving.ms)}{share}"


def together(analysis: Analysis) -> str:
    """What the findings' first fixes save together; empty where fewer than two save time."""
    if analysis.combined_saving is None or sum(f.saving is not None for f in analysis.findings) < 2:
        return ""
    return f"The first fix of each together {saved(analysis.combined_saving)}, recomputed, not added up."


def nothing_to_change(analysis: Analysis) -> str:
    """What to say in place of advice: that nothing is wrong, or what keeps us from saying so."""
    if analysis.findings or not analysis.summary.requests or analysis.verdict.phase == "unknown":
        return ""
    requests = analysis.summary.requests
    if requests < FEW:
        return f"{plural(requests, 'request')} {'is' if requests == 1 else 'are'} too few to advise on."
    looked = f"No rule found anything worth changing in {plural(requests, 'request')}."
    if analysis.setup.weights_bytes is not None and not any(d.bandwidth_gb_s for d in analysis.setup.devices):
        looked += " To judge the decode speed itself, give the memory's bandwidth: --bandwidth GB/s."
    return looked


def unanswered(analysis: Analysis) -> list[str]:
    """Why rules could not tell, each reason once: ``loads are not logged (reload-after-idle, ...).``."""
    rules: dict[str, list[str]] = {}
    for one in analysis.unanswered:
        rules.setdefault(one.reason, []).append(one.rule)
    return [f"{reason} ({', '.join(names)})." for reason, names in rules.items()]


def where(lines: list[Line]) -> str:
    """``server.log:14, 22``; each with its file where they differ; empty without lines."""
    if len({line.source for line in lines}) == 1:
        return f"{lines[0].source}:{', '.join(str(line.line) for line in lines)}"
    return ", ".join(f"{line.source}:{line.line}" for line in lines)


def measured(analysis: Analysis) -> list[tuple[str, ...]]:
    """The table: header first; of requests, else of the engine's steps or windows; empty without any."""
    s = analysis.summary
    if not s.requests:
        return _means(s) or _steps(s) or _windows(s)
    start = {"slot": " (from slot)", "arrival": " (from arrival)"}.get(s.ttft_from or "", "")
    rows = [
        (f"time to first token{start}", *_spread(s.ttft_ms, duration)),
        ("total", *_spread(s.total_ms, duration)),
        ("time per token (TPOT)", *_spread(s.tpot_ms, duration)),
        ("prompt tokens", *_spread(s.prompt_tokens, count)),
        ("output tokens", *_spread(s.output_tokens, count)),
        ("prefill", rate(s.prefill_tok_s.p50), "", "", count(s.prefill_tok_s.n)),
        ("decode", rate(s.decode_tok_s.p50), "", "", count(s.decode_tok_s.n)),
    ]
    shown = [row for row in rows if row[1] != "?"]
    if s.cached_share is not None:
        shown.append(("prompt tokens from cache", percent(s.cached_share), "", "", ""))
    return [("", "p50", "p95", "max", "n"), *shown] if shown else []


def _means(s: Summary) -> list[tuple[str, ...]]:
    if (means := s.means) is None:
        return []
    start = {"slot": " (from slot)", "arrival": " (from arrival)"}.get(s.ttft_from or "", "")
    rows = [
        (f"time to first token{start}", duration(means.ttft_mean_ms), *_bucket_ends(s.ttft_ms)),
        ("total", duration(means.total_mean_ms), "", "", count(means.requests)),
        ("waiting", duration(means.queue_mean_ms), "", "", count(means.requests)),
        ("prefill", duration(means.prefill_mean_ms), "", "", count(means.requests)),
        ("decode", duration(means.decode_mean_ms), "", "", count(means.requests)),
        ("time per token (TPOT)", duration(means.tpot_mean_ms), *_bucket_ends(s.tpot_ms)),
        ("prompt tokens", count(means.prompt_tokens_mean), "", "", count(means.requests)),
        ("output tokens", count(means.output_tokens_mean), "", "", count(means.requests)),
        ("prefill, tokens by time", rate(means.prefill_tok_s), "", "", ""),
        ("decode, tokens by time", rate(means.decode_tok_s), "", "", ""),
        ("prompt tokens from cache", percent(s.cached_share), "", "", ""),
    ]
    shown = [(name, mean.replace("?", ""), *more) for name, mean, *more in rows if mean != "?" or more[0]]
    return [("", "mean", "p50", "p95", "n"), *shown] if shown else []


def _bucket_ends(p: Percentiles) -> tuple[str, str, str]:
    p50, p95 = ("" if value is None else duration(value) for value in (p.p50, p.p95))
    return p50, p95, count(p.n) if p.n else ""


def _steps(s: Summary) -> list[tuple[str, ...]]:
    rows = [
        (f"{x.phase} steps", count(x.steps), duration(x.total_ms), duration(x.p50_ms), _tokens(x))
        for x in s.steps
    ]
    return [("", "n", "in all", "p50", "tokens"), *rows] if rows else []


def _tokens(steps: Steps) -> str:
    return f"{count(steps.prefill_tokens)} in, {count(steps.decode_tokens)} out"


def _windows(s: Summary) -> list[tuple[str, ...]]:
    if (w := s.windows) is None:
        return []
    rows = [
        ("windows", count(w.windows)),
        ("of them busy", count(w.busy)),
        ("running, at most", count(w.running_max)),
        ("waiting, at most", count(w.waiting_max)),
        ("KV cache in use, at most", percent(w.kv_usage_max)),
        ("prefix cache hits, last", percent(w.prefix_hit_rate)),
    ]
    told = [(*row, "", "", "") for row in rows if row[1] != "?"]
    return [("", "value", "", "", ""), *told]


def _spread(p: Percentiles, say: Callable[[float | None], str]) -> tuple[str, str, str, str]:
    return say(p.p50), say(p.p95), say(p.max), count(p.n)


def setup_line(analysis: Analysis) -> str:
    """The setup in a line, only what is known."""
    s = analysis.setup
    facts = [
        s.quantization,
        None if s.weights_bytes is None else f"{size(s.weights_bytes)} of weights",
        None if s.layers_offloaded is None else f"{s.layers_offloaded}/{s.layers_offloadable} layers on GPU",
        None if s.context is None else f"context {count(s.context)}",
        None if s.slots is None else plural(s.slots, "slot"),
        None if s.kv_bytes is None else f"KV cache {size(s.kv_bytes)} {s.kv_type_k or ''}".rstrip(),
        None if s.flash_attention is None else f"flash attention {'on' if s.flash_attention else 'off'}",
        ", ".join(d.name for d in s.devices) or None,
    ]
    known = [fact for fact in facts if fact]
    return f"setup: {', '.join(known)}" if known else ""
