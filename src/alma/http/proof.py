"""Proof that a server on this machine knows a token, which is given before the token is sent to it.

Both sides sign a nonce with a key that they derive from the token's hash: the client first, because a server that
signed for anybody would let them test guesses of a short secret. The signature covers the purpose and both ends of the
connection, as each side's own socket reports them. A process that passes the messages on to the real server has two
connections, so the ends differ and the signature is wrong.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Iterable
from typing import Any, NamedTuple

PATH = "/ui/prove"
_PURPOSE = b"alma dashboard: the server proves that it knows the token (1)"
_CLIENT, _SERVER = "client", "server"
_NONCE = re.compile(r"[0-9a-f]{64}")
_SIGNATURE = re.compile(r"[0-9a-f]{64}")


class ConnectionEnds(NamedTuple):
    """The addresses of the two sockets of a connection."""

    server: str
    client: str


def format_end(address: Any) -> str:
    """Return the address of a socket as text; empty if it is not known."""
    return f"{address[0]} {address[1]}" if address else ""


def make_nonce() -> str:
    """Return a random text that is used once."""
    return secrets.token_hex(32)


def sign_request(digest: str, nonce: str, ends: ConnectionEnds) -> str:
    """Return the client's signature, with the hash of its token's secret."""
    return _sign(digest, _CLIENT, nonce, *ends)


def sign_answer(digest: str, nonce: str, ends: ConnectionEnds, pid: int) -> str:
    """Return the server's signature, which also covers the process id of the server."""
    return _sign(digest, _SERVER, nonce, *ends, str(pid))


def find_signer(digests: Iterable[str], nonce: object, signature: object, ends: ConnectionEnds) -> str | None:
    """Return the hash of the token that signed a client's request; None if there is none."""
    if not isinstance(nonce, str) or not isinstance(signature, str):
        return None
    if not _NONCE.fullmatch(nonce) or not _SIGNATURE.fullmatch(signature):
        return None
    signers = [one for one in digests if hmac.compare_digest(sign_request(one, nonce, ends), signature)]
    return signers[-1] if signers else None


def is_proven(digest: str, nonce: str, ends: ConnectionEnds, pid: int, signature: object) -> bool:
    """Return whether a server's signature shows that it knows the token."""
    if not isinstance(signature, str) or not _SIGNATURE.fullmatch(signature):
        return False
    return hmac.compare_digest(sign_answer(digest, nonce, ends, pid), signature)


def _sign(digest: str, *parts: str) -> str:
    # No part contains a line break, so two different lists of parts never make the same text.
    key = hmac.digest(digest.encode("ascii"), _PURPOSE, "sha256")
    return hmac.digest(key, "\n".join(parts).encode("utf-8"), "sha256").hex()
