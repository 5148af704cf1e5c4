"""Commands on a memory: first those that do more than call one operation, then a table of the others."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..config import load_yaml
from ..errors import ConfigError, NotFoundError, ScopeError, ValidationError, unknown
from ..knowledge import plan_ingest
from ..schema import type_of
from ..types.record import find_source
from ..upkeep import count_results, find_lessons, read_background
from . import render
from .derive import COMMANDS, REVIEW, YES, Argument, Call, Command, Reply, command, parse_json, reply_value
from .render import Progress, count, count_memories, print_exact

_SIGNALS = {"up": "thumbs_up", "down": "thumbs_down", "used": "used", "ignored": "ignored"}
_TAGS = Argument("--tag TAG…", "add this tag", dest="tags")
_AGENT = Argument("--agent AGENT", "default agent for lines without one")
_TEST = Argument("--test NAME=pass|fail…", "result of a test", dest="tests")
_PROMPT = Argument("--prompt", "print only the text for a prompt")
_ITEM_ID = {"item_id": "the work item's id"}
_NOTED = {
    "session_id": "the session's id (default: the agent's only open session)",
    "decisions": "a decision",
    "key_decisions": "a decision",
    "active_files": "a file being worked on",
    "blockers": "what blocks the work",
    "risk_flags": "what may go wrong",
}
_READ = {name: (name[:-1],) for name in ("conversations", "documents", "messages", "sections")}
_STORED = {
    "episodes": ("conversation or document", "conversations and documents"), "rules": ("rule",),
    "domain_knowledge": ("fact",), "user_preferences": ("user preference",), "heuristics": ("heuristic",),
    "anti_patterns": ("anti-pattern",), "outcomes": ("outcome",), "work_items": ("work item",),
}  # fmt: skip
_COUNTED = {
    "waiting": "to review", "known": "already stored", "unchanged": "unchanged", "skipped": "skipped",
    "damaged": "damaged",
}  # fmt: skip
"""The counts of an import: what was read, what was stored, and the others."""
_REFUSED = (ValidationError, ScopeError, NotFoundError)
_TYPES = {"domain-knowledge": ("fact",), "user-preference": ("user preference",), "work-item": ("work item",)}
_ENDS = ("completed", "failed", "cancelled")
_BATCH = 100

Line = tuple[str, dict[str, Any]]
"""An object, and its location such as `chat.jsonl, line 3`."""


# -- input files


def read_text(source: str) -> str:
    """Read a text file, or standard input for '-'."""
    try:
        return sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ValidationError(f"cannot read {source}: {getattr(error, 'strerror', error)}") from error


def check_object(place: str, value: Any, what: str) -> dict[str, Any]:
    """Return a JSON object. Raise ValidationError that names `place` for any other value."""
    if not isinstance(value, dict):
        kind = "a JSON object" if place.startswith("--") else f"an object with {what}"
        raise ValidationError(f"{place} must be {kind}; nothing was recorded")
    return value


def read_objects(
    source: str, what: str, gaps: Mapping[str, Any] | None = None, *, empty_ok: bool = False
) -> list[Line]:
    """Read objects from a JSON list or JSON Lines. `gaps` are default values for each object."""
    text = read_text(source)
    if text.lstrip().startswith("["):
        values = [(f"{source}, item {number}", value) for number, value in enumerate(parse_json(source, text), 1)]
    else:
        # Not splitlines: JSON may contain other Unicode line separators.
        lines = [(f"{source}, line {number}", line) for number, line in enumerate(text.split("\n"), 1)]
        values = [(place, parse_json(place, line)) for place, line in lines if line.strip()]
    if not values and not empty_ok:
        raise ValidationError(f"{source} is empty; nothing was recorded")
    return [(place, {**(gaps or {}), **check_object(place, value, what)}) for place, value in values]


def send_lines(lines: Sequence[Line], send: Callable[[list[dict[str, Any]]], list[Any]], report: Progress) -> list[Any]:
    """Send all lines in batches. Each batch is stored whole or not at all; errors name the refused line."""
    answers: list[Any] = []
    for start in range(0, len(lines), _BATCH):
        batch = lines[start : start + _BATCH]
        try:
            answers += send([row for _, row in batch])
        except _REFUSED:
            # Nothing of the batch was written. Send the lines one by one to find the refused one.
            for place, row in batch:
                try:
                    answers += send([row])
                except _REFUSED as error:
                    stored = (
                        f" {count(len(answers), 'line')} before it {'was' if len(answers) == 1 else 'were'} stored; "
                    )
                    stored += "correct this line and continue from here."
                    text = f"{place}: {error}".rstrip(".") + "."
                    raise type(error)(f"{text}{stored if answers else ''}") from error
        report(len(answers), len(lines))
    return answers


def read_object(source: str, what: str, *, is_yaml: bool = False) -> dict[str, Any]:
    """Read an object from a JSON file, or from YAML if `is_yaml` and the name does not end in .json."""
    text = read_text(source)
    if not is_yaml or source.endswith(".json"):
        return check_object(source, parse_json(source, text), what)
    try:
        return check_object(source, load_yaml(text.encode()), what)
    except ConfigError as error:
        raise ValidationError(f"{source} is {' '.join(str(error).split())}") from error


def read_pairs(texts: Iterable[str] | None, form: str, *, split_first: bool = False) -> dict[str, str]:
    """Read `KEY=VALUE` texts, split at the last `=` or the first. `form` describes them in errors."""
    pairs = [text.partition("=") if split_first else text.rpartition("=") for text in texts or ()]
    for key, equals, value in pairs:
        if not key or not equals:
            raise ValidationError(f"{key + value!r} is not {form}")
    return {key: value for key, _, value in pairs}


# -- everyday


@command("learn", "learn", "--*", requires=False)
@Argument(
    "--from FILE", "read outcomes from a JSON Lines file ('-' for standard input); options are defaults", dest="source"
)
def learn(call: Call) -> Reply:
    """Run `alma learn`, with the lessons that changed."""
    since, source = datetime.now(UTC), call.args.source
    arguments = call.read_arguments()
    if source is not None:
        call.refuse_options("idempotency_key", "identifies one outcome; with --from, set it in each line")
        lines = read_objects(source, "the arguments of learn", arguments, empty_ok=True)
        outcomes = send_lines(lines, lambda batch: call.run("learn_many", outcomes=batch), call.out.progress)
        lessons = find_lessons(call.alma, outcomes, since)
        document = {"recorded": len(outcomes), "ids": [one.id for one in outcomes], "learned": lessons}
        return Reply(
            document, f"recorded {count(len(outcomes), 'outcome')}", lessons or "no heuristic or anti-pattern changed"
        )
    outcome = call.run("learn", **arguments)
    lessons, tally = find_lessons(call.alma, [outcome], since), count_results(call.alma, outcome)
    forms = ""
    if outcome.outcome == "failure":
        forms = "; an anti-pattern forms from repeated failures"
    elif tally.results < tally.needed:
        forms = f"; a heuristic forms after {tally.needed} outcomes that mostly succeed"
    state = f"on similar tasks, this strategy worked {tally.successes} of {tally.results} times{forms}"
    document = {"outcome": outcome, "learned": lessons, "strategy": tally}
    return Reply(document, f"recorded {outcome.id}", lessons or state)


@command("workflow learn", "workflow_learn")
def learn_run(call: Call) -> Reply:
    """Run `alma workflow learn`, with the lessons that changed."""
    since, outcomes = datetime.now(UTC), call.run_typed()
    lessons = find_lessons(call.alma, outcomes, since)
    return Reply({"outcomes": outcomes, "learned": lessons}, "recorded", outcomes, lessons)


@command(
    "retrieve",
    "retrieve retrieve_scoped",
    help="""Find memories relevant to a task.

Prints heuristics, anti-patterns, rules, facts, user preferences and past conversations, or nothing if nothing is
relevant. Pass the retrieval id that it prints to `alma learn --retrieval-id`.""",
    about={
        "mode": "how to search: default, precise (few and certain), broad, recent (newer first) or learning (what "
        "worked and what failed)",
        "progressive": "print summaries; `alma show ID` shows a memory in full",
        "workflow_id": "with --scope: the workflow's name",
        "run_id": "with --scope: the run's name",
        "node_id": "with --scope: the node's name",
        "tenant_id": "with --scope: the tenant's name",
    },
)
@_PROMPT
@Argument("--explain", "show how each memory was scored")
def retrieve(call: Call) -> Reply:
    """Run `alma retrieve`, within a scope if --scope is passed."""
    if "scope" in call.args:
        # A scoped retrieval cannot apply these filters.
        filters = "tags task_type since until as_of level progressive"
        call.refuse_options(filters, "cannot be used with --scope")
        result = call.run_typed("retrieve_scoped")
    else:
        fences = "workflow_id run_id node_id tenant_id"
        call.refuse_options(fences, "can only be used with --scope: node, run, workflow, agent, tenant, global")
        result = call.run_typed()
    if call.args.prompt:
        return Reply(result, print_exact(result.prompt))
    return Reply(result, result, *(result.explanations if call.args.explain else ()))


@command("feedback")
@Argument("ID", "the memory's id", nargs="?")
@Argument("SIGNAL", "up, down, used or ignored", nargs="?", choices=tuple(_SIGNALS))
@Argument("--shown ID", "instead: ids of all memories that were shown", nargs="+")
@Argument("--used ID…", "id of a shown memory that was used", default=[])
def feedback(call: Call) -> Reply:
    """Rate one memory, or report which of the memories shown were used. Ratings change their rank."""
    args = call.args
    if args.shown:
        report = call.run("record_usage", retrieved_memory_ids=args.shown, used_memory_ids=args.used)
        if not report.recorded:
            raise NotFoundError(f"no such memory: {', '.join(report.unknown)}")
        used = sum(id.startswith(tuple(args.used)) for id in report.recorded)
        return Reply(report, f"recorded: {count_memories(used)} used, {len(report.recorded) - used} unused")
    if args.signal is None:
        call.fail_usage("requires ID and SIGNAL, or --shown")
    signal, before = _SIGNALS[args.signal], call.run("get", memory_id=args.id)
    call.run("record_feedback", memory_id=before.id, signal=signal)
    memory = call.run("get", memory_id=before.id)
    text = f"recorded {args.signal}; confidence {before.confidence:.2f} → {memory.confidence:.2f}"
    return Reply({"memory": memory, "signal": signal, "confidence_before": before.confidence}, text)


# -- memories


@command("list", "list", "*", "memories")
def list_memories(call: Call) -> Reply:
    """Run `alma list`."""
    memories = call.run_typed()
    is_filtered = call.read_arguments().keys() & {"memory_type", "agent", "user_id", "status", "tag", "fields"}
    if not memories and is_filtered:
        return Reply({"count": 0, "memories": []}, "No memories match.")
    return reply_value(memories, "memories")


@command("show", "get")
def show(call: Call) -> Reply:
    """Run `alma show`, with evidence, provenance, related memories and history."""
    memory = call.run_typed()
    evidence, provenance, related = read_background(call.alma, memory.id)
    document = {
        "memory": memory,
        "evidence": evidence,
        "provenance": provenance,
        "related": [{"id": one.id, "memory": one} for one in related],
        "history": call.run("history", memory_id=memory.id),
    }
    turns = [
        f"{one.speaker}, {render.format_value(one.said_at)}, {one.id}: {one.text}"
        for one in getattr(memory, "turns", ())
    ]
    shown = {"type": type_of(memory), **render.list_fields(memory), "confidence": render.draw_belief(memory)}
    card = {"source" if name == "origin" else name: value for name, value in shown.items()}
    below = {**document, "memory": "", "related": related, "evidence": evidence if render.list_fields(evidence) else ""}
    return Reply(document, {**card, "conversation": turns}, below)


@command(
    "update",
    "update",
    "* !fields --source=user",
    "memory",
    "updated",
    about={"tags": "a new tag; the new tags replace all current ones"},
)
@Argument("pairs FIELD=VALUE", "a field and its new value", nargs="*")
def update(call: Call) -> Reply:
    """Run `alma update` with FIELD=VALUE pairs."""
    changed: dict[str, Any] = {**read_pairs(call.args.pairs, "FIELD=VALUE, such as fact='New text'", split_first=True)}
    if "metadata" in changed:
        changed["metadata"] = parse_json("metadata", changed["metadata"])
    if find_source(getattr(call.args, "source", "user")) != "user" and getattr(call.args, "status", "") == "active":
        # The person who runs the command passes on what another source wants, and that may not activate a candidate.
        call.alma.engine = replace(call.alma.engine, may_approve=False)
    return call.answer(fields=changed)


@command("delete", "delete erase_user", "memory_id? --*")
@YES
def delete(call: Call) -> Reply:
    """Delete a memory permanently. It is not relearned.

    A conversation is deleted with all its turns. With --user, everything that belongs to the user is deleted.
    """
    user = getattr(call.args, "user_id", None)
    if ("memory_id" in call.args) is (user is not None):
        call.fail_usage(
            "takes ID or --user, not both" if user else "requires ID, or --user to delete everything of a user"
        )
    if user is not None:
        call.confirm(f"Delete everything of the user {user!r} in {call.alma.project_id} permanently?")
        erased = call.run_typed("erase_user")
        done = f"deleted everything of user {user!r}" if erased.counts else f"nothing is stored for user {user!r}"
        return Reply(erased, done, erased.counts)
    memory = call.run_typed("get")
    turns = [turn.id for turn in getattr(memory, "turns", ())]
    parts = f", with its {count(len(turns), 'turn')}" if turns else ""
    call.confirm(f"Delete it permanently{parts}?", memory)
    call.run("delete", memory_id=memory.id)
    gone = {"turns": turns} if hasattr(memory, "turns") else {}
    return Reply({"deleted": memory.id, **gone}, f"deleted {memory.id}{parts}")


@command("archive", "forget")
@YES
def archive(call: Call) -> Reply:
    """Run `alma archive`, after listing what would be archived."""
    arguments = call.read_arguments()
    report = call.run("forget", **arguments | {"dry_run": True})
    memories = [call.run("get", memory_id=id) for id in report.ids]
    if not memories or arguments.get("dry_run"):
        done = f"would archive {count_memories(report.count)}" if memories else "nothing to archive"
        return Reply(report, memories, done)
    call.confirm(f"Archive {count_memories(report.count)}?", memories)
    report = call.run("forget", **arguments)
    return Reply(report, f"archived {count_memories(report.count)}")


@command("reconcile", "reconcile")
def reconcile(call: Call) -> Reply:
    """Run `alma reconcile`. Without a model, exit with 1."""
    report = call.run_typed()
    if call.alma.model is None and not call.out.as_json:
        raise ConfigError("no model is configured; set `model` in the configuration, such as .alma/config.yaml")
    return Reply(report, code=0 if call.alma.model else 1)


@command("playbook", "playbook")
def print_playbook(call: Call) -> Reply:
    """Run `alma playbook`."""
    page = call.run_typed()
    return Reply(page, page if page.text else "Nothing learned yet. Record an outcome with `alma learn`.")


# -- files of memories


@command("add episode", "add_episode", "--* !turns")
@Argument("FILE", "turns with speaker and text, as a JSON list or JSON Lines ('-' for standard input)")
def add_episode(call: Call) -> Reply:
    """Run `alma add episode` with turns from a file."""
    lines = read_objects(call.args.file, "a speaker and a text")
    try:
        episode = call.run_typed(turns=[turn for _, turn in lines])
    except ValidationError as error:
        # `turns[2] text is …` becomes the line of that turn.
        place = re.compile(r"turns\[(\d+)\](, a turn,|:)?")
        raise ValidationError(place.sub(lambda turn: f"{lines[int(turn[1])][0]}:", str(error))) from error
    retired = "was deleted before and is not stored again; nothing was recorded"
    stored = f"is stored, now with {count(episode.turn_count, 'turn')}"
    return Reply({"memory": episode}, f"{episode.id} {retired if episode.status == 'retired' else stored}")


@command("add many")
@Argument("FILE", "JSON Lines file; each line has a type and its fields ('-' for standard input)")
@_AGENT
@_TAGS
def add_many(call: Call) -> Reply:
    """Add memories of any type from a file. Adding them again changes nothing.

    Each line is an object with its type (domain_knowledge, user_preference, heuristic, anti_pattern or rule) and the
    options of `alma add` for that type, such as domain and fact.
    """
    return _send_added(call, "add_many", "memories", "a type and its fields")


@command("add episodes")
@Argument("FILE", "JSON Lines file; each line has session_id and turns ('-' for standard input)")
@_AGENT
@_TAGS
def add_episodes(call: Call) -> Reply:
    """Store conversations from a file, or their new turns."""
    return _send_added(call, "add_episodes", "conversations", "a session_id and turns")


def _send_added(call: Call, operation: str, parameter: str, what: str) -> Reply:
    args, agent = call.args, call.find_agent()
    lines = read_objects(args.file, what, {"tags": args.tags} if args.tags else {})
    for _, row in lines:
        # Preferences belong to a user, not to an agent.
        if agent and row.get("type") != "user_preference":
            row.setdefault("agent", agent)
    memories = send_lines(lines, lambda batch: call.run(operation, **{parameter: batch}), call.out.progress)
    document = {"count": len(memories), "ids": [one.id for one in memories]}
    noun = "memory" if parameter == "memories" else "conversation"
    return Reply(document, {f"stored {count(len(memories), noun, parameter)}": memories})


@command("ingest", "ingest", "* !own --branches:branches", requires=False)
@Argument("--own", "the content is your own (default for chats)", group="either", default=None)
@Argument(
    "--not-own",
    "the content is not your own: it waits for your review",
    group="either",
    dest="own",
    action="store_false",
    default=None,
)
@Argument("--plan", "only list the files that would be read, and their formats")
def ingest(call: Call) -> Reply:
    """Run `alma ingest`, or list the files with --plan."""
    args = call.args
    if args.plan:
        names = vars(args).keys() & {"only", "own", "max_file_bytes"}
        return Reply(plan_ingest(args.path, **{name: getattr(args, name) for name in names}))
    report = call.run_typed()
    rest = {name: value for name, value in render.list_fields(report).items() if name not in ("counts", "dry_run")}
    if not any(report.counts.values()):
        return Reply(report, f"nothing to import in {args.path}", rest, code=1)
    stored_before, hint = report.counts.get("known", 0), ""
    if report.counts.get("waiting") and not report.dry_run:
        hint = f"content that is not your own waits for your review: {REVIEW}"
    elif args.own and stored_before:
        hint = f"{stored_before} already stored and unchanged. To review what waits: {REVIEW}"
    return Reply(report, _describe_counts(report), rest, hint)


def _describe_counts(report: Any) -> str:
    """Return what an import read and stored, as a sentence."""
    counts, verb = report.counts, "would store" if report.dry_run else "stored"

    def list_counts(nouns: Mapping[str, tuple[str, ...]]) -> str:
        return ", ".join(count(counts[key], *forms) for key, forms in nouns.items() if counts.get(key))

    unchanged = f" ({counts['files unchanged']} unchanged)" if counts.get("files unchanged") else ""
    parts = [f"read {count(counts.get('files', 0), 'file')}{unchanged}", list_counts(_READ)]
    parts = [": ".join(filter(None, parts)), f"{verb} {list_counts(_STORED) or 'nothing new'}"]
    return "; ".join(parts + [f"{counts[key]} {words}" for key, words in _COUNTED.items() if counts.get(key)])


@command("learn-from", "learn_from_conversation learn_from_text", "--* !messages !text --source=user")
@Argument("FILE", "messages with role and content, as a JSON list or JSON Lines ('-' for standard input)")
@Argument("--text", "FILE is a text, not a conversation")
def learn_from(call: Call) -> Reply:
    """Run `alma learn-from` on a conversation, or on a text with --text."""
    args = call.args
    if args.text:
        call.refuse_options("session_id save_episode", "can only be used with a conversation, not with --text")
        name = getattr(args, "name", "standard input" if args.file == "-" else Path(args.file).name)
        return _reply_learned(call.run_typed("learn_from_text", text=read_text(args.file), name=name))
    call.refuse_options("name", "can only be used with --text; use --session to name a conversation")
    try:
        messages = [message for _, message in read_objects(args.file, "role and content")]
    except ValidationError as error:
        is_there = args.file == "-" or Path(args.file).is_file()
        hint = "for a plain text, pass --text" if is_there else "to pass text, pipe it into `alma learn-from - --text`"
        raise ValidationError(f"{error}; {hint}") from error
    return _reply_learned(call.run_typed(messages=messages))


def _reply_learned(report: Any) -> Reply:
    """Reply with what was learned: first a sentence, then the findings."""
    types = {re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower(): number for name, number in report.kept.items()}
    stored = ", ".join(count(number, *_TYPES.get(name, (name,))) for name, number in types.items())
    verb = "would store" if report.dry_run else "stored"
    text = f"found {count_memories(report.extracted_count)}; {verb} {stored or 'nothing new'}"
    text += f"; {report.known} already stored" if report.known else ""
    hidden = ("extracted_count", "new", "known", "kept", "by_kind", "dry_run")
    return Reply(report, text, {name: one for name, one in render.list_fields(report).items() if name not in hidden})


# -- work


@command("work show", "list_work_items", "item_id", about=_ITEM_ID)
def show_item(call: Call) -> Reply:
    """Show one work item with its parts and history."""
    [item] = call.run_typed()
    parts = call.run("list_work_items", parent_id=item.id, archived=True, limit=200)
    below = {"parts": parts, "history": call.run("history", memory_id=item.id)}
    return Reply({"item": item, **below}, lambda out: out.show_card(item), below)


@command("work list", "list_work_items", "* !item_id !query", "items")
def list_items(call: Call) -> Reply:
    """List work items, most urgent first."""
    if "parent_id" in call.args:
        # Raises an error for an unknown id.
        call.run("list_work_items", item_id=call.args.parent_id)
    return call.answer()


@command("work search", "list_work_items", "query:words --limit=10 --project_id", "items")
def search_items(call: Call) -> Reply:
    """Search work items by words in titles and descriptions."""
    items = call.run_typed()
    nothing = Reply({"count": 0, "items": []}, f"No work items match {call.args.query!r}.")
    return reply_value(items, "items") if items else nothing


@command("work history", "list_work_items", "item_id", about=_ITEM_ID)
def show_item_history(call: Call) -> Reply:
    """Show who changed what in a work item, oldest first."""
    item = call.run_typed()[0].id
    history = call.run("history", memory_id=item)
    return Reply({"id": item, "history": history}, history)


@command("work delete", "delete_work_item", "* --agent:by")
@YES
def delete_item(call: Call) -> Reply:
    """Run `alma work delete` after confirmation."""
    [item] = call.run("list_work_items", item_id=call.args.item_id)
    call.confirm("Delete it and its history permanently?", item)
    call.run_typed()
    return Reply({"deleted": item.id}, f"deleted {item.id}")


@command(
    "work test",
    "update_progress",
    "item_id --agent:by",
    "item",
    "tested",
    about={"agent": "who ran the test; may be recorded for items that another agent has claimed"},
)
@Argument("TEST", "the name of the test")
@Argument("--pass", "the test passed", group="needed", dest="passing")
@Argument("--fail", "the test failed", group="needed", dest="passing", action="store_false")
def record_test(call: Call) -> Reply:
    """Record the result of a test of a work item. A new test name is added."""
    return call.answer(test_results={call.args.test: call.args.passing})


@command("work next", "get_next_item")
def take_next_item(call: Call) -> Reply:
    """Show the next work item to do. Skips items that are blocked, in progress or another agent's.

    'priority' picks the most urgent item, 'blocked_unblock' the one that unblocks the most others, 'quick_win' the
    shortest, 'fifo' the oldest. Pass --claim if several agents work at the same time.
    """
    arguments = call.read_arguments()
    if arguments.get("claim"):
        arguments["agent"] = call.need_agent()
    step = call.run("get_next_item", **arguments)
    if step.item is None:
        verb = "is" if step.waiting == 1 else "are"
        others = f": {count(step.waiting, 'open item')} {verb} blocked, in progress or owned by another agent"
        return Reply(step, f"no work item is available{others if step.waiting else ''}", code=1)
    who = shlex.quote(arguments.get("agent") or step.item.agent or "NAME")
    claim = "" if step.item.claimed_by else f"to claim it: alma work claim {step.item.id} --agent {who}"
    return Reply(step, step.item, step.item.description, claim)


@command("work status", "update_progress", "item_id status --notes --agent:by")
def move_item(call: Call) -> Reply:
    """Change the status of a work item.

    An item that is done unblocks the items that wait for it. A blocked item cannot be done.
    """
    item = call.run_typed()
    blocked = [call.run("list_work_items", item_id=id)[0] for id in item.blocks] if item.status == "done" else []
    freed = [one for one in blocked if one.status == "pending"]
    return Reply({"item": item, **({"freed": freed} if freed else {})}, item, {"unblocked": freed})


@command(
    "work archive",
    "update_progress archive_finished",
    "item_id? --agent:by --older_than_days:older-than",
    about={"older_than_days": "with --finished: only items unchanged for this many days"},
)
@Argument("--finished", "archive all items that are done")
def archive_items(call: Call) -> Reply:
    """Archive a work item, or all that are done. Archived items are not listed or counted."""
    if ("item_id" in call.args) is call.args.finished:
        raise ValidationError(
            "work archive requires the ID of an item, or --finished for all items that are done; not both"
        )
    if call.args.finished:
        report = call.run_typed("archive_finished")
        return Reply(report, f"archived {count(report.count, 'work item')}")
    call.refuse_options("older_than_days", "can only be used with --finished")
    return reply_value(call.run_typed(archived=True), "item")


@command(
    "work progress",
    "progress_summary progress_logs",
    about={"session_id": "with --log: only this session", "limit": "with --log: maximum number of entries"},
)
@Argument("--log", "list the progress that sessions logged, newest first")
def show_progress(call: Call) -> Reply:
    """Run `alma work progress`, or list logged progress with --log."""
    if not call.args.log:
        call.refuse_options("session_id limit", "can only be used with --log")
        return call.answer()
    return reply_value(call.run_typed("progress_logs"), "logs")


# -- sessions


def _run_in_session(call: Call) -> Any:
    """Run the command's operation in the session that was named, or in the agent's only open session."""
    arguments, form = call.read_arguments(), "NAME=pass or NAME=fail"
    results = read_pairs(call.args.tests, form)
    if not {*results.values()} <= {"pass", "fail"}:
        raise ValidationError(f"{', '.join(call.args.tests)} is not {form}")
    if results:
        arguments["test_status"] = {test: result == "pass" for test, result in results.items()}
    if not arguments.keys() - {"agent", "session_id"} and not getattr(call.args, "log", True):
        raise ValidationError("nothing to note: pass --action, --decision, --file, --blocker, --next, …")
    if "session_id" not in arguments:
        agent = arguments["agent"]
        sessions = call.run("list_sessions", agent=agent, state="open").sessions
        if not sessions:
            start = f"alma session start --agent {shlex.quote(agent)}"
            raise ValidationError(f"{agent} has no open session; start one with `{start}`")
        if len(sessions) > 1:
            choices = ", ".join(f"{one.id} ({one.goal or 'no goal'})" for one in sessions)
            raise ValidationError(f"{agent} has {len(sessions)} open sessions; pass the ID of one: {choices}")
        arguments["session_id"] = sessions[0].id
    return call.run(call.command.operation, **arguments)


@command("session note", "update_session", "session_id? --* !test_status", about=_NOTED)
@_TEST
@Argument("--log", "also log the progress of the work, for `alma work progress --log`")
def note_session(call: Call) -> Reply:
    """Run `alma session note`, and log progress with --log."""
    session = _run_in_session(call)
    document = {"session": session}
    if call.args.log:
        action = getattr(call.args, "action", "")
        document["log"] = call.run("log_progress", agent=session.agent, session_id=session.id, current_action=action)
    return Reply(document, f"noted in {session.id}", session)


@command(
    "session end",
    "end_session",
    "session_id? --* !test_status --last_outcome:outcome --current_goal:goal",
    about={**_NOTED, "next_steps": "a step for the next session"},
)
@_TEST
def end_session(call: Call) -> Reply:
    """Run `alma session end` and show the handoff."""
    handoff = _run_in_session(call)
    shown = render.list_fields(handoff)
    if handoff.last_action == "nothing was noted":
        shown["last_action"] = "none recorded"
        shown["last_outcome"] = handoff.last_outcome if "last_outcome" in call.args else "unknown"
    return Reply({"handoff": handoff}, f"ended {handoff.session_id}. Handoff for the next session:", shown)


@command("session list", "list_sessions", "--agent --state --limit --project_id")
def list_sessions(call: Call) -> Reply:
    """List an agent's open sessions and how its latest ones ended."""
    listing = call.run_typed()
    document = {"open": listing.sessions, "previous": listing.handoffs}
    state = getattr(call.args, "state", None)
    return Reply(
        document,
        document
        if any(document.values())
        else f"No {state} sessions."
        if state
        else "No sessions yet. Start one with `alma session start`.",
    )


@command("session show", "list_sessions", "session_id:id --agent", about={"session_id": "the session's id"})
def show_session(call: Call) -> Reply:
    """Show one session."""
    shown = call.run_typed()
    handoffs = [part for one in shown.handoffs for part in ("\nhandoff:", one)]
    return Reply({"session": shown.sessions[0]}, shown.sessions[0], *handoffs)


@command("session prepare", "initialize", "* user_prompt:prompt")
@_PROMPT
def prepare_session(call: Call) -> Reply:
    """Run `alma session prepare` with a prompt from the command line or standard input."""
    if call.args.user_prompt == "-":
        call.args.user_prompt = read_text("-")
    plan = call.run_typed()
    return Reply(plan, print_exact(plan.prompt) if call.args.prompt else plan)


@command("session wake-up", "wake_up", "--*")
def wake_up(call: Call) -> Reply:
    """Run `alma session wake-up`."""
    if "topic" not in call.args:
        call.refuse_options("deep", "can only be used with --topic")
    return call.answer()


# -- workflows


@command("workflow checkpoint", "checkpoint", "run_id node_id --* !state --from_branch:from-branch", "checkpoint")
@Argument("--state JSON", "the state, a JSON object", group="either", dest="state_text")
@Argument("--from FILE", "read the state from a file ('-' for standard input)", group="either", dest="source")
def save_checkpoint(call: Call) -> Reply:
    """Run `alma workflow checkpoint` with a state from an option, a file or standard input."""
    text, source = call.args.state_text, call.args.source
    if text is not None:
        return call.answer(state=check_object("--state", parse_json("--state", text), "the state"))
    needs = "pass the state with --state JSON, --from FILE, or as JSON on standard input"
    if source is None and sys.stdin.isatty():
        raise ValidationError(needs)
    place, text = "standard input" if source in (None, "-") else source, read_text(source or "-")
    if not text.strip():
        raise ValidationError(f"{place} is empty; {needs}")
    return call.answer(state=check_object(place, parse_json(place, text), "the state"))


@command("workflow runs", "list_runs", "--workflow_id --status --limit", "runs")
def list_runs(call: Call) -> Reply:
    """List workflow runs, newest first."""
    return call.answer()


@command("workflow end", "update_run", "run_id", "run", about={"run_id": "the run's name"})
@Argument("--status STATUS", "completed (default), failed or cancelled", _ENDS, default="completed")
def end_run(call: Call) -> Reply:
    """Record how a run ended."""
    if call.args.status not in _ENDS:
        raise ValidationError(unknown("status", call.args.status, _ENDS))
    return call.answer()


@command("workflow start", "update_run", "workflow_id --run_id --agent --metadata", "run")
def start_run(call: Call) -> Reply:
    """Start a run of a workflow, or continue an existing run."""
    return call.answer(status="running")


@command(
    "workflow history",
    "list_runs",
    "run_id --node_id --branch_id --limit=100",
    "checkpoints",
    about={
        "run_id": "the run's name",
        "node_id": "only checkpoints of this node",
        "branch_id": "only checkpoints of this branch",
    },
)
def list_checkpoints(call: Call) -> Reply:
    """List the checkpoints of a run, newest first."""
    return call.answer()


@command("workflow resume", "resume")
def resume_run(call: Call) -> Reply:
    """Run `alma workflow resume` and print the state."""
    checkpoint = call.run_typed().checkpoint
    if checkpoint is None:
        place = render.format_value(call.read_arguments())
        # Raises an error that lists the existing runs if the run does not exist.
        call.run("list_runs", run_id=call.args.run_id)
        raise NotFoundError(f"no checkpoint to resume from: {place}")
    return Reply({"checkpoint": checkpoint}, print_exact(render.format_json(checkpoint.state)))


@command("workflow fork", "checkpoint", "run_id branch_id --from_branch=main --agent", "checkpoint")
def fork_run(call: Call) -> Reply:
    """Create a branch of a run from the newest checkpoint of another branch."""
    arguments = call.read_arguments()
    run, branch, origin = (arguments[name] for name in ("run_id", "branch_id", "from_branch"))
    if call.run("resume", run_id=run, branch_id=branch).checkpoint:
        raise ValidationError(f"run {run!r} already has a branch {branch!r}; choose another name")
    tip = call.run("resume", run_id=run, branch_id=origin).checkpoint
    if tip is None:
        raise NotFoundError(f"run {run!r} has no checkpoint on branch {origin!r}")
    return call.answer(node_id=tip.node_id, state=tip.state)


@command(
    "workflow merge",
    "merge_states checkpoint",
    "run_id? --branches --default --node_id --branch_id:into --agent",
    about={
        "run_id": "the run whose branches to merge; without it, merge files (--state)",
        "branches": "a branch to merge",
        "node_id": "the node of the new checkpoint",
        "branch_id": "the branch of the new checkpoint",
    },
)
@Argument("--state FILE…", "a state file to merge", dest="state_files")
@Argument("--base FILE", "the state that all files started from", dest="base_file")
@Argument("--reducer KEY=HOW…", "how to merge a key", dest="reducer_pairs")
def merge(call: Call) -> Reply:
    """Merge branches of a run into a new checkpoint, or merge state files and print the result.

    Reducers: append, extend, union, sum, max, min, last, first, merge_dict.
    """
    args, is_run = call.args, "run_id" in call.args
    if is_run is (args.state_files is not None):
        raise ValidationError("workflow merge requires a RUN with --branch, or state files (--state FILE); not both")
    reducers = read_pairs(args.reducer_pairs, "KEY=HOW, such as done=union")
    if is_run:
        call.refuse_options("base_file", "can only be used with --state")
        if "branches" not in args or "node_id" not in args:
            raise ValidationError("merging branches requires --branch (once for each branch) and --node")
        merged = call.run_typed(reducers=reducers)
        sources = {"merged": merged.sources}
        return reply_value(call.run_typed("checkpoint", state=merged.state, metadata=sources), "checkpoint")
    call.refuse_options("branches node_id branch_id agent", "can only be used with a RUN")
    states = [read_object(file, "the state") for file in args.state_files]
    base = None if args.base_file is None else read_object(args.base_file, "the state")
    state = call.run_typed(states=states, reducers=reducers, base=base).state
    return Reply({"state": state}, print_exact(render.format_json(state)))


@command("workflow cleanup", "cleanup_checkpoints")
@YES
def clean_up_checkpoints(call: Call) -> Reply:
    """Run `alma workflow cleanup` after confirmation."""
    keep = call.read_arguments().get("keep_latest", 10)
    newest = "newest checkpoint" if keep == 1 else f"{keep} newest checkpoints"
    call.confirm(f"Delete all but the {newest} of each branch?")
    return call.answer()


# -- the graph


@command(
    "graph suggest",
    "graph_stats",
    "--suggestions:limit=20",
    "suggestions",
    about={"suggestions": "maximum number of pairs"},
)
def suggest_merges(call: Call) -> Reply:
    """List pairs of entities that may be the same, most likely first."""
    if not 1 <= (limit := call.read_arguments()["suggestions"]) <= 10_000:
        raise ValidationError(f"--limit must be a whole number from 1 to 10,000, not {limit}")
    return call.answer()


@command("graph find", "find_entities", "name? --*", "entities")
def find_entities(call: Call) -> Reply:
    """Run `alma graph find`."""
    entities = call.run_typed()
    if not entities and "type" in call.args:
        which = "name and type" if "name" in call.args else "type"
        return Reply({"count": 0, "entities": []}, render.EMPTY["entities"].replace("ies found", f"y of that {which}"))
    if not entities and "name" in call.args:
        return Reply({"count": 0, "entities": []}, render.EMPTY["entities"].replace("ies found", "y of that name"))
    return reply_value(entities, "entities")


# -- domains


@command("domains create", "create_domain", "* !entity_types !relationship_types --replace_existing:replace")
@Argument("--from FILE", "read the schema from a YAML or JSON file; options override it", dest="source")
@Argument("--entity NAME[:ATTR,…]…", "an entity type and its attributes")
@Argument("--relationship NAME:SOURCE:TARGET", "a relationship type between two entity types", action="append")
def create_domain(call: Call) -> Reply:
    """Run `alma domains create` with parts from options and a file."""
    args, parts = call.args, {}
    if args.source is not None:
        what = "the parts of a schema, such as entity_types and learning_categories"
        parts = read_object(args.source, what, is_yaml=True)
        if (name := parts.get("name", args.name)) != args.name:
            raise ValidationError(f"{args.source} describes the schema {name!r}, not {args.name!r}")
    parts |= call.read_arguments()
    if args.entity is not None:
        parts["entity_types"] = [
            {"name": name, "attributes": [one.strip() for one in attributes.split(",") if one.strip()]}
            for name, _, attributes in (one.partition(":") for one in args.entity)
        ]
    if args.relationship is not None:
        ends = ("name", "source_type", "target_type")
        if any(one.count(":") != 2 for one in args.relationship):
            raise ValidationError("--relationship must be NAME:SOURCE:TARGET, such as shows:visit:house")
        parts["relationship_types"] = [dict(zip(ends, one.split(":"), strict=True)) for one in args.relationship]
    schema = call.run("create_domain", **parts)
    is_followed = any(one.in_use and one.name == schema.name for one in call.run("list_domains"))
    what = (
        "this project still uses the previous version; to use this one" if is_followed else "to use it in this project"
    )
    return Reply({"domain": schema}, schema, f"\n{what}: alma domains use {shlex.quote(schema.name)}")


@command("domains show", "list_domains", "name", about={"name": "the schema's name"})
def show_domain(call: Call) -> Reply:
    """Show one domain schema."""
    return reply_value(call.run_typed()[0].schema, "domain")


@command("domains delete", "delete_domain")
@YES
def delete_domain(call: Call) -> Reply:
    """Run `alma domains delete` after confirmation."""
    call.confirm("Delete this schema?", call.run("list_domains", name=call.args.name))
    name = call.run_typed().name
    return Reply({"deleted": name}, f"deleted {name}")


@command("domains use", "use_domain")
def use_domain(call: Call) -> Reply:
    """Run `alma domains use` and show what may be learned."""
    schema, project = call.run_typed(), call.alma.project_id
    gates = ", ".join(schema.learning_categories) or "everything"
    text = f"project {project!r} now uses {schema.name!r}; it may learn: {gates}"
    return Reply({"project_id": project, "domain": schema}, text)


# -- rules in files


@command("rules export", "export_rules", "--*")
def export_rules(call: Call) -> Reply:
    """Run `alma rules export` and show the report."""
    report, is_check = call.run_typed(), "check" in call.args
    state = f"{report.path} is {'not ' if report.changed else ''}up to date"
    size = f"{count(report.items, 'item')}, {report.size} of {report.limit}"
    text = f"{f'wrote {report.path}' if report.written else state}: {size}"
    is_empty = not (report.written or report.items or report.changed)
    return Reply(
        report,
        (lambda out: render.show_diff(out, report.diff)) if is_check and report.diff else "",
        "no rules to export" if is_empty else text,
        {"manual edits that were not imported": report.hand_edits},
        f"to import them: alma rules import {report.path}" if report.hand_edits else "",
        {"left out": report.left_out},
        code=1 if is_check and (report.changed or report.hand_edits) else 0,
    )


@command("rules import", "import_rules", "path? --* --all_items:all")
@YES
def import_rules(call: Call) -> Reply:
    """Import manual edits from a file that `alma rules export` wrote: changed, new and removed items."""
    arguments = call.read_arguments()
    report = call.run("import_rules", **arguments | {"dry_run": True})
    shown = _describe_import(report)
    if "dry_run" in arguments:
        text = "Nothing was changed (dry run)."
    else:
        if any(one.done for one in report.changes):
            call.confirm("Import these changes?", *shown)
            shown = shown if call.args.yes else []
        # Also without changes: the common state is recorded for the next import.
        report = call.run("import_rules", **arguments)
        text = f"imported {count(sum(one.done for one in report.changes), 'change')}"
        if any(one.verb == "removed" and not one.done for one in report.changes):
            text += "\nTo archive the rules of removed items, pass --retire; to keep them: alma rules export --force"
        elif report.changes or report.newer:
            text += "\nRun `alma rules export` to update the file."
    is_open = any(one.verb == "conflict" and not one.done for one in report.changes)
    return Reply(report, *shown, text, code=1 if is_open else 0)


def _describe_import(report: Any) -> list[Any]:
    """Return the parts of an import report: what changes, what waits, and what is skipped."""
    waiting = sum(one.waits for one in report.changes)
    is_open = any(one.verb == "conflict" and not one.done for one in report.changes)
    return [
        (lambda out: render.show_diff(out, report.diff)) if report.changes else f"no changes in {report.path}",
        {"newer in the memory": report.newer or "", "superseded": report.replaced},
        {"skipped, not list items": report.ignored},
        f"waiting for your review: {waiting}; run `alma rules list --status candidate`" if waiting else "",
        "changed on both sides: choose with --prefer file or --prefer memory" if is_open else "",
    ]


# -- one operation each

_ITEM = "item_id --agent:by"
_EDIT = "--title --description --item_type --priority --owner --parent_id --tests --estimate_minutes --tags --metadata"
_ON = Argument("--on ID…", "id of an item that must be done first", dest="blocked_by", required=True)
_FROM = Argument("--from ID…", "id of an item it no longer waits for", dest="unblocked_by", required=True)
_STATED = "--* --source=user_stated"
_ESTIMATE = {"estimate_minutes": "estimate, in minutes"}
_ARTIFACT = {
    "node_id": "the node that created it",
    "digest": "its SHA-256; computed if PATH is a file",
    "size": "its size in bytes; measured if PATH is a file",
}
_START = """Start a session.

Prints the last handoff, progress, recent outcomes, strategies for the goal, the state of the code and suggested first
steps. Pass the session's id to `alma session note` and `alma session end`."""
_AROUND = "List what can be reached from an entity, nearest first."
_REACHED = {"depth": "maximum number of steps (default: 2)", "direction": "follow relations from it, to it, or both"}
_PATH = "Show how two entities are related, shortest path first."
_JOINED = {"to": "the other entity: a name, an alias or an id", "depth": "maximum number of steps (default: 4)"}
_DOMAINS = "List domain schemas, both presets and your own."


def change_item(word: str, verb: str, help: str, takes: str = "", *extras: Argument) -> Command:
    """Return a command for one part of `update_progress`."""
    taken = f"{_ITEM} {takes}"
    return Command(f"work {word}", "update_progress", taken, "item", verb, extras=extras, help=help, about=_ESTIMATE)


COMMANDS += [
    Command("add knowledge", "add_knowledge", _STATED, "memory", "added"),
    Command("add heuristic", "add_heuristic", _STATED, "memory", "added"),
    Command("add rule", "add_rule", _STATED, "memory", "added"),
    Command("add anti-pattern", "add_anti_pattern", _STATED, "memory", "added"),
    Command("add preference", "add_preference", "--* --source=explicit_instruction", "memory", "added"),
    Command("session start", "start_session", "--*", help=_START),
    Command("session reload", "quick_reload", "--*"),
    Command("work add", "create_work_item", "*", "item", "added", about=_ESTIMATE),
    change_item("edit", "changed", "Edit a work item. Only the options you pass change.", _EDIT),
    change_item("block", "blocked", "Make a work item wait for another. Cycles are refused.", "", _ON),
    change_item("unblock", "unblocked", "Remove a work item's dependency on another.", "", _FROM),
    change_item("restore", "restored", "Restore an archived work item.", "!archived=false"),
    Command("work claim", "claim_work_item", "*", "item", "claimed"),
    Command("work release", "release_work_item", "*", "item", "released"),
    Command("search", "search", "query:words --*", "matches"),
    Command("explain", "explain"),
    Command("rules list", "list", "* !memory_type=rule", "rules", help="List rules, newest first."),
    Command("graph build", "build_graph"),
    Command("graph about", "about_entity"),
    Command("graph around", "traverse_graph", "* !to", help=_AROUND, about=_REACHED),
    Command("graph path", "traverse_graph", "name to --* !direction --limit=10", "paths", help=_PATH, about=_JOINED),
    Command("graph merge", "merge_entities", "keep others --*", "entity"),
    Command("graph stats", "graph_stats", "!suggestions", help="Count entities and relations by type."),
    Command("domains list", "list_domains", "!name", "domains", help=_DOMAINS),
    Command("workflow link", "link_artifact", "run_id location --*", "artifact", about=_ARTIFACT),
    Command("workflow artifacts", "get_artifacts", "*", "artifacts"),
    Command("confidence assess", "assess_confidence"),
    Command("confidence rank", "rank_strategies"),
    Command("confidence calibration", "calibration"),
    Command("stats", "stats"),
    Command("usage", "usage", matching=False),
]
