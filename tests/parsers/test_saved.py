"""A reader put by and resumed goes on as if it had never stopped, and a state is data."""

from __future__ import annotations

import functools
import os
import pickle
import pickletools
import re
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import parsers.formats
from parsers import FORMATS, SourceReader, Stream
from parsers.formats.base import Line
from parsers.formats.user import load
from parsers.saved import Hook, StateError, blank, hook, resumed, saved
from parsers.setup import Setup
from tests.parsers.reading import join
from tests.parsers.test_user_formats import KEYED, LINE, SINGLE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from parsers.formats.base import Format
    from parsers.records import Row

ROOT = Path(__file__).resolve().parents[2]
LOGS = sorted((ROOT / "sample_logs").rglob("*.log"))
SAMPLES = sorted((Path(parsers.formats.__file__).parent / "samples").glob("*.log"))
MOST = 8
LATEST = datetime(2026, 11, 30, tzinfo=UTC)


def _reader(formats: Sequence[Format] = FORMATS, latest: datetime = LATEST) -> SourceReader:
    return SourceReader(Stream("log", formats=formats, latest=latest), formats=formats)


def _told(reader: SourceReader, rows: list[Row]) -> tuple[object, ...]:
    by = reader.reader
    return repr(rows), by.engine, by.lines, by.bytes, by.counts, list(by.setup_of_run)


def _whole(text: bytes, formats: Sequence[Format] = FORMATS) -> tuple[object, ...]:
    reader = _reader(formats)
    return _told(reader, reader.feed(text) + reader.close())


def _in_pieces(text: bytes, cuts: Sequence[int], formats: Sequence[Format] = FORMATS) -> tuple[object, ...]:
    """With the reader put by at each cut; one of a document is not."""
    reader, rows, at = _reader(formats), list[Any](), 0
    for cut in sorted(cuts):
        rows += reader.feed(text[at:cut])
        state = saved(reader, formats)
        assert (state is None) == (reader.reader is not reader.log)
        if state is not None:
            reader = resumed(state, formats)
        at = cut
    return _told(reader, rows + reader.feed(text[at:]) + reader.close())


@pytest.mark.parametrize("log", SAMPLES, ids=lambda path: path.stem)
def test_every_reader_goes_on_from_any_line(log: Path) -> None:
    text = log.read_bytes()
    ends = [found.end() for found in re.finditer(rb"\n", text)]
    some = ends[:: max(1, len(ends) // MOST)]
    torn = [end + (following - end) // 2 for end, following in pairwise(ends)]
    assert _in_pieces(text, [*some, *torn[:: max(1, len(torn) // 3)]]) == _whole(text)


@pytest.mark.parametrize("log", LOGS, ids=lambda path: path.name)
@settings(max_examples=6, deadline=None)
@given(st.data())
def test_going_on_elsewhere_changes_nothing(log: Path, data: st.DataObject) -> None:
    text = log.read_bytes()
    if data.draw(st.booleans()):
        text = text.replace(b"\n", b"\r\n")
    assert _in_pieces(text, data.draw(st.lists(st.integers(0, len(text)), max_size=3))) == _whole(text)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_in_another_encoding(encoding: str) -> None:
    text = ("\ufeff" + LOGS[0].read_text(encoding="utf-8")[:4000]).encode(encoding)
    assert _in_pieces(text, [1, 2, 3, 1001, 2002]) == _whole(text)


def test_a_journals_export() -> None:
    lines = LOGS[0].read_bytes().splitlines()[:200]
    text = b"".join(
        b"__CURSOR=s=%d\n__REALTIME_TIMESTAMP=17646%08d00\n_SYSTEMD_UNIT=a.service\nMESSAGE=%b\n\n"
        % (n, n, line)
        for n, line in enumerate(lines)
    )
    assert _in_pieces(text, range(0, len(text), 3001)) == _whole(text)


CLOCKED = SINGLE.replace("toy: (", r"toy: (?P<time>\d\d-\d\d) (").replace(
    "decode_steps", 'clock = "%m-%d"\ndecode_steps'
)
DONE = LINE.format(9, 4, 1.5, 3, 2.0, "4s")
USERS = {
    "single": (SINGLE, [DONE] * 20),
    "clocked": (
        CLOCKED,
        [DONE.replace("toy: ", f"toy: {day} ") for day in ("12-30", "12-31", "01-01", "01-02")],
    ),
    "keyed": (
        KEYED,
        [f"toy {n % 3}/{n // 3} {what}" for n in range(9) for what in ("begins", "read 5 in 40")]
        + [f"toy {n % 3}/{n // 3} wrote 7 in 90" for n in range(8)],
    ),
}


@pytest.mark.parametrize("name", USERS)
def test_a_users_format(name: str) -> None:
    file, lines = USERS[name]
    formats, log = (load(file, "my.toml"), *FORMATS), join(lines)
    assert "Request(" in str(_whole(log, formats)[0])
    assert _in_pieces(log, range(0, len(log), 37), formats) == _whole(log, formats)


VLLM = (
    b"INFO %b 10:00:00 [loggers.py:123] Engine 000: Avg prompt throughput: 1.0 tokens/s, Avg generation "
    b"throughput: 2.0 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.1%%, "
    b"Prefix cache hit rate: 0.0%%\n"
)


@pytest.mark.parametrize(
    ("first", "then", "second", "later"),
    [
        ("12-30", datetime(2026, 12, 30, 11, tzinfo=UTC), "01-02", datetime(2027, 1, 2, 11, tzinfo=UTC)),
        ("12-30", datetime(2027, 1, 1, 11, tzinfo=UTC), "01-02", datetime(2027, 1, 2, 11, tzinfo=UTC)),
        ("", datetime(2026, 12, 30, 11, tzinfo=UTC), "01-02", datetime(2027, 1, 2, 11, tzinfo=UTC)),
        ("03-01", datetime(2026, 3, 1, 11, tzinfo=UTC), "03-02", datetime(2026, 3, 2, 11, tzinfo=UTC)),
    ],
)
def test_a_clock_without_a_year(first: str, then: datetime, second: str, later: datetime) -> None:
    """It says the same whenever it was put by; also where its first line comes later than that."""
    begun = VLLM % first.encode() if first else b"vLLM API server version 0.11.0\n"
    text = begun + VLLM % second.encode()
    whole = _reader(latest=later)
    expected = _told(whole, whole.feed(text) + whole.close())
    reader = _reader(latest=then)
    rows = reader.feed(begun)
    state = saved(reader)
    assert state is not None
    reader = resumed(state, latest=later)
    assert _told(reader, rows + reader.feed(text[len(begun) :]) + reader.close()) == expected


@pytest.mark.parametrize(("days", "good"), [(360, True), (366, False)])
def test_a_year_that_is_unsure_is_not_gone_on_with(days: int, good: bool) -> None:
    """Read whole a year later, the log would begin in another year."""
    reader = _reader(latest=datetime(2026, 3, 1, 11, tzinfo=UTC))
    reader.feed(VLLM % b"03-01")
    state = saved(reader)
    assert state is not None
    later = datetime(2026, 3, 1, 11, tzinfo=UTC) + timedelta(days=days)
    with nullcontext() if good else pytest.raises(StateError):
        resumed(state, latest=later)


def test_a_state_names_no_format_class_or_pattern() -> None:
    reader = _reader()
    reader.feed(LOGS[0].read_bytes())
    state = saved(reader)
    assert state is not None
    texts = {arg for op, arg, _ in pickletools.genops(state) if isinstance(arg, str)}
    assert not texts & {"re", "_compile", "getattr", "partial", "Trial", "Format", "Line"}


# --- forged states


@dataclass(frozen=True)
class Global:
    """What is looked up by these names, whatever it is."""

    module: str
    name: str


class Forged:
    """A call of something with these arguments."""

    def __init__(self, call: Any, *given: Any) -> None:
        self.call, self.given = call, given

    def __reduce__(self) -> Any:
        return self.call, self.given


def forged(value: Any) -> bytes:
    """A pickle, written by hand."""
    return b"\x80\x04" + _code(value) + pickle.STOP


def _code(value: Any) -> bytes:
    if isinstance(value, Global):
        return _code(value.module) + _code(value.name) + pickle.STACK_GLOBAL
    if isinstance(value, Forged):
        return _code(value.call) + _code(value.given) + pickle.REDUCE
    if isinstance(value, tuple):
        return pickle.MARK + b"".join(map(_code, value)) + pickle.TUPLE
    return pickle.dumps(value, 2)[2:-1]


BLANK, HOOK = Global("parsers.saved", "blank"), Global("parsers.saved", "hook")
TOUCH = "touch forged-state-was-run"
PAYLOAD = pickle.dumps(Forged(os.system, TOUCH))
GETATTR = Global("builtins", "getattr")
SETUP = Forged(BLANK, "parsers.setup", "Setup")

FORGED: dict[str, Any] = {
    "os.system": Forged(Global("os", "system"), TOUCH),
    "posix.system": Forged(Global("posix", "system"), TOUCH),
    "eval": Forged(Global("builtins", "eval"), "1"),
    "import": Forged(Global("builtins", "__import__"), "os"),
    "a dotted name": Forged(Global("parsers.saved", "sys.modules"), "os"),
    "a dotted name of plain things": Forged(Global("collections", "abc.sys"), "os"),
    "a module's own import": Forged(Global("parsers.saved", "pickle"), PAYLOAD),
    "a partial, since some formats' readers are": Forged(Global("functools", "partial"), 1),
    "a class": Global("parsers.stream", "Stream"),
    "a class made with arguments": Forged(Global("parsers.limits", "Limited"), 1, 2),
    "getattr": Forged(GETATTR, SETUP, "parse_raw"),
    "pydantic's own unpickling": Forged(
        Forged(HOOK, SETUP, "parse_raw"), PAYLOAD, "pickle", "utf8", "pickle", True
    ),
    "a method before all is loaded": Forged(Forged(HOOK, SETUP, "learn"), "x"),
    "a class by blank": Forged(BLANK, "parsers.stream", "Stream", 1),
    "a builtin by blank": Forged(BLANK, "builtins", "type", "x", (), {}),
    "a function by blank": Forged(BLANK, "parsers.saved", "resumed", PAYLOAD),
    "another's class by blank": Forged(BLANK, "subprocess", "Popen", TOUCH),
    "what a home module imported, by blank": Forged(BLANK, "parsers.saved", "Any"),
    "a line by blank": Forged(BLANK, "parsers.formats.base", "Line"),
    "a module by blank": Forged(BLANK, "parsers.formats", "llama_cpp"),
    "what no module has yet": Forged(BLANK, "parsers.antigravity", "X"),
    "an extension": b"\x80\x02\x82\x01.",
    "a place that is none": b"\x80\x04K\xffKdQ.",
    "a persistent name": b"Pos\n.",
    "nothing": b"",
    "nonsense": b"nonsense",
    "a number": pickle.dumps(3),
    "an empty reader": Forged(BLANK, "parsers.source", "SourceReader"),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_state_is_refused_and_runs_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made = FORGED[name]
    with pytest.raises(StateError):
        resumed(made if isinstance(made, bytes) else forged(made))
    assert not list(tmp_path.iterdir())


def test_the_forger_forges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is refused above does run where nothing refuses it."""
    monkeypatch.chdir(tmp_path)
    pickle.loads(forged(FORGED["os.system"]))
    assert list(tmp_path.iterdir())


def _state(change: Callable[[SourceReader], None]) -> bytes:
    reader = _reader()
    reader.feed(LOGS[0].read_bytes()[:20_000])
    change(reader)
    state = saved(reader)
    assert state is not None
    return state


def _hidden_method(reader: SourceReader) -> None:
    reader.log._search.hits = []  # type: ignore[assignment,method-assign]


def _shadowed(reader: SourceReader) -> None:
    vars(reader.log)["feed"] = []


def _other_search(reader: SourceReader) -> None:
    reader.log._search = Setup()  # type: ignore[assignment]


def _other_reader(reader: SourceReader) -> None:
    reader.log._readers = {key: Setup() for key in reader.log._readers}  # type: ignore[misc]


@pytest.mark.parametrize("change", [_hidden_method, _shadowed, _other_search, _other_reader])
def test_what_decides_what_runs_is_whole(change: Callable[[SourceReader], None]) -> None:
    with pytest.raises((StateError, AttributeError, KeyError)):
        resumed(_state(change))


def test_what_calls_what_it_was_given_is_not_put_by() -> None:
    reader = _reader()
    for value in (
        Line("x", b"x", b"x"),
        functools.partial(os.system, TOUCH),
        os.system,
        re.compile("x"),
        Setup,
    ):
        vars(reader)["_head"] = value
        state = saved(reader)
        with pytest.raises(StateError):
            resumed(state or b"")


def test_a_hook_is_a_method_of_ours_and_waits() -> None:
    setup = Setup()
    for name in ("parse_raw", "model_copy", "__init__", "nothing", "source"):
        with pytest.raises(StateError):
            hook(setup, name).ready({"parsers"})
    learn = Hook(setup, "learn")
    with pytest.raises(StateError):
        learn("log line 1")
    learn.ready({"parsers"})
    learn("log line 1")
    with pytest.raises(StateError):
        blank("builtins", "object.__subclasses__")


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_broken_state_is_refused_or_read(data: st.DataObject) -> None:
    """Whatever bytes are changed: a state, or `StateError`."""
    state = bytearray(STATE)
    for at, value in data.draw(
        st.lists(st.tuples(st.integers(0, len(state) - 1), st.integers(0, 255)), min_size=1, max_size=4)
    ):
        state[at] = value
    size = data.draw(st.one_of(st.just(len(state)), st.integers(0, len(state))))
    with suppress(StateError):
        resumed(bytes(state[:size]))


STATE = _state(lambda reader: None)
