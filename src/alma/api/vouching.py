"""Only a person takes outside content for their own words; a program that calls without that right cannot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import ScopeError
from .operation import Operation


def refuse_vouching(operation: Operation, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the checked arguments of a caller who may not approve: what is read waits for a person."""
    allowed = dict(arguments)
    for parameter in operation.parameters:
        if not parameter.about.vouches:
            continue
        if allowed.get(parameter.name):
            raise ScopeError(
                f"{parameter.name}=true takes outside content for a person's own words, which only a person may do: "
                "use a token with the scope 'approve', or start the MCP server with --approve"
            )
        allowed[parameter.name] = False
    return allowed
