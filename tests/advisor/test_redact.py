"""What is private leaves under a label: the same one for the same secret, whatever is written."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.filters import redacted
from advisor.redact import SUSPECT, Plain, Redactor
from tests.advisor.attacks import SECRETS
from tests.advisor.helpers import Asked, phasewise, prefixed

if TYPE_CHECKING:
    from pathlib import Path

ORDINARY = [
    "skywork-13b-base.Q4_K_M.gguf",
    "hf-internal-testing/tiny-random-llama",
    "meta-llama/Llama-3.1-8B-Instruct",
    "hf.co/bartowski/Llama-3.2-3B-Instruct-GGUF:Q4_K_M",
    "Qwen3-30B-A3B-Instruct-2507-UD-Q4_K_XL.gguf",
    "pkg-something-quite-long-7b.gguf",
    "NVIDIA GeForce RTX 4090",
    "ms per token: 25.1 at 40 tokens",
    "version 10.30.1.2 of CUDA 12.4.127.1, b11434, 0.30.1.2",
    "19:39:17 2026-11-29T19:39:17.123456Z",
    "127.0.0.1:8080 0.0.0.0 ::1 :: http://localhost:11434/api/generate",
    "std::vector a::b ggml_cuda::abort",
    "torch.cuda.OutOfMemoryError in llama-context.cpp:512",
    "POST /v1/chat/completions",
    "0000:01:00.0",
    'host=None, "no_host": false',
    "1.23.123.234 I slot release",
    "constant@1.50| poisson@12.00| concurrent@8| at constant@1.50.",
    "[ip-1] [secret-2] /home/[user-1]/x http://[host-3]:80 api_key=[secret-1] [user-1]@[host-1]",
]


@pytest.mark.parametrize(("said", "secret"), SECRETS.items())
def test_secrets_are_taken_out(said: str, secret: str) -> None:
    for text in (said, f"loaded {said}, then more", f"({said})", f"'{said}'"):
        masked = Redactor().text(text)
        assert secret not in masked
        assert re.search(r"\[[a-z]+-1\]|\bx(?:\.gguf)?\b", masked)
        assert "then more" in masked or "then more" not in text
        assert Redactor().text(masked) == masked


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_texts_stay(text: str) -> None:
    assert Redactor().text(text) == text


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/home/alice/models/x.gguf", "x.gguf"),
        (r"C:\Users\alice\x.gguf", "x.gguf"),
        ("/models/Llama-3.1-8B/", "Llama-3.1-8B"),
        ("../private/x.gguf", "x.gguf"),
        ("~/x.gguf", "x.gguf"),
        ("org/model", "org/model"),
        ("x.gguf", "x.gguf"),
        ("/srv/hf_AbCdEfGhIjKlMnOpQrSt", "[secret-1]"),
    ],
)
def test_models_lose_their_folders(path: str, name: str) -> None:
    assert Redactor().model(path) == name
    assert Plain().model(path) == path


def test_an_engines_version_is_no_address() -> None:
    assert Redactor().of("engine_version")("1.30.1.2") == "1.30.1.2"


def test_an_address_that_a_date_follows_is_one() -> None:
    said = "10.0.0.5-20261129.log, 10.0.0.5.2026-11-29 and 1.2.3.4-rc1, 1.2.3.4-5, 1.23.112.133 I srv"
    masked = "[ip-1]-20261129.log, [ip-1].2026-11-29 and 1.2.3.4-rc1, 1.2.3.4-5, 1.23.112.133 I srv"
    assert Redactor().text(said) == masked


def test_the_same_secret_has_the_same_label_everywhere() -> None:
    words = Redactor()
    said = [
        "http://10.0.0.1:80 from 10.0.0.2",
        "10.0.0.2, HTTP://GPU07/ and http://gpu07:1/, key=hf_AbCdEfGhIjKlMnOpQrSt.",
        "/home/jane/a and /home/bob/b",
        "jane asks 10.0.0.1 with hf_AbCdEfGhIjKlMnOpQrSt; 2001:DB8::1 is 2001:db8:0::1",
    ]
    assert [words.text(text) for text in said] == [
        "http://[ip-1]:80 from [ip-2]",
        "[ip-2], HTTP://[host-1]/ and http://[host-1]:1/, key=[secret-1].",
        "/home/[user-1]/a and /home/[user-2]/b",
        "[user-1] asks [ip-1] with [secret-1]; [ip-3] is [ip-3]",
    ]


def test_labels_do_not_tell_the_secret() -> None:
    assert Redactor().text("10.0.0.1") == Redactor().text("10.9.9.9") == "[ip-1]"


@given(st.lists(st.sampled_from(["sk-", "hf_", "ip-1-2-3-4", "a", "B", "0" * 12, "-", "_"])).map("".join))
def test_only_suspects_are_changed(text: str) -> None:
    suspect = pl.Series([text]).str.contains(SUSPECT).item()
    assert suspect or Redactor().text(text) == text


@given(st.lists(st.sampled_from([*SECRETS, *ORDINARY, "/", "a@b", "'", "=", "::"]), max_size=6))
def test_masked_text_is_not_masked_again(parts: list[str]) -> None:
    masked = Redactor().text(" ".join(parts))
    assert Redactor().text(masked) == masked


@pytest.mark.parametrize(
    "text", ["x-", "/a", "/a.b", "a@", "a.", ":a", " /", "\\a", "1.", "'", "=", "/home/", "password=", "~a/"]
)
def test_a_long_text_takes_no_time(text: str) -> None:
    began = time.perf_counter()
    Redactor().text(text * 20_000)
    assert time.perf_counter() - began < 5


def test_a_million_request_ids_take_no_time() -> None:
    ids = pl.DataFrame({"n": range(1_000_000)}).select(request_id="chatcmpl-4f7Zq" + pl.col("n").cast(str))
    began = time.perf_counter()
    assert redacted(ids, Redactor()).equals(ids)
    assert time.perf_counter() - began < 2


LOG = prefixed([Asked(900, 700, 100, 2500)] * 6, model="/home/alice/x at 10.0.0.7 of jane@example.org.gguf")


@pytest.fixture
def private_log(tmp_path: Path) -> Path:
    folder = tmp_path / "home" / "alice" / "10.0.0.9"
    folder.mkdir(parents=True)
    path = folder / "server.log"
    said = "0.00.001.000 I cmn  common_param:   - CUDA0   : GPU of alice@10.0.0.7 (24080 MiB, 23000 MiB free)"
    path.write_text(LOG.replace("\n", f"\n{said}\n", 1))
    return path


def test_every_output_says_the_same_labels(private_log: Path) -> None:
    outs = {form: phasewise("analyze", "--all", "--format", form, private_log).out for form in ("md", "json")}
    outs |= {form: phasewise("export", "--format", form, private_log).out for form in ("jsonl",)}
    model = "x at [ip-2] of [mail-1]"
    for form, out in outs.items():
        flat = re.sub(r"[\\\s]+", "", out)
        assert re.sub(r"\s", "", model) in flat, form
        assert "10.0.0" not in flat
        assert "alice" not in flat
    source = json.loads(outs["jsonl"].splitlines()[0])["source"]
    assert source == json.loads(outs["json"])["sources"][0]["path"]
    assert source.endswith("/home/[user-1]/[ip-1]/server.log")


def test_filters_do_not_change_labels(private_log: Path) -> None:
    some = phasewise("export", "--slot", "0", "--model", "jane@", private_log).out
    assert some == phasewise("export", private_log).out
