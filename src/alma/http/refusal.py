"""Why a request is not done: the status, a name for programs and a sentence for people."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus

from ..errors import (
    ALMAError,
    BusyError,
    ConflictError,
    NotFoundError,
    OverBudgetError,
    ScopeError,
    ValidationError,
)

_STATUSES: Mapping[type[ALMAError], int] = {
    ValidationError: 400,
    ScopeError: 403,
    NotFoundError: 404,
    ConflictError: 409,
    OverBudgetError: 429,
    BusyError: 503,
}
_SOON = {"retry-after": "1"}


class Refusal(Exception):
    def __init__(self, status: int, kind: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.headers = dict(headers or {})

    def body(self, request_id: str) -> bytes:
        told = {"type": self.kind, "message": str(self), "request_id": request_id}
        return json.dumps({"error": told}, ensure_ascii=False).encode("utf-8", "replace")


def because(error: ALMAError) -> Refusal:
    """What alma itself raised, under its own name; without its words where these may name files of the server."""
    status = next((code for kind, code in _STATUSES.items() if isinstance(error, kind)), 500)
    return Refusal(status, type(error).__name__, error.neutral or str(error), _SOON if status == 503 else None)


def plainly(status: int, headers: Mapping[str, str] | None = None) -> Refusal:
    """A status that needs no further words."""
    phrase = HTTPStatus(status).phrase
    return Refusal(status, phrase.replace(" ", ""), f"{phrase.lower()}", headers)
