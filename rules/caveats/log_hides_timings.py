"""The log hides what a diagnosis needs.

What it looks at:
    Whether any request, or any step of the engine, tells prefill and decode apart; and for llama.cpp
    engines whether the header with the model's size and its place in memory is shown.

Why it matters:
    Without times nothing can be split. Without the header nobody can say how fast decode should be, or
    whether a part of the model is on the CPU.

When not to worry:
    If the question is only how much of the time prefill and decode take, the header is not needed.

What to change:
    The text names the switch for this engine, but not for one that died before it served: that has to run
    first. llama-server hides the header since b9151 and, since b9829, also prompt lengths and cached tokens
    unless its verbosity is 4.

Sources:
    llama.cpp#23021 and llama.cpp#25078 (log levels); Ollama docs/api/usage.mdx; vLLM docs (per-request
    metrics).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from rules.caveats.client_ttft import only_clients
from rules.deaths import deaths
from rules.rule import Caveat
from rules.words import plural

if TYPE_CHECKING:
    from rules.measures import Measures

ID = "log-hides-timings"

LLAMA_CPP = ("llama-server", "llama-cli", "llama-cpp-python", "ollama", "koboldcpp", "lmstudio", "ik-llama")
TIMES_SHOWN_FROM = 3
"""llama-server's verbosity from which timing lines are printed, its default."""

ALL_SHOWN = 2**31 - 1
"""llama-server's verbosity under `-v`: everything."""


def check(m: Measures) -> Caveat | None:
    """Say what is hidden and what to switch on."""
    text = _timings(m) or _header(m)
    return None if text is None else Caveat(ID, text)


def switch(m: Measures, remedy: str) -> str:
    """What to switch on, and where."""
    fix = m.fix(remedy)
    return f"`{fix.apply}` ({fix.where})"


def _timings(m: Measures) -> str | None:
    steps = m.intervals.filter(pl.col("kind") == "iteration").height
    others = m.requests.height - m.generations.height
    summed = m.sums.rows.height and not m.generations.height
    told = m.attribution.split or summed or steps or only_clients(m)
    if told or (others and not m.generations.height):
        return None
    if m.generations.height or m.intervals.height:
        return _switched_off(m)
    return _nothing_served(m)


def _nothing_served(m: Measures) -> str:
    """Why there is nothing to split; more logging helps only where the engine lived."""
    dead = deaths(m)
    if not _logs_times(m):
        if dead.height:
            return f"There is nothing to split: {_last(dead)}. The lines around that one say why."
        return _switched_off(m)
    failed = m.events.filter(pl.col("kind").is_in(["error", "out_of_memory"])).drop_nulls("detail")
    if failed.height:
        return f"No request was served: {_last(dead if dead.height else failed)}."
    if cut := m.counts.incomplete_requests:
        return (
            f"The log breaks off in {plural(cut, 'request')}, and none ends in it, so there is nothing "
            "to split: log until an answer is whole."
        )
    return "No request ends in this log, so there is nothing to split: log while requests are served."


def _switched_off(m: Measures) -> str:
    return f"No line of this log tells prefill from decode. Switch on {switch(m, 'log-more')}."


def _last(events: pl.DataFrame) -> str:
    return f"{events['detail'][-1]} (line {events['line'][-1]})"


def _logs_times(m: Measures) -> bool:
    """Whether this engine logs times without being asked, so that only requests are missing."""
    quiet = m.setup.verbosity is not None and m.setup.verbosity < TIMES_SHOWN_FROM
    return m.engine in (None, "llama-server", "llama-bench") and not quiet


def _header(m: Measures) -> str | None:
    s = m.setup
    if m.engine not in LLAMA_CPP:
        return None
    hidden = []
    if s.weights_bytes is None:
        hidden.append("the model's size and quantization")
    if s.layers_offloaded is None and s.cpu_weights_bytes is None and s.gpu_weights_bytes is None:
        hidden.append("what runs on the GPU")
    if not hidden:
        return None
    where = "The log" if s.verbosity in (None, ALL_SHOWN) else f"At verbosity {s.verbosity} the log"
    return (
        f"{where} hides {' and '.join(hidden)}, so whether decode is as fast as it should be can't be told. "
        f"What helps: {switch(m, 'log-header')}."
    )
