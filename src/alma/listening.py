"""The options that both servers share. By default they listen on this machine only; beyond it they need TLS."""

from __future__ import annotations

import argparse
import ipaddress
import os
import ssl
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Self, TypeVar

from .errors import ALMAError, ConfigError

LOCAL = ("127.0.0.1", "localhost", "[::1]")
"""Names that only this machine can reach."""
_CERTIFICATE_AND_KEY = "pass both --tls-cert and --tls-key"


def option(default: Any, about: str, flag: str = "", **more: Any) -> Any:
    """Declare a field that the command line sets. `flag` is the option's name, by default the field's."""
    return field(default=default, metadata={"help": about, "flag": flag, **more})


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenOptions:
    """The options that both servers have."""

    config: str | None = None
    host: str = option("127.0.0.1", "address to listen on (default 127.0.0.1)")
    port: int = 0
    allowed_hosts: tuple[str, ...] = option((), "a host name that clients may use; repeatable", "allowed-host")
    allowed_origins: tuple[str, ...] = option(
        (), "the origin of a web page that may call the server; repeatable", "allowed-origin"
    )
    certificate: str | None = option(
        None, "TLS certificate; required to listen beyond this machine", "tls-cert", metavar="FILE"
    )
    key: str | None = option(None, "key of the TLS certificate", "tls-key", metavar="FILE")
    insecure: bool = option(False, "allow listening beyond this machine without TLS")
    timeout: float = option(30.0, "drop requests that take longer to arrive (default 30)", metavar="SECONDS")
    max_connections: int = option(
        512, "maximum open connections; one address gets at most a quarter (default 512)", metavar="N"
    )

    @property
    def scheme(self) -> str:
        """`https` with a certificate, otherwise `http`."""
        return "https" if self.certificate else "http"

    @classmethod
    def read(cls, args: argparse.Namespace, config: str | None) -> Self:
        """Return the options of a server from parsed arguments."""
        values: dict[str, Any] = {one.name: getattr(args, one.name) for one in fields(cls) if one.name != "config"}
        values |= {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
        return cls(config=config, **values)


Options = TypeVar("Options", bound=ListenOptions)


def add_arguments(
    parser: argparse._ActionsContainer, kind: type[ListenOptions], names: Collection[str] | None = None
) -> None:
    """Add an argument for each `option` of a class, or only for those in `names`."""
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
    """Run a server as `python -m` does and return the exit code. Errors are prefixed with `name`."""
    parser.add_argument(
        "--config", help="the configuration file (default: $ALMA_CONFIG or the nearest .alma/config.yaml)"
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
    """Return whether only this machine can reach a host name."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_options(options: ListenOptions) -> None:
    """Raise ConfigError if a server must not listen with these options.

    Beyond this machine it needs TLS (or --insecure) and at least one allowed host name.
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
                f"other machines can reach {options.host}, and the token would be sent unencrypted: "
                "pass --tls-cert and --tls-key, or --insecure"
            )
        if not options.allowed_hosts:
            raise ConfigError(
                "pass --allowed-host with the name that clients use for this machine, such as memory.example.org"
            )
    if options.certificate:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(options.certificate, options.key)
        except OSError as error:
            files = " and ".join(names := [one for one in (options.certificate, options.key) if one])
            hint = "" if options.key else f"; {_CERTIFICATE_AND_KEY}"
            missing = " and ".join(one for one in names if not os.path.exists(one))
            if missing:
                raise ConfigError(f"there is no file {missing}{hint}") from error
            if isinstance(error, ssl.SSLError):
                problem = (
                    "is not a PEM certificate with its key"
                    if len(names) == 1
                    else "are not a PEM certificate and its key"
                )
                raise ConfigError(f"{files} {problem}{hint}") from error
            raise ConfigError(f"cannot read {files} ({error.strerror}){hint}") from error


def list_local_names(host: str) -> list[str]:
    """Return the names of this machine, including the server's host; empty if other machines can reach it."""
    return [*dict.fromkeys((*LOCAL, format_host(host)))] if is_local(host) else []


def format_host(host: str) -> str:
    """Return a host name as used in URLs, with brackets around an IPv6 address."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
