"""``phasewise.toml`` and the sizes people write."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import advisor
from advisor.config import machine, parse_size
from advisor.errors import InputError
from rules.measures import Machine
from tests.advisor.helpers import SAMPLES, phasewise, refused

if TYPE_CHECKING:
    from pathlib import Path

LOG = SAMPLES / "llama-server-chat.log"
GIB = 1 << 30


def test_the_file_completes_what_was_given(tmp_path: Path) -> None:
    (tmp_path / "phasewise.toml").write_text(
        '[machine]\ndevice = "RTX 4090"\nbandwidth = 1008\nvram = "24GiB"\n'
        'memory = "64 GB"\ncores = 16\nsockets = 1\n'
    )
    stated = Machine("RTX 4090", 1008.0, 24 * GIB, 64 * GIB, 8, 1, origin="phasewise.toml")
    assert machine(Machine(cores=8), tmp_path) == stated
    assert machine(Machine(), tmp_path / "elsewhere") == Machine()


def test_the_file_is_used(tmp_path: Path) -> None:
    (tmp_path / "phasewise.toml").write_text('[machine]\ndevice = "RTX 4090"\n')
    data = json.loads(phasewise(LOG, "--format", "json", cwd=tmp_path).out)
    assert [device["name"] for device in data["setup"]["devices"]] == ["RTX 4090"]
    assert data["setup"]["origin"]["devices"] == "phasewise.toml"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[machine\n", "TOML"),
        ("bandwidth = 936\n", "[machine]"),
        ("machine = 3\n", "[machine]"),
        ("[machine]\nbandwith = 936\n", "bandwith"),
        ("[machine]\nbandwidth_gb_s = 936\n", "bandwidth_gb_s"),
        ('[machine]\nbandwidth = "fast"\n', "bandwidth = 'fast'"),
        ("[machine]\nbandwidth = 0\n", "bandwidth = 0"),
        ("[machine]\nbandwidth = inf\n", "bandwidth = inf"),
        ("[machine]\nbandwidth = true\n", "bandwidth = True"),
        ("[machine]\nvram = 24\n", "vram = 24"),
        ('[machine]\nvram = "24 apples"\n', "24 apples"),
        ("[machine]\ncores = 7.5\n", "cores = 7.5"),
        ("[machine]\ncores = 0\n", "cores = 0"),
        ("[machine]\nsockets = true\n", "sockets = True"),
        ("[machine]\ndevice = 4090\n", "device = 4090"),
    ],
)
def test_a_wrong_file_is_one_sentence(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "phasewise.toml").write_text(text)
    with pytest.raises(InputError) as said:
        machine(Machine(), tmp_path)
    assert words in str(said.value)
    assert str(said.value).endswith(".")


def test_a_wrong_file_stops_the_command(tmp_path: Path) -> None:
    (tmp_path / "phasewise.toml").write_bytes(b"[machine]\ndevice = '\xff'\n")
    refused(phasewise(LOG, cwd=tmp_path), 2, "phasewise.toml", "TOML")


@pytest.mark.parametrize(
    ("text", "n_bytes"),
    [
        ("24GiB", 24 * GIB),
        ("24 GB", 24 * GIB),
        ("24g", 24 * GIB),
        ("0.5T", 512 * GIB),
        ("512MiB", GIB // 2),
        ("25769803776", 24 * GIB),
    ],
)
def test_sizes(text: str, n_bytes: int) -> None:
    assert parse_size(text) == n_bytes


@pytest.mark.parametrize(
    "text", ["", "GiB", "24", "24 apples", "-1G", "nan", "inf", "1e999G", "0x10G", "1,5G"]
)
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_size(text)


@given(st.text(max_size=12))
def test_a_size_is_a_positive_number_of_bytes_or_refused(text: str) -> None:
    try:
        size = parse_size(text)
    except ValueError:
        return
    assert size >= 1 << 20


def test_the_version_is_the_projects() -> None:
    assert phasewise("--version").out == f"phasewise {advisor.__version__}\n"
