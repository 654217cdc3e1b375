"""Which models think before they answer: what the template says, and what names are known for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from parsers.setup import Setup

ALWAYS = (
    r"deepseek[-_ ]?r1",
    r"\bqwq\b",
    r"\bqvq\b",
    r"magistral",
    r"gpt[-_ ]?oss",
    r"minimax[-_ ]?m[12]\b",
    r"(?<!no)(?<!non)[-_ ](?:think|reason)(?:ing|er)?\b",
)
"""Names, or parts of them, of models that can't be told not to think."""

BY_DEFAULT = (
    r"qwen[-_ ]?3(?!\d)",
    r"glm[-_ ]?(?:4\.[5-9]|5)(?!\d)",
    r"kimi[-_ ]?k2\.5",
    r"smollm[-_ ]?3",
    r"seed[-_ ]?oss",
    r"hunyuan[-_ ]?a13b",
    r"nemotron[-_ ]?(?:nano[-_ ]\d+b[-_ ]v2|3[-_ ](?:nano|super|ultra))",
)
"""Of models that think unless a request or the server says otherwise."""

NOT_THESE = r"instruct|coder|embed|rerank|\bbase\b|no[-_ ]?think|non[-_ ]?think"
"""Their relatives that don't."""

_ALWAYS, _BY_DEFAULT, _NOT_THESE = (
    re.compile(pattern, re.IGNORECASE) for pattern in ("|".join(ALWAYS), "|".join(BY_DEFAULT), NOT_THESE)
)


def thinks(setup: Setup) -> str | None:
    """A sentence that says how it is known that the model thinks first; ``None`` where nothing says so.

    A template without the switch does not decide: llama-server says ``thinking = 0`` of every model that it
    runs without ``--jinja``, which used to be the default.
    """
    name = setup.model or ""
    if setup.thinking:
        return "Its template says that the model thinks before it answers."
    if _ALWAYS.search(name):
        return "Its name says that the model thinks before it answers."
    if _BY_DEFAULT.search(name) and not _NOT_THESE.search(name):
        return "Models of this name think before they answer, unless they are told not to."
    return None
