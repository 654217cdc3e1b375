"""A format as a TOML file reads like a built-in one, and what is wrong with one is pointed at."""

from __future__ import annotations

import tomllib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers import FORMATS, Stream
from parsers.formats.user import FormatFileError, load, parse
from parsers.formats.user.ambiguous import never_ends
from parsers.formats.user.messages import message
from parsers.formats.user.places import inside, places
from parsers.formats.user.samples import problems
from parsers.formats.user.trial import problems_in_time
from parsers.limits import SlowPatternError
from parsers.records import Request
from tests.parsers.reading import Read, join

if TYPE_CHECKING:
    from random import Random

SINGLE = r"""
engine = "toy"
title = "toy"
versions = "all"
identify = ["toy: "]
decode_steps = "output_tokens"

[[line]]
name = "done"
needle = "toy: "
pattern = 'PATTERN'
units = { prefill_ms = "s", decode_ms = "tokens/s", total_ms = "duration" }
"""
SINGLE = SINGLE.replace(
    "PATTERN",
    r"toy: (?P<prompt_tokens>\S+) prompt, (?P<cached_tokens>\S+) cached, (?P<prefill_ms>\S+) read, "
    r"(?P<output_tokens>\S+) out, (?P<decode_ms>\S+) write, (?P<total_ms>\S+) all",
)
LINE = "toy: {} prompt, {} cached, {} read, {} out, {} write, {} all"
KEYED = r"""
engine = "toy"
title = "toy"
versions = "all"
identify = ["toy "]
join = "keyed"
key = ["slot", "request_id"]
begin = "begin"
end = "write"

[[line]]
name = "begin"
needle = "toy "
pattern = 'toy (?P<slot>\d+)/(?P<request_id>\w+) begins'

[[line]]
name = "read"
needle = "toy "
pattern = 'toy (?P<slot>\d+)/(?P<request_id>\w+) read (?P<prefill_tokens>\d+) in (?P<prefill_ms>\d+)'

[[line]]
name = "write"
needle = "toy "
pattern = 'toy (?P<slot>\d+)/(?P<request_id>\w+) wrote (?P<output_tokens>\d+) in (?P<decode_ms>\d+)'

[[line]]
name = "failed"
needle = "toy "
tells = "failed"
pattern = 'toy (?P<slot>\d+)/(?P<request_id>\w+) failed'

[[line]]
name = "start"
needle = "toy "
tells = "start"
pattern = 'toy (?P<engine_version>[\d.]+) serves (?P<model>\S+), context (?P<context>\d+)'
"""


def read(file: str, log: bytes) -> Read:
    stream = Stream("log", formats=(load(file), *FORMATS), year=2026)
    rows = stream.feed(log)
    return Read(stream, rows + stream.close())


def told(log: Read) -> list[tuple[Any, ...]]:
    return [(r.slot, r.request_id, r.prefill_tokens, r.prefill_ms, r.decode_ms) for r in log.requests]


# --- values


def test_what_is_printed_becomes_the_contracts() -> None:
    log = read(SINGLE, join([LINE.format("1,000", 360, "0.5", 41, "20.00", "2.6s")]))
    [row] = log.requests
    assert (row.prompt_tokens, row.cached_tokens, row.prefill_tokens) == (1000, 360, 640)
    assert (row.prefill_ms, row.decode_ms, row.decode_steps) == (500.0, 2050.0, 41)
    assert (row.ttft_ms, row.ttft_from, row.total_ms) == (500.0, "slot", 2600.0)
    assert (row.line, row.first_line, row.offset, row.engine) == (1, 1, 0, "toy")
    assert log.stream.counts.impossible_values == 0


@pytest.mark.parametrize(
    ("values", "unknown", "impossible"),
    [
        (("-5", 0, "0.5", 41, "20.0", "9s"), {"prompt_tokens", "prefill_tokens"}, 1),
        ((1000, 0, "-0.5", 41, "20.0", "9s"), {"prefill_ms", "ttft_ms", "ttft_from"}, 1),
        ((1000, 0, "1772445600", 41, "20.0", "9s"), {"prefill_ms", "ttft_ms", "ttft_from"}, 1),
        ((1000, 0, "nan", 41, "inf", "9s"), {"prefill_ms", "ttft_ms", "ttft_from", "decode_ms"}, 0),
        ((1000, 0, "0.5", 41, "1", "9s"), {"decode_ms"}, 0),  # a rate of one digit tells no time
        ((1000, 0, "0.5", 41, "0.00", "9s"), {"decode_ms"}, 0),
        ((1000, 2000, "0.5", 41, "20.0", "9s"), {"cached_tokens", "prefill_tokens"}, 1),
        ((1000, 0, "5.5", 41, "20.0", "2.6s"), {"total_ms"}, 1),
        (("1,0", "1,00,0", "0.5", 41, "20.0", "9s"), {"prompt_tokens", "cached_tokens", "prefill_tokens"}, 0),
        ((1000, 0, "12,5", 41, "20.0", "99s"), {"prefill_ms", "ttft_ms", "ttft_from"}, 0),
        ((1000, 0, "0.5", 41, "1,234,5", "9s"), {"decode_ms"}, 0),
        (("some", "-", "0.5", "no", "20.0", "long"), {"prompt_tokens", "cached_tokens", "prefill_tokens"}, 0),
    ],
)
def test_what_cannot_be_is_left_out(values: tuple[object, ...], unknown: set[str], impossible: int) -> None:
    log = read(SINGLE, join([LINE.format(*values)]))
    [row] = log.requests
    known = ("prompt_tokens", "cached_tokens", "prefill_tokens", "prefill_ms", "ttft_ms", "ttft_from")
    missing = {name for name in (*known, "decode_ms", "total_ms") if getattr(row, name) is None}
    assert missing >= unknown
    assert missing - unknown <= {"decode_ms", "total_ms"}
    assert log.stream.counts.impossible_values == impossible
    assert row.decode_ms is not None or row.decode_steps is None


@pytest.mark.parametrize(
    ("layout", "printed", "clock"),
    [
        ("iso", "2026-03-02T10:00:00.5+01:00", datetime(2026, 3, 2, 9, 0, 0, 500_000, UTC)),
        ("iso", "2026-03-02T10:00:00,5", datetime(2026, 3, 2, 10, 0, 0, 500_000, UTC)),
        ("unix", "1772445600.25", datetime(2026, 3, 2, 10, 0, 0, 250_000, UTC)),
        ("unix_ms", "1772445600250", datetime(2026, 3, 2, 10, 0, 0, 250_000, UTC)),
        ("%m-%d %H:%M:%S", "03-02 10:00:00", datetime(2026, 3, 2, 10, tzinfo=UTC)),
        ("unix", "1e300", None),
        ("iso", "yesterday", None),
        ("unix", "12", None),
    ],
)
def test_clocks(layout: str, printed: str, clock: datetime | None) -> None:
    file = SINGLE.replace("toy: (", r"(?P<time>.+?) toy: (").replace(
        '"toy: "]', f'"toy: "]\nclock = "{layout}"'
    )
    [row] = read(file, join([f"{printed} " + LINE.format(9, 0, "0.5", 4, "20.0", "1s")])).requests
    assert row.finished_at == clock


INTERVALS = r"""
engine = "toy"
title = "toy"
versions = "all"
grain = "interval"
identify = ["toy step"]
constants = { kind = "window", span_ms = 10_000 }

[[line]]
name = "step"
needle = "toy step"
pattern = 'PATTERN'
units = { kv_usage = "%" }
""".replace(
    "PATTERN",
    r"toy step: (?P<prefill_tok_s>\S+) in, (?P<decode_tok_s>\S+) out, (?P<waiting>\d+) wait, "
    r"(?P<kv_usage>[\d.]+)%",
)


@pytest.mark.parametrize(
    ("rates", "phase"),
    [
        (("5.0", "0.0"), "prefill"),
        (("0.0", "3.0"), "decode"),
        (("5.0", "3.0"), "mixed"),
        (("0", "0"), "queue"),
        (("-", "2"), "unknown"),
    ],
)
def test_windows(rates: tuple[str, str], phase: str) -> None:
    log = read(INTERVALS, join([f"toy step: {rates[0]} in, {rates[1]} out, 3 wait, 42.5%"]))
    [row] = log.intervals
    assert (row.phase, row.kind, row.span_ms, row.waiting, row.kv_usage) == (
        phase,
        "window",
        10_000,
        3,
        0.425,
    )
    assert not log.requests


# --- joins


def lines_of(slot: int, task: str, n: int, ending: str) -> list[str]:
    name = f"toy {slot}/{task}"
    read_ = [f"{name} begins", f"{name} read {n} in {n + 1}"]
    ends = {"done": [f"{name} wrote {n} in {n + 2}"], "failed": [f"{name} failed"], "open": []}
    return read_ + ends[ending]


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(1, 99), st.sampled_from(["done", "failed", "open"])),
        max_size=12,
    ),
    st.randoms(use_true_random=False),
)
def test_keyed_lines_come_back_however_they_interleave(
    asked: list[tuple[int, int, str]], random: Random
) -> None:
    sides = [lines_of(slot, f"t{i}", n, ending) for i, (slot, n, ending) in enumerate(asked)]
    mixed = []
    while any(sides):
        mixed.append(random.choice([side for side in sides if side]).pop(0))
    log = read(KEYED, join(["toy 1.0 serves m, context 4096", *mixed]))
    done = [(slot, f"t{i}", n, n + 1.0, n + 2.0) for i, (slot, n, e) in enumerate(asked) if e == "done"]
    assert sorted(told(log)) == sorted(done)
    counts = log.stream.counts
    assert counts.failed_requests == sum(ending == "failed" for *_, ending in asked)
    assert counts.incomplete_requests == sum(ending == "open" for *_, ending in asked)
    assert (log.setup.model, log.setup.context, log.setup.engine_version) == ("m", 4096, "1.0")


def test_lines_of_a_request_that_never_began_are_nobodys() -> None:
    assert told(read(KEYED, join(lines_of(0, "a", 5, "done")[1:]))) == []


def test_a_start_is_a_new_process() -> None:
    start = "toy 1.0 serves m, context 4096"
    log = read(KEYED, join([start, *lines_of(0, "a", 5, "open"), start, *lines_of(0, "b", 6, "done")]))
    assert [(row.request_id, row.run) for row in log.requests] == [("b", 1)]
    assert log.stream.counts.incomplete_requests == 1


def test_adjacent_lines_end_where_others_go_on_too_long() -> None:
    file = KEYED.replace('join = "keyed"\nkey = ["slot", "request_id"]', 'join = "adjacent"')
    head, read_, wrote = lines_of(0, "a", 5, "done")
    near, far = ["something else"] * 3, ["something else"] * 30
    assert len(told(read(file, join([head, *near, read_, *near, wrote])))) == 1
    log = read(file, join([head, read_, *far, wrote, head, read_, head, read_, wrote]))
    assert told(log) == [(0, "a", 5, 6.0, 7.0)]
    assert log.stream.counts.incomplete_requests == 2
    assert log.requests[0].first_line == 36


def test_a_users_format_goes_before_a_built_in_one() -> None:
    ours = SINGLE.replace('"toy: "', '"prompt eval time ="').replace("toy: (", "prompt eval time = (")
    line = LINE.format(9, 0, "0.5", 4, "20.0", "1s").replace("toy: ", "prompt eval time = ")
    assert [row.engine for row in read(ours, join([line])).requests] == ["toy"]


# --- what is wrong with a file

SAMPLE = """
[[sample]]
text = '''
toy: 1000 prompt, 360 cached, 0.5 read, 41 out, 20.00 write, 2.6s all
'''
requests = [{ line = 1, prefill_ms = 500.0, cached_tokens = 360 }]
"""
FILE = SINGLE + SAMPLE


def wrong(file: str) -> list[str]:
    """Each problem as it is printed."""
    try:
        found = problems(parse(file))
    except FormatFileError as error:
        found = error.problems
    return [message(file, "toy.toml", problem) for problem in found]


def test_nothing_is_wrong() -> None:
    assert wrong(FILE) == []


@pytest.mark.parametrize(
    ("old", "new", "says", "pointed"),
    [
        ('title = "toy"', 'title = "toy', "no TOML", ""),
        ("decode_steps", "decode_step", "unknown key 'decode_step'", "decode_step"),
        ('versions = "all"\n', "", "'versions' is missing", ""),
        ('"toy: "\n', '"to"\n', "should have at least 3 characters", '"to"'),
        ('engine = "toy"', 'engine = "My Toy"', "doesn't fit here", '"My Toy"'),
        (r"(?P<total_ms>\S+) all", r"(?P<total_ms>\S+ all", "regular expression: missing )", "(?P<total"),
        ("(?P<cached_tokens>", "(?P<cache_tokens>", "'cache_tokens' is no column", "cache_tokens>"),
        ('prefill_ms = "s"', 'prefill_ms = "h"', "input should be", '"h"'),
        ('total_ms = "duration"', 'total_ms = "tokens/s"', "can't be printed in tokens/s", '"tokens/s"'),
        ('total_ms = "duration"', 'queue_ms = "s"', "no group 'queue_ms'", "queue_ms"),
        ('decode_steps = "output_tokens"\n', "", "how many tokens", '"tokens/s"'),
        ("identify", 'join = "adjacent"\nend = "gone"\nidentify', "no line is called 'gone'", '"gone"'),
        ("identify", 'join = "keyed"\nidentify', "need a key", "join"),
        ("identify", 'clock = "seconds"\nidentify', "no layout of a time", '"seconds"'),
        ("identify", 'constants = { kind = "chat" }\nidentify', "'kind' can't be 'chat'", '"chat"'),
        ("identify", 'constants = { slot = "0" }\nidentify', "'0' is no int", '"0"'),
        ("identify", "constants = { queue_ms = -5.0 }\nidentify", "can't be -5.0", "-5.0"),
        ("identify", "constants = { queue_ms = nan }\nidentify", "can't be nan", "nan"),
        ("identify", "constants = { queue_ms = inf }\nidentify", "can't be inf", "inf"),
        ("identify", "constants = { slot = -1 }\nidentify", "can't be -1", "-1"),
        ("identify", "constants = { load_ms = 1e300 }\nidentify", "can't be 1e+300", "1e300"),
        *(
            ("identify", f'clock = "{clock}"\nidentify', "no layout of a time", f'"{clock}"')
            for clock in ("%Y %Y", "%", "%q", "%G", "%Y-%m-%dT%")
        ),
        ('needle = "toy: "', 'needle = "toys: "', "lacks its needle", '"toys: "'),
        ('identify = ["toy: "]', 'identify = ["toy: ", "tuy: "]', "no sample holds 'tuy: '", '"tuy: "'),
        ("toy: 1000 prompt,", "toy: 1000 promt,", "comes furthest and stops here", "t, 360"),
        ("20.00 write", "20.00 wrote", "stops here", "ote, "),
        ("prefill_ms = 500.0", "prefill_ms = 500.5", "expected 500.5, got 500.0", "500.5"),
        ("cached_tokens = 360 }", "queue_ms = 1 }", "expected 1, got nothing", "1 }"),
        ("cached_tokens = 360 }]", "slots = 1 }]", "'slots' is no column", "slots"),
        ("cached_tokens = 360 }]", "cached_tokens = 360 }, { line = 2 }]", "got 1 in all", "{ line = 2 }"),
        ("[{ line = 1, prefill_ms = 500.0, cached_tokens = 360 }]", "[]", "got 1;", "requests"),
        (SAMPLE, "", "no sample", ""),
    ],
)
def test_a_problem_is_pointed_at(old: str, new: str, says: str, pointed: str) -> None:
    assert old in FILE
    [said] = wrong(FILE.replace(old, new))
    head, shown, caret = said.split("\n")[:3]
    assert says in head
    name, line, column, _ = head.split(":", 3)
    assert name == "toy.toml"
    row = FILE.replace(old, new).split("\n")[int(line) - 1]
    assert row[int(column) - 1 :].startswith(pointed)
    if pointed:
        assert shown[caret.index("^") :].startswith(pointed[:3])


def test_a_decimal_comma_is_pointed_at() -> None:
    file = FILE.replace("360 cached, 0.5 read", "360 cached, 0,5 read").replace("prefill_ms = 500.0, ", "")
    [said] = wrong(file)
    assert "'prefill_ms' is '0,5' in a sample" in said
    assert "(?P<prefill_ms>" in said


@pytest.mark.parametrize(
    "pattern", [r"(a+)+$", "(a*)*b", r"(\w+\s?)*$", r"^(\d+,?)+$", "(?:a|a?)+b", "(?:x*y*)*z", "a(?=(b+)+c)"]
)
def test_a_pattern_that_never_ends_is_no_format(pattern: str) -> None:
    said = wrong(FILE.replace(r"(?P<total_ms>\S+) all", rf"(?P<total_ms>\S+) all{pattern}"))
    assert "never ends" in said[0]
    assert "(a+)+" in said[0]


@pytest.mark.parametrize(
    "pattern",
    [r"(?:\d+\.)*\d+", r'(?:[^"\\]|\\.)*"', r"(?:\w+=\d+,)*", "(a++)+b", "(?>a+)+b", "(?:a|b)*c", ".*a.*b"],
)
def test_repeats_in_repeats_that_end(pattern: str) -> None:
    assert not never_ends(pattern.encode())


def test_the_projects_own_patterns_end() -> None:
    assert not [line.name for fmt in FORMATS for line in fmt.lines if never_ends(line.pattern.pattern)]


def test_a_pattern_that_takes_too_long_is_named() -> None:
    slow = FILE.replace(r"(?P<total_ms>\S+) all", r"(?P<total_ms>\S+) all.*a.*a.*a.*a.*a.*b$")
    slow = slow.replace("2.6s all", "2.6s all" + " a" * 600)
    assert " a a a" in slow
    [problem] = problems_in_time(parse(slow), limit_s=0.5)
    assert (problem.path, problem.says[:20]) == (("line", 0, "pattern"), "'done' takes longer ")
    assert problems_in_time(parse(FILE)) == []
    assert problems_in_time(parse(FILE.replace("prefill_ms = 500.0", "prefill_ms = 1"))) != []


def test_reading_ends_where_a_pattern_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parsers.limits.LIMIT_S", 0.2)
    stream = Stream("log", formats=(load(SINGLE.replace(" all", " all.*a.*a.*a.*a.*a.*b$"), "my.toml"),))
    with pytest.raises(SlowPatternError, match=r"my.toml: the pattern of 'done' takes longer than 0.2 s"):
        stream.feed(b"toy: 1 prompt, 1 cached, 1 read, 1 out, 1 write, 1s all" + b" a" * 600 + b"\n")


def test_a_clock_without_a_year_rolls_over_new_year() -> None:
    file = SINGLE.replace("toy: (?P<prompt", r"(?P<time>\S+ \S+) toy: (?P<prompt").replace(
        "decode_steps", 'clock = "%m-%d %H:%M:%S"\ndecode_steps'
    )
    clocks = ("12-31 23:59:58", "01-01 00:00:03", "12-31 23:59:59")
    told = "toy: 1 prompt, 0 cached, 1 read, 1 out, 1 write, 2s all"
    latest = datetime(2028, 3, 1, tzinfo=UTC)
    stream = Stream("log", formats=(load(file), *FORMATS), latest=latest)
    rows = stream.feed(join(f"{clock} {told}" for clock in clocks)) + stream.close()
    assert [row.finished_at for row in rows if isinstance(row, Request)] == [
        datetime(2027, 12, 31, 23, 59, 58, tzinfo=UTC),
        datetime(2028, 1, 1, 0, 0, 3, tzinfo=UTC),
        datetime(2027, 12, 31, 23, 59, 59, tzinfo=UTC),
    ]


def test_a_line_that_no_sample_shows_is_named() -> None:
    more = FILE.replace(
        "\n[[sample]]", "[[line]]\nname = 'more'\nneedle = 'toy: '\npattern = 'toy: x'\n\n[[sample]]"
    )
    assert "no sample has a line 'more'" in wrong(more)[0]


@given(
    st.integers(0, len(FILE)),
    st.integers(0, 6),
    st.sampled_from(["", '"', "[", "]", "(", "{", "x", "'", "9"]),
)
def test_whatever_is_wrong_can_be_said(at: int, size: int, instead: str) -> None:
    for said in wrong(FILE[:at] + instead + FILE[at + size :]):
        assert said.startswith("toy.toml:")
        assert "^" in said


@pytest.mark.parametrize("file", ["", "a = " + "[" * 5000, "a = " + "9" * 5000, "\0", "[line]", "line = [1]"])
def test_what_is_no_format_at_all(file: str) -> None:
    assert wrong(file)


# --- places

_KEY = st.sampled_from(["a", "b-c", '"q k"', "'x'"])
_TEXT = st.text(st.sampled_from("ab \t#[]{}=,\"'\\né"), max_size=8)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'


_SCALAR = st.one_of(
    _TEXT.map(_quoted), st.integers().map(str), st.sampled_from(["true", "1979-05-27 07:32:00"])
)
_VALUE = st.recursive(
    _SCALAR,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"[ {', '.join(items)} ]"),
        st.dictionaries(_KEY, inner, max_size=3).map(
            lambda table: f"{{ {', '.join(f'{k} = {v}' for k, v in table.items())} }}"
        ),
    ),
    max_leaves=6,
)
_TABLE = st.dictionaries(_KEY, _VALUE, max_size=4)


def _leaves(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[tuple[str | int, ...], Any]]:
    if isinstance(value, dict):
        return [leaf for key, one in value.items() for leaf in _leaves(one, (*path, key))]
    if isinstance(value, list):
        return [leaf for index, one in enumerate(value) for leaf in _leaves(one, (*path, index))]
    return [(path, value)]


@given(_TABLE, st.lists(st.tuples(st.sampled_from(["[[t]]", "[[t.u]]", "[v]"]), _TABLE), max_size=4))
def test_every_value_has_its_place(top: dict[str, str], tables: list[tuple[str, dict[str, str]]]) -> None:
    body = [(None, top), *tables]
    text = "".join(
        (f"{head} # here\n" if head else "") + "".join(f"{k} = {v} # {k}\n" for k, v in pairs.items())
        for head, pairs in body
    )
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError:  # two tables [v]
        return
    found = places(text)
    for path, value in _leaves(data):
        at = found[path].value
        if isinstance(value, str):
            spelled = "".join(text[inside(text, at, i)] for i in range(len(value)))
            assert [a for a, b in zip(spelled, value, strict=True) if a not in (b, "\\")] == []
        elif type(value) is int:
            assert text[at:].startswith(str(value))
