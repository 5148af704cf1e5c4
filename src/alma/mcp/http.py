"""The server over streamable HTTP: on this machine only unless told otherwise, and never without a token.

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

import uvicorn
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
from ..connections import limit_connections
from ..errors import ConfigError
from ..files import keep_out_of_git
from ..trust_register import record_created_files

if TYPE_CHECKING:
    from .command import Options

PATH = "/mcp"
TOKEN_VARIABLE = "ALMA_MCP_TOKEN"
_LEAST_TOKEN = 16
_LAST_CALLS = 5
_PATIENCE = 1.0


class Token:
    """The one token there is, compared in constant time."""

    def __init__(self, secret: str) -> None:
        self._secret = secret.encode()

    async def verify_token(self, token: str) -> AccessToken | None:
        if not hmac.compare_digest(token.encode(), self._secret):
            return None
        return AccessToken(token="", client_id="alma", scopes=[])


def app(server: Server[Any], token: str, hosts: list[str], origins: list[str]) -> Starlette:
    """The ASGI application. `hosts` and `origins` as the SDK takes them: a name and a port, `:*` for any."""
    security = TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=origins)
    manager = StreamableHTTPSessionManager(server, security_settings=security)
    endpoint = RequireAuthMiddleware(StreamableHTTPASGIApp(manager), required_scopes=[])
    return Starlette(
        routes=[Route(PATH, endpoint=endpoint)],
        middleware=[Middleware(AuthenticationMiddleware, backend=BearerAuthBackend(Token(token)))],
        lifespan=lambda _: manager.run(),
    )


def serve(server: Server[Any], options: Options) -> None:
    _refuse_unfit(options)
    token = _token(options)
    with listening.bind_socket(options.host, options.port) as bound:
        port = int(bound.getsockname()[1])
        made = app(server, token, _hosts(options, port), _origins(options))
        address = f"{options.scheme}://{listening.format_host(options.host)}:{port}{PATH}"
        print(f"alma mcp: {address}", file=sys.stderr, flush=True)
        config = uvicorn.Config(
            made,
            http=limit_connections(options.timeout, options.max_connections),
            log_config=None,
            access_log=False,
            ssl_certfile=options.certificate,
            ssl_keyfile=options.key,
            timeout_graceful_shutdown=_LAST_CALLS,
        )
        uvicorn.Server(config).run(sockets=[bound])


def _refuse_unfit(options: Options) -> None:
    if options.key and not options.certificate:
        raise ConfigError("--tls-key is for --tls-cert: name both")
    listening.check_limits(options.timeout, options.max_connections)
    listening.refuse_the_world(options.host, options.certificate, options.insecure, options.allowed_hosts)
    listening.check_certificate(options.certificate, options.key)


def _hosts(options: Options, port: int) -> list[str]:
    return [f"{name}:{port}" for name in listening.local_names(options.host)] + [
        name for one in options.allowed_hosts for name in (one, f"{one}:*")
    ]


def _origins(options: Options) -> list[str]:
    return [*(f"{options.scheme}://{name}:*" for name in listening.local_names(options.host)), *options.allowed_origins]


# -- the token


def _token(options: Options) -> str:
    given = os.environ.get(TOKEN_VARIABLE)
    if given:
        return _fit(given, f"${TOKEN_VARIABLE}")
    path = Path(options.token_file) if options.token_file else _beside(options.config)
    return read_or_make_token(path)


def _beside(config: str | None) -> Path:
    from ..app import read_config

    path, _ = read_config(config)
    return path.resolve().parent / "mcp-token"


def read_or_make_token(path: Path) -> str:
    """The token in a file that nobody else can read; made with the file when it is missing."""
    made = secrets.token_urlsafe(32)
    if not path.exists():
        record_created_files(path)
        keep_out_of_git(path.parent)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return _held(path)
    except OSError as error:
        raise ConfigError(
            f"the token file {path} cannot be made: {error.strerror}; --token-file names another"
        ) from error
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(f"{made}\n")
    print(f"alma mcp: made a token in {path}", file=sys.stderr, flush=True)
    return made


def _held(path: Path) -> str:
    try:
        if os.name == "posix" and path.stat().st_mode & 0o077:
            raise ConfigError(f"{path} can be read by others: chmod 600 {path}, and better make a new token")
        return _fit(_text(path), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the token file {path} cannot be read: {error}") from error


def _text(path: Path) -> str:
    """Another server may have made the file this moment, and be about to write to it."""
    end = time.monotonic() + _PATIENCE
    while not (text := path.read_text(encoding="utf-8").strip()) and time.monotonic() < end:
        time.sleep(0.02)
    return text


def _fit(token: str, where: str) -> str:
    if len(token) < _LEAST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError(f"the token in {where} must be at least {_LEAST_TOKEN} visible ASCII characters")
    return token
