"""Calls of the workflow tools with the arguments of alma-memory 0.x."""

from __future__ import annotations

import json
from typing import Any

from alma import ALMA
from mcp import Client

from .conftest import Talk


def run_calls(talk: Talk, *calls: tuple[str, dict[str, Any]]) -> list[Any]:
    """Return the answer of each call, or the text of its error."""

    async def work(client: Client) -> list[Any]:
        answers = []
        for name, arguments in calls:
            result = await client.call_tool(name, arguments)
            answers.append(result.content[0].text if result.is_error else result.structured_content)
        return answers

    answers: list[Any] = talk(work)
    return answers


def test_checkpoints_continue_a_branch_from_their_parent(talk: Talk) -> None:
    place = {"run_id": "run-1", "node_id": "plan", "state": {"step": 1}}
    [first] = run_calls(talk, ("alma_checkpoint", {**place, "parent_checkpoint_id": None, "branch_id": None}))
    fork = {**place, "branch_id": "b", "state": {"step": 2}, "parent_checkpoint_id": first["id"]}
    again = {**place, "skip_if_unchanged": True}
    anew = {**place, "skip_if_unchanged": False}
    wrong = {**place, "parent_checkpoint_id": "cp-9"}
    names = [("alma_checkpoint", arguments) for arguments in (fork, again, anew, wrong)]
    forked, repeated, written, refused = run_calls(talk, *names)
    assert (forked["branch_id"], forked["parent_id"]) == ("b", first["id"])
    assert (repeated["id"], repeated["unchanged"]) == (first["id"], True)
    assert (written["number"], written["parent_id"]) == (2, first["id"])
    assert "newest checkpoint of a branch" in refused
    assert f"{forked['id']} (b)" in refused


def test_states_are_merged_with_reducer_config(talk: Talk) -> None:
    states = [{"log": ["a"], "best": 1, "who": "x"}, {"log": ["b"], "best": 3, "who": "y"}]
    config = {"log": "append", "best": "max", "who": "first_value"}
    merged, last = run_calls(
        talk,
        ("alma_merge_states", {"states": states, "reducer_config": config}),
        ("alma_merge_states", {"states": states, "reducer_config": {"log": "union"}}),
    )
    assert merged["state"] == {"log": ["a", "b"], "best": 3, "who": "x"}
    assert last["state"] == {"log": ["a", "b"], "best": 3, "who": "y"}


def test_a_workflow_is_learned_from_its_result_and_summary(talk: Talk, alma: ALMA) -> None:
    told = {
        "agent": "dev",
        "workflow_id": "deploy",
        "run_id": "run-7",
        "result": "timeout",
        "summary": "The health check never answered",
        "strategies_used": ["Rolling update"],
        "failed_patterns": ["one pod at a time"],
        "duration_seconds": 1.5,
        "node_count": 3,
        "error_message": "timed out",
    }
    bare = {"agent": "dev", "workflow_id": "deploy", "run_id": "run-8", "result": "success", "summary": "Blue-green"}
    theirs = {**bare, "run_id": "run-9", "tenant_id": "acme", "summary": "Canary"}
    names = [("alma_workflow_learn", arguments) for arguments in (told, bare, theirs, {**bare, "result": "great"})]
    *_, refused = run_calls(talk, *names)
    assert "success" in refused
    outcomes = {outcome.strategy_used: outcome for outcome in alma.list("outcome")}
    assert outcomes.keys() == {"Rolling update", "Blue-green"}, "a tenant's outcome is the tenant's"
    failed = outcomes["Rolling update"]
    assert (failed.success, failed.duration_ms, failed.metadata["result"]) == (False, 1500, "timeout")
    assert failed.metadata["failed_patterns"] == ["one pod at a time"]
    scope = {"task": "Run the workflow deploy", "agent": "dev", "scope": "tenant", "tenant_id": "acme"}
    [found] = run_calls(talk, ("alma_retrieve_scoped", scope))
    assert "Canary" in json.dumps(found)


def test_artifacts_are_linked_to_a_memory(talk: Talk, alma: ALMA) -> None:
    fact, bare = (alma.add_domain_knowledge("dev", "ui", text) for text in ("The form is blue", "The logo is red"))
    link = {
        "memory_id": fact.id,
        "artifact_type": "screenshot",
        "storage_url": "s3://shots/form.png",
        "filename": "form.png",
        "mime_type": "image/png",
        "size_bytes": 12,
        "checksum": "0" * 64,
    }
    linked, listed, none, unknown = run_calls(
        talk,
        ("alma_link_artifact", link),
        ("alma_get_artifacts", {"memory_id": fact.id}),
        ("alma_get_artifacts", {"memory_id": bare.id}),
        ("alma_link_artifact", {**link, "memory_id": "dk_1"}),
    )
    assert isinstance(linked, dict), linked
    assert (linked["name"], linked["kind"], linked["size"]) == ("form.png", "screenshot", 12)
    assert linked["metadata"] == {"mime_type": "image/png"}
    assert [artifact["id"] for artifact in listed["result"]] == [linked["id"]]
    assert none["result"] == []
    assert "dk_1" in unknown
