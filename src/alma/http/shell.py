"""The dashboard's way in: its fixed files, one-time codes and sessions. No file holds data, and no cookie is set.

A code is worth one session and is valid for a minute; only its hash is kept, in memory. A session ends after twelve
hours, after two hours without a request, with the token that it was opened with, and with the server.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import MutableMapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from starlette.responses import RedirectResponse, Response

from ..types.times import from_micros, to_iso
from .tokens import ENVIRONMENT, FIRST, Token, Tokens, TokenScope, describe_token, digest_secret

PREFIX = "alma_ui_"
CODE_SECONDS, SESSION_SECONDS, IDLE_SECONDS = 60.0, 12 * 3600.0, 2 * 3600.0
TRIES_PER_MINUTE = 10
# Sent with every answer below `/ui`.
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
}
_NOTED_SECONDS = 60.0
_MOST = 1000
_MOST_OF_TOKEN = 100
_FOLDER = Path(__file__).with_name("ui")
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
    ".svg": "image/svg+xml",
}


# -- files


class ShellFile(NamedTuple):
    """A fixed file of the dashboard."""

    content: bytes
    media_type: str
    etag: str


@cache
def list_files() -> dict[str, ShellFile]:
    """Return the files of the dashboard by path. They are read once: nothing else can be asked for."""
    files = {}
    for path in sorted(_FOLDER.rglob("*")):
        name = path.relative_to(_FOLDER).as_posix()
        if path.is_file() and path.suffix in _TYPES:
            content = path.read_bytes()
            etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
            files[f"/ui/{name}"] = ShellFile(content, _TYPES[path.suffix], etag)
    return files | dict.fromkeys(("/ui/", "/ui/enter"), files["/ui/index.html"])


def answer_file(path: str, known: str) -> Response:
    """Return the answer for a file, or raise KeyError. `known` is the version that the browser has."""
    if path in ("/", "/ui"):
        return RedirectResponse("/ui/")
    file = list_files()[path]
    headers = {"cache-control": "no-cache", "etag": file.etag}
    if path == "/ui/enter":
        # Files of an earlier program at this port. The page removes its service worker: "storage" would end other tabs.
        headers["clear-site-data"] = '"cache"'
        headers["cache-control"] = "no-store"
    elif known == file.etag:
        return Response(status_code=304, headers=headers)
    return Response(file.content, headers=headers, media_type=file.media_type)


# -- codes and sessions


class DashboardSession(NamedTuple):
    """A browser that was let in, or a code for one."""

    id: str
    token: Token  # What it may do.
    project: str | None  # The project that the page shows first.
    creator: str  # The hash of the token that asked for the code.
    created_at: float
    used_at: float
    expires_at: float

    @property
    def is_over(self) -> bool:
        """Whether it has lasted too long, or was not used for too long."""
        return time.time() >= min(self.expires_at, self.used_at + IDLE_SECONDS)

    def describe(self) -> dict[str, Any]:
        """Return the session as JSON values, without a secret."""
        moments = ("created_at", "used_at", "expires_at")
        times = {name: to_iso(from_micros(int(getattr(self, name) * 1e6))) for name in moments}
        about = {"id": self.id, "project": self.project, "idle_seconds": int(IDLE_SECONDS)}
        return {**describe_token(self.token), **about, **times}


Sessions = MutableMapping[str, DashboardSession]


class DashboardSessions:
    """The tokens, codes and sessions of one server. With several processes, they share the mapping."""

    def __init__(self, tokens: Tokens, entries: Sessions | None = None) -> None:
        self.tokens = tokens
        # By the hash of the code, or of the session's secret.
        self._entries: Sessions = {} if entries is None else entries

    def make_code(self, token: Token, scope: TokenScope, project: str | None) -> str:
        """Return a code for a session that may do no more than the token that asks for it."""
        name = "dashboard" if token.name in (FIRST, ENVIRONMENT) else f"dashboard of {token.name}"
        allowed = replace(token, name=name, scope=scope if token.scope.holds(scope) else token.scope, expires_at=None)
        code, id, now = secrets.token_urlsafe(32), secrets.token_hex(8), time.time()
        session = DashboardSession(id, allowed, project, token.sha256, now, now, now + CODE_SECONDS)
        self._add(digest_secret(code), session)
        return code

    def open_session(self, code: str) -> tuple[str, DashboardSession] | None:
        """Return the secret of a new session for a code; None if the code is unknown, used or expired."""
        invitation = None if code.startswith(PREFIX) else self._entries.pop(digest_secret(code), None)
        if invitation is None or invitation.is_over:
            return None
        secret, now = PREFIX + secrets.token_urlsafe(32), time.time()
        token = replace(invitation.token, sha256=digest_secret(secret))
        times: dict[str, Any] = {"created_at": now, "used_at": now, "expires_at": now + SESSION_SECONDS}
        session = invitation._replace(token=token, **times)
        self._add(token.sha256, session)
        return secret, session

    def _add(self, digest: str, session: DashboardSession) -> None:
        """Add an entry in the place of those that are over, or of the oldest of too many."""
        items = list(self._entries.items())
        # Whoever asks for many codes does not end the sessions of others.
        lasting = [name for name, one in items if not one.is_over and name != one.token.sha256]
        lasting += [name for name, one in items if not one.is_over and name == one.token.sha256]
        # Nor does a token that opens many sessions.
        own = {name for name, one in items if one.creator == session.creator}
        excess = [name for name in lasting if name in own][: -_MOST_OF_TOKEN + 1]
        lasting = [name for name in lasting if name not in excess]
        for name in {name for name, _ in items}.difference(lasting[-_MOST + 1 :]):
            self._entries.pop(name, None)
        self._entries[digest] = session

    def find(self, secret: str) -> Token | None:
        """Return the token with this secret, or what a session with it allows; None if there is none any more."""
        if not secret.startswith(PREFIX):
            return self.tokens.find(secret)
        digest = digest_secret(secret)
        session = self._entries.get(digest)
        creator = None if session is None else self.tokens.find_digest(session.creator)
        if session is None or session.is_over or creator is None or not creator.allows(session.token):
            self._entries.pop(digest, None)
            return None
        if time.time() - session.used_at > _NOTED_SECONDS:
            self._entries[digest] = session._replace(used_at=time.time())
        return session.token

    def get_own(self, token: Token) -> DashboardSession | None:
        """Return the session of a token; None if it is no session's."""
        return self._entries.get(token.sha256)

    def list_sessions(self, token: Token) -> list[DashboardSession]:
        """Return the sessions that a token may see and end, oldest first: its own, and those that it manages."""
        own = self.get_own(token)
        running = [session for digest, session in list(self._entries.items()) if digest == session.token.sha256]
        visible = [session for session in running if session == own or token.may_manage(session.token)]
        lasting = [session for session in visible if not session.is_over]
        return sorted(lasting, key=lambda session: session.created_at)

    def end_session(self, id: str, token: Token) -> bool:
        """End a session that a token may end; return whether there was one."""
        ended = [session.token.sha256 for session in self.list_sessions(token) if session.id == id]
        return any(self._entries.pop(digest, None) is not None for digest in ended)
