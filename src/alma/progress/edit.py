"""One change to the plan: the items it touches are read once, changed together, and put together or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from ..engine import things
from ..engine.admit import build, change, commit, revise, rewrite
from ..engine.context import Engine
from ..engine.drafts import Draft
from ..engine.text import fingerprint
from ..errors import NotFoundError
from ..types.kinds import KINDS
from ..types.query import Where
from ..types.record import Origin, Provenance, Record
from ..types.record import Status as Standing
from .types import KIND, Status, WorkItem, item_of

T = TypeVar("T")

LINE = "work_item"
"""The tag of the lines of history that are about work items."""
_KEPT = {Standing.ACTIVE, Standing.ARCHIVED}


def key(status: str) -> str:
    """What items of a status are looked up by."""
    return f"work {status}"


def held(engine: Engine, *, statuses: Iterable[str] | None = None, archived: bool = False, **more: Any) -> list[Record]:
    """The items of a project, oldest first."""
    where = Where(
        kinds={KIND},
        projects={engine.project},
        statuses=_KEPT if archived else {Standing.ACTIVE},
        keys=None if statuses is None else {key(status) for status in statuses},
        **more,
    )
    return list(engine.store.scan(where))[::-1]


def unknown_item(engine: Engine, id: str) -> NotFoundError:
    return NotFoundError(f"there is no work item {id!r} in project {engine.project!r}")


@dataclass(frozen=True, slots=True)
class _Line:
    id: str
    verb: str
    why: str
    before: Mapping[str, Any]
    after: Mapping[str, Any]


class Edit:
    """What is read and what becomes of it."""

    def __init__(self, engine: Engine, by: str = "", read: Iterable[Record] = ()) -> None:
        self.engine = engine
        self.by = by
        self._held = {record.id: record for record in read}
        self._bodies = {id: dict(record.body) for id, record in self._held.items()}
        self._fields: dict[str, dict[str, Any]] = {}
        self._fresh: dict[str, Draft] = {}
        self._lines: list[_Line] = []
        self._built: dict[str, Record] = {}
        self._guard: Record | None = None

    # -- reading

    def load(self, ids: Iterable[str]) -> None:
        wanted = [id for id in dict.fromkeys(ids) if id not in self._bodies]
        for record in self.engine.store.get(wanted):
            if record.kind == KIND and record.project == self.engine.project and record.status in _KEPT:
                self._held[record.id] = record
                self._bodies[record.id] = dict(record.body)
        for id in wanted:
            if id not in self._bodies:
                raise unknown_item(self.engine, id)

    def body(self, id: str) -> Mapping[str, Any]:
        self.load([id])
        return self._bodies[id]

    def record(self, id: str) -> Record:
        """As it was before this change."""
        self.load([id])
        return self._held[id]

    def is_fresh(self, id: str) -> bool:
        return id in self._fresh

    def title(self, id: str) -> str:
        return str(self.body(id)["title"])

    def item(self, id: str) -> WorkItem:
        """As it is after this change."""
        return item_of(self._built.get(id) or self._held[id])

    def guard(self) -> None:
        """Keep others from changing the order of the items at the same time.

        Two changes that are right each for itself can together make a circle without touching the same item. Must be
        called before the items are read.
        """
        name = f"mrk_work_{fingerprint(self.engine.project)}"
        found = self.engine.store.get([name])
        draft = Draft(kind="marker", body={"value": "work"}, provenance=Provenance(Origin.SYSTEM))
        self._guard = revise(self.engine, found[0]) if found else build(self.engine, draft, (), id=name)

    # -- changing

    def add(self, id: str, body: Mapping[str, Any], agent: str, tags: Sequence[str]) -> None:
        self._fresh[id] = things.draft(KIND, body, agent=agent, tags=tags)
        self._bodies[id] = dict(body)

    def alter(
        self,
        id: str,
        verb: str,
        changes: Mapping[str, Any],
        why: str = "",
        fields: Mapping[str, Any] | None = None,
    ) -> None:
        """`changes` are those of the body, `fields` those of the record; without a verb history does not mention it."""
        body = self.body(id)
        after = {name: value for name, value in changes.items() if body[name] != value}
        before = {name: body[name] for name in after}
        self._bodies[id] |= after
        if fields and id in self._fresh:
            self._fresh[id] = replace(self._fresh[id], **fields)
        elif fields:
            new = {name: value for name, value in fields.items() if getattr(self.record(id), name) != value}
            before |= {name: _plain(getattr(self.record(id), name)) for name in new}
            after |= {name: _plain(value) for name, value in new.items()}
            self._fields.setdefault(id, {}).update(new)
        if verb and (after or why):
            self._lines.append(_Line(id, verb, why, _shown(before), _shown(after)))

    def erase(self, id: str) -> None:
        """Leave only the id, so that nobody who read it before brings it back."""
        emptied = {"text": "", "vectors": (), "embedder": "", "tags": (), "links": ()}
        self._fields[id] = {"status": Standing.RETIRED, "key": "", **emptied}
        self._bodies[id] = {}
        self._lines = [line for line in self._lines if line.id != id]

    # -- what is to be put

    def records(self) -> list[Record]:
        for id in self._bodies:
            if id in self._fresh or self._changed(id):
                self._built[id] = self._build(id)
        lines = [self._told(line) for line in self._lines if line.id not in self._fresh]
        return [*self._built.values(), *lines, *([self._guard] if self._guard else [])]

    def _changed(self, id: str) -> bool:
        return self._bodies[id] != self._held[id].body or bool(self._fields.get(id))

    def _build(self, id: str) -> Record:
        body = self._bodies[id]
        place: dict[str, Any] = {"key": key(body["status"]), "links": _links(body)} if body else {}
        if id in self._fresh:
            return things.made(self.engine, replace(self._fresh[id], body=body), id=id, **place)
        fields = place | self._fields.get(id, {})
        record = self._held[id]
        # A status is changed far more often than a title, and then there is nothing to embed.
        if not body or KINDS[KIND].text(body) == record.text:
            return revise(self.engine, record, body=body, **fields)
        return rewrite(self.engine, record, body, **fields)

    def _told(self, line: _Line) -> Record:
        record = self._built.get(line.id) or self._held[line.id]
        made = change(self.engine, record, line.verb, line.why, line.before)
        return replace(made, agent=self.by, tags=(LINE,), body={**made.body, "by": self.by, "after": line.after})


def _shown(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in ("working_since", "held")}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else str(value)


def _links(body: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, (body["parent_id"], *body["blocked_by"]))))


def write(engine: Engine, by: str, step: Callable[[Edit], T]) -> tuple[Edit, T]:
    """Do a step on what is held now, again and again until nobody else was faster; it may raise to change nothing."""

    def attempt() -> tuple[tuple[Edit, T], list[Record]]:
        edit = Edit(engine, by)
        result = step(edit)
        return (edit, result), edit.records()

    return commit(engine, attempt)


def one(engine: Engine, by: str, id: str, step: Callable[[Edit], object]) -> WorkItem:
    """The same for one item."""
    edit, _ = write(engine, by, step)
    edit.load([id])
    return edit.item(id)


def fresh_body(told: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "title": "",
        "description": "",
        "item_type": "task",
        "status": str(Status.PENDING),
        "priority": 50,
        "parent_id": None,
        "blocks": [],
        "blocked_by": [],
        "waiting_for": [],
        "held": False,
        "started_at": None,
        "completed_at": None,
        "working_since": None,
        "time_spent_ms": 0,
        "attempt_count": 0,
        "tests": [],
        "test_results": {},
        "tests_passing": False,
        "estimate_minutes": None,
        "notes": "",
        "claimed_by": None,
        "claimed_until": None,
        "metadata": {},
        **told,
    }
