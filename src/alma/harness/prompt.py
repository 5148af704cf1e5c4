"""The prompt of a run: who, where, what, and what was learned before."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .types import Agent, Context, Setting, Tool


def build(setting: Setting, agent: Agent, context: Context, knowledge: str) -> str:
    parts = [
        f"You are {agent.name}. {agent.role}".strip() if agent.role else "",
        _section("Setting", _setting(setting, context)),
        _section("Your Task", [context.task.strip(), *_about(context)]),
        _section("Knowledge from Past Runs", [knowledge] if knowledge else []),
    ]
    return "\n\n".join(part for part in parts if part)


def _section(heading: str, lines: Iterable[str]) -> str:
    body = "\n".join(lines)
    return f"## {heading}\n{body}" if body else ""


def _setting(setting: Setting, context: Context) -> Iterator[str]:
    yield from _list("Environment", (f"{name}: {value}" for name, value in setting.environment.items()))
    yield from _list("Tools", (_tool(tool) for tool in setting.tools))
    yield from _list("Constraints", (*setting.constraints, *context.constraints))


def _tool(tool: Tool | str) -> str:
    if isinstance(tool, str):
        return tool
    return f"{tool.name}: {tool.description}" if tool.description else tool.name


def _about(context: Context) -> Iterator[str]:
    if context.project_id:
        yield f"Project: {context.project_id}"
    if context.strategy:
        yield f"How: {context.strategy}"
    yield from _list("Inputs", _inputs(context.inputs))


def _inputs(inputs: Mapping[str, Any]) -> Iterator[str]:
    for name, value in inputs.items():
        yield f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)}"


def _list(heading: str, items: Iterable[str]) -> Iterator[str]:
    lines = [f"- {item}" for item in items]
    if lines:
        yield from (f"{heading}:", *lines)
