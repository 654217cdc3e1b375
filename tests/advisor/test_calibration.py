"""This machine's own figures: measured, kept, told, and used nowhere else."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from advisor import calibration
from advisor.calibration import (
    SCHEMA,
    Calibration,
    DecodeRate,
    MachineFacts,
    ModelRates,
    PrefillRate,
    Rate,
    ReadRate,
    Told,
    here,
    steady,
)
from advisor.config import machine
from advisor.errors import InputError
from advisor.estimate import estimate
from advisor.estimate_inputs import Ask, Hardware, Model, hardware_of
from advisor.options import EstimateFormat
from advisor.report.estimate import cannot_tell
from advisor.runner.calibrating import measured
from advisor.verbs import calibrate as verb
from rules.hardware import THIS_MACHINE, Machine
from tests.advisor.helpers import phasewise, refused

if TYPE_CHECKING:
    from pathlib import Path

NOTED = "noted"
DAY = datetime(2026, 11, 30, 9, 30, tzinfo=UTC)
SMALL = ModelRates(
    name="small.gguf",
    read_bytes=1e8,
    engine="llama.cpp",
    on_gpu=False,
    threads=2,
    flash_attention=True,
    prefill=[
        PrefillRate(tokens=128, tok_s=Rate(best=324, median=320)),
        PrefillRate(tokens=1024, tok_s=Rate(best=294, median=290)),
    ],
    decode=[
        DecodeRate(depth=100, tok_s=Rate(best=105, median=100), kv_bytes=2e6, gb_s=10.2),
        DecodeRate(depth=1100, tok_s=Rate(best=64, median=62.5), kv_bytes=22e6, gb_s=7.6),
    ],
)


def rate(best: float, spread: float = 0.05) -> Rate:
    return Rate(best=best, median=best / (1 + spread))


def made(**changes: Any) -> Calibration:
    memory = [ReadRate(threads=1, gb_s=rate(32)), ReadRate(threads=2, gb_s=rate(60))]
    facts: dict[str, Any] = {"machine": here(), "memory": memory, "compute_gflops": rate(175)}
    return Calibration(schema=SCHEMA, measured_at=DAY, **{**facts, **changes})


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PHASEWISE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "cache" / "calibration.json"


# --- measuring


def test_a_quick_calibration_of_this_machine(cache: Path) -> None:
    told: list[str] = []
    found = measured(
        None, None, None, told.append, lambda: told.append(NOTED), seconds=0, memory_bytes=1 << 22
    )
    assert found.machine == here()
    threads = [one.threads for one in found.memory]
    assert threads[0] == 1
    assert threads[-1] == found.machine.cores
    assert all(one.gb_s.best >= one.gb_s.median > 0.1 for one in found.memory)
    assert found.memory_gb_s == max(found.gb_s_by_threads.values())
    assert found.model is None
    assert told == [
        *(f"reading memory with {n} thread{'s' * (n > 1)}" for n in threads),
        "multiplying",
        NOTED,
    ]
    assert not cache.exists()


# --- keeping


def test_what_is_kept_comes_back(cache: Path) -> None:
    assert calibration.kept() is None
    assert calibration.keep(made(model=SMALL)) == cache
    assert calibration.kept() == made(model=SMALL)
    assert [path.name for path in cache.parent.iterdir()] == [cache.name]
    assert calibration.forget()
    assert calibration.kept() is None
    assert not calibration.forget()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": "phasewise.calibration/2"}', "\x00"])
def test_a_broken_file_is_told(cache: Path, text: str) -> None:
    cache.parent.mkdir()
    cache.write_text(text)
    with pytest.raises(InputError, match="not a calibration"):
        calibration.kept()
    assert calibration.keep(made()) == cache
    assert calibration.kept() == made()


@pytest.mark.parametrize(
    ("change", "is_same"),
    [({}, True), ({"cpu": "another"}, False), ({"cores": 999}, False), ({"threads": 999}, False)],
)
def test_of_another_machine_it_is_not_used(cache: Path, change: dict[str, Any], is_same: bool) -> None:
    calibration.keep(made(machine=here().model_copy(update=change)))
    if is_same:
        assert calibration.kept() is not None
        return
    with pytest.raises(InputError, match="another machine"):
        calibration.kept()


def test_memory_may_differ_a_little() -> None:
    one = MachineFacts(cpu="a", cores=4, threads=8, memory_bytes=16 << 30)
    assert calibration.is_same(one, one.model_copy(update={"memory_bytes": int(1.02 * (16 << 30))}))
    assert not calibration.is_same(one, one.model_copy(update={"memory_bytes": 32 << 30}))


# --- noise


def test_steady_figures_are_kept() -> None:
    assert steady(made(model=SMALL), 0.02) == (made(model=SMALL), [])


def test_shaky_figures_are_not() -> None:
    shaky = made(memory=[ReadRate(threads=1, gb_s=rate(32, 0.4))])
    kept, said = steady(shaky)
    assert kept is None
    assert len(said) == 1
    assert said[0].startswith("Measured, but not kept: memory with 1 thread (40 %) varied by more than 25 %;")


def test_figures_of_a_busy_machine_are_not() -> None:
    """One busy core of 16 is 6 % of them, and one that every figure shares."""
    facts = MachineFacts(cpu="a", cores=16, threads=16, memory_bytes=16 << 30)
    kept, said = steady(made(machine=facts), 0.96)
    assert kept is None
    assert said[0].startswith("Measured, but not kept: other programs kept 1.0 of 16 processors busy;")
    assert steady(made(machine=facts), 0.3)[0] is not None


def test_a_shaky_model_does_not_spoil_the_rest() -> None:
    shaky = SMALL.model_copy(update={"prefill": [PrefillRate(tokens=128, tok_s=rate(300, 0.5))]})
    kept, said = steady(made(model=shaky))
    assert kept == made()
    assert len(said) == 1


# --- using


MODEL = Model("an-8b.gguf", 4.9e9, 4.9e9, layers=32, kv_bytes_per_token=131_072)


def test_an_estimate_without_a_device_is_of_this_machine(cache: Path) -> None:
    calibration.keep(made())
    found = estimate(MODEL, hardware_of(None, None, None, None, is_here=True), Ask(prompt=0, output=100))
    assert found.hardware.name == "this machine"
    assert found.hardware.memory_bytes == here().memory_bytes
    assert found.ceiling_tok_s == pytest.approx(60e9 / (4.9e9 + 50 * 131_072))
    assert found.decode.basis.endswith("with the memory's bandwidth measured here on 2026-11-30")


def test_any_device_given_goes_before(cache: Path) -> None:
    calibration.keep(made())
    assert hardware_of("RTX 4090", None, None, None, is_here=True).calibrated is None
    assert hardware_of(None, 400.0, None, None, is_here=True).calibrated is None
    assert hardware_of(None, None, None, "24GiB", is_here=True).calibrated is None
    assert hardware_of(None, None, None, None).calibrated is None
    assert hardware_of(THIS_MACHINE, None, None, None).calibrated is not None
    assert hardware_of(THIS_MACHINE, 400.0, None, None).bandwidth_bounds_gb_s == (400.0, 400.0)


def calibrated(**changes: Any) -> Hardware:
    found = made(**changes)
    return Hardware("this machine", bandwidth_bounds_gb_s=(60.0, 60.0), calibrated=found)


def test_the_measured_model_is_told_as_measured() -> None:
    same = Model("small.gguf", 1e8, 1e8, layers=30, kv_bytes_per_token=20_000)
    found = estimate(same, calibrated(model=SMALL), Ask(prompt=128, output=0))
    assert found.decode.value is not None
    assert found.decode.value == pytest.approx(1000 / (9.4 + 0.3 * 2.56))
    assert found.decode.low == pytest.approx(0.85 * found.decode.value)
    assert found.prefill.value == pytest.approx(128 / 320 * 1000, rel=0.01)
    assert found.prefill.basis == "fitted to the measured points (measured here on 2026-11-30)"
    assert found.decode.basis == "as fast as small.gguf was read, measured here on 2026-11-30"


def test_the_range_holds_what_was_measured() -> None:
    shaky = SMALL.decode[0].model_copy(update={"tok_s": Rate(best=124, median=100)})
    known = SMALL.model_copy(update={"decode": [shaky]})
    found = estimate(Model("small.gguf", 1e8, 1e8), calibrated(model=known), Ask()).decode
    assert found.value is not None
    assert found.high == pytest.approx(1.24 * found.value)


def test_deeper_than_was_measured_the_range_is_wider() -> None:
    same = Model("small.gguf", 1e8, 1e8, layers=30, kv_bytes_per_token=20_000)
    reach = []
    for depth in (1_100, 2_200, 8_800):
        found = estimate(same, calibrated(model=SMALL), Ask(depth=depth)).decode
        assert found.value is not None
        assert found.low is not None
        reach.append(found.low / found.value)
    assert reach == pytest.approx([0.85, 0.85 / 1.2, 0.85 / 1.2**3])
    assert found.basis.endswith("measured here on 2026-11-30, at 8.0 times the deepest context that was")


@pytest.mark.parametrize("ask", [Ask(prompt=128, kv_type="q8_0"), Ask(prompt=128, flash_attention=False)])
def test_what_another_attention_does_to_a_measured_model_is_not_told(ask: Ask) -> None:
    same = Model("small.gguf", 1e8, 1e8, layers=30, kv_bytes_per_token=20_000)
    found = estimate(same, calibrated(model=SMALL), ask)
    assert (found.decode.value, found.prefill.value) == (None, None)


def test_a_model_of_the_same_size_is_read_as_fast_within_a_wider_range() -> None:
    alike = estimate(Model("b.gguf", 1.5e8, 1.5e8), calibrated(model=SMALL), Ask(prompt=128))
    assert alike.decode.value is not None
    assert alike.decode.low == pytest.approx(0.7 * alike.decode.value)
    assert alike.prefill.value is None


def test_a_small_model_is_not_told_from_memory_alone() -> None:
    """It was measured: 98 MB decode at a sixth of the bandwidth."""
    found = estimate(Model("c.gguf", 1e8, 1e8), calibrated(), Ask())
    assert found.decode.value is None
    assert found.ceiling_tok_s == pytest.approx(600)
    assert "phasewise calibrate --model FILE" in cannot_tell(found)[0]
    other = estimate(Model("c.gguf", 4e8, 4e8), calibrated(model=SMALL), Ask())
    assert other.decode.value is None


def test_the_memory_of_a_machine_with_a_gpu_is_not_the_gpus(cache: Path) -> None:
    calibration.keep(made(model=SMALL.model_copy(update={"on_gpu": True})))
    found = hardware_of(None, None, None, None, is_here=True)
    assert (found.bandwidth_bounds_gb_s, found.memory_bytes) == (None, None)
    assert estimate(Model("small.gguf", 1e8, 1e8), found, Ask()).decode.value is not None
    assert estimate(MODEL, found, Ask()).decode.value is None


def test_this_machine_in_the_file_and_on_the_command_line(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "phasewise.toml").write_text('[machine]\ndevice = "this-machine"\ncores = 1\n')
    with pytest.raises(InputError, match="run `phasewise calibrate` once"):
        machine(Machine(), tmp_path)
    calibration.keep(made())
    known = machine(Machine(), tmp_path)
    assert (known.device, known.bandwidth_gb_s, known.measured_on) == (None, 60.0, "2026-11-30")
    assert (known.cores, known.memory_bytes) == (1, here().memory_bytes)
    assert machine(Machine(device="RTX 4090"), tmp_path).measured_on is None
    assert machine(Machine(bandwidth_gb_s=40.0), tmp_path) == Machine(
        None, 40.0, None, here().memory_bytes, 1, origin="phasewise.toml"
    )


def test_the_command_uses_it_and_says_so(cache: Path) -> None:
    calibration.keep(made())
    where = {"PHASEWISE_CACHE_DIR": str(cache.parent)}
    ran = phasewise("estimate", "--weights-bytes", "4.9GB", "--layers", "32", env=where, cwd=cache.parent)
    assert (ran.status, ran.err) == (0, "")
    words = " ".join(ran.out.split())
    assert "memory delivers 57 to 60 GB/s, measured here on 2026-11-30." in words
    cache.write_text("{")
    ran = phasewise("estimate", "--weights-bytes", "4.9GB", "--layers", "32", env=where, cwd=cache.parent)
    assert ran.status == 0
    assert ran.err.count("\n") == 1
    assert "not a calibration" in ran.err
    assert (
        json.loads(
            phasewise(
                "estimate", "--weights-bytes", "4.9GB", "--format", "json", env=where, cwd=cache.parent
            ).out
        )["decode_tok_s"]
        is None
    )
    named = ("estimate", "--weights-bytes", "4.9GB", "--device", THIS_MACHINE)
    refused(phasewise(*named, env=where, cwd=cache.parent), 2, "not a calibration")


# --- the verb


@pytest.mark.parametrize("others_cores", [0.02, 1.2])
def test_the_verb_keeps_what_is_steady(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], others_cores: float
) -> None:
    """What it measured is given here: whether a machine is quiet is no property of the code."""
    monkeypatch.setattr(verb, "_measured", lambda _model: (made(model=SMALL), others_cores))
    verb.calibrate()
    page = " ".join(capsys.readouterr().out.split())
    assert "memory read by 2 threads 60.0 GB/s 57.1 GB/s" in page
    assert "decode at 1,100 tokens 64.0 tok/s 62.5 tok/s 7.6 GB/s" in page
    is_kept = others_cores < 0.5
    assert ("Kept in" in page) is cache.is_file() is is_kept
    verb.calibrate(format=EstimateFormat.JSON)
    out, err = capsys.readouterr()
    told = Told.model_validate_json(out)
    assert (told.kept, bool(told.notes), err) == (is_kept, not is_kept, "")
    assert told.model_dump(exclude={"kept", "notes"}) == made(model=SMALL).model_dump()
    verb.calibrate(forget=True)
    assert not cache.exists()
