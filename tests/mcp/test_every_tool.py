"""The official client lists and calls every tool, over both transports, in both eras of the protocol."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from mcp_types import CallToolResult
from tests.api.samples import BEFORE, SAMPLES, World, world

from alma import ALMA
from alma.operations import Effect, operations
from mcp import Client

from .conftest import Place, Site, Talk

pytestmark = pytest.mark.system


def offered(files: bool) -> list[str]:
    """The names of the tools; over HTTP there are none that work on files."""
    return [name for name, one in operations().items() if one.for_models and (files or not one.on_files)]


def order(files: bool) -> list[str]:
    """All of them in one world: what undoes something comes right after it, what erases comes last."""
    after: dict[str, list[str]] = {}
    for name, before in BEFORE.items():
        after.setdefault(before, []).append(name)
    doing = [name for name in offered(files) if name not in BEFORE]
    told = [one for name in doing for one in (name, *after.get(name, ())) if one in offered(files)]
    return sorted(told, key=lambda name: operations()[name].effect is Effect.ERASES)


async def everything(client: Client, world: World, *, files: bool = True) -> dict[str, CallToolResult]:
    listed = [tool.name for tool in (await client.list_tools()).tools]
    assert listed == [f"alma_{name}" for name in offered(files)]
    samples = SAMPLES if files else {**SAMPLES, "link_artifact": lambda w: {"run_id": "run-1", "location": "s3://b/a"}}
    return {name: await client.call_tool(f"alma_{name}", samples[name](world)) for name in order(files)}


def assert_well(results: dict[str, CallToolResult], *, may_approve: bool = False) -> None:
    if not may_approve:
        refused = results.pop("erase_user")
        assert refused.is_error
        assert "only a person" in refused.content[0].text
    for name, result in results.items():
        assert not result.is_error, (name, result.content)
        assert isinstance(result.structured_content, dict), name
        [content] = result.content
        assert content.type == "text", name
        assert content.text, name
    assert "Blue-green" in results["retrieve"].content[0].text
    assert results["retrieve"].structured_content["retrieval_id"] in results["retrieve"].content[0].text
    assert json.loads(results["stats"].content[0].text) == results["stats"].structured_content


def test_there_is_a_sample_for_each_tool() -> None:
    assert SAMPLES.keys() == operations().keys()


def test_over_stdio(place: Place) -> None:
    assert_well(place.over_stdio(lambda client: everything(client, place.world), "--tools", "all"))


def test_over_http(site: Site) -> None:
    assert_well(site.talk(lambda client: everything(client, site.place.world, files=False)))


def test_without_a_handshake(alma: ALMA, talk: Talk, tmp_path: Path) -> None:
    made = world(alma, str(tmp_path))
    results = talk(lambda client: everything(client, made), mode="auto", roots=lambda: [tmp_path])
    assert_well(results, may_approve=True)
