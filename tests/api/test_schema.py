"""The schemas are derived, say what is valid, and are kept: by every real answer, and by whatever a client sends."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, TypedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from tests.api.samples import BEFORE, SAMPLES, world

from alma import ALMA
from alma.embedders.hash import HashEmbedder
from alma.errors import ALMAError
from alma.mcp.tools import OperationTool, select_tools
from alma.operations import Effect, operations
from alma.schema import Definitions, describe_type
from alma.stores.memory import MemoryStore
from alma.types.kinds import Memory

TOOLS = list(select_tools("all").values())


def check_each_tool(check: Callable[[OperationTool], None]) -> None:
    """Call a check with every tool, and report all that fail."""
    wrong = []
    for tool in TOOLS:
        try:
            check(tool)
        except Exception as error:  # noqa: BLE001 (all failures are reported together)
            wrong.append(f"{tool.operation.name}: {type(error).__name__}: {error}")
    assert not wrong, "\n".join(wrong)


def test_a_failed_check_names_its_tool() -> None:
    def check(tool: OperationTool) -> None:
        assert tool.operation.name not in ("learn", "retrieve")

    with pytest.raises(AssertionError, match=r"(?s)learn: AssertionError.*retrieve: AssertionError|retrieve:.*learn:"):
        check_each_tool(check)


# -- what is said about each tool


def test_schemas_are_schemas() -> None:
    check_each_tool(check_schemas)


def check_schemas(tool: OperationTool) -> None:
    definition = tool.definition
    for schema in (definition.input_schema, definition.output_schema):
        Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object"
    assert definition.input_schema["additionalProperties"] is False
    assert all(one.get("description") for one in definition.input_schema["properties"].values())


def test_a_sample_fits_what_a_tool_takes_and_its_answer_what_it_gives(tmp_path: Path) -> None:
    def check(tool: OperationTool) -> None:
        folder = tmp_path / tool.operation.name
        folder.mkdir()
        check_sample(tool, folder)

    check_each_tool(check)


def check_sample(tool: OperationTool, tmp_path: Path) -> None:
    name = tool.operation.name
    with ALMA(MemoryStore(), HashEmbedder(), project_id="app") as alma:
        made = world(alma, str(tmp_path))
        if name in BEFORE:
            operations()[BEFORE[name]].call(alma, SAMPLES[BEFORE[name]](made))
        arguments = SAMPLES[name](made)
        told = {key: value for key, value in arguments.items() if value is not None}
        Draft202012Validator(tool.definition.input_schema).validate(told)
        confined = replace(tool, roots=[tmp_path.resolve()])
        result = confined.call(lambda: alma, arguments)
    answer = json.loads(json.dumps(result.structured_content, allow_nan=False))
    Draft202012Validator(tool.definition.output_schema).validate(answer)


def test_an_answer_without_one_of_its_members_does_not_fit() -> None:
    fitting_nothing = []
    for tool in TOOLS:
        if Draft202012Validator(tool.definition.output_schema).is_valid({}):
            fitting_nothing.append(tool.operation.name)
    assert not fitting_nothing


def test_hints_follow_from_the_effect() -> None:
    check_each_tool(check_hints)


def check_hints(tool: OperationTool) -> None:
    hints, effect = tool.definition.annotations, tool.operation.effect
    assert hints is not None
    assert hints.read_only_hint == (effect is Effect.READS)
    assert hints.destructive_hint == (effect is Effect.ERASES)
    assert hints.idempotent_hint == tool.operation.idempotent
    assert hints.open_world_hint is False


def test_what_a_model_must_know_is_in_the_schema() -> None:
    schema = select_tools("all")["alma_learn"].definition.input_schema
    assert schema["required"] == ["agent", "task", "outcome", "strategy_used"]
    assert schema["properties"]["outcome"]["enum"] == ["success", "partial", "failure"]
    assert schema["properties"]["duration_ms"] == {"type": "integer", "description": "duration in milliseconds"}
    status = schema_of("list", "status")
    assert status["anyOf"][0]["enum"][0] == "candidate"
    assert status["anyOf"][1] == {"type": "null"}
    assert status["default"] == "active"
    assert schema_of("retrieve", "types")["items"]["enum"][0] == "heuristic"


def schema_of(operation: str, parameter: str) -> dict[str, Any]:
    found: dict[str, Any] = select_tools("all")[f"alma_{operation}"].definition.input_schema["properties"][parameter]
    return found


def test_an_agent_that_is_known_need_not_be_named() -> None:
    schema = select_tools("all", "dev")["alma_learn"].definition.input_schema
    assert "agent" not in schema["required"]
    assert schema["properties"]["agent"]["default"] == "dev"
    # Where it only narrows, nobody is meant who is not named.
    assert "default" not in select_tools("all", "dev")["alma_list"].definition.input_schema["properties"]["agent"]


def test_descriptions_speak_of_tools_by_their_names() -> None:
    assert "`alma_learn`" in (select_tools("all")["alma_retrieve"].definition.description or "")
    assert "alma_start_session" in schema_of("end_session", "session_id")["description"]


# -- annotations


class Colour(StrEnum):
    RED = "red"


class Box(TypedDict):
    size: int


@dataclass
class Leaf:
    at: datetime
    path: Path
    colour: Colour


@dataclass
class Tree:
    leaves: Sequence[Leaf]
    left: Tree | None = None


@pytest.mark.parametrize(
    ("kind", "schema"),
    [
        (str | None, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (dict[str, Any], {"type": "object"}),
        (Mapping[str, bool], {"type": "object", "additionalProperties": {"type": "boolean"}}),
        (Any, {}),
        (Colour, {"type": "string", "enum": ["red"]}),
        (Colour | None, {"anyOf": [{"type": "string", "enum": ["red"]}, {"type": "null"}]}),
        (Literal["a", "b"], {"enum": ["a", "b"]}),
        (frozenset[str], {"type": "array", "items": {"type": "string"}}),
        (tuple[str, ...], {"type": "array", "items": {"type": "string"}}),
        (datetime, {"type": "string", "format": "date-time"}),
        (
            tuple[float, float],
            {"type": "array", "prefixItems": [{"type": "number"}] * 2, "minItems": 2, "maxItems": 2},
        ),
    ],
)
def test_an_annotation_becomes_a_schema(kind: Any, schema: Any) -> None:
    assert describe_type(kind, {}) == schema


def test_what_holds_itself_is_described_once(monkeypatch: pytest.MonkeyPatch) -> None:
    definitions: Definitions = {}
    monkeypatch.setitem(Tree.__init__.__globals__, "Tree", Tree)
    assert describe_type(Tree, definitions) == {"$ref": "#/$defs/Tree"}
    assert definitions[Tree]["properties"]["left"] == {"anyOf": [{"$ref": "#/$defs/Tree"}, {"type": "null"}]}
    assert set(definitions[Leaf]["required"]) == {"at", "path", "colour"}


def test_two_of_one_name_are_two() -> None:
    definitions: Definitions = {}
    other = dataclass(type("Leaf", (), {"__annotations__": {"n": int}, "__module__": "elsewhere"}))
    assert describe_type(Leaf, definitions) != describe_type(other, definitions)
    assert len(definitions) == 2


def test_a_memory_of_any_type_may_say_more() -> None:
    definitions: Definitions = {}
    describe_type(Memory, definitions)
    assert definitions[Memory]["additionalProperties"] is True
    assert "turn" in definitions[Memory]["properties"]["type"]["enum"]


def test_what_has_no_schema_is_refused() -> None:
    with pytest.raises(TypeError, match="no JSON Schema"):
        describe_type(object(), {})


# -- whatever a client sends

WORDS = st.sampled_from(["", "dev", "a b", "run-1", "success", "2026-05-07", "é\u202e\n", "x" * 300])
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 10**9) | st.floats(-1, 2) | WORDS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WORDS, inner, max_size=2),
    max_leaves=4,
)


def fitting(schema: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "anyOf" in schema:
        return st.one_of([fitting(one) for one in schema["anyOf"]])
    kinds = schema.get("type", [])
    options = [_of(kind, schema) for kind in ([kinds] if isinstance(kinds, str) else kinds)]
    return st.one_of(options) if options else ANYTHING


def _of(kind: str, schema: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    match kind:
        case "array":
            return st.lists(fitting(schema.get("items", {})), max_size=2)
        case "object":
            return st.dictionaries(WORDS, fitting(schema.get("additionalProperties", {})), max_size=2)
        case "integer":
            return st.integers(-2, 40)
        case "number":
            return st.floats(-1, 2)
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
    return WORDS


def test_a_tool_answers_or_says_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def check(tool: OperationTool) -> None:
        @settings(max_examples=6)
        @given(data=st.data())
        def call(data: st.DataObject) -> None:
            call_tool(tool, data)

        call()

    check_each_tool(check)


def call_tool(tool: OperationTool, data: st.DataObject) -> None:
    members = tool.definition.input_schema["properties"]
    needed = {name: fitting(members[name]) for name in tool.definition.input_schema.get("required", ())}
    others = {name: fitting(one) for name, one in members.items() if name not in needed}
    arguments = data.draw(st.fixed_dictionaries(needed, optional=others))
    with ALMA(MemoryStore(), HashEmbedder(), project_id="app") as alma:
        try:
            answer = tool.call(lambda: alma, arguments).structured_content
        except ALMAError:
            return
    Draft202012Validator(tool.definition.output_schema).validate(answer)


def test_what_does_not_fit_is_refused_in_words() -> None:
    def check(tool: OperationTool) -> None:
        names = st.sampled_from(["agent", "task", "limit", "banana"])

        @settings(max_examples=5)
        @given(arguments=st.dictionaries(names, ANYTHING, max_size=3))
        def refuse(arguments: dict[str, Any]) -> None:
            wrong = complaint(tool, arguments)
            members = tool.definition.input_schema["properties"]
            assert not wrong or any(name in wrong for name in (*arguments, *members))

        refuse()

    check_each_tool(check)


def complaint(tool: OperationTool, arguments: dict[str, Any]) -> str:
    try:
        tool.operation.check(arguments)
    except ALMAError as error:
        return str(error)
    return ""
