"""Describes how a command that worked differs from the one that failed. It quotes both and explains nothing."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from .port import Observation, Repair

_COMMAND_CHARS = 4_000
_OUTPUT_CHARS = 8_000
_JOINS = frozenset(("&&", "||", ";", "|", "&"))
_PREFIXES = frozenset(("sudo", "env", "time", "command", "exec", "npx"))
_NAMED_CHARS = 3
_CODE_FAILURE = re.compile(
    r"\b(?:assert\w*|expected|failures?|tests? failed|\d+ (?:failed|errors?)|failed \d|error ts\d+|undefined|\w*lint"
    r"|(?:type|name|attribute|value|key|reference)error|compil\w+|mismatch)\b",
    re.IGNORECASE,
)


def explain_repairs(repairs: Sequence[Repair]) -> list[Observation]:
    """Return one observation for each repair.

    It has no note where the command did not change, or where the output reports failing code: an edit helped there.
    """
    return [Observation(one, _describe_change(one)) for one in repairs]


def _describe_change(repair: Repair) -> str:
    is_unchanged = repair.failed.split() == repair.worked.split()
    if is_unchanged or _CODE_FAILURE.search(repair.output[:_OUTPUT_CHARS]):
        return ""
    return f"`{repair.failed.strip()}` failed, `{repair.worked.strip()}` worked"


def names_change(repair: Repair) -> bool:
    """Return whether the output of the failed command names a word that differs between the two commands."""
    changed = set(split_command(repair.failed)) ^ set(split_command(repair.worked))
    output = repair.output[:_OUTPUT_CHARS]
    return any(len(word) >= _NAMED_CHARS and word in output for word in changed)


def is_same_attempt(failed: str, worked: str) -> bool:
    """Return whether two commands start the same program or one named alike, or share most of their words."""
    first, second = split_command(failed), split_command(worked)
    if any(one in other or other in one for one in find_programs(first) for other in find_programs(second)):
        return True
    return 2 * len(set(first) & set(second)) > max(len(set(first)), len(set(second)))


def split_command(command: str) -> list[str]:
    """Return the words of a command line."""
    plain = command[:_COMMAND_CHARS].replace(";", " ; ")
    try:
        return shlex.split(plain)
    except ValueError:
        return plain.split()


def find_programs(words: Sequence[str]) -> list[str]:
    """Return the programs that a command line starts, without the folders in front of them and without `cd`."""
    programs = []
    is_start = True
    for word in words:
        if is_start and word not in _PREFIXES and "=" not in word and word not in _JOINS:
            programs.append(re.split(r"[\\/]", word)[-1])
            is_start = False
        elif word in _JOINS:
            is_start = True
    return [one for one in programs if one and one != "cd"]
