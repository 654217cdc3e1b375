"""The screens in a real terminal: keys while a log is piped in, how they end, and what they leave behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests.advisor.helpers import SAMPLES, environment

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

if sys.platform == "win32":
    pytest.skip("pseudo-terminals are POSIX", allow_module_level=True)

import fcntl
import pty
import select
import struct
import termios

LOG = SAMPLES / "llama-server-four-slots.log"
ALTERNATE_SCREEN_OFF, CURSOR_ON = b"\x1b[?1049l", b"\x1b[?25h"


class Terminal:
    """A command in a terminal of its own; ``log`` is piped in, or its keyboard is its standard input."""

    def __init__(self, arguments: Sequence[str], log: bytes | None, columns: int = 100) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
        self._child = subprocess.Popen(
            [sys.executable, "-c", _START, *arguments],
            stdin=slave if log is None else subprocess.PIPE,
            stdout=slave,
            stderr=slave,
            env=environment(TERM="xterm-256color"),
            start_new_session=True,
        )
        os.close(slave)
        self.seen = b""
        if log is not None and self._child.stdin is not None:
            self._child.stdin.write(log)
            self._child.stdin.flush()

    def until(self, text: bytes, wait_s: float = 30.0) -> None:
        """Wait until the terminal was told a text."""
        end = time.monotonic() + wait_s
        while text not in self.seen:
            assert time.monotonic() < end, self.seen[-2000:]
            if select.select([self._master], [], [], 0.1)[0]:
                try:
                    self.seen += os.read(self._master, 1 << 16)
                except OSError:
                    break
        assert text in self.seen

    def press(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def status(self) -> int:
        """How it ended, and all that it said."""
        while self._child.poll() is None:
            if select.select([self._master], [], [], 0.1)[0]:
                try:
                    self.seen += os.read(self._master, 1 << 16)
                except OSError:
                    break
        return self._child.wait(20)

    def close(self) -> None:
        self._child.kill()
        self._child.wait()
        if self._child.stdin is not None:
            self._child.stdin.close()
        os.close(self._master)


_START = """
import fcntl, os, sys, termios
fcntl.ioctl(1, termios.TIOCSCTTY, 0)
sys.argv = ["phasewise", *sys.argv[1:]]
from advisor.__main__ import main
main()
"""
"""The terminal becomes the command's own: ``/dev/tty`` leads to it."""


@pytest.fixture
def opened() -> Iterator[list[Terminal]]:
    terminals: list[Terminal] = []
    yield terminals
    for terminal in terminals:
        terminal.close()


@pytest.mark.parametrize(("keys", "status"), [(b"q", 0), (b"\x03", 130)])
def test_keys_work_while_a_log_is_piped_in(opened: list[Terminal], keys: bytes, status: int) -> None:
    terminal = Terminal(["tail", "-"], LOG.read_bytes())
    opened.append(terminal)
    terminal.until(b"12 requests")
    terminal.press(b"5")
    terminal.until(b"SOURCES")
    terminal.press(keys)
    assert terminal.status() == status
    assert ALTERNATE_SCREEN_OFF in terminal.seen
    assert terminal.seen.rindex(CURSOR_ON) > terminal.seen.index(b"12 requests")


def test_a_terminal_of_lines_gets_lines(opened: list[Terminal]) -> None:
    terminal = Terminal(["tail", str(LOG)], None)
    opened.append(terminal)
    terminal.until(b"12 requests")
    terminal.press(b"q")
    assert terminal.status() == 0
