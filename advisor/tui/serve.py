"""The screens in a browser: `textual-serve`, for this machine only unless told otherwise."""

from __future__ import annotations

import ipaddress
import secrets
import socket
import sys
from contextlib import closing
from html import escape
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from advisor.command import command_line, warn
from advisor.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from aiohttp import web

_PAGE = Path(__file__).with_name("served.html")
_POLICY = (
    "default-src 'none'; script-src 'self' 'nonce-{key}'; style-src 'self' 'unsafe-inline'; font-src 'self'; "
    "img-src 'self' data:; connect-src 'self' ws://{host}"
)
_OPTIONS = {"--host", "--port"}


def serve(command: Sequence[str], host: str, port: int) -> None:
    """Serve the screens of this command until Ctrl-C; each browser has a session of its own.

    The address holds a key that other users of this machine don't know. A page of another site can't reach
    the screens either: the browser says which site asks, and under which name.

    Args:
        command: the words of the command line; run again, without ``--serve``, for each browser.
        host: where to listen.
        port: the same.

    Raises:
        InputError: `textual-serve` isn't installed, or nobody can listen there.
    """
    try:
        from aiohttp import web
        from textual_serve.server import Server
    except ImportError:
        raise InputError("--serve needs the extra `serve`: pip install '.[serve]'.") from None

    key = secrets.token_urlsafe(16)
    shown = f"[{host}]" if ":" in host else host

    class OwnPage(Server):  # type: ignore[misc, unused-ignore]
        """The served page, without what it would load from elsewhere, under its own address only."""

        def initialize_logging(self) -> None:
            """Errors reach the terminal as they are."""

        async def _make_app(self) -> web.Application:
            app: web.Application = await super()._make_app()
            app.middlewares.append(_guard(key, host))
            app.router.add_get(f"/{key}/", self.handle_index)
            app.router.add_get(f"/{key}/ws", self.handle_websocket)
            return app

        async def handle_index(self, request: web.Request) -> web.Response:
            """The page: a terminal, and nothing that comes from elsewhere."""
            asked = escape(request.host)
            page = Template(_PAGE.read_text("utf-8")).substitute(host=asked, key=key)
            policy = {"Content-Security-Policy": _POLICY.format(host=asked, key=key)}
            return web.Response(text=page, content_type="text/html", headers=policy)

        async def on_startup(self, app: web.Application) -> None:
            """Say where it is."""
            address = f"http://{shown}:{port}/{key}/"
            print(f"phasewise: serving {address}; Ctrl-C ends it.", file=sys.stderr, flush=True)

    _require_port(host, port)
    if not _is_loopback(host):
        warn(f"--host {host}: whoever reaches this port and knows the key sees the log, unencrypted.")
    again = command_line([sys.executable, "-m", "advisor", *_without_serving(command[1:])])
    OwnPage(again, host=host, port=port, title="phasewise").serve()


def _require_port(host: str, port: int) -> None:
    """Have something to listen on.

    Raises:
        InputError: nobody can listen there.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with closing(socket.socket(family, kind, protocol)) as trial:
            if sys.platform != "win32":
                trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(address)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{host}:{port}: can't listen there ({reason}).") from None


def _guard(key: str, host: str) -> Callable[..., Awaitable[web.StreamResponse]]:
    """Refuses who doesn't know the key, asks from another site's page, or under a name that isn't ours."""
    from aiohttp import web

    @web.middleware
    async def check(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        origin = request.headers.get("Origin", f"http://{request.host}")
        ours = origin.partition("://")[2] == request.host and _is_ours(request.host, host)
        if not ours or not request.path.startswith((f"/{key}/", "/static/", "/download/")):
            raise web.HTTPForbidden(text="Not from here.")
        return await handler(request)

    return check


def _is_ours(asked: str, host: str) -> bool:
    """Whether a ``Host`` is this machine's: a name that somebody else's DNS leads here is not."""
    name = asked.lower().rpartition(":")[0] if asked.rpartition(":")[2].isdigit() else asked.lower()
    if name in ("localhost", host.lower()):
        return True
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _without_serving(words: Sequence[str]) -> list[str]:
    """The command without ``--serve`` and where to serve."""
    kept: list[str] = []
    skip = False
    for word in words:
        if skip or word == "--serve" or word.partition("=")[0] in _OPTIONS:
            skip = not skip and word in _OPTIONS
            continue
        kept.append(word)
    return kept
