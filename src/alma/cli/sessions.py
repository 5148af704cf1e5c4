"""`alma session`, `alma initialize` and `alma wake-up`: how an agent's day begins and ends."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..errors import ValidationError
from .draw_sessions import begun, handed_over, initialized, opened_and_ended, session_card
from .opening import Later, opened
from .output import Output
from .parser import Subparsers, add_choice, command, given, grouped, listed
from .reading import json_of, read

if TYPE_CHECKING:
    from ..api import sessions as api
    from ..core import ALMA
else:
    api = Later("alma.api.sessions")

OUTCOMES = ("success", "failure", "interrupted")

_EXAMPLES = """
alma session start --agent helena --goal "Complete auth testing"
alma session note --agent helena --action "tested the login form" --blocker "staging is down"
alma session end --agent helena --next "Test refresh tokens"
alma session reload --agent helena >> prompt.md
"""


def register(commands: Subparsers) -> None:
    session = grouped(commands, "session", _EXAMPLES)
    _register_start(session)
    _register_note(session)
    _register_end(session)
    _register_looking_back(session)
    _register_initialize(commands)
    _register_wake_up(commands)


def _add_agent(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--agent", metavar="A", required=True, help="whose session it is")


# -- start


def _register_start(session: Subparsers) -> None:
    parser = command(
        session,
        "start",
        start,
        "begin a session, and show what its agent should know",
        """
        alma session start --agent helena --goal "Complete auth testing"
        alma session start --agent helena --workspace ../shop --json
        """,
    )
    _add_agent(parser)
    parser.add_argument("--goal", metavar="TEXT", default="", help="what the session is for")
    parser.add_argument("--user", metavar="U", dest="user_id", help="the user it is for")
    _add_workspace(parser)


def _add_workspace(parser: argparse.ArgumentParser) -> None:
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--workspace", metavar="DIR", default=".", help="the folder of code it is about (default: this)")
    where.add_argument("--no-workspace", action="store_const", const=None, dest="workspace", help="it is about no code")


def start(args: argparse.Namespace, out: Output) -> int:
    with opened(args) as alma:
        context = api.start_session(alma, args.agent, args.goal, args.user_id, args.workspace)
        now = alma.engine.clock()
    if not out.answered(context):
        out.show(*begun(context, now))
    return 0


# -- along the way, and the end


def _register_note(session: Subparsers) -> None:
    parser = command(
        session,
        "note",
        note,
        "note what happened, so that it is known even if the session never ends",
        """
        alma session note --agent helena --action "tested the login form" --outcome success
        alma session note --agent helena --decision "Keep tokens in memory only" --file src/auth.py
        alma session note --agent helena --resolved "staging is down" --test test_login=pass --log
        """,
    )
    _add_session(parser)
    parser.add_argument("--action", metavar="TEXT", help="what was done")
    add_choice(parser, "--outcome", OUTCOMES, "how the action went", metavar="O")
    _add_lists(parser)
    parser.add_argument(
        "--resolved", metavar="TEXT", action="append", help="a blocker or risk that is gone; may be repeated"
    )
    parser.add_argument("--goal", metavar="TEXT", help="another goal")
    parser.add_argument("--log", action="store_true", help="also keep how far the work is, for `alma progress --log`")


def _register_end(session: Subparsers) -> None:
    parser = command(
        session,
        "end",
        end,
        "end a session with what the next one should know; what is not said is taken from the notes",
        """
        alma session end --agent helena
        alma session end ses_01k… --agent helena --last-action "ran the tests" --outcome failure --next "Mend them"
        """,
    )
    _add_session(parser)
    parser.add_argument("--last-action", metavar="TEXT", help="the last thing that was done")
    add_choice(parser, "--outcome", OUTCOMES, "how it went", metavar="O", dest="last_outcome")
    _add_lists(parser)
    parser.add_argument("--goal", metavar="TEXT", dest="current_goal", help="the goal as it stands now")
    parser.add_argument("--metadata", metavar="JSON", help="a JSON object of your own")


def _add_session(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "id", metavar="ID", nargs="?", help="the session; may be left out when the agent has exactly one open"
    )
    _add_agent(parser)


def _add_lists(parser: argparse.ArgumentParser) -> None:
    for option, name, help in (
        ("--decision", "decisions", "what was decided"),
        ("--file", "active_files", "a file that is worked on"),
        ("--blocker", "blockers", "what is in the way"),
        ("--next", "next_steps", "what comes next, in place of what was said before"),
        ("--risk", "risk_flags", "what may go wrong"),
    ):
        parser.add_argument(option, metavar="TEXT", dest=name, action="append", help=f"{help}; may be repeated")
    parser.add_argument(
        "--test", metavar="NAME=pass|fail", dest="tests", action="append", help="how a test went; may be repeated"
    )
    parser.add_argument(
        "--confidence", metavar="C", dest="confidence_level", type=float, help="0 to 1: how well it is going"
    )


_LISTS = ("active_files", "blockers", "next_steps", "risk_flags", "confidence_level")


def _told(args: argparse.Namespace, *more: str) -> dict[str, Any]:
    told = given(args, *_LISTS, *more)
    if args.tests is not None:
        told["test_status"] = _tests(args.tests)
    return told


def _tests(said: Sequence[str]) -> dict[str, bool]:
    found = {}
    for one in said:
        name, _, went = one.rpartition("=")
        if not name or went not in ("pass", "fail"):
            raise ValidationError(f"--test {one} is no NAME=pass or NAME=fail")
        found[name] = went == "pass"
    return found


def note(args: argparse.Namespace, out: Output) -> int:
    told = _told(args, "action", "outcome", "decisions", "resolved", "goal")
    if not told and not args.log:
        raise ValidationError("there is nothing to note: pass --action, --decision, --file, --blocker, --next, …")
    with opened(args) as alma:
        id = _meant(alma, args, out)
        session = api.update_session(alma, args.agent, id, **told)
        log = _logged(alma, args, id) if args.log else None
        now = alma.engine.clock()
    if not out.answered({"session": session, **({"log": log} if log else {})}):
        out.line(f"noted in {id}")
        out.show(*session_card(session, now))
    return 0


def _logged(alma: ALMA, args: argparse.Namespace, id: str) -> object:
    from ..api.work import log_progress

    return log_progress(alma, args.agent, id, args.action or "")


def end(args: argparse.Namespace, out: Output) -> int:
    told = _told(args, "last_action", "last_outcome", "current_goal")
    if args.decisions is not None:
        told["key_decisions"] = args.decisions
    if args.metadata is not None:
        told["metadata"] = json_of("metadata", args.metadata)
    with opened(args) as alma:
        id = _meant(alma, args, out)
        handoff = api.end_session(alma, args.agent, id, **told)
        now = alma.engine.clock()
    if not out.answered({"handoff": handoff}):
        out.line(f"ended {id}; the next session starts with:")
        out.show(*handed_over(handoff, now))
    return 0


def _meant(alma: ALMA, args: argparse.Namespace, out: Output) -> str:
    """The session that was named, or the only one that is open."""
    if args.id is not None:
        return str(args.id)
    found = api.open_sessions(alma, args.agent)
    if not found:
        raise ValidationError(
            f"{args.agent} has no open session; `alma session start --agent {shlex.quote(args.agent)}` begins one"
        )
    if len(found) > 1:
        known = ", ".join(f"{one.id} ({one.goal or 'no goal'})" for one in found)
        raise ValidationError(f"{args.agent} has {len(found)} open sessions; say which: {known}")
    return str(found[0].id)


# -- looking back


def _register_looking_back(session: Subparsers) -> None:
    reloading = command(
        session,
        "reload",
        reload,
        "print where an agent left off, in a few hundred tokens, for a prompt",
        "alma session reload --agent helena --max-tokens 300",
    )
    _add_agent(reloading)
    reloading.add_argument("--max-tokens", metavar="N", type=int, default=400, help="the budget (default 400)")
    reloading.add_argument("--user", metavar="U", dest="user_id", help="the user it is for")
    listing = command(
        session,
        "list",
        list_sessions,
        "list an agent's open sessions and how its latest ones ended",
        "alma session list --agent helena --limit 10",
    )
    _add_agent(listing)
    listing.add_argument("--limit", metavar="N", type=int, default=5, help="at most so many that ended (default 5)")
    showing = command(
        session, "show", show, "show one session as it stands", "alma session show ses_01k… --agent helena"
    )
    showing.add_argument("id", metavar="ID", help="the session")
    _add_agent(showing)


def reload(args: argparse.Namespace, out: Output) -> int:
    with opened(args) as alma:
        found = api.quick_reload(alma, args.agent, args.max_tokens, args.user_id)
    if not out.answered(found):
        out.line(found.text)
    return 0


def list_sessions(args: argparse.Namespace, out: Output) -> int:
    with opened(args) as alma:
        going_on = api.open_sessions(alma, args.agent)
        previous = api.previous_sessions(alma, args.agent, args.limit)
        now = alma.engine.clock()
    if not out.answered({"open": going_on, "previous": previous}):
        out.show(*opened_and_ended(going_on, previous, now))
    return 0


def show(args: argparse.Namespace, out: Output) -> int:
    with opened(args) as alma:
        session = api.get_session(alma, args.agent, args.id)
        now = alma.engine.clock()
    if not out.answered({"session": session}):
        out.show(*session_card(session, now))
    return 0


# -- initialize and wake up


def _register_initialize(commands: Subparsers) -> None:
    parser = listed(
        commands,
        "initialize",
        initialize,
        """
        alma initialize "Test the login form, then mend the flaky selectors" --agent helena
        alma initialize - --agent helena --prompt < request.md > prompt.md
        """,
    )
    parser.add_argument("user_prompt", metavar="PROMPT", help="what the person asked for ('-': standard input)")
    parser.add_argument("--agent", metavar="A", required=True, help="who will do it")
    parser.add_argument("--user", metavar="U", dest="user_id", help="the user it is for")
    parser.add_argument("--domain", metavar="NAME", help="a domain schema whose item types fit")
    parser.add_argument("--no-expand", action="store_true", help="make no work items of it")
    _add_workspace(parser)
    parser.add_argument("--prompt", action="store_true", help="print exactly the text for a prompt")
    parser.add_argument("--max-tokens", metavar="N", type=int, default=2000, help="the prompt's budget (default 2000)")


def initialize(args: argparse.Namespace, out: Output) -> int:
    prompt = read("-") if args.user_prompt == "-" else args.user_prompt
    with opened(args) as alma:
        made = api.initialize(
            alma,
            args.agent,
            prompt,
            auto_expand=not args.no_expand,
            user_id=args.user_id,
            domain=args.domain,
            workspace=args.workspace,
            max_tokens=args.max_tokens,
        )
        now = alma.engine.clock()
    if out.answered(made):
        return 0
    if args.prompt:
        out.line(made.prompt)
    else:
        out.show(*initialized(made, now))
    return 0


def _register_wake_up(commands: Subparsers) -> None:
    parser = listed(
        commands,
        "wake-up",
        wake_up,
        """
        alma wake-up --agent helena > prompt.md
        alma wake-up --agent helena --topic "login" --deep
        """,
    )
    parser.add_argument("--agent", metavar="A", required=True, help="who wakes up")
    parser.add_argument("--user", metavar="U", dest="user_id", help="the user it serves")
    parser.add_argument("--topic", metavar="T", help="instead: what is known about this")
    parser.add_argument("--deep", action="store_true", help="with --topic: everything, far-fetched things too")


def wake_up(args: argparse.Namespace, out: Output) -> int:
    if args.deep and args.topic is None:
        raise ValidationError("--deep goes with --topic")
    with opened(args) as alma:
        if args.topic is None:
            found = api.wake_up(alma, args.agent, args.user_id)
        else:
            found = api.recall_topic(alma, args.agent, args.topic, args.user_id, args.deep)
    if not out.answered(found):
        out.line(found.text)
    return 0
