"""Where a model is, and the key to it: which addresses may be asked, and that no key is ever shown."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from ..errors import ConfigError

_SHOWN = 200
_READ = 16_000


@dataclass(frozen=True, slots=True)
class Endpoint:
    kind: str
    url: str
    model: str
    headers: Mapping[str, str] = field(repr=False)
    secret: str = field(repr=False)
    key_from: str = ""
    """The environment variable that the key is in."""

    @property
    def is_local(self) -> bool:
        return is_loopback(urlsplit(self.url).hostname or "")

    def discreet(self, said: str) -> str:
        """What a service said, as far as one line can tell it, without the key."""
        from ..engine.redact import redact

        hidden = said.replace(self.secret, "***") if self.secret else said
        return " ".join(redact(hidden[:_READ]).text.split())[:_SHOWN]


def checked_url(url: str, *, allow_http: bool) -> str:
    """The address without a slash at its end; ConfigError when nothing may be sent there."""
    try:
        parts = urlsplit(url.strip())
        host, _ = parts.hostname, parts.port
    except ValueError:
        host, parts = None, urlsplit("")
    if parts.scheme not in ("http", "https") or not host:
        raise ConfigError("the model's `base_url` must be an address such as https://example.org/v1")
    if parts.username or parts.password or parts.query or parts.fragment:
        # Not quoted: there may be a key in it.
        raise ConfigError("the model's `base_url` must hold no name, password, query or fragment")
    if parts.scheme == "http" and not (allow_http or is_loopback(host)):
        raise ConfigError(
            f"the model's `base_url` sends what is asked to {host} unencrypted: use https, "
            "or set `allow_http: true` if that is your own network"
        )
    return url.strip().rstrip("/")


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def key_in(environ: Mapping[str, str], variable: str) -> str:
    """The key in that variable; the empty text for no variable."""
    if not variable:
        return ""
    key = environ.get(variable, "").strip()
    if not key:
        raise ConfigError(f"the environment variable {variable} is not set; it must hold the model's key")
    # A header that cannot be sent would be quoted in an error.
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError(f"the environment variable {variable} holds characters that no key has")
    return key
