"""What a kind of record is, declared once by the fields of a dataclass.

A memory is a dataclass whose fields say where they come from: `stored` in the body of the record,
`taken` from an attribute of the record, or `derived` from the record by a function. How a record becomes a memory, what
is searched, what is embedded, and which fields may be edited follow from that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, field, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from ..text import index_unspaced

if TYPE_CHECKING:
    from .evidence import Belief
    from .kinds import Memory
    from .record import Record

Body = Mapping[str, Any]
Read = Callable[[Any], Any] | None
Decode = Callable[["Record", "Belief"], "Memory"]


class Kind(NamedTuple):
    """`text` is what is searched, `passages` what is embedded, `decode` gives what is shown."""

    name: str
    prefix: str
    fields: tuple[str, ...]
    """What the body holds."""
    text: Callable[[Body], str] = lambda body: ""
    passages: Callable[[Body], tuple[str, ...]] = lambda body: ()
    decode: Decode | None = None
    editable: tuple[str, ...] = ()
    unique: tuple[str, ...] = ()
    """The fields that make it the same memory when it is told again; none: every one is a new one."""
    keys: tuple[str, ...] = ()
    """The optional fields of an explicit key: within the first unique field, a key has one active value."""
    passing: bool = False
    """A note that a power cut may take, and that may wait in memory while others write."""


def stored(
    name: str = "",
    *,
    read: Read = None,
    derive: Callable[[Record], Any] | None = None,
    default: Any = MISSING,
    default_factory: Any = MISSING,
    **marks: int,
) -> Any:
    """Return a field that the body holds, under `name` where it has another name there.

    The marks are `searched`, `embedded`, `editable`, `unique` and `key`. `searched` fields form the searched text in
    ascending order, those with equal numbers as they are declared; the embedded ones follow the same order. `read`
    turns the JSON value into the field's; with `derive` a function makes it from the record.
    """
    source = {"taken": derive} if derive else {}
    metadata = {"stored": name, "read": read, **marks, **source}
    return field(default=default, default_factory=default_factory, metadata=metadata)


def taken(path: str, read: Read = None, default: Any = MISSING) -> Any:
    """Return a field that is an attribute of the record, such as "evidence.successes"."""
    return field(default=default, metadata={"taken": attrgetter(path), "read": read})


def derived(function: Callable[[Record], Any], default: Any = MISSING) -> Any:
    """Return a field that a function makes from the record."""
    return field(default=default, metadata={"taken": function})


def declare(
    name: str,
    prefix: str,
    memory: type[Memory] | None = None,
    more: str = "",
    *,
    searched: str = "",
    unique: str = "",
    passage_chars: int = 0,
    text: Callable[[Body], str] | None = None,
    passages: Callable[[Body], tuple[str, ...]] | None = None,
    extra_text: Callable[[Body], str] | None = None,
    passing: bool = False,
) -> Kind:
    """Return a kind. `more` names what the body holds beside the memory's fields, separated by spaces.

    A kind without a memory names its `searched` and `unique` fields; with `passage_chars` the beginnings of the
    searched ones are embedded, each short enough to be one passage, so that vectors and fields correspond.
    `extra_text` is searched after the fields; `text` and `passages` replace what the fields say.
    """
    marked: dict[str, dict[str, Any]] = {}
    for part in fields(memory) if memory else ():
        if "stored" in part.metadata and part.name != "metadata":
            marked[part.metadata["stored"] or part.name] = dict(part.metadata)
    marked |= {one: {} for one in more.split()}
    for mark, names in (("searched", searched), ("unique", unique)):
        for number, one in enumerate(names.split()):
            marked[one][mark] = number

    def select(mark: str) -> tuple[str, ...]:
        return tuple(one for one in marked if mark in marked[one])

    search = sorted(select("searched"), key=lambda one: marked[one]["searched"])
    embed = search if passage_chars else [one for one in search if "embedded" in marked[one]]
    return Kind(
        name,
        prefix,
        tuple(marked),
        text or _join_fields(search, extra_text),
        passages or (lambda body: tuple(str(body[one])[: passage_chars or None] for one in embed if body.get(one))),
        _make_decoder(memory) if memory else None,
        editable=select("editable"),
        unique=select("unique"),
        keys=select("key"),
        passing=passing,
    )


def _join_fields(names: list[str], extra_text: Callable[[Body], str] | None) -> Callable[[Body], str]:
    def join(body: Body) -> str:
        lines = [str(body[name]) for name in names if body.get(name)]
        extra = extra_text(body) if extra_text else ""
        text = "\n".join([*lines, extra] if extra else lines)
        return text if text.isascii() else index_unspaced(text)

    return join


def _make_decoder(memory: type[Memory]) -> Decode:
    # Read once: a retrieval decodes many records.
    declared = [(one, one.metadata, one.metadata.get("read")) for one in fields(memory)]
    from_record = [(one.name, marks["taken"], read) for one, marks, read in declared if "taken" in marks]
    from_body = [
        (one, marks["stored"] or one.name, read)
        for one, marks, read in declared
        if "stored" in marks and "taken" not in marks
    ]

    def decode(record: Record, belief: Belief) -> Memory:
        body = record.body
        values = {name: read(take(record)) if read else take(record) for name, take, read in from_record}
        for one, name, read in from_body:
            # A body that was written before the field existed leaves it to its default.
            if name in body or (one.default is MISSING and one.default_factory is MISSING):
                values[one.name] = read(body[name]) if read else body[name]
        return memory(confidence=belief.mean, confidence_interval=(belief.low, belief.high), **values)

    return decode
