"""Result files of benchmarks: each sample gives the rows beside it, however it is cut, broken or flipped."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import parsers.documents
from parsers import DocumentError, SourceReader, Stream, Tables, read_rows
from parsers.documents import reader as document_reader
from parsers.documents.reader import DocumentReader
from parsers.formats import FORMATS
from parsers.records import Aggregate, Request, Row
from tests.parsers.reading import TIMES
from tests.parsers.test_samples import check_rows

SAMPLES = Path(parsers.documents.__file__).parent / "samples"
FILES = sorted(p for p in SAMPLES.iterdir() if not p.name.endswith(".expected.json"))
BOM = b"\xef\xbb\xbf"
ENGINES = {"ollama", "llama-server"}
"""Whose own numbers a client keeps; a benchmark sees the queue, the prefill and the network as one time."""


@dataclass(frozen=True)
class Read:
    """What a source gave."""

    source: SourceReader
    rows: list[Row]

    @property
    def requests(self) -> list[Request]:
        return [row for row in self.rows if isinstance(row, Request)]

    @property
    def aggregates(self) -> list[Aggregate]:
        return [row for row in self.rows if isinstance(row, Aggregate)]

    def told(self) -> list[dict[str, Any]]:
        return [{f.name: getattr(row, f.name) for f in fields(row)} for row in self.rows]


def read(*pieces: bytes) -> Read:
    source = SourceReader(Stream("file"))
    rows = [row for piece in pieces for row in source.feed(piece)]
    return Read(source, rows + source.close())


def expected_of(file: Path) -> dict[str, Any]:
    expected: dict[str, Any] = json.loads((SAMPLES / f"{file.stem}.expected.json").read_text("utf-8"))
    return expected


def check(found: Read, expected: dict[str, Any]) -> None:
    assert found.source.reader.engine == expected["engine"]
    assert found.source.problem is None
    for table in ("requests", "aggregates"):
        check_rows(getattr(found, table), expected[table], ())
    for name, value in expected.get("counts", {}).items():
        assert getattr(found.source.reader.counts, name) == value, name


def every_number(rows: list[Row]) -> None:
    """What no row may hold, whatever the file says."""
    for row in rows:
        numbers = [v for f in fields(row) if isinstance(v := getattr(row, f.name), (int, float))]
        assert all(v >= 0 for v in numbers), row
        if isinstance(row, Request):
            if row.engine not in ENGINES:
                assert row.prefill_ms is None
            assert row.queue_ms is None
            if row.ttft_ms is not None and row.total_ms is not None:
                assert row.ttft_ms <= row.total_ms
    tables = Tables()
    tables.extend(rows)
    assert tables.requests.height + tables.aggregates.height == len(rows)


# --- whole


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_sample(file: Path) -> None:
    data, expected = file.read_bytes(), expected_of(file)
    assert expected["note"]
    found = read(data)
    check(found, expected)
    every_number(found.rows)
    assert read(*(data[i : i + 1] for i in range(len(data)))).told() == found.told()
    assert found.source.reader.bytes == len(data)
    assert found.source.reader.lines == len(data.splitlines())


def test_each_expectation_has_its_file() -> None:
    assert {p.name.removesuffix(".expected.json") for p in SAMPLES.glob("*.expected.json")} == {
        p.stem for p in FILES
    }


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_a_byte_order_mark_moves_offsets_and_nothing_else(file: Path) -> None:
    data = file.read_bytes()
    plain, marked = read(data), read(BOM + data)
    assert read(BOM[:1], BOM[1:] + data).told() == marked.told()
    for row in marked.requests:
        row.offset -= len(BOM)
    assert marked.told() == plain.told()


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_printed_otherwise_it_says_the_same(file: Path) -> None:
    """Pretty-printed or on one line: the rows are the same but for where they stand."""
    lines = file.read_text("utf-8").splitlines()
    if file.suffix == ".jsonl":
        other = "\n".join(json.dumps(json.loads(line), indent=4) for line in lines)
    else:
        document = json.loads("\n".join(lines))
        other = json.dumps(document, indent=None if len(lines) > 1 else 3)
    if "aiperf-requests" in file.name:
        return  # json.loads drops the key that is told twice
    place = ("line", "first_line", "offset")
    found, again = read(file.read_bytes()).told(), read(other.encode()).told()
    for row in found + again:
        for name in place:
            row.pop(name, None)
    assert again == found


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_offsets_point_to_the_record(file: Path) -> None:
    data = file.read_bytes()
    for row in read(data).requests:
        assert data[row.offset : row.offset + 1] == b"{"
        assert data.count(b"\n", 0, row.offset) == row.first_line - 1


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_each_request_has_a_line_of_its_own(file: Path) -> None:
    """Rules join requests by source and line."""
    requests = read(file.read_bytes()).requests
    assert len({row.line for row in requests}) == len(requests)
    if len({row.first_line for row in requests}) == len(requests):
        assert [row.line for row in requests] == [row.first_line for row in requests]


def test_private_text_is_in_no_row() -> None:
    for file in FILES:
        assert "private" not in str(read(file.read_bytes()).told())


# --- broken


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_cut_off_it_gives_only_what_stands_before(file: Path, data: st.DataObject) -> None:
    whole = file.read_bytes()
    text = whole.rstrip()
    cut = read(text[: data.draw(st.integers(1, len(text) - 1))])
    every_number(cut.rows)
    told = read(whole).told()
    assert all(row in told for row in cut.told())
    if isinstance(cut.source.reader, DocumentReader) and file.suffix == ".json":
        assert cut.source.problem is not None
        assert "cut off or broken" in cut.source.problem


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_flipped_bits_invent_no_rows(file: Path, data: st.DataObject) -> None:
    flipped = bytearray(whole := file.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        flipped[data.draw(st.integers(0, len(whole) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    found, intact = read(bytes(flipped)), read(whole)
    every_number(found.rows)
    counts = intact.source.reader.counts
    left_out = counts.failed_requests + counts.aborted_requests + counts.incomplete_requests
    summaries = 2
    assert len(found.rows) <= len(intact.rows) + left_out + summaries


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just("\ud800"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_any_value_may_be_of_any_type(file: Path, data: st.DataObject) -> None:
    text = file.read_text("utf-8")
    documents = (
        [json.loads(line) for line in text.splitlines()] if file.suffix == ".jsonl" else [json.loads(text)]
    )
    for document in documents:
        holder: Any = document
        for _ in range(data.draw(st.integers(0, 5))):
            inside = list(holder.values()) if isinstance(holder, dict) else holder
            below = [value for value in inside if isinstance(value, (dict, list)) and value]
            if not below:
                break
            holder = data.draw(st.sampled_from(below))
        if holder:
            key = data.draw(st.sampled_from(list(holder) if isinstance(holder, dict) else range(len(holder))))
            holder[key] = data.draw(JSON)
    every_number(read("\n".join(json.dumps(document) for document in documents).encode()).rows)


def test_a_line_that_is_broken_costs_that_line() -> None:
    lines = (SAMPLES / "aiperf-requests.jsonl").read_bytes().splitlines(keepends=True)
    lines[3] = lines[3][:80] + b"\n"
    found = read(b"".join(lines))
    assert [row.line for row in found.requests] == [1, 5]
    assert found.source.problem is None
    assert found.source.reader.counts.incomplete_requests == 1


def test_too_large_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_reader, "MAX_BYTES", 2000)
    data = (SAMPLES / "guidellm-v1.json").read_bytes()
    found = read(data[:1000], data[1000:], b"more")
    assert not found.rows
    assert found.source.problem is not None
    assert found.source.problem.startswith("is too large")


def test_deep_nesting_is_broken_json() -> None:
    head = b'{"model_id": "m", "num_prompts": 1, "request_rate": "inf", "x": '
    found = read(head + b"[" * 100_000)
    assert not found.rows
    assert found.source.problem is not None


def test_read_rows_raises_for_a_document_that_is_cut_off(tmp_path: Path) -> None:
    file = tmp_path / "individual.json"
    whole = (SAMPLES / "llmperf-individual.json").read_bytes()
    file.write_bytes(whole)
    assert read_rows(file).requests.height == 3
    file.write_bytes(whole[:-40])
    with pytest.raises(DocumentError, match="cut off or broken; what stands before the break was read"):
        read_rows(file)


# --- what is a document, and whose


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_one_document_claims_a_file(file: Path) -> None:
    head = file.read_bytes()
    claims = [fmt.engine for fmt in FORMATS for document in fmt.documents if document.detect(head)]
    assert claims == [expected_of(file)["engine"]]


@pytest.mark.parametrize("engine", ["vllm", "guidellm"])
def test_another_engine_reads_no_file_of_a_benchmark(engine: str) -> None:
    source = SourceReader(Stream("file", engine=engine), engine=engine)
    rows = source.feed((SAMPLES / "vllm-bench-summary.json").read_bytes()) + source.close()
    assert not rows
    assert not source.reader.matched[engine]


def test_a_log_that_begins_with_a_brace_is_a_log() -> None:
    body = b'{"model":"m","created_at":"2026-01-02T03:04:05Z","done":true,"done_reason":"stop",'
    body += b'"total_duration":2000000000,"load_duration":1000000,"prompt_eval_count":26,'
    body += b'"prompt_eval_duration":300000000,"eval_count":29,"eval_duration":1500000000}\n'
    found = read(body[:1], body[1:])
    assert isinstance(found.source.reader, Stream)
    assert [row.engine for row in found.requests] == ["ollama"]


# --- arithmetic


def detailed(**changes: Any) -> bytes:
    run = json.loads((SAMPLES / "vllm-bench-detailed.json").read_text("utf-8"))
    return json.dumps(run | changes).encode()


def test_a_first_token_after_the_last_is_no_time() -> None:
    found = read(detailed(latencies=[0.01] * 6))
    assert all(row.ttft_ms is None and row.total_ms is None for row in found.requests)
    assert found.source.reader.counts.impossible_values == 5


def test_an_answer_in_one_piece_has_no_first_token() -> None:
    found = read(detailed(itls=[[]] * 6))
    assert all(row.ttft_ms is None and row.decode_ms is None and row.total_ms for row in found.requests)


def test_more_pieces_than_tokens_make_the_count_unknown() -> None:
    found = read(detailed(output_lens=[1] * 6))
    assert all(row.output_tokens is None and row.decode_steps is None for row in found.requests)


def test_arrays_of_unequal_length_are_no_requests() -> None:
    found = read(detailed(input_lens=[1, 2]))
    assert not found.requests
    assert [row.requests for row in found.aggregates] == [5]


@given(st.lists(st.tuples(st.integers(1, 10**6), st.lists(st.integers(1, 10**5), max_size=40)), min_size=1))
@settings(max_examples=60, deadline=None)
def test_requests_come_back(answers: list[tuple[int, list[int]]]) -> None:
    """Whatever the times in microseconds are, the rows give them back, and their sum is the total."""
    run = {
        "model_id": "m",
        "num_prompts": len(answers),
        "request_rate": "inf",
        "completed": len(answers),
        "input_lens": [7] * len(answers),
        "output_lens": [len(gaps) + 1 for _, gaps in answers],
        "ttfts": [first / 1e6 for first, _ in answers],
        "itls": [[gap / 1e6 for gap in gaps] for _, gaps in answers],
        "errors": [""] * len(answers),
    }
    rows = read(json.dumps(run).encode()).requests
    for row, (first, gaps) in zip(rows, answers, strict=True):
        assert row.total_ms == pytest.approx((first + sum(gaps)) / 1000, abs=1e-5)
        if row.ttft_ms is None:  # 10 microseconds a token: it came at once
            assert sum(gaps) < 10 * len(gaps)
        else:
            assert row.ttft_ms == pytest.approx(first / 1000, abs=1e-5)
            assert row.decode_ms == pytest.approx(sum(gaps) / 1000, abs=1e-5)
            assert row.decode_steps == len(gaps)


# --- as a user gives it


def test_compressed(tmp_path: Path) -> None:
    from advisor.reading import read as read_inputs

    file = tmp_path / "benchmarks.json.gz"
    file.write_bytes(gzip.compress((SAMPLES / "guidellm-v1.json").read_bytes()))
    reading = read_inputs([str(file)])
    assert [(s.engine, s.requests, s.failed_requests) for s in reading.sources] == [("guidellm", 7, 4)]


def test_a_cut_file_is_a_problem_and_the_rest_is_read(tmp_path: Path) -> None:
    from advisor.reading import read as read_inputs

    cut, whole = tmp_path / "cut.json", tmp_path / "whole.json"
    data = (SAMPLES / "inference-perf-requests.json").read_bytes()
    cut.write_bytes(data[: data.index(b"HTTP Error")])
    whole.write_bytes(data)
    reading = read_inputs([str(cut), str(whole)])
    assert [source.requests for source in reading.sources] == [3, 3]
    assert len(reading.problems) == 1
    assert reading.problems[0].startswith(f"{cut} is a report of inference-perf whose JSON is cut off")


def test_a_document_broken_from_its_start_is_a_problem(tmp_path: Path) -> None:
    from advisor.reading import read as read_inputs

    file = tmp_path / "benchmarks.json"
    file.write_bytes((SAMPLES / "guidellm-v2-sampled.json").read_bytes()[:-1])
    reading = read_inputs([str(file)])
    assert not reading.sources
    assert reading.problems == [f"{file} is a GuideLLM report whose JSON is cut off or broken."]


def test_clocks_without_a_zone_are_left_out() -> None:
    found = read((SAMPLES / "aiperf-summary.json").read_bytes())
    assert all(getattr(row, name, None) is None for row in found.aggregates for name in TIMES)
