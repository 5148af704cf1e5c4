"""Bearer tokens in a file that stores only their hashes.

The file is beside the configuration, or where `ALMA_TOKENS_FILE` says, and readable only by its owner. A token may
read, write, approve or administer, in some projects or in all, until it expires or is revoked. Its secret is shown
once. The first token is created at the first start; its secret is stored in a file of its own. Servers without a common
file get an admin token from the environment variable `ALMA_HTTP_TOKEN`.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import re
import secrets
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

from ..errors import ConfigError, NotFoundError, ValidationError, unknown
from ..files import keep_out_of_git, lock_file, write_atomic
from ..operations import Effect
from ..schema import decode, plain
from ..trust_register import check_secret, record_created_files
from ..types.times import now

FILE = "http-tokens.json"
FIRST_FILE = "http-token"
FIRST = "admin"
FILE_VARIABLE = "ALMA_TOKENS_FILE"
SECRET_VARIABLE = "ALMA_HTTP_TOKEN"
ENVIRONMENT = "environment"
"""The name of the token from the environment variable."""
_SHORTEST_SECRET = 24
_PREFIX = "alma_"
_PATIENCE = 5.0
_MAX_NAME = 100
# Who made a change is recorded by name; these are the names of alma's own interfaces, and of nobody in particular.
_OWN_NAMES = frozenset(("cli", "mcp", "claude-smart", "upkeep", ENVIRONMENT, "person", "system", "model", "local"))
_DURATION = re.compile(r"(\d{1,5})([hdwy])")
_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1), "y": timedelta(days=365)}


class TokenScope(StrEnum):
    """What a token may do; each scope includes the ones before it."""

    READ = "read"
    WRITE = "write"
    APPROVE = "approve"
    """May accept memories from outside content. For people only: an agent might accept injected content."""
    ADMIN = "admin"

    def holds(self, other: TokenScope) -> bool:
        """Return whether this scope includes another."""
        order = list(TokenScope)
        return order.index(self) >= order.index(other)


NEEDED = {
    Effect.READS: TokenScope.READ,
    Effect.ADDS: TokenScope.WRITE,
    Effect.CHANGES: TokenScope.WRITE,
    Effect.ERASES: TokenScope.ADMIN,
}
"""The scope that an operation needs, by its effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token as it is stored, without its secret."""

    name: str
    sha256: str
    """The SHA-256 of the secret, which is random and long enough not to be guessed."""
    scope: TokenScope
    projects: frozenset[str] | None = None
    """The projects it may use; None for all."""
    created_at: datetime
    expires_at: datetime | None = None
    """None if it does not expire."""

    @property
    def is_expired(self) -> bool:
        """Whether the token has expired."""
        return self.expires_at is not None and self.expires_at <= now()

    def holds_projects(self, other: Token) -> bool:
        """Return whether this token may use every project that another may use."""
        if self.projects is None or other.projects is None:
            return self.projects is None
        return other.projects <= self.projects

    def allows(self, session: Token) -> bool:
        """Return whether a session may go on: the token may have expired or been limited in the file since."""
        return not self.is_expired and self.scope.holds(session.scope) and self.holds_projects(session)

    def may_manage(self, other: Token) -> bool:
        """Return whether this token may see another and end its sessions: as an administrator of all its projects."""
        return self.scope is TokenScope.ADMIN and self.holds_projects(other)


def describe_token(token: Token) -> dict[str, Any]:
    """Return a token as JSON values, without its hash."""
    about = {name: value for name, value in plain(token).items() if name != "sha256"}
    return {**about, "projects": token.projects and sorted(token.projects)}


# -- commands


def find_file(config: str | os.PathLike[str]) -> Path:
    """Return the token file of a configuration: $ALMA_TOKENS_FILE, or the one beside it."""
    name = os.environ.get(FILE_VARIABLE)
    return Path(name).resolve() if name else Path(config).resolve().parent / FILE


def read_environment() -> Token | None:
    """Return the admin token whose secret is in $ALMA_HTTP_TOKEN, or None."""
    secret = os.environ.get(SECRET_VARIABLE)
    if not secret:
        return None
    if len(secret) < _SHORTEST_SECRET or not secret.isascii() or not secret.isprintable() or " " in secret:
        raise ConfigError(
            f"{SECRET_VARIABLE} must have at least {_SHORTEST_SECRET} ASCII characters and no spaces; create one with "
            "`openssl rand -hex 24`"
        )
    return Token(name=ENVIRONMENT, sha256=digest_secret(secret), scope=TokenScope.ADMIN, created_at=now())


def list_tokens(path: Path) -> list[Token]:
    """Return all tokens, oldest first; none if there is no file.

    Raise UntrustedConfigError if somebody else may have written the file.
    """
    if path.exists():
        check_secret(path)
    return _read_tokens(path)


def _read_tokens(path: Path) -> list[Token]:
    try:
        if os.name == "posix" and path.stat().st_mode & 0o077:
            raise ConfigError(f"other users can read or change {path}; run `chmod 600 {path}` and replace the tokens")
        return [decode(Token, one) for one in json.loads(path.read_text(encoding="utf-8"))["tokens"]]
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the token file {path}: {error}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path} is not a valid token file ({error}); delete it to start with new tokens") from error


def add(
    path: Path, name: str, scope: str = TokenScope.READ, projects: Iterable[str] = (), expires: str | None = None
) -> str:
    """Create a token and return its secret, which is not stored and cannot be shown again.

    `expires` is a duration such as '30d' or '12h', or an ISO 8601 date or time; without it, the token does not expire.
    """
    secret, token = _make_token(name, scope, projects, None if expires is None else parse_expiry(expires))
    with _lock(path):
        tokens = list_tokens(path)
        if any(one.name == token.name for one in tokens):
            raise ValidationError(f"token {token.name!r} already exists; revoke it first, or choose another name")
        _write(path, [*tokens, token])
    return secret


def revoke(path: Path, name: str) -> Token:
    """Remove a token and return it. A running server refuses it from the next request on."""
    with _lock(path):
        tokens = {one.name: one for one in list_tokens(path)}
        if name not in tokens:
            raise NotFoundError(unknown("token", name, tokens))
        token = tokens.pop(name)
        _write(path, tokens.values())
    first = path.with_name(FIRST_FILE)
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if digest_secret(first.read_text(encoding="ascii").strip()) == token.sha256:
            first.unlink()
    return token


def ensure_token(path: Path) -> Path | None:
    """Create the first token if there is none, and return the file with its secret; otherwise return None.

    Raise ConfigError if all tokens were revoked: then the user has to add one.
    """
    if read_environment() is not None:
        return None
    if not path.exists():
        with _lock(path):
            # Another server may have created it in the meantime.
            if not path.exists():
                first = path.with_name(FIRST_FILE)
                secret, token = _make_token(FIRST, TokenScope.ADMIN)
                # In this order, so that the owner can read every valid token even after an interruption.
                _put(first, f"{secret}\n")
                _write(path, [token])
                return first
    if not list_tokens(path):
        raise ConfigError(f"all tokens in {path} were revoked; create one with `alma token add`")
    return None


def parse_expiry(value: str) -> datetime:
    """Return the time that a duration from now or an ISO 8601 date means. Without a time zone it is UTC."""
    text, moment = value.strip(), now()
    duration = _DURATION.fullmatch(text.lower())
    try:
        end = moment + int(duration[1]) * _UNITS[duration[2]] if duration else datetime.fromisoformat(text)
        end = end.replace(tzinfo=end.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValidationError(
            f"--expires must be a duration such as 12h, 30d or 1y, or a date such as 2031-01-31, not {value!r}"
        ) from None
    if end <= moment:
        raise ValidationError(f"--expires must be in the future, not {value!r}")
    return end


def _make_token(
    name: str, scope: str, projects: Iterable[str] = (), expires_at: datetime | None = None
) -> tuple[str, Token]:
    if scope not in list(TokenScope):
        raise ValidationError(unknown("scope", scope, list(TokenScope)))
    allowed = frozenset(projects)
    for label, value in (("NAME", name), *(("--project", one) for one in allowed)):
        if not value.strip() or len(value) > _MAX_NAME or not value.isprintable():
            raise ValidationError(f"{label} must be 1 to {_MAX_NAME} printable characters, not {value!r}")
    if name.strip().lower() in _OWN_NAMES:
        raise ValidationError(
            f"a token cannot be called {name.strip()!r}, which is the name of one of alma's own interfaces; "
            "choose another name"
        )
    secret = _PREFIX + secrets.token_urlsafe(32)
    token = Token(
        name=name.strip(),
        sha256=digest_secret(secret),
        scope=TokenScope(scope),
        projects=frozenset(one.strip() for one in allowed) or None,
        created_at=now(),
        expires_at=expires_at,
    )
    return secret, token


def digest_secret(secret: str) -> str:
    """Return the SHA-256 of a secret, which is all that is kept of it."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


# -- lookups


class Tokens:
    """The tokens of a file and of the environment. Changes of the file apply from the next request on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._checked: _Stamp = ()
        self._stored: list[Token] | None = None
        self._environment = [one for one in (read_environment(),) if one is not None]

    def find(self, secret: str) -> Token | None:
        """Return the token with this secret, or None. All tokens are compared in constant time."""
        return self.find_digest(digest_secret(secret))

    def find_digest(self, digest: str) -> Token | None:
        """Return the token whose secret has this hash, or None."""
        tokens = self.list_all()
        matches = [one for one in tokens if hmac.compare_digest(one.sha256, digest)]
        return matches[-1] if matches else None

    def list_all(self) -> list[Token]:
        """Return all tokens, oldest first.

        Raise UntrustedConfigError if somebody else may have written the file: a pull may replace it at any time.
        """
        stamp = _read_stamp(self._path)
        stored = self._stored if stamp == self._checked else None
        if stored is None:
            stored = list_tokens(self._path) if stamp != self._checked else _read_tokens(self._path)
            self._checked = stamp
            # A file that was just written may change again within the resolution of its time.
            is_settled = bool(stamp) and abs(time.time_ns() - stamp[-1]) > _SETTLED_NS
            self._stored = stored if is_settled else None
        return [*stored, *self._environment]


# -- the file

_Stamp = tuple[int, ...]
_SETTLED_NS = 2_000_000_000


def _read_stamp(path: Path) -> _Stamp:
    """Return what changes whenever a file is replaced, written or given other permissions; () if there is no file."""
    try:
        status = path.stat()
    except OSError:
        return ()
    return status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _write(path: Path, tokens: Iterable[Token]) -> None:
    entries = [{**describe_token(one), "sha256": one.sha256} for one in tokens]
    _put(path, json.dumps({"tokens": entries}, indent=2, ensure_ascii=False) + "\n")


def _put(path: Path, text: str) -> None:
    if not path.exists():
        record_created_files(path)
        keep_out_of_git(path.parent)
    try:
        write_atomic(path, text, sync=True)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror or error}") from error


def _lock(path: Path) -> contextlib.AbstractContextManager[None]:
    """Lock the file, so that concurrent changes are not lost."""
    return lock_file(path.with_name(f".{path.name}.lock"), _PATIENCE)
