"""The command as a user runs it, and small logs in the layouts of real ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "sample_logs"
_ENVIRONMENT = {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8", "COLUMNS": "80"}
_UNSET = ("NO_COLOR", "FORCE_COLOR", "PYTHONUTF8", "TERM")


class Ran(NamedTuple):
    """How a run ended, and what it printed."""

    status: int
    out: str
    err: str
    raw: bytes


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in _UNSET}
    return kept | _ENVIRONMENT | more


def phasewise(
    *arguments: str | Path,
    stdin: bytes = b"",
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
    python: tuple[str, ...] = (sys.executable,),
    timeout_s: float = 60,
) -> Ran:
    """Run the command in a process of its own."""
    done = subprocess.run(
        [*python, "-m", "advisor", *(str(argument) for argument in arguments)],
        input=stdin,
        capture_output=True,
        cwd=cwd,
        env=environment(**(env or {})),
        timeout=timeout_s,
        check=False,
    )
    return Ran(done.returncode, _text(done.stdout), _text(done.stderr), done.stdout)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace").replace("\r\n", "\n")


def refused(ran: Ran, status: int, *words: str) -> None:
    """The command said one sentence with these words in it, and nothing else."""
    assert ran.out == ""
    one_sentence(ran, *words)
    assert ran.status == status


def one_sentence(ran: Ran, *words: str) -> None:
    """Standard error holds one sentence with these words."""
    assert ran.err.count("\n") == 1, ran.err
    assert ran.err.startswith("phasewise: "), ran.err
    assert ran.err.endswith(".\n"), ran.err
    for word in words:
        assert word in ran.err


def analysis(*arguments: str, stdin: bytes = b"") -> dict[str, Any]:
    """What `analyze --format json` says of samples, or of standard input."""
    ran = phasewise(*arguments, "--format", "json", stdin=stdin, cwd=SAMPLES)
    assert (ran.status, ran.err) == (0, "")
    data: dict[str, Any] = json.loads(ran.out, parse_constant=_no_json)
    return data


def _no_json(name: str) -> None:
    raise AssertionError(f"{name} is no JSON")


class Asked(NamedTuple):
    """A request: what it evaluated and generated, and the milliseconds that took."""

    prompt: int
    prefill_ms: float
    output: int
    decode_ms: float


def at_rates(prompt: int, prefill_tok_s: float, output: int, decode_tok_s: float) -> Asked:
    return Asked(prompt, 1000 * prompt / prefill_tok_s, output, 1000 * output / decode_tok_s)


def prefixed(requests: list[Asked], *, model: str = "/models/some-model-q4_k_m.gguf", slot: int = 0) -> str:
    """A llama-server log of b9230 or newer at its default verbosity."""
    lines = [
        "0.00.000.907 I srv  llama_server: initializing ...",
        f"0.00.003.818 I srv    load_model: loading model '{model}'",
        "0.00.339.522 I srv    load_model: initializing, n_slots = 1, n_ctx_slot = 9000, kv_unified = 'true'",
    ]
    now_ms, task = 500.0, 1
    for asked in requests:
        prefix = f"I slot %s: id  {slot} | task {task} |"
        lines += [f"{_clock(now_ms)} {prefix % 'launch_slot_'} processing task, is_child = 0"]
        now_ms += asked.prefill_ms + asked.decode_ms
        lines += [f"{_clock(now_ms)} {prefix % 'print_timing'} {text}" for text in _timings(asked)]
        held = asked.prompt + asked.output - 1
        lines += [
            f"{_clock(now_ms)} {prefix % '     release'} stop processing: n_tokens = {held}, truncated = 0"
        ]
        now_ms += 5
        task += asked.output + 1
    return "\n".join(lines) + "\n"


def bare(requests: list[Asked], *, model: str = "/models/some-model-q4_k_m.gguf") -> str:
    """A llama-server log of mid-2025: one header, then timing lines without a prefix."""
    lines = [
        "build: 5760 (a1b2c3d4e) with cc (Debian 12.2.0-14) 12.2.0 for x86_64-linux-gnu",
        f"srv    load_model: loading model '{model}'",
        "srv          init: initializing slots, n_slots = 1",
        "slot         init: id  0 | task -1 | new slot n_ctx_slot = 16384",
    ]
    task = 0
    for asked in requests:
        new = f"new prompt, n_ctx_slot = 16384, n_keep = 0, n_prompt_tokens = {asked.prompt}"
        held = asked.prompt + asked.output - 1
        lines += [
            f"slot launch_slot_: id  0 | task {task} | processing task",
            f"slot update_slots: id  0 | task {task} | {new}",
            f"slot update_slots: id  0 | task {task} | kv cache rm [0, end)",
            f"slot      release: id  0 | task {task} | stop processing: n_past = {held}, truncated = 0",
            f"slot print_timing: id  0 | task {task} | ",
            *_timings(asked),
            "srv  update_slots: all slots are idle",
        ]
        task += asked.output + 1
    return "\n".join(lines) + "\n"


def snippet(asked: Asked) -> str:
    """The three timing lines that people paste."""
    return "\n".join(_timings(asked)) + "\n"


def _timings(asked: Asked) -> list[str]:
    total = asked.prefill_ms + asked.decode_ms
    return [
        _rate("prompt eval time", asked.prefill_ms, asked.prompt),
        _rate("       eval time", asked.decode_ms, asked.output),
        f"      total time = {total:10.2f} ms / {asked.prompt + asked.output:5d} tokens",
    ]


def _rate(name: str, ms: float, tokens: int) -> str:
    each = f"{ms / tokens:8.2f} ms per token, {1000 * tokens / ms:8.2f} tokens per second"
    return f"{name} = {ms:10.2f} ms / {tokens:5d} tokens ({each})"


def _clock(ms: float) -> str:
    micros = round(ms * 1000)
    millis, micros = divmod(micros, 1000)
    seconds, millis = divmod(millis, 1000)
    minutes, seconds = divmod(seconds, 60)
    return f"{minutes}.{seconds:02d}.{millis:03d}.{micros:03d}"
