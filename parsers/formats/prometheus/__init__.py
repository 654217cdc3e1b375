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
    sglang,
    tensorrt_llm,
    tgi,
    triton,
    vllm,
)
from parsers.formats.prometheus.reader import PrometheusReader

if TYPE_CHECKING:
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
        lines=tuple(line("sample", prefix, _SAMPLE % prefix) for prefix in prefixes),
        reader=partial(PrometheusReader, names=names),
    )


FORMATS: tuple[Format, ...] = tuple(
    _format(module.NAMES)
    for module in (llama_server, vllm, sglang, tgi, tensorrt_llm, triton, dynamo, lmdeploy, litellm)
)
