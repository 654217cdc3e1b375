"""The pages of `docs/` that say what the code says; ``python -m advisor.pages`` writes them anew."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import parsers.formats
from advisor.cli_page import cli_page
from advisor.runner.knobs import KNOBS
from parsers.formats import BUILTIN
from parsers.records import columns_page
from rules import remedies
from rules.catalogue import all_caveats, all_rules
from rules.words import measure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from parsers.formats import Format
    from rules.catalogue import LoadedCaveat, LoadedRule
    from rules.rule import Rule

_RULES_INTRO = """\
Each rule looks for one cause of slowness and says what to change. `phasewise explain RULE` prints these
pages, `phasewise rules --toml` what can be set."""

_FORMATS_INTRO = """\
What is read, from which versions, and which phases such a log times for each request: nothing is split that
the engine doesn't time. `phasewise formats` prints this list. Files that are named without a folder are those
of the format in `parsers/formats/`. A format of your own is a TOML file: see
[adding-a-format.md](adding-a-format.md)."""

_KNOBS_INTRO = """\
What `phasewise run --set KNOB=VALUE` runs with and `--try KNOB=VALUE` compares: see
[measuring, and proving a fix](runner.md). Commas join several: `--try kv=q8_0,ubatch=1024`."""

_REMEDIES_INTRO = """\
What `phasewise run --from-analysis FILE --finding RULE` does with each remedy that a rule may suggest."""

DOCS = Path(__file__).parents[1] / "docs"


def pages() -> dict[str, str]:
    """Every generated page by its path under `docs/`."""
    rules = {f"rules/{loaded.rule.id}.md": rule_page(loaded) for loaded in all_rules()}
    lists = {"columns.md": columns_page(), "formats.md": formats_page(), "knobs.md": knobs_page()}
    lists |= {"rules/README.md": rules_page()}
    return {"cli.md": cli_page(), **lists, **rules}


def formats_page() -> str:
    """All built-in formats, and what each module says of its engine."""
    rows = (f"| {f.engine} | {f.title} | {f.versions} | {f.grain} | {f.splits} |" for f in BUILTIN)
    head = "| engine | log | versions | a record is | times |\n|---|---|---|---|---|"
    parts = [f"# Formats\n\n{_FORMATS_INTRO}\n", "\n".join([head, *rows, ""])]
    parts += [f"## {names}\n\n{_prose(module.__doc__ or '')}\n" for names, module in _format_modules()]
    return "\n".join(parts)


def _format_modules() -> Iterator[tuple[str, ModuleType]]:
    """The modules that define built-in formats, in the order of the formats, with the engines they read."""
    modules = [m for m in vars(parsers.formats).values() if isinstance(m, ModuleType)]
    defining = {fmt: module for module in modules for fmt in _formats_in(module)}
    engines: dict[ModuleType, list[str]] = {}
    for fmt in BUILTIN:
        engines.setdefault(defining[fmt], []).append(fmt.engine)
    for module, names in engines.items():
        yield (names[0] if len(names) == 1 else module.__name__.rpartition(".")[2]), module


def _formats_in(module: ModuleType) -> tuple[Format, ...]:
    one: Format | None = getattr(module, "FORMAT", None)
    many: tuple[Format, ...] = getattr(module, "FORMATS", ())
    return many if one is None else (one,)


def _prose(docstring: str) -> str:
    """A docstring as Markdown: code in single backticks."""
    return docstring.strip().replace("``", "`")


def knobs_page() -> str:
    """What the runner can be set to, and which remedies it can try."""
    also = {knob: ", ".join(f"`{alias}`" for alias in knob.aliases) for knob in KNOBS}
    knobs = (f"| `{k.name}` | {also[k]} | {k.help} | {k.values} |" for k in KNOBS)
    head = "| knob | also | what it is | takes |\n|---|---|---|---|"
    tried = (f"| {remedy} | {_trial(remedy)} |" for remedy in remedies.remedy_ids())
    return "\n".join(
        (
            f"# Knobs of the runner\n\n{_KNOBS_INTRO}\n",
            "\n".join((head, *knobs, "")),
            f"## Remedies\n\n{_REMEDIES_INTRO}\n",
            "\n".join(("| remedy | tried as |", "|---|---|", *tried, "")),
        )
    )


def _trial(remedy: str) -> str:
    trial = remedies.load(remedy).get("try")
    return f"`{_open(trial)}`" if trial else f"not: {remedies.untried(remedy)}"


def rules_page() -> str:
    """The list of all rules and caveats."""
    parts = [f"# Rules\n\n{_RULES_INTRO}\n"]
    phases: dict[str, list[LoadedRule]] = {}
    for loaded in all_rules():
        phases.setdefault(loaded.package, []).append(loaded)
    for phase, group in phases.items():
        rows = (_row(one.rule) for one in sorted(group, key=lambda one: one.rule.id))
        parts.append("\n".join([f"## {phase}\n", "| rule | says | kind |", "|---|---|---|", *rows, ""]))
    parts.append("## Caveats\n\nWhat the numbers of a log can't be used for. A caveat is never advice.\n")
    parts += [_caveat(one) for one in all_caveats()]
    return "\n".join(parts)


def _row(rule: Rule) -> str:
    kind = "fault" if rule.fault else "advice"
    return f"| [{rule.id}]({rule.id}.md) | {rule.title} | {kind} |"


def rule_page(loaded: LoadedRule) -> str:
    """One rule: its docstring, its switches for each engine, its thresholds."""
    rule = loaded.rule
    needs = ", ".join(f"`{need}`" for need in rule.needs) or "nothing that every log lacks"
    parts = [
        f"# {rule.id}\n\n{_sections(loaded.docs)}\n",
        f"## How to verify\n\n{rule.verify}\n",
        f"## Needs\n\n{needs}\n",
    ]
    if rule.remedies:
        parts.append("## Switches\n")
        parts += [_remedy(remedy) for remedy in rule.remedies]
    if rule.thresholds:
        rows = (f"| `{name}` | {measure(t.value, '')} | {t.meaning} |" for name, t in rule.thresholds.items())
        table = "\n".join(["| threshold | default | meaning |", "|---|---|---|", *rows])
        parts.append(f"## Thresholds\n\nSet them in `phasewise.toml` under `[rules.{rule.id}]`.\n\n{table}\n")
    return "\n".join(parts)


def _sections(docs: str) -> str:
    """A docstring as Markdown: a section's name is a heading, its text is not indented."""
    out = []
    for line in docs.splitlines():
        heading = re.fullmatch(r"(\w[\w ]*):", line)
        out.append(f"## {heading[1]}\n" if heading else line.removeprefix("    "))
    return "\n".join(out)


def _remedy(remedy: str) -> str:
    data = remedies.load(remedy)
    switches = [s for s in data["switch"] if "until" not in s]  # a later build has renamed those
    alone = len(switches) == 1
    rows = [
        f"| {_engines(s['engines'], alone=alone)} | `{_open(s['apply'])}` | {_open(s['where'])} |"
        for s in switches
    ]
    head = f"**{_open(data['title'])}.** It costs {_open(data['cost'])}.\n"
    return "\n".join([head, "| engine | change | where |", "|---|---|---|", *rows, ""])


def _engines(engines: list[str], *, alone: bool) -> str:
    return ", ".join(engines).replace("*", "any" if alone else "any other")


def _open(text: object) -> str:
    """A text with its blanks named: ``{tokens}`` is ``‹tokens›`` to a reader."""
    return (
        re.sub(r"\{(\w+)[^}]*\}", r"‹\1›", str(text))
        .replace("{{", "{")
        .replace("}}", "}")
        .replace("|", "\\|")
    )


def _caveat(loaded: LoadedCaveat) -> str:
    summary, _, rest = _sections(loaded.docs).partition("\n")
    return f"### {loaded.id}\n\n{summary}\n{re.sub(r'^## ', '#### ', rest, flags=re.MULTILINE)}\n"


def write(folder: Path = DOCS) -> None:
    """Write every page, and remove the rules' pages that no rule has any more."""
    texts = pages()
    for page in (folder / "rules").glob("*.md"):
        if f"rules/{page.name}" not in texts:
            page.unlink()
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8", newline="\n")


if __name__ == "__main__":
    write()
