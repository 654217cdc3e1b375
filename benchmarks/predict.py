"""How well the decode and prefill models predict published measurements that nobody of this project made.

Rows: `data/bench_rows.tsv`, one measurement a line with its source; layers and KV sizes of the models in
`data/models.toml`. Decode is predicted from data-sheet bandwidth, file size, layers and the published
constants of `rules.physics.decode`; prefill from two measured lengths. Rows that their note excludes (paging,
spilled VRAM, outliers, other batch sizes) are left out and counted.

    python benchmarks/predict.py [--all]
"""

from __future__ import annotations

import argparse
import csv
import sys
import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import least_squares  # type: ignore[import-untyped]

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rules.physics.decode import decode_constants, decode_ms_per_token, moe_bytes_per_token
from rules.physics.devices import find_device
from rules.physics.prefill import fit_prefill, prefill_flops

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

DATA = Path(__file__).parent / "data"
GATE = "single-GPU CUDA"
GATE_MEDIAN, GATE_OUTSIDE, GATE_WITHIN, GATE_PREFILL = 0.06, 0.25, 0.95, 0.10
SHORT, LONG, ASKED = 512, 4096, 8192
_QUERY_WIDTH = {"Llama 3 8B": 4096, "Llama 3 70B": 8192}
_LISTED = (GATE, "several GPUs", "Apple", "AMD")


@dataclass(frozen=True, slots=True)
class Row:
    """One published measurement; None where it is not stated or not known."""

    device: str
    device_class: str
    bandwidth_gb_s: float
    tensor_tflops: float | None
    backend: str
    gpus: int
    model: str
    quant: str
    parameters: float | None
    weight_bytes: float | None
    layers: int | None
    kv_bytes_per_token: float | None
    mixture: bool
    flash_attention: bool
    depth: int
    prompt_tokens: float | None
    prefill_tok_s: float | None
    output_tokens: float | None
    decode_tok_s: float | None
    note: str
    source: str

    @property
    def excluded(self) -> bool:
        """Whether the note says that the measurement is a fault or no plain decode."""
        return "exclude" in self.note or "OUTLIER" in self.note

    @property
    def group(self) -> str:
        """Where the row is reported."""
        if self.mixture:
            return "mixtures of experts"
        if self.depth:
            return "at a depth"
        if self.gpus > 1:
            return "several GPUs"
        if self.backend == "CUDA":
            return GATE
        if "mac-llm-bench" in self.source:
            return "Apple, mac-llm-bench field data"
        return {"apple": "Apple", "strix": "AMD", "amd": "AMD"}.get(self.device_class, "others")

    @property
    def kv_bytes(self) -> float | None:
        """KV cache at mid-answer; None where it matters and is not known."""
        context = self.depth + (self.output_tokens or 0) / 2
        if self.kv_bytes_per_token is None:
            return 0.0 if context <= SHORT / 2 else None
        return self.kv_bytes_per_token * context

    @property
    def measured_ms(self) -> float:
        """Measured ms per output token."""
        return 1000 / (self.decode_tok_s or np.nan)

    def __str__(self) -> str:
        at = f" at {self.depth:,}" if self.depth else ""
        return f"{self.device}, {self.backend}, {self.model} {self.quant}, tg {self.output_tokens:.0f}{at}"


def load() -> list[Row]:
    """All rows of `bench_rows.tsv` whose device is a listed product."""
    models = tomllib.loads((DATA / "models.toml").read_text("utf-8"))
    return [row for line in lines() if (row := _row(line, models))]


def lines() -> list[dict[str, str]]:
    """`bench_rows.tsv` as it stands."""
    return list(csv.DictReader((DATA / "bench_rows.tsv").read_text("utf-8").splitlines(), delimiter="\t"))


def _row(line: dict[str, str], models: dict[str, dict[str, int]]) -> Row | None:
    device = find_device(line["device"])
    if device is None or "CPU" in line["backend"]:
        return None
    total, active = _number(line["params_B"]), _number(line["active_params_B"])
    size, model = _number(line["model_bytes"]), models.get(line["model"], {})
    mixture = "MoE" in line["note"] + line["model"] or (None not in (total, active) and total != active)
    weights = _number(line["active_bytes_per_token"])
    if mixture:
        weights = moe_bytes_per_token(size, active, total) if size and active and total else None
    return Row(
        device=line["device"],
        device_class=device.device_class,
        bandwidth_gb_s=device.bandwidth_gb_s or sum(device.bandwidth_bounds_gb_s) / 2,
        tensor_tflops=_number(line["fp16_TFLOPS_tensor_dense"]),
        backend=line["backend"],
        gpus=int(line["n_gpus"]),
        model=line["model"],
        quant=line["quant"],
        parameters=total and total * 1e9,
        weight_bytes=weights,
        layers=model.get("layers"),
        kv_bytes_per_token=model.get("kv_bytes_per_token"),
        mixture=mixture,
        flash_attention=line["fa"] != "0",
        depth=int(line["depth"] or 0),
        prompt_tokens=_number(line["pp_n"]),
        prefill_tok_s=_number(line["pp_tok_s"]),
        output_tokens=_number(line["tg_n"]),
        decode_tok_s=_number(line["tg_tok_s"]),
        note=line["note"],
        source=line["source"],
    )


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


# --- decode


def predicted_ms(row: Row) -> float | None:
    """Ms per output token with the published constants; None where they don't reach."""
    if row.weight_bytes is None or row.layers is None or row.kv_bytes is None:
        return None
    constants = decode_constants(row.device_class)
    return decode_ms_per_token(
        row.weight_bytes,
        row.kv_bytes,
        row.bandwidth_gb_s,
        row.layers,
        constants,
        flash_attention=row.flash_attention,
    )


def predictable(rows: Iterable[Row]) -> list[Row]:
    """Decode measurements that are no fault and that the model can be asked about."""
    return [r for r in rows if r.decode_tok_s and not r.excluded and predicted_ms(r) is not None]


def errors(rows: Sequence[Row], predict: Callable[[Row], float | None] = predicted_ms) -> Floats:
    """|predicted / measured - 1| of the rates in tok/s."""
    return np.array([abs(r.measured_ms / (predict(r) or np.nan) - 1) for r in rows])


def _terms(row: Row) -> tuple[float, float, float]:
    """Time for weights and for the KV cache at full bandwidth, and layers: what the constants multiply."""
    per_ms = row.bandwidth_gb_s * 1e6
    return (row.weight_bytes or 0) / per_ms, (row.kv_bytes or 0) / per_ms, row.layers or 0


def fitted(train: Sequence[Row]) -> Callable[[Row], float]:
    """The decode model with its three constants fitted to other rows."""
    terms = np.array([_terms(r) for r in train])
    measured = np.array([r.measured_ms for r in train])
    constants = _robust(lambda x: terms @ x / measured - 1, [1.0, 2.0, 0.08])
    return lambda row: float(np.dot(_terms(row), constants))


def bandwidth_only(train: Sequence[Row]) -> Callable[[Row], float]:
    """The baseline: bytes over a fixed share of bandwidth, the best one for the rows it was fitted to."""
    ceiling = np.array([sum(_terms(r)[:2]) for r in train])
    measured = np.array([r.measured_ms for r in train])
    factor = _robust(lambda x: x[0] * ceiling / measured - 1, [1.3])[0]
    return lambda row: float(factor * sum(_terms(row)[:2]))


def _robust(residuals: Callable[[Floats], Floats], start: list[float]) -> Floats:
    fit = least_squares(residuals, start, bounds=(0, np.inf), loss="soft_l1", f_scale=0.05)
    return np.asarray(fit.x, dtype=np.float64)


def leave_one_device_out(
    rows: Sequence[Row], method: Callable[[Sequence[Row]], Callable[[Row], float]]
) -> Floats:
    """Errors on each device of a model that was fitted without it."""
    found = []
    for device in sorted({r.device for r in rows}):
        predict = method([r for r in rows if r.device != device])
        found.append(errors([r for r in rows if r.device == device], predict))
    return np.concatenate(found)


# --- prefill


def series(rows: Iterable[Row]) -> Iterator[dict[float, Row]]:
    """Prefill measurements of one machine, model and build, by prompt length."""
    found: dict[tuple[object, ...], dict[float, Row]] = {}
    for r in rows:
        if r.prefill_tok_s and r.prompt_tokens and not r.excluded and not r.depth:
            key = (r.device, r.gpus, r.backend, r.model, r.quant, r.flash_attention)
            found.setdefault(key, {})[r.prompt_tokens] = r
    return (by_length for by_length in found.values() if {SHORT, LONG, ASKED} <= by_length.keys())


def _prefill_ms(row: Row) -> float:
    return 1000 * (row.prompt_tokens or np.nan) / (row.prefill_tok_s or np.nan)


def extrapolation_error(by_length: dict[float, Row]) -> float:
    """|predicted / measured - 1| at 8,192 tokens, from the points at 512 and 4,096."""
    points = [SHORT, LONG]
    measured = [_prefill_ms(by_length[n]) for n in points]
    fit = fit_prefill(points, [0, 0], measured, min_samples=2)
    assert fit is not None
    return abs(fit.model.predict_ms(ASKED) / _prefill_ms(by_length[ASKED]) - 1)


def same_rate_error(by_length: dict[float, Row]) -> float:
    """The same for the rate at 4,096 tokens held constant."""
    return abs((by_length[ASKED].prefill_tok_s or 0) / (by_length[LONG].prefill_tok_s or np.nan) - 1)


def from_tflops(train: Sequence[Row]) -> Callable[[Row], float]:
    """Prefill ms from data-sheet TFLOPS alone, with the best share of them for the rows it was fitted to."""
    share = np.median([_peak_ms(r) / _prefill_ms(r) for r in train])
    return lambda row: float(_peak_ms(row) / share)


def _peak_ms(row: Row) -> float:
    flops = prefill_flops(
        row.parameters or np.nan, row.prompt_tokens or np.nan, 0, row.layers or 0, _QUERY_WIDTH[row.model]
    )
    return flops / ((row.tensor_tflops or np.nan) * 1e9)


# --- the page


def _line(name: str, error: Floats, baseline: Floats | None = None) -> str:
    if not error.size:
        return f"  {name:<44} {0:>4}"
    within = f"{np.mean(error <= GATE_OUTSIDE):>7.0%}"
    beside = "" if baseline is None else f" {np.median(baseline):>9.1%} {baseline.max():>7.1%}"
    return f"  {name:<44} {error.size:>4} {np.median(error):>7.1%} {error.max():>7.1%} {within}{beside}"


def _decode_page(rows: list[Row], *, everything: bool) -> Iterator[str]:
    asked = predictable(rows)
    head = f"{'rows':>4} {'median':>7} {'max':>7} {'in 25 %':>7}"
    yield f"Decode, |error|, published constants {'':<9} {head}   bandwidth only: median, max"
    groups = [GATE, *sorted({r.group for r in asked} - {GATE})]
    for group in groups:
        chosen = [r for r in asked if r.group == group]
        yield _line(group, errors(chosen), errors(chosen, bandwidth_only(chosen)))
    geforce, workstation = (
        [r for r in asked if r.group == GATE and r.device_class == name]
        for name in ("geforce", "workstation")
    )
    yield "\nDecode, constants fitted here"
    yield _line(
        "fitted to GeForce, tested on workstation cards",
        errors(workstation, fitted(geforce)),
        errors(workstation, bandwidth_only(geforce)),
    )
    both = geforce + workstation
    yield _line(
        "leave one device out", leave_one_device_out(both, fitted), leave_one_device_out(both, bandwidth_only)
    )
    for group in groups if everything else _LISTED:
        far = [r for r in asked if r.group == group and errors([r])[0] > GATE_OUTSIDE]
        yield f"\nOutside 25 %, {group}: {len(far)}"
        for r in far:
            yield f"  {r}: {r.decode_tok_s:.1f} tok/s, predicted {1000 / (predicted_ms(r) or np.nan):.1f}"


def _prefill_page(rows: list[Row]) -> Iterator[str]:
    yield f"\nPrefill at {ASKED:,} from {SHORT} and {LONG:,}{'':<53} rate at {LONG:,} kept: median, max"
    by_group: dict[str, list[dict[float, Row]]] = {}
    for by_length in series(rows):
        by_group.setdefault(by_length[ASKED].group, []).append(by_length)
    for group, chosen in sorted(by_group.items(), key=lambda item: item[0] != GATE):
        two = np.array([extrapolation_error(s) for s in chosen])
        yield _line(group, two, np.array([same_rate_error(s) for s in chosen]))
    rtx = [s[SHORT] for s in by_group[GATE] if s[SHORT].device_class in ("geforce", "workstation")]
    train = [r for r in rtx if r.device_class == "geforce"]
    test = [r for r in rtx if r.device_class == "workstation"]
    predict = from_tflops(train)
    wrong = np.array([abs(predict(r) / _prefill_ms(r) - 1) for r in test])
    yield "\nPrefill from TFLOPS alone (why `estimate` only gives a range)"
    yield _line("fitted to GeForce, tested on workstation cards", wrong)


def page(rows: list[Row], *, everything: bool = False) -> Iterator[str]:
    """The whole report, line by line."""
    reasons = Counter(r.note.split(": ")[-1] if ": " in r.note else r.note for r in rows if r.excluded)
    yield f"{len(rows)} rows of listed GPUs; excluded by their notes: {sum(reasons.values())}"
    yield from (f"  {count:>3} {reason}" for reason, count in reasons.most_common())
    left = [r for r in rows if r.decode_tok_s and not r.excluded and predicted_ms(r) is None]
    why = Counter(
        "no constants for the device"
        if decode_constants(r.device_class) is None
        else "model's layers, bytes or KV size not known"
        for r in left
    )
    yield f"not predicted: {len(left)}"
    yield from (f"  {count:>3} {reason}" for reason, count in why.most_common())
    yield ""
    yield from _decode_page(rows, everything=everything)
    yield from _prefill_page(rows)


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--all", action="store_true", help="list the rows outside 25 %% of every group")
    for line in page(load(), everything=parser.parse_args().all):
        print(line)


if __name__ == "__main__":
    main()
