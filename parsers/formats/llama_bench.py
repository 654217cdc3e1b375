"""llama-bench: one row for each test, as a Markdown table, CSV, JSON, JSON Lines or SQL.

A row is the mean over the test's repetitions. Prompt tests (`pp512`) time a prefill, generation tests
(`tg128`) as many decode steps as tokens; a combined test (`pp512+tg128`) has one time for both, so its
phases stay unknown. At a depth (`@ d4096`) that many tokens are in the context before the clock starts.

All but the table state the mean time in ns. The table states tokens per second only: the time is tokens
divided by that rate, rounded to what the printed digits and the spread between the runs allow.

One output often compares settings. The setup then keeps what all rows share, and no more.

RamaLama runs it and prints a table of its own, which doesn't say the depth, or keeps what llama-bench told as
the ``result`` of a line of JSON. Read in ramalama 8bc1f0a (benchmarks/utilities.py, schemas.py, manager.py),
whose own code printed the samples.
"""

from __future__ import annotations

import csv
import json
import math
import re
from typing import TYPE_CHECKING, Any

from parsers.formats.base import Format, Reader, integer, line
from parsers.formats.llama_cpp import size_bytes
from parsers.records import Request
from parsers.setup import Device

if TYPE_CHECKING:
    from parsers.formats.base import At
    from parsers.formats.process import Process

_ENGINE = "llama-bench"
_WHEN = rb"(?: engine +\|)?(?: date +\|)?"

LINES = (
    line("table", b"t/s |", rb"\| model +\| .*\| +test +\| +t/s +\|\s*$", b"| model "),
    line(
        "table",
        b"| t/s  ",
        rb"\|(?: id +\|)? model +\| .*\| test +\| t/s +\|" + _WHEN + rb"\s*$",
        b"| model ",
    ),
    line(
        "table_row",
        b" \xc2\xb1 ",
        rb"\|.*\| *(?:pp|tg) ?\d[^|]*\| *\d+\.\d+ \xc2\xb1 \d+\.\d+ *\|(?:[^|]*\|){0,2}\s*$",
    ),
    line("build", b"build: ", rb"build: \w+ \((?P<build>\d+)\)\s*$"),
    line("csv_head", b"build_commit,", rb"(?P<names>build_commit,[\w,]+)\s*$"),
    line(
        "sql_row", b"build_commit,", rb"INSERT INTO \w+ \((?P<names>[\w, ]+)\) VALUES \('(?P<values>.*)'\);"
    ),
    line("csv_row", b'","', rb'(?P<values>"\w*","\d+",".*")\s*$'),
    line("json_row", b'"build_commit": ', rb"(?P<body>\{.*\})\s*$"),
    line("json_field", b'": ', rb' +"(?P<name>\w+)": (?P<value>(?:[^\s,]++|[ \t,]++(?=[^\s,]))++)[\s,]*+$'),
)

_TEST = re.compile(r"(?:pp ?(?P<prompt>\d+))?\+?(?:tg ?(?P<output>\d+))?(?: @ d(?P<depth>\d+))?")
_MODEL = re.compile(r"(?P<architecture>[a-z][\w.-]*) \S+ (?:mostly )?(?P<quantization>\S.*)")
_PARAMETERS = re.compile(r"(?P<number>\d+(?:\.\d+)?) (?P<unit>[MB])")
_COLUMNS = {"ngl": "n_gpu_layers", "threads": "n_threads", "fa": "flash_attn", "backend": "backends"}
_RAMALAMA = {"id", "engine", "date"}
_SWITCH = {"0": False, "1": True}
_MAX_JSON_FIELDS = 100


class BenchReader(Reader):
    """Names of the columns, the JSON object that is open, and the settings that differ between rows."""

    engine = _ENGINE

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._mixed: set[str] = set()
        self._forget()

    def _forget(self) -> None:
        self._columns: list[str] = []
        self._names: list[str] = []
        self._object: dict[str, str] | None = None

    def close(self) -> None:
        """The output ends; an object that is still open was cut off."""
        self._cut_off()
        self._forget()

    def _cut_off(self) -> None:
        self.process.counts.incomplete_requests += self._object is not None
        self._object = None

    # --- the layouts

    def table(self, m: re.Match[bytes], at: At) -> bool | None:
        """``| model | size | params | backend | threads | test | t/s |``: columns vary with the options.

        The backend is always among them, so a table without one is another program's.
        """
        columns = _cells(at.body)
        self._columns = columns if "backend" in columns else []
        return None if self._columns else False

    def table_row(self, m: re.Match[bytes], at: At) -> bool | None:
        """``| llama 8B Q4_K - Medium | 4.58 GiB | 8.03 B | CUDA | 99 | pp512 | 4093.50 ± 14.57 |``."""
        cells = _cells(at.body)
        if len(cells) != len(self._columns):
            return False
        found = {_COLUMNS.get(name, name): cell for name, cell in zip(self._columns, cells, strict=True)}
        test = _TEST.fullmatch(found["test"])
        if test is None:
            return False
        rate, spread = (float(part) for part in found["t/s"].split(" ± "))
        prompt, output, depth = (int(test[name] or 0) for name in ("prompt", "output", "depth"))
        at_depth = None if _RAMALAMA & set(self._columns) else depth
        parameters = _PARAMETERS.fullmatch(found.get("params", ""))
        facts = _facts(found, found["model"]) | {
            "model": found["model"],
            "weights_bytes": size_bytes(found.get("size", "").encode()),
            "parameters": parameters and round(float(parameters["number"]) * _SCALE[parameters["unit"]]),
        }
        self._tell(at, (prompt, output, at_depth), _ms_at_rate(prompt + output, rate, spread), facts)
        return None

    def build(self, m: re.Match[bytes], at: At) -> None:
        """``build: 27f2c14 (9090)`` under a table."""
        if self._columns:
            self._learn(at, {"engine_version": f"b{int(m['build'])}" if int(m["build"]) else None})
            self._columns = []

    def csv_head(self, m: re.Match[bytes], at: At) -> None:
        """``build_commit,build_number,...``: the fields of this build."""
        self._names = m["names"].decode().split(",")

    def csv_row(self, m: re.Match[bytes], at: At) -> None:
        """``"27f2c14","9090",...``."""
        self._named(at, self._names, next(csv.reader([m["values"].decode("utf-8", "replace")])))

    def sql_row(self, m: re.Match[bytes], at: At) -> None:
        """``INSERT INTO llama_bench (build_commit, ...) VALUES ('27f2c14', ...);``."""
        values = m["values"].decode("utf-8", "replace").split("', '")
        self._named(at, m["names"].decode().split(", "), values)

    def json_row(self, m: re.Match[bytes], at: At) -> None:
        """A line of JSON Lines."""
        try:
            body = json.loads(m["body"])
        except (ValueError, RecursionError):
            return
        if isinstance(body, dict):
            told = body.get("result")  # of RamaLama
            found = told if isinstance(told, dict) else body
            self._fields(at, {name: _plain(value) for name, value in found.items() if value is not None})

    def json_field(self, m: re.Match[bytes], at: At) -> None:
        """``    "avg_ns": 816324702,``: one field of an object of the JSON array."""
        name = m["name"].decode()
        if name == "build_commit":
            self._cut_off()
            self._object = {}
        if self._object is None:
            return
        try:
            self._object[name] = _plain(json.loads(m["value"]))
        except (ValueError, RecursionError):
            self._object = None
            return
        if name == "samples_ts":
            fields, self._object = self._object, None
            self._fields(at, fields)
        elif len(self._object) > _MAX_JSON_FIELDS:
            self._object = None

    # --- a row

    def _named(self, at: At, names: list[str], values: list[str]) -> None:
        if len(names) == len(values):
            self._fields(at, dict(zip(names, values, strict=True)))

    def _fields(self, at: At, found: dict[str, str]) -> None:
        """A row by the names that CSV, JSON and SQL share."""
        prompt, output, avg_ns = (_count(found, name) for name in ("n_prompt", "n_gen", "avg_ns"))
        if prompt is None or output is None or not avg_ns or not prompt + output:
            return
        build = _count(found, "build_number")
        facts = _facts(found, found.get("model_type", "")) | {
            "engine_version": f"b{build}" if build else None,
            "model": found.get("model_filename"),
            "weights_bytes": _count(found, "model_size"),
            "parameters": _count(found, "model_n_params"),
            "devices": _devices(found),
        }
        self._tell(at, (prompt, output, _count(found, "n_depth") or 0), avg_ns / 1e6, facts)

    def _tell(
        self, at: At, test: tuple[int, int, int | None], ms: float | None, facts: dict[str, object]
    ) -> None:
        prompt, output, depth = test
        self._learn(at, facts)
        model = facts["model"]
        self.process.emit(
            Request(
                line=at.number,
                engine=_ENGINE,
                request_id=_name(prompt, output, depth or 0),
                model=model if isinstance(model, str) else None,
                prompt_tokens=prompt or None,
                prefill_tokens=prompt or None,
                prefill_ms=None if output else ms,
                output_tokens=output or None,
                decode_ms=None if prompt else ms,
                decode_steps=None if prompt or ms is None else output,
                total_ms=ms,
                context_tokens=None if depth is None else depth + prompt + output,
                kind="benchmark",
                first_line=at.number,
                offset=at.offset,
            )
        )

    def _learn(self, at: At, facts: dict[str, object]) -> None:
        """Learn facts of one row; what differs between rows is no fact of the output."""
        setup = self.process.setup
        for name, value in facts.items():
            known = getattr(setup, name)
            if name in self._mixed or value is None:
                continue
            if name in setup.origin and known != value:
                self._mixed.add(name)
                self.process.forget(name)
            else:
                self.process.learn(at, **{name: value})


_SCALE = {"M": 1e6, "B": 1e9}


def _cells(row: bytes) -> list[str]:
    return [cell.strip() for cell in row.decode("utf-8", "replace").strip().strip("|").split("|")]


def _plain(value: Any) -> str:
    """A JSON value as CSV would print it, without what is no character."""
    text = str(int(value)) if isinstance(value, bool) else str(value)
    return text.encode("utf-8", "replace").decode()


def _count(found: dict[str, str], name: str) -> int | None:
    value = found.get(name, "")
    return integer(value.encode()) if value.isascii() and value.isdigit() else None


def _name(prompt: int, output: int, depth: int) -> str:
    """The test's name as the table prints it."""
    parts = [f"pp{prompt}"] * bool(prompt) + [f"tg{output}"] * bool(output)
    return "+".join(parts) + (f" @ d{depth}" if depth else "")


def _ms_at_rate(tokens: int, rate: float, spread: float) -> float | None:
    """Mean time of a test, as exact as tokens per second ± their spread tell it.

    The rate is the mean of the runs' rates. Against the rate of the mean time it is too high by at most
    the squared relative spread, and by half a unit of its last printed digit either way.
    """
    if rate <= 0 or not tokens:
        return None
    ms = 1e3 * tokens / rate
    doubt_ms = ms * (0.005 / rate + (spread / rate) ** 2)
    return round(ms, min(3, math.floor(-math.log10(doubt_ms)))) if doubt_ms < ms / 2 else None


def _facts(found: dict[str, str], described: str) -> dict[str, object]:
    """Settings under the names that the table and the other layouts share.

    `n_gpu_layers` is what was asked for, so only 0 says how many layers were offloaded.
    """
    model = _MODEL.fullmatch(described)
    return {
        "architecture": model and model["architecture"],
        "quantization": model and model["quantization"],
        "threads": _count(found, "n_threads"),
        "batch": _count(found, "n_batch"),
        "ubatch": _count(found, "n_ubatch"),
        "layers_offloaded": 0 if found.get("n_gpu_layers") == "0" else None,
        "flash_attention": _SWITCH.get(found.get("flash_attn", "")),
        "kv_type_k": found.get("type_k"),
        "kv_type_v": found.get("type_v"),
    }


def _devices(found: dict[str, str]) -> list[Device] | None:
    """The one device of a single backend; which of several served a test isn't said."""
    backend = found.get("backends", "")
    name = found.get("cpu_info" if backend == "CPU" else "gpu_info", "").strip()
    alone = name and backend and "," not in backend + name
    return [Device(name=name, backend=backend)] if alone else None


FORMAT = Format(
    engine=_ENGINE,
    title="llama-bench (table, CSV, JSON, JSON Lines, SQL; also by RamaLama)",
    versions="all",
    grain="request",
    identify=(b"t/s |", b"| t/s  ", b'"build_commit": ', b"build_commit,"),
    lines=LINES,
    reader=BenchReader,
    splits="prefill, decode in tests of their own",
)
