"""The screens in a browser: `textual-serve`, for this machine only unless told otherwise."""

from __future__ import annotations

import ipaddress
import shlex
import subprocess
import sys
from html import escape
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from advisor.command import warn
from advisor.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from aiohttp import web

_PAGE = Path(__file__).with_name("served.html")
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; font-src 'self'; "
    "img-src 'self' data:; connect-src 'self' ws://{host}"
)
_OPTIONS = {"--host", "--port"}


def serve(command: Sequence[str], host: str, port: int) -> None:
    """Serve the screens of this command until Ctrl-C; each browser has a session of its own.

    A page of another site can't reach them: the browser names the site that asks, and only the served
    address itself is let in.

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
        raise InputError("--serve needs the extra `serve`: pip install 'phasewise[serve]'.") from None

    class OwnPage(Server):  # type: ignore[misc, unused-ignore]
        """The served page, without what it would load from elsewhere, and for its own address only."""

        def initialize_logging(self) -> None:
            """Errors reach the terminal as they are."""

        async def _make_app(self) -> web.Application:
            app: web.Application = await super()._make_app()
            app.middlewares.append(_only_from(names))
            return app

        async def handle_index(self, request: web.Request) -> web.Response:
            """The page: a terminal, and nothing that comes from elsewhere."""
            host = escape(request.host)
            page = Template(_PAGE.read_text("utf-8")).substitute(host=host)
            policy = {"Content-Security-Policy": _POLICY.format(host=host)}
            return web.Response(text=page, content_type="text/html", headers=policy)

        async def on_startup(self, app: web.Application) -> None:
            """Say where it is."""
            print(f"phasewise: serving {self.public_url}; Ctrl-C ends it.", file=sys.stderr, flush=True)

    shown = f"[{host}]" if ":" in host else host
    names = {f"{name}:{port}" for name in (shown, "localhost", "127.0.0.1", "[::1]")}
    if not _is_loopback(host):
        names.clear()
        warn(f"--host {host}: anybody who reaches this port sees the log.")
    server = OwnPage(
        _joined([sys.executable, "-m", "advisor", *_without_serving(command[1:])]),
        host=host,
        port=port,
        title="phasewise",
        public_url=f"http://{shown}:{port}",
    )
    try:
        server.serve()
    except OSError as error:
        raise InputError(f"{host}:{port}: can't listen there ({error.strerror or error}).") from None


def _only_from(names: set[str]) -> Callable[..., Awaitable[web.StreamResponse]]:
    """Refuses who asks from another site's page, or under a name not among these, if there are any."""
    from aiohttp import web

    @web.middleware
    async def check(
        request: web.Request, handle: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        origin = request.headers.get("Origin", f"http://{request.host}")
        if (names and request.host not in names) or origin.partition("://")[2] != request.host:
            raise web.HTTPForbidden(text="Not from here.")
        return await handle(request)

    return check


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


def _joined(words: Sequence[str]) -> str:
    return subprocess.list2cmdline(words) if sys.platform == "win32" else shlex.join(words)
