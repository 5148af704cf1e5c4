"""Read regular expressions from the data files beside the modules that use them."""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def read_patterns(module_file: str) -> dict[str, Any]:
    """Return what the JSON file beside a module holds, with `{NAME}` replaced by the entry of that name in "parts".

    A long pattern is a list of strings, which the caller joins.
    """
    with open(os.path.splitext(module_file)[0] + ".json", encoding="utf-8") as file:
        data = json.load(file)
    parts = {"{" + name + "}": "".join(part) for name, part in data["parts"].items()}

    def expand(value: Any) -> Any:
        if isinstance(value, str):
            for name, part in parts.items():
                value = value.replace(name, part)
            return value
        if isinstance(value, dict):
            return {key: expand(entry) for key, entry in value.items()}
        return [expand(entry) for entry in value] if isinstance(value, list) else value

    expanded: dict[str, Any] = expand(data)
    return expanded
