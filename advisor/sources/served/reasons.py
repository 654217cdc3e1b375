"""Why an address gave no answer, in our own words: the server's may hold anything."""

from __future__ import annotations

import socket
import ssl
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_REASONS: tuple[tuple[type[BaseException], str], ...] = (
    (ConnectionRefusedError, "connection refused"),
    (socket.gaierror, "there is no such host"),
    (ssl.SSLCertVerificationError, "its certificate is not trusted"),
    (ssl.SSLError, "it does not speak HTTPS"),
)


def reason(error: Exception) -> str:
    """The end of a sentence, such as ``connection refused``."""
    import httpx

    causes = list(_causes(error))
    for kind, words in _REASONS:
        if any(isinstance(cause, kind) for cause in causes):
            return words
    if isinstance(error, httpx.TimeoutException):
        return "it can't be reached"
    if isinstance(error, httpx.RemoteProtocolError):
        return "what comes back is not HTTP, or breaks off"
    return "the connection broke" if isinstance(error, httpx.NetworkError) else "it can't be asked"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
