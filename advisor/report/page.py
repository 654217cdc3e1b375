"""What every drawn page shows, in words: shared by the terminal, Markdown and HTML."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rules.measures import FEW
from rules.words import count, duration, percent, plural, size

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from advisor.model import Analysis, Line, SavingModel
    from advisor.ticket import Report

VISIBLE = 0.005
"""Share of the time from which a remainder is shown."""

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
    known = [(p, float(ms)) for p, ms in phase_ms.items() if ms and (p != "other" or ms >= VISIBLE * total)]
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
    if analysis.summary.tests:
        read.append(plural(len(analysis.summary.tests), "test"))
    if analysis.summary.means is not None and analysis.summary.means.requests:
        read.append(f"{plural(analysis.summary.means.requests, 'request')} summed up")
    if analysis.summary.intervals:
        read.append(plural(analysis.summary.intervals, "interval"))
    lost = {w: sum(getattr(s, f"{w}_requests") for s in analysis.sources) for w in _LOST}
    read += [f"{number} {what}" for what, number in lost.items() if number]
    if analysis.summary.wall_ms:
        read.append(f"{duration(analysis.summary.wall_ms)} of request time")
    paths = [s.path for s in analysis.sources]
    names = named(paths, "files")
    return f"{names}: {', '.join(read)}"


def named(paths: Sequence[str], many: str) -> str:
    """What was read, by its name; several by how ``many`` there are, and ``?`` where there is none."""
    if len(paths) > 1:
        return f"{len(paths)} {many}"
    return {"-": "standard input"}.get(paths[0], paths[0]) if paths else "?"


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
    return ", ".join(known)


def named_setup(analysis: Analysis) -> str:
    """The setup in a line, engine, version and model first: where the heading is far above."""
    s = analysis.setup
    names = " ".join(filter(None, (s.engine, s.engine_version)))
    return ", ".join(filter(None, (names, s.model, setup_line(analysis))))


_PROGRAMS = "curl|docker|llama-bench|lms|numactl|nvidia-smi|ollama|phasewise|python|vllm|PARAMETER"
_PASTED = re.compile(
    rf"""--?\w[\w-]*(?:[ =].*)?            # switches
    | (?:{_PROGRAMS})\ (?!.*\bwithout\b).*   # a command, or a line of a Modelfile
    | \w+\ ?=\ ?\S+(?:,?\ \w+\ ?=\ ?\S+)*    # settings and arguments
    | [a-z]+(?:_[a-z]+)*:\ \S+            # a line of YAML
    """,
    re.VERBOSE,
)


def pasted(text: str) -> bool:
    """Whether a change is text to paste, and not a sentence: switches, settings, a command or JSON."""
    if text.startswith('"'):
        try:
            return isinstance(json.loads(f"{{{text}}}"), dict)
        except ValueError:
            return False
    return _PASTED.fullmatch(text) is not None


def concurrency(analysis: Analysis) -> str:
    """How many requests ran at once; empty where that is not known."""
    most = analysis.summary.concurrency
    if most is None:
        return ""
    return "No two requests ran at once." if most <= 1 else f"Up to {most:,} requests ran at once."


def made(report: Report) -> str:
    """Which version wrote the report, where, and which time the log covers."""
    how = report.reproduce
    said = f"Written by phasewise {how.version} with Python {how.python} on {how.system}."
    if how.first_at is None or how.last_at is None:
        return f"{said} The log has no wall clock."
    part = how.clocked_logs < how.logs
    what = f"What has a clock ({how.clocked_logs:,} of {how.logs:,} logs)" if part else "The log"
    return f"{said} {what} covers {how.first_at:%Y-%m-%d %H:%M:%S} to {how.last_at:%Y-%m-%d %H:%M:%S} UTC."


def starts(analysis: Analysis) -> str:
    """How many process starts the log holds, where the setup shown is that of one of several."""
    if len(analysis.setups) < 2:
        return ""
    return f"Of {len(analysis.setups):,} process starts, the one that served most requests."
