"""What can be read without calling a tool: pages about the memory as a whole, and single memories."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import mcp_types as types

from ..errors import NotFoundError, unknown
from ..memory import ALMA
from ..schema import plain

SCHEME = "alma://"
_JSON, _MARKDOWN = "application/json", "text/markdown"
_NEWEST = 1000


@dataclass(frozen=True, slots=True)
class Page:
    """One thing, or with a `{variable}` at the end of its name one for each value."""

    name: str
    title: str
    about: str
    mime: str
    content: Callable[[ALMA, str], str]

    @property
    def variable(self) -> str:
        return self.name.partition("{")[2].rstrip("}")

    @property
    def definition(self) -> types.Resource:
        return types.Resource(
            uri=SCHEME + self.name, name=self.name, title=self.title, description=self.about, mime_type=self.mime
        )

    @property
    def template(self) -> types.ResourceTemplate:
        return types.ResourceTemplate(
            uri_template=SCHEME + self.name,
            name=self.name,
            title=self.title,
            description=self.about,
            mime_type=self.mime,
        )

    def match(self, path: str) -> str | None:
        """The value of the variable, '' where there is none; None when it is another page."""
        fixed = self.name.partition("{")[0]
        if not self.variable:
            return "" if path == self.name else None
        value = unquote(path.removeprefix(fixed))
        return value if path.startswith(fixed) and value and "/" not in value else None


def _playbook(alma: ALMA, agent: str) -> str:
    return alma.playbook(agent or None) or "Nothing was learned yet."


def _agents(alma: ALMA, _: str) -> str:
    counts: Mapping[str, int] = alma.get_stats()["by_agent"]
    declared = alma.engine.scopes.known()
    names = sorted({*counts, *declared})
    listed = [{"name": name, "memories": counts.get(name, 0), "declared": name in declared} for name in names]
    return _json({"project_id": alma.project_id, "agents": listed})


def _stats(alma: ALMA, _: str) -> str:
    return _json(plain(alma.get_stats()))


def _memory(alma: ALMA, memory_id: str) -> str:
    return _json(plain(alma.get(memory_id)))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1)


RESOURCES = (
    Page("playbook", "Playbook", "The rules, what works and what to avoid, as one page", _MARKDOWN, _playbook),
    Page("agents", "Agents", "Who remembers here, and how much", _JSON, _agents),
    Page("stats", "Statistics", "How much is remembered: by type, by status, by agent", _JSON, _stats),
)
TEMPLATES = (
    Page("playbook/{agent}", "An agent's playbook", "What one agent was taught and learned", _MARKDOWN, _playbook),
    Page("memory/{id}", "A memory", "One memory whole", _JSON, _memory),
)


def read(alma: ALMA, uri: str) -> types.ReadResourceResult:
    path = uri.removeprefix(SCHEME) if uri.startswith(SCHEME) else ""
    for page in (*RESOURCES, *TEMPLATES):
        value = page.match(path)
        if value is not None:
            content = types.TextResourceContents(uri=uri, mime_type=page.mime, text=page.content(alma, value))
            return types.ReadResourceResult(contents=[content])
    raise NotFoundError(unknown("resource", uri, [SCHEME + page.name for page in (*RESOURCES, *TEMPLATES)]))


def completions(alma: ALMA, argument: str, begun: str) -> list[str]:
    """What an argument of a prompt or of a template may be."""
    if argument == "agent":
        found = sorted({*alma.get_stats()["by_agent"], *alma.engine.scopes.known()})
    elif argument == "id":
        found = [one.id for one in alma.list(limit=_NEWEST)]
    else:
        found = []
    return [one for one in found if one.lower().startswith(begun.lower())]
