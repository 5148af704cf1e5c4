"""Where a server may listen: on this machine unless told otherwise, and never readably beyond it."""

from __future__ import annotations

import argparse
import ipaddress
import os
import socket
import ssl
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from .errors import ALMAError, ConfigError

LOCAL = ("127.0.0.1", "localhost", "[::1]")
"""The names of this machine that nobody else can call."""
_WAITING = 2048
REQUEST_SECONDS = 30.0
"""So long may the headers of a request, and then its body, take to arrive."""
CONNECTIONS = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenOptions:
    """The options that both servers have."""

    config: str | None = None
    host: str = "127.0.0.1"
    port: int = 0
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    certificate: str | None = None
    key: str | None = None
    insecure: bool = False
    timeout: float = REQUEST_SECONDS
    max_connections: int = CONNECTIONS

    @property
    def scheme(self) -> str:
        return "https" if self.certificate else "http"


Options = TypeVar("Options", bound=ListenOptions)


def add_arguments(parser: argparse._ActionsContainer, port: int) -> None:
    """Add the options of `ListenOptions` to a parser, but for `--config`."""
    parser.add_argument("--host", default="127.0.0.1", help="where to listen; default: 127.0.0.1")
    parser.add_argument("--port", type=int, default=port, help=f"default: {port}; 0: any that is free")
    parser.add_argument(
        "--allowed-host", dest="allowed_hosts", action="append", default=[], help="a name by which clients may call us"
    )
    parser.add_argument(
        "--allowed-origin", dest="allowed_origins", action="append", default=[], help="a web page that may call us"
    )
    parser.add_argument(
        "--tls-cert", dest="certificate", metavar="FILE", help="a certificate; needed to listen beyond this machine"
    )
    parser.add_argument("--tls-key", dest="key", metavar="FILE", help="its key")
    parser.add_argument("--insecure", action="store_true", help="listen beyond this machine without TLS")
    parser.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=float,
        default=REQUEST_SECONDS,
        help=f"drop a request whose headers or body take longer to arrive; default: {REQUEST_SECONDS:g}",
    )
    parser.add_argument(
        "--max-connections",
        metavar="N",
        type=int,
        default=CONNECTIONS,
        help=f"open connections, of which one address gets a quarter; default: {CONNECTIONS}",
    )


def read_options(kind: type[Options], args: argparse.Namespace, config: str | None) -> Options:
    """Return the parsed options of a server. Each field of `kind` is the destination of an argument."""
    values: dict[str, Any] = {one.name: getattr(args, one.name) for one in fields(kind) if one.name != "config"}
    values |= {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
    return kind(config=config, **values)


def run_command(
    parser: argparse.ArgumentParser, name: str, serve: Callable[[argparse.Namespace], None], argv: Sequence[str] | None
) -> int:
    """Serve as `python -m` does, and return the exit code. `name` is the command that errors are reported under."""
    parser.add_argument(
        "--config", help="the configuration file; default: $ALMA_CONFIG or the nearest .alma/config.yaml"
    )
    try:
        serve(parser.parse_args(argv))
    except ALMAError as error:
        print(f"{name}: {error}", file=sys.stderr, flush=True)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def is_local(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def refuse_the_world(host: str, certificate: str | None, insecure: bool, allowed_hosts: Sequence[str]) -> None:
    """Beyond this machine: with TLS or on purpose, and under a name that clients know."""
    if is_local(host):
        return
    if not certificate and not insecure:
        raise ConfigError(
            f"{host} can be reached from other machines, and the token would travel readably: "
            "give --tls-cert and --tls-key, or say --insecure"
        )
    if not allowed_hosts:
        raise ConfigError(
            "say with --allowed-host by which name clients reach this machine, such as memory.example.org"
        )


def check_limits(timeout: float, connections: int) -> None:
    if not timeout > 0:
        raise ConfigError(f"--timeout must be more than 0 seconds, not {timeout:g}")
    if connections < 1:
        raise ConfigError(f"--max-connections must be at least 1, not {connections}")


def check_certificate(certificate: str | None, key: str | None) -> None:
    if not certificate:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    except OSError as error:
        held = " and ".join(filter(None, (certificate, key)))
        raise ConfigError(f"{held} are no certificate and its key: {error}") from error


def local_names(host: str) -> list[str]:
    """Those of this machine, also the one that it was told to listen at; none where others reach it."""
    return [*dict.fromkeys((*LOCAL, format_host(host)))] if is_local(host) else []


def format_host(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


@contextmanager
def bind_socket(host: str, port: int) -> Iterator[socket.socket]:
    """Bound here and not by the server, so that the port is known before anybody is told."""
    plain = host.strip("[]")
    made = socket.socket(socket.AF_INET6 if ":" in plain else socket.AF_INET, socket.SOCK_STREAM)
    with made:
        try:
            if os.name == "posix":
                # Elsewhere it means that two may listen at the same place.
                made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind((plain, port))
            # Whoever reads where we are may call at once, and waits until we answer.
            made.listen(_WAITING)
        except (OSError, OverflowError) as error:
            raise ConfigError(f"cannot listen at {host}:{port}: {error}") from error
        yield made
