"""A GPU that an engine leaves unused is said, with the line that changes it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from advisor.runner import gpus
from advisor.runner.engine import Processor
from advisor.runner.gpus import Api, Gpu

if TYPE_CHECKING:
    from pathlib import Path

CPU = Processor("CPU", "a CPU", is_gpu=False)
CUDA = Processor("CUDA0", "a GPU", is_gpu=True)


@pytest.mark.parametrize(
    ("api", "option"),
    [
        (Api.CUDA, "-DGGML_CUDA=on"),
        (Api.METAL, "-DGGML_METAL=on"),
        (Api.HIP, "-DGGML_HIP=on"),
        (Api.VULKAN, "-DGGML_VULKAN=on"),
    ],
)
def test_a_build_without_the_gpu(api: Api, option: str) -> None:
    for name, line in (
        ("llama-cpp-python", "pip install --force-reinstall --no-deps --no-cache-dir llama-cpp-python"),
        ("xllamacpp", "pip install --no-cache-dir llama-cpp-python"),
    ):
        sentence = gpus.unused(name, [CPU], [Gpu("some GPU", api)])
        assert sentence is not None
        assert f"some GPU, but {name} was built for the CPU only" in sentence
        assert f'CMAKE_ARGS="{option}"' in sentence
        assert sentence.endswith(line)


def test_nothing_to_say() -> None:
    assert gpus.unused("xllamacpp", [CPU], []) is None
    assert gpus.unused("xllamacpp", [CPU, CUDA], [Gpu("some GPU", Api.CUDA)]) is None


@pytest.mark.skipif(sys.platform != "linux", reason="cards are listed so by Linux")
def test_cards_of_linux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def card(number: int, place: str, vendor: str) -> None:
        device = tmp_path / "pci" / place
        device.mkdir(parents=True)
        (device / "vendor").write_text(vendor + "\n")
        (tmp_path / "drm" / f"card{number}").mkdir(parents=True)
        (tmp_path / "drm" / f"card{number}" / "device").symlink_to(device)

    monkeypatch.setattr(gpus, "_DRM", tmp_path / "drm")
    monkeypatch.setattr(gpus, "_KFD", tmp_path / "kfd")
    monkeypatch.setattr(gpus, "_nvidia_names", list)
    card(0, "0000:00:02.0", "0x8086")  # inside the processor
    card(1, "0000:01:00.0", "0x1a03")  # a server's console
    assert gpus.present() == ()
    card(2, "0000:03:00.0", "0x1002")
    assert gpus.present() == (Gpu("an AMD GPU", Api.VULKAN),)
    (tmp_path / "kfd").touch()
    assert gpus.present() == (Gpu("an AMD GPU", Api.HIP),)


def test_the_lines_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    assert gpus.install_line("runner-lite").startswith("pip install xllamacpp")
    monkeypatch.setattr(gpus, "present", tuple)
    assert gpus.install_line("runner").startswith("pip install llama-cpp-python")
    monkeypatch.setattr(gpus, "present", lambda: (Gpu("some GPU", Api.CUDA),))
    assert "pip install --no-cache-dir llama-cpp-python" in gpus.install_line("runner")
    assert 'CMAKE_ARGS="-DGGML_CUDA=on"' in gpus.install_line("runner")
