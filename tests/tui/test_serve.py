"""The screens in a browser: who may ask, and that nothing comes from elsewhere."""

from __future__ import annotations

import asyncio
import re
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.advisor.helpers import SAMPLES, environment
from tests.required import skip

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.browser

LOG = SAMPLES / "llama-server-four-slots.log"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    if find_spec("textual_serve") is None:
        skip("no textual-serve: pip install '.[serve]'")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "advisor", "tui", str(LOG), "--serve", "--port", str(port)]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, env=environment())
    assert server.stderr is not None
    said = server.stderr.readline().decode()
    found = re.search(r"http://\S+/", said)
    assert found, said
    yield found[0]
    server.terminate()
    server.wait(20)
    server.stderr.close()


def status(address: str, **headers: str) -> int:
    try:
        with urlopen(Request(address, headers=headers), timeout=10) as answer:
            return int(answer.status)
    except HTTPError as error:
        return error.code


def test_only_who_knows_the_key_and_comes_from_our_own_page_is_let_in(address: str) -> None:
    root = address.rsplit("/", 2)[0]
    assert status(address) == 200
    assert status(f"{root}/") == 403
    assert status(f"{root}/ws") == 403
    assert status(address, Host="evil.example") == 403
    assert status(address, Origin="http://evil.example") == 403
    assert status(f"{root}/static/../../server.py") in (403, 404)


def test_the_page_loads_nothing_from_elsewhere(address: str) -> None:
    with urlopen(address, timeout=10) as answer:
        page, policy = answer.read().decode(), answer.headers["Content-Security-Policy"]
    assert re.findall(r"https?://|src=\"//", page) == []
    assert "default-src 'none'" in policy


def test_the_screens_are_drawn(address: str) -> None:
    aiohttp = pytest.importorskip("aiohttp")

    async def drawn() -> bytes:
        seen = b""
        url = f"{address.replace('http', 'ws', 1)}ws?width=100&height=30"
        async with aiohttp.ClientSession() as client, client.ws_connect(url) as screens:
            while b"12 requests" not in seen:
                message = await screens.receive(timeout=30)
                seen += message.data if isinstance(message.data, bytes) else b""
        return seen

    with ThreadPoolExecutor(1) as elsewhere:  # Playwright's loop may run in this thread
        assert b"Overview" in elsewhere.submit(asyncio.run, drawn()).result()
