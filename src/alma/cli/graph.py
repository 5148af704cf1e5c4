"""`alma graph`: who and what is known, how they hang together, and since when."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..errors import NotFoundError
from .draw_graph import around, card, entities, figures, found_paths, suggestions
from .marks import counted
from .opening import Later, opened
from .output import Output
from .parser import Run, Subparsers, add_choice, command, given, grouped
from .shapes import line

if TYPE_CHECKING:
    from ..graph import operations as api
else:
    api = Later("alma.graph.operations")

_EMPTY = "the graph is empty; `alma graph build` reads memories into it"
DIRECTIONS = ("out", "in", "both")

_EXAMPLES = """
alma graph build
alma graph about Tom
alma graph path Maria Globex
"""


def register(commands: Subparsers) -> None:
    graph = grouped(commands, "graph", _EXAMPLES)
    _register_build(graph)
    _register_looking(graph)
    _register_walking(graph)
    _register_merging(graph)
    command(graph, "stats", stats, "say how much the graph holds, by type", "alma graph stats")


# -- build


def _register_build(graph: Subparsers) -> None:
    parser = command(
        graph,
        "build",
        build,
        "read whom and what memories name into the graph; done again it adds nothing",
        """
        alma graph build
        alma graph build --everything
        """,
    )
    parser.add_argument("--everything", action="store_true", help="read all again, and not only what changed")


def build(args: argparse.Namespace, out: Output) -> int:
    with opened(args) as alma, out.progress("reading") as progress:
        made = api.build_graph(alma, args.everything, progress=progress)
    if not out.answered(made):
        what = f"{counted(made.entities, 'entity', 'entities')} and {counted(made.relationships, 'relation')} are new"
        ended = f", {counted(made.ended, 'relation')} ended" if made.ended else ""
        anything = made.entities or made.relationships or made.ended
        read = f"read {counted(made.read, 'memory', 'memories')}"
        out.line(f"{read}: {what}{ended}" if anything else f"{read}: nothing is new")
        if made.reader != "local":
            out.line(f"reader: {made.reader}")
    return 0


# -- looking


def _one(graph: Subparsers, name: str, run: Run, help: str, examples: str) -> argparse.ArgumentParser:
    parser = command(graph, name, run, help, examples)
    parser.add_argument("name", metavar="NAME", help="a name, an alias or an id")
    return parser


def _add_limit(parser: argparse.ArgumentParser, most: int) -> None:
    parser.add_argument("--limit", metavar="N", type=int, default=most, help=f"at most so many (default {most})")


def _add_moment(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--as-of", metavar="TIME", help="as it was at this moment, such as 2026-05-07")


def _register_looking(graph: Subparsers) -> None:
    telling = _one(
        graph,
        "about",
        about,
        "tell what is known about somebody or something",
        """
        alma graph about Tom
        alma graph about "Acme Corp" --as-of 2026-02-01
        """,
    )
    _add_moment(telling)
    _add_limit(telling, 20)
    finding = command(
        graph,
        "find",
        find,
        "find whom and what the graph knows; without a name the newest",
        """
        alma graph find alice
        alma graph find --type person --limit 10
        """,
    )
    finding.add_argument("name", metavar="NAME", nargs="?", help="a name or an alias")
    finding.add_argument("--type", metavar="TYPE", help="only of this type, such as person, organisation or package")
    _add_limit(finding, 50)


def about(args: argparse.Namespace, out: Output) -> int:
    with opened(args) as alma, _known():
        found = api.about_entity(alma, args.name, args.as_of, args.limit)
    if not out.answered(found):
        out.show(*card(found))
    return 0


def find(args: argparse.Namespace, out: Output) -> int:
    with opened(args) as alma:
        found = api.find_entities(alma, args.name, args.type, args.limit)
        empty = not found and not api.graph_stats(alma).entities
    if not out.answered({"count": len(found), "entities": found}):
        out.show(line(_EMPTY, "dim") if empty else entities(found))
    return 0


@contextmanager
def _known() -> Iterator[None]:
    """Who is not known may only not have been read yet."""
    try:
        yield
    except NotFoundError as error:
        raise NotFoundError(f"{str(error).partition(';')[0]}; `alma graph build` reads what is new") from error


# -- walking


def _register_walking(graph: Subparsers) -> None:
    near = _one(
        graph,
        "around",
        walk,
        "show what can be reached from an entity, nearest first",
        """
        alma graph around alice
        alma graph around "Acme Corp" --depth 1 --direction in --type works_at
        """,
    )
    add_choice(near, "--direction", DIRECTIONS, "from it, to it, or both", metavar="D", default="both")
    _add_walk(near, 2, 100)
    between = command(
        graph,
        "path",
        path,
        "show how two entities hang together, the shortest way first",
        "alma graph path Maria Globex --depth 3",
    )
    between.add_argument("start", metavar="START", help="a name, an alias or an id")
    between.add_argument("end", metavar="END", help="another")
    _add_walk(between, 4, 10)


def _add_walk(parser: argparse.ArgumentParser, depth: int, limit: int) -> None:
    parser.add_argument("--depth", metavar="N", type=int, default=depth, help=f"at most so many steps ({depth})")
    parser.add_argument(
        "--type", metavar="TYPE", dest="types", action="append", help="only relations of this type; may be repeated"
    )
    _add_moment(parser)
    _add_limit(parser, limit)


_WALK = ("depth", "types", "as_of", "limit")


def walk(args: argparse.Namespace, out: Output) -> int:
    with opened(args) as alma, _known():
        found = api.traverse_graph(alma, args.name, **given(args, "direction", *_WALK))
    if not out.answered(found):
        out.show(*around(found))
    return 0


def path(args: argparse.Namespace, out: Output) -> int:
    with opened(args) as alma, _known():
        found = api.find_paths(alma, args.start, args.end, **given(args, *_WALK))
    if not out.answered({"count": len(found), "paths": found}):
        out.show(*found_paths(found, args.start, args.end))
    return 0


# -- merging


def _register_merging(graph: Subparsers) -> None:
    merging = command(
        graph,
        "merge",
        merge,
        "make several entities one; their relations and names become its own",
        'alma graph merge "Robert Smith" Bob "Bob S."',
    )
    merging.add_argument("keep", metavar="KEEP", help="a name, an alias or an id")
    merging.add_argument("others", metavar="OTHER", nargs="+", help="who or what is the same")
    suggesting = command(
        graph, "suggest", suggest, "say which entities may be one and the same", "alma graph suggest --limit 5"
    )
    _add_limit(suggesting, 20)


def merge(args: argparse.Namespace, out: Output) -> int:
    with opened(args) as alma, _known():
        kept = api.merge_entities(alma, args.keep, args.others)
    if not out.answered({"entity": kept}):
        out.show(entities([kept]))
    return 0


def suggest(args: argparse.Namespace, out: Output) -> int:
    with opened(args) as alma:
        found = api.suggest_merges(alma, args.limit)
    if not out.answered({"count": len(found), "suggestions": found}):
        out.show(*suggestions(found))
    return 0


def stats(args: argparse.Namespace, out: Output) -> int:
    with opened(args) as alma:
        found = api.graph_stats(alma)
    if not out.answered(found):
        out.show(*figures(found))
    return 0
