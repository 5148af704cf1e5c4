"""`alma learn` and `alma retrieve`: the loop an agent runs."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import NotFoundError, ScopeError, ValidationError
from ..types.kinds import MemoryType, Outcome
from .draw import explanations, found_memories, learned_many, learned_one
from .learned import learned_since, tally
from .output import Output
from .parser import Subparsers, add_tags, command
from .reading import read, read_object
from .session import opened

if TYPE_CHECKING:
    from ..core import ALMA

_BATCH = 100
_REFUSED = (ValidationError, ScopeError, NotFoundError)
_LEARN = (
    "agent", "task", "outcome", "strategy_used", "task_type", "duration_ms", "error_message", "feedback",
    "retrieval_id", "user_id", "tags",
)  # fmt: skip
_RETRIEVE = (
    "task", "agent", "user_id", "top_k", "mode", "types", "tags", "since", "until", "as_of", "level", "progressive",
)  # fmt: skip
_TYPES = ", ".join(MemoryType)


def register(commands: Subparsers) -> None:
    _register_learn(commands)
    _register_retrieve(commands)


def _register_learn(commands: Subparsers) -> None:
    parser = command(
        commands,
        "learn",
        learn,
        "record how a task went, and say what was learned from it",
        """
        alma learn --agent ops --task "Deploy auth" --outcome success --strategy "Blue-green deployment"
        alma learn --agent ops --task "Deploy auth" --outcome failure --strategy "Rolling update" --error "timeout"
        alma learn --from outcomes.jsonl         # one object per line, with the arguments of ALMA.learn
        cat outcomes.jsonl | alma learn --agent ops --from -
        """,
    )
    parser.add_argument("--agent", metavar="A", help="who did it")
    parser.add_argument("--task", metavar="T", help="what was to be done")
    parser.add_argument("--outcome", metavar="O", help="success, partial or failure")
    parser.add_argument("--strategy", metavar="S", dest="strategy_used", help="how it was done")
    parser.add_argument("--task-type", metavar="TYPE", help="the sort of task, if you have names for them")
    parser.add_argument("--duration-ms", metavar="MS", type=int, help="how long it took")
    parser.add_argument("--error", metavar="E", dest="error_message", help="what went wrong")
    parser.add_argument("--feedback", metavar="F", help="what the user said about it")
    parser.add_argument("--retrieval-id", metavar="R", help="the retrieval whose memories were followed")
    parser.add_argument("--user", metavar="U", dest="user_id", help="for whom it was done")
    add_tags(parser)
    parser.add_argument(
        "--from", metavar="FILE", dest="source", help="JSON Lines of outcomes ('-': standard input); options fill gaps"
    )


def _register_retrieve(commands: Subparsers) -> None:
    parser = command(
        commands,
        "retrieve",
        retrieve,
        "find the memories that matter for a task",
        """
        alma retrieve "Deploy the billing service" --agent ops
        alma retrieve "Deploy the billing service" --agent ops --prompt >> prompt.md
        alma retrieve "Deploy the billing service" --agent ops --explain
        alma retrieve "What did Ana say about the budget last week?" --agent ops --type episode --level turn
        alma retrieve "Deploy the billing service" --agent ops --mode learning --since 2026-01-01
        """,
    )
    parser.add_argument("task", metavar="TASK", help="what is to be done")
    parser.add_argument("--agent", metavar="A", required=True, help="who will do it")
    parser.add_argument("--user", metavar="U", dest="user_id", help="for whom; their preferences always come along")
    parser.add_argument(
        "--top-k", metavar="K", type=int, help="at most so many of each type (default: 5, or as the mode and TASK want)"
    )
    _add_filters(parser)
    parser.add_argument("--prompt", action="store_true", help="print exactly the text for a prompt")
    parser.add_argument("--explain", action="store_true", help="show what each memory scored, factor by factor")
    parser.add_argument("--max-tokens", metavar="N", type=int, default=2000, help="the prompt's budget (default 2000)")


def _add_filters(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--mode", metavar="M", default="default", help="precise, broad, recent or learning (otherwise: default)"
    )
    parser.add_argument(
        "--type", metavar="TYPE", dest="types", action="append", help=f"only these; may be repeated: {_TYPES}"
    )
    parser.add_argument(
        "--tag", metavar="TAG", dest="tags", action="append", help="only what has one of these tags; may be repeated"
    )
    parser.add_argument("--since", metavar="TIME", help="not older than this, such as 2026-05-07 or 2026-05-07T14:30Z")
    parser.add_argument("--until", metavar="TIME", help="older than this")
    parser.add_argument("--as-of", metavar="TIME", help="what was known at this moment")
    parser.add_argument(
        "--level", metavar="L", default="session", help="of conversations: session (default) or turn, for single turns"
    )
    parser.add_argument("--progressive", action="store_true", help="a prompt of summaries with ids; `show` tells more")


# -- learn


def learn(args: argparse.Namespace, out: Output) -> int:
    given = {name: value for name in _LEARN if (value := getattr(args, name)) is not None}
    if args.source is not None:
        return _learn_file(args, out, given)
    missing = [option for name, option in _NEEDED.items() if name not in given]
    if missing:
        raise ValidationError(f"learn needs {', '.join(missing)} (or --from FILE)")
    with opened(args) as alma:
        since = alma.engine.clock()
        outcome = alma.learn(**given)
        learned = learned_since(alma, [outcome], since)
        count = tally(alma, outcome)
    if not out.answered({"outcome": outcome, "learned": learned, "strategy": count}):
        out.show(*learned_one(outcome, learned, count))
    return 0


_NEEDED = {"agent": "--agent", "task": "--task", "outcome": "--outcome", "strategy_used": "--strategy"}


@dataclass(frozen=True, slots=True)
class _Line:
    place: str
    given: Mapping[str, Any]


def _learn_file(args: argparse.Namespace, out: Output, given: Mapping[str, Any]) -> int:
    lines = list(_lines(args.source, given))
    outcomes: list[Outcome] = []
    with opened(args) as alma:
        since = alma.engine.clock()
        with out.progress("learning") as progress:
            for start in range(0, len(lines), _BATCH):
                outcomes += _learn_batch(alma, lines[start : start + _BATCH], start)
                progress(len(outcomes), len(lines))
        learned = learned_since(alma, outcomes, since)
    if not out.answered({"recorded": len(outcomes), "ids": [one.id for one in outcomes], "learned": learned}):
        out.show(*learned_many(outcomes, learned))
    return 0


def _learn_batch(alma: ALMA, batch: list[_Line], before: int) -> list[Outcome]:
    try:
        return alma.learn_many([line.given for line in batch])
    except _REFUSED:
        # Nothing of the batch was written. One by one it becomes clear which line it is.
        outcomes: list[Outcome] = []
        for line in batch:
            outcomes += _learn_line(alma, line, before + len(outcomes))
        return outcomes


def _learn_line(alma: ALMA, line: _Line, before: int) -> list[Outcome]:
    try:
        return alma.learn_many([line.given])
    except _REFUSED as error:
        kept = f"; the {before} before it were recorded, so go on from this line" if before else ""
        raise type(error)(f"{line.place}: {error}{kept}") from error


def _lines(source: str, given: Mapping[str, Any]) -> Iterator[_Line]:
    for number, text in enumerate(read(source).split("\n"), 1):
        if text.strip():
            place = f"{source}, line {number}"
            yield _Line(place, {**given, **read_object(place, text, "the arguments of learn")})


# -- retrieve


def retrieve(args: argparse.Namespace, out: Output) -> int:
    with opened(args) as alma:
        found = alma.retrieve(**{name: getattr(args, name) for name in _RETRIEVE})
    prompt = found.to_prompt(args.max_tokens)
    document = {
        "query": found.query,
        "agent": found.agent,
        "retrieval_id": found.retrieval_id,
        "retrieval_time_ms": round(found.retrieval_time_ms, 3),
        "total_items": found.total_items,
        "memories": list(found),
        "explanations": found.explain(),
        "prompt": prompt,
    }
    if out.answered(document):
        return 0
    if args.prompt:
        out.line(prompt)
        return 0
    out.show(*found_memories(found))
    if args.explain and found.total_items:
        out.show(*explanations(found))
    return 0
