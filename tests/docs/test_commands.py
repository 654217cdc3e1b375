"""Every command of the pages is understood; those on sample logs run, and print what the pages say."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
import typer
from typer.core import TyperGroup

from advisor.cli import NAME, commands, run
from tests.docs.markdown import PAGES, ROOT, Command, commands_of, examples_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


VERBS = commands()


COMMANDS = sorted({c for page in PAGES for c in commands_of(page)}, key=str)
EXAMPLES = [example for page in PAGES for example in examples_of(page)]

_UsageError: type[typer.BadParameter] = typer.BadParameter.__mro__[1]  # all that a command line gets wrong
_PLACEHOLDER = re.compile(r"[A-Z]{2,}|.*…")
_NEEDS_NO_FILE = ("estimate", "explain", "rules", "schema")
_OF_THE_SHELL = "--install-completion"  # would be installed


def with_verb(arguments: Sequence[str]) -> list[str]:
    """A path without a verb is analyzed."""
    first = arguments[0]
    if first in VERBS.commands or (first[0] == "-" and first != "-"):
        return list(arguments)
    return ["analyze", *arguments]


def runs(command: Command) -> bool:
    """Whether all that it reads is in the repository."""
    verb, *rest = with_verb(command.arguments)
    if not command.whole:
        return False
    if any(_PLACEHOLDER.fullmatch(word) for word in rest) or "--help" in rest:
        return False
    if verb in _NEEDS_NO_FILE:
        return "--gguf" not in rest
    return any((ROOT / word).exists() for word in rest if "/" in word)


def test_the_commands_are_found() -> None:
    assert len(COMMANDS) > 100
    assert len([c for c in COMMANDS if runs(c)]) > 15
    assert len(EXAMPLES) > 8


@pytest.mark.parametrize("command", [c for c in COMMANDS if _OF_THE_SHELL not in c.arguments], ids=str)
def test_a_command_is_understood(command: Command) -> None:
    words = with_verb(command.arguments)
    taken: Any = VERBS
    assert words[0] != "analyze" or not re.fullmatch("[a-z]+", words[1]), f"{words[1]} is no verb"
    while isinstance(taken, TyperGroup) and words and words[0] in taken.commands:
        taken = taken.commands[words.pop(0)]
    try:
        taken.make_context(NAME, words)
    except typer.Exit:  # --help and --version end there
        pass
    except _UsageError as error:
        if command.whole or type(error).__name__ == "NoSuchOption":
            raise


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the logs are as in the repository, and what is written does no harm."""
    for logs in ("sample_logs", "tests"):
        (tmp_path / logs).symlink_to(ROOT / logs)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("command", [c for c in COMMANDS if runs(c)], ids=str)
def test_a_command_on_what_is_here_runs(command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        run(command.arguments)
    assert done.value.code == command.status, capsys.readouterr().err


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("command", "said"), EXAMPLES, ids=str)
def test_it_prints_what_the_page_says(
    command: Command, said: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        run(command.arguments)
    printed = " ".join(capsys.readouterr().out.split())
    for line in (" ".join(line.split()) for line in said if line.strip()):
        assert line in printed
        _, _, printed = printed.partition(line)


def test_the_picture_is_what_the_page_looks_like(folder: Path) -> None:
    """Draw it anew: phasewise sample_logs/llama-server-rag.log --svg docs/images/rag.svg."""
    with pytest.raises(SystemExit):
        run(["sample_logs/llama-server-rag.log", "--svg", "page.svg"])
    assert _words(folder / "page.svg") == _words(ROOT / "docs" / "images" / "rag.svg")


def _words(picture: Path) -> list[str]:
    return re.sub(
        "<style.*?</style>|<[^>]*>|&#160;", " ", picture.read_text("utf-8"), flags=re.DOTALL
    ).split()
