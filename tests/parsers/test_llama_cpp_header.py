"""What llama.cpp's header teaches, and what it must not."""

from __future__ import annotations

import pytest

from tests.parsers.reading import QUOTED, join, read

MIB = 1 << 20


@pytest.mark.parametrize(
    ("where", "on_host"),
    [
        ("CPU", True),
        ("CPU_Mapped", True),
        ("CPU_REPACK", True),
        ("CPU_AARCH64", True),
        ("AMX", True),
        ("BLAS", True),
        ("CUDA_Host", True),
        ("ROCm_Host", True),
        ("Vulkan_Host", True),
        ("SYCL_Host", True),
        ("CUDA0", False),
        ("ROCm1", False),
        ("Metal_Mapped", False),
        ("MTL0", False),
        ("CUDA0_Split", False),
    ],
)
@pytest.mark.parametrize("prefix", ["", "0.00.500.000 I "])
def test_weights_are_where_their_buffer_is(prefix: str, where: str, on_host: bool) -> None:
    [setup] = read(
        join([f"{prefix}load_tensors: {where:>12} model buffer size =   100.00 MiB"] * 2)
    ).stream.setups
    sizes = setup.cpu_weights_bytes, setup.gpu_weights_bytes
    assert sizes == ((200 * MIB, None) if on_host else (None, 200 * MIB))


HEADER = (
    "print_info: file type   = Q4_K - Medium",
    "print_info: arch             = llama",
    "print_info: n_layer          = 32",
    "llama_model_loader: loaded meta data with 30 key-value pairs from /models/a.gguf (version GGUF V3)",
    "llama_context: n_ctx                 = 8192",
    "llama_kv_cache: size = 1024.00 MiB ( 8192 cells,  32 layers,  1/1 seqs), K (f16):  512.00 MiB",
)
QUOTED_HEADER = (
    "print_info: file type   = F16",
    "print_info: arch             = my secret is 42",
    "print_info: n_layer          = 99",
    "llama_model_loader: loaded meta data with 30 key-value pairs from /models/b.gguf (version GGUF V3)",
    "llama_context: n_ctx                 = 1024",
    "load_tensors: offloaded 3/33 layers to GPU",
    "  Device 0: NVIDIA my secret, compute capability 8.9, VMM: yes, VRAM: 24080 MiB",
)


def test_a_header_that_an_answer_quotes_teaches_nothing() -> None:
    own = [f"0.01.500.000 I {line}" for line in (*HEADER, QUOTED[0])]
    plain, quoting = read(join(own)).stream.setups, read(join([*own, *QUOTED_HEADER])).stream.setups
    assert [setup.model_dump() for setup in quoting] == [setup.model_dump() for setup in plain]


def test_the_server_lines_alone_show_that_there_is_a_clock() -> None:
    log = read(join([f"0.01.500.000 I {line}" for line in QUOTED[:6]] + list(QUOTED_HEADER)))
    assert log.setup.quantization is log.setup.model is None
    assert log.setup.devices == []


@pytest.mark.parametrize("key", ["arch            ", "file type  ", "model ftype"])
def test_words_of_the_header_are_short(key: str) -> None:
    quoted = 'my password is "hunter2"', "word " * 20
    assert all(read(join([f"print_info: {key} = {text}"])).stream.setups == [] for text in quoted)
