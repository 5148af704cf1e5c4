"""Operations: what can be done with a memory, each declared once, as a method of the class that does it.

The MCP server, the HTTP service, the remote client, the command line and the reference are derived from them:
`operations()` lists them all, `operation.call(alma, arguments)` checks arguments and runs one.

How to declare an operation
---------------------------
1. In the module of the class, say which group its operations belong to and how to get from an open memory to the
   object they are called on. `MODULES` below lists the groups in the order in which people meet them.

       operation = Group("work", lambda alma: ProgressTracker(alma=alma, project_id=alma.project_id))

2. Decorate the method. The annotations are what Python callers pass; `About` explains a parameter to people and models
   and carries its limits. Parameters that many operations share are in `alma.words`. The docstring is the description
   that faces show; what only people need to know comes after a line `Notes:`.

       @operation(Effect.CHANGES, idempotent=True)
       def update_status(self, item_id: ItemId, status: Annotated[Status | str, About("what it is now")]) -> WorkItem:

3. The body works on checked values in every face: texts without control characters, names stripped, choices valid,
   numbers within limits, times in UTC (`About.check` says how; otherwise the type does). A blank optional text is "".
4. Where faces show something else than the method: `@operation(Effect.READS, "stats")` gives another name, `defaults`
   other defaults, `answer` a function from what the method returns to what faces return. `answer` may take arguments
   of the call by name, and parameters of its own, which faces then offer too.
5. Give it a command: a row of `alma.cli.commands.COMMANDS`, best below a command that exists. A sample call goes to
   `tests/api/samples.py`; `ALMA_UPDATE_GOLDEN=1 pytest tests/golden` and `tools/generate_docs.py` write the rest.
   `python -m tools.generate_stub` shows a method of `ALMA` to type checkers in `AsyncALMA`, too.
6. Parameters that JSON cannot express (functions, classes, `**fields`) are for Python callers only. All annotations
   must be importable at run time, not only under TYPE_CHECKING.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, StrEnum
from functools import cached_property, wraps
from importlib import import_module
from os import PathLike
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from .engine import validate
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
}
"""The groups, in the order in which people meet them, and the modules that declare the operations of each."""
GROUPS = tuple(MODULES)
MEMORY = "alma"
"""The first parameter of an operation that is a function; it is no argument of its callers."""
PROGRESS = "progress"
"""A parameter of long operations: a function that gets how many are done, and of how many."""
_NOTES = "\n\nNotes:\n"
_NO_NOUNS = {"to", "only", "include", "prefer"}
"""Parameters whose name does not say what an unknown value of them is."""
DEEPEST = 64
"""How many levels the arguments of a call may be nested."""


class Effect(StrEnum):
    READS = "reads"
    """What is noted about a retrieval for later judging is no change."""
    ADDS = "adds"
    CHANGES = "changes"
    ERASES = "erases"
    """Takes something away that cannot be had back."""


class About(NamedTuple):
    """What a parameter means, and which values are valid."""

    text: str
    choices: tuple[str, ...] = ()
    """By default those of a `Literal` or an enumeration in its type."""
    check: Callable[[str, Any], Any] | None = None
    """Checks and converts a value, given the parameter's name; by default its type decides."""
    least: float | None = None
    most: float | None = None
    """Limits of a number; `most` also of a text, in characters."""
    raw: bool = False
    """The body checks the text itself. Functions do so, whose first parameter is the memory."""
    local: bool = False
    """A path on the machine of the memory: callers from elsewhere may not name one."""
    uri: bool = False
    """It may be a URI instead, which nobody opens."""
    is_rule_file: Callable[[Any], bool] | None = None
    """A local path that must be a file which coding agents read rules from."""
    is_root: bool = False
    """A local path without which the folder around the current one is taken."""
    vouches: bool = False
    """True takes outside content for a person's own words: only a person may."""
    shown_as: str = ""
    """What faces call it, where that is another name than the method's."""
    json: Any = None
    """The type that faces show, where Python callers may pass more."""
    is_required: bool = False
    """Faces need it, though Python callers have another way to say it."""
    for_python: bool = False
    """Only Python callers pass it."""
    example: Any = None
    """A value for readers of the OpenAPI document."""


def take_as_given(label: str, value: Any) -> Any:
    """Check nothing: for values that the method checks itself."""
    return value


class Parameter(NamedTuple):
    name: str
    type: Any
    """As JSON callers see it: lists, objects, strings, numbers."""
    about: About
    needed: bool
    default: Any = None
    takes_null: bool = False
    """Whether null is a value. Otherwise it means that the argument is left out."""

    def describe_missing(self, of: str = "") -> str:
        valid = f" Valid: {', '.join(self.about.choices)}." if self.about.choices else ""
        return f"missing argument {self.name!r}{of}: {self.about.text}.{valid}"

    def check(self, value: Any, kind: Any = None, label: str = "") -> Any:
        """Return a value as the operation takes it. ValidationError says what is wrong and what is valid.

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
    name: str
    function: Callable[..., Any]
    """The method, or a function whose first parameter is the memory; its arguments must be checked before."""
    effect: Effect
    group: str
    owner: Callable[[Any], Any] = lambda alma: alma
    """From an open memory to the object whose method it is."""
    idempotent: bool = False
    """Called twice with the same arguments it does no more than once."""
    for_models: bool = True
    """A model may choose it. What is only there for programs, such as many calls in one, would stand in its way."""
    on_files: bool = False
    """It works on files of the machine that it runs on: it is not for callers from elsewhere."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Other defaults than those of the method."""
    answer: Callable[..., Any] | None = None
    """From what the method returns to what faces return: a function, or a class with one field."""

    @cached_property
    def description(self) -> str:
        """The docstring, for people and models, up to its notes."""
        return (inspect.getdoc(self.function) or "").partition(_NOTES)[0]

    @property
    def notes(self) -> str:
        """What else people should know who call the method."""
        return (inspect.getdoc(self.function) or "").partition(_NOTES)[2]

    @property
    def summary(self) -> str:
        return self.description.partition("\n")[0]

    @cached_property
    def signature(self) -> inspect.Signature:
        return inspect.signature(self.function)

    @cached_property
    def own_parameters(self) -> Mapping[str, Parameter]:
        """The parameters of the method, with its own defaults."""
        return _read_parameters(self.function)

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters as faces offer them, with those of `answer`."""
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
        """Whether it can report how far it is."""
        return PROGRESS in self.signature.parameters

    @cached_property
    def returns(self) -> Any:
        """What faces return."""
        if isinstance(self.answer, type):
            return self.answer
        return get_type_hints(self.answer or self.function)["return"]

    def check(
        self, arguments: Mapping[str, Any], defaults: Mapping[str, Any] | None = None, *, of: str = ""
    ) -> dict[str, Any]:
        """Return arguments as the operation takes them. ValidationError names all that are unknown or missing.

        What fits by any reasonable reading is taken: null for an argument that has a default, 5.0 for 5. `defaults` are
        for arguments that would be missing otherwise. `of` tells which operation it is, where that is not obvious.
        """
        level: list[Any] = [arguments]
        for _ in range(DEEPEST + 1):
            level = [
                inner
                for one in level
                if isinstance(one, dict | list)
                for inner in (one.values() if isinstance(one, dict) else one)
            ]
        if level:
            raise ValidationError(f"the arguments are nested deeper than {DEEPEST} levels")
        known = {one.name: one for one in self.parameters}
        filled = {name: value for name, value in (defaults or {}).items() if name in known and known[name].needed}
        wrong = [
            unknown(f"argument{of}", name, known) if known else f"unknown argument{of} {name!r}. There are none."
            for name in arguments
            if name not in known
        ]
        for one in known.values():
            if one.needed and arguments.get(one.name) is None and one.name not in filled:
                wrong.append(one.describe_missing(of))
        if wrong:
            raise ValidationError("\n".join(wrong))
        return filled | {
            name: known[name].check(value)
            for name, value in arguments.items()
            if value is not None or (known[name].takes_null and not known[name].needed)
        }

    def complete(self, arguments: Any) -> dict[str, Any]:
        """Return a mapping of arguments, one of several in one call, checked and with the defaults of the method."""
        if not isinstance(arguments, Mapping):
            raise ValidationError(f"{self.name} takes a mapping of arguments, not {type(arguments).__name__}")
        defaults = {name: one.default for name, one in self.own_parameters.items() if not one.needed}
        return defaults | self.check(arguments, of=f" of {self.name}")

    def run(self, alma: Any, /, **arguments: Any) -> Any:
        """Run the operation with checked arguments, and return what faces show."""
        own = {one.about.shown_as: name for name, one in self.own_parameters.items() if one.about.shown_as}
        values = {**self.defaults, **{own.get(name, name): value for name, value in arguments.items()}}
        mine = {name: value for name, value in values.items() if name in self.signature.parameters}
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

    def input_schema(self, given: Mapping[str, Any] | None = None) -> Schema:
        """Return the schema of the arguments, for models: short, and without a null that means leaving it out.

        `given` holds arguments that have a value already and need not be named.
        """
        known = given or {}
        members: dict[str, Schema] = {}
        for one in self.parameters:
            default = known.get(one.name) if one.needed else one.default
            options = [kind for kind in list_options(one.type) if default is not None or kind is not type(None)]
            schema = describe_type(Union[tuple(options)], {}, one.about.choices)  # noqa: UP007 - made from a list
            if one.about.text:
                schema["description"] = one.about.text
            if default is not None:
                schema["default"] = default.value if isinstance(default, Enum) else default
            members[one.name] = schema
        return strict_object(members, [one.name for one in self.parameters if one.needed and one.name not in known])

    def output_schema(self) -> Schema:
        """Return the schema of the answer, for models: a text for a prompt takes the place of what it tells."""
        return describe_answer(self.returns)


OPERATIONS: dict[str, Operation] = {}
"""Those of the modules that are loaded, by name."""


def operations() -> Mapping[str, Operation]:
    """Load all operations and return them by name, in the order of their groups."""
    for modules in MODULES.values():
        for module in modules:
            import_module(module)
    # By the module that declares it, too: which one was loaded first is chance.
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
            given = {"idempotent": effect is Effect.READS, "owner": self._owner, **options}
            operation = Operation(name or function.__name__, function, effect, self.name, **given)
            if operation.name in OPERATIONS:
                raise ValueError(f"there are two operations of the name {operation.name!r}")
            OPERATIONS[operation.name] = operation
            if function.__code__.co_varnames[:1] == (MEMORY,):
                return function

            @wraps(function)
            def call(self: Any, *args: Any, **kwargs: Any) -> Any:
                bound = operation.signature.bind(self, *args, **kwargs)
                if call_elsewhere := getattr(self, "call_elsewhere", None):
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
                return function(*bound.args, **bound.kwargs)

            call.operation = operation  # type: ignore[attr-defined]
            return call  # type: ignore[return-value]

        return declare


def describe_methods(owner: type) -> None:
    """Let `help()` show the operations of a class with plain types and what each argument means."""
    for member in vars(owner).values():
        one = getattr(member, "operation", None)
        if isinstance(one, Operation) and one.own_parameters:
            hints, signature = get_type_hints(one.function), inspect.signature(one.function)
            places = [two.replace(annotation=hints.get(two.name, two.empty)) for two in signature.parameters.values()]
            member.__signature__ = signature.replace(parameters=places, return_annotation=hints["return"])
            lines = [f"    {name}: {known.about.text}" for name, known in one.own_parameters.items()]
            notes = _NOTES + one.notes if one.notes else ""
            member.__doc__ = "\n".join([one.description, "", "Args:", *lines]) + notes


def _read_parameters(function: Callable[..., Any]) -> dict[str, Parameter]:
    """Return the parameters that JSON can express, without the first: the object, the memory or the answer."""
    hints = get_type_hints(function, include_extras=True)
    first, *rest = inspect.signature(function).parameters.values()
    parameters = {}
    for one in rest:
        if one.kind is not one.VAR_KEYWORD and (parameter := read_parameter(one.name, hints[one.name], one.default)):
            about = parameter.about._replace(raw=first.name == MEMORY)
            parameters[one.name] = parameter._replace(about=about)
    return parameters


def read_parameter(name: str, hint: Any, default: Any = inspect.Parameter.empty) -> Parameter | None:
    """Return what an annotation says about a parameter; None when JSON cannot express its values."""
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
    """Return the JSON type of an annotation: what only Python callers pass is left out."""
    found: dict[Any, None] = {}
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
        found[json_type] = None
    return Union[tuple(found or [None])]  # noqa: UP007 - made from a list
