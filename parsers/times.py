"""Times as what wraps a log writes them, and as rows keep them: UTC, to the microsecond."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

EPOCH, MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)


def parse_iso(text: bytes | None) -> datetime | None:
    """An ISO 8601 time with a zone as UTC to the microsecond; ``None`` if it is not one."""
    if not text:
        return None
    try:
        time = datetime.fromisoformat(text.decode("ascii", "replace"))
        if time.tzinfo is UTC:
            return time
        return time.astimezone(UTC) if time.tzinfo else None
    except (ValueError, OverflowError):
        return None


def since_1970(epoch_us: object) -> datetime | None:
    """Microseconds as the journal writes them."""
    if not (isinstance(epoch_us, str) and epoch_us.isascii() and epoch_us.isdigit() and len(epoch_us) < 18):
        return None
    return EPOCH + int(epoch_us) * MICROSECOND


def microseconds(time: datetime) -> int:
    """The same as a number: polars and numpy are slow to take times one by one."""
    return (time - EPOCH) // MICROSECOND
