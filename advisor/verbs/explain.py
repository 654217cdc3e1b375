"""`phasewise explain`, `rules` and `schema`: what the rules are, and what the JSON holds."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from advisor.options import RuleId, grouped


@grouped
def explain(rule: RuleId) -> None:
    """Say what a rule looks at, why it matters, and when not to worry."""
    from advisor.config import settings
    from advisor.explain import explain as text_of

    sys.stdout.write(text_of(rule, settings()))


@grouped
def rules(
    *, toml: Annotated[bool, typer.Option("--toml", help="All thresholds, ready for phasewise.toml.")] = False
) -> None:
    """List the rules and caveats; * marks a rule whose thresholds phasewise.toml sets."""
    from advisor.config import settings
    from advisor.explain import rules_list, rules_toml

    sys.stdout.write(rules_toml(settings()) if toml else rules_list(settings()))


@grouped
def schema() -> None:
    """Print the JSON Schema of `analyze --format json`."""
    from advisor.model import json_schema

    sys.stdout.write(json.dumps(json_schema(), indent=2) + "\n")
