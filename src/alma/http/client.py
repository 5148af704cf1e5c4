"""The client of the HTTP service, which is `alma.remote`."""

from ..remote import RemoteALMA, connect

__all__ = ["RemoteALMA", "connect"]
