"""Commands on the memory that are more than one operation."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import Any

from ..errors import NotFoundError, ValidationError
from ..types.kinds import Episode
from . import render
from .derive import Call, command, extra, find_operation, parse_json
from .files import parse_object, read_lines, read_mapping, read_object, read_objects, read_text, send_lines
from .render import count, count_memories

_TURN = re.compile(r"turns\[(\d+)\](?:, (a turn),| )")
_SCOPES = {"workflow_id": "--workflow", "run_id": "--run", "node_id": "--node", "tenant_id": "--tenant"}
_SIGNALS = {"up": "thumbs_up", "down": "thumbs_down", "used": "used", "ignored": "ignored"}
_BY = {"agent": "by"}
_YES = extra("--yes", "", "do not ask")
_TAGS = extra("--tag", "TAG", "a tag; may be repeated", dest="tags", action="append")
_AGENT = extra("--agent", "AGENT", "whose it is, where a line does not say it")
_SESSION = extra("session_id", "ID", "the session; not needed when the agent has exactly one open", nargs="?")
_TEST = extra("--test", "NAME=pass|fail", "how a test went; may be repeated", dest="tests", action="append")
_PROMPT = extra("--prompt", "", "print exactly the text for a prompt")


# -- the loop


@command(
    "learn",
    "learn",
    extra("--from", "FILE", "JSON Lines of outcomes ('-': standard input); options fill gaps", dest="source"),
    positional="",
    requires=False,
)
def learn(call: Call) -> int:
    from ..inspection import count_results, find_lessons

    out, source = call.out, call.args.source
    # In a file each line may say who did it.
    agent = call.get_default_agent()
    call.args.agent = agent or ""
    given = {name: value for name, value in call.read_arguments("learn").items() if (name, value) != ("agent", "")}
    since = datetime.now(UTC)
    if source is not None:
        if "idempotency_key" in given:
            raise ValidationError("--idempotency-key names one outcome; with --from, give each line its own")
        lines = read_lines(source, "the arguments of learn", given)
        with call.open() as alma:
            with out.progress("learning") as progress:
                outcomes = send_lines(lines, lambda batch: call.run("learn_many", outcomes=batch), progress)
            lessons = find_lessons(alma, outcomes, since)
        if not out.answers_json({"recorded": len(outcomes), "ids": [one.id for one in outcomes], "learned": lessons}):
            out.print(f"recorded {count(len(outcomes), 'outcome')}{'' if lessons else '; no lesson changed'}")
            render.show_lessons(out, lessons)
        return 0
    needed = {"agent": "--agent", "task": "--task", "outcome": "--outcome", "strategy_used": "--strategy"}
    if missing := [option for name, option in needed.items() if name not in given]:
        raise ValidationError(f"learn needs {', '.join(missing)} (or --from FILE)")
    with call.open() as alma:
        outcome = call.run("learn", **given)
        lessons, tally = find_lessons(alma, [outcome], since), count_results(alma, outcome)
    if not out.answers_json({"outcome": outcome, "learned": lessons, "strategy": tally}):
        out.print(f"recorded {outcome.id}")
        render.show_lessons(out, lessons)
        if not lessons:
            forms = f"; a heuristic forms at {tally.needed} outcomes that mostly work"
            waiting = forms if tally.results < tally.needed else ""
            out.line((f"this strategy: {tally.successes} of {tally.results} worked{waiting}", "dim"))
    return 0


@command("workflow learn", "workflow_learn")
def learn_run(call: Call) -> int:
    from ..inspection import find_lessons

    since, out = datetime.now(UTC), call.out
    given = call.read_arguments("workflow_learn")
    with call.open() as alma:
        outcomes = call.run("workflow_learn", **given)
        lessons = find_lessons(alma, outcomes, since)
    if not out.answers_json({"outcomes": outcomes, "learned": lessons}):
        for one in outcomes:
            out.line(f"recorded {one.id}  {render.fit(render.describe_memory(one))}")
        render.show_lessons(out, lessons)
    return 0


@command(
    "retrieve", "retrieve retrieve_scoped", _PROMPT, extra("--explain", "", "show what each memory scored, by factor")
)
def retrieve(call: Call) -> int:
    typed, out = vars(call.args), call.out
    is_scoped = "scope" in typed
    fences = [option for name, option in _SCOPES.items() if name in typed]
    if fences and not is_scoped:
        raise ValidationError(f"{fences[0]} goes with --scope: node, run, workflow, agent, tenant, global")
    # A scope is a fence of tags; what it cannot also hold to must not seem to hold.
    filters = ("tags", "task_type", "since", "until", "as_of", "level", "progressive")
    refused = [f"--{'tag' if name == 'tags' else name.replace('_', '-')}" for name in filters if name in typed]
    if is_scoped and refused:
        raise ValidationError(f"{', '.join(refused)} cannot be used together with --scope")
    name = "retrieve_scoped" if is_scoped else "retrieve"
    given = call.read_arguments(name)
    with call.open():
        found = call.run(name, **given)
    if not out.answers_json(found):
        if call.args.prompt:
            out.print(found.prompt)
        else:
            render.show_retrieval(out, found, call.args.explain)
    return 0


@command(
    "feedback",
    extra("id", "ID", "the memory", nargs="?"),
    extra("signal", "SIGNAL", "up, down, used or ignored", nargs="?", choices=tuple(_SIGNALS)),
    extra("--shown", "ID", "instead: all memories that were shown", nargs="+"),
    extra("--used", "ID", "one of them that was used; may be repeated", action="append", default=[]),
)
def feedback(call: Call) -> int:
    """Say what a memory was worth, or which of the memories shown were used. It moves their rank."""
    args, out = call.args, call.out
    if args.shown:
        with call.open():
            report = call.run("record_usage", retrieved_memory_ids=args.shown, used_memory_ids=args.used)
        if not report.recorded:
            raise NotFoundError(f"none of these memories is held: {', '.join(report.unknown)}")
        if not out.answers_json(report):
            used = sum(id.startswith(tuple(args.used)) for id in report.recorded)
            out.print(f"{count_memories(used)} used, {len(report.recorded) - used} passed over")
        return 0
    if args.signal is None:
        call.fail_usage("needs ID and SIGNAL, or --shown")
    signal = _SIGNALS[args.signal]
    with call.open():
        before = call.run("get", memory_id=args.id)
        call.run("record_feedback", memory_id=before.id, signal=signal)
        memory = call.run("get", memory_id=before.id)
    return out.report(
        {"memory": memory, "signal": signal, "confidence_before": before.confidence},
        f"{signal} counted; confidence {before.confidence:.2f} → {memory.confidence:.2f}",
    )


# -- memories


@command("show", "get")
def show(call: Call) -> int:
    from ..inspection import read_background

    with call.open() as alma:
        memory = call.run("get", memory_id=call.args.memory_id)
        background = read_background(alma, memory.id)
        history = call.run("history", memory_id=memory.id)
    document = {
        "memory": memory,
        "evidence": background.evidence,
        "provenance": background.provenance,
        "related": [{"id": one.id, "memory": one} for one in background.related],
        "history": history,
    }
    if not call.out.answers_json(document):
        render.show_memory(call.out, memory, background, history)
    return 0


@command(
    "update",
    "update",
    extra("pairs", "FIELD=VALUE", "a field with its new value", nargs="*"),
    names={"fields": ""},
    fixed={"source": "user"},
)
def update(call: Call) -> int:
    options = {"status": "--status", "tag": "--tag", "tags": "--tag"}
    changed: dict[str, Any] = {}
    for one in call.args.pairs:
        name, equals, value = one.partition("=")
        if not equals or not name:
            raise ValidationError(f"{one!r} is no FIELD=VALUE, such as fact='The new text'")
        if name in options:
            raise ValidationError(f"{name} is not a field here but an option: {options[name]} {value}")
        changed[name] = parse_json(name, value) if name == "metadata" else value
    return call.answer("update", "memory", "updated", fields=changed)


@command(
    "delete",
    extra("id", "ID", "the memory", nargs="?"),
    extra("--user", "USER", "instead: everything of this user", dest="user_id"),
    _YES,
)
def delete(call: Call) -> int:
    """Erase a memory for good. It will not be learned again by itself. A conversation goes with all its turns."""
    id, user, out = call.args.id, call.args.user_id, call.out
    if (id is None) is (user is None):
        call.fail_usage("needs ID, or --user for everything of a user")
    with call.open() as alma:
        if user is not None:
            if not call.confirm(f"Erase everything of the user {user!r} in {alma.project_id} for good?"):
                return 0
            erased = call.run("erase_user", user_id=user)
            kinds = ", ".join(f"{number} {kind}" for kind, number in erased.counts.items())
            whole = count_memories(sum(erased.counts.values()))
            return out.report(erased, f"erased {whole} of {user}{f' ({kinds})' if kinds else ''}")
        memory = call.run("get", memory_id=id)
        turns = memory.turns if isinstance(memory, Episode) else ()
        parts = f", with its {count(len(turns), 'turn')}" if turns else ""
        if not call.confirm(f"Erase it for good{parts}?", memory):
            return 0
        call.run("delete", memory_id=memory.id)
    gone = {"turns": [turn.id for turn in turns]} if isinstance(memory, Episode) else {}
    return out.report({"deleted": memory.id, **gone}, f"erased {memory.id}{parts}")


@command("archive", "forget", _YES)
def archive(call: Call) -> int:
    out, given = call.out, call.read_arguments("forget")
    dry_run = given.pop("dry_run", False)
    with call.open():
        ids = call.run("forget", **given, dry_run=True).ids
        if ids and not out.as_json:
            render.show_memories(out, [call.run("get", memory_id=id) for id in ids[:50]], max(0, len(ids) - 50))
        if ids and not dry_run:
            if not call.confirm(f"Archive {count_memories(len(ids))}?", declined="nothing was forgotten"):
                return 0
            ids = call.run("forget", **given).ids
    if not out.answers_json({"dry_run": dry_run, "count": len(ids), "ids": ids}):
        verb = "would be archived" if dry_run else "archived"
        out.print(f"{count_memories(len(ids))} {verb}" if ids else "nothing to forget")
    return 0


# -- files of memories


@command(
    "add episode",
    "add_episode",
    extra("file", "FILE", "its turns, each with speaker and text: a JSON list or JSON Lines ('-': standard input)"),
    positional="",
    names={"turns": ""},
)
def add_episode(call: Call) -> int:
    out, file = call.out, call.args.file
    given = call.read_arguments("add_episode")
    lines = read_objects(file, "a speaker and a text")
    if not lines:
        raise ValidationError(f"{file} holds no turn; nothing was recorded")
    with call.open():
        try:
            episode = call.run("add_episode", **given, turns=[turn for _, turn in lines])
        except ValidationError as error:
            # `turns[2] text is …` becomes the line of that turn.
            message = str(error)
            if (turn := _TURN.search(message)) is None:
                raise
            rest = f"{message[: turn.start()]}{turn[2] or ''}{message[turn.end() :]}"
            raise ValidationError(f"{lines[int(turn[1])][0]}: {rest}") from error
    if not out.answers_json({"memory": episode}):
        if episode.status == "retired":
            out.print(f"{episode.id} was deleted before and stays away; nothing was recorded")
        else:
            out.print(f"kept {episode.id}, now of {count(episode.turn_count, 'turn')}")
            render.show_memories(out, [episode])
    return 0


@command("add many", extra("file", "FILE", "JSON Lines, each with its type and what it says"), _AGENT, _TAGS)
def add_many(call: Call) -> int:
    """Add memories of any types from a file. Added again they change nothing.

    Each line is an object with its type (domain_knowledge, user_preference, heuristic, anti_pattern or rule) and the
    options of `alma add` for it, such as domain and fact.
    """
    return _send_added(call, "add_many", "memories", "a type and what is to be added", ("added", "memory", "memories"))


@command("add episodes", extra("file", "FILE", "JSON Lines, each with session_id and turns"), _AGENT, _TAGS)
def add_episodes(call: Call) -> int:
    """Keep conversations from a file, or what is new of them."""
    words = ("kept", "conversation", "conversations")
    return _send_added(call, "add_episodes", "conversations", "a session_id and turns", words)


def _send_added(call: Call, operation: str, parameter: str, what: str, words: Sequence[str]) -> int:
    args, out, agent = call.args, call.out, call.get_default_agent()
    lines = read_lines(args.file, what, {"tags": args.tags} if args.tags else {})
    if not lines:
        raise ValidationError(f"{args.file} holds nothing; nothing was recorded")
    for _, given in lines:
        # What a user wants is nobody's in particular.
        if agent and given.get("type") != "user_preference":
            given.setdefault("agent", agent)
    with call.open(), out.progress("adding") as progress:
        memories = send_lines(lines, lambda batch: call.run(operation, **{parameter: batch}), progress)
    if not out.answers_json({"count": len(memories), "ids": [one.id for one in memories]}):
        out.print(f"{words[0]} {count(len(memories), *words[1:])}")
        render.show_memories(out, memories[:20], max(0, len(memories) - 20))
    return 0


@command(
    "ingest",
    "ingest",
    extra("--own", "", "these are the person's own words (default: chats are)", group="either", default=None),
    extra(
        "--not-own", "", "they are others': they wait", group="either", dest="own", action="store_false", default=None
    ),
    extra("--plan", "", "only say which files would be read, and as what"),
    names={"own": "", "branches": "branches"},
)
def ingest(call: Call) -> int:
    args, out = call.args, call.out
    if args.plan:
        from ..knowledge import reading

        given = {name: value for name, value in vars(args).items() if name in ("only", "own", "max_file_bytes")}
        out.answer(reading(args.path, **given))
        return 0
    if call.get_default_agent() is None:
        raise ValidationError("ingest needs --agent: whose memory is it? (--plan needs none)")
    given = call.read_arguments("ingest")
    with call.open(), out.progress("reading") as progress:
        result = call.run("ingest", **given, progress=progress)
    out.answer(result)
    if (waiting := result.counts.get("waiting")) and not (out.as_json or result.dry_run):
        out.print(f"{waiting} of them wait for you, as words of others: alma list --status candidate")
    return 0 if any(result.counts.values()) else 1


@command(
    "learn-from",
    "learn_from_conversation learn_from_text",
    extra("file", "FILE", "messages with role and content: a JSON list or JSON Lines ('-': standard input)"),
    extra("--text", "", "FILE is no conversation but a note or a page"),
    positional="",
    names={"messages": "", "text": ""},
    fixed={"source": "user"},
)
def learn_from(call: Call) -> int:
    args = call.args
    if args.text and ("session_id" in args or "save_episode" in args):
        option = "--session" if "session_id" in args else "--save-episode"
        raise ValidationError(f"{option} belongs to a conversation and does not go with --text")
    if "name" in args and not args.text:
        raise ValidationError("--name goes with --text; a conversation is named by --session")
    name = "learn_from_text" if args.text else "learn_from_conversation"
    given = call.read_arguments(name)
    if args.text:
        given["text"] = read_text(args.file)
        given.setdefault("name", "standard input" if args.file == "-" else Path(args.file).name)
    else:
        given["messages"] = [message for _, message in read_objects(args.file, "role and content")]
        if not given["messages"]:
            raise ValidationError(f"{args.file} holds no message; nothing was recorded")
    return call.answer(name, **given)


# -- work


@command("work show", "get_work_item")
def show_item(call: Call) -> int:
    out = call.out
    with call.open():
        item = call.run("get_work_item", item_id=call.args.item_id)
        parts = call.run("list_work_items", parent_id=item.id, archived=True, limit=200)
        history = call.run("work_item_history", item_id=item.id)
        if not out.answers_json({"item": item, "parts": parts, "history": history}):
            out.show(item)
            if parts:
                out.heading("parts")
                out.show(parts)
            render.show_item_history(out, history)
    return 0


@command("work history", "work_item_history")
def show_item_history(call: Call) -> int:
    with call.open():
        history = call.run("work_item_history", item_id=call.args.item_id)
    if not call.out.answers_json({"id": call.args.item_id, "history": history}):
        render.show_item_history(call.out, history)
    return 0


@command("work next", "get_next_item")
def take_next_item(call: Call) -> int:
    given, out = call.read_arguments("get_next_item"), call.out
    if given.get("claim"):
        given["agent"] = call.get_default_agent()
        if given["agent"] is None:
            raise ValidationError("--claim needs --agent: who takes it?")
    with call.open():
        found = call.run("get_next_item", **given)
        if not out.answers_json(found):
            render.show_next(out, found, given.get("agent"))
    return 0 if found.item else 1


@command("work status", "update_progress", positional="item_id status", names=_BY)
def move_item(call: Call) -> int:
    given, out = call.read_arguments("update_progress"), call.out
    with call.open():
        item = call.run("update_progress", **given)
        blocked = [call.run("get_work_item", item_id=id) for id in item.blocks] if item.status == "done" else []
        freed = [one for one in blocked if one.status == "pending"]
        if not out.answers_json({"item": item, **({"freed": freed} if freed else {})}):
            out.show(item, "now")
            for one in freed:
                render.line_item(out, one, "now free  ")
    return 0


@command(
    "work archive",
    extra("item_id", "ID", "the work item", nargs="?"),
    extra("--by", "AGENT", "who makes the change"),
    extra("--finished", "", "all that are done"),
    extra("--older-than", "DAYS", "and not touched for so long (default 30)", dest="older_than_days", type=float),
)
def archive_items(call: Call) -> int:
    """Put an item away, or all that are done: it is neither listed nor counted."""
    args, out = call.args, call.out
    if (args.item_id is None) is not args.finished:
        raise ValidationError("archive wants the ID of an item, or --finished for all that are done; not both")
    if args.older_than_days is not None and not args.finished:
        raise ValidationError("--older-than goes with --finished")
    with call.open():
        if args.finished:
            days = 30.0 if args.older_than_days is None else args.older_than_days
            out.answer(call.run("archive_finished", older_than_days=days))
        else:
            out.answer(call.run("archive_work_item", item_id=args.item_id, agent=args.by), "item", "archived")
    return 0


@command("work delete", "delete_work_item", _YES, names=_BY)
def delete_item(call: Call) -> int:
    given = call.read_arguments("delete_work_item")
    with call.open():
        item = call.run("get_work_item", item_id=given["item_id"])
        if call.confirm("Erase it and its history for good?", item):
            gone = call.run("delete_work_item", **given)
            if not call.out.answers_json({"deleted": gone.id}):
                call.out.show(gone)
    return 0


@command(
    "work progress",
    "progress_summary progress_logs",
    extra("--log", "", "how far sessions were when they noted it, newest first"),
)
def show_progress(call: Call) -> int:
    name = "progress_logs" if call.args.log else "progress_summary"
    if not call.args.log and ("session_id" in call.args or "limit" in call.args):
        raise ValidationError("--session and --limit go with --log")
    return call.answer(name, "logs" if call.args.log else "")


# -- sessions


def _read_session(call: Call, name: str) -> dict[str, Any]:
    given = call.read_arguments(name)
    results = {}
    for text in call.args.tests or ():
        test, _, result = text.rpartition("=")
        if not test or result not in ("pass", "fail"):
            raise ValidationError(f"--test {text} is no NAME=pass or NAME=fail")
        results[test] = result == "pass"
    return given | ({"test_status": results} if results else {})


def _find_session(call: Call, agent: str) -> str:
    """Return the session that was named, or the only one that is open."""
    if call.args.session_id is not None:
        return str(call.args.session_id)
    sessions = call.run("open_sessions", agent=agent)
    if not sessions:
        start = f"alma session start --agent {shlex.quote(agent)}"
        raise ValidationError(f"{agent} has no open session; `{start}` begins one")
    if len(sessions) > 1:
        known = ", ".join(f"{one.id} ({one.goal or 'no goal'})" for one in sessions)
        raise ValidationError(f"{agent} has {len(sessions)} open sessions; say which: {known}")
    return str(sessions[0].id)


@command(
    "session note",
    "update_session",
    _SESSION,
    _TEST,
    extra("--log", "", "also keep how far the work is, for `alma work progress --log`"),
    positional="",
    names={"session_id": "", "test_status": ""},
)
def note_session(call: Call) -> int:
    given, out = _read_session(call, "update_session"), call.out
    if not given.keys() - {"agent", "session_id"} and not call.args.log:
        raise ValidationError("there is nothing to note: pass --action, --decision, --file, --blocker, --next, …")
    with call.open():
        given["session_id"] = _find_session(call, given["agent"])
        session = call.run("update_session", **given)
        document = {"session": session}
        if call.args.log:
            noted = {"agent": given["agent"], "session_id": session.id, "current_action": given.get("action", "")}
            document["log"] = call.run("log_progress", **noted)
    if not out.answers_json(document):
        out.print(f"noted in {session.id}")
        out.show(session)
    return 0


@command(
    "session end",
    "end_session",
    _SESSION,
    _TEST,
    positional="",
    names={"session_id": "", "test_status": "", "last_outcome": "outcome", "current_goal": "goal"},
)
def end_session(call: Call) -> int:
    given, out = _read_session(call, "end_session"), call.out
    with call.open():
        given["session_id"] = _find_session(call, given["agent"])
        handoff = call.run("end_session", **given)
    if not out.answers_json({"handoff": handoff}):
        out.print(f"ended {handoff.session_id}; the next session starts with:")
        out.show(handoff)
    return 0


@command("session list", "previous_sessions")
def list_sessions(call: Call) -> int:
    """List an agent's open sessions and how its latest ones ended."""
    given, out = call.read_arguments("previous_sessions"), call.out
    with call.open():
        open_ones = call.run("open_sessions", agent=given["agent"])
        previous = call.run("previous_sessions", **given)
    if not out.answers_json({"open": open_ones, "previous": previous}):
        for sessions in (open_ones, previous):
            if sessions:
                out.show(sessions)
        if not (open_ones or previous):
            out.line(("no session yet", "dim"))
    return 0


@command("session prepare", "initialize", _PROMPT, names={"user_prompt": "prompt"})
def prepare_session(call: Call) -> int:
    given, out = call.read_arguments("initialize"), call.out
    if given["user_prompt"] == "-":
        given["user_prompt"] = read_text("-")
    with call.open():
        plan = call.run("initialize", **given)
        if call.args.prompt and not out.as_json:
            out.print(plan.prompt)
        else:
            out.answer(plan)
    return 0


@command("session wake-up", "wake_up recall_topic", positional="")
def wake_up(call: Call) -> int:
    if "deep" in call.args and "topic" not in call.args:
        raise ValidationError("--deep goes with --topic")
    name = "recall_topic" if "topic" in call.args else "wake_up"
    return call.answer(name)


# -- workflows


@command(
    "workflow checkpoint",
    "checkpoint",
    extra("--state", "JSON", "the state, a JSON object", group="either", dest="state_text"),
    extra("--from", "FILE", "the state from a file ('-': standard input)", group="either", dest="source"),
    positional="run_id node_id",
    names={"state": ""},
)
def save_checkpoint(call: Call) -> int:
    text, source = call.args.state_text, call.args.source
    if text is None and source is None and sys.stdin.isatty():
        raise ValidationError("a checkpoint needs a state: --state JSON, --from FILE, or JSON on standard input")
    is_typed = text is not None
    state = parse_object("--state", text, "the state") if is_typed else read_object(source or "-", "the state")
    return call.answer("checkpoint", "checkpoint", state=state)


@command("workflow resume", "resume")
def resume_run(call: Call) -> int:
    given = call.read_arguments("resume")
    with call.open():
        found = call.run("resume", **given).checkpoint
    if found is None:
        place = f" on branch {given['branch_id']!r}" if given.get("branch_id") else ""
        place += f" at node {given['node_id']!r}" if given.get("node_id") else ""
        raise NotFoundError(f"run {given['run_id']!r}{place} has no checkpoint to go on from")
    return call.out.report({"checkpoint": found}, render.format_json(found.state))


@command(
    "workflow merge",
    "merge_branches merge_states",
    extra("run_id", "RUN", "the run whose branches are merged", nargs="?"),
    extra("--state", "FILE", "a state; may be repeated", dest="state_files", action="append"),
    extra("--base", "FILE", "the state that all the files began at", dest="base_file"),
    extra("--reducer", "KEY=HOW", "how a key is merged; may be repeated", dest="reducer_pairs", action="append"),
    positional="",
    requires=False,
    names={"run_id": "", "states": "", "reducers": "", "base": ""},
)
def merge(call: Call) -> int:
    """Merge branches into a checkpoint, or files of states into a state that is printed.

    Keys are merged by append, extend, union, sum, max, min, last, first or merge_dict.
    """
    args, typed = call.args, vars(call.args)
    if (args.run_id is None) is (args.state_files is None):
        raise ValidationError("merge wants a RUN with its branches, or files of states (--state FILE); not both")
    reducers = {}
    for one in args.reducer_pairs or ():
        key, _, how = one.rpartition("=")
        if not key:
            raise ValidationError(f"--reducer {one} is no KEY=HOW, such as done=union")
        reducers[key] = how
    if args.run_id is not None:
        if "branches" not in typed or "node_id" not in typed:
            raise ValidationError("merging branches needs --branch (once for each) and --node")
        if args.base_file is not None:
            raise ValidationError("--base goes with --state")
        return call.answer("merge_branches", "checkpoint", reducers=reducers)
    if {"branches", "node_id", "into", "agent"} & typed.keys():
        raise ValidationError("--branch, --node, --into and --agent go with a RUN")
    states = [read_object(file, "the state") for file in args.state_files]
    base = None if args.base_file is None else read_object(args.base_file, "the state")
    with call.open():
        merged = call.run("merge_states", states=states, reducers=reducers, base=base, default=typed.get("default"))
    return call.out.report(merged, render.format_json(merged.state))


@command("workflow cleanup", "cleanup_checkpoints", _YES)
def clean_up_checkpoints(call: Call) -> int:
    given = call.read_arguments("cleanup_checkpoints")
    whose = f"run {given['run_id']!r}" if given.get("run_id") else "all runs"
    with call.open():
        if call.confirm(f"Erase checkpoints of {whose} but the newest {given.get('keep_latest', 10)} of each branch?"):
            call.out.answer(call.run("cleanup_checkpoints", **given))
    return 0


# -- domains


@command(
    "domains create",
    "create_domain",
    extra("--from", "FILE", "YAML or JSON with the schema's parts; options come first", dest="source"),
    extra("--entity", "NAME[:ATTR,…]", "a sort of thing with its attributes; may be repeated", action="append"),
    extra("--relationship", "NAME:SOURCE:TARGET", "how two sorts of things are related", action="append"),
    names={"entity_types": "", "relationship_types": ""},
)
def create_domain(call: Call) -> int:
    args, out = call.args, call.out
    given, parts = call.read_arguments("create_domain"), {}
    if args.source is not None:
        parts = read_mapping(args.source, "a schema's parts, such as entity_types and learning_categories")
        if (name := parts.pop("name", args.name)) != args.name:
            raise ValidationError(f"{args.source} is of {name!r}, not of {args.name!r}")
        known = [one.name for one in find_operation("create_domain").parameters if one.name != "name"]
        for part in parts:
            if part not in known:
                raise ValidationError(f"{args.source}: unknown part {part!r}. Valid: {', '.join(known)}.")
    if args.entity is not None:
        pairs = [one.partition(":")[::2] for one in args.entity]
        attributes = ([one.strip() for one in text.split(",") if one.strip()] for _, text in pairs)
        given["entity_types"] = [
            {"name": pair[0], "attributes": some} for pair, some in zip(pairs, attributes, strict=True)
        ]
    if args.relationship is not None:
        for one in args.relationship:
            if one.count(":") != 2:
                raise ValidationError(f"--relationship {one} is no NAME:SOURCE:TARGET, such as shows:visit:house")
        ends = ("name", "source_type", "target_type")
        given["relationship_types"] = [dict(zip(ends, one.split(":"), strict=True)) for one in args.relationship]
    with call.open():
        schema = call.run("create_domain", **{**parts, **given})
        is_followed = any(one.in_use and one.name == schema.name for one in call.run("list_domains"))
    if not out.answers_json({"domain": schema}):
        out.show(schema)
        still = "this project still follows it as it was; let it follow this one"
        what = still if is_followed else "let this project follow it"
        out.print(f"\n{what}: alma domains use {shlex.quote(schema.name)}")
    return 0


@command("domains use", "use_domain")
def use_domain(call: Call) -> int:
    with call.open() as alma:
        schema = call.run("use_domain", name=call.args.name)
        project = alma.project_id
    if not call.out.answers_json({"project_id": project, "domain": schema}):
        gates = ", ".join(schema.learning_categories) or "everything"
        call.out.print(f"project {project!r} follows {schema.name!r} from now on; what may be learned: {gates}")
    return 0


@command("domains delete", "delete_domain", _YES)
def delete_domain(call: Call) -> int:
    name, out = call.args.name, call.out
    with call.open():
        call.run("get_domain", name=name)
        if call.confirm(f"Take the schema {name!r} off the list?", declined="nothing was deleted"):
            gone = call.run("delete_domain", name=name)
            if not out.answers_json({"deleted": gone.name}):
                out.show(gone)
    return 0


# -- rules in files


@command("rules export", "export_rules", positional="")
def export_rules(call: Call) -> int:
    given = call.read_arguments("export_rules")
    with call.open():
        report = call.run("export_rules", **given)
    check = bool(given.get("check"))
    if not call.out.answers_json(report):
        render.show_rule_export(call.out, report, check)
    return 1 if check and (report.changed or report.hand_edits) else 0


@command("rules import", "import_rules", _YES, positional="path", names={"all_items": "all"})
def import_rules(call: Call) -> int:
    given, args, out = call.read_arguments("import_rules"), call.args, call.out
    dry_run = given.pop("dry_run", False)
    with call.open():
        report = call.run("import_rules", **given, dry_run=True)
        has_changes = any(one.done for one in report.changes) and not dry_run
        if has_changes and not args.yes and not out.as_json:
            render.show_rule_import(out, report)
        if has_changes and not call.confirm("Take this over?", declined="nothing was taken over"):
            return 0
        # Also where nothing is different: what both agree on is noted for the next time.
        done = report if dry_run else call.run("import_rules", **given)
    if not out.answers_json(done):
        if args.yes or not has_changes:
            render.show_rule_import(out, done)
        out.print(_say_next(done)) if dry_run or done.newer or any(one.done for one in done.changes) else None
    return 1 if any(one.verb == "conflict" and not one.done for one in done.changes) else 0


def _say_next(done: Any) -> str:
    if done.dry_run:
        return "nothing was changed"
    taken = sum(one.done for one in done.changes)
    took = f"took over {taken}" if taken else "nothing to take over"
    if any(one.verb == "removed" and not one.done for one in done.changes):
        retire = "--retire puts away what was removed; until then an export would write it again, and asks for --force"
        return f"{took}\n{retire}"
    usual = {"AGENTS.md": "agents-md", "CLAUDE.md": "claude-md", "SKILL.md": "skill"}
    folders = {".cursor": "cursor", ".windsurf": "windsurf", ".github": "copilot"}
    path = PurePath(done.path)
    to = usual.get(path.name) or folders.get(path.parts[0], "…")
    elsewhere = "" if done.path in usual else f" --path {done.path}"
    return f"{took}\nalma rules export --to {to}{elsewhere} brings the file up to date"
