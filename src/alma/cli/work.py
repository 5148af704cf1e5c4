"""Commands on work items, sessions, workflows, the graph and domains; a table at the end has the simple ones."""

from __future__ import annotations

import shlex
import sys
from typing import Any

from ..errors import NotFoundError, ValidationError, unknown
from . import render
from .commands import PROMPT, check_object, read_object, read_pairs, read_text
from .derive import COMMANDS, YES, Argument, Call, Command, Reply, command, parse_json, reply_value
from .render import count, print_exact

_TEST = Argument("--test NAME=pass|fail…", "result of a test", dest="tests")
_ITEM_ID = {"item_id": "the work item's id"}
_NOTED = {
    "session_id": "the session's id (default: the agent's only open session)",
    "decisions": "a decision",
    "key_decisions": "a decision",
    "active_files": "a file being worked on",
    "blockers": "what blocks the work",
    "risk_flags": "what may go wrong",
}
_ENDS = ("completed", "failed", "cancelled")


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


@command("work search", "list_work_items", "query:words --limit=10", "items")
def search_items(call: Call) -> Reply:
    """Search work items by words in titles and descriptions."""
    return reply_value(call.run_typed(), "items", empty=f"No work items match {call.args.query!r}.")


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


@command("session list", "list_sessions", "--agent --state --limit")
def list_sessions(call: Call) -> Reply:
    """List an agent's open sessions and how its latest ones ended."""
    listing = call.run_typed()
    document = {"open": listing.sessions, "previous": listing.handoffs}
    state = getattr(call.args, "state", None)
    nothing = f"No {state} sessions." if state else "No sessions yet. Start one with `alma session start`."
    return Reply(document, document if any(document.values()) else nothing)


@command("session show", "list_sessions", "session_id:id --agent", about={"session_id": "the session's id"})
def show_session(call: Call) -> Reply:
    """Show one session."""
    shown = call.run_typed()
    handoffs = [part for one in shown.handoffs for part in ("\nhandoff:", one)]
    return Reply({"session": shown.sessions[0]}, shown.sessions[0], *handoffs)


@command("session prepare", "initialize", "* user_prompt:prompt")
@PROMPT
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
    place, text, source = "--state", call.args.state_text, call.args.source
    if text is None:
        needs = "pass the state with --state JSON, --from FILE, or as JSON on standard input"
        if source is None and sys.stdin.isatty():
            raise ValidationError(needs)
        place, text = "standard input" if source in (None, "-") else source, read_text(source or "-")
        if not text.strip():
            raise ValidationError(f"{place} is empty; {needs}")
    return call.answer(state=check_object(place, parse_json(place, text), "the state"))


@command("workflow end", "update_run", "run_id", "run", about={"run_id": "the run's name"})
@Argument("--status STATUS", "completed (default), failed or cancelled", _ENDS, default="completed")
def end_run(call: Call) -> Reply:
    """Record how a run ended."""
    if call.args.status not in _ENDS:
        raise ValidationError(unknown("status", call.args.status, _ENDS))
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
    filters = " and ".join(name for name in ("name", "type") if name in call.args)
    text = f"No entity of that {filters}. Run `alma graph build` to read new memories into the graph."
    return reply_value(call.run_typed(), "entities", empty=text if filters else "")


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


# -- one operation each

_ITEM = "item_id --agent:by"
_EDIT = "--title --description --item_type --priority --owner --parent_id --tests --estimate_minutes --tags --metadata"
_ON = Argument("--on ID…", "id of an item that must be done first", dest="blocked_by", required=True)
_FROM = Argument("--from ID…", "id of an item it no longer waits for", dest="unblocked_by", required=True)
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
_OF_WORKFLOW = "workflow_id --run_id --agent --metadata !status=running"
_STARTED = "Start a run of a workflow, or continue an existing run."
_RUNS = "List workflow runs, newest first."
_CHECKPOINTS = "List the checkpoints of a run, newest first."
_CHECKPOINT = {
    "run_id": "the run's name",
    "node_id": "only checkpoints of this node",
    "branch_id": "only checkpoints of this branch",
}
_OF_RUN = "run_id --node_id --branch_id --limit=100"


def change_item(word: str, verb: str, help: str, takes: str = "", *extras: Argument) -> Command:
    """Return a command for one part of `update_progress`."""
    taken = f"{_ITEM} {takes}"
    return Command(f"work {word}", "update_progress", taken, "item", verb, extras=extras, help=help, about=_ESTIMATE)


COMMANDS += [
    Command("session start", "start_session", "--*", help=_START),
    Command("session reload", "quick_reload", "--*"),
    Command("work add", "create_work_item", "*", "item", "added", about=_ESTIMATE),
    change_item("edit", "changed", "Edit a work item. Only the options you pass change.", _EDIT),
    change_item("block", "blocked", "Make a work item wait for another. Cycles are refused.", "", _ON),
    change_item("unblock", "unblocked", "Remove a work item's dependency on another.", "", _FROM),
    change_item("restore", "restored", "Restore an archived work item.", "!archived=false"),
    Command("work claim", "claim_work_item", "*", "item", "claimed"),
    Command("work release", "release_work_item", "*", "item", "released"),
    Command("graph build", "build_graph"),
    Command("graph about", "about_entity"),
    Command("graph around", "traverse_graph", "* !to", help=_AROUND, about=_REACHED),
    Command("graph path", "traverse_graph", "name to --* !direction --limit=10", "paths", help=_PATH, about=_JOINED),
    Command("graph merge", "merge_entities", "keep others --*", "entity"),
    Command("graph stats", "graph_stats", "!suggestions", help="Count entities and relations by type."),
    Command("domains list", "list_domains", "!name", "domains", help=_DOMAINS),
    Command("workflow start", "update_run", _OF_WORKFLOW, "run", help=_STARTED),
    Command("workflow link", "link_artifact", "run_id location --*", "artifact", about=_ARTIFACT),
    Command("workflow artifacts", "get_artifacts", "*", "artifacts"),
    Command("workflow history", "list_runs", _OF_RUN, "checkpoints", help=_CHECKPOINTS, about=_CHECKPOINT),
    Command("workflow runs", "list_runs", "--workflow_id --status --limit", "runs", help=_RUNS),
]
