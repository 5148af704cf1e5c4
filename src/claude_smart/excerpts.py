"""The excerpts of earlier sessions that an agent may be shown: listed for the person, and deleted one by one."""

from __future__ import annotations

import os
from argparse import Namespace

from alma.engine.context import Engine
from alma.engine.erase import erase_memory
from alma.engine.exchanges import EXCHANGE
from alma.hooks.hosts import HOSTS
from alma.hooks.paths import read_settings
from alma.types.query import Where
from alma.types.record import Record, Status

from . import rules
from .rules import INDENT, Answer, CommandContext, is_run_by_agent, require_person, short_id

_HEADING = "Excerpts of earlier sessions (`claude-smart forget ID` deletes one)"
_NONE = "No excerpts of earlier sessions yet."
_OFF = "An agent is shown none of them, because evidence is off. Turn it on: claude-smart config evidence on"
_FIELDS = ("before", "person", "then", "host", "likely", "concern")
_LEAST_ID = 4


def show(args: Namespace, context: CommandContext) -> Answer:
    """Show the rules as `rules.show` does, or with --evidence the excerpts of earlier sessions."""
    if not args.evidence:
        return rules.show(args, context)
    if not os.path.exists(context.data_dir.db):
        context.print_lines(_NONE)
        return {"project": context.project, "evidence": []}
    with context.engine() as engine:
        # An agent is not shown what was screened out.
        sees_all = args.all and not is_run_by_agent()
        records = find_excerpts(engine, *(() if sees_all else (Status.ACTIVE,)))
    context.print_lines(f"Project {context.project}")
    if read_settings(context.data_dir)["evidence"] == "off":
        context.print_lines(_OFF)
    context.print_lines(f"\n{_HEADING}\n" if records else _NONE)
    for record in records:
        _print_excerpt(context, record)
    return {"project": context.project, "evidence": [excerpt_to_dict(record) for record in records]}


def forget(args: Namespace, context: CommandContext) -> Answer:
    """Forget a rule as `rules.forget` does, or delete the excerpt that has this id."""
    require_person("`claude-smart forget`")
    with context.memory() as memory:
        engine = memory.engine(context.project)
        record = pick_excerpt(engine, " ".join(args.what))
        if record is None:
            return rules.forget(args, context)
        erase_memory(engine, record)
        memory.alma.vacuum()
    context.print_lines(f"Deleted the excerpt of {record.created_at:%Y-%m-%d}: “{record.body['person']}”")
    context.print_lines(f"{INDENT}Rules that were learned from it stay: claude-smart show")
    return {"deleted": [excerpt_to_dict(record)]}


def find_excerpts(engine: Engine, *statuses: Status) -> list[Record]:
    """Return the exchanges of the project, oldest first."""
    where = Where(kinds={EXCHANGE}, projects={engine.project}, statuses=statuses or None)
    return sorted(engine.store.scan(where), key=lambda record: (record.created_at, record.body["number"]))


def pick_excerpt(engine: Engine, name: str) -> Record | None:
    """Return the exchange with this id, or with an id that ends so; None if there is none."""
    query = name.strip("[]# ").lower()
    if len(query) < _LEAST_ID:
        return None
    return next((record for record in find_excerpts(engine) if record.id.endswith(query)), None)


def excerpt_to_dict(record: Record) -> Answer:
    """Return an exchange as JSON values."""
    fields = {name: record.body[name] for name in _FIELDS}
    return {"id": record.id, "at": record.created_at.isoformat(), "session": record.session, **fields}


def _print_excerpt(context: CommandContext, record: Record) -> None:
    host_name = record.body["host"] or "claude"
    host = HOSTS.get(host_name, host_name)
    context.print_lines(f"- {record.created_at:%Y-%m-%d} [{short_id(record.id)}] {host}")
    for speaker, name in (("agent", "before"), ("you", "person"), ("agent", "then")):
        if text := record.body[name]:
            context.print_lines(f"{INDENT}{speaker}: {text}")
    if record.body["concern"]:
        context.print_lines(f"{INDENT}not shown to an agent: {record.body['concern']}")
