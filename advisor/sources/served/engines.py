"""What is asked of each engine, and how its answers tell which one it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from advisor.sources.served import llama_server, ollama
from parsers.formats.json_values import count, text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from advisor.sources.served.web import Answer
    from parsers.formats.prometheus.scrape import Scraper

METRICS = "/metrics"

Facts: TypeAlias = "Callable[[Any], dict[str, Any]]"


@dataclass(frozen=True, slots=True)
class Engine:
    """What is known of one engine's addresses.

    Attributes:
        name: what rows call it.
        title: for people.
        once: by address, what its answer says of the setup.
        polled: what is asked again and again.
        hint: what to do where it answers, but not at `METRICS`.
    """

    name: str
    title: str
    once: Mapping[str, Facts] = field(default_factory=dict)
    polled: tuple[str, ...] = (METRICS,)
    hint: str = "it has no metrics; tail its log instead"


def _vllm_models(data: Any) -> dict[str, Any]:
    """``max_model_len`` is the context of one request."""
    first = _first_model(data)
    return {
        "model": text(first, "root") or text(first, "id"),
        "context": count(first, "max_model_len") or None,
    }


def _vllm_version(data: Any) -> dict[str, Any]:
    return {"engine_version": text(data, "version") if isinstance(data, dict) else None}


def _sglang(data: Any) -> dict[str, Any]:
    told = data if isinstance(data, dict) else {}
    radix, share = told.get("disable_radix_cache"), told.get("mem_fraction_static")
    return {
        "engine_version": text(told, "version"),
        "model": text(told, "model_path"),
        "quantization": text(told, "quantization"),
        "context": count(told, "context_length") or None,
        "context_total": count(told, "max_total_num_tokens") or None,
        "chunk_tokens": count(told, "chunked_prefill_size") or None,
        "tensor_parallel": count(told, "tp_size") or None,
        "max_running": count(told, "max_running_requests") or None,
        "memory_share": share if isinstance(share, float) and 0 < share <= 1 else None,
        "prefix_caching": not radix if isinstance(radix, bool) else None,
    }


def _tgi(data: Any) -> dict[str, Any]:
    told = data if isinstance(data, dict) else {}
    return {
        "engine_version": text(told, "version"),
        "model": text(told, "model_id"),
        "context": count(told, "max_total_tokens") or None,
        "max_running": count(told, "max_concurrent_requests") or None,
    }


def _first_model(data: Any) -> dict[str, Any]:
    listed = data.get("data") if isinstance(data, dict) else None
    first = listed[0] if isinstance(listed, list) and listed else None
    return first if isinstance(first, dict) else {}


_ENGINES = {
    engine.name: engine
    for engine in (
        Engine(
            llama_server.ENGINE,
            "llama-server",
            {"/props": lambda data: llama_server.props(data) if llama_server.is_props(data) else {}},
            (METRICS, "/slots"),
            "start it with --metrics to see tokens and times",
        ),
        Engine(
            "vllm",
            "vLLM",
            {"/version": _vllm_version, "/v1/models": _vllm_models},
            hint="start it without --disable-log-stats",
        ),
        Engine("sglang", "SGLang", {"/get_server_info": _sglang}, hint="start it with --enable-metrics"),
        Engine("tgi", "Text Generation Inference", {"/info": _tgi}),
        Engine(
            ollama.ENGINE,
            "Ollama",
            {"/api/version": ollama.version},
            ("/api/ps",),
            "only loaded models can be seen here; its log tells more: phasewise tail --unit ollama",
        ),
        Engine("koboldcpp", "KoboldCpp", polled=()),
        Engine("lmstudio", "LM Studio", polled=()),
        Engine("tabbyapi", "TabbyAPI", polled=()),
    )
}

_OWNERS = {
    "llamacpp": llama_server.ENGINE,
    "vllm": "vllm",
    "sglang": "sglang",
    "tabbyAPI": "tabbyapi",
    "organization_owner": "lmstudio",
    "koboldcpp": "koboldcpp",
}
"""What engines call the owner of a model in `/v1/models`."""


def _is_sglang(data: Any) -> bool:
    return isinstance(data, dict) and "model_path" in data and "mem_fraction_static" in data


def _is_tgi(data: Any) -> bool:
    return isinstance(data, dict) and "max_total_tokens" in data and "model_id" in data


def _is_kobold(data: Any) -> bool:
    return isinstance(data, dict) and data.get("result") == "KoboldCpp"


_SIGNS: tuple[tuple[str, str, Callable[[Any], bool]], ...] = (
    ("/props", llama_server.ENGINE, llama_server.is_props),
    ("/api/extra/version", "koboldcpp", _is_kobold),
    ("/api/version", ollama.ENGINE, ollama.is_version),
    ("/get_server_info", "sglang", _is_sglang),
    ("/info", "tgi", _is_tgi),
)
"""Without metrics: the address, whose it is, and how its answer shows that. KoboldCpp also plays Ollama."""


@dataclass(frozen=True, slots=True)
class Looked:
    """What was found out about who answers.

    Attributes:
        engine: ``None`` where no answer tells.
        answers: by address, all that was asked, and what the engine says of itself.
        scraper: reads its metrics; ``None`` where it has none.
    """

    engine: Engine | None
    answers: dict[str, Answer]
    scraper: Scraper | None


def look(get: Callable[[str], Answer], scrapers: Iterable[Scraper]) -> Looked:
    """Find out who answers: by its metrics, else by what else only it has.

    Raises:
        NoAnswerError: nobody does.
    """
    answers = {METRICS: get(METRICS)}
    body = answers[METRICS].body if answers[METRICS].status == 200 else b""
    scraper = next((one for one in scrapers if one.knows(body)), None)
    if scraper is not None:
        name = scraper.names.engine
        engine: Engine | None = _ENGINES.get(name, Engine(name, name))
    else:
        engine = None if answers[METRICS].status in (401, 403, 503) else _by_signs(get, answers)
    for path in (*engine.once, *engine.polled) if engine is not None else ():
        if path not in answers:
            answers[path] = get(path)
    return Looked(engine, answers, scraper)


def _by_signs(get: Callable[[str], Answer], answers: dict[str, Answer]) -> Engine | None:
    for path, name, shows in _SIGNS:
        answers[path] = get(path)
        if shows(answers[path].json()):
            return _ENGINES[name]
    answers["/v1/models"] = get("/v1/models")
    owner = _first_model(answers["/v1/models"].json()).get("owned_by")
    name_by_owner = _OWNERS.get(owner) if isinstance(owner, str) else None
    return _ENGINES[name_by_owner] if name_by_owner is not None else None
