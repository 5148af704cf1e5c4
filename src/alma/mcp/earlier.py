"""Arguments of alma-memory 0.x for the tools of workflows, so that its programs go on working.

Each translation runs only if a call has an argument that only 0.x knew. Such arguments are not listed in the schemas.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ..errors import NotFoundError, ValidationError
from ..memory import ALMA
from ..operations import operations

_REDUCERS = {"last_value": "last", "first_value": "first", "append": "extend"}
_FAILED = ("cancelled", "timeout")
_ARTIFACT_NAMES = {
    "storage_url": "location",
    "filename": "name",
    "artifact_type": "kind",
    "size_bytes": "size",
    "checksum": "digest",
}


class TranslatedCall(NamedTuple):
    """The arguments of a call, and those that only the method takes."""

    arguments: dict[str, Any]
    for_method: Mapping[str, Any] = {}


def _translate_checkpoint(memory: ALMA, arguments: dict[str, Any]) -> TranslatedCall:
    parent_id = arguments.pop("parent_checkpoint_id", None)
    skips = arguments.pop("skip_if_unchanged", True)
    if arguments.get("branch_id") is None:
        arguments.pop("branch_id", None)
    if parent_id:
        branch = _find_branch(memory, str(arguments.get("run_id")), parent_id)
        if branch != arguments.get("branch_id", "main"):
            arguments["from_branch"] = branch
    return TranslatedCall(arguments, {} if skips else {"skip_if_unchanged": False})


def _find_branch(memory: ALMA, run_id: str, checkpoint_id: str) -> str:
    """Return the branch whose newest checkpoint this is; a new checkpoint can follow no other."""
    checkpoints = operations()["list_runs"].call(memory, {"run_id": run_id}).checkpoints
    newest = {checkpoint.branch_id: checkpoint.id for checkpoint in reversed(checkpoints)}
    for branch, newest_id in newest.items():
        if newest_id == checkpoint_id:
            return str(branch)
    valid = ", ".join(f"{checkpoint} ({branch})" for branch, checkpoint in newest.items())
    raise ValidationError(
        f"parent_checkpoint_id must be the newest checkpoint of a branch of the run, not {checkpoint_id!r}."
        f" Valid: {valid}."
    )


def _translate_merge(memory: ALMA, arguments: dict[str, Any]) -> TranslatedCall:
    config = arguments.pop("reducer_config") or {}
    if not isinstance(config, Mapping):
        raise ValidationError("reducer_config must map keys to reducers")
    arguments["reducers"] = {key: _REDUCERS.get(reducer, reducer) for key, reducer in config.items()}
    # In 0.x the last value won where no reducer was named; here that is a conflict.
    arguments.setdefault("default", "last")
    return TranslatedCall(arguments)


def _translate_workflow(memory: ALMA, arguments: dict[str, Any]) -> TranslatedCall:
    metadata = dict(arguments.get("metadata") or {})
    result = arguments.pop("result", None)
    if result is not None:
        arguments["outcome"] = "failure" if result in _FAILED else result
        metadata["result"] = result
    for name in ("summary", "successful_patterns", "failed_patterns", "node_count"):
        value = arguments.pop(name, None)
        if value is not None:
            metadata[name] = value
    seconds = arguments.pop("duration_seconds", None)
    if isinstance(seconds, int | float):
        arguments["duration_ms"] = round(seconds * 1000)
    if not arguments.get("strategies_used"):
        arguments["strategies_used"] = metadata.get("successful_patterns") or [metadata.get("summary", "")]
    return TranslatedCall({**arguments, "metadata": metadata})


def _translate_link(memory: ALMA, arguments: dict[str, Any]) -> TranslatedCall:
    metadata = dict(arguments.get("metadata") or {})
    if mime_type := arguments.pop("mime_type", None):
        metadata["mime_type"] = mime_type
    for earlier, name in _ARTIFACT_NAMES.items():
        value = arguments.pop(earlier, None)
        if value is not None:
            arguments[name] = value
    memory_id = arguments.pop("memory_id", None)
    if memory_id is not None:
        # Artifacts belong to runs: those of a memory are kept under a run that is named like it.
        memory.get(memory_id)
        operations()["update_run"].call(memory, {"run_id": memory_id, "workflow_id": "memories"})
        arguments["run_id"] = memory_id
    return TranslatedCall({**arguments, "metadata": metadata})


def _translate_artifacts(memory: ALMA, arguments: dict[str, Any]) -> TranslatedCall:
    memory_id = arguments.pop("memory_id")
    try:
        operations()["list_runs"].call(memory, {"run_id": memory_id})
    except NotFoundError:
        memory.get(memory_id)
        # Nothing was linked to this memory: no workflow has its name, so the list is empty.
        return TranslatedCall({**arguments, "workflow_id": memory_id})
    return TranslatedCall({**arguments, "run_id": memory_id})


class _Earlier(NamedTuple):
    names: frozenset[str]
    translate: Callable[[ALMA, dict[str, Any]], TranslatedCall]


_TOOLS = {
    "checkpoint": _Earlier(frozenset(["parent_checkpoint_id", "skip_if_unchanged"]), _translate_checkpoint),
    "merge_states": _Earlier(frozenset(["reducer_config"]), _translate_merge),
    "workflow_learn": _Earlier(
        frozenset("result summary successful_patterns failed_patterns duration_seconds node_count".split()),
        _translate_workflow,
    ),
    "link_artifact": _Earlier(frozenset(["memory_id", "mime_type", *_ARTIFACT_NAMES]), _translate_link),
    "get_artifacts": _Earlier(frozenset(["memory_id"]), _translate_artifacts),
}


def translate_call(operation: str, arguments: Mapping[str, Any], get_memory: Callable[[], ALMA]) -> TranslatedCall:
    """Return the arguments as the operation takes them now."""
    earlier = _TOOLS.get(operation)
    if earlier is None or earlier.names.isdisjoint(arguments):
        return TranslatedCall(dict(arguments))
    return earlier.translate(get_memory(), dict(arguments))
