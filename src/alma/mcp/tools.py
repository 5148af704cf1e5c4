"""The tools: one for each operation, named `alma_` and its name."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import mcp_types as types

from ..callers import Roots, refuse_paths, refuse_vouching, relay_sources
from ..errors import ConfigError, unknown
from ..memory import ALMA
from ..operations import PROGRESS, Effect, Operation, operations
from ..schema import RESULT, Schema, has_prompt, is_object, plain, shorten_answer

PREFIX = "alma_"
ALL, CORE, DEFAULT = "all", "core", "default"
CORE_NAMES = (
    "retrieve",
    "learn",
    "search",
    "add_preference",
    "add_knowledge",
    "add_rule",
    "update",
    "record_feedback",
)
"""What an agent cannot do without: recall, learn, tell, look up, correct, judge."""
DEFAULT_NAMES = (
    *CORE_NAMES,
    "record_usage",
    "forget",
    "stats",
    "health",
    "start_session",
    "end_session",
    "quick_reload",
    "create_work_item",
    "update_progress",
    "get_next_item",
    "checkpoint",
    "resume",
    "merge_states",
    "workflow_learn",
    "link_artifact",
    "get_artifacts",
    "cleanup_checkpoints",
    "retrieve_scoped",
    "create_domain",
    "assess_confidence",
)
"""The small set, and one tool or a few for each thing that alma does. A client puts all it lists into every chat."""
_SETS = {CORE: CORE_NAMES, DEFAULT: DEFAULT_NAMES}

Report = Callable[[int, int], None]

_QUOTED = re.compile(r"`(\w+)`|\b(\w+_\w+)\b")


@dataclass(frozen=True)
class Offer:
    """A tool as a client sees it, and how it is called."""

    operation: Operation
    defaults: Mapping[str, Any]
    roots: Roots | None
    """Where files may be used; None: those who call are on other machines, and name no files of this one."""
    may_approve: bool
    """Whether a person stands behind the calls, and may take outside content for their own words."""
    describes_result: bool = False
    """Whether the schema of its result is listed, too. In a chat that takes more room than all else."""

    @property
    def name(self) -> str:
        return f"{PREFIX}{self.operation.name}"

    @cached_property
    def input_schema(self) -> Schema:
        return _renamed(self.operation.input_schema(self.defaults))

    @cached_property
    def definition(self) -> types.Tool:
        effect = self.operation.effect
        return types.Tool(
            name=self.name,
            title=self.operation.name.replace("_", " ").capitalize(),
            description=_naming_tools(self.operation.description),
            input_schema=self.input_schema,
            output_schema=self.operation.output_schema() if self.describes_result else None,
            annotations=types.ToolAnnotations(
                read_only_hint=effect is Effect.READS,
                destructive_hint=effect is Effect.ERASES,
                idempotent_hint=self.operation.idempotent,
                open_world_hint=False,
            ),
        )

    def check(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        made = self.operation.check(arguments, self.defaults)
        if not self.may_approve:
            made = refuse_vouching(self.operation, relay_sources(self.operation, made))
        return refuse_paths(self.operation, made) if self.roots is None else self.roots.confine(self.operation, made)

    def call(self, alma: ALMA, arguments: Mapping[str, Any], report: Report | None = None) -> types.CallToolResult:
        """`arguments` as `check` gave them."""
        more = {PROGRESS: report} if self.operation.is_long and report is not None else {}
        made = plain(self.operation.run(alma, **arguments, **more))
        structured = _structured(self.operation.returns, made)
        return types.CallToolResult(content=[text(told(structured))], structured_content=structured)


def _structured(kind: Any, made: Any) -> Schema:
    if has_prompt(kind):
        return shorten_answer(made)
    return made if is_object(kind) else {RESULT: made}


def offered(
    wanted: str = DEFAULT,
    agent: str | None = None,
    *,
    roots: Roots | None = Roots(),  # noqa: B008 - immutable
    may_approve: bool = False,
) -> dict[str, Offer]:
    """The tools by name: 'default', 'core', 'all', or names with commas between them.

    `agent` need not be named in calls then. `roots` are the folders in which files may be used; None means that calls
    come over the network, which get no tools that work on files. 'all' is for programs: results are described, too.
    """
    defaults = {"agent": agent} if agent else {}
    chosen = [one for one in _chosen(wanted) if not (roots is None and one.on_files)]
    offers = [Offer(one, defaults, roots, may_approve, describes_result=wanted == ALL) for one in chosen]
    return {offer.name: offer for offer in offers}


def _chosen(wanted: str) -> Iterable[Operation]:
    listed = {name: one for name, one in operations().items() if one.for_models}
    if wanted == ALL:
        return listed.values()
    named = [one.strip().removeprefix(PREFIX) for one in wanted.split(",")]
    # A set may be asked for with a few more beside it.
    names = [name for one in named for name in _SETS.get(one, [one])]
    for name in names:
        if name not in listed:
            raise ConfigError(unknown("tool", name, [ALL, DEFAULT, CORE, *listed]))
    return [listed[name] for name in dict.fromkeys(names)]


def told(made: Mapping[str, Any]) -> str:
    """What a model reads: a text where there is one, else compact JSON."""
    if made.keys() == {"text"}:
        return str(made["text"]) or "Nothing is remembered yet."
    if "prompt" in made:
        ids = [f"{name}: {made[name]}" for name in ("session_id", "retrieval_id") if made.get(name)]
        return "\n\n".join([made["prompt"] or "Nothing relevant is remembered.", *ids])
    return json.dumps(made[RESULT] if made.keys() == {RESULT} else made, ensure_ascii=False, separators=(",", ":"))


def text(value: str) -> types.TextContent:
    return types.TextContent(type="text", text=value)


def _renamed(schema: Schema) -> Schema:
    members = schema["properties"]
    named = {
        name: {**one, "description": _naming_tools(one["description"])} if "description" in one else one
        for name, one in members.items()
    }
    return {**schema, "properties": named}


def _naming_tools(told: str) -> str:
    """Descriptions speak of other operations; here those are tools."""

    def named(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        if name not in operations():
            return found[0]
        return found[0].replace(name, f"{PREFIX}{name}")

    return _QUOTED.sub(named, told)
