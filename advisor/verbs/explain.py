"""`phasewise explain`, `rules` and `schema`: what the rules are, and what the JSON holds."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from advisor.options import RuleId, grouped

if TYPE_CHECKING:
    from pydantic import BaseModel


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


class Schema(StrEnum):
    """What verbs print with ``--format json``."""

    ANALYZE = "analyze"
    COMPARE = "compare"
    RUN = "run"
    PROBE = "probe"


@grouped
def schema(
    of: Annotated[
        Schema, typer.Argument(metavar="[VERB]", help="analyze, compare, run or probe.")
    ] = Schema.ANALYZE,
) -> None:
    """Print the JSON Schema of what a verb prints with --format json."""
    sys.stdout.write(
        json.dumps(_model(of).model_json_schema(by_alias=True, mode="serialization"), indent=2) + "\n"
    )


def _model(of: Schema) -> type[BaseModel]:
    if of is Schema.COMPARE:
        from advisor.comparison_model import Comparison

        return Comparison
    if of is Schema.RUN:
        from advisor.runner.result import Run

        return Run
    if of is Schema.PROBE:
        from advisor.probe.result import Probe

        return Probe
    from advisor.model import Analysis

    return Analysis
