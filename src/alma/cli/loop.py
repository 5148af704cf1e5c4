"""`alma learn` and `alma retrieve`: the loop an agent runs."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..errors import ValidationError
from ..types.kinds import MemoryType, Result
from .batches import lines, sent
from .draw import explanations, found_memories, learned_many, learned_one
from .learned import learned_since, tally
from .opening import Later, opened
from .output import Output
from .parser import Subparsers, add_choice, add_tags, given, listed
from .reading import json_of

if TYPE_CHECKING:
    from ..api import many
    from ..api import memories as api
    from ..core import ALMA
else:
    api = Later("alma.api.memories")
    many = Later("alma.api.many")

_LEARN = (
    "agent", "task", "outcome", "strategy_used", "task_type", "duration_ms", "error_message", "feedback",
    "retrieval_id", "idempotency_key", "user_id", "shared", "tags",
)  # fmt: skip
_ALIKE = ("task", "agent", "user_id", "top_k", "mode", "types", "max_tokens")
_WHOLE = ("tags", "task_type", "since", "until", "as_of", "level", "progressive")
_SCOPED = {"workflow_id": "--workflow", "run_id": "--run", "node_id": "--node", "tenant_id": "--tenant"}
_TYPES = tuple(MemoryType)
MODES = ("default", "precise", "broad", "recent", "learning")
LEVELS = ("session", "turn")


def register(commands: Subparsers) -> None:
    _register_learn(commands)
    _register_retrieve(commands)


def _register_learn(commands: Subparsers) -> None:
    parser = listed(
        commands,
        "learn",
        learn,
        """
        alma learn --agent ops --task "Deploy auth" --outcome success --strategy "Blue-green deployment"
        alma learn --agent ops --task "Deploy auth" --outcome failure --strategy "Rolling update" --error "timeout"
        alma learn --from outcomes.jsonl         # one object per line, with the arguments of ALMA.learn
        cat outcomes.jsonl | alma learn --agent ops --from -
        """,
    )
    parser.add_argument("--agent", metavar="A", help="who did it")
    parser.add_argument("--task", metavar="T", help="what was to be done")
    add_choice(parser, "--outcome", tuple(Result), metavar="O")
    parser.add_argument("--strategy", metavar="S", dest="strategy_used", help="how it was done")
    parser.add_argument("--task-type", metavar="TYPE", help="the sort of task, if you have names for them")
    parser.add_argument("--duration-ms", metavar="MS", type=int, help="how long it took")
    parser.add_argument("--error", metavar="E", dest="error_message", help="what went wrong")
    parser.add_argument("--feedback", metavar="F", help="what the user said about it")
    parser.add_argument("--retrieval-id", metavar="R", help="the retrieval whose memories were followed")
    parser.add_argument("--idempotency-key", metavar="K", help="calls with the same key are counted once")
    parser.add_argument("--user", metavar="U", dest="user_id", help="for whom it was done; what is learned is theirs")
    parser.add_argument("--shared", action="store_true", default=None, help="let it count for what all users see")
    add_tags(parser)
    parser.add_argument("--metadata", metavar="JSON", help="a JSON object of your own")
    parser.add_argument(
        "--from", metavar="FILE", dest="source", help="JSON Lines of outcomes ('-': standard input); options fill gaps"
    )


def _register_retrieve(commands: Subparsers) -> None:
    parser = listed(
        commands,
        "retrieve",
        retrieve,
        """
        alma retrieve "Deploy the billing service" --agent ops
        alma retrieve "Deploy the billing service" --agent ops --prompt >> prompt.md
        alma retrieve "Deploy the billing service" --agent ops --explain
        alma retrieve "What did Ana say about the budget last week?" --agent ops --type episode --level turn
        alma retrieve "Deploy the billing service" --agent ops --mode learning --since 2026-01-01
        alma retrieve "Deploy the billing service" --agent ops --scope run --run release-7
        """,
    )
    parser.add_argument("task", metavar="TASK", help="what is to be done")
    parser.add_argument("--agent", metavar="A", required=True, help="who will do it")
    parser.add_argument("--user", metavar="U", dest="user_id", help="for whom; their preferences always come along")
    parser.add_argument(
        "--top-k", metavar="K", type=int, help="at most so many of each type (default: 5, or as the mode and TASK want)"
    )
    _add_filters(parser)
    _add_scope(parser)
    parser.add_argument("--prompt", action="store_true", help="print exactly the text for a prompt")
    parser.add_argument("--explain", action="store_true", help="show what each memory scored, factor by factor")
    parser.add_argument("--max-tokens", metavar="N", type=int, default=2000, help="the prompt's budget (default 2000)")


def _add_filters(parser: argparse.ArgumentParser) -> None:
    add_choice(parser, "--mode", MODES, "how widely to look", metavar="M", default="default")
    add_choice(parser, "--type", _TYPES, "only these; may be repeated", metavar="TYPE", dest="types", action="append")
    parser.add_argument(
        "--tag", metavar="TAG", dest="tags", action="append", help="only what has one of these tags; may be repeated"
    )
    parser.add_argument(
        "--task-type", metavar="T", help="of strategies, warnings and outcomes only those of this sort of task"
    )
    parser.add_argument("--since", metavar="TIME", help="not older than this, such as 2026-05-07 or 2026-05-07T14:30Z")
    parser.add_argument("--until", metavar="TIME", help="older than this")
    parser.add_argument("--as-of", metavar="TIME", help="what was known at this moment")
    add_choice(parser, "--level", LEVELS, "conversations whole, or their single turns", metavar="L", default="session")
    parser.add_argument("--progressive", action="store_true", help="a prompt of summaries with ids; `show` tells more")


def _add_scope(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("scopes, which fence what is found; other filters do not go with them")
    help = "how far to look, each holding those before it"
    add_choice(group, "--scope", SCOPES, help, metavar="S")
    group.add_argument("--workflow", metavar="W", dest="workflow_id", help="of this workflow")
    group.add_argument("--run", metavar="RUN", dest="run_id", help="of this run")
    group.add_argument("--node", metavar="NODE", dest="node_id", help="of this node")
    group.add_argument("--tenant", metavar="T", dest="tenant_id", help="whose memories")


SCOPES = ("node", "run", "workflow", "agent", "tenant", "global")


# -- learn


def learn(args: argparse.Namespace, out: Output) -> int:
    told = given(args, *_LEARN)
    if args.metadata is not None:
        told["metadata"] = json_of("metadata", args.metadata)
    if args.source is not None:
        if args.idempotency_key is not None:
            raise ValidationError("--idempotency-key names one outcome; with --from, give each line its own")
        return _learn_file(args, out, told)
    missing = [option for name, option in _NEEDED.items() if name not in told]
    if missing:
        raise ValidationError(f"learn needs {', '.join(missing)} (or --from FILE)")
    with opened(args) as alma:
        since = alma.engine.clock()
        outcome = api.learn(alma, **told)
        learned = learned_since(alma, [outcome], since)
        count = tally(alma, outcome)
    if not out.answered({"outcome": outcome, "learned": learned, "strategy": count}):
        out.show(*learned_one(outcome, learned, count))
    return 0


_NEEDED = {"agent": "--agent", "task": "--task", "outcome": "--outcome", "strategy_used": "--strategy"}


def _learn_file(args: argparse.Namespace, out: Output, told: Mapping[str, Any]) -> int:
    told_lines = list(lines(args.source, "the arguments of learn", told))
    with opened(args) as alma:
        since = alma.engine.clock()
        with out.progress("learning") as progress:
            outcomes = sent(told_lines, lambda batch: many.learn_many(alma, batch), progress)
        learned = learned_since(alma, outcomes, since)
    if not out.answered({"recorded": len(outcomes), "ids": [one.id for one in outcomes], "learned": learned}):
        out.show(*learned_many(outcomes, learned))
    return 0


# -- retrieve


def retrieve(args: argparse.Namespace, out: Output) -> int:
    with opened(args) as alma:
        found = _found(alma, args)
    if out.answered(found):
        return 0
    if args.prompt:
        out.line(found.prompt)
        return 0
    out.show(*found_memories(found))
    if args.explain and found.total_items:
        out.show(*explanations(found))
    return 0


def _found(alma: ALMA, args: argparse.Namespace) -> api.Found:
    asked = {name: getattr(args, name) for name in _ALIKE}
    fences = given(args, *_SCOPED)
    if args.scope is None:
        if fences:
            raise ValidationError(f"{_SCOPED[next(iter(fences))]} goes with --scope: {', '.join(SCOPES)}")
        found: api.Found = api.retrieve(alma, **asked, **{name: getattr(args, name) for name in _WHOLE})
        return found
    from ..api.workflows import retrieve_scoped

    _refuse_filters(args)
    scoped: api.Found = retrieve_scoped(alma, scope=args.scope, **asked, **fences)
    return scoped


def _refuse_filters(args: argparse.Namespace) -> None:
    """A scope is a fence of tags; what it cannot also hold to must not seem to hold."""
    said = {"tags": "--tag", "task_type": "--task-type", "since": "--since", "until": "--until", "as_of": "--as-of"}
    found = [said[name] for name in given(args, *said)]
    found += ["--level"] * (args.level != "session") + ["--progressive"] * args.progressive
    if found:
        raise ValidationError(f"{', '.join(found)} cannot be used together with --scope")
