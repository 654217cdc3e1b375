"""What a test needs to know of a Markdown page: its code, its commands, its links, its headings."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", "SECURITY.md", *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md"))]

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SHELLS = ("sh", "yaml", "powershell")
_INLINE = re.compile(r"`([^`\n]*\bphasewise [^`\n]+)`")
_COMMAND = re.compile(r"(?:^|[|&;] *|run: )(?:[\w./\\-]*[/\\])?phasewise(?= )(?P<arguments>.*)$")
_STATUS = re.compile(r"# exit status (\d+)")


@dataclass(frozen=True, slots=True)
class Command:
    """One ``phasewise …`` of a page.

    Attributes:
        status: the exit status that the page says.
        whole: false for what a sentence names, which may be a part of a command.
    """

    page: str
    arguments: tuple[str, ...]
    status: int = 0
    whole: bool = True

    def __str__(self) -> str:
        return f"{self.page}: {shlex.join(self.arguments)}"


def text_of(page: str) -> str:
    """The page, as it is written."""
    return (ROOT / page).read_text("utf-8")


def prose_of(page: str) -> str:
    """The page without its blocks of code."""
    return _BLOCK.sub("", text_of(page))


def commands_of(page: str) -> list[Command]:
    """Every command, of blocks and of sentences, that calls phasewise."""
    blocks = [code for language, code in _BLOCK.findall(text_of(page)) if language in _SHELLS]
    lines = [line for code in blocks for line in code.replace("\\\n", " ").splitlines()]
    named = [code.replace("\\|", "|") for code in _INLINE.findall(prose_of(page))]
    of_sentences = [replace(command, whole=False) for line in named for command in _commands(page, line)]
    return [*(command for line in lines for command in _commands(page, line)), *of_sentences]


def _commands(page: str, line: str) -> Iterator[Command]:
    said = _STATUS.search(line)
    for part in re.split(r" ; |; |&& ", line.strip().removeprefix("- ")):
        if found := _COMMAND.search(part):
            words = shlex.split(found["arguments"], comments=True)
            redirected = [i for i, word in enumerate(words) if word.startswith((">", "2>", "|"))]
            yield Command(page, tuple(words[: min(redirected, default=None)]), int(said[1]) if said else 0)


def examples_of(page: str) -> list[tuple[Command, list[str]]]:
    """Blocks of one command that are followed by what it prints."""
    pairs = re.findall(
        r"```sh\n((?:[^`\n]*\\\n)*[^`\n]*)\n```\n\n```text\n(.*?)```", text_of(page), re.DOTALL
    )
    return [
        (command, re.sub(r"\n +", " ", said).split("\n"))
        for code, said in pairs
        for command in _commands(page, code.replace("\\\n", " "))
    ]


def links_of(page: str) -> list[str]:
    """The targets of links and pictures that are not elsewhere."""
    prose = re.sub(r"`[^`\n]*`", "", prose_of(page))
    return [target for target in re.findall(r"\]\(([^)\s]+)\)", prose) if "://" not in target]


def anchors_of(page: str) -> set[str]:
    """What headings are called in links, as GitHub and the site do."""
    headings = re.findall(r"^#+ (.+)$", prose_of(page), re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", re.sub(r"\[(.*?)\]\(.*?\)", r"\1", h).lower()).replace(" ", "-")
        for h in headings
    }
