"""Operations on a memory. Each is declared once, as a method of the class that implements it.

The MCP server, HTTP server, remote client, command line and reference are derived from them. `operations()` returns all
of them; `operation.call(alma, arguments)` checks arguments and runs one.

How to declare an operation
---------------------------
1. In the module of the class, declare the group of its operations and how to get from an open memory to the object
   they are called on. `MODULES` below lists the groups in the order of the documentation.

       operation = Group("work", lambda alma: ProgressTracker(alma=alma, project_id=alma.project_id))

2. Decorate the method. The annotations are what Python callers pass; `About` describes a parameter to people and models
   and carries its limits. Parameters that many operations share are in `alma.words`. The docstring is the help text and
   tool description; text after a line `Notes:` is for Python callers only.

       @operation(Effect.CHANGES, idempotent=True)
       def update_status(self, item_id: ItemId, status: Annotated[Status | str, About("the new status")]) -> WorkItem:

3. The body gets checked values in every interface: texts without control characters, names stripped, choices valid,
   numbers within limits, times in UTC (checked by `About.check`, or by type). A blank optional text is "".
4. To differ from the method, `@operation(Effect.READS, "stats")` sets another name, `defaults` other defaults, and
   `answer` a function that converts the result. `answer` may take arguments of the call by name, and parameters of its
   own, which the interfaces then offer too.
5. Add a command: a row of `COMMANDS` in `alma.cli.commands` or `.work`, if possible below an existing command. Add a
   sample call to `tests/api/samples.py`, then run `ALMA_UPDATE_GOLDEN=1 pytest tests/golden` and
   `tools/generate_docs.py`.
   `python -m tools.generate_stub` adds a method of `ALMA` to the type stub of `AsyncALMA`.
6. Parameters that JSON cannot express (functions, classes, `**fields`) are for Python callers only. All annotations
   must be importable at run time, not only under TYPE_CHECKING.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, StrEnum
from functools import cached_property, update_wrapper
from importlib import import_module
from os import PathLike
from types import MethodType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from .engine import validate
from .engine.calls import act_as as act_as
from .engine.calls import collect_changes as collect_changes
from .engine.calls import name_call
from .errors import ValidationError, unknown
from .schema import Schema, describe_answer, describe_type, list_options, strict_object

F = TypeVar("F", bound=Callable[..., Any])

MODULES = {
    "memories": ("alma.memory",),
    "many": ("alma.memory",),
    "work": ("alma.progress",),
    "sessions": ("alma.session", "alma.session.initializer", "alma.context"),
    "workflows": ("alma.workflow",),
    "domains": ("alma.domains",),
    "confidence": ("alma.confidence",),
    "knowledge": ("alma.extraction.learner", "alma.knowledge"),
    "graph": ("alma.graph.graph", "alma.graph.builder"),
    "rules": ("alma.rulefiles.exchange",),
    "events": ("alma.events",),
    "inspection": ("alma.inspection",),
}
"""The groups in the order of the documentation, and the modules that declare the operations of each."""
GROUPS = tuple(MODULES)
MEMORY = "alma"
"""The first parameter of an operation that is a function. Callers do not pass it."""
PROGRESS = "progress"
"""A parameter of long operations: a function that is called with the number done and the total."""
_NOTES = "\n\nNotes:\n"
_NO_NOUNS = {"to", "only", "include", "prefer"}
"""Parameters whose name is no noun, so that messages say `value of ...`."""
DEEPEST = 64
"""Maximum nesting of the arguments of a call."""


class Effect(StrEnum):
    """What an operation does to the memory."""

    READS = "reads"  # Notes about a retrieval do not count as a change.
    ADDS = "adds"
    CHANGES = "changes"
    ERASES = "erases"  # Deletes something permanently.


class About(NamedTuple):
    """The description of a parameter, and its valid values."""

    text: str
    choices: tuple[str, ...] = ()  # By default those of a `Literal` or an enumeration in its type.
    check: Callable[[str, Any], Any] | None = None
    """Checks and converts a value, given the parameter's name; by default its type decides."""
    least: float | None = None
    most: float | None = None  # Limits of a number; `most` is also the maximum length of a text.
    raw: bool = False  # The body checks the text itself, as functions do whose first parameter is the memory.
    local: bool = False  # A path on the machine of the memory; remote callers may not pass one.
    uri: bool = False  # It may also be a URI, which is not opened.
    is_rule_file: Callable[[Any], bool] | None = None  # A local path that must be a rule file of a coding agent.
    is_root: bool = False  # A local path that defaults to the repository around the current folder.
    vouches: bool = False  # True declares outside content as a person's own, which only a person may do.
    shown_as: str = ""  # The name in interfaces, if it differs from the method's.
    json: Any = None  # The type in interfaces, if Python callers may pass more.
    is_required: bool = False  # Required in interfaces, although optional in Python.
    for_python: bool = False  # Not offered by interfaces.
    example: Any = None  # An example for the OpenAPI document.
    has_preset: bool = False  # Optional, but a default that an interface was started with counts, such as its agent.


def take_as_given(label: str, value: Any) -> Any:
    """Check nothing, for values that the method checks itself."""
    return value


class Parameter(NamedTuple):
    """A parameter of an operation as JSON callers see it."""

    name: str
    type: Any  # The JSON type: lists, objects, strings, numbers.
    about: About
    needed: bool
    default: Any = None
    takes_null: bool = False  # Whether null is a value. If not, null means that the argument is left out.

    @property
    def takes_preset(self) -> bool:
        """Whether the default that an interface was started with fills it."""
        return self.needed or self.about.has_preset

    def describe_missing(self, of: str = "") -> str:
        """Return the message for a missing argument."""
        valid = f" Valid: {', '.join(self.about.choices)}." if self.about.choices else ""
        return f"missing argument {self.name!r}{of}: {self.about.text}.{valid}"

    def check(self, value: Any, kind: Any = None, label: str = "") -> Any:
        """Return a value as the operation takes it. Raise ValidationError with what is wrong and what is valid.

        `kind` and `label` are the JSON type and the name of an inner value.
        """
        about = self.about
        if not label:
            kind, label = self.type, self.name
            if value is None:
                return None
            if about.check is not None:
                return about.check(label, value)
            noun = f"value of `{label}`" if label in _NO_NOUNS else label
            if about.choices and list not in [get_origin(one) for one in list_options(kind)]:
                return validate.one_of(noun, value, about.choices)
            if about.choices:
                return [validate.one_of(noun, one, about.choices) for one in validate.items(label, value, "names")]
        options = [kind] if isinstance(kind, type) else list_options(kind)
        outer = {get_origin(one) or one: (*get_args(one), Any, Any) for one in options}
        outer.pop(type(None), None)
        if Any in outer or object in outer or (bool in outer and isinstance(value, bool)):
            return value
        if dict in outer and (isinstance(value, Mapping) or len(outer) == 1):
            members = validate.mapping(label, value).items()
            return {name: self.check(item, outer[dict][1], f"{label}[{name!r}]") for name, item in members}
        if list in outer and (not isinstance(value, str) or len(outer) == 1):
            items = enumerate(validate.items(label, value))
            return [self.check(one, outer[list][0], f"{label}[{at}]") for at, one in items]
        if int in outer or float in outer:
            return (validate.whole if int in outer else validate.number)(label, value, about.least, about.most)
        if str not in outer:
            raise ValidationError(f"{label} must be true or false, not {validate.format_value(value)}")
        if about.local or about.raw:
            return str(value) if isinstance(value, PathLike) else validate.string(label, value)
        is_blank = label == self.name and not self.needed and isinstance(value, str) and validate.is_blank(value)
        return "" if is_blank else validate.text(label, value, int(about.most or validate.MAX_TEXT))


@dataclass(frozen=True)
class Operation:
    """An operation on a memory, declared with `Group`."""

    name: str
    function: Callable[..., Any]
    """The method, or a function whose first parameter is the memory. It takes checked arguments."""
    effect: Effect
    group: str
    owner: Callable[[Any], Any] = lambda alma: alma  # Returns the object whose method it is, for an open memory.
    idempotent: bool = False  # Whether repeating a call has no further effect.
    for_models: bool = True  # Whether it is offered to models. Batch operations are not: they would only add noise.
    on_files: bool = False  # Whether it works on local files; then remote callers cannot use it.
    defaults: Mapping[str, Any] = field(default_factory=dict)  # Defaults that differ from the method's.
    answer: Callable[..., Any] | None = None
    """Converts the method's result for interfaces: a function, or a class with one field."""

    @cached_property
    def description(self) -> str:
        """The docstring without its notes: help text and tool description."""
        return (inspect.getdoc(self.function) or "").partition(_NOTES)[0]

    @property
    def notes(self) -> str:
        """The notes of the docstring, for Python callers."""
        return (inspect.getdoc(self.function) or "").partition(_NOTES)[2]

    @property
    def summary(self) -> str:
        """The first line of the description."""
        return self.description.partition("\n")[0]

    @cached_property
    def signature(self) -> inspect.Signature:
        """The signature of the method."""
        return inspect.signature(self.function)

    @cached_property
    def own_parameters(self) -> Mapping[str, Parameter]:
        """The parameters of the method, with its own defaults."""
        return _read_parameters(self.function)

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters that interfaces offer, including those of `answer`."""
        own = self.own_parameters
        more = {} if self.answer is None else _read_parameters(self.answer)
        shown = [
            one._replace(
                name=one.about.shown_as or name,
                default=self.defaults.get(name, one.default),
                needed=name not in self.defaults and (one.needed or one.about.is_required),
            )
            for name, one in own.items()
            if not one.about.for_python
        ]
        return (*shown, *(one for name, one in more.items() if name not in own))

    @cached_property
    def is_long(self) -> bool:
        """Whether it can report progress."""
        return PROGRESS in self.signature.parameters

    @cached_property
    def returns(self) -> Any:
        """The type that interfaces return."""
        if isinstance(self.answer, type):
            return self.answer
        return get_type_hints(self.answer or self.function)["return"]

    def check(
        self, arguments: Mapping[str, Any], defaults: Mapping[str, Any] | None = None, *, of: str = ""
    ) -> dict[str, Any]:
        """Return arguments as the operation takes them. Raise ValidationError that names all unknown or missing ones.

        Lenient where the meaning is clear: null for an argument that has a default, 5.0 for 5. `defaults` fill in
        missing arguments. `of` names the operation in messages where it is not obvious.
        """
        if validate.is_deeper(arguments, DEEPEST):
            raise ValidationError(f"the arguments are nested deeper than {DEEPEST} levels")
        valid = {one.name: one for one in self.parameters}
        presets = defaults or {}
        filled = {name: value for name, value in presets.items() if name in valid and valid[name].takes_preset}
        wrong = [
            unknown(f"argument{of}", name, valid) if valid else f"unknown argument{of} {name!r}. It takes no arguments."
            for name in arguments
            if name not in valid
        ]
        for one in valid.values():
            if one.needed and arguments.get(one.name) is None and one.name not in filled:
                wrong.append(one.describe_missing(of))
        if wrong:
            raise ValidationError("\n".join(wrong))
        return filled | {
            name: valid[name].check(value)
            for name, value in arguments.items()
            if value is not None or (valid[name].takes_null and not valid[name].needed)
        }

    def complete(self, arguments: Any) -> dict[str, Any]:
        """Return the arguments of one of several calls, checked and with the method's defaults."""
        if not isinstance(arguments, Mapping):
            raise ValidationError(f"{self.name} takes a mapping of arguments, not {type(arguments).__name__}")
        defaults = {name: one.default for name, one in self.own_parameters.items() if not one.needed}
        return defaults | self.check(arguments, of=f" of {self.name}")

    def run(self, alma: Any, /, **arguments: Any) -> Any:
        """Run the operation with checked arguments and return what interfaces show."""
        own = {one.about.shown_as: name for name, one in self.own_parameters.items() if one.about.shown_as}
        values = {**self.defaults, **{own.get(name, name): value for name, value in arguments.items()}}
        mine = {name: value for name, value in values.items() if name in self.signature.parameters}
        with name_call(self.name):
            result = self.function(self.owner(alma), **mine)
        if self.answer is None:
            return result
        values = {one.name: one.default for one in self.parameters if not one.needed} | values
        return self.answer(
            result, **{name: values[name] for name in list(inspect.signature(self.answer).parameters)[1:]}
        )

    def call(self, alma: Any, arguments: Mapping[str, Any]) -> Any:
        """Check the arguments and run the operation."""
        return self.run(alma, **self.check(arguments))

    def input_schema(self, defaults: Mapping[str, Any] | None = None) -> Schema:
        """Return the JSON schema of the arguments, for models: short, and without a null that means leaving it out.

        `defaults` are arguments that already have a value and may be left out.
        """
        preset = defaults or {}
        members: dict[str, Schema] = {}
        for one in self.parameters:
            default = preset.get(one.name, one.default) if one.takes_preset else one.default
            options = [kind for kind in list_options(one.type) if default is not None or kind is not type(None)]
            schema = describe_type(Union[tuple(options)], {}, one.about.choices)  # noqa: UP007 - made from a list
            if one.about.text:
                schema["description"] = one.about.text
            if default is not None:
                schema["default"] = default.value if isinstance(default, Enum) else default
            members[one.name] = schema
        return strict_object(members, [one.name for one in self.parameters if one.needed and one.name not in preset])

    def output_schema(self) -> Schema:
        """Return the JSON schema of the answer, for models. A prompt replaces the memories it contains."""
        return describe_answer(self.returns)


RENAMED = {"learn_from_conversation": "learn_from"}
"""Earlier names of operations, and their names now. Calls may use both; only the names now are listed."""
REPLACED = {
    **dict.fromkeys(
        ("update_work_item", "add_blocker", "remove_blocker", "record_test", "archive_work_item", "restore_work_item"),
        "update_progress",
    ),
    **dict.fromkeys(("get_work_item", "search_work_items"), "list_work_items"),
    "work_item_history": "history",
    "reconcile": "consolidate",
    **dict.fromkeys(("previous_sessions", "open_sessions", "get_session"), "list_sessions"),
    "recall_topic": "wake_up",
    **dict.fromkeys(("start_run", "end_run"), "update_run"),
    "checkpoint_history": "list_runs",
    "fork_branch": "checkpoint",
    "merge_branches": "merge_states",
    "find_paths": "traverse_graph",
    "suggest_merges": "graph_stats",
    "get_domain": "list_domains",
}
"""Operations of earlier versions, and those that replaced them."""


def describe_unknown(name: str, listed: Iterable[str], what: str = "operation", prefix: str = "") -> str:
    """Return the message for an unknown operation or tool: what replaced it, or the closest match."""
    short = name.removeprefix(prefix)
    if short in REPLACED:
        return f"unknown {what} {name!r}. It was replaced by {prefix + REPLACED[short]!r}."
    # Names are short, and a tool's prefix is no resemblance: `ingest` is not `get`, and `alma_nope` not `alma_update`.
    close = difflib.get_close_matches(short, [one.removeprefix(prefix) for one in listed], n=1, cutoff=0.75)
    return f"unknown {what} {name!r}.{f' Did you mean {prefix + close[0]!r}?' if close else ''}"


OPERATIONS: dict[str, Operation] = {}
"""The operations of the modules that are loaded, by name."""


def operations() -> Mapping[str, Operation]:
    """Load all operations and return them by name, in the order of their groups."""
    for modules in MODULES.values():
        for module in modules:
            import_module(module)
    # Also by module, because the order in which modules were loaded is arbitrary.
    return {
        name: one
        for group, modules in MODULES.items()
        for module in (*modules, None)
        for name, one in OPERATIONS.items()
        if one.group == group and (one.function.__module__ if one.function.__module__ in modules else None) == module
    }


class Group:
    """Declares operations of a group; see the top of this module."""

    def __init__(self, name: str, owner: Callable[[Any], Any] = lambda alma: alma) -> None:
        self.name = name
        self._owner = owner

    def __call__(self, effect: Effect, name: str = "", **options: Any) -> Callable[[F], F]:
        """Declare a method, or a function of a memory, as an operation. `options` are fields of `Operation`."""

        def declare(function: F) -> F:
            fields = {"idempotent": effect is Effect.READS, "owner": self._owner, **options}
            operation = Operation(name or function.__name__, function, effect, self.name, **fields)
            if operation.name in OPERATIONS:
                raise ValueError(f"operation {operation.name!r} is declared twice")
            OPERATIONS[operation.name] = operation
            if function.__code__.co_varnames[:1] == (MEMORY,):
                return function

            return OperationMethod(operation)  # type: ignore[return-value]

        return declare


class OperationMethod:
    """A method that checks its arguments. For `help()` it has plain types and the descriptions of its parameters.

    They are read when they are asked for: reading all annotations at once would slow down the import of alma.
    """

    def __init__(self, operation: Operation) -> None:
        update_wrapper(self, operation.function, ("__module__", "__name__", "__qualname__", "__annotations__"), ())
        self.operation = operation

    def __get__(self, instance: object | None, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __call__(self, instance: Any, /, *args: Any, **kwargs: Any) -> Any:
        operation = self.operation
        bound = operation.signature.bind(instance, *args, **kwargs)
        if call_elsewhere := getattr(instance, "call_elsewhere", None):
            return call_elsewhere(operation, bound)
        for name, value in list(bound.arguments.items()):
            one = operation.own_parameters.get(name)
            if one is None:
                continue
            if value is None and one.needed:
                raise ValidationError(one.describe_missing())
            if value is None and not one.takes_null:
                del bound.arguments[name]
            else:
                bound.arguments[name] = one.check(value)
        with name_call(operation.name):
            return operation.function(*bound.args, **bound.kwargs)

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        one = self.operation
        if not one.own_parameters:
            return one.function.__doc__ or ""
        lines = [f"    {name}: {parameter.about.text}" for name, parameter in one.own_parameters.items()]
        notes = _NOTES + one.notes if one.notes else ""
        return "\n".join([one.description, "", "Args:", *lines]) + notes

    @cached_property
    def __signature__(self) -> inspect.Signature:
        hints, signature = get_type_hints(self.operation.function), self.operation.signature
        places = [one.replace(annotation=hints.get(one.name, one.empty)) for one in signature.parameters.values()]
        return signature.replace(parameters=places, return_annotation=hints["return"])


def _read_parameters(function: Callable[..., Any]) -> dict[str, Parameter]:
    """Return the parameters that JSON can express, except the first (the object, memory or answer)."""
    hints = get_type_hints(function, include_extras=True)
    first, *rest = inspect.signature(function).parameters.values()
    parameters = {}
    for one in rest:
        if one.kind is not one.VAR_KEYWORD and (parameter := read_parameter(one.name, hints[one.name], one.default)):
            about = parameter.about._replace(raw=first.name == MEMORY)
            parameters[one.name] = parameter._replace(about=about)
    return parameters


def read_parameter(name: str, hint: Any, default: Any = inspect.Parameter.empty) -> Parameter | None:
    """Return a parameter from its annotation; None if JSON cannot express its values."""
    kind, *notes = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    about = next((note for note in notes if isinstance(note, About)), About(""))
    kind = about.json or kind
    options = list_options(_as_json(kind))
    if not set(options) - {type(None)}:
        return None
    needed = default is inspect.Parameter.empty
    check = about.check or (validate.moment if datetime in list_options(kind) else None)
    return Parameter(
        name,
        Union[tuple(options)],  # noqa: UP007 - made from a list
        about._replace(choices=about.choices or _find_choices(kind), check=check),
        needed,
        None if needed else default,
        not needed and type(None) in options,
    )


def _find_choices(kind: Any) -> tuple[str, ...]:
    """Return the valid texts that an annotation lists, or those of the items of a list."""
    for one in list_options(kind):
        origin, arguments = get_origin(one) or one, get_args(one)
        if origin is Literal:
            return tuple(map(str, arguments))
        if isinstance(origin, type) and issubclass(origin, Enum):
            return tuple(map(str, origin))
        is_list = isinstance(origin, type) and issubclass(origin, Iterable) and not issubclass(origin, Mapping)
        if is_list and arguments and (choices := _find_choices(arguments[0])):
            return choices
    return ()


def _as_json(kind: Any) -> Any:
    """Return the JSON type of an annotation, without types that only Python callers pass."""
    types: dict[Any, None] = {}
    for one in list_options(kind):
        origin, arguments = get_origin(one) or one, get_args(one)
        is_type = isinstance(origin, type)
        if origin in (type, Callable):
            continue
        if origin is Literal or (is_type and issubclass(origin, str | Enum | datetime | PathLike)):
            json_type: Any = str
        elif is_type and issubclass(origin, Mapping):
            json_type = dict[str, _as_json(arguments[1])] if arguments else dict  # type: ignore[misc]
        elif is_type and issubclass(origin, Iterable):
            json_type = list[_as_json(arguments[0])] if arguments else list  # type: ignore[misc]
        else:
            json_type = one
        types[json_type] = None
    return Union[tuple(types or [None])]  # noqa: UP007 - made from a list
