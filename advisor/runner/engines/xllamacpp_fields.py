"""The runner's settings as fields of the `xllamacpp` wheel's `CommonParams`.

One slot, no prompt cache on the host, no checkpoints, so that it is known what a prompt can reuse. Nothing is
fitted to the memory: what is asked for is what runs, or an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from advisor.runner.engine import EngineError
from advisor.runner.settings import LOOKUP_NGRAM

if TYPE_CHECKING:
    from advisor.runner.settings import Settings

_VERBOSITY = 4
"""The first at which the log tells of the model, the KV cache, and what each prompt reused."""

_NONE_REUSED = {"cache_ram_mib": 0, "n_ctx_checkpoints": 0, "cache_idle_slots": False}
_SPECULATION = "speculative.types"


def fields_of(settings: Settings, folder: str) -> dict[str, Any]:
    """The settings as the wheel calls them, for `xllamacpp_host.py`.

    Args:
        settings: how the model is loaded and run.
        folder: where a slot could be saved; the server erases one only if it could also save it.

    Raises:
        EngineError: two kinds of speculation at once.
    """
    fields = {
        "model.path": str(settings.model),
        "n_ctx": settings.context,
        "n_parallel": 1,
        "n_gpu_layers": settings.gpu_layers,
        "fit_params": False,
        "hostnames": ["127.0.0.1"],
        "port": 0,
        "ui": False,
        "verbosity": _VERBOSITY,
        "slot_save_path": folder,
        **_NONE_REUSED,
    }
    optional = {
        "n_batch": settings.batch,
        "n_ubatch": settings.ubatch,
        "cpuparams.n_threads": settings.threads,
        "cpuparams_batch.n_threads": settings.threads_batch,
        "cache_type_k": _ggml(settings.kv_type_k),
        "cache_type_v": _ggml(settings.kv_type_v),
    }
    fields |= {name: value for name, value in optional.items() if value is not None}
    if settings.flash_attention is not None:
        state = "ENABLED" if settings.flash_attention else "DISABLED"
        fields["flash_attn_type"] = f"LLAMA_FLASH_ATTN_TYPE_{state}"
    if settings.mlock:
        fields["load_mode"] = "LLAMA_LOAD_MODE_MMAP_MLOCK"
    return fields | _speculation(settings)


def _speculation(settings: Settings) -> dict[str, Any]:
    if settings.lookup is not None and settings.draft_model is not None:
        raise EngineError("prompt lookup and a draft model can't be measured together; choose one.")
    if settings.lookup is not None:
        return {
            _SPECULATION: ["COMMON_SPECULATIVE_TYPE_NGRAM_SIMPLE"],
            "speculative.ngram_simple.size_n": LOOKUP_NGRAM,
            "speculative.ngram_simple.size_m": settings.lookup,
        }
    if settings.draft_model is not None:
        return {
            _SPECULATION: ["COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE"],
            "speculative.draft.mparams.path": str(settings.draft_model),
            "speculative.draft.n_gpu_layers": settings.gpu_layers,
        }
    return {}


def _ggml(name: str | None) -> str | None:
    return None if name is None else f"GGML_TYPE_{name.upper()}"
