from __future__ import annotations

import ssl
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def no_certificates() -> Iterator[None]:
    """Read no certificates: the servers of these tests speak plain HTTP, and each new client would read them all."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl.SSLContext, "load_verify_locations", lambda *args, **options: None)
        yield
