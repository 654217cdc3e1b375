"""What `explain`, `rules`, `formats` and the bare command print: from the rules' and formats' own words."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from advisor.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rules.catalogue import LoadedRule
    from rules.rule import Rule
    from rules.settings import Settings


def explain(name: str, settings: Settings) -> str:
    """A rule's or caveat's documentation, a rule's with its thresholds in force.

    Raises:
        InputError: there is no such rule or caveat.
    """
    from rules.catalogue import all_caveats, all_rules

    for rule in all_rules():
        if rule.rule.id == name:
            return _explained(rule, settings)
    for caveat in all_caveats():
        if caveat.id == name:
            return f"{name} (caveat)\n\n{caveat.docs}\n"
    ids = [r.rule.id for r in all_rules()] + [c.id for c in all_caveats()]
    near = [one for one in ids if name in one] or get_close_matches(name, ids)
    hint = f"near: {', '.join(near[:3])}" if near else "`phasewise rules` lists them"
    raise InputError(f"{name}: no rule or caveat is called that; {hint}.")


def _explained(loaded: LoadedRule, settings: Settings) -> str:
    rule = loaded.rule
    off = "" if settings.enabled(rule.id) else ", switched off"
    parts = [f"{rule.id} ({rule.phase}, {rule.status}{off})", loaded.docs]
    parts.append(f"Needs: {', '.join(rule.needs) or 'nothing that every log lacks'}")
    if rule.thresholds:
        values = settings.of(rule)
        rows = [(name, _number(values[name]), t.meaning) for name, t in rule.thresholds.items()]
        parts.append(
            f"Thresholds, under [rules.{rule.id}] of phasewise.toml:\n{_columns(rows, '    ').rstrip()}"
        )
    return "\n\n".join(parts) + "\n"


def rules_list(settings: Settings) -> str:
    """One line for each rule and caveat."""
    from rules.catalogue import all_caveats, all_rules

    rows = [(r.rule.id, _state(r.rule, settings), r.docs.splitlines()[0]) for r in all_rules()]
    rows += [(c.id, "caveat", c.docs.splitlines()[0]) for c in all_caveats()]
    return _columns(rows)


def _state(rule: Rule, settings: Settings) -> str:
    if not settings.enabled(rule.id):
        return "off"
    return f"{rule.phase}*" if settings.thresholds.get(rule.id) else str(rule.phase)


def rules_toml(settings: Settings) -> str:
    """All thresholds in force as a ``phasewise.toml``, each with its meaning."""
    from rules.catalogue import all_rules

    off = sorted(r.rule.id for r in all_rules() if not settings.enabled(r.rule.id))
    parts = [f"[rules]\ndisable = [{', '.join(map(_quoted, off))}]\n"]
    for loaded in all_rules():
        rule, values = loaded.rule, settings.of(loaded.rule)
        if rule.thresholds:
            lines = (
                f"# {t.meaning}\n{name} = {_number(values[name])}" for name, t in rule.thresholds.items()
            )
            parts.append(f"[rules.{rule.id}]\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() else repr(value)


def _quoted(text: str) -> str:
    return f'"{text}"'


def formats_list() -> str:
    """One line for each format: engine, what a record is, what it times. The user's own come first."""
    from advisor.user_formats import all_formats

    rows = [("engine", "record", "times", "log and versions")]
    rows += [(f.engine, f.grain, f.splits, f"{f.title}, {f.versions}") for f in all_formats()]
    return _columns(rows)


def welcome() -> str:
    """Short help, and where engines log on this machine."""
    from advisor.sources.found import places

    lines = [
        "phasewise LOG                         which phase eats the latency, why, what to change",
        "phasewise report LOG -o page.md       a report for a ticket; page.html has charts",
        "phasewise compare BEFORE AFTER        did a change help, or could it be chance",
        "phasewise check LOG --max-ttft-p95 2s a gate for CI",
        "phasewise anonymize LOG -o shared.log a log that can be shared",
        "phasewise export LOG -o rows.csv      the rows",
        "phasewise --help                      everything else",
        "",
        "Where engines log here:",
    ]
    for engine, place, is_there in places():
        lines.append(f"  {engine:13} {place}{'' if is_there else ' (not there)'}")
    lines += ["  llama-server  its standard error: llama-server ... 2> server.log (add -lv 4)"]
    lines += ["  vllm          its standard output: vllm serve ... 2>&1 | tee vllm.log"]
    return "\n".join(lines) + "\n"


def _columns(rows: Sequence[tuple[str, ...]], indent: str = "") -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "".join(f"{indent}{line.rstrip()}\n" for line in lines)
