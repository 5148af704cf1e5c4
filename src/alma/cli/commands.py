"""Commands on a memory: first those that are more than one operation, at the end a table of the others."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..config import load_yaml
from ..errors import ConfigError, NotFoundError, ScopeError, ValidationError, unknown
from ..knowledge import plan_ingest
from ..schema import type_of
from ..upkeep import count_results, find_lessons, read_background
from . import render
from .derive import COMMANDS, REVIEW, YES, Argument, Call, Command, Reply, command, parse_json, reply_value
from .render import Progress, count, count_memories, print_exact

_SIGNALS = {"up": "thumbs_up", "down": "thumbs_down", "used": "used", "ignored": "ignored"}
_TAGS = Argument("--tag TAG…", "a tag", dest="tags")
_AGENT = Argument("--agent AGENT", "whose it is, where a line does not say it")
_TEST = Argument("--test NAME=pass|fail…", "how a test went", dest="tests")
_PROMPT = Argument("--prompt", "print exactly the text for a prompt")
_ITEM_ID = {"item_id": "the work item's id"}
_NOTED = {
    "session_id": "the session's id; without it the agent's only open session",
    "decisions": "a decision that was made",
    "key_decisions": "a decision that was made",
    "active_files": "a file that is being worked on",
    "blockers": "what stops the work",
    "risk_flags": "what may go wrong",
}
_REFUSED = (ValidationError, ScopeError, NotFoundError)
_ENDS = ("completed", "failed", "cancelled")
_BATCH = 100

Line = tuple[str, dict[str, Any]]
"""An object of a file, and its place such as `chat.jsonl, line 3`."""


# -- files that people hand over


def read_text(source: str) -> str:
    """Read a file, or standard input for '-'."""
    try:
        return sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ValidationError(f"{source} cannot be read: {getattr(error, 'strerror', error)}") from error


def check_object(place: str, value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValidationError(f"{place} must be an object with {what}; nothing was recorded")
    return value


def read_objects(
    source: str, what: str, gaps: Mapping[str, Any] | None = None, *, empty_ok: bool = False
) -> list[Line]:
    """Read the objects of a JSON list or of JSON Lines; `gaps` are filled where an object does not say it."""
    text = read_text(source)
    if text.lstrip().startswith("["):
        values = [(f"{source}, item {number}", value) for number, value in enumerate(parse_json(source, text), 1)]
    else:
        # Not splitlines: JSON may hold the other line separators of Unicode as they are.
        lines = [(f"{source}, line {number}", line) for number, line in enumerate(text.split("\n"), 1)]
        values = [(place, parse_json(place, line)) for place, line in lines if line.strip()]
    if not values and not empty_ok:
        raise ValidationError(f"{source} holds nothing; nothing was recorded")
    return [(place, {**(gaps or {}), **check_object(place, value, what)}) for place, value in values]


def send_lines(lines: Sequence[Line], send: Callable[[list[dict[str, Any]]], list[Any]], report: Progress) -> list[Any]:
    """Send all of them, batch by batch. Each batch is kept whole or not at all; a refused line is named."""
    answers: list[Any] = []
    for start in range(0, len(lines), _BATCH):
        batch = lines[start : start + _BATCH]
        try:
            answers += send([given for _, given in batch])
        except _REFUSED:
            # Nothing of the batch was written. One by one it becomes clear which line it is.
            for place, given in batch:
                try:
                    answers += send([given])
                except _REFUSED as error:
                    kept = f"; the {len(answers)} before it were recorded, so go on from this line" if answers else ""
                    raise type(error)(f"{place}: {error}{kept}") from error
        report(len(answers), len(lines))
    return answers


def read_object(source: str, what: str, *, is_yaml: bool = False) -> dict[str, Any]:
    """Read an object from a file of JSON, or of YAML unless its name says JSON."""
    text = read_text(source)
    if not is_yaml or source.endswith(".json"):
        return check_object(source, parse_json(source, text), what)
    try:
        return check_object(source, load_yaml(text.encode()), what)
    except ConfigError as error:
        raise ValidationError(f"{source} is {' '.join(str(error).split())}") from error


def read_pairs(texts: Iterable[str] | None, form: str, *, split_first: bool = False) -> dict[str, str]:
    """Read `KEY=VALUE` texts, split at the last `=` or at the first; `form` says what they look like."""
    pairs = [text.partition("=") if split_first else text.rpartition("=") for text in texts or ()]
    for key, equals, value in pairs:
        if not key or not equals:
            raise ValidationError(f"{key + value!r} is not {form}")
    return {key: value for key, _, value in pairs}


# -- the loop


@command("learn", "learn", "--*", requires=False)
@Argument("--from FILE", "JSON Lines of outcomes ('-': standard input); options fill gaps", dest="source")
def learn(call: Call) -> Reply:
    since, source = datetime.now(UTC), call.args.source
    given = call.read_arguments()
    if source is not None:
        call.refuse_options("idempotency_key", "names one outcome; with --from, give each line its own")
        lines = read_objects(source, "the arguments of learn", given, empty_ok=True)
        outcomes = send_lines(lines, lambda batch: call.run("learn_many", outcomes=batch), call.out.progress)
        lessons = find_lessons(call.alma, outcomes, since)
        document = {"recorded": len(outcomes), "ids": [one.id for one in outcomes], "learned": lessons}
        return Reply(document, f"recorded {count(len(outcomes), 'outcome')}", lessons or "no lesson changed")
    outcome = call.run("learn", **given)
    lessons, tally = find_lessons(call.alma, [outcome], since), count_results(call.alma, outcome)
    forms = f"; a heuristic forms at {tally.needed} outcomes that mostly work" if tally.results < tally.needed else ""
    state = f"this strategy: {tally.successes} of {tally.results} worked{forms}"
    document = {"outcome": outcome, "learned": lessons, "strategy": tally}
    return Reply(document, f"recorded {outcome.id}", lessons or state)


@command("workflow learn", "workflow_learn")
def learn_run(call: Call) -> Reply:
    since, outcomes = datetime.now(UTC), call.run_typed()
    lessons = find_lessons(call.alma, outcomes, since)
    return Reply({"outcomes": outcomes, "learned": lessons}, "recorded", outcomes, lessons)


@command(
    "retrieve", "retrieve retrieve_scoped", about={"progressive": "print summaries; `alma show ID` prints the whole"}
)
@_PROMPT
@Argument("--explain", "show what each memory scored, by factor")
def retrieve(call: Call) -> Reply:
    if "scope" in call.args:
        # A scope is a fence of tags; what it cannot also hold to must not seem to hold.
        filters = "tags task_type since until as_of level progressive"
        call.refuse_options(filters, "cannot be used with --scope")
        found = call.run_typed("retrieve_scoped")
    else:
        fences = "workflow_id run_id node_id tenant_id"
        call.refuse_options(fences, "can only be used with --scope: node, run, workflow, agent, tenant, global")
        found = call.run_typed()
    if call.args.prompt:
        return Reply(found, print_exact(found.prompt))
    return Reply(found, found, *(found.explanations if call.args.explain else ()))


@command("feedback")
@Argument("ID", "the memory", nargs="?")
@Argument("SIGNAL", "up, down, used or ignored", nargs="?", choices=tuple(_SIGNALS))
@Argument("--shown ID", "instead: all memories that were shown", nargs="+")
@Argument("--used ID…", "one of them that was used", default=[])
def feedback(call: Call) -> Reply:
    """Say what a memory was worth, or which of the memories shown were used. It moves their rank."""
    args = call.args
    if args.shown:
        report = call.run("record_usage", retrieved_memory_ids=args.shown, used_memory_ids=args.used)
        if not report.recorded:
            raise NotFoundError(f"none of these memories is held: {', '.join(report.unknown)}")
        used = sum(id.startswith(tuple(args.used)) for id in report.recorded)
        return Reply(report, f"{count_memories(used)} used, {len(report.recorded) - used} passed over")
    if args.signal is None:
        call.fail_usage("needs ID and SIGNAL, or --shown")
    signal, before = _SIGNALS[args.signal], call.run("get", memory_id=args.id)
    call.run("record_feedback", memory_id=before.id, signal=signal)
    memory = call.run("get", memory_id=before.id)
    text = f"{signal} counted; confidence {before.confidence:.2f} → {memory.confidence:.2f}"
    return Reply({"memory": memory, "signal": signal, "confidence_before": before.confidence}, text)


# -- memories


@command("show", "get")
def show(call: Call) -> Reply:
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
    card = {"type": type_of(memory), **render.list_fields(memory), "confidence": render.draw_belief(memory)}
    return Reply(document, {**card, "conversation": turns}, {**document, "memory": "", "related": related})


@command("update", "update", "* !fields --source=user", "memory", "updated")
@Argument("pairs FIELD=VALUE", "a field with its new value", nargs="*")
def update(call: Call) -> Reply:
    changed: dict[str, Any] = {**read_pairs(call.args.pairs, "FIELD=VALUE, such as fact='New text'", split_first=True)}
    if "metadata" in changed:
        changed["metadata"] = parse_json("metadata", changed["metadata"])
    return call.answer(fields=changed)


@command("delete", "delete erase_user", "memory_id? --*")
@YES
def delete(call: Call) -> Reply:
    """Erase a memory for good. It will not be learned again by itself. A conversation goes with all its turns."""
    user = getattr(call.args, "user_id", None)
    if ("memory_id" in call.args) is (user is not None):
        call.fail_usage("takes ID or --user, not both" if user else "needs ID, or --user for everything of a user")
    if user is not None:
        call.confirm(f"Erase everything of the user {user!r} in {call.alma.project_id} for good?")
        erased = call.run_typed("erase_user")
        return Reply(erased, f"erased everything of {user}", erased.counts or "there was nothing")
    memory = call.run_typed("get")
    turns = [turn.id for turn in getattr(memory, "turns", ())]
    parts = f", with its {count(len(turns), 'turn')}" if turns else ""
    call.confirm(f"Erase it for good{parts}?", memory)
    call.run("delete", memory_id=memory.id)
    gone = {"turns": turns} if hasattr(memory, "turns") else {}
    return Reply({"deleted": memory.id, **gone}, f"erased {memory.id}{parts}")


@command("archive", "forget")
@YES
def archive(call: Call) -> Reply:
    given = call.read_arguments()
    report = call.run("forget", **given | {"dry_run": True})
    memories = [call.run("get", memory_id=id) for id in report.ids]
    if not memories or given.get("dry_run"):
        return Reply(report, memories, f"to be archived: {report.count}")
    call.confirm(f"Archive {count_memories(report.count)}?", memories)
    report = call.run("forget", **given)
    return Reply(report, f"archived: {report.count}")


# -- files of memories


@command("add episode", "add_episode", "--* !turns")
@Argument("FILE", "its turns, each with speaker and text: a JSON list or JSON Lines ('-': standard input)")
def add_episode(call: Call) -> Reply:
    lines = read_objects(call.args.file, "a speaker and a text")
    try:
        episode = call.run_typed(turns=[turn for _, turn in lines])
    except ValidationError as error:
        # `turns[2] text is …` becomes the line of that turn.
        place = re.compile(r"turns\[(\d+)\](, a turn,)?")
        raise ValidationError(place.sub(lambda turn: f"{lines[int(turn[1])][0]}:", str(error))) from error
    retired = "was deleted before and stays away; nothing was recorded"
    kept = f"is kept, now of {count(episode.turn_count, 'turn')}"
    return Reply({"memory": episode}, f"{episode.id} {retired if episode.status == 'retired' else kept}")


@command("add many")
@Argument("FILE", "JSON Lines, each with its type and what it says")
@_AGENT
@_TAGS
def add_many(call: Call) -> Reply:
    """Add memories of any types from a file. Added again they change nothing.

    Each line is an object with its type (domain_knowledge, user_preference, heuristic, anti_pattern or rule) and the
    options of `alma add` for it, such as domain and fact.
    """
    return _send_added(call, "add_many", "memories", "a type and what is to be added")


@command("add episodes")
@Argument("FILE", "JSON Lines, each with session_id and turns")
@_AGENT
@_TAGS
def add_episodes(call: Call) -> Reply:
    """Keep conversations from a file, or what is new of them."""
    return _send_added(call, "add_episodes", "conversations", "a session_id and turns")


def _send_added(call: Call, operation: str, parameter: str, what: str) -> Reply:
    args, agent = call.args, call.find_agent()
    lines = read_objects(args.file, what, {"tags": args.tags} if args.tags else {})
    for _, given in lines:
        # What a user wants is nobody's in particular.
        if agent and given.get("type") != "user_preference":
            given.setdefault("agent", agent)
    memories = send_lines(lines, lambda batch: call.run(operation, **{parameter: batch}), call.out.progress)
    document = {"count": len(memories), "ids": [one.id for one in memories]}
    return Reply(document, {f"kept {len(memories)} {parameter}": memories})


@command("ingest", "ingest", "* !own --branches:branches", requires=False)
@Argument("--own", "these are the person's own words (default: chats are)", group="either", default=None)
@Argument("--not-own", "they are others': they wait", group="either", dest="own", action="store_false", default=None)
@Argument("--plan", "only say which files would be read, and as what")
def ingest(call: Call) -> Reply:
    args = call.args
    if args.plan:
        names = vars(args).keys() & {"only", "own", "max_file_bytes"}
        return Reply(plan_ingest(args.path, **{name: getattr(args, name) for name in names}))
    report = call.run_typed()
    if not any(report.counts.values()):
        return Reply(report, f"there is nothing to read in {args.path}", report, code=1)
    known, hint = report.counts.get("known", 0), ""
    if report.counts.get("waiting") and not report.dry_run:
        hint = "what is waiting are words of others: alma list --status candidate"
    elif args.own and known:
        hint = f"{known} known already, and left as they were. What waits for your review: {REVIEW}"
    return Reply(report, report, hint)


@command("learn-from", "learn_from_conversation learn_from_text", "--* !messages !text --source=user")
@Argument("FILE", "messages with role and content: a JSON list or JSON Lines ('-': standard input)")
@Argument("--text", "FILE is a note or a page, not a conversation")
def learn_from(call: Call) -> Reply:
    args = call.args
    if args.text:
        call.refuse_options("session_id save_episode", "can only be used with a conversation, not with --text")
        name = getattr(args, "name", "standard input" if args.file == "-" else Path(args.file).name)
        return call.answer("learn_from_text", text=read_text(args.file), name=name)
    call.refuse_options("name", "can only be used with --text; a conversation is named by --session")
    try:
        messages = [message for _, message in read_objects(args.file, "role and content")]
    except ValidationError as error:
        is_there = args.file == "-" or Path(args.file).is_file()
        hint = "a note or a page needs --text" if is_there else "pipe a text into `alma learn-from - --text`"
        raise ValidationError(f"{error}; {hint}") from error
    return call.answer(messages=messages)


# -- work


@command("work show", "list_work_items", "item_id", about=_ITEM_ID)
def show_item(call: Call) -> Reply:
    """Show one work item with its parts and its history."""
    [item] = call.run_typed()
    parts = call.run("list_work_items", parent_id=item.id, archived=True, limit=200)
    below = {"parts": parts, "history": call.run("history", memory_id=item.id)}
    return Reply({"item": item, **below}, item, lambda out: out.show_card(item), below)


@command("work search", "list_work_items", "query:words --limit=10 --project_id", "items")
def search_items(call: Call) -> Reply:
    """Find work items by the words of their titles and descriptions."""
    return call.answer()


@command("work history", "list_work_items", "item_id", about=_ITEM_ID)
def show_item_history(call: Call) -> Reply:
    """Show who changed what of a work item, oldest first."""
    item = call.run_typed()[0].id
    history = call.run("history", memory_id=item)
    return Reply({"id": item, "history": history}, history)


@command("work delete", "delete_work_item", "* --agent:by")
@YES
def delete_item(call: Call) -> Reply:
    [item] = call.run("list_work_items", item_id=call.args.item_id)
    call.confirm("Erase it and its history for good?", item)
    call.run_typed()
    return Reply({"deleted": item.id}, f"erased {item.id}")


@command("work test", "update_progress", "item_id --agent:by", "item", "tested")
@Argument("TEST", "the test's name")
@Argument("--pass", "it passed", group="needed", dest="passing")
@Argument("--fail", "it failed", group="needed", dest="passing", action="store_false")
def record_test(call: Call) -> Reply:
    """Record how a test of a work item went. A new name is added to its tests."""
    return call.answer(test_results={call.args.test: call.args.passing})


@command("work next", "get_next_item")
def take_next_item(call: Call) -> Reply:
    """Find what to work on next: nothing that is blocked, being worked on, or another agent's.

    'priority' takes the most urgent, 'blocked_unblock' what frees most, 'quick_win' what is soonest done, 'fifo' the
    oldest. Several agents that work at once should pass --claim.
    """
    given = call.read_arguments()
    if given.get("claim"):
        given["agent"] = call.need_agent()
    found = call.run("get_next_item", **given)
    if found.item is None:
        others = f"; {count(found.waiting, 'item')} open, but blocked, being worked on or another agent's"
        return Reply(found, f"nothing is free to be worked on{others if found.waiting else ''}", code=1)
    who = shlex.quote(given.get("agent") or found.item.agent or "NAME")
    claim = "" if found.item.claimed_by else f"take it: alma work claim {found.item.id} --agent {who}"
    return Reply(found, found.item, found.item.description, claim)


@command("work status", "update_progress", "item_id status --notes --agent:by")
def move_item(call: Call) -> Reply:
    """Move a work item to another status. Done frees what waited for it; a blocked item cannot be done."""
    item = call.run_typed()
    blocked = [call.run("list_work_items", item_id=id)[0] for id in item.blocks] if item.status == "done" else []
    freed = [one for one in blocked if one.status == "pending"]
    return Reply({"item": item, **({"freed": freed} if freed else {})}, item, {"now free": freed})


@command(
    "work archive",
    "update_progress archive_finished",
    "item_id? --agent:by --older_than_days:older-than",
    about={"older_than_days": "with --finished: only those not touched for so many days"},
)
@Argument("--finished", "all that are done")
def archive_items(call: Call) -> Reply:
    """Put an item away, or all that are done: it is neither listed nor counted."""
    if ("item_id" in call.args) is call.args.finished:
        raise ValidationError("archive needs the ID of an item, or --finished for all that are done; not both")
    if call.args.finished:
        report = call.run_typed("archive_finished")
        return Reply(report, f"archived: {report.count}")
    call.refuse_options("older_than_days", "can only be used with --finished")
    return reply_value(call.run_typed(archived=True), "item")


@command(
    "work progress",
    "progress_summary progress_logs",
    about={"session_id": "with --log: only of this session", "limit": "with --log: at most so many"},
)
@Argument("--log", "how far sessions were when they noted it, newest first")
def show_progress(call: Call) -> Reply:
    if not call.args.log:
        call.refuse_options("session_id limit", "can only be used with --log")
        return call.answer()
    return reply_value(call.run_typed("progress_logs"), "logs")


# -- sessions


def _run_in_session(call: Call) -> Any:
    """Run the command's operation in the session that was named, or in the only one that is open."""
    given, form = call.read_arguments(), "NAME=pass or NAME=fail"
    results = read_pairs(call.args.tests, form)
    if not {*results.values()} <= {"pass", "fail"}:
        raise ValidationError(f"{', '.join(call.args.tests)} is not {form}")
    if results:
        given["test_status"] = {test: result == "pass" for test, result in results.items()}
    if not given.keys() - {"agent", "session_id"} and not getattr(call.args, "log", True):
        raise ValidationError("there is nothing to note: pass --action, --decision, --file, --blocker, --next, …")
    if "session_id" not in given:
        agent = given["agent"]
        sessions = call.run("list_sessions", agent=agent, state="open").sessions
        if not sessions:
            start = f"alma session start --agent {shlex.quote(agent)}"
            raise ValidationError(f"{agent} has no open session; `{start}` begins one")
        if len(sessions) > 1:
            known = ", ".join(f"{one.id} ({one.goal or 'no goal'})" for one in sessions)
            raise ValidationError(f"{agent} has {len(sessions)} open sessions; say which: {known}")
        given["session_id"] = sessions[0].id
    return call.run(call.command.operation, **given)


@command("session note", "update_session", "session_id? --* !test_status", about=_NOTED)
@_TEST
@Argument("--log", "also keep how far the work is, for `alma work progress --log`")
def note_session(call: Call) -> Reply:
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
    about={**_NOTED, "next_steps": "what the next session should do"},
)
@_TEST
def end_session(call: Call) -> Reply:
    handoff = _run_in_session(call)
    return reply_value(handoff, "handoff", f"ended {handoff.session_id}; the next session starts with:")


@command("session list", "list_sessions", "--agent --state --limit --project_id")
def list_sessions(call: Call) -> Reply:
    """List an agent's open sessions and how its latest ones ended."""
    found = call.run_typed()
    document = {"open": found.sessions, "previous": found.handoffs}
    state = getattr(call.args, "state", None)
    return Reply(document, document if any(document.values()) else f"no {state} session" if state else "no session yet")


@command("session show", "list_sessions", "session_id:id --agent", about={"session_id": "the session's id"})
def show_session(call: Call) -> Reply:
    """Show one session as it stands."""
    shown = call.run_typed()
    handoffs = [part for one in shown.handoffs for part in ("\nhandoff:", one)]
    return Reply({"session": shown.sessions[0]}, shown.sessions[0], *handoffs)


@command("session prepare", "initialize", "* user_prompt:prompt")
@_PROMPT
def prepare_session(call: Call) -> Reply:
    if call.args.user_prompt == "-":
        call.args.user_prompt = read_text("-")
    plan = call.run_typed()
    return Reply(plan, print_exact(plan.prompt) if call.args.prompt else plan)


@command("session wake-up", "wake_up", "--*")
def wake_up(call: Call) -> Reply:
    if "topic" not in call.args:
        call.refuse_options("deep", "can only be used with --topic")
    return call.answer()


# -- workflows


@command("workflow checkpoint", "checkpoint", "run_id node_id --* !state --from_branch:from-branch", "checkpoint")
@Argument("--state JSON", "the state, a JSON object", group="either", dest="state_text")
@Argument("--from FILE", "the state from a file ('-': standard input)", group="either", dest="source")
def save_checkpoint(call: Call) -> Reply:
    text, source = call.args.state_text, call.args.source
    if text is not None:
        return call.answer(state=check_object("--state", parse_json("--state", text), "the state"))
    needs = "a checkpoint needs a state: --state JSON, --from FILE, or JSON on standard input"
    if source is None and sys.stdin.isatty():
        raise ValidationError(needs)
    place, text = "standard input" if source in (None, "-") else source, read_text(source or "-")
    if not text.strip():
        raise ValidationError(f"{place} is empty; {needs}")
    return call.answer(state=check_object(place, parse_json(place, text), "the state"))


@command("workflow runs", "list_runs", "--workflow_id --status --limit", "runs")
def list_runs(call: Call) -> Reply:
    """List the runs of workflows, newest first."""
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
    """Begin a run of a workflow, or go on with the one of that name."""
    return call.answer(status="running")


@command(
    "workflow history",
    "list_runs",
    "run_id --node_id --branch_id --limit=100",
    "checkpoints",
    about={"run_id": "the run's name", "node_id": "only of this node", "branch_id": "only of this branch"},
)
def list_checkpoints(call: Call) -> Reply:
    """List the checkpoints of a run, newest first."""
    return call.answer()


@command("workflow resume", "resume")
def resume_run(call: Call) -> Reply:
    found = call.run_typed().checkpoint
    if found is None:
        place = render.format_value(call.read_arguments())
        # A run that does not exist is an error that names those there are.
        call.run("list_runs", run_id=call.args.run_id)
        raise NotFoundError(f"there is no checkpoint to go on from: {place}")
    return Reply({"checkpoint": found}, print_exact(render.format_json(found.state)))


@command("workflow fork", "checkpoint", "run_id branch_id --from_branch=main --agent", "checkpoint")
def fork_run(call: Call) -> Reply:
    """Begin a branch of a run at the newest checkpoint of another branch. Its first one holds the same state."""
    given = call.read_arguments()
    run, branch, origin = (given[name] for name in ("run_id", "branch_id", "from_branch"))
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
        "run_id": "the run whose branches are merged; without it, files are (--state)",
        "branches": "a branch to merge",
        "node_id": "the node of the new checkpoint",
        "branch_id": "the branch of the new checkpoint",
    },
)
@Argument("--state FILE…", "a state", dest="state_files")
@Argument("--base FILE", "the state that all the files began at", dest="base_file")
@Argument("--reducer KEY=HOW…", "how a key is merged", dest="reducer_pairs")
def merge(call: Call) -> Reply:
    """Merge branches into a checkpoint, or files of states into a state that is printed.

    Keys are merged by append, extend, union, sum, max, min, last, first or merge_dict.
    """
    args, is_run = call.args, "run_id" in call.args
    if is_run is (args.state_files is not None):
        raise ValidationError("merge needs a RUN with its branches, or files of states (--state FILE); not both")
    reducers = read_pairs(args.reducer_pairs, "KEY=HOW, such as done=union")
    if is_run:
        call.refuse_options("base_file", "can only be used with --state")
        if "branches" not in args or "node_id" not in args:
            raise ValidationError("merging branches needs --branch (once for each) and --node")
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
    call.confirm("Erase all checkpoints but the newest ones of each branch?")
    return call.answer()


# -- the graph


@command(
    "graph suggest", "graph_stats", "--suggestions:limit=20", "suggestions", about={"suggestions": "at most so many"}
)
def suggest_merges(call: Call) -> Reply:
    """List pairs of entities that may be one and the same, surest first."""
    if not 1 <= (limit := call.read_arguments()["suggestions"]) <= 10_000:
        raise ValidationError(f"--limit must be a whole number from 1 to 10,000, not {limit}")
    return call.answer()


@command("graph find", "find_entities", "name? --*", "entities")
def find_entities(call: Call) -> Reply:
    entities = call.run_typed()
    if not entities and "type" in call.args:
        which = "name and type" if "name" in call.args else "type"
        return Reply({"count": 0, "entities": []}, render.EMPTY["entities"].replace("name", which))
    return reply_value(entities, "entities")


# -- domains


@command("domains create", "create_domain", "* !entity_types !relationship_types --replace_existing:replace")
@Argument("--from FILE", "YAML or JSON with the schema's parts; options come first", dest="source")
@Argument("--entity NAME[:ATTR,…]…", "a sort of thing with its attributes")
@Argument("--relationship NAME:SOURCE:TARGET", "how two sorts of things are related", action="append")
def create_domain(call: Call) -> Reply:
    args, parts = call.args, {}
    if args.source is not None:
        what = "a schema's parts, such as entity_types and learning_categories"
        parts = read_object(args.source, what, is_yaml=True)
        if (name := parts.get("name", args.name)) != args.name:
            raise ValidationError(f"{args.source} is of {name!r}, not of {args.name!r}")
    parts |= call.read_arguments()
    if args.entity is not None:
        parts["entity_types"] = [
            {"name": name, "attributes": [one.strip() for one in attributes.split(",") if one.strip()]}
            for name, _, attributes in (one.partition(":") for one in args.entity)
        ]
    if args.relationship is not None:
        ends = ("name", "source_type", "target_type")
        if any(one.count(":") != 2 for one in args.relationship):
            raise ValidationError("a --relationship is NAME:SOURCE:TARGET, such as shows:visit:house")
        parts["relationship_types"] = [dict(zip(ends, one.split(":"), strict=True)) for one in args.relationship]
    schema = call.run("create_domain", **parts)
    is_followed = any(one.in_use and one.name == schema.name for one in call.run("list_domains"))
    what = "this project still follows it as it was; let it follow this one" if is_followed else "let it be followed"
    return Reply({"domain": schema}, schema, f"\n{what}: alma domains use {shlex.quote(schema.name)}")


@command("domains show", "list_domains", "name", about={"name": "the schema's name"})
def show_domain(call: Call) -> Reply:
    """Show one domain schema."""
    return reply_value(call.run_typed()[0].schema, "domain")


@command("domains delete", "delete_domain")
@YES
def delete_domain(call: Call) -> Reply:
    call.confirm("Take this schema off the list?", call.run("list_domains", name=call.args.name))
    name = call.run_typed().name
    return Reply({"deleted": name}, f"deleted {name}")


@command("domains use", "use_domain")
def use_domain(call: Call) -> Reply:
    schema, project = call.run_typed(), call.alma.project_id
    gates = ", ".join(schema.learning_categories) or "everything"
    text = f"project {project!r} follows {schema.name!r} from now on; what may be learned: {gates}"
    return Reply({"project_id": project, "domain": schema}, text)


# -- rules in files


@command("rules export", "export_rules", "--*")
def export_rules(call: Call) -> Reply:
    report, is_check = call.run_typed(), "check" in call.args
    state = "was written" if report.written else "is not current" if report.changed else "is current"
    text = f"{report.path} {state}: {count(report.items, 'item')}, {report.size} of {report.limit}"
    is_empty = not (report.written or report.items or report.changed)
    return Reply(
        report,
        (lambda out: render.show_diff(out, report.diff)) if is_check and report.diff else "",
        "there is nothing to write" if is_empty else text,
        {"edited by hand and not imported": report.hand_edits},
        f"alma rules import {report.path} takes it over" if report.hand_edits else "",
        {"left out": report.left_out},
        code=1 if is_check and (report.changed or report.hand_edits) else 0,
    )


@command("rules import", "import_rules", "path? --* --all_items:all")
@YES
def import_rules(call: Call) -> Reply:
    """Take over what people edited in a file that `alma rules export` wrote: changed, new and removed items."""
    given = call.read_arguments()
    report = call.run("import_rules", **given | {"dry_run": True})
    shown = _describe_import(report)
    if "dry_run" in given:
        text = "nothing was changed"
    else:
        if any(one.done for one in report.changes):
            call.confirm("Take this over?", *shown)
            shown = shown if call.args.yes else []
        # Also where nothing is different: what both agree on is noted for the next time.
        report = call.run("import_rules", **given)
        text = f"took over {sum(one.done for one in report.changes)}"
        if any(one.verb == "removed" and not one.done for one in report.changes):
            text += "\n--retire puts away what was removed; without it an export asks for --force and writes it again"
        elif report.changes or report.newer:
            text += "\n`alma rules export` brings the file up to date"
    is_open = any(one.verb == "conflict" and not one.done for one in report.changes)
    return Reply(report, *shown, text, code=1 if is_open else 0)


def _describe_import(report: Any) -> list[Any]:
    """Return what is shown of an import: what changes, what waits, and what is left alone."""
    waiting = sum(one.waits for one in report.changes)
    is_open = any(one.verb == "conflict" and not one.done for one in report.changes)
    return [
        (lambda out: render.show_diff(out, report.diff)) if report.changes else f"{report.path} says nothing new",
        {"the memory knows better": report.newer or "", "contradicted, and replaced": report.replaced},
        {"no items, and passed over": report.ignored},
        f"waiting for you: {waiting}; alma rules list --status candidate" if waiting else "",
        "both changed: --prefer file or --prefer memory says who is right" if is_open else "",
    ]


# -- one operation each

_ITEM = "item_id --agent:by"
_EDIT = "--title --description --item_type --priority --owner --parent_id --tests --estimate_minutes --tags --metadata"
_ON = Argument("--on ID…", "the item that must be done first", dest="blocked_by", required=True)
_FROM = Argument("--from ID…", "the item it need not wait for", dest="unblocked_by", required=True)
_STATED = "--* --source=user_stated"
_ESTIMATE = {"estimate_minutes": "how long it may take, in minutes"}
_ARTIFACT = {
    "node_id": "the node that made it",
    "digest": "its SHA-256; computed where PATH is a file",
    "size": "in bytes; measured where PATH is a file",
}
_START = """Begin a session with all that its agent should know.

Prints the last handoff, the progress, recent outcomes, strategies for the goal, the state of the code and what to do
first. `alma session note` and `alma session end` take the session's id."""
_AROUND = "Show what can be reached from an entity, nearest first."
_REACHED = {"depth": "at most so many steps (default 2)", "direction": "from it, to it, or both"}
_PATH = "Show how one entity is related to another, shortest path first."
_JOINED = {"to": "the entity to reach: a name, an alias or an id", "depth": "at most so many steps (default 4)"}
_DOMAINS = "List the domain schemas: the presets and those that were created here."


def change_item(word: str, verb: str, help: str, takes: str = "", *extras: Argument) -> Command:
    """Return a command that does a part of what `update_progress` can."""
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
    Command(
        "work list", "list_work_items", "* !item_id !query", "items", help="List work items, the most urgent first."
    ),
    change_item("edit", "changed", "Change what a work item says. Only what is given changes.", _EDIT),
    change_item("block", "blocked", "Let one work item wait for another. A circle is refused.", "", _ON),
    change_item("unblock", "unblocked", "Let one work item wait for another no longer.", "", _FROM),
    change_item("restore", "restored", "Take an archived work item back.", "!archived=false"),
    Command("work claim", "claim_work_item", "*", "item", "claimed"),
    Command("work release", "release_work_item", "*", "item", "released"),
    Command("list", "list", "*", "memories"),
    Command("search", "search", "query:words --*", "matches"),
    Command("explain", "explain"),
    Command("playbook", "playbook"),
    Command("rules list", "list", "* !memory_type=rule", "rules", help="List rules, newest first."),
    Command("graph build", "build_graph"),
    Command("graph about", "about_entity"),
    Command("graph around", "traverse_graph", "* !to", help=_AROUND, about=_REACHED),
    Command("graph path", "traverse_graph", "name to --* !direction --limit=10", "paths", help=_PATH, about=_JOINED),
    Command("graph merge", "merge_entities", "keep others --*", "entity"),
    Command("graph stats", "graph_stats", "!suggestions", help="Count what the graph holds, by type."),
    Command("domains list", "list_domains", "!name", "domains", help=_DOMAINS),
    Command("workflow link", "link_artifact", "run_id location --*", "artifact", about=_ARTIFACT),
    Command("workflow artifacts", "get_artifacts", "*", "artifacts"),
    Command("confidence assess", "assess_confidence"),
    Command("confidence rank", "rank_strategies"),
    Command("confidence calibration", "calibration"),
    Command("stats", "stats"),
    Command("usage", "usage", matching=False),
    Command("reconcile", "reconcile"),
]
