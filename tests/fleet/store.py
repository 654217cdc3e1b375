"""A server that speaks S3, in a process of its own, with a bucket of logs."""

from __future__ import annotations

import hashlib
import hmac
import subprocess
import sys
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

import httpx

if TYPE_CHECKING:
    from collections.abc import Iterator

BUCKET = "fleet-logs"
KEY, SECRET, REGION = "AKIATESTTESTTESTTEST", "a-secret-that-nobody-prints", "us-east-1"
_SERVER = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
server.stop()
"""


class Store(NamedTuple):
    """Where it listens."""

    endpoint: str

    @property
    def environment(self) -> dict[str, str]:
        """What a command needs to read from it."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": REGION,
        }

    def put(self, key: str, body: bytes) -> None:
        """Write an object; an empty key makes the bucket."""
        path = f"/{BUCKET}/{quote(key)}".rstrip("/")
        answer = httpx.put(f"{self.endpoint}{path}", content=body, headers=self._signed("PUT", path, body))
        answer.raise_for_status()

    def _signed(self, method: str, path: str, body: bytes) -> dict[str, str]:
        """AWS signature version 4: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html"""
        at = datetime.now(UTC)
        day, stamp, digest = (
            at.strftime("%Y%m%d"),
            at.strftime("%Y%m%dT%H%M%SZ"),
            hashlib.sha256(body).hexdigest(),
        )
        host = self.endpoint.removeprefix("http://")
        names = "host;x-amz-content-sha256;x-amz-date"
        headers = f"host:{host}\nx-amz-content-sha256:{digest}\nx-amz-date:{stamp}\n"
        asked = f"{method}\n{path}\n\n{headers}\n{names}\n{digest}"
        scope = f"{day}/{REGION}/s3/aws4_request"
        text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(asked.encode()).hexdigest()}"
        key = f"AWS4{SECRET}".encode()
        for part in scope.split("/"):
            key = hmac.digest(key, part.encode(), "sha256")
        signature = hmac.new(key, text.encode(), "sha256").hexdigest()
        return {
            "x-amz-date": stamp,
            "x-amz-content-sha256": digest,
            "Authorization": (
                f"AWS4-HMAC-SHA256 Credential={KEY}/{scope}, SignedHeaders={names}, Signature={signature}"
            ),
        }


@contextmanager
def serving() -> Iterator[Store]:
    """The server, with an empty bucket."""
    process = subprocess.Popen(
        [sys.executable, "-c", _SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = next(line for line in process.stdout if line.strip().isdigit())
        store = Store(f"http://127.0.0.1:{line.strip()}")
        store.put("", b"")
        yield store
    finally:
        process.terminate()
        process.communicate(timeout=20)
