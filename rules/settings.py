"""What a user may set about the rules: which are asked, and the numbers they compare with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rules.rule import Rule


@dataclass(frozen=True, slots=True)
class Settings:
    """The ``[rules]`` of ``phasewise.toml``.

    Attributes:
        disabled: ids of rules that are not asked.
        thresholds: by rule id, then by name, values in place of the defaults.
    """

    disabled: frozenset[str] = frozenset()
    thresholds: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def enabled(self, rule_id: str) -> bool:
        """Whether the rule is asked."""
        return rule_id not in self.disabled

    def of(self, rule: Rule) -> dict[str, float]:
        """The rule's thresholds in force, by name."""
        defaults = {name: float(threshold.value) for name, threshold in rule.thresholds.items()}
        return {**defaults, **self.thresholds.get(rule.id, {})}
