"""What callers may not claim: paths of this machine when they are on another, and a person's own words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..errors import ValidationError
from ..types.record import RELAYED, find_source
from .operation import Operation, Parameter
from .words import AGENT

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://|urn:")


def from_elsewhere(operation: Operation, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The checked arguments of a call, as somebody elsewhere may give them: what would be a path is null or a URI."""
    given = dict(arguments)
    for one in operation.parameters:
        if one.about.local:
            _refuse_paths(one, given.get(one.name))
            if not one.needed:
                given.setdefault(one.name, None)
    return given


def relay_sources(operation: Operation, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments as an agent may give them: a person's words are recorded as relayed by the agent."""
    given = dict(arguments)
    if "source" in given:
        given["source"] = _relayed(given["source"])
    if operation.name == "add_many":
        given["memories"] = [{**one, "source": _relayed(one.get("source") or AGENT)} for one in given["memories"]]
    return given


def _relayed(source: Any) -> Any:
    return RELAYED if isinstance(source, str) and find_source(source) == "user" else source


def _refuse_paths(parameter: Parameter, value: Any) -> None:
    for one in value if isinstance(value, list) else [value]:
        if one is None or (parameter.about.uri and isinstance(one, str) and is_uri(one)):
            continue
        instead = "a URI such as https://example.org/report.txt" if parameter.about.uri else "null"
        raise ValidationError(f"{parameter.name} would be a path on the server; over the network it must be {instead}")


def is_uri(text: str) -> bool:
    given = text.strip()
    return _URI.match(given) is not None and not given.lower().startswith("file:")
