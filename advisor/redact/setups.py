"""Facts of setups with their texts cleaned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from advisor.redact import Plain
    from parsers.setup import Setup


def redacted_setup(setup: Setup, words: Plain) -> Setup:
    """The setup with every text that came from the log cleaned."""
    devices = [d.model_copy(update={"name": words.text(d.name)}) for d in setup.devices]
    facts = cleaned({name: value for name, value in setup if isinstance(value, str)}, words)
    return setup.model_copy(update={**facts, "devices": devices}, deep=True)


def cleaned(facts: dict[str, Any], words: Plain) -> dict[str, Any]:
    """Facts with every text cleaned."""
    return {name: words.of(name)(fact) if isinstance(fact, str) else fact for name, fact in facts.items()}
