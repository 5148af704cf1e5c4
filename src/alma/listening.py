"""Where a server may listen: on this machine unless told otherwise, and never readably beyond it."""

from __future__ import annotations

import argparse
import ipaddress
import os
import socket
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from .errors import ConfigError

LOCAL = ("127.0.0.1", "localhost", "[::1]")
"""The names of this machine that nobody else can call."""
_WAITING = 2048
REQUEST_SECONDS = 30.0
"""So long may the headers of a request, and then its body, take to arrive."""
CONNECTIONS = 512


def add_limits(parser: argparse._ActionsContainer) -> None:
    """The options that limit connections, the same for both servers."""
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


def refuse_senseless(timeout: float, connections: int) -> None:
    if not timeout > 0:
        raise ConfigError(f"--timeout must be more than 0 seconds, not {timeout:g}")
    if connections < 1:
        raise ConfigError(f"--max-connections must be at least 1, not {connections}")


def refuse_unfit(certificate: str | None, key: str | None) -> None:
    if not certificate:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    except OSError as error:
        held = " and ".join(filter(None, (certificate, key)))
        raise ConfigError(f"{held} are no certificate and its key: {error}") from error


def local_names(host: str) -> list[str]:
    """Those of this machine, also the one that it was told to listen at; none where others reach it."""
    return [*dict.fromkeys((*LOCAL, written(host)))] if is_local(host) else []


def written(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


@contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
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
