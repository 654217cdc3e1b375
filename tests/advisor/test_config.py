"""``phasewise.toml`` and the sizes people write."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import advisor
from advisor.config import machine, parse_size, settings
from advisor.errors import InputError
from rules.catalogue import all_rules
from rules.decode import output_long, quantise_weights
from rules.hardware import Machine
from rules.settings import Settings
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


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[rules]\ndisable = ["output-lon"]\n', "'output-long' is the nearest"),
        ('[rules]\nenable = "output-long"\n', "list of rule ids"),
        ("[rules.output-lang]\ncap_tokens = 9\n", "'output-lang'; 'output-long' is the nearest"),
        ("[rules]\noutput-long = 3\n", "table of thresholds"),
        ("[rules.output-long]\ncap = 9\n", "decode_share, long_tokens, cap_tokens"),
        ('[rules.output-long]\ncap_tokens = "many"\n', "cap_tokens = 'many'"),
        ("[rules.output-long]\ncap_tokens = -1\n", "cap_tokens = -1"),
        ("[rules.output-long]\ncap_tokens = nan\n", "cap_tokens = nan"),
        ("rules = 3\n", "[rules]"),
    ],
)
def test_wrong_rules_are_one_sentence(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "phasewise.toml").write_text(text)
    with pytest.raises(InputError) as said:
        settings(tmp_path)
    assert words in str(said.value)
    assert str(said.value).endswith(".")


def test_the_nearer_file_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    near, user = tmp_path / "near", tmp_path / "user" / "phasewise.toml"
    near.mkdir()
    user.parent.mkdir()
    user.write_text(
        '[machine]\ndevice = "RTX 3090"\ncores = 8\n[rules]\ndisable = ["output-long"]\n'
        "[rules.quantise-weights]\ndecode_share = 0.5\n[rules.output-long]\ncap_tokens = 100\n"
    )
    monkeypatch.setattr("advisor.config.user_file", lambda: user)
    (near / "phasewise.toml").write_text(
        '[machine]\ndevice = "RTX 4090"\n[rules]\nenable = ["prefill-*", "output-*"]\n'
        "[rules.quantise-weights]\ndecode_share = 0.9\n"
    )
    assert machine(Machine(), near) == Machine("RTX 4090", cores=8, origin="phasewise.toml")
    asked = settings(near)
    assert not asked.enabled("output-long")
    assert not asked.enabled("quantise-weights")
    assert asked.enabled("prefill-dominates-long-prompt")
    assert asked.of(quantise_weights.RULE) == {"decode_share": 0.9}
    assert asked.of(output_long.RULE)["cap_tokens"] == 100
    assert settings(tmp_path).enabled("quantise-weights")


def test_rules_are_switched_off_and_set_for_a_log(tmp_path: Path) -> None:
    config = tmp_path / "phasewise.toml"
    asked = (SAMPLES / "llama-server-rag.log", "--format", "json")

    def found() -> list[str]:
        return [f["rule"] for f in json.loads(phasewise(*asked, cwd=tmp_path).out)["findings"]]

    first = "prefill-dominates-long-prompt"
    assert first in found()
    config.write_text(f"[rules.{first}]\nlong_tokens = 100000\n")
    assert first not in found()
    config.write_text(f'[rules]\ndisable = ["{first}"]\n')
    assert first not in found()
    assert f"{first}  off " in phasewise("rules", cwd=tmp_path).out.replace("  " * 9, " ")


def test_all_thresholds_are_a_file_that_changes_nothing(tmp_path: Path) -> None:
    text = phasewise("rules", "--toml", cwd=tmp_path).out
    (tmp_path / "phasewise.toml").write_text(text)
    same = settings(tmp_path)
    assert not same.disabled
    assert all(same.of(loaded.rule) == Settings().of(loaded.rule) for loaded in all_rules())
    assert phasewise("rules", "--toml", cwd=tmp_path).out == text


def test_a_rule_is_explained_with_its_thresholds(tmp_path: Path) -> None:
    (tmp_path / "phasewise.toml").write_text("[rules.output-long]\ncap_tokens = 123\n")
    text = phasewise("explain", "output-long", cwd=tmp_path).out
    assert "[rules.output-long] of phasewise.toml" in text
    assert "cap_tokens    123" in text


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
