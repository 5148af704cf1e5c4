"""Who may do what: bearer tokens in a file, by their hashes only.

The file lies beside the configuration, readable by its owner alone. A token reads, writes, approves or administers, in
some projects or in all, until it expires or is revoked; it is shown once, when it is made. The first one is made at the
first start and kept readable in a file of its own.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path

from ..errors import ConfigError, NotFoundError, ValidationError, unknown
from ..files import keep_out_of_git, lock_file, write_atomic
from ..operations import Effect
from ..schema import decode, plain
from ..trust_register import record_created_files
from ..types.times import now

FILE = "http-tokens.json"
FIRST_FILE = "http-token"
FIRST = "admin"
_PREFIX = "alma_"
_PATIENCE = 5.0
_MAX_NAME = 100
_DURATION = re.compile(r"(\d{1,5})([hdwy])")
_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1), "y": timedelta(days=365)}


class TokenScope(StrEnum):
    """What a token may do; each holds those before it."""

    READ = "read"
    WRITE = "write"
    APPROVE = "approve"
    """Also decides about memories from outside content. For people: an agent would approve what it was made to read."""
    ADMIN = "admin"

    def holds(self, other: TokenScope) -> bool:
        order = list(TokenScope)
        return order.index(self) >= order.index(other)


NEEDED = {
    Effect.READS: TokenScope.READ,
    Effect.ADDS: TokenScope.WRITE,
    Effect.CHANGES: TokenScope.WRITE,
    Effect.ERASES: TokenScope.ADMIN,
}
"""What a token must be allowed for an operation of this effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    name: str
    sha256: str
    """The hash of the secret, in hexadecimal digits. The secret is random, so that nobody finds it from this."""
    scope: TokenScope
    projects: frozenset[str] | None = None
    """The only projects there are for it; None: all."""
    created_at: datetime
    expires_at: datetime | None = None
    """None: it holds until it is revoked."""

    @property
    def is_expired(self) -> bool:
        return self.expires_at is not None and self.expires_at <= now()


# -- commands


def find_file(config: str | os.PathLike[str]) -> Path:
    """Return the file of tokens that belongs to a configuration."""
    return Path(config).resolve().parent / FILE


def list_tokens(path: Path) -> list[Token]:
    """Return all tokens, oldest first; none when there is no file."""
    try:
        if os.name == "posix" and path.stat().st_mode & 0o077:
            raise ConfigError(f"{path} can be read or changed by others: chmod 600 {path}, and better make new tokens")
        return [decode(Token, one) for one in json.loads(path.read_text(encoding="utf-8"))["tokens"]]
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the token file {path} cannot be read: {error}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path} is not a file of tokens ({error}); remove it, and new ones are made") from error


def add(
    path: Path, name: str, scope: str = TokenScope.READ, projects: Iterable[str] = (), expires: str | None = None
) -> str:
    """Make a token and return its secret, which is not kept and cannot be shown again.

    `expires` is a duration such as '30d' or '12h', or a date or time in ISO 8601; without it the token does not expire.
    """
    secret, token = _make_token(name, scope, projects, None if expires is None else parse_expiry(expires))
    with _lock(path):
        tokens = list_tokens(path)
        if any(one.name == token.name for one in tokens):
            raise ValidationError(f"there is a token {token.name!r} already; revoke it first, or choose another name")
        _write(path, [*tokens, token])
    return secret


def revoke(path: Path, name: str) -> Token:
    """Remove a token and return it: it opens nothing any more, in a running server too."""
    with _lock(path):
        tokens = {one.name: one for one in list_tokens(path)}
        if name not in tokens:
            raise NotFoundError(unknown("token", name, tokens))
        token = tokens.pop(name)
        _write(path, tokens.values())
    first = path.with_name(FIRST_FILE)
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if _digest(first.read_text(encoding="ascii").strip()) == token.sha256:
            first.unlink()
    return token


def ensure_token(path: Path) -> Path | None:
    """Make the first token where there is no file of tokens, and return the file that holds its secret; else None.

    Nothing is made where somebody has revoked all: then it is for them to add one.
    """
    if not path.exists():
        with _lock(path):
            # Another server may have made it in the meantime.
            if not path.exists():
                first = path.with_name(FIRST_FILE)
                secret, token = _make_token(FIRST, TokenScope.ADMIN)
                # In this order: a token that counts can be read by its owner, whenever this is cut short.
                _put(first, f"{secret}\n")
                _write(path, [token])
                return first
    if not list_tokens(path):
        raise ConfigError(f"all tokens in {path} are revoked: `alma token add` makes one")
    return None


def parse_expiry(given: str) -> datetime:
    """Return the moment that a duration from now or an ISO 8601 date names. A date without a time zone is UTC."""
    text, moment = given.strip(), now()
    duration = _DURATION.fullmatch(text.lower())
    try:
        end = moment + int(duration[1]) * _UNITS[duration[2]] if duration else datetime.fromisoformat(text)
        end = end.replace(tzinfo=end.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValidationError(
            f"expires must be a duration such as 12h, 30d or 1y, or a date such as 2031-01-31, not {given!r}"
        ) from None
    if end <= moment:
        raise ValidationError(f"expires must lie in the future, and {given!r} does not")
    return end


def _make_token(
    name: str, scope: str, projects: Iterable[str] = (), expires_at: datetime | None = None
) -> tuple[str, Token]:
    if scope not in list(TokenScope):
        raise ValidationError(unknown("scope", scope, list(TokenScope)))
    allowed = frozenset(projects)
    for label, given in (("name", name), *(("project", one) for one in allowed)):
        if not given.strip() or len(given) > _MAX_NAME or not given.isprintable():
            raise ValidationError(f"{label} must be up to {_MAX_NAME} visible characters, not {given!r}")
    secret = _PREFIX + secrets.token_urlsafe(32)
    token = Token(
        name=name.strip(),
        sha256=_digest(secret),
        scope=TokenScope(scope),
        projects=frozenset(one.strip() for one in allowed) or None,
        created_at=now(),
        expires_at=expires_at,
    )
    return secret, token


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


# -- lookups


class Tokens:
    """The tokens of a file as it is now: what is added or revoked while the server runs holds at the next request."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def find(self, secret: str) -> Token | None:
        """Return the token with this secret. All are compared, each in constant time: the duration says nothing."""
        digest = _digest(secret)
        matches = [one for one in list_tokens(self._path) if hmac.compare_digest(one.sha256, digest)]
        return matches[-1] if matches else None


# -- the file


def _write(path: Path, tokens: Iterable[Token]) -> None:
    entries = [plain(one) | {"projects": one.projects and sorted(one.projects)} for one in tokens]
    _put(path, json.dumps({"tokens": entries}, indent=2, ensure_ascii=False) + "\n")


def _put(path: Path, text: str) -> None:
    if not path.exists():
        record_created_files(path)
        keep_out_of_git(path.parent)
    try:
        write_atomic(path, text, sync=True)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror or error}") from error


def _lock(path: Path) -> contextlib.AbstractContextManager[None]:
    """Let one process at a time change the file, so that no change is lost."""
    return lock_file(path.with_name(f".{path.name}.lock"), _PATIENCE)
