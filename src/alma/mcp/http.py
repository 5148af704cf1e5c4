"""The server over streamable HTTP: on this machine only unless the user says otherwise, and never without a token.

A browser is on this machine too, so being local is no proof of anything: every request needs the bearer token, must
name us by a name that is ours (a page that rebinds its own name to 127.0.0.1 does not), and must not come from a page
of somebody else. Names and origins are checked by the SDK, and so is the size of a request.
"""

from __future__ import annotations

import hmac
import os
import secrets
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp.server.auth.middleware.bearer_auth import BearerAuthBackend, RequireAuthMiddleware
from mcp.server.auth.provider import AccessToken
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.routing import Route

from .. import listening
from ..app import read_config
from ..errors import ConfigError
from ..files import create_private, keep_out_of_git
from ..trust_register import record_created_files

if TYPE_CHECKING:
    from .command import Options

PATH = "/mcp"
TOKEN_VARIABLE = "ALMA_MCP_TOKEN"
_LEAST_TOKEN = 16
_LAST_SECONDS = 5
_PATIENCE = 1.0


class TokenVerifier:
    """Compares with the one token there is, in constant time."""

    def __init__(self, secret: str) -> None:
        self._secret = secret.encode()

    async def verify_token(self, token: str) -> AccessToken | None:
        is_valid = hmac.compare_digest(token.encode(), self._secret)
        return AccessToken(token="", client_id="alma", scopes=[]) if is_valid else None


def app(server: Server[Any], token: str, hosts: list[str], origins: list[str]) -> Starlette:
    """Return the ASGI application. `hosts` and `origins` as the SDK takes them: a name and a port, `:*` for any."""
    security = TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=origins)
    manager = StreamableHTTPSessionManager(server, security_settings=security)
    endpoint = RequireAuthMiddleware(StreamableHTTPASGIApp(manager), required_scopes=[])
    return Starlette(
        routes=[Route(PATH, endpoint=endpoint)],
        middleware=[Middleware(AuthenticationMiddleware, backend=BearerAuthBackend(TokenVerifier(token)))],
        lifespan=lambda _: manager.run(),
    )


def serve(server: Server[Any], options: Options) -> None:
    """Serve until interrupted. ConfigError when it cannot begin."""
    listening.check_options(options)
    token = os.environ.get(TOKEN_VARIABLE)
    if token:
        _check_token(token, f"${TOKEN_VARIABLE}")
    else:
        beside = options.token_file or read_config(options.config)[0].resolve().parent / "mcp-token"
        token = read_or_make_token(Path(beside))
    listening.serve(
        options,
        "alma mcp",
        lambda port: app(server, token, list_hosts(options, port), list_origins(options)),
        path=PATH,
        last_seconds=_LAST_SECONDS,
    )


def list_hosts(options: Options, port: int) -> list[str]:
    """Return the names by which clients may call the server."""
    local = [f"{name}:{port}" for name in listening.list_local_names(options.host)]
    return [*local, *(name for one in options.allowed_hosts for name in (one, f"{one}:*"))]


def list_origins(options: Options) -> list[str]:
    """Return the origins of pages that may call the server."""
    local = [f"{options.scheme}://{name}:*" for name in listening.list_local_names(options.host)]
    return [*local, *options.allowed_origins]


def read_or_make_token(path: Path) -> str:
    """Return the token in a file that nobody else can read; it is made with the file when that is missing."""
    token = secrets.token_urlsafe(32)
    if not path.exists():
        record_created_files(path)
        keep_out_of_git(path.parent)
    try:
        is_new = create_private(path, f"{token}\n")
    except OSError as error:
        raise ConfigError(
            f"the token file {path} cannot be made: {error.strerror}; --token-file names another"
        ) from error
    if is_new:
        print(f"alma mcp: made a token in {path}", file=sys.stderr, flush=True)
        return token
    try:
        if os.name == "posix" and path.stat().st_mode & 0o077:
            raise ConfigError(f"{path} can be read by others: chmod 600 {path}, and better make a new token")
        # Another server may have made the file this moment, and be about to write to it.
        end = time.monotonic() + _PATIENCE
        while not (token := path.read_text(encoding="utf-8").strip()) and time.monotonic() < end:
            time.sleep(0.02)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the token file {path} cannot be read: {error}") from error
    _check_token(token, str(path))
    return token


def _check_token(token: str, where: str) -> None:
    if len(token) < _LEAST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError(f"the token in {where} must be at least {_LEAST_TOKEN} visible ASCII characters")
