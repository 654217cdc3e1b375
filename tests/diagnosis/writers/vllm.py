"""vLLM's log: what it says when it starts, and its throughput line every ten seconds."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

STARTED = datetime(2026, 9, 7, 6, 30, 0, tzinfo=UTC)
WINDOW_S = 10


@dataclass(frozen=True, slots=True)
class Window:
    """Ten seconds: rates over them, and what was there at their end; percents as printed."""

    prompt_tok_s: float
    output_tok_s: float
    running: int
    waiting: int = 0
    kv_percent: float = 5.0
    hit_percent: float = 0.0


@dataclass(frozen=True, slots=True)
class Engine:
    """How vLLM was started.

    Attributes:
        version, model: as it prints them.
        arguments: those that are not the defaults, as it prints them.
        chunk: most tokens of a step.
        weights_gib: what loading took.
        kv_tokens: what the KV pool holds.
        eager: without CUDA graphs.
        more: lines of its own, printed with the configuration.
    """

    version: str
    model: str
    arguments: str
    context: int
    chunk: int
    weights_gib: float
    kv_tokens: int
    eager: bool = False
    quantization: str = "None"
    processes: bool = True
    more: tuple[str, ...] = ()


def log(engine: Engine, windows: Sequence[Window]) -> str:
    """The log of one start."""
    api, core = ("(APIServer pid=71) ", "(EngineCore pid=145) ") if engine.processes else ("", "")
    now = STARTED
    lines = []

    def say(process: str, source: str, message: str) -> None:
        lines.append(f"{process}INFO {now:%m-%d %H:%M:%S} [{source}] {message}")

    say(api, "utils.py:299", f" ▄▄ ▄█ █     █     █ ▀▄▀ █  version {engine.version}")
    say(api, "utils.py:233", f"non-default args: {{{engine.arguments}}}")
    say(api, "model.py:2152", f"Using max model len {engine.context}")
    say(api, "scheduler.py:238", f"Chunked prefill is enabled with max_num_batched_tokens={engine.chunk}.")
    for message in engine.more:
        say(api, "interface.py:670", message)
    say(
        core,
        "core.py:105",
        f"Initializing a V1 LLM engine (v{engine.version}) with config: model='{engine.model}', "
        f"speculative_config=None, tokenizer='{engine.model}', skip_tokenizer_init=False, "
        "dtype=torch.bfloat16, "
        f"max_seq_len={engine.context}, download_dir=None, load_format=auto, tensor_parallel_size=1, "
        "pipeline_parallel_size=1, data_parallel_size=1, disable_custom_all_reduce=False, "
        f"quantization={engine.quantization}, enforce_eager={engine.eager}, kv_cache_dtype=auto, "
        f"device_config=cuda, seed=0, served_model_name={engine.model}, enable_prefix_caching=True, "
        "enable_chunked_prefill=True, pooler_config=None",
    )
    now += timedelta(seconds=30)
    say(
        core,
        "gpu_model_runner.py:4130",
        f"Model loading took {engine.weights_gib:.4f} GiB memory and 9.203114 seconds",
    )
    say(core, "kv_cache_utils.py:1307", f"GPU KV cache size: {engine.kv_tokens:,} tokens")
    lines.append(f"{api}INFO:     Application startup complete.")
    now += timedelta(seconds=60)
    for window in windows:
        now += timedelta(seconds=WINDOW_S)
        say(
            api,
            "loggers.py:257",
            f"Engine 000: Avg prompt throughput: {window.prompt_tok_s:.1f} tokens/s, "
            f"Avg generation throughput: {window.output_tok_s:.1f} tokens/s, Running: {window.running} reqs, "
            f"Waiting: {window.waiting} reqs, GPU KV cache usage: {window.kv_percent:.1f}%, "
            f"Prefix cache hit rate: {window.hit_percent:.1f}%",
        )
    return "".join(f"{line}\n" for line in lines)
