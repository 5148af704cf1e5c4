"""Rules in files: written to where coding agents read them, edited there by people, and read back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from .. import words
from ..answers import copy_fields
from ..memory import ALMA
from ..operations import About, Effect, Group
from ..types.kinds import MemoryType
from . import TARGETS, ExportReport, Side, Verb, export, import_

operation = Group("rules")

_INCLUDED = (MemoryType.RULE, MemoryType.HEURISTIC, MemoryType.ANTI_PATTERN, MemoryType.DOMAIN_KNOWLEDGE)
Root = Annotated[
    str | None,
    About("the repository's folder; by default the one around the current folder", local=True, is_root=True),
]


@operation(Effect.CHANGES, idempotent=True, on_files=True)
def export_rules(
    alma: ALMA,
    to: Annotated[str, About("which agent's file", tuple(TARGETS))],
    path: Annotated[str | None, About("another file than that agent's usual one", local=True, rule_file=True)] = None,
    root: Root = None,
    agent: words.AnyAgent = None,
    everywhere: Annotated[bool, About("rules of all projects, too; they are personal")] = False,
    include: Annotated[list[str] | None, About("what else that is proven, beside rules", tuple(_INCLUDED))] = None,
    name: Annotated[str, About("the name of a skill or of a file among others")] = "project-rules",
    limit: Annotated[int | None, About("another limit than that agent's, in its own unit")] = None,
    check: Annotated[bool, About("write nothing, only say whether the file is current")] = False,
    force: Annotated[bool, About("overwrite what was edited by hand and not imported")] = False,
) -> ExportReport:
    """Write the rules of this project to AGENTS.md, CLAUDE.md or another agent's file, inside a marked block."""
    return export(
        alma,
        to,
        path,
        root=root,
        agent=agent,
        everywhere=everywhere,
        include=include or (MemoryType.RULE,),
        name=name,
        limit=limit,
        check=check,
        force=force,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleChange:
    """One thing that is different in the file, and what comes of it."""

    verb: Verb
    line: int
    memory_id: str | None
    before: str
    after: str
    done: bool
    waits: bool
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedRules:
    path: str
    dry_run: bool
    changes: list[RuleChange]
    unchanged: int
    newer: int
    """Items that the memory knows better by now; an export brings them into the file."""
    replaced: list[str]
    ignored: list[str]
    diff: str
    """What becomes of the memory."""


@operation(Effect.CHANGES, idempotent=True, on_files=True)
def import_rules(
    alma: ALMA,
    path: Annotated[str, About("the file", local=True, rule_file=True)] = "AGENTS.md",
    root: Root = None,
    agent: words.AnyAgent = None,
    all_items: Annotated[bool, About("items of lists outside the block become rules, too")] = False,
    trusted: Annotated[bool, About("false for a file of others: what is new waits for a person", vouches=True)] = True,
    retire: Annotated[bool, About("archive rules whose items were removed")] = False,
    prefer: Annotated[str | None, About("who is right where both changed", tuple(Side))] = None,
    dry_run: Annotated[bool, About("write nothing, only say what would change")] = False,
) -> ImportedRules:
    """Take over what people edited in a file that export_rules wrote: changed items, new ones, removed ones."""
    made = import_(
        alma,
        path,
        root=root,
        agent=agent,
        all=all_items,
        trusted=trusted,
        retire=retire,
        prefer=prefer,
        dry_run=dry_run,
    )
    return copy_fields(
        ImportedRules,
        made,
        changes=[copy_fields(RuleChange, one) for one in made.changes],
        replaced=list(made.replaced),
        ignored=list(made.ignored),
    )
