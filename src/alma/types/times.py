"""Times are aware and in UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


def utc(moment: datetime) -> datetime:
    """Return a moment in UTC; raise ValueError if it has no time zone."""
    if moment.tzinfo is None:
        raise ValueError(f"{moment!r} has no time zone; pass an aware datetime such as datetime.now(timezone.utc)")
    return moment.astimezone(UTC)


def to_micros(moment: datetime) -> int:
    """Return a moment as microseconds since the epoch."""
    return (moment - EPOCH) // timedelta(microseconds=1)


def from_micros(micros: int) -> datetime:
    """Return the moment of so many microseconds since the epoch."""
    return EPOCH + timedelta(microseconds=micros)


def to_iso(moment: datetime | None) -> str | None:
    """Return a moment as ISO 8601 text in UTC; None for None."""
    return None if moment is None else moment.astimezone(UTC).isoformat(timespec="microseconds")


def format_minute(moment: datetime) -> str:
    """Return a moment as messages show it, such as 2026-03-02 12:15 UTC."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def from_iso(text: str | None) -> datetime | None:
    """Return the moment of an ISO 8601 text in UTC; None for None."""
    return None if text is None else datetime.fromisoformat(text).astimezone(UTC)
