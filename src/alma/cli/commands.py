"""Commands on memories: first those that do more than call one operation, then a table of the others.

`work.py` has the commands on work items, sessions, workflows, the graph and domains.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..config import load_yaml
from ..errors import ConfigError, NotFoundError, ScopeError, ValidationError
from ..knowledge import plan_ingest
from ..schema import type_of
from ..upkeep import count_results, find_lessons, read_background
from . import render
from .derive import COMMANDS, REVIEW, YES, Argument, Call, Command, Reply, command, parse_json, reply_value
from .render import Progress, count, count_memories, print_exact

_SIGNALS = {"up": "thumbs_up", "down": "thumbs_down", "used": "used", "ignored": "ignored"}
_TAGS = Argument("--tag TAG…", "add this tag", dest="tags")
_AGENT = Argument("--agent AGENT", "default agent for lines without one")
PROMPT = Argument("--prompt", "print only the text for a prompt")
_READ = {name: (name[:-1],) for name in ("conversations", "documents", "messages", "sections")}
_STORED = {
    "episodes": ("conversation or document", "conversations and documents"), "rules": ("rule",),
    "domain_knowledge": ("fact",), "user_preferences": ("user preference",), "heuristics": ("heuristic",),
    "anti_patterns": ("anti-pattern",), "outcomes": ("outcome",), "work_items": ("work item",),
}  # fmt: skip
_IMPORT_ID = "imp_"
_COUNTED = {
    "waiting": "to review", "known": "already stored", "unchanged": "unchanged", "skipped": "skipped",
    "damaged": "damaged",
}  # fmt: skip
"""The counts of an import: what was read, what was stored, and the others."""
_REFUSED = (ValidationError, ScopeError, NotFoundError)
_TYPES = {"domain-knowledge": ("fact",), "user-preference": ("user preference",), "work-item": ("work item",)}
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
    return parse_objects(source, read_text(source), what, gaps, empty_ok=empty_ok)


def parse_objects(
    source: str, text: str, what: str, gaps: Mapping[str, Any] | None = None, *, empty_ok: bool = False
) -> list[Line]:
    """Do as `read_objects`, for the text of a file."""
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
@PROMPT
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
    is_filtered = call.read_arguments().keys() & {"memory_type", "agent", "user_id", "status", "tag", "fields"}
    return reply_value(call.run_typed(), "memories", empty="No memories match." if is_filtered else "")


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
        return erase(call)
    memory = call.run_typed("get")
    turns = [turn.id for turn in getattr(memory, "turns", ())]
    parts = f", with its {count(len(turns), 'turn')}" if turns else ""
    call.confirm(f"Delete it permanently{parts}?", memory)
    call.run("delete", memory_id=memory.id)
    gone = {"turns": turns} if hasattr(memory, "turns") else {}
    return Reply({"deleted": memory.id, **gone}, f"deleted {memory.id}{parts}")


@command("erase", "erase_user", "--*")
@YES
def erase(call: Call) -> Reply:
    """Delete everything of a user permanently, and prove that no byte of it is left. If something is, exit with 1."""
    user = call.args.user_id
    call.confirm(f"Delete everything of the user {user!r} in {call.alma.project_id} permanently?")
    erased = call.run_typed("erase_user")
    proof = erased.proof
    done = f"deleted everything of user {user!r}" if erased.counts else f"nothing is stored for user {user!r}"
    checked = f"looked at all records{''.join(f', {file}' for file in proof.files)}: "
    checked += f"left are {', '.join(proof.left)}" if proof.left else "nothing is left"
    return Reply(
        erased, done, erased.counts, checked, f"not checked: {', '.join(proof.unchecked)}", code=int(bool(proof.left))
    )


@command("archive", "forget")
@YES
def archive(call: Call) -> Reply:
    """Run `alma archive`, after listing what would be archived."""
    report = call.run_typed(dry_run=True)
    memories = [call.run("get", memory_id=id) for id in report.ids]
    if not memories or "dry_run" in call.args:
        done = f"would archive {count_memories(report.count)}" if memories else "nothing to archive"
        return Reply(report, memories, done)
    call.confirm(f"Archive {count_memories(report.count)}?", memories)
    report = call.run_typed()
    return Reply(report, f"archived {count_memories(report.count)}")


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


@command("ingest", "ingest", "path? * !own --branches:branches", requires=False)
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
@Argument("--undo ID", "take back the import with this id")
def ingest(call: Call) -> Reply:
    """Run `alma ingest`, list the files with --plan, or take an import back with --undo."""
    args = call.args
    if args.undo:
        return _undo_import(call)
    if getattr(args, "path", None) is None:
        call.fail_usage("requires a path, or --undo ID")
    if args.plan:
        names = vars(args).keys() & {"only", "own", "max_file_bytes"}
        return Reply(plan_ingest(args.path, **{name: getattr(args, name) for name in names}))
    report = call.run_typed()
    in_summary = ("counts", "dry_run", "redacted")
    rest = {name: value for name, value in render.list_fields(report).items() if name not in in_summary}
    if not any(report.counts.values()):
        return Reply(report, f"nothing to import in {args.path}", rest, code=1)
    stored_before, hint = report.counts.get("known", 0), ""
    if report.counts.get("waiting") and not report.dry_run:
        hint = f"content that is not your own waits for your review: {REVIEW}"
    elif args.own and stored_before:
        hint = f"{stored_before} already stored and unchanged. To review what waits: {REVIEW}"
    rest.pop("id", None)
    undo = f"to take this import back: alma ingest --undo {report.id}" if report.id else ""
    return Reply(report, _describe_counts(report), rest, hint, undo)


def _undo_import(call: Call) -> Reply:
    """Reply with what was taken back of an import, and what was left."""
    call.refuse_options("plan", "cannot be used with --undo")
    if getattr(call.args, "path", None) is not None:
        raise ValidationError("a path cannot be used with --undo, which takes the id of an import alone")
    if not call.args.undo.startswith(_IMPORT_ID):
        raise ValidationError(f"--undo must be the id of an import, which `alma ingest` prints, not {call.args.undo!r}")
    return Reply(call.run("revert", change=call.args.undo, dry_run=bool(getattr(call.args, "dry_run", False))))


def _describe_counts(report: Any) -> str:
    """Return what an import read and stored, as a sentence."""
    counts, verb = report.counts, "would store" if report.dry_run else "stored"

    def list_counts(nouns: Mapping[str, tuple[str, ...]]) -> str:
        return ", ".join(count(counts[key], *forms) for key, forms in nouns.items() if counts.get(key))

    unchanged = f" ({counts['files unchanged']} unchanged)" if counts.get("files unchanged") else ""
    parts = [f"read {count(counts.get('files', 0), 'file')}{unchanged}", list_counts(_READ)]
    parts = [": ".join(filter(None, parts)), f"{verb} {list_counts(_STORED) or 'nothing new'}"]
    parts += [f"{counts[key]} {words}" for key, words in _COUNTED.items() if counts.get(key)]
    if report.redacted:
        kinds = ", ".join(f"{number} {kind.replace('_', ' ')}" for kind, number in sorted(report.redacted.items()))
        parts.append(f"{count(sum(report.redacted.values()), 'secret')} removed ({kinds})")
    return "; ".join(parts)


_MEMORY_LISTS = (
    "domain_knowledge", "user_preferences", "anti_patterns", "heuristics", "outcomes", "rules", "work_items"
)  # fmt: skip


@command("learn-from", "learn_from learn_from_text", "--* !messages !text --source=user")
@Argument("FILE", "messages with role and content, as a JSON list or JSON Lines, or your words ('-': standard input)")
@Argument("--text", "FILE is a document, such as notes or minutes")
def learn_from(call: Call) -> Reply:
    """Run `alma learn-from` on messages or plain words, or on a document with --text."""
    args = call.args
    if args.text:
        call.refuse_options("session_id save_episode", "can only be used with a conversation, not with --text")
        name = getattr(args, "name", "standard input" if args.file == "-" else Path(args.file).name)
        return _reply_learned(call.run_typed("learn_from_text", text=read_text(args.file), name=name))
    call.refuse_options("name", "can only be used with --text; use --session to name a conversation")
    try:
        text = read_text(args.file)
    except ValidationError as error:
        raise ValidationError(f"{error}; to pass words, pipe them into `alma learn-from -`") from error
    return _reply_learned(call.run_typed(messages=_parse_messages(args.file, text)))


def _parse_messages(source: str, text: str) -> str | list[dict[str, Any]]:
    """Return the messages in a JSON list or JSON Lines, or a plain text as it is."""
    if text.lstrip()[:1] not in ("[", "{"):
        if not text.strip():
            raise ValidationError(f"{source} is empty; nothing was recorded")
        return text
    try:
        return [message for _, message in parse_objects(source, text, "role and content")]
    except ValidationError as error:
        raise ValidationError(f"{error}; for a document, pass --text") from error


def _reply_learned(report: Any) -> Reply:
    """Reply with what was learned: first a sentence, then the findings."""
    types = {re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower(): number for name, number in report.kept.items()}
    stored = ", ".join(count(number, *_TYPES.get(name, (name,))) for name, number in types.items())
    verb = "would store" if report.dry_run else "stored"
    text = f"found {count_memories(report.extracted_count)}; {verb} {stored or 'nothing new'}"
    text += f"; {report.known} already stored" if report.known else ""
    hidden = ("extracted_count", "new", "known", "kept", "by_kind", "dry_run", *_MEMORY_LISTS)
    return Reply(report, text, {name: one for name, one in render.list_fields(report).items() if name not in hidden})


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
    report = call.run_typed(dry_run=True)
    shown = _describe_import(report)
    if "dry_run" in call.args:
        text = "Nothing was changed (dry run)."
    else:
        if any(one.done for one in report.changes):
            call.confirm("Import these changes?", *shown)
            shown = shown if call.args.yes else []
        # Also without changes: the common state is recorded for the next import.
        report = call.run_typed()
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

_STATED = "--* --source=user_stated"

COMMANDS += [
    Command("add knowledge", "add_knowledge", _STATED, "memory", "added"),
    Command("add heuristic", "add_heuristic", _STATED, "memory", "added"),
    Command("add rule", "add_rule", _STATED, "memory", "added"),
    Command("add anti-pattern", "add_anti_pattern", _STATED, "memory", "added"),
    Command("add preference", "add_preference", "--* --source=explicit_instruction", "memory", "added"),
    Command("search", "search", "query:words --*", "matches"),
    Command("browse", "browse", "--*"),
    Command("browse memory", "inspect"),
    Command("browse sessions", "browse_sessions", "--*"),
    Command("browse observations", "browse_observations", "--*"),
    Command("browse session", "show_session"),
    Command("browse changes", "list_changes", "--*"),
    Command("browse configuration", "configuration", matching=False),
    Command("browse inbox", "inbox", "--*"),
    Command("browse overview", "overview", "--*"),
    Command("browse review", "review", "action --*"),
    Command("consolidate merge", "merge", "--*"),
    Command("explain", "explain"),
    Command("browse why", "explain_task"),
    Command("history", "history", "*", "history"),
    Command("blame", "blame", "*", "authors"),
    Command("diff", "diff", "--*", "differences"),
    Command("undo", "undo", "memory_id? --*"),
    Command("revert", "revert"),
    Command("bisect", "bisect"),
    Command("promote", "promote", "memory_id --*", "memory", "promoted"),
    Command("consolidate", "consolidate"),
    Command("upkeep", "upkeep"),
    *(Command(words, "conflicts", key="conflicts") for words in ("conflicts", "conflicts list")),
    Command("conflicts resolve", "resolve_conflict", "*", "memories"),
    Command("rules list", "list", "* !memory_type=rule", "rules", help="List rules, newest first."),
    Command("confidence assess", "assess_confidence"),
    Command("confidence rank", "rank_strategies"),
    Command("confidence calibration", "calibration"),
    Command("stats", "stats"),
    Command("usage", "usage", matching=False),
    Command("webhooks", "list_deliveries", key="deliveries", matching=False),
    Command(
        "webhooks deliver", "deliver_events", matching=False, has_failed=lambda one: one["failed"] + one["dead"] > 0
    ),
    Command("webhooks retry", "retry_deliveries", "delivery_id?", "deliveries", matching=False),
    Command(
        "webhooks test",
        "test_webhooks",
        key="webhooks",
        matching=False,
        has_failed=lambda tests: any(one.state == "refused" for one in tests),
    ),
]
