"""The operations of a memory: each once, typed, and told in its docstring. Every door calls these.

The command line, the MCP server and the HTTP service hold no logic of their own beside these functions; `operations()`
is the list that they are made from or checked against.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from .operation import OPERATIONS, About, Effect, Operation, Parameter, operation

GROUPS = ("memories", "many", "work", "sessions", "workflows", "domains", "confidence", "knowledge", "graph", "rules")
"""The modules, in the order in which people meet them."""

__all__ = ["GROUPS", "About", "Effect", "Operation", "Parameter", "operation", "operations"]


def operations() -> Mapping[str, Operation]:
    """All operations by name. A door that needs only a few imports their module instead."""
    for group in GROUPS:
        import_module(f".{group}", __name__)
    # Whatever was loaded first, they are told in the same order.
    return {name: one for group in GROUPS for name, one in OPERATIONS.items() if one.group == group}
