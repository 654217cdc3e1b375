"""What `explain`, `rules`, `formats` and the bare command print: from the rules' and formats' own words."""

from __future__ import annotations

import sys
from difflib import get_close_matches
from pathlib import Path

from advisor.errors import InputError

_LOGS = {
    "darwin": {"ollama": "~/.ollama/logs/server.log", "lmstudio": "~/.lmstudio/server-logs"},
    "win32": {"ollama": "~/AppData/Local/Ollama/server.log", "lmstudio": "~/.lmstudio/server-logs"},
}
_LINUX_LOGS = {"ollama": "journalctl -u ollama --no-pager | phasewise -"}


def explain(name: str) -> str:
    """A rule's or caveat's documentation.

    Raises:
        InputError: there is no such rule or caveat.
    """
    from rules.catalogue import all_caveats, all_rules

    for rule in all_rules():
        if rule.rule.id == name:
            needs = ", ".join(rule.rule.needs) or "nothing that every log lacks"
            return f"{name} ({rule.rule.phase}, {rule.rule.status})\n\n{rule.docs}\n\nNeeds: {needs}\n"
    for caveat in all_caveats():
        if caveat.id == name:
            return f"{name} (caveat)\n\n{caveat.docs}\n"
    ids = [r.rule.id for r in all_rules()] + [c.id for c in all_caveats()]
    near = [one for one in ids if name in one] or get_close_matches(name, ids)
    hint = f"near: {', '.join(near[:3])}" if near else "`phasewise rules` lists them"
    raise InputError(f"{name}: no rule or caveat is called that; {hint}.")


def rules_list() -> str:
    """One line for each rule and caveat."""
    from rules.catalogue import all_caveats, all_rules

    rows = [(r.rule.id, str(r.rule.phase), r.docs.splitlines()[0]) for r in all_rules()]
    rows += [(c.id, "caveat", c.docs.splitlines()[0]) for c in all_caveats()]
    return _columns(rows)


def formats_list() -> str:
    """One line for each format."""
    from parsers import FORMATS

    return _columns([(f.engine, f.grain, f"{f.title}, {f.versions}") for f in FORMATS])


def welcome() -> str:
    """Short help, and where engines log on this machine."""
    lines = [
        "phasewise LOG                 which phase eats the latency, why, what to change",
        "phasewise LOG --format md     the same for a ticket",
        "phasewise export LOG -o x.csv the rows",
        "phasewise --help              everything else",
        "",
        "Where engines log here:",
    ]
    places = _LOGS.get(sys.platform)
    if places is None:
        lines += [f"  {engine:13} {command}" for engine, command in _LINUX_LOGS.items()]
    else:
        for engine, place in places.items():
            path = Path(place).expanduser()
            lines.append(f"  {engine:13} {path}{'' if path.exists() else ' (not there)'}")
    lines += ["  llama-server  its standard error: llama-server ... 2> server.log (add -lv 4)"]
    lines += ["  vllm          its standard output: vllm serve ... 2>&1 | tee vllm.log"]
    return "\n".join(lines) + "\n"


def _columns(rows: list[tuple[str, str, str]]) -> str:
    widths = [max((len(row[i]) for row in rows), default=0) for i in range(2)]
    return "".join(f"{a:{widths[0]}}  {b:{widths[1]}}  {c}\n" for a, b, c in rows)
