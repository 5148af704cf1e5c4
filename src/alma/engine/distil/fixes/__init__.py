"""A command failed, and later another form of it worked: what is there to learn?

A lesson is about the command: this program is not here, that option is unknown, it must be run elsewhere. If the error
was about the code, the cure was an edit and there is none; if the output only looked like an error, neither.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ....types.quoting import quote_output
from ...redact import redact
from . import _errors, _rules
from ._change import installs, kinship, same_ecosystem
from ._shell import Line, name, parse

_RULE_CHARS = 300
_WHY_CHARS = 160
_MOST_CHARS = 4000
_LASTING = frozenset(
    "program option subcommand separator comment glob quoting hang place role database managed peers terminal encoding "
    "memory certificate version interpreter permission module".split()
)
_ABOUT_WORDS = frozenset(("program", "option", "subcommand", "quoting", "glob"))
_NAME = re.compile(r"[\w.@/\\:+#~%*&|=-]{0,80}")
_HOME = re.compile(r"(?:/(?:Users|home)/[^\s/\"'`:]+|[A-Za-z]:\\Users\\[^\s\\\"'`:]+|/root)(?=[/\\\s\"'`:,.;)]|$)")


@dataclass(frozen=True)
class Lesson:
    """What to do (`rule`) when (`trigger`), because of what (`why`); and the literal names to use and not to use."""

    rule: str
    trigger: str
    why: str
    prefer: tuple[str, ...] = ()
    avoid: tuple[str, ...] = ()
    lasting: bool = True
    """Whether it is of a kind that comes again; a mistyped path, a port that was taken or something that is now
    installed may not."""


def lesson(failed: str, error: str, worked: str) -> Lesson | None:
    """What another form of a command teaches, if it teaches anything."""
    failed, error, worked = (redact(text).text for text in (failed, error, worked))
    failed, error, worked = failed[:_MOST_CHARS], _ends(error), worked[:_MOST_CHARS]
    before, after = parse(failed), parse(worked)
    if not before.main or not after.main:
        return None
    found = _errors.complaint(error)
    if found is not None and found.about not in failed and not _NAME.fullmatch(found.about):
        # A rule names what the agent typed or a single name; whole sentences of a program do not become a rule.
        return None
    # How much of the output was shown does not matter, unless that is what failed.
    if _same(before, after, whole=found is not None and found.kind in _ABOUT_WORDS):
        return None
    told = _rules.tell(_rules.Case(failed, before, after, found, error))
    if told is None:
        return None
    return Lesson(
        _clean(told.rule, _RULE_CHARS),
        _clean(f"running {told.family}", 80),
        quote_output(_clean(found.said if found else "", _WHY_CHARS)),
        tuple(filter(None, map(_name, told.prefer))),
        tuple(filter(None, map(_name, told.avoid))),
        lasting=told.inline or _lasts(found, before, after),
    )


def _lasts(found: _errors.Complaint | None, before: Line, after: Line) -> bool:
    if installs(after):
        return False
    # Where a command works is a matter of the project, whatever the error says.
    moved = bool(after.folder) and after.folder != before.folder and not after.folder.startswith(("/", "~"))
    return moved or (found is not None and found.kind in _LASTING)


def related(failed: str, worked: str) -> bool:
    """Whether the second command is the first in this or another form, or brings what the first lacked."""
    before, after = parse(failed[:_MOST_CHARS]), parse(worked[:_MOST_CHARS])
    if any(kinship(one, other) > 0 for one in before.main for other in after.main):
        return True
    installed = installs(after)
    if not installed:
        return False
    named = {name(part.bare[0]) for part in before.main if part.bare}
    return same_ecosystem(before, installed) or bool(named & set(installed.split()))


def _same(before: Line, after: Line, whole: bool) -> bool:
    one, other = (
        ([part.words for part in (line.parts if whole else line.main)], line.folder, line.env, line.operators)
        for line in (before, after)
    )
    return one == other


def _ends(error: str) -> str:
    """Programs say what is wrong first or last."""
    if len(error) <= _MOST_CHARS:
        return error
    return f"{error[: _MOST_CHARS // 4]}\n{error[-3 * _MOST_CHARS // 4 :]}"


def _clean(text: str, most: int) -> str:
    """Without secrets and the names of people's folders, in one line, not too long."""
    flat = " ".join(redact(_HOME.sub("~", text)).text.split())
    return flat if len(flat) <= most else flat[: most - 1].rstrip() + "…"


def _name(text: str) -> str:
    clean = _clean(text, 80)
    return "" if "[REDACTED:" in clean or clean.endswith("…") else clean


__all__ = ["Lesson", "lesson", "related"]
