"""Loads the word lists that local readers use."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import lru_cache
from importlib.resources import files
from typing import Any


@lru_cache(maxsize=8)
def load_file(file: str) -> Any:
    """Return the content of a JSON file of this package."""
    return json.loads(files(__package__).joinpath(file).read_text(encoding="utf-8"))


@lru_cache(maxsize=128)
def load_vocabulary(file: str, name: str) -> Any:
    """Return an entry of a vocabulary file. A list comes as a frozenset."""
    entry = load_file(file)[name]
    return frozenset(entry) if isinstance(entry, list) else entry


def join_longest_first(parts: Iterable[str]) -> str:
    """Join the alternatives of a regular expression, so that a longer one wins over its own beginning."""
    return "|".join(sorted(parts, key=len, reverse=True))


@lru_cache(maxsize=64)
def match_any(file: str, name: str) -> re.Pattern[str]:
    """Return a pattern that matches any expression of a vocabulary entry as whole words, in any case."""
    return re.compile(rf"\b(?:{join_longest_first(load_vocabulary(file, name))})\b", re.IGNORECASE)
