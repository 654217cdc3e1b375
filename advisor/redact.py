"""Log text is hostile and private: what leaves `phasewise` is cleaned here.

Control characters and terminal escapes never pass. Secrets, home folders and the folders of models are
taken out unless the user asks to keep them with ``--no-redact``.
"""

from __future__ import annotations

import re

_CONTROL = re.compile(
    r"\x1b\[[0-9;?]*[ -/]*[@-~]"
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]"
    r"|[\U000e0000-\U000e007f]"
)
_SECRETS = re.compile(
    r"\b(?:sk|pk|rk)[-_][-_A-Za-z0-9]{12,}"
    r"|\b(?:xox[abeprs]|glpat|nvapi)-[-_A-Za-z0-9]{12,}"
    r"|\b(?:hf|gh[oprsu]|github_pat|dckr_pat|npm)_[-_A-Za-z0-9]{12,}"
    r"|\bAIza[-_A-Za-z0-9]{20,}"
    r"|\bAKIA[A-Z0-9]{16}\b"
    r"|\beyJ[-_A-Za-z0-9]+\.[-_A-Za-z0-9.]+"
    r"|(?i:\bbearer\s+)\S+"
    r"|(?i:(?<![a-z])(?:api[-_]?key|token|password|secret)[_a-z]*['\"]?\s*[=:]\s*)(?![\d.,]+(?:\s|$))\S+"
    r"|(?i:(?:--(?:[a-z]+-)*(?:key|token|secret)|(?:--)?password)\s+)\S+"
    r"|(?<=://)[^/\s@]+@"
    r"|\b[\w.+-]+@[\w-]+\.[\w.]+\b"
)
_HOME = re.compile(
    r"(?:/home/|/(?:run/)?media/|(?i:/(?:[\w.-]+/)*users/|[a-z]:[/\\]+users[/\\]+|\\\\[\w.$-]+\\users\\))"
    r"(?:[^/\\\s]+(?: [^/\\\s]+){1,3}(?=[/\\])|[^/\\\s]+)"
)
_MASK = "[redacted]"


def printable(text: str) -> str:
    """A file name whose bytes are no UTF-8 as text that can be written anywhere."""
    return text.encode("utf-8", "replace").decode("utf-8")


def clean(text: str) -> str:
    """Without control characters, terminal escapes, invisible characters and direction marks."""
    return printable(_CONTROL.sub("", text.replace("\n", " ").replace("\t", " ")))


def private(text: str) -> str:
    """Without secrets, mail addresses and user names in paths."""
    return _HOME.sub("~", _SECRETS.sub(_MASK, clean(text)))


def model_name(name: str) -> str:
    """A model without the folders it lies in; names such as ``org/model`` keep their owner."""
    cleaned = clean(name).rstrip("/\\")
    looks_like_path = cleaned.startswith(("/", "~", ".")) or "\\" in cleaned or cleaned.count("/") > 1
    return private(re.split(r"[/\\]", cleaned)[-1] if looks_like_path else cleaned)
