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


@pytest.mark.parametrize(
    ("built", "system"),
    [
        ("cc (Debian 12.2.0-14+deb12u1) 12.2.0 for x86_64-linux-gnu", "linux"),
        ("MSVC 19.43.34808.0 for x64", "windows"),
        ("Clang 19.1.5 for Windows x86_64", "windows"),
        ("gcc (Rev3, Built by MSYS2 project) 14.1.0 for x86_64-w64-mingw32", "windows"),
        ("Apple clang version 15.0.0 (clang-1500.3.9.4) for arm64-apple-darwin23.4.0", "macos"),
        ("AppleClang 17.0.0.17000013 for Darwin arm64", "macos"),
        ("clang version 18.1.6 for amd64-portbld-freebsd14.1", None),
    ],
)
def test_a_build_shows_its_system(built: str, system: str | None) -> None:
    log = read(join([f"build: 6123 (79c1160b) with {built}", "print_info: n_layer = 2"]))
    assert (log.setup.os, len(log.stream.setups)) == (system, 1)


@pytest.mark.parametrize(
    ("path", "system"),
    [
        (r"C:\models\a.gguf", "windows"),
        ("d:/models/a.gguf", "windows"),
        ("/Users/me/a.gguf", "macos"),
        ("/home/me/a.gguf", "linux"),
        ("/models/a.gguf", None),
        ("models/home/a.gguf", None),
    ],
)
def test_a_path_shows_its_system(path: str, system: str | None) -> None:
    assert read(join([f"srv    load_model: loading model '{path}'"])).setup.os == system


@pytest.mark.parametrize(
    ("said", "mmap"),
    [
        ("mmap = true", True),
        ("mmap = false, direct_io = true", False),
        ("load_mode = mmap", True),
        ("load_mode = mmap+mlock", True),
        ("load_mode = mlock", False),
        ("load_mode = dio", False),
    ],
)
def test_how_the_file_is_read(said: str, mmap: bool) -> None:
    line = f"load_tensors: loading model tensors, this can take a while... ({said})"
    assert read(join([line])).setup.mmap is mmap


LOADED = "llama_model_loader: loaded meta data with 30 key-value pairs from /models/a.gguf (version GGUF V3)"
RESERVED = "llama_context:      CUDA0 compute buffer size =   100.00 MiB"


def test_compute_buffers_are_those_of_the_first_context_of_the_last_load() -> None:
    context = ["llama_context: n_seq_max     = 1", RESERVED]
    draft = ["srv    load_model: loading draft model '/models/d.gguf'", LOADED, *context]
    assert read(join([LOADED, *context, *context, *draft])).setup.compute_bytes == 100 * MIB
    assert read(join([LOADED, *context, LOADED, *context])).setup.compute_bytes == 100 * MIB
    assert read(join([LOADED, RESERVED.replace("CUDA0", "CPU")])).setup.compute_bytes is None


FELL_BACK = "llama_context: Flash Attention was auto, set to disabled"
BUILD = "build: 6123 (79c1160b) with cc 12.2.0 for x86_64-linux-gnu"


def test_what_a_header_tells_is_told_by_the_engine_that_follows_and_in_its_run() -> None:
    server = [BUILD, LOADED, FELL_BACK, FELL_BACK, *QUOTED[:6]]
    [event] = read(join(server)).events
    assert (event.engine, event.kind, event.line, event.run) == ("llama-server", "fallback", 3, 0)
    assert [(e.line, e.run) for e in read(join([*server, *server])).events] == [(3, 0), (13, 1)]


def test_a_header_without_a_program_tells_nothing_to_the_next_one() -> None:
    assert read(join([BUILD, LOADED, FELL_BACK, BUILD, LOADED, *QUOTED[:6]])).events == []


CACHE = "llama_kv_cache: size = 300.00 MiB ( 8192 cells,  32 layers,  1/1 seqs), K (f16):  150.00 MiB"


@pytest.mark.parametrize(
    ("name", "where", "on_host"),
    [
        ("llama_kv_cache", ("CPU", "CPU"), 300),
        ("llama_kv_cache_unified", ("CPU", "CUDA0"), 100),
        ("llama_kv_cache_init", ("CUDA_Host", "CUDA0"), 100),
        ("llama_kv_cache", ("CUDA0", "CUDA1"), 0),
        ("llama_kv_cache", (), None),
    ],
)
def test_where_the_kv_cache_lies(name: str, where: tuple[str, ...], on_host: int | None) -> None:
    buffers = [
        f"{name}: {buffer:>10} KV buffer size =   {mib}.00 MiB"
        for buffer, mib in zip(where, (100, 200), strict=False)
    ]
    context = ["llama_context: n_seq_max     = 1", *buffers, CACHE]
    draft = ["srv    load_model: loading draft model '/models/d.gguf'", LOADED, *context]
    load = [LOADED, *context]
    for log in (load, [*load, *load], [*load, *context, *draft]):
        assert read(join(log)).setup.kv_cpu_bytes == (None if on_host is None else on_host * MIB)
