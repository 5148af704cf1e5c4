"""`alma serve`, `python -m alma.http`: what can be said on the command line, and the service that follows from it."""

from __future__ import annotations

import argparse
import logging
import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from .. import listening
from ..errors import ALMAError, ConfigError, MissingExtraError

if TYPE_CHECKING:
    from .gate import App

PORT = 8766
_LAST_CALLS = 30
_KEPT_OPEN = 75
_MEGABYTE = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    config: str | None = None
    host: str = "127.0.0.1"
    port: int = PORT
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    certificate: str | None = None
    key: str | None = None
    insecure: bool = False
    max_megabytes: float = 4.0
    rate: float = 200.0
    timeout: float = listening.REQUEST_SECONDS
    max_connections: int = listening.CONNECTIONS
    log_file: str | None = None
    """Without one, the lines go to standard error."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the service, but for `--config`."""
    parser.add_argument("--host", default="127.0.0.1", help="where to listen; default: 127.0.0.1")
    parser.add_argument("--port", type=int, default=PORT, help=f"default: {PORT}; 0: any that is free")
    parser.add_argument("--allowed-host", action="append", default=[], help="a name by which clients may call us")
    parser.add_argument("--allowed-origin", action="append", default=[], help="a web page that may call us")
    parser.add_argument("--tls-cert", metavar="FILE", help="a certificate; needed to listen beyond this machine")
    parser.add_argument("--tls-key", metavar="FILE", help="its key")
    parser.add_argument("--insecure", action="store_true", help="listen beyond this machine without TLS")
    parser.add_argument("--max-megabytes", type=float, default=4.0, help="the largest request; default: 4")
    parser.add_argument("--rate", type=float, default=200.0, help="requests a second for each token; 0: any number")
    listening.add_limits(parser)
    parser.add_argument(
        "--log-file", metavar="FILE", help="where a line for each request goes; default: standard error"
    )


def options(args: argparse.Namespace, config: str | None) -> Options:
    return Options(
        config=config,
        host=args.host,
        port=args.port,
        allowed_hosts=tuple(args.allowed_host),
        allowed_origins=tuple(args.allowed_origin),
        certificate=args.tls_cert,
        key=args.tls_key,
        insecure=args.insecure,
        max_megabytes=args.max_megabytes,
        rate=args.rate,
        timeout=args.timeout,
        max_connections=args.max_connections,
        log_file=args.log_file,
    )


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m alma.http", description="The memory as an HTTP service.")
    parser.add_argument(
        "--config", help="the configuration file; default: $ALMA_CONFIG or the nearest .alma/config.yaml"
    )
    add_arguments(parser)
    args = parser.parse_args(argv)
    try:
        serve(options(args, args.config))
    except ALMAError as error:
        _say(str(error))
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def serve(chosen: Options) -> None:
    """Serve until interrupted; running requests are finished then. ALMAError when it cannot begin."""
    refuse_the_world(chosen)
    try:
        import uvicorn

        from ..connections import limit_connections
        from .app import build
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("fastapi", "uvicorn", "starlette", "anyio", "h11"):
            raise
        raise MissingExtraError(str(error.name), "http", "The HTTP service") from error
    with listening.listening(chosen.host, chosen.port) as bound, _log(chosen.log_file) as stream:
        _to_lines(stream)
        port = int(bound.getsockname()[1])
        made = _built(build, chosen, port, stream)
        config = uvicorn.Config(
            made,
            http=limit_connections(chosen.timeout, chosen.max_connections),
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            lifespan="on",
            ssl_certfile=chosen.certificate,
            ssl_keyfile=chosen.key,
            timeout_keep_alive=_KEPT_OPEN,
            timeout_graceful_shutdown=_LAST_CALLS,
        )
        _say(f"{_scheme(chosen)}://{listening.written(chosen.host)}:{port}")
        uvicorn.Server(config).run(sockets=[bound])


def _built(build: Callable[..., App], chosen: Options, port: int, stream: IO[str]) -> App:
    from ..api.holding import Held
    from ..api.projects import Projects
    from ..app import open_memory, read_config
    from . import tokens
    from .gate import Rules
    from .logs import RequestLog

    path, config = read_config(chosen.config)
    file = tokens.beside(path)
    if tokens.ready(file) is not None:
        _say("made a token that may do everything")
    readable = file.with_name(tokens.FIRST_FILE)
    _say(f"a token is in {readable}" if readable.exists() else f"the tokens are those of {file}")
    rules = Rules(
        hosts=_hosts(chosen, port),
        origins=frozenset(one.lower().rstrip("/") for one in chosen.allowed_origins),
        scheme=_scheme(chosen),
        max_bytes=round(chosen.max_megabytes * _MEGABYTE),
        body_seconds=chosen.timeout,
        rate=chosen.rate,
        burst=max(1, round(2 * chosen.rate)),
    )
    projects = Projects(Held(lambda: open_memory(config)), config.settings)
    return build(projects, tokens.Tokens(file), rules, [RequestLog(stream)])


def _say(text: str) -> None:
    print(f"alma serve: {text}", file=sys.stderr, flush=True)


# -- where to listen


def refuse_the_world(chosen: Options) -> None:
    if not chosen.max_megabytes > 0 or not chosen.rate >= 0:
        raise ConfigError("--max-megabytes must be more than 0, and --rate 0 or more")
    listening.refuse_senseless(chosen.timeout, chosen.max_connections)
    if bool(chosen.key) != bool(chosen.certificate):
        raise ConfigError("--tls-cert and --tls-key belong together: name both")
    listening.refuse_unfit(chosen.certificate, chosen.key)
    listening.refuse_the_world(chosen.host, chosen.certificate, chosen.insecure, chosen.allowed_hosts)


def _hosts(chosen: Options, port: int) -> frozenset[str]:
    local = [f"{name}:{port}" for name in listening.local_names(chosen.host)]
    return frozenset(name.lower() for name in (*local, *chosen.allowed_hosts))


def _scheme(chosen: Options) -> str:
    return "https" if chosen.certificate else "http"


# -- the log


@contextmanager
def _log(name: str | None) -> Iterator[IO[str]]:
    if name is None:
        yield sys.stderr
        return
    try:
        file = _open_private(Path(name))
    except OSError as error:
        raise ConfigError(
            f"the log file {name} cannot be written: {error.strerror}; --log-file names another"
        ) from None
    with file:
        yield file


def _open_private(path: Path) -> IO[str]:
    """Open a file to append to that only its owner can read, also when others could read it before."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        # A pipe or a terminal has permissions of its own.
        if os.name == "posix" and stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.fchmod(descriptor, 0o600)
        return os.fdopen(descriptor, "a", encoding="utf-8")
    except BaseException:
        os.close(descriptor)
        raise


def _to_lines(stream: IO[str]) -> None:
    from .logs import Lines

    handler = logging.StreamHandler(stream)
    handler.setFormatter(Lines())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
