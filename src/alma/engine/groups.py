"""Strategy groups: which outcomes of one agent and one user are of one strategy in one sort of task.

A group is found by its words and vector, and counts an outcome only if the reader says that both strategies are the
same: another wording that it is unsure about gets a group of its own. Two processes that meet a new strategy
at the same moment must not make two groups: whoever makes one also counts up its owner's marker, so the slower of the
two meets a conflict, looks again, and finds the group.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import lru_cache

from ..reading.local import are_opposites
from ..reading.port import Pair
from ..text import STOP, fingerprint, stem, stems, words
from ..types.kinds import KINDS
from ..types.query import Where
from ..types.record import Origin, Provenance, Record, Trust
from ..types.scope import plain
from ..types.vector import Vector, cosine
from .admit import build
from .context import Engine
from .drafts import Draft
from .search import find_near
from .transaction import Transaction

_NEAR = 8
_LABEL_WORDS = 60
_SIGNS = ".,;:!?"
_FEW_WORDS = 6
_WAYS = (("up", "down"), ("on", "off"), ("in", "out"))
# Tasks this close are of one sort; below the other, of two; in between words decide.
_ALIKE, _UNLIKE = 0.65, 0.5


@dataclass(frozen=True, slots=True)
class Approach:
    """One way of doing one task, as it is looked up among the groups."""

    agent: str
    strategy: str
    task: str
    task_type: str
    vectors: tuple[Vector, ...]
    """Of the strategy and of the task, if there are any."""
    user: str = ""
    """Whose group it counts for; empty: that of nobody in particular, which all users see."""

    def accepts(self, record: Record) -> bool:
        """Whether a group, or the lesson formed from it, is about the same sort of task."""
        body = record.body
        task = body["task"] if record.kind == "strategy" else body["condition"]
        both = len(self.vectors) > 1 and len(record.vectors) > 1 and len(self.vectors[1]) == len(record.vectors[1])
        alike = cosine(self.vectors[1], record.vectors[1]) if both else None
        return same_task(self.task, task, alike, self.task_type, body["task_type"])


def same_task(task: str, other: str, alike: float | None, task_type: str = "", other_type: str = "") -> bool:
    """Whether two tasks are of one sort, so that what worked for one speaks for the other."""
    if not task or not other:
        return True
    if task_type and other_type:
        return plain(task_type) == plain(other_type)
    if alike is not None and alike < _UNLIKE:
        return False
    if task != other and contrary(task, other):
        return False
    if alike is not None and alike >= _ALIKE:
        return True
    mine, theirs = stems(task), stems(other)
    shared = len(mine & theirs)
    most = shared >= 0.6 * min(len(mine), len(theirs))
    return mine == theirs or (most and (alike is not None or shared >= 2))


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
    is_telling = any(word.casefold().strip(_SIGNS) not in STOP for word in shared)
    return " ".join(shared).strip(_SIGNS) if is_telling else label


def lesson_id(group: Record, kind: str) -> str:
    """The one heuristic and the one anti-pattern a group may have are known by its own id."""
    return f"{KINDS[kind].prefix}_{group.id.split('_', 1)[1]}"


def marker_id(engine: Engine, approach: Approach) -> str:
    owner = (approach.agent, approach.user) if approach.user else (approach.agent,)
    return f"mrk_groups_{fingerprint(engine.project, *owner)}"


def find_or_make_group(tx: Transaction, approach: Approach) -> Record:
    """Return the group that an approach counts for: one that is surely of this strategy, or a new one."""
    marker = marker_id(tx.engine, approach)
    # Read before the search: it says as of when the search found nothing.
    held = tx.find(marker)
    key = fingerprint(approach.strategy)
    where = _select_owner(tx.engine, approach)
    exact = tx.see(tx.engine.store.scan(replace(where, keys={key})))
    fresh = _find_new(tx, approach, approach.strategy)
    group = _pick_same(tx, approach, [*exact, *(one for one in fresh if one.key == key)])
    if group is None:
        vector = approach.vectors[0] if approach.vectors else None
        near = tx.get(find_near(tx.engine, vector, approach.strategy, where, _NEAR))
        group = _pick_same(tx, approach, [*near, *fresh])
    if group is not None:
        return group
    body = {"strategy": approach.strategy, "task": approach.task, "task_type": approach.task_type, "errors": []}
    learned = Provenance(Origin.OUTCOME, Trust.LEARNED)
    draft = Draft(kind="strategy", agent=approach.agent, user=approach.user, body=body, provenance=learned, key=key)
    group = tx.put(build(tx.engine, draft, approach.vectors))
    tx.set_marker(marker, {"value": held.body["value"] + 1 if held else 1}, agent=approach.agent, user=approach.user)
    for word in stems(approach.strategy) | stems(approach.task):
        tx.unindexed.setdefault((approach.agent, approach.user, word), []).append(group.id)
    return group


def find_groups_around(tx: Transaction, approach: Approach) -> list[Record]:
    """Return the groups for the same sort of task, whatever the strategy."""
    vector = approach.vectors[1] if len(approach.vectors) > 1 else None
    near = tx.get(find_near(tx.engine, vector, approach.task, _select_owner(tx.engine, approach), _NEAR))
    groups = {group.id: group for group in (*near, *_find_new(tx, approach, approach.task))}
    return [group for group in groups.values() if approach.accepts(group)]


def _select_owner(engine: Engine, approach: Approach) -> Where:
    return Where(kinds={"strategy"}, projects={engine.project}, agents={approach.agent}, users={approach.user})


def _find_new(tx: Transaction, approach: Approach, text: str) -> list[Record]:
    """Return the groups made in this transaction that share words with the text."""
    if not tx.unindexed:
        return []
    return tx.get(
        id for word in stems(text) for id in tx.unindexed.get((approach.agent, approach.user, word), ())[-_NEAR:]
    )


def _pick_same(tx: Transaction, approach: Approach, groups: Iterable[Record]) -> Record | None:
    """Return the first of the groups that is surely of this strategy, for this sort of task."""
    fitting = [group for group in {one.id: one for one in groups}.values() if approach.accepts(group)]
    relations = tx.engine.reader.compare([Pair(group.body["strategy"], approach.strategy) for group in fitting])
    return next((group for group, one in zip(fitting, relations, strict=True) if one.is_same), None)
