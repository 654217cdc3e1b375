"""Bits per weight: of tensor types (exact) and of the mixes that files are made of (measured)."""

from __future__ import annotations

import re

TYPE_BITS = {
    "F32": 32.0,
    "F16": 16.0,
    "BF16": 16.0,
    "Q8_0": 8.5,
    "Q6_K": 6.5625,
    "Q5_K": 5.5,
    "Q5_1": 6.0,
    "Q5_0": 5.5,
    "Q4_K": 4.5,
    "Q4_1": 5.0,
    "Q4_0": 4.5,
    "IQ4_NL": 4.5,
    "IQ4_XS": 4.25,
    "Q3_K": 3.4375,
    "IQ3_S": 3.4375,
    "IQ3_XXS": 3.0625,
    "Q2_K": 2.625,
    "IQ2_S": 2.5625,
    "IQ2_XS": 2.3125,
    "IQ2_XXS": 2.0625,
    "IQ1_M": 1.75,
    "IQ1_S": 1.5625,
    "TQ1_0": 1.6875,
    "TQ2_0": 2.0625,
    "MXFP4": 4.25,
    "NVFP4": 4.5,
    "Q1_0": 1.125,
}
"""Bits per weight of one tensor of a ggml type: block bytes * 8 / block length (gguf-py GGML_QUANT_SIZES)."""

FILE_BITS_8B = {
    "F32": 32.0,
    "F16": 16.0005,
    "BF16": 16.0005,
    "Q8_0": 8.5008,
    "Q6_K": 6.5633,
    "Q5_K_M": 5.7036,
    "Q5_K_S": 5.5704,
    "Q4_K_M": 4.8944,
    "Q4_K_S": 4.6672,
    "Q4_0": 4.6319,
    "IQ4_NL": 4.6818,
    "IQ4_XS": 4.4597,
    "Q3_K_L": 4.2979,
    "Q3_K_S": 3.6429,
    "IQ3_M": 3.7628,
    "IQ3_S": 3.6606,
    "IQ3_XS": 3.4977,
    "IQ3_XXS": 3.2548,
    "Q2_K": 3.1593,
    "Q2_K_S": 2.9697,
    "IQ2_M": 2.9294,
    "IQ2_S": 2.7403,
    "IQ2_XS": 2.5882,
    "IQ2_XXS": 2.3824,
    "IQ1_M": 2.1460,
    "IQ1_S": 2.0042,
}
"""Bits per weight of whole files of Llama 3.1 8B (llama.cpp tools/quantize/README.md; Q4_0: 4.33 GiB in
llama.cpp#7676). F32 and BF16 hold no mix."""

_PARAMETERS_70B = 70.55e9
_GIB_70B = {
    "F16": 131.43,
    "BF16": 131.43,
    "Q8_0": 69.83,
    "Q6_K": 53.91,
    "Q5_K_M": 46.52,
    "Q4_K_M": 39.60,
    "Q4_K_S": 37.58,
    "IQ4_XS": 35.30,
    "Q3_K_M": 31.91,
    "Q2_K": 24.56,
}
"""GiB of whole files of Llama 3 70B (XiongjieDai/GPU-Benchmarks-on-LLM-Inference README)."""

_LARGE_MODEL = 30e9

_SIZE_WORD = {"SMALL": "S", "MEDIUM": "M", "LARGE": "L"}


def bits_per_weight(weights_bytes: float, parameters: float) -> float:
    """Bits per weight of a file: bytes * 8 / parameters.

    Raises:
        ValueError: When either is not positive.
    """
    if weights_bytes <= 0 or parameters <= 0:
        raise ValueError("weights_bytes and parameters must be positive")
    return weights_bytes * 8 / parameters


def quant_name(text: str) -> str | None:
    """Short name of a quantization as a log or a user writes it; None when unknown.

    "Q4_K - Medium" is Q4_K_M, "all F32" is F32, "IQ3_S mix - 3.66 bpw" is IQ3_M, "Q2_K - Medium" is Q2_K,
    "Q4_0 (guessed)" is Q4_0.
    """
    words = re.sub(
        r"\(guessed\)|\b(?:all|mostly|MoE|ternary)\b|-? *[\d.]+ bpw", " ", text, flags=re.IGNORECASE
    )
    name = words.strip().upper().replace("-", "_")
    if re.fullmatch(r"IQ3_S\s+MIX", name):
        return "IQ3_M"
    if sized := re.fullmatch(r"(Q\d_K)[\s_]+(SMALL|MEDIUM|LARGE)", name):
        name = f"{sized[1]}_{_SIZE_WORD[sized[2]]}"
    if name == "Q2_K_M":
        return "Q2_K"
    return name if name in TYPE_BITS or name in FILE_BITS_8B or name in _GIB_70B else None


def file_bits_per_weight(quant: str, parameters: float | None = None) -> float | None:
    """Typical bits per weight of a whole file of this quantization; None when no file was measured.

    Files mix types: Q4_K_M averages 4.89 bits in an 8B model and 4.82 in a 70B one. Models well below 8B
    carry more embedding at high precision and come out larger.

    Args:
        quant: In any spelling that `quant_name` knows.
        parameters: Model size; from 30e9 the figures of a 70B model are used where there are any.
    """
    name = quant_name(quant)
    if name is None:
        return None
    if parameters is not None and parameters >= _LARGE_MODEL and name in _GIB_70B:
        return bits_per_weight(_GIB_70B[name] * 2**30, _PARAMETERS_70B)
    return FILE_BITS_8B.get(name)


def file_bytes(quant: str, parameters: float) -> float | None:
    """Estimate of the bytes that a model of this size weighs in this quantization; None when unknown."""
    bits = file_bits_per_weight(quant, parameters)
    return None if bits is None else bits * parameters / 8
