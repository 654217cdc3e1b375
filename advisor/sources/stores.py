"""Logs in object stores: ``s3://``, ``gs://`` and ``az://`` paths, read in ranges.

Credentials, region and endpoint come from the environment, as the library takes them. What a store answers is
never printed: it may quote a request, and a request may be signed.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from advisor.errors import InputError, UnrecognisedError
from advisor.interrupt import Stopped
from advisor.sources.ranges import Ranges, answer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SCHEMES = ("s3://", "gs://", "az://")
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_MAGIC = re.compile(r"[*?\[]")
_TRUE = {"1", "true", "yes", "on", "y", "t"}
_CREDENTIALS = {
    "s3": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_SKIP_SIGNATURE=true for a public bucket",
    "gs": "set GOOGLE_APPLICATION_CREDENTIALS, or GOOGLE_SKIP_SIGNATURE=true for a public bucket",
    "az": "set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}
_CHANGED = "it changed while it was read"

_REASONS = {
    "NoSuchBucket|ContainerNotFound": "there is no bucket {bucket}",
    "169.254.|MissingAccount|TokenRequest|token request|metadata.": "no credentials found; {credentials}",
    "PreconditionError": _CHANGED,
    "UnauthenticatedError|InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken": (
        "the credentials in the environment are not accepted"
    ),
    "redirect|Redirect|AuthorizationHeaderMalformed|IllegalLocation": (
        "the bucket is in another region; set AWS_REGION"
    ),
    "PermissionDeniedError|AccessDenied": "no permission to read it with the credentials in the environment",
    "Could not parse path": "no such name is possible there",
    "sending request|timed out|TimedOut": (
        "the store can't be reached; look at the network and the endpoint"
    ),
}
"""What an error's text says, and what that means; the first that fits."""

_sizes: dict[str, int] = {}


def is_store(name: str) -> bool:
    """Whether a path leads into an object store."""
    return name.startswith(SCHEMES)


def found(given: str, is_log_name: Callable[[str], bool]) -> tuple[list[str], str | None]:
    """What a path names: one object, those that match a pattern, or a folder's that are named like logs.

    Args:
        given: as the user wrote it.
        is_log_name: whether an object of this name may be a log.

    Returns:
        Paths in their order, and the folder that they were found in if the user named that.

    Raises:
        InputError: the store can't be asked, or nothing is there.
        UnrecognisedError: nothing in that folder is named like a log.
    """
    scheme, bucket, key = _split(given)
    magic = _MAGIC.search(key)
    with _told(given):
        store = _store(scheme, bucket)
        if key and not key.endswith("/") and _is_there(store, key, given):
            return [given], None
        folder = key[: magic.start()].rpartition("/")[0] if magic else key
        paths = _below(store, folder, f"{scheme}://{bucket}/")
    if magic:
        pattern = _pattern(given)
        matching = [path for path in paths if pattern.match(path)]
        if not matching:
            raise InputError(f"{given}: no object matches this pattern.")
        return matching, None
    if not paths:
        raise InputError(f"{given}: no such object or folder.")
    logs = [path for path in paths if is_log_name(path)]
    if not logs:
        raise UnrecognisedError(f"{given}: no object in there is named like a log")
    return logs, given


def size_of(name: str) -> int | None:
    """The size of an object that `found` has found; ``None`` of any other."""
    return _sizes.get(name)


def last_written(name: str) -> datetime:
    """When an object was last written; now where that can't be asked."""
    try:
        with _told(name):
            written: datetime = _head(name)[2]["last_modified"]
            return written.astimezone(UTC)
    except (InputError, Stopped):
        return datetime.now(UTC)


def begins(name: str, size: int) -> tuple[bytes, str | None]:
    """An object's first bytes, and by what this version of it is known; nothing if it holds fewer.

    Raises:
        InputError: it can't be read.
    """
    import obstore

    def ask() -> tuple[bytes, str | None]:
        got = obstore.get(store, key, options={"range": (0, size)})
        return bytes(got.bytes()), got.meta["e_tag"]

    with _told(name):
        store, key, meta = _head(name)
        return answer(ask) if meta["size"] >= size else (b"", meta["e_tag"])


def opened(name: str, version: str | None = None) -> Ranges:
    """An object's bytes.

    Args:
        name: the path.
        version: the one to read, as `begins` gave it; default the newest.

    Raises:
        InputError: it can't be opened, or there is another version by now.
    """
    import obstore

    with _told(name):
        store, key, meta = _head(name)
    same = {} if meta["e_tag"] is None else {"if_match": meta["e_tag"]}
    if version not in {None, meta["e_tag"]}:
        raise InputError(f"{name}: {_CHANGED}.")

    def fetch(start: int, end: int) -> memoryview:
        with _told(name):
            return memoryview(obstore.get(store, key, options={"range": (start, end), **same}).bytes())

    return Ranges(meta["size"], fetch)


def _split(name: str) -> tuple[str, str, str]:
    scheme, _, rest = name.partition("://")
    bucket, _, key = rest.partition("/")
    if "@" in bucket:
        raise InputError(f"{scheme}://: credentials belong in the environment, not in a path.")
    if not bucket or _MAGIC.search(bucket):
        raise InputError(f"{name}: name one bucket, as in {scheme}://bucket/logs/.")
    return scheme, bucket, key


def _head(name: str) -> tuple[Any, str, Any]:
    """The store, the key and what is known of an object."""
    import obstore

    scheme, bucket, key = _split(name)
    store = _store(scheme, bucket)
    return store, key, answer(lambda: obstore.head(store, key))


@lru_cache(maxsize=8)
def _store(scheme: str, bucket: str) -> Any:
    """A bucket, with its connections.

    Raises:
        InputError: the library is missing, or the environment asks for what can't be.
    """
    try:
        from obstore.store import from_url
    except ImportError:
        how = "pip install obstore into phasewise's environment"
        raise InputError(f"{scheme}:// paths need obstore: {how}.") from None
    if scheme == "s3":
        _require_endpoint()
    retries: Any = {"max_retries": 3, "retry_timeout": timedelta(seconds=90)}
    return from_url(f"{scheme}://{bucket}", retry_config=retries)


def _require_endpoint() -> None:
    from urllib.parse import urlsplit

    variable = next((name for name in _ENDPOINTS if os.environ.get(name)), None)
    if variable is None:
        return
    endpoint = urlsplit(os.environ[variable])
    if endpoint.scheme not in {"http", "https"} or not endpoint.hostname:
        raise InputError(f"{variable} is no address; give one such as https://s3.example.org.")
    if endpoint.scheme == "http" and os.environ.get("AWS_ALLOW_HTTP", "").lower() not in _TRUE:
        raise InputError(f"{variable} is not encrypted; to use it all the same, set AWS_ALLOW_HTTP=true.")


def _is_there(store: Any, key: str, path: str) -> bool:
    import obstore

    try:
        _sizes[path] = answer(lambda: obstore.head(store, key))["size"]
    except FileNotFoundError:
        return False
    return True


def _below(store: Any, folder: str, root: str) -> list[str]:
    """The paths of all objects below a folder."""
    import obstore

    listing = obstore.list(store, prefix=folder.rstrip("/") or None)
    sizes = answer(lambda: {f"{root}{one['path']}": one["size"] for some in listing for one in some})
    _sizes.update(sizes)
    return sorted(sizes)


def _pattern(path: str) -> re.Pattern[str]:
    """A pattern as a shell takes it: ``*`` within a folder, ``**`` in all below."""
    tokens = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    pieces = re.findall(r"\*\*/|\*\*|\*|\?|\[!?\]?[^\]]*\]|.", path, re.DOTALL)
    return re.compile("".join(tokens.get(piece) or _set_of(piece) for piece in pieces) + r"\Z", re.DOTALL)


def _set_of(piece: str) -> str:
    if len(piece) == 1:
        return re.escape(piece)
    inner = piece[1:-1].replace("\\", r"\\").replace("[", r"\[")
    return f"[^/{inner[1:]}]" if inner.startswith("!") else f"[{inner}]"


@contextmanager
def _told(name: str) -> Iterator[None]:
    """Say in one sentence why a store has not answered as it was asked."""
    if not is_store(name):
        raise ValueError(name)
    try:
        yield
    except InputError:
        raise
    except (FileNotFoundError, PermissionError, OSError, ValueError) as error:
        raise InputError(f"{name}: {_why(name, error)}.") from None
    except Exception as error:
        if type(error).__module__.partition(".")[0] != "obstore":
            raise
        raise InputError(f"{name}: {_why(name, error)}.") from None


def _why(name: str, error: Exception) -> str:
    """The reason, of what is known; never in the store's own words."""
    from urllib.parse import quote

    scheme, bucket, key = _split(name)
    kind, text = type(error).__name__, str(error)
    for given in (key, quote(key), bucket):
        text = text.replace(given, "") if given else text
    for signs, reason in _REASONS.items():
        if any(sign in f"{kind} {text}" for sign in signs.split("|")):
            return reason.format(bucket=bucket, credentials=_CREDENTIALS[scheme])
    if isinstance(error, PermissionError):
        return "no permission to read it with the credentials in the environment"
    if isinstance(error, FileNotFoundError):
        return "no such object"
    status = re.search(r"status code: (\d{3})", text)
    return f"the store answered with an error ({status[1] if status else kind})"
