"""`docs/cli.md`: every verb and option, read from the command itself."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import typer
from typer.core import TyperGroup

from advisor.cli import NAME, commands

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_INTRO = """\
Every verb with its options, as `phasewise VERB --help` says them. `phasewise PATH` is short for
`phasewise analyze PATH`, and `phasewise --install-completion` sets up your shell. Data goes to standard
output, everything else to standard error.

| exit status | means |
|---|---|
| 0 | done, also when the engine is recognised but logged no timings |
| 1 | a limit of `check` is broken, it found what `--fail-on` names, or something in a format file is wrong |
| 2 | bad usage, an input or output that can't be read or written, a limit that the log can't tell |
| 3 | nothing recognised |
| 130 | Ctrl-C |
"""

_OF_THE_SHELL = ("install_completion", "show_completion")  # differ with the shell that asks
_KINDS = {"int": "N", "int range": "N", "float": "N", "float range": "N", "str": "TEXT", "path": "FILE"}


def cli_page() -> str:
    """The reference of the command line, the same for every terminal."""
    root = typer.Context(commands(), info_name=NAME)
    shared: dict[str, dict[str, None]] = {}
    verbs = [_section(context, shared) for context in _contexts(root)]
    groups = [f"## {title}\n\n{_table('option', rows)}" for title, rows in shared.items()]
    return "\n".join([f"# Command line\n\n{_INTRO}", *verbs, *groups])


def _contexts(context: typer.Context) -> Iterator[typer.Context]:
    """A command and all commands below it."""
    yield context
    if isinstance(context.command, TyperGroup):
        for name, child in context.command.commands.items():
            yield from _contexts(typer.Context(child, parent=context, info_name=name))


def _section(context: typer.Context, shared: dict[str, dict[str, None]]) -> str:
    """One command; options that stand in a group are shared with other verbs, and are added to `shared`."""
    path, command = context.command_path, context.command
    usage = " ".join([path, *command.collect_usage_pieces(context)]).replace("{", "").replace("}", "")
    own: dict[str, dict[str, None]] = {}
    groups: dict[str, None] = {}
    for param in command.params:
        record = None if param.name in _OF_THE_SHELL else param.get_help_record(context)
        if record is None:
            continue
        group = getattr(param, "rich_help_panel", None)
        table = own.setdefault(param.param_type_name, {}) if group is None else shared.setdefault(group, {})
        table[_row(*record)] = None
        if group is not None:
            groups[f"[{group}](#{re.sub(r'[^a-z -]', '', group.lower()).replace(' ', '-')})"] = None
    parts = [f"## {path}\n\n{command.help or ''}\n", f"```text\n{usage}\n```\n"]
    parts += [_table(kind, rows) for kind, rows in own.items()]
    if groups:
        parts.append("Options that other verbs share: " + "; ".join(groups) + ".\n")
    return "\n".join(parts)


def _table(kind: str, rows: Iterable[str]) -> str:
    return "\n".join([f"| {kind} | meaning |", "|---|---|", *rows, ""])


def _row(name: str, meaning: str) -> str:
    """A parameter: what a shell takes, not the Python type; its default, not its bounds."""
    name = re.sub(r"^([A-Z]+) <.*>$", r"\1", name)
    name = re.sub(r"<(.+)>$", lambda m: _KINDS.get(m[1], m[1]), name)
    said, _, extra = meaning.partition("  [")
    default = re.match(r"default: ([^;\]]+)", extra)
    ending = f" Default: `{default[1]}`." if default else ""
    return f"| `{_cell(name)}` | {_cell(said)}{ending} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
