"""The parameters that many operations share: their names, descriptions and checks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, cast, get_type_hints

from . import engine as core
from .engine import validate
from .errors import ValidationError, unknown
from .operations import About, Parameter, read_parameter
from .schema import CLASSES, TYPES, list_options, plain
from .types.kinds import FeedbackSignal, Memory, MemoryType, Result, Rule
from .types.record import Status
from .types.slice import Explanation, MemorySlice

OutcomeName = Literal["success", "partial", "failure"]
StatusName = Literal["candidate", "active", "superseded", "archived", "retired"]
TypeName = Literal["heuristic", "outcome", "user_preference", "domain_knowledge", "anti_pattern", "episode", "rule"]
ModeName = Literal["default", "precise", "broad", "recent", "learning"]
SignalName = Literal["used", "ignored", "thumbs_up", "thumbs_down"]


def check_type(label: str, value: object) -> MemoryType:
    """Return the memory type of a name or a memory class."""
    name = TYPES.get(value, value) if isinstance(value, type) else value
    return validate.choice("type", name, MemoryType)


def check_types(label: str, value: object) -> list[MemoryType]:
    """Return the memory types of a list of names, or raise ValidationError."""
    return [check_type(label, one) for one in validate.items(label, value, "names")]


def check_statuses(label: str, value: object) -> list[Status]:
    """Return the statuses of a list of names, or raise ValidationError."""
    return [validate.choice("status", one, Status) for one in validate.items(label, value, "names")]


def check_source(label: str, value: object) -> str:
    """Return the name of a source as passed, "" for a blank one; ValidationError for an unknown one."""
    return validate.provenance(label, value).source if validate.optional_text(label, value) else ""


Agent = Annotated[str, About("the agent's name", check=validate.name, example="dev")]
AgentOrDefault = Annotated[
    str | None,
    About(
        "the agent's name (default: the only declared agent, or assistant)",
        check=validate.name,
        example="dev",
        has_preset=True,
    ),
]
Rater = Annotated[str | None, About("the agent that reports it", check=validate.name)]
AnyAgent = Annotated[str | None, About("only this agent's (default: all agents)", check=validate.name)]
By = Annotated[str | None, About("who makes the change; an agent cannot change what another has claimed")]
Project = Annotated[str | None, About("another project of the memory", check=validate.name, for_python=True)]
User = Annotated[str | None, About("the user this is for", check=validate.name, example="ana")]
Owner = Annotated[
    str | None,
    About("the owner, who alone sees it (default: all users see it)", check=validate.optional_name),
]
Task = Annotated[str, About("the task, in a sentence or more", example="Deploy the API")]
Tags = Annotated[Iterable[str] | None, About("tags", check=validate.names, example=["deploy"])]
Metadata = Annotated[Mapping[str, Any] | None, About("your own JSON object", check=validate.metadata)]
Limit = Annotated[int, About("maximum results")]
MemoryId = Annotated[str, About("the memory's id", check=validate.name, example="h_01m7hnn9m5400rc1dqvrg758qq")]
TypeOf = Annotated[TypeName | MemoryType | type[Memory] | None, About("only this type", check=check_type)]
Types = Annotated[Iterable[TypeName | MemoryType] | None, About("only these memory types", check=check_types)]
OutcomeOf = Annotated[OutcomeName | Result, About("the result")]
Mode = Annotated[ModeName, About("how broadly to search")]
Signal = Annotated[SignalName | FeedbackSignal, About("the rating")]
StatusOf = Annotated[StatusName | Status | None, About("only this status; null for any")]
Statuses = Annotated[
    Iterable[StatusName | Status] | None,
    About("only these statuses (default: active and candidate); an empty list for all", check=check_statuses),
]
Moment = datetime | str | None
Version = Annotated[int | None, About("its version")]
Versions = Annotated[dict[str, int] | None, About("the versions that were seen, by id; all must still hold")]
Viewer = Annotated[str | None, About("only memories this user can see (default: all users)", check=validate.name)]
OnlyUser = Annotated[str | None, About("only this user's own memories (default: all users)", check=validate.name)]
DryRun = Annotated[bool, About("only report what would change")]
Source = Annotated[
    str,
    About(
        "user (a person said it), agent (you), tool (program output), content (file, mail) or import",
        check=check_source,
    ),
]
Fields = Annotated[Mapping[str, Any] | None, About('filter by field values, such as {"domain": "api"}')]
AGENT = "agent"
"""The default source in interfaces. The command line sets another one, because a person calls it."""
MaxTokens = Annotated[int, About("token budget of the prompt")]


def match_fields(
    kinds: Collection[str], selection: Mapping[str, Any] | None
) -> tuple[Collection[str], dict[str, Any] | None]:
    """Return those of the kinds that declare all these fields, and the values by the names they are stored under."""
    if not selection:
        return kinds, None
    values: dict[str, Any] = {}
    for name, value in selection.items():
        declared = {kind: list_fields(kind) for kind in kinds}
        kinds = [kind for kind in kinds if name in declared[kind]]
        if not kinds:
            valid = dict.fromkeys(one for names in declared.values() for one in names)
            raise ValidationError(unknown("field", name, valid))
        stored, parameter = declared[kinds[0]][name]
        values[stored] = plain(parameter.check(value))
    return kinds, values


@cache
def list_fields(kind: str) -> Mapping[str, tuple[str, Parameter]]:
    """Return the fields of a kind that memories can be filtered by: where each is stored, and its values."""
    memory = CLASSES[kind]
    hints, simple = get_type_hints(memory), {str, int, float, bool, type(None)}
    declared = {}
    for one in fields(memory):
        parameter = read_parameter(one.name, hints[one.name], None) if "stored" in one.metadata else None
        if parameter is not None and set(list_options(parameter.type)) <= simple:
            declared[one.name] = one.metadata["stored"] or one.name, parameter
    return declared


# -- results of operations, where interfaces return something else than the method

T = TypeVar("T")


def copy_fields(kind: type[T], value: Any, **more: Any) -> T:
    """Return a dataclass with the fields that `value` has under the same names; `more` are other fields."""
    names = [one.name for one in fields(cast("Any", kind)) if one.name not in more]
    return kind(**{name: getattr(value, name) for name in names}, **more)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievedMemories:
    """The result of a retrieval."""

    query: str
    agent: str
    retrieval_id: str | None  # Pass it to `learn` when an outcome was reached with the help of these memories.
    retrieval_time_ms: float
    total_items: int
    memories: list[Memory]
    explanations: list[Explanation]  # Why each memory was retrieved, in the same order.
    standing_rules: list[Rule] = field(default_factory=list)
    """Active rules that do not match the task; the prompt includes them."""
    prompt: str  # All memories as Markdown for a prompt; empty if nothing is relevant.


def to_retrieved(memories: MemorySlice, max_tokens: MaxTokens = 2000) -> RetrievedMemories:
    """Return retrieved memories with their prompt."""
    return copy_fields(
        RetrievedMemories,
        memories,
        retrieval_time_ms=round(memories.retrieval_time_ms, 3),
        memories=list(memories),
        explanations=list(memories.explain()),
        prompt=memories.to_prompt(max_tokens),
    )


@dataclass(frozen=True, slots=True)
class Match:
    """A memory that a search found, and its score."""

    memory: Memory
    score: float  # Relevance, 0 to 1.
    reason: str


@dataclass(frozen=True, slots=True)
class Text:
    """An answer that is one text."""

    text: str


@dataclass(frozen=True, slots=True)
class Deleted:
    """The id of a memory that was deleted."""

    id: str


@dataclass(frozen=True, slots=True)
class ErasedUser:
    """How much was erased for a user."""

    user_id: str
    counts: dict[str, int]  # Number of deleted memories of each kind.
    proof: core.proof.ErasureProof


@dataclass(frozen=True, slots=True)
class Author:
    """A memory that holds a text, and the change that brought the text in."""

    memory: Memory
    change: core.history.Change


@dataclass(frozen=True, slots=True)
class ForgottenMemories:
    """The memories that were archived."""

    count: int
    ids: list[str]
    dry_run: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Whether the memory works, and which problems it has."""

    ok: bool
    version: str
    project_id: str
    memories: int
    embedder: str  # Its name; empty if search uses words only.
    problems: list[str]


def to_deleted(nothing: None, memory_id: str) -> Deleted:
    """Return the answer to `delete`."""
    return Deleted(memory_id)


def to_erased(erased: Any, user_id: str) -> ErasedUser:
    """Return the answer to `erase_user`."""
    return ErasedUser(user_id, dict(erased), erased.proof)


def to_forgotten(forgotten: Any, dry_run: bool) -> ForgottenMemories:
    """Return the answer to `forget`."""
    return ForgottenMemories(int(forgotten), list(forgotten.ids), dry_run)


def to_changes(changes: list[dict[str, Any]]) -> list[core.history.Change]:
    """Return the entries of a history."""
    return [core.history.Change(**one) for one in changes]
