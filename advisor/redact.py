"""Log text is hostile and private: what leaves `phasewise` is cleaned here.

Control characters and terminal escapes never pass. Secrets, home folders and the folders of models are
taken out unless the user asks to keep them with ``--no-redact``.
"""

from __future__ import annotations

import re

_CONTROL = re.compile(
    r"\x1b\[[0-9;?]*[ -/]*[@-~]"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]"
)
_SECRETS = re.compile(
    r"\b(?:sk|pk|rk|hf|ghp|gho|xox[bap]|AKIA)[-_A-Za-z0-9]{12,}"
    r"|(?i:\bbearer\s+)\S+"
    r"|(?i:\b(?:api[-_]?key|token|password|secret)\s*[=:]\s*)\S+"
    r"|\b[\w.+-]+@[\w-]+\.[\w.]+\b"
)
_HOME = re.compile(r"(?:/home/|/Users/|[A-Za-z]:\\Users\\)[^/\\\s]+")
_MASK = "[redacted]"


def clean(text: str) -> str:
    """Without control characters, terminal escapes and direction marks."""
    return _CONTROL.sub("", text.replace("\n", " ").replace("\t", " "))


def private(text: str) -> str:
    """Without secrets, mail addresses and user names in paths."""
    return _HOME.sub("~", _SECRETS.sub(_MASK, clean(text)))


def model_name(name: str) -> str:
    """A model without the folders it lies in; names such as ``org/model`` keep their owner."""
    cleaned = clean(name)
    looks_like_path = cleaned.startswith(("/", "~", ".")) or "\\" in cleaned or cleaned.count("/") > 1
    return private(re.split(r"[/\\]", cleaned)[-1] if looks_like_path else cleaned)
