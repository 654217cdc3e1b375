"""Logs that come through pipes: standard input, and programs that are started."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import textwrap
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from advisor.errors import InputError
from advisor.sources import pipe
from advisor.sources.pipe import Piped
from advisor.sources.started import Command, Started, container, pod, unit
from parsers.records import Request
from parsers.stream import Stream
from tests.advisor.helpers import ROOT, Asked, prefixed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from advisor.sources.growing import Growing

LOG = prefixed([Asked(900, 700, 100, 2500)] * 3)
scripts = pytest.mark.skipif(sys.platform == "win32", reason="the stand-ins are scripts, not .exe files")


def rest(source: Growing, wait_s: float = 5.0) -> bytes:
    """All that is to come."""
    parts, until_s = [], time.monotonic() + wait_s
    while (data := source.read(0.1)) is not None:
        assert len(data) <= 1 << 20
        assert time.monotonic() < until_s
        parts.append(data)
    return b"".join(parts)


def python(code: str, *arguments: str, **more: object) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-c", textwrap.dedent(code), *arguments]
    return subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, **more)  # type: ignore[call-overload, no-any-return]


def test_a_piece_comes_as_it_is_written_and_the_end_is_told() -> None:
    with python(
        "import sys; print('one', end='', flush=True); sys.stdin.read()", stdin=subprocess.PIPE
    ) as it:
        piped = Piped(it.stdout)  # type: ignore[arg-type]
        assert piped.read(10) == b"one"
        assert piped.read(0) == b""
        it.stdin.close()  # type: ignore[union-attr]
        assert rest(piped) == b""
        assert piped.read(0) is None
        assert piped.notes() == []


def test_a_slow_reader_slows_the_writer_and_loses_nothing() -> None:
    code = """
        import sys
        for turn in range(20):
            sys.stdout.buffer.write(bytes([turn]) * (1 << 20))
            print(turn, file=sys.stderr, flush=True)
    """
    with python(code, stderr=subprocess.PIPE) as it:
        piped = Piped(it.stdout)  # type: ignore[arg-type]
        time.sleep(0.5)
        assert it.poll() is None
        assert it.stderr.read1(1 << 16).count(b"\n") <= 6  # type: ignore[union-attr]
        assert rest(piped, 20) == b"".join(bytes([turn]) * (1 << 20) for turn in range(20))
        assert piped.join(1)


def test_a_stream_that_is_no_file() -> None:
    assert rest(Piped(io.BytesIO(b"x" * (3 << 20)))) == b"x" * (3 << 20)


def test_what_was_written_earlier_is_told_from_what_is_written_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that takes its time to begin, then hands out an old log, and then goes on."""
    monkeypatch.setattr(pipe, "_QUIET_S", 0.2)
    reading, writing = os.pipe()
    with open(reading, "rb", buffering=0) as stream, open(writing, "wb", buffering=0) as writer:  # noqa: PTH123
        piped = Piped(stream)
        assert piped.read(0.5) == b""
        writer.write(b"old\n" * 9)
        assert piped.read(5) == b"old\n" * 9
        assert not piped.has_caught_up
        until_s = time.monotonic() + 10
        while not piped.has_caught_up:
            assert piped.read(0.05) == b""
            assert time.monotonic() < until_s
        writer.write(b"new\n")
        assert piped.read(5) == b"new\n"
        assert piped.has_caught_up


def test_little_at_a_time_is_written_now_also_without_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what stands in the pipe while nobody reads is no pause of its writer."""
    monkeypatch.setattr(pipe, "_QUIET_S", 0.3)
    reading, writing = os.pipe()
    with open(reading, "rb", buffering=0) as stream, open(writing, "wb", buffering=0) as writer:  # noqa: PTH123
        piped = Piped(stream)
        until_s = time.monotonic() + 10
        while not piped.has_caught_up:
            writer.write(b"a line\n")
            piped.read(0.02)
            time.sleep(0.02)
            assert time.monotonic() < until_s
    with python("import sys\nwhile True: sys.stdout.buffer.write(bytes(1 << 16))") as it:
        piped = Piped(it.stdout)  # type: ignore[arg-type]
        for _ in range(20):
            piped.read(0.1)
            time.sleep(0.03)
        assert not piped.has_caught_up
        it.kill()


def test_a_program_can_end_while_its_input_is_silent() -> None:
    code = "import sys; from advisor.sources.pipe import Piped; print(Piped(sys.stdin.buffer).read(0.1))"
    with python(code, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as it:
        assert it.wait(10) == 0
        assert it.stdout.read().strip() == b"b''"  # type: ignore[union-attr]
        assert it.stderr.read() == b""  # type: ignore[union-attr]


def test_after_close_nothing_comes() -> None:
    reading, writing = os.pipe()
    with open(reading, "rb") as stream, open(writing, "wb", buffering=0) as writer:  # noqa: PTH123
        piped = Piped(stream)
        writer.write(b"one\n")
        assert piped.read(1) == b"one\n"
        piped.close()
        assert piped.read(1) is None
        writer.write(b"two\n")
        assert piped.join(1)


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
    """Puts a script on a PATH that holds nothing else."""
    monkeypatch.setenv("PATH", str(tmp_path))

    def put(name: str, code: str) -> Path:
        path = tmp_path / name
        head = f"#!{sys.executable} -SE\nimport sys, time\nwords = sys.argv[1:]\n"
        path.write_text(head + textwrap.dedent(code))
        path.chmod(0o755)
        return path

    return put


PRINTS = """
    assert sys.stdin.read() == ""
    assert words == {words}, words
    for at, line in enumerate(open({log!r})):
        stream = (sys.stdout, sys.stderr)[at % 2 and {both}]
        print(f"2026-11-29T20:00:{{at:02d}}.{head}{{line}}", end="", file=stream, flush=True)
"""
JOURNALCTL = ["--follow", "--lines=all", "--boot", "--all", "--no-pager", "--output=short-iso-precise"]
STAMPED = "123456789Z "
JOURNALLED = "123456+0000 host llama[7]: "


@scripts
@pytest.mark.parametrize(
    ("start", "program_name", "head", "words"),
    [
        (container, "docker", STAMPED, ["logs", "--follow", "--timestamps", "--", "-qwen"]),
        (pod, "kubectl", STAMPED, ["logs", "--follow", "--timestamps", "--", "-qwen"]),
        (unit, "journalctl", JOURNALLED, [*JOURNALCTL, "--unit=-qwen"]),
    ],
)
def test_its_log_is_read_with_the_clock_of_who_hands_it_out(
    program: Callable[[str, str], Path],
    tmp_path: Path,
    start: Callable[[str], Command],
    program_name: str,
    head: str,
    words: list[str],
) -> None:
    (tmp_path / "log").write_text(LOG)
    both = program_name == "docker"
    program(program_name, PRINTS.format(log=str(tmp_path / "log"), head=head, words=words, both=both))
    started = Started(start("-qwen"))
    stream = Stream(started.name)
    rows = [row for row in stream.feed(rest(started)) + stream.close() if isinstance(row, Request)]
    assert [row.prefill_ms for row in rows] == [700] * 3
    last = LOG.count("\n") - 2
    assert rows[-1].finished_at == datetime(2026, 11, 29, 20, 0, last, 123456, tzinfo=UTC)
    assert started.notes() == [f"-qwen: {program_name} ended."]
    started.close()


@scripts
def test_podman_where_docker_is_missing(program: Callable[[str, str], Path]) -> None:
    program("podman", "print('from podman')")
    started = Started(container("qwen"))
    assert rest(started) == b"from podman\n"
    started.close()


@scripts
def test_the_last_words_of_a_program_that_fails(program: Callable[[str, str], Path], tmp_path: Path) -> None:
    program("docker", "sys.exit('a warning\\nError: \\x1b[31mno such container: ' + words[-1] + '.')")
    program("kubectl", "sys.exit(f'error in {words[3:]}')")
    program("podman", "print('2026-11-29T20:00:00Z a prompt\\rand more'); sys.exit(1)")
    program("long", "print('2026-11-29T20:00:00Z ' + 'secret ' * 2000); sys.exit(1)")
    for command, last in (
        (container("qwen"), "qwen: docker ended: Error: no such container: qwen."),
        (Command("qwen", (str(tmp_path / "podman"),), is_merged=True), "qwen: podman ended."),
        (Command("qwen", (str(tmp_path / "long"),), is_merged=True), "qwen: long ended."),
        (pod("llm/qwen-0"), "llm/qwen-0: kubectl ended: error in ['--namespace=llm', '--', 'qwen-0']."),
        (pod("qwen-0"), "qwen-0: kubectl ended: error in ['--', 'qwen-0']."),
    ):
        started = Started(command)
        with pytest.raises(InputError) as failed:
            rest(started)
        assert str(failed.value) == last
        assert started.read(0) is None
        assert started.notes() == []
        started.close()


UNKNOWN = "-ollama: systemd knows no unit of this name; waiting for its lines."
JOURNAL = """
    print("2026-11-29T20:00:00.123456+0100 host ollama[7]:", *words, flush=True)
    {more}
    time.sleep(60)
"""


@scripts
@pytest.mark.parametrize(
    ("loads", "option", "said"),
    [
        ("print('loaded')", "--unit=-ollama", []),
        ("print('loaded' if '--user' in words else 'not-found')", "--user-unit=-ollama", []),
        ("print('not-found')", "--unit=-ollama", [UNKNOWN]),
        ("sys.exit('no bus')", "--unit=-ollama", []),
    ],
)  # fmt: skip
def test_a_unit_is_followed_and_the_program_ended(
    program: Callable[[str, str], Path], loads: str, option: str, said: list[str]
) -> None:
    program("systemctl", loads)
    program("journalctl", JOURNAL.format(more=""))
    started = Started(unit("-ollama"))
    line = started.read(10) or b""
    assert line.startswith(b"2026-11-29T20:00:00.123456+0100 host ollama[7]: --follow --lines=all --boot")
    assert line.endswith(f" {option}\n".encode())
    assert started.read(0) == b""
    assert started.notes() == said
    begun_s = time.monotonic()
    started.close()
    started.close()
    assert time.monotonic() - begun_s < 30
    assert started._process.returncode is not None
    assert started.read(0) is None
    assert started.notes() == []


@scripts
def test_what_the_program_says_of_itself_becomes_a_note(program: Callable[[str, str], Path]) -> None:
    hint = "Hint: You are currently not seeing messages from other users and the system.\\n  More."
    program(
        "journalctl",
        JOURNAL.format(more=f"print({hint!r}.replace('\\\\n', chr(10)), file=sys.stderr, flush=True)"),
    )
    started = Started(unit("ollama"))
    started.read(10)
    assert _first_note(started) == (
        "ollama: journalctl shows only what this user may see; "
        "join the group systemd-journal, or run this as root."
    )
    started.close()
    program(
        "kubectl",
        "print('Defaulted container \"a\" out of: a, b', file=sys.stderr, flush=True); time.sleep(60)",
    )
    started = Started(pod("qwen"))
    assert _first_note(started) == 'qwen: kubectl says: Defaulted container "a" out of: a, b.'
    started.close()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no sessions of this kind")
def test_a_program_does_not_hear_what_is_typed_for_us() -> None:
    started = Started(Command("it", (sys.executable, "-c", "import time; time.sleep(60)")))
    assert os.getsid(started._process.pid) != os.getsid(0)
    started.close()


def test_what_goes_wrong_with_its_output_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(_: object) -> bytes:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(pipe, "_next", breaks)
    started = Started(Command("it", (sys.executable, "-c", ""), is_merged=True))
    assert started._out.join(10)
    assert started.notes() == ["it: can't be read any more (Input/output error)."]
    started.close()


def _first_note(started: Started) -> str:
    until_s = time.monotonic() + 10
    while not (notes := started.notes()) and time.monotonic() < until_s:
        time.sleep(0.01)
    return notes[0]


@scripts
def test_a_program_that_will_not_end_is_ended_with_its_parent(
    program: Callable[[str, str], Path], tmp_path: Path
) -> None:
    """Also if the parent ends by Ctrl-C and closes nothing."""
    code = """
        import os, signal
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print(os.getpid(), flush=True)
        time.sleep(60)
    """
    stubborn = program("stubborn", code)
    parent = """
        import sys
        from advisor.sources.started import Command, Started
        started = Started(Command("it", (sys.argv[1],)))
        print(int(started.read(10)), flush=True)
        raise KeyboardInterrupt
    """
    with python(parent, str(stubborn), stderr=subprocess.DEVNULL) as it:
        number = int(it.stdout.readline())  # type: ignore[union-attr]
        it.wait(10)
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (unit, "--unit x: this system has no systemd"),
        (container, "--container x: neither docker nor podman is installed"),
        (pod, "--pod x: kubectl is not installed"),
    ],
)
def test_a_program_that_is_missing(
    ask: Callable[[str], Command], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match=words):
        ask("\x1b[1mx")
    with pytest.raises(InputError, match="needs a name"):
        ask("")


def test_a_program_that_cannot_be_started(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none can't be started"):
        Started(Command("x", (str(tmp_path / "none"),)))
