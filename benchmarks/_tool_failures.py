"""Commands that failed and later worked: is there a lesson in it, and does it name what changed?"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from alma import ALMA
from alma.engine.distil.fixes import lesson

from ._measures import mean
from ._product import Clock

LESSON = "lesson"
_TOKEN = re.compile(r"[\w@./+-]*\w")


def measure(alma: ALMA, clock: Clock, rows: Sequence[Mapping[str, Any]], tick: Callable[[int], None]) -> dict[str, Any]:
    results = []
    for row in rows:
        told = lesson(row["cmd_fail"], row["error_excerpt"], row["cmd_ok"])
        results.append((row, told.rule if told else None))
        tick(1)
    return score(results)


def score(results: Sequence[tuple[Mapping[str, Any], str | None]]) -> dict[str, Any]:
    ours = _quality([(row["kind"] == LESSON, rule is not None) for row, rule in results])
    always = _quality([(row["kind"] == LESSON, True) for row, _ in results])
    told = [(row, rule) for row, rule in results if row["kind"] == LESSON and rule]
    kinds = sorted({row["kind"] for row, _ in results})
    table: list[tuple[Any, ...]] = [
        ("all", len(results), *ours.values()),
        ("always a lesson", len(results), *always.values()),
    ]
    for kind in kinds:
        own = [rule for row, rule in results if row["kind"] == kind]
        table.append((f"{kind}: right", len(own), mean([bool(rule) == (kind == LESSON) for rule in own]), None, None))
    named = mean([_names(row, rule) for row, rule in told]) if told else None
    alike = mean([_alike(row["lesson"], rule) for row, rule in told]) if told else None
    table += [("rules that name what changed", len(told), named, None, None)]
    table += [("words shared with the rule a person wrote", len(told), alike, None, None)]
    failed = [
        f"{row['id']} {row['kind']}: {rule or 'none'}" for row, rule in results if bool(rule) != (row["kind"] == LESSON)
    ]
    return {
        **ours,
        "named": named,
        "alike": alike,
        "columns": ["n", "F1", "precision", "recall"],
        "table": table,
        "failed": failed,
        "remarks": [f"not right: {one}" for one in failed],
    }


def _quality(pairs: Sequence[tuple[bool, bool]]) -> dict[str, float]:
    right = sum(wanted and given for wanted, given in pairs)
    given, wanted = sum(given for _, given in pairs), sum(wanted for wanted, _ in pairs)
    return {
        "F1": 2 * right / (given + wanted) if given + wanted else 0.0,
        "precision": right / given if given else 0.0,
        "recall": right / wanted if wanted else 0.0,
    }


def _words(text: str) -> set[str]:
    return set(_TOKEN.findall(text.lower()))


def _names(row: Mapping[str, Any], rule: str) -> bool:
    """Whether a word that only one of the two commands has is in the rule."""
    return bool((_words(row["cmd_ok"]) ^ _words(row["cmd_fail"])) & _words(rule))


def _alike(wanted: str, rule: str) -> float:
    one, other = _words(wanted), _words(rule)
    return 2 * len(one & other) / max(1, len(one) + len(other))
