"""The Prometheus text that engines answer at ``/metrics``: one format for each engine, one reader for all."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from parsers.formats.base import Format, line
from parsers.formats.prometheus import (
    dynamo,
    litellm,
    llama_server,
    lmdeploy,
    mistral_rs,
    sglang,
    tensorrt_llm,
    tgi,
    triton,
    vllm,
)
from parsers.formats.prometheus.reader import PrometheusReader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from parsers.formats.prometheus.names import Names

_SAMPLE = rb"(?P<sample>%b(?P<name>\w+)(?:\{.*\})?[ \t]+[-+.\w]+(?:[ \t]+-?\d+)?)\s*$"


def _format(names: Names) -> Format:
    prefixes = [prefix.encode() for prefix in names.prefixes]
    return Format(
        engine=names.engine,
        title=names.title,
        versions=names.versions,
        grain="aggregate",
        identify=tuple(b"# TYPE " + prefix for prefix in prefixes),
        banner=rb"# TYPE ",
        lines=tuple(line("sample", prefix, _SAMPLE % prefix) for prefix in prefixes),
        reader=partial(PrometheusReader, names=names),
        splits=f"sums: {', '.join(_timed(names))}",
        ends=tuple(how for how in ("aborted", "failed") if getattr(names, how)),
    )


def _timed(names: Names) -> Iterator[str]:
    """What the engine sums up, in words."""
    decode = names.decode or names.gaps or names.after_call
    for word, there in (("queue", names.queue), ("prefill", names.prefill), ("decode", decode)):
        if there:
            yield word
    if names.first and not names.prefill:
        yield "time to first token"
    if names.total and not (names.prefill and decode):
        yield "total"


FORMATS: tuple[Format, ...] = tuple(
    _format(module.NAMES)
    for module in (
        llama_server,
        vllm,
        sglang,
        tgi,
        tensorrt_llm,
        triton,
        dynamo,
        lmdeploy,
        litellm,
        mistral_rs,
    )
)
