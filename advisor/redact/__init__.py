"""Log text is hostile and private: what leaves `phasewise` is cleaned here.

Control characters and terminal escapes never pass. Secrets, addresses, names of people and machines, and the
folders of models are masked unless the user asks to keep them with ``--no-redact``. The same secret has the
same label wherever it stands, so two machines can still be told apart; a label is a number and tells nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING

from advisor.redact.patterns import (
    FOLDERS,
    HOMES,
    NETWORK,
    SECRETS,
    SUSPECT,
    TOKENS,
    USERS,
    is_telling,
    same,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from advisor.redact.patterns import Private

_CONTROL = re.compile(
    r"\x1b\[[0-9;?]*[ -/]*[@-~]"
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]"
    r"|[\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f]"
    r"|[\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e007f\ufdd0-\ufdef\ufffe\uffff]"
)
_TRAILING = re.compile(r"(?<![\s.,;:!?'\")\]}>])[\s.,;:!?'\")\]}>]+$")
_ALONE = re.compile(r"(?<![\w.@/\\\[-])[A-Za-z_]\w*(?:[.-]\w+)*(?![\w-])")
_SHORTEST = 3
_COMMON_NAMES = {
    *("root", "user", "users", "admin", "administrator", "guest", "nobody", "default", "public", "shared"),
    *("ubuntu", "debian", "fedora", "centos", "ec2-user", "azureuser", "opc", "vagrant", "runner", "jovyan"),
    *("docker", "podman", "node", "app", "home", "data", "server", "service", "system", "local", "host"),
    *("model", "models", "llama", "ollama", "vllm", "sglang", "nvidia", "amd", "cuda", "cpu", "gpu"),
}
"""Names that are words too: they are masked in paths, and stay where they stand alone."""


def printable(text: str) -> str:
    """A file name whose bytes are no UTF-8 as text that can be written anywhere."""
    return text.encode("utf-8", "replace").decode("utf-8")


def clean(text: str) -> str:
    """Without control characters, terminal escapes, invisible characters and direction marks."""
    return printable(_CONTROL.sub("", text.replace("\n", " ").replace("\t", " ")))


class Plain:
    """Cleans texts and keeps what they say: ``--no-redact``."""

    def text(self, text: str) -> str:
        """Any text of a log."""
        return clean(text)

    def version(self, text: str) -> str:
        """The version of an engine."""
        return clean(text)

    def model(self, name: str) -> str:
        """The name or path of a model."""
        return clean(name)

    def of(self, column: str) -> Callable[[str], str]:
        """What cleans the texts of a column, or a fact of a setup."""
        return {"model": self.model, "engine_version": self.version}.get(column, self.text)


class Redactor(Plain):
    """Masks what is private; each secret has one label as long as this object lives.

    Labels are numbered as secrets appear: ``[ip-1]``, ``[ip-2]``, ``[host-1]``. Threads may share it.
    """

    def __init__(self) -> None:
        self._labels: dict[tuple[str, str], str] = {}
        self._names: dict[str, str] = {}
        self._counts: Counter[str] = Counter()
        self._lock = Lock()

    def text(self, text: str) -> str:
        """Any text of a log."""
        return self._without_names(self._without_secrets(clean(text)))

    def version(self, text: str) -> str:
        """The version of an engine, such as ``1.30.1.2``, which is no address."""
        return self._without_secrets(clean(text))

    def model(self, name: str) -> str:
        """A model without the folders it lies in; names such as ``org/model`` keep their owner."""
        cleaned = clean(name).rstrip("/\\")
        looks_like_path = cleaned.startswith(("/", "~", ".")) or "\\" in cleaned or cleaned.count("/") > 1
        return self.text(re.split(r"[/\\]", cleaned)[-1] if looks_like_path else cleaned)

    def private(self, text: str) -> str:
        """The text with keys, addresses and names of machines masked, and its spaces as they are."""
        return self._masked(text, TOKENS + NETWORK)

    def label(self, kind: str, it: str) -> str:
        """The label of a secret."""
        if kind == "at":
            user, host = it.split("@")
            return f"{self.label('user', user)}@{self.label('host', host)}"
        key = kind, same(kind, it)
        if (known := self._labels.get(key)) is not None:
            return known
        with self._lock:
            if key not in self._labels:
                self._counts[kind] += 1
                self._labels[key] = f"[{kind}-{self._counts[kind]}]"
        label = self._labels[key]
        if kind in {"user", "host"} and len(it) >= _SHORTEST and it.lower() not in _COMMON_NAMES:
            self._names[it] = label
        return label

    def _without_secrets(self, text: str) -> str:
        """Without keys, folders of models, and user names in paths."""
        return FOLDERS.sub("", self._masked(text, SECRETS + HOMES))

    def _without_names(self, text: str) -> str:
        """Without addresses, machines and people, also where one that is known stands alone."""
        text = self._masked(text, NETWORK + USERS)
        return _ALONE.sub(lambda m: self._names.get(m[0], m[0]), text) if self._names else text

    def _masked(self, text: str, kinds: tuple[Private, ...]) -> str:
        for private in kinds:
            text = private.pattern.sub(partial(self._mask, private.kind), text)
        return text

    def _mask(self, kind: str, found: re.Match[str]) -> str:
        group = "it" if found["it"] is not None else "quoted"
        it = found[group]
        if kind == "secret":
            it = _TRAILING.sub("", it)
        if not is_telling(kind, it, found):
            return found[0]
        start = found.start(group) - found.start()
        return found[0][:start] + self.label(kind, it) + found[0][start + len(it) :]


__all__ = ["SUSPECT", "Plain", "Redactor", "clean", "printable"]
