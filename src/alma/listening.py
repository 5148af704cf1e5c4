"""The options that both servers share: on this machine unless the user says otherwise, beyond it with TLS."""

from __future__ import annotations

import argparse
import ipaddress
import ssl
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Self, TypeVar

from .errors import ALMAError, ConfigError

LOCAL = ("127.0.0.1", "localhost", "[::1]")
"""The names of this machine that nobody else can call."""
_CERTIFICATE_AND_KEY = "--tls-cert and --tls-key belong together: name both"


def option(default: Any, about: str, flag: str = "", **more: Any) -> Any:
    """Declare a field that the command line sets, as `flag` where that is not the name of the field."""
    return field(default=default, metadata={"help": about, "flag": flag, **more})


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenOptions:
    """The options that both servers have."""

    config: str | None = None
    host: str = option("127.0.0.1", "where to listen; default: 127.0.0.1")
    port: int = 0
    allowed_hosts: tuple[str, ...] = option((), "a name by which clients may call us", "allowed-host")
    allowed_origins: tuple[str, ...] = option((), "a web page that may call us", "allowed-origin")
    certificate: str | None = option(
        None, "a certificate; needed to listen beyond this machine", "tls-cert", metavar="FILE"
    )
    key: str | None = option(None, "its key", "tls-key", metavar="FILE")
    insecure: bool = option(False, "listen beyond this machine without TLS")
    timeout: float = option(
        30.0, "drop a request whose headers or body take longer to arrive; default: 30", metavar="SECONDS"
    )
    max_connections: int = option(
        512, "open connections, of which one address gets a quarter; default: 512", metavar="N"
    )

    @property
    def scheme(self) -> str:
        return "https" if self.certificate else "http"

    @classmethod
    def read(cls, args: argparse.Namespace, config: str | None) -> Self:
        """Return the parsed options of a server. Each field is the destination of an argument."""
        values: dict[str, Any] = {one.name: getattr(args, one.name) for one in fields(cls) if one.name != "config"}
        values |= {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
        return cls(config=config, **values)


Options = TypeVar("Options", bound=ListenOptions)


def add_arguments(
    parser: argparse._ActionsContainer, kind: type[ListenOptions], names: Collection[str] | None = None
) -> None:
    """Add an argument for each `option` of a class, or for those of these names."""
    for one in fields(kind):
        if not one.metadata or (names is not None and one.name not in names):
            continue
        about: dict[str, Any] = {"default": one.default, **one.metadata}
        flag = about.pop("flag") or one.name.replace("_", "-")
        if one.default is False:
            about["action"] = "store_true"
        elif one.default == ():
            about |= {"action": "append", "default": []}
        elif isinstance(one.default, int | float):
            about["type"] = type(one.default)
        parser.add_argument(f"--{flag}", dest=one.name, **about)


def run_command(
    kind: type[Options],
    serve: Callable[[Options], None],
    name: str,
    parser: argparse.ArgumentParser,
    argv: Sequence[str] | None,
) -> int:
    """Serve as `python -m` does, and return the exit code. `name` is the command that errors are reported under."""
    parser.add_argument(
        "--config", help="the configuration file; default: $ALMA_CONFIG or the nearest .alma/config.yaml"
    )
    try:
        args = parser.parse_args(argv)
        serve(kind.read(args, args.config))
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


def check_options(options: ListenOptions) -> None:
    """Raise ConfigError where a server must not listen as these options say.

    Beyond this machine it listens with TLS or on purpose, and under a name that clients know.
    """
    if not options.timeout > 0:
        raise ConfigError(f"--timeout must be more than 0 seconds, not {options.timeout:g}")
    if options.max_connections < 1:
        raise ConfigError(f"--max-connections must be at least 1, not {options.max_connections}")
    if options.key and not options.certificate:
        raise ConfigError(_CERTIFICATE_AND_KEY)
    if not is_local(options.host):
        if not options.certificate and not options.insecure:
            raise ConfigError(
                f"{options.host} can be reached from other machines, and the token would travel readably: "
                "give --tls-cert and --tls-key, or say --insecure"
            )
        if not options.allowed_hosts:
            raise ConfigError(
                "say with --allowed-host by which name clients reach this machine, such as memory.example.org"
            )
    if options.certificate:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(options.certificate, options.key)
        except OSError as error:
            files = " and ".join(filter(None, (options.certificate, options.key)))
            hint = "" if options.key else f"; {_CERTIFICATE_AND_KEY}"
            raise ConfigError(f"{files} are no certificate and its key: {error}{hint}") from error


def list_local_names(host: str) -> list[str]:
    """Return the names of this machine, with the one that a server listens at; none where others reach it."""
    return [*dict.fromkeys((*LOCAL, format_host(host)))] if is_local(host) else []


def format_host(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
