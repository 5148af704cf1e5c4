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
from ..errors import ConfigError, MissingExtraError

if TYPE_CHECKING:
    from .gate import App

PORT = 8766
_LAST_CALLS = 30
_KEPT_OPEN = 75
_MEGABYTE = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(listening.ListenOptions):
    port: int = PORT
    max_megabytes: float = 4.0
    rate: float = 200.0
    log_file: str | None = None
    """Without one, the lines go to standard error."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the service, but for `--config`."""
    listening.add_arguments(parser, PORT)
    parser.add_argument("--max-megabytes", type=float, default=4.0, help="the largest request; default: 4")
    parser.add_argument("--rate", type=float, default=200.0, help="requests a second for each token; 0: any number")
    parser.add_argument(
        "--log-file", metavar="FILE", help="where a line for each request goes; default: standard error"
    )


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m alma.http", description="The memory as an HTTP service.")
    add_arguments(parser)
    return listening.run_command(parser, "alma serve", lambda args: serve(read_options(args, args.config)), argv)


def read_options(args: argparse.Namespace, config: str | None) -> Options:
    return listening.read_options(Options, args, config)


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
    with listening.bind_socket(chosen.host, chosen.port) as bound, _log(chosen.log_file) as stream:
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
        _say(f"{chosen.scheme}://{listening.format_host(chosen.host)}:{port}")
        uvicorn.Server(config).run(sockets=[bound])


def _built(build: Callable[..., App], chosen: Options, port: int, stream: IO[str]) -> App:
    from ..app import open_memory, read_config
    from ..projects import Held, Projects
    from . import tokens
    from .gate import Rules
    from .log import RequestLog

    path, config = read_config(chosen.config)
    file = tokens.beside(path)
    if tokens.ready(file) is not None:
        _say("made a token that may do everything")
    readable = file.with_name(tokens.FIRST_FILE)
    _say(f"a token is in {readable}" if readable.exists() else f"the tokens are those of {file}")
    rules = Rules(
        hosts=_hosts(chosen, port),
        origins=frozenset(one.lower().rstrip("/") for one in chosen.allowed_origins),
        scheme=chosen.scheme,
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
    listening.check_limits(chosen.timeout, chosen.max_connections)
    if bool(chosen.key) != bool(chosen.certificate):
        raise ConfigError("--tls-cert and --tls-key belong together: name both")
    listening.check_certificate(chosen.certificate, chosen.key)
    listening.refuse_the_world(chosen.host, chosen.certificate, chosen.insecure, chosen.allowed_hosts)


def _hosts(chosen: Options, port: int) -> frozenset[str]:
    local = [f"{name}:{port}" for name in listening.local_names(chosen.host)]
    return frozenset(name.lower() for name in (*local, *chosen.allowed_hosts))


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
    from .log import Lines

    handler = logging.StreamHandler(stream)
    handler.setFormatter(Lines())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
