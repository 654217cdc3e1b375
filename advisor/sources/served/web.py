"""Asks an address over HTTP: bounded in time and size, and what is secret goes to that very host alone."""

from __future__ import annotations

import json
import socket
import ssl
from contextlib import contextmanager, suppress
from threading import Timer
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from advisor.errors import InputError
from advisor.redact import clean
from advisor.sources.served.reasons import reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import httpx

    Trace = Callable[[str], None]

CONNECT_S, ANSWER_S = 3.0, 20.0
"""An engine that evaluates a long prompt may answer late."""

LARGEST_BYTES = 16 << 20
_MOST_HOPS = 5
_REDIRECTS = {301, 302, 303, 307, 308}


class NoAnswerError(Exception):
    """Nothing usable came back; the message is why, in a few words such as ``connection refused``.

    Attributes:
        is_late: only because it took too long.
    """

    def __init__(self, why: str, *, is_late: bool = False) -> None:
        super().__init__(why)
        self.is_late = is_late


class Answer(NamedTuple):
    """What came back.

    Attributes:
        status: HTTP's.
        reason: what the server calls that status.
        body: as it was sent.
    """

    status: int
    reason: str
    body: bytes

    def json(self) -> Any:
        """The body as JSON; ``None`` where it is none, or the status is no 200."""
        return self.any_json() if self.status == 200 else None

    def any_json(self) -> Any:
        """The body as JSON, whatever the status; ``None`` where it is none."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None


class Web:
    """One server.

    Proxies and credentials of the environment are not used. Redirects are followed on the same host and port
    alone. A name and password in the address are sent to it, in place of the token.

    Args:
        address: ``http://host:port``, maybe with a path that all others are under.
        token: is sent as a bearer token.
        answer_s: how long a whole answer may take.

    Attributes:
        name: the address without name and password, as it may be shown.
        key: what it is asked with, in words; empty for nothing.

    Raises:
        InputError: it is no such address, or the token can't be sent.
    """

    def __init__(self, address: str, *, token: str | None = None, answer_s: float = ANSWER_S) -> None:
        split = _split(address)
        at = split.netloc.rpartition("@")[2]
        self.path = split.path.rstrip("/")
        self._root = f"{split.scheme}://{at}"
        self.name = clean(f"{self._root}{self.path}")
        self._headers: Mapping[str, str] = {"Accept-Encoding": "identity", "User-Agent": "phasewise"}
        self._login: tuple[str, str] | None = None
        self.key = ""
        if split.username is not None:
            self._login = unquote(split.username), unquote(split.password or "")
            self.key = "the name and password in the address"
        elif token:
            if not token.isascii() or not token.isprintable() or " " in token:
                raise InputError("the token has characters that can't be sent; is there a line break in it?")
            self.key = "the key in PHASEWISE_TOKEN"
            self._headers = {**self._headers, "Authorization": f"Bearer {token}"}
        self._answer_s = answer_s
        self._client: httpx.Client | None = None
        self._socket: socket.socket | None = None
        self._is_late = self._is_cut = False

    def get(self, path: str) -> Answer:
        """What the server answers at a path under the address.

        Raises:
            NoAnswerError: nothing, or nothing that may be read.
        """
        import httpx

        with self._bounded() as client:
            return self._followed(client, httpx.URL(self._root + self.path + path))

    @contextmanager
    def post(self, path: str, said: Any, trace: Trace | None = None) -> Iterator[httpx.Response]:
        """Send JSON, and give the answer as it comes; it is cut when the block is left.

        A connection of its own is used, and no redirect is followed.

        Args:
            path: under the address.
            said: becomes JSON.
            trace: is told what happens on the connection, in httpx's words.

        Raises:
            NoAnswerError: nothing, or what comes breaks off; also while the answer is read in the block.
        """

        def told(event: str, what: dict[str, Any]) -> None:
            self._trace(event, what)
            if trace is not None:
                trace(event)

        with self._bounded() as client:
            headers = {"Connection": "close"}
            url = self._root + self.path + path
            request = client.build_request(
                "POST", url, json=said, headers=headers, extensions={"trace": told}
            )
            answer = client.send(request, stream=True)
            try:
                if answer.status_code in _REDIRECTS:
                    raise NoAnswerError("it redirects to another address, which is not followed")
                yield answer
            finally:
                answer.close()

    @contextmanager
    def _bounded(self) -> Iterator[httpx.Client]:
        """The client for one answer, which is cut when it takes too long.

        Raises:
            NoAnswerError: what went wrong in the block.
        """
        import httpx

        client = self._opened()
        self._is_late = False
        timer = Timer(self._answer_s, self._end_late)
        timer.daemon = True
        timer.start()
        try:
            yield client
        except httpx.InvalidURL:
            raise NoAnswerError("that is no address") from None
        except (httpx.HTTPError, OSError) as error:
            late = self._is_late or isinstance(error, httpx.ReadTimeout)
            why = f"not within {self._answer_s:g} s" if late else reason(error)
            raise NoAnswerError(why, is_late=late) from None
        finally:
            timer.cancel()

    def cut(self) -> None:
        """End the answer that another thread waits for, and each that is asked for after that."""
        self._is_cut = True
        self._shut()

    def _end_late(self) -> None:
        self._is_late = True
        self._shut()

    def _shut(self) -> None:
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Let go of the connection."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _opened(self) -> httpx.Client:
        if self._client is None:
            import httpx

            self._client = httpx.Client(
                auth=self._login,
                headers=self._headers,
                timeout=httpx.Timeout(self._answer_s, connect=min(CONNECT_S, self._answer_s)),
                limits=httpx.Limits(max_connections=1),
                trust_env=False,
                verify=self._root.startswith("https:") and _trusted(),
            )
        return self._client

    def _followed(self, client: httpx.Client, url: httpx.URL) -> Answer:
        origin = url.scheme, url.host, url.port
        for _ in range(_MOST_HOPS):
            request = client.build_request("GET", url, extensions={"trace": self._trace})
            answer = client.send(request, stream=True)
            try:
                if answer.status_code not in _REDIRECTS or "location" not in answer.headers:
                    return whole(answer)
            finally:
                answer.close()
            url = url.join(answer.headers["location"])
            if (url.scheme, url.host, url.port) != origin:
                raise NoAnswerError("it redirects to another address, which is not followed")
        raise NoAnswerError("it redirects again and again")

    def _trace(self, event: str, told: dict[str, Any]) -> None:
        """Remember the socket: ending it is the one way to stop an answer that drips."""
        if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            self._socket = told["return_value"].get_extra_info("socket")
            if self._is_cut or self._is_late:
                self._shut()


def _trusted() -> ssl.SSLContext:
    """The certificates that this machine trusts, and those that browsers do; loading them takes a while."""
    import certifi

    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    return context


def _split(address: str) -> SplitResult:
    shown = clean(address.rpartition("@")[2])
    try:
        split = urlsplit(address)
        _ = split.port
    except ValueError:
        raise InputError(f"{shown}: this is no address.") from None
    if split.scheme not in ("http", "https") or not split.hostname:
        raise InputError(f"{shown}: give an address such as http://127.0.0.1:8080.")
    if split.query or split.fragment:
        raise InputError(f"{clean(shown.partition('?')[0].partition('#')[0])}: give it without ? and #.")
    return split


def whole(answer: httpx.Response) -> Answer:
    """All of an answer.

    Raises:
        NoAnswerError: it is too large.
    """
    return Answer(answer.status_code, clean(answer.reason_phrase), b"".join(parts(answer)))


def parts(answer: httpx.Response) -> Iterator[bytes]:
    """An answer as it comes.

    Raises:
        NoAnswerError: it is too large.
    """
    size = 0
    for part in answer.iter_raw():
        size += len(part)
        if size > LARGEST_BYTES:
            raise NoAnswerError(f"its answer is larger than {LARGEST_BYTES >> 20} MiB")
        yield part
