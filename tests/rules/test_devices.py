"""Devices by the names that logs print and people type."""

from __future__ import annotations

import re
import tomllib
from importlib.resources import files
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.physics.decode import DECODE_CONSTANTS
from rules.physics.devices import DeviceClass, find_device

GIB = 2**30


@pytest.mark.parametrize(
    ("printed", "name", "device_class", "bandwidth_gb_s"),
    [
        ("NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 4090", "geforce", 1008),
        ("RTX 4090", "NVIDIA GeForce RTX 4090", "geforce", 1008),
        ("rtx4090", "NVIDIA GeForce RTX 4090", "geforce", 1008),
        ("NVIDIA GeForce RTX 4090, compute capability 8.9, VMM: yes", None, "geforce", 1008),
        ("NVIDIA GeForce RTX 3070", "NVIDIA GeForce RTX 3070", "geforce", 448),
        ("NVIDIA GeForce RTX 3070 Ti", "NVIDIA GeForce RTX 3070 Ti", "geforce", 608),
        ("NVIDIA GeForce RTX 4070 Ti SUPER", None, "geforce", 672.3),
        ("NVIDIA GeForce RTX 5090", None, "geforce", 1792),
        ("NVIDIA GeForce RTX 3060 Ti", None, "geforce", None),
        ("NVIDIA RTX 6000 Ada Generation", None, "workstation", 960),
        ("NVIDIA RTX A6000", None, "workstation", 768),
        ("Quadro RTX 6000", None, "workstation", 672),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", None, "workstation", 1792),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", None, "workstation", 1597),
        ("NVIDIA A40", None, "workstation", 695.8),
        ("NVIDIA L4", None, "workstation", 300),
        ("NVIDIA L40S", None, "workstation", 864),
        ("NVIDIA A10", None, "workstation", 600),
        ("NVIDIA A100-SXM4-80GB", None, "datacenter", 2039),
        ("NVIDIA A100-SXM4-40GB", None, "datacenter", 1555),
        ("NVIDIA A100 80GB PCIe", None, "datacenter", 1935),
        ("NVIDIA A100-PCIE-40GB", None, "datacenter", 1555),
        ("NVIDIA H100 80GB HBM3", None, "datacenter", 3350),
        ("NVIDIA H100 PCIe", None, "datacenter", 2000),
        ("NVIDIA H200", None, "datacenter", 4800),
        ("Tesla P40", "NVIDIA Tesla P40", "other", 347),
        ("Tesla T4", None, "other", 320),
        ("Tesla V100-SXM2-32GB", "NVIDIA Tesla V100-SXM2-32GB", "other", 900),
        ("NVIDIA GB10", None, "other", 273),
        ("AMD Radeon RX 7900 XT (RADV NAVI31) (radv)", "AMD Radeon RX 7900 XT", "amd", 800),
        ("AMD Radeon RX 7900 XTX, gfx1100 (0x1100), VMM: no, Wave Size: 32", None, "amd", 960),
        ("Radeon RX 7900 GRE", None, "amd", 576),
        ("AMD Radeon RX 6800 XT", None, "amd", 512),
        ("AMD Radeon RX 5700 XT (RADV NAVI10)", None, "amd", 448),
        ("AMD Radeon RX 9070 XT", None, "amd", 640),
        ("AMD Instinct MI300X", None, "amd", 5300),
        ("AMD Radeon Graphics, gfx1151 (0x1151), VMM: no", "AMD Radeon Graphics", "strix", 256),
        ("AMD Radeon Graphics (RADV GFX1151)", None, "strix", 256),
        ("AMD Radeon(TM) 8060S Graphics", "AMD Radeon 8060S", "strix", 256),
        ("Radeon 8060S Graphics (RADV GFX1151)", "AMD Radeon 8060S", "strix", 256),
        ("gfx1200", None, "amd", 320),
        ("Intel(R) Arc(TM) B580 Graphics", "Intel Arc B580", "other", 456),
        ("Apple M2 Max", "Apple M2 Max", "apple", 400),
        ("Apple M1", None, "apple", 68.3),
        ("Apple M2 Ultra (76-core GPU)", "Apple M2 Ultra", "apple", 800),
        ("Apple M4 Pro", None, "apple", 273),
        ("Apple M4 Max (40-core GPU)", None, "apple", 546),
        ("M3 Ultra", "Apple M3 Ultra", "apple", 819),
    ],
)
def test_names_as_logs_print_them(
    printed: str, name: str | None, device_class: str, bandwidth_gb_s: float | None
) -> None:
    device = find_device(printed)
    assert device is not None
    assert (device.device_class, device.bandwidth_gb_s) == (device_class, bandwidth_gb_s)
    assert name in (None, device.name)
    assert not device.laptop


@pytest.mark.parametrize(
    "printed",
    [
        "",
        "GPU",
        "NVIDIA Graphics Device",
        "AMD Radeon Graphics",
        "AMD Radeon RX 6850M XT",
        "AMD EPYC",
        "NVIDIA GeForce RTX 3080 with Max-Q Design",
        "RTX 6000",
        "Tesla M4",
        "Apple A10 GPU",
        "RTX 40900",
        "llvmpipe (LLVM 20.1.2, 256 bits)",
        "AMD Radeon Graphics, gfx1103 (0x1103)",
    ],
)
def test_an_unknown_device_is_not_guessed(printed: str) -> None:
    assert find_device(printed) is None


@pytest.mark.parametrize("model", ["3060", "3070", "3080", "4060", "4070", "4080", "4090", "5070", "5090"])
def test_a_laptop_part_is_not_the_desktop_card(model: str) -> None:
    laptop = find_device(f"NVIDIA GeForce RTX {model} Laptop GPU")
    desktop = find_device(f"NVIDIA GeForce RTX {model}")
    assert laptop is not None
    assert desktop is not None
    assert laptop.laptop
    assert not desktop.laptop
    assert laptop.bandwidth_bounds_gb_s[1] <= desktop.bandwidth_bounds_gb_s[0] or model in ("3060", "3070")
    assert find_device(f"GeForce RTX {model} Mobile") == laptop


@pytest.mark.parametrize(
    ("printed", "memory_bytes", "bandwidth_gb_s"),
    [
        ("NVIDIA GeForce RTX 3060", 12 * GIB, 360),
        ("NVIDIA GeForce RTX 3060", 11_910 * 2**20, 360),
        ("NVIDIA GeForce RTX 3060", 8 * GIB, 240),
        ("RTX 3060 12GB", None, 360),
        ("RTX 3060 8 GB", None, 240),
        ("NVIDIA GeForce RTX 3080", 10 * GIB, 760.3),
        ("NVIDIA GeForce RTX 3080", 12 * GIB, 912.4),
        ("NVIDIA GeForce RTX 3080", 9_870 * 2**20, 760.3),
        ("NVIDIA GeForce RTX 4060 Ti", 15_221 * 2**20, 288),
        ("AMD Radeon Graphics (RADV GFX1201)", 16 * GIB, 640),
        ("AMD Radeon Graphics, gfx1100 (0x1100)", 24 * GIB, 960),
        ("AMD Radeon Graphics, gfx1100 (0x1100)", 20 * GIB, 800),
    ],
)
def test_memory_tells_parts_of_one_name_apart(
    printed: str, memory_bytes: float | None, bandwidth_gb_s: float
) -> None:
    device = find_device(printed, memory_bytes)
    assert device is not None
    assert device.bandwidth_gb_s == bandwidth_gb_s
    assert device.bandwidth_range_gb_s is None


@pytest.mark.parametrize(
    ("printed", "memory_bytes", "low_high"),
    [
        ("NVIDIA GeForce RTX 3060", None, (240, 360)),
        ("NVIDIA GeForce RTX 3060", 5 * GIB, (240, 360)),
        ("NVIDIA GeForce RTX 3070 Laptop GPU", 8 * GIB, (384, 448)),
        ("Apple M3 Max", None, (300, 400)),
        ("Apple M4 Max", 36 * GIB, (410, 546)),
        ("A100", None, (1555, 2039)),
        ("A100 80GB", None, (1935, 2039)),
        ("gfx1030", 16 * GIB, (512, 576)),
    ],
)
def test_parts_that_a_log_cannot_tell_apart_give_a_range(
    printed: str, memory_bytes: float | None, low_high: tuple[float, float]
) -> None:
    device = find_device(printed, memory_bytes)
    assert device is not None
    assert device.bandwidth_gb_s is None
    assert device.bandwidth_range_gb_s == device.bandwidth_bounds_gb_s == low_high


def test_the_listed_facts_are_sound() -> None:
    groups = tomllib.loads(files("rules.physics").joinpath("devices.toml").read_text("utf-8"))["group"]
    classes = set(get_args(DeviceClass))
    assert set(DECODE_CONSTANTS) < classes
    for group in groups:
        assert group["class"] in classes
        assert group["source"]
        for row in group["devices"]:
            assert ("bandwidth_gb_s" in row) != ("bandwidth_range_gb_s" in row), row
            device = find_device(group["prefix"] + row["name"], row.get("memory_gb", 0) * GIB or None)
            assert device is not None, row
            assert device.vendor == group["vendor"]
            assert device.laptop == group.get("laptop", False)
            assert device.laptop or "Laptop" not in row["name"]
            low, high = row.get("bandwidth_range_gb_s", [row.get("bandwidth_gb_s")] * 2)
            assert device.bandwidth_bounds_gb_s == (low, high), row


@given(st.text(max_size=40))
def test_any_text_is_a_question(text: str) -> None:
    device = find_device(text)
    assert device is None or re.search(r"[a-z0-9]", text.lower())


@pytest.mark.parametrize(
    ("printed", "bandwidth_gb_s"),
    [
        ("AMD Instinct MI300X", 5300),
        ("NVIDIA B200", 8000),
        ("NVIDIA H200", 4800),
        ("AMD Instinct MI250X", 1638.4),
        ("Tesla V100-SXM2-32GB", 900),
        ("Tesla P40", 347),
        ("Radeon 8060S Graphics", 256),
    ],
)
def test_traps_of_other_lists(printed: str, bandwidth_gb_s: float) -> None:
    """Public lists double MI300X, halve B200, count both dies of an MI250X and know no Strix Halo."""
    device = find_device(printed)
    assert device is not None
    assert device.bandwidth_gb_s == bandwidth_gb_s


@pytest.mark.parametrize(
    ("printed", "tensor_tflops"),
    [
        ("NVIDIA GeForce RTX 4090", 165.2),
        ("NVIDIA GeForce RTX 3090", 71.2),
        ("NVIDIA A100-SXM4-80GB", 312),
        ("NVIDIA H100 80GB HBM3", 989),
        ("Tesla P40", None),
        ("Apple M2 Ultra", None),
    ],
)
def test_tensor_throughput_is_dense_with_fp32_accumulation(printed: str, tensor_tflops: float | None) -> None:
    device = find_device(printed)
    assert device is not None
    assert device.tensor_tflops == tensor_tflops


@pytest.mark.parametrize(
    ("printed", "low_high"),
    [
        ("NVIDIA GeForce RTX 3050 Laptop GPU", (132, 224)),
        ("NVIDIA GeForce RTX 5050 Laptop GPU", (384, 384)),
        ("NVIDIA RTX 3500 Ada Generation Laptop GPU", (432, 432)),
        ("Orin (nvgpu)", (34, 204.8)),
        ("NVIDIA Thor", (273, 273)),
        ("AMD Radeon RX 7900M", (576, 576)),
        ("Intel(R) Arc(TM) Pro B60 Graphics", (456, 456)),
        ("NVIDIA H800", (2039, 3350)),
    ],
)
def test_laptops_boards_and_parts_for_one_market(printed: str, low_high: tuple[float, float]) -> None:
    device = find_device(printed)
    assert device is not None
    assert device.bandwidth_bounds_gb_s == low_high
