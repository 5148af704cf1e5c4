"""The tools: one for each operation, named `alma_` and its name."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import mcp_types as types

from ..callers import Roots, limit_call
from ..errors import ConfigError, unknown
from ..memory import ALMA
from ..operations import PROGRESS, Effect, Operation, operations
from ..schema import RESULT, shape_answer

PREFIX = "alma_"
ALL, CORE, DEFAULT = "all", "core", "default"
CORE_NAMES = "retrieve learn search add_preference add_knowledge add_rule update record_feedback".split()
"""What an agent cannot do without: recall, learn, tell, look up, correct, judge."""
DEFAULT_NAMES = [
    *CORE_NAMES,
    *"record_usage forget stats health start_session end_session quick_reload".split(),
    *"create_work_item update_progress get_next_item checkpoint resume merge_states workflow_learn".split(),
    *"link_artifact get_artifacts cleanup_checkpoints retrieve_scoped create_domain assess_confidence".split(),
]
"""The small set, and one tool or a few for each thing that alma does. A client puts all it lists into every chat."""
_SETS = {CORE: CORE_NAMES, DEFAULT: DEFAULT_NAMES}

Report = Callable[[int, int], None]

_QUOTED = re.compile(r"`(\w+)`|\b(\w+_\w+)\b")


@dataclass(frozen=True)
class OperationTool:
    """An operation as a client sees it, and how it is called."""

    operation: Operation
    defaults: Mapping[str, Any]
    roots: Roots
    may_approve: bool
    """Whether a person stands behind the calls, and may take outside content for their own words."""
    describes_result: bool = False
    """Whether the schema of its result is listed, too. In a chat that takes more room than all else."""

    @property
    def name(self) -> str:
        return f"{PREFIX}{self.operation.name}"

    @cached_property
    def definition(self) -> types.Tool:
        effect = self.operation.effect
        schema = self.operation.input_schema(self.defaults)
        for member in schema["properties"].values():
            if "description" in member:
                member["description"] = _rename_operations(member["description"])
        return types.Tool(
            name=self.name,
            title=self.operation.name.replace("_", " ").capitalize(),
            description=_rename_operations(self.operation.description),
            input_schema=schema,
            output_schema=self.operation.output_schema() if self.describes_result else None,
            annotations=types.ToolAnnotations(
                read_only_hint=effect is Effect.READS,
                destructive_hint=effect is Effect.ERASES,
                idempotent_hint=self.operation.idempotent,
                open_world_hint=False,
            ),
        )

    def call(
        self, get_memory: Callable[[], ALMA], arguments: Mapping[str, Any], report: Report | None = None
    ) -> types.CallToolResult:
        """Check the arguments and run the operation within what this caller may do. `report` is for long ones.

        A model reads a text where the answer is one, else compact JSON.
        """
        checked = self.operation.check(arguments, self.defaults)
        allowed = limit_call(self.operation, checked, self.roots, self.may_approve)
        progress = {} if report is None else {PROGRESS: report}
        answer = shape_answer(self.operation.returns, self.operation.run(get_memory(), **allowed, **progress))
        if answer.keys() == {"text"}:
            text = str(answer["text"]) or "Nothing is remembered yet."
        elif "prompt" in answer:
            ids = [f"{name}: {answer[name]}" for name in ("session_id", "retrieval_id") if answer.get(name)]
            text = "\n\n".join([answer["prompt"] or "Nothing relevant is remembered.", *ids])
        else:
            value = answer[RESULT] if answer.keys() == {RESULT} else answer
            text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)], structured_content=answer)


def select_tools(
    wanted: str = DEFAULT,
    agent: str | None = None,
    *,
    roots: Roots = (),
    may_approve: bool = False,
) -> dict[str, OperationTool]:
    """Return the tools by name: 'default', 'core', 'all', or names with commas between them.

    `agent` need not be named in calls then. Calls over the network, without `roots`, get no tools that work on files.
    'all' is for programs: results are described, too.
    """
    listed = {name: one for name, one in operations().items() if one.for_models}
    names = list(listed)
    if wanted != ALL:
        # A set may be asked for with a few more beside it.
        words = [one.strip().removeprefix(PREFIX) for one in wanted.split(",")]
        names = [name for one in words for name in _SETS.get(one, [one])]
    for name in names:
        if name not in listed:
            raise ConfigError(unknown("tool", name, [ALL, DEFAULT, CORE, *listed]))
    tools = [
        OperationTool(
            listed[name], {"agent": agent} if agent else {}, roots, may_approve, describes_result=wanted == ALL
        )
        for name in dict.fromkeys(names)
        if roots is not None or not listed[name].on_files
    ]
    return {tool.name: tool for tool in tools}


def _rename_operations(text: str) -> str:
    """Return a description with the names of tools for those of other operations."""

    def rename(word: re.Match[str]) -> str:
        name = word[1] or word[2]
        return word[0].replace(name, f"{PREFIX}{name}") if name in operations() else word[0]

    return _QUOTED.sub(rename, text)
