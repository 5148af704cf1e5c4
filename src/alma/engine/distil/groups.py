"""Strategy groups: which outcomes of one agent and one user are of one strategy in one sort of task.

A group is found by its words and vector, and counts an outcome only if the reader says that both strategies are the
same: another wording that it is unsure about gets a group of its own. Two processes that meet a new strategy
at the same moment must not make two groups: whoever makes one also counts up its owner's marker, so the slower of the
two meets a conflict, looks again, and finds the group.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import lru_cache

from ...reading.local import are_opposites
from ...reading.port import Pair
from ...text import STOP, fingerprint, stem, stems, words
from ...types.kinds import KINDS
from ...types.query import Where
from ...types.record import Origin, Provenance, Record, Trust
from ...types.scope import plain
from ...types.vector import Vector, cosine
from ..admit import build
from ..context import Engine
from ..drafts import Draft
from ..search import neighbours

_NEAR = 8
_LABEL_WORDS = 60
_SIGNS = ".,;:!?"
_FEW_WORDS = 6
_WAYS = (("up", "down"), ("on", "off"), ("in", "out"))
# Tasks this close are of one sort; below the other, of two; in between words decide.
_ALIKE, _UNLIKE = 0.65, 0.5


Owner = tuple[str, str]
"""Agent and user."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One way of doing one task, as it is looked up among the groups."""

    agent: str
    strategy: str
    task: str
    task_type: str
    vectors: tuple[Vector, ...]
    user: str = ""
    """Whose group it counts for; empty: that of nobody in particular, which all users see."""

    @property
    def owner(self) -> Owner:
        return self.agent, self.user

    @property
    def strategy_vector(self) -> Vector | None:
        return self.vectors[0] if self.vectors else None

    @property
    def task_vector(self) -> Vector | None:
        return self.vectors[1] if len(self.vectors) > 1 else None


def _cosine(a: Vector | None, b: Vector | None) -> float | None:
    return cosine(a, b) if a is not None and b is not None and len(a) == len(b) else None


def same_task(task: str, other: str, alike: float | None, task_type: str = "", other_type: str = "") -> bool:
    """Whether two tasks are of one sort, so that what worked for one speaks for the other."""
    if not task or not other:
        return True
    if task_type and other_type:
        return plain(task_type) == plain(other_type)
    if alike is not None and alike < _UNLIKE:
        return False
    mine, theirs = stems(task), stems(other)
    if task != other and contrary(task, other):
        return False
    if alike is not None and alike >= _ALIKE:
        return True
    shared = len(mine & theirs)
    most = shared >= 0.6 * min(len(mine), len(theirs))
    return mine == theirs or (most and (alike is not None or shared >= 2))


def label_of(group: Record) -> str:
    """Return what the tasks of a group share."""
    return str(group.body.get("label") or group.body["task"])


def share_label(label: str, task: str) -> str:
    """Return the words of `label` that `task` shares, in their order; `label` where it shares nothing that tells."""
    if label == task:
        return label
    own = label.split()
    mine, theirs = ([stem(word.casefold().strip(_SIGNS)) for word in text.split()] for text in (label, task))
    # Of a pasted page only the beginning is compared.
    matcher = SequenceMatcher(None, mine[:_LABEL_WORDS], theirs[:_LABEL_WORDS], autojunk=False)
    shared = [own[at] for block in matcher.get_matching_blocks() for at in range(block.a, block.a + block.size)]
    while shared and shared[-1].casefold().strip(_SIGNS) in STOP:
        shared.pop()
    return " ".join(shared).strip(_SIGNS) if _tells(shared) else label


def _tells(shared: Sequence[str]) -> bool:
    return any(word.casefold().strip(_SIGNS) not in STOP for word in shared)


def fits(attempt: Attempt, record: Record) -> bool:
    """Whether a group, or the lesson formed from it, is about the same sort of task."""
    body = record.body
    theirs = record.vectors[1] if len(record.vectors) > 1 else None
    task = body["task"] if record.kind == "strategy" else body["condition"]
    return same_task(attempt.task, task, _cosine(attempt.task_vector, theirs), attempt.task_type, body["task_type"])


@lru_cache(maxsize=4096)
def contrary(task: str, other: str) -> bool:
    """Whether one undoes the other: to enable something and to disable it, however near the vectors are."""
    mine, theirs = set(words(task)), set(words(other))
    if any((a in mine and b in theirs) or (b in mine and a in theirs) for a, b in _WAYS if not {a, b} & mine & theirs):
        return True
    left, right = mine - theirs, theirs - mine
    return (
        len(left) <= _FEW_WORDS and len(right) <= _FEW_WORDS and any(are_opposites(a, b) for a in left for b in right)
    )


class Groups:
    """The groups one transaction reads and changes."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._held: dict[str, Record] = {}
        self._changed: dict[str, Record] = {}
        self._made: dict[tuple[Owner, str], list[str]] = {}
        """By owner and word, the groups made in this transaction: the store cannot find them yet."""
        self._markers: dict[Owner, Record | None] = {}
        self._grown: set[Owner] = set()

    def find(self, attempt: Attempt) -> Record | None:
        self._read_marker(attempt.owner)
        return self._same(attempt, self._exact(attempt)) or self._closest(attempt)

    def find_or_make(self, attempt: Attempt) -> Record:
        return self.find(attempt) or self._make(attempt)

    def around(self, attempt: Attempt) -> list[Record]:
        """The groups for the same sort of task, whatever the strategy."""
        where = self._where(attempt.owner)
        stored = neighbours(self._engine, attempt.task_vector, attempt.task, where, _NEAR)
        found = self._current(stored, attempt.owner, attempt.task)
        return [group for group in found if fits(attempt, group)]

    def get(self, ids: Iterable[str], read: Iterable[Record] = ()) -> list[Record]:
        """Records as this transaction has them; `read` are such as were just read from the store."""
        wanted = list(ids)
        for record in read:
            self._held.setdefault(record.id, record)
        missing = [name for name in wanted if name not in self._held and name not in self._changed]
        for record in self._engine.store.get(missing) if missing else ():
            self._held[record.id] = record
        found = (self._changed.get(name) or self._held.get(name) for name in wanted)
        return [record for record in found if record is not None]

    def is_new(self, group: Record) -> bool:
        """Whether it was made in this transaction, so that nothing can have been formed from it before."""
        return group.id not in self._held

    def put(self, record: Record) -> None:
        """Keep a changed record; its version grows once, however often it changes in this transaction."""
        held = self._held.get(record.id)
        version = held.version + 1 if held else 1
        self._changed[record.id] = replace(record, version=version, updated_at=self._engine.clock())

    def changed(self) -> list[Record]:
        return [*self._changed.values(), *(self._next_marker(owner) for owner in sorted(self._grown))]

    def _where(self, owner: Owner, keys: set[str] | None = None) -> Where:
        agent, user = owner
        return Where(kinds={"strategy"}, projects={self._engine.project}, agents={agent}, users={user}, keys=keys)

    def _exact(self, attempt: Attempt) -> list[Record]:
        key = fingerprint(attempt.strategy)
        stored = self._engine.store.scan(self._where(attempt.owner, {key}))
        return [group for group in self._current(stored, attempt.owner, attempt.strategy) if group.key == key]

    def _closest(self, attempt: Attempt) -> Record | None:
        where = self._where(attempt.owner)
        stored = neighbours(self._engine, attempt.strategy_vector, attempt.strategy, where, _NEAR)
        return self._same(attempt, self._current(stored, attempt.owner, attempt.strategy))

    def _same(self, attempt: Attempt, groups: Iterable[Record]) -> Record | None:
        """The first of the groups that is surely of this strategy, for this sort of task."""
        fitting = [group for group in groups if fits(attempt, group)]
        pairs = [Pair(group.body["strategy"], attempt.strategy) for group in fitting]
        relations = self._engine.reader.compare(pairs)
        return next((group for group, one in zip(fitting, relations, strict=True) if one.is_same), None)

    def _current(self, stored: Iterable[Record], owner: Owner, text: str) -> list[Record]:
        """What the store gave, as this transaction has changed it, and the groups it made itself that share words."""
        found = {}
        for record in stored:
            held = self._held.setdefault(record.id, record)
            found[record.id] = self._changed.get(record.id, held)
        for word in stems(text):
            for name in self._made.get((owner, word), ())[-_NEAR:]:
                found[name] = self._changed[name]
        return list(found.values())

    def _make(self, attempt: Attempt) -> Record:
        body = {"strategy": attempt.strategy, "task": attempt.task, "task_type": attempt.task_type, "errors": []}
        learned = Provenance(Origin.OUTCOME, Trust.LEARNED)
        draft = Draft(kind="strategy", agent=attempt.agent, user=attempt.user, body=body, provenance=learned)
        group = build(self._engine, draft, attempt.vectors, key=fingerprint(attempt.strategy))
        self._grown.add(attempt.owner)
        self._changed[group.id] = group
        for word in stems(attempt.strategy) | stems(attempt.task):
            self._made.setdefault((attempt.owner, word), []).append(group.id)
        return group

    def _marker_id(self, owner: Owner) -> str:
        agent, user = owner
        return f"mrk_groups_{fingerprint(self._engine.project, agent, *([user] if user else []))}"

    def _read_marker(self, owner: Owner) -> None:
        # Must be read before the search: it says as of when the search found nothing.
        if owner not in self._markers:
            found = self._engine.store.get([self._marker_id(owner)])
            self._markers[owner] = found[0] if found else None

    def _next_marker(self, owner: Owner) -> Record:
        held = self._markers[owner]
        agent, user = owner
        count = held.body["value"] + 1 if held else 1
        system = Provenance(Origin.SYSTEM)
        draft = Draft(kind="marker", agent=agent, user=user, body={"value": count}, provenance=system)
        version = held.version + 1 if held else 1
        return build(self._engine, draft, (), id=self._marker_id(owner), version=version)


def lesson_id(group: Record, kind: str) -> str:
    """The one heuristic and the one anti-pattern a group may have are known by its own id."""
    return f"{KINDS[kind].prefix}_{group.id.split('_', 1)[1]}"
