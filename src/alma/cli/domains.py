"""`alma domains`: what kind of work a memory is for."""

from __future__ import annotations

import argparse
import shlex
from typing import TYPE_CHECKING, Any

from ..errors import ValidationError
from .draw_domains import domains_table, schema_card
from .opening import Later, opened
from .output import Output
from .parser import Subparsers, command, given, grouped
from .reading import json_of, mapping

if TYPE_CHECKING:
    from ..api import domains as api
else:
    api = Later("alma.api.domains")

_EXAMPLES = """
alma domains list
alma domains show sales
alma domains create real_estate --from real_estate.yaml
alma domains use real_estate
"""


def register(commands: Subparsers) -> None:
    domains = grouped(commands, "domains", _EXAMPLES)
    command(domains, "list", list_domains, "list the presets and the schemas created here", "alma domains list")
    showing = command(
        domains, "show", show, "show one schema: its entities, relationships and categories", "alma domains show sales"
    )
    showing.add_argument("name", metavar="NAME")
    _register_create(domains)
    using = command(
        domains,
        "use",
        use,
        "let this project follow a schema from now on: it gates what may be learned",
        "alma domains use sales",
    )
    using.add_argument("name", metavar="NAME")
    deleting = command(
        domains,
        "delete",
        delete,
        "take a schema that was created here off the list; projects that follow it go on doing so",
        "alma domains delete real_estate --yes",
    )
    deleting.add_argument("name", metavar="NAME")
    deleting.add_argument("--yes", action="store_true", help="do not ask")


def list_domains(args: argparse.Namespace, out: Output) -> int:
    with opened(args) as alma:
        found = api.list_domains(alma)
    if not out.answered({"count": len(found), "domains": found}):
        out.show(domains_table(found))
    return 0


def show(args: argparse.Namespace, out: Output) -> int:
    with opened(args) as alma:
        schema = api.get_domain(alma, args.name)
    if not out.answered({"domain": schema}):
        out.show(*schema_card(schema))
    return 0


# -- create


def _register_create(domains: Subparsers) -> None:
    parser = command(
        domains,
        "create",
        create,
        "create a schema, from options or a file; one of that name makes way",
        """
        alma domains create real_estate --entity house:rooms,price --entity visit:date \\
            --relationship shows:visit:house --learn pricing --exclude personal_data
        alma domains create real_estate --from real_estate.yaml --decay-days 60
        """,
    )
    parser.add_argument("name", metavar="NAME")
    parser.add_argument(
        "--from", metavar="FILE", dest="source", help="YAML or JSON with the schema's parts; options stand before it"
    )
    parser.add_argument("--description", metavar="TEXT", help="what the domain is about")
    parser.add_argument(
        "--entity",
        metavar="NAME[:ATTR,…]",
        dest="entities",
        action="append",
        help="a sort of thing with its attributes; may be repeated",
    )
    parser.add_argument(
        "--relationship",
        metavar="NAME:SOURCE:TARGET",
        dest="relationships",
        action="append",
        help="how one sort of thing stands to another; may be repeated",
    )
    _add_gates(parser)


def _add_gates(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--learn",
        metavar="CATEGORY",
        dest="learning_categories",
        action="append",
        help="what may be learned; without any, everything; may be repeated",
    )
    parser.add_argument(
        "--exclude",
        metavar="CATEGORY",
        dest="excluded_categories",
        action="append",
        help="what may not be learned; may be repeated",
    )
    parser.add_argument(
        "--min-occurrences",
        metavar="N",
        dest="min_occurrences_for_heuristic",
        type=int,
        help="so many similar outcomes make a strategy (default 3)",
    )
    parser.add_argument(
        "--decay-days",
        metavar="DAYS",
        dest="confidence_decay_days",
        type=float,
        help="after so many days unused a memory counts half as recent (default 30)",
    )
    parser.add_argument("--metadata", metavar="JSON", help="a JSON object of your own")


_PARTS = (
    "description", "learning_categories", "excluded_categories", "min_occurrences_for_heuristic",
    "confidence_decay_days",
)  # fmt: skip


_FOLLOW = "let this project follow it"


def create(args: argparse.Namespace, out: Output) -> int:
    parts = {**_written(args), **_told(args)}
    with opened(args) as alma:
        schema = api.create_domain(alma, args.name, **parts)
        followed = any(one.in_use and one.name == schema.name for one in api.list_domains(alma))
    if not out.answered({"domain": schema}):
        out.show(*schema_card(schema))
        still = "this project still follows it as it was; let it follow this one" if followed else _FOLLOW
        out.line(f"\n{still}: alma domains use {shlex.quote(schema.name)}")
    return 0


def _written(args: argparse.Namespace) -> dict[str, Any]:
    """What a file says; its parts are called as those of the operation."""
    if args.source is None:
        return {}
    found = mapping(args.source, "a schema's parts, such as entity_types and learning_categories")
    name = found.pop("name", args.name)
    if name != args.name:
        raise ValidationError(f"{args.source} is of {name!r}, not of {args.name!r}")
    known = (*_PARTS, "entity_types", "relationship_types", "metadata")
    for part in found:
        if part not in known:
            raise ValidationError(f"{args.source}: unknown part {part!r}. Valid: {', '.join(known)}.")
    return found


def _told(args: argparse.Namespace) -> dict[str, Any]:
    told = given(args, *_PARTS)
    if args.entities is not None:
        told["entity_types"] = [_entity(one) for one in args.entities]
    if args.relationships is not None:
        told["relationship_types"] = [_relationship(one) for one in args.relationships]
    if args.metadata is not None:
        told["metadata"] = json_of("metadata", args.metadata)
    return told


def _entity(said: str) -> dict[str, Any]:
    name, _, attributes = said.partition(":")
    return {"name": name, "attributes": [one.strip() for one in attributes.split(",") if one.strip()]}


def _relationship(said: str) -> dict[str, Any]:
    parts = said.split(":")
    if len(parts) != 3:
        raise ValidationError(f"--relationship {said} is no NAME:SOURCE:TARGET, such as shows:visit:house")
    return dict(zip(("name", "source_type", "target_type"), parts, strict=True))


# -- follow and remove


def use(args: argparse.Namespace, out: Output) -> int:
    with opened(args) as alma:
        schema = api.use_domain(alma, args.name)
        project = alma.project_id
    if not out.answered({"project_id": project, "domain": schema}):
        gates = ", ".join(schema.learning_categories) or "everything"
        out.line(f"project {project!r} follows {schema.name!r} from now on; what may be learned: {gates}")
    return 0


def delete(args: argparse.Namespace, out: Output) -> int:
    with opened(args) as alma:
        api.get_domain(alma, args.name)
        if not (args.yes or out.confirm(f"Take the schema {args.name!r} off the list?")):
            out.line("nothing was deleted")
            return 0
        gone = api.delete_domain(alma, args.name)
    if not out.answered({"deleted": gone.name}):
        out.line(f"deleted {gone.name}")
    return 0
