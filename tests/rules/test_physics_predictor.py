"""The gate of the predictor, on all published rows (`benchmarks/predict.py` prints the whole table)."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import predict
from rules.physics.devices import find_device

ROWS = predict.load()
ASKED = predict.predictable(ROWS)


def rows_of(group: str) -> list[predict.Row]:
    return [row for row in ASKED if row.group == group]


def test_decode_on_single_cuda_gpus_is_within_the_gate() -> None:
    error = predict.errors(rows_of(predict.GATE))
    assert error.size == 102
    assert np.median(error) <= predict.GATE_MEDIAN
    assert np.mean(error <= predict.GATE_OUTSIDE) >= predict.GATE_WITHIN


def test_decode_beats_bandwidth_alone() -> None:
    rows = rows_of(predict.GATE)
    alone = predict.errors(rows, predict.bandwidth_only(rows))
    assert np.median(predict.errors(rows)) < 0.5 * np.median(alone)


def test_constants_carry_over_to_devices_they_were_not_fitted_to() -> None:
    rows = [row for row in rows_of(predict.GATE) if row.device_class in ("geforce", "workstation")]
    geforce = [row for row in rows if row.device_class == "geforce"]
    workstation = [row for row in rows if row.device_class == "workstation"]
    assert np.median(predict.errors(workstation, predict.fitted(geforce))) < 0.07
    left_out = predict.leave_one_device_out(rows, predict.fitted)
    alone = predict.leave_one_device_out(rows, predict.bandwidth_only)
    assert np.median(left_out) < 0.07
    assert np.median(left_out) < 0.7 * np.median(alone)


def test_strix_halo_and_several_gpus_are_predicted_as_well() -> None:
    for group in ("AMD", "several GPUs"):
        error = predict.errors(rows_of(group))
        assert error.size > 150
        assert np.median(error) <= predict.GATE_MEDIAN
        assert np.mean(error <= predict.GATE_OUTSIDE) >= predict.GATE_WITHIN


def test_prefill_at_8k_follows_from_two_lengths() -> None:
    found = [s for s in predict.series(ROWS) if s[predict.ASKED].group == predict.GATE]
    assert len(found) == 25
    two = np.median([predict.extrapolation_error(s) for s in found])
    assert two <= predict.GATE_PREFILL
    assert two < 0.25 * np.median([predict.same_rate_error(s) for s in found])


def test_only_stated_faults_are_excluded() -> None:
    excluded = [row for row in ROWS if row.excluded]
    assert len(excluded) == 34
    assert all(row.note for row in excluded)


def products() -> list[tuple[str, float]]:
    named = {
        (line["device"], float(line["bandwidth_GBs"])) for line in predict.lines() if line["bandwidth_GBs"]
    }
    return sorted(product for product in named if "CPU" not in product[0])


@pytest.mark.parametrize(("name", "bandwidth_gb_s"), products())
def test_benchmarked_products_are_listed_with_their_bandwidth(name: str, bandwidth_gb_s: float) -> None:
    device = find_device(name)
    assert device is not None
    low, high = device.bandwidth_bounds_gb_s
    assert low * 0.99 <= bandwidth_gb_s <= high * 1.01
