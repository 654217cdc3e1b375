"""The twenty cases."""

from tests.diagnosis.cases import cpu, forks, healthy, offload, ollama, prefill, rates, vllm

_MODULES = (prefill, forks, ollama, offload, rates, cpu, healthy, vllm)

CASES = tuple(sorted((case for module in _MODULES for case in module.CASES), key=lambda case: case.id[:3]))
