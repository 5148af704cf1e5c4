"""What was found, kept: each finding once, however often its conversation is told, and through the engine's one door.

A finding leaves a mark in the same transaction as what became of it, and a marked one is known: a deleted memory does
not come back because its chat is read again, an outcome counts once, and an old chat read again does not overrule what
was said since. What comes from a text that is not trusted, or reads like an attempt to instruct the model, waits for a
person, each on its own; nothing that is learned takes words or standing from it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ..engine import validate
from ..engine.admit import build, commit
from ..engine.context import Engine
from ..engine.drafts import Draft
from ..engine.inject.escape import suspicious
from ..engine.text import fingerprint, shorten
from ..engine.view import view
from ..errors import ValidationError
from ..types.kinds import MemoryType
from ..types.record import Origin, Provenance, Record, Status, Trust
from ..types.speech import by_name
from .becoming import Becoming, Made, Place, Preparing, becomings, learning
from .turns import digest
from .types import Extracted, Kept, Kind, Voice

if TYPE_CHECKING:
    from ..core import ALMA
    from ..progress import ProgressTracker

_QUOTE_CHARS = 500
_TITLE_CHARS = 200
_SHOWN_CHARS = 80
_ORIGINS = {Voice.PERSON: Origin.USER, Voice.ASSISTANT: Origin.AGENT, Voice.DOCUMENT: Origin.IMPORT}
_LISTS = {
    MemoryType.DOMAIN_KNOWLEDGE: "domain_knowledge",
    MemoryType.USER_PREFERENCE: "user_preferences",
    MemoryType.ANTI_PATTERN: "anti_patterns",
    MemoryType.HEURISTIC: "heuristics",
    MemoryType.OUTCOME: "outcomes",
    MemoryType.RULE: "rules",
}


def keep(
    alma: ALMA,
    found: Sequence[Extracted],
    *,
    agent: str,
    user_id: str | None = None,
    source: str,
    episode: str = "",
    session_id: str = "",
    trusted: bool,
    relayed: bool = False,
) -> Kept:
    """Keep what was found in a conversation or text, and say what is new.

    `source` names where it comes from, `episode` is the id of the conversation if that is kept, too. With
    `trusted=False` it is the words of others: it waits for a person as a candidate, and tasks in it are not taken on.
    With `relayed=True` an agent reports it: what a person says in it counts as the agent's word, and rules wait.
    """
    place = Place(
        engine=alma.engine,
        agent=alma.engine.agent(validate.name("agent", agent)),
        user=None if user_id is None else validate.name("user_id", user_id),
        source=validate.name("source", source),
        episode=episode,
        session=session_id,
    )
    tally = _Tally()
    items = [_as_relayed(one) if relayed else one for one in _fresh(place, found, trusted, tally)]
    memories = [one for one in items if one.kind not in (Kind.OUTCOME, Kind.WORK_ITEM)]
    _put(place, memories, becomings, tally)
    _put(place, [one for one in items if one.kind is Kind.OUTCOME], learning, tally)
    _take_on(alma, place, [one for one in items if one.kind is Kind.WORK_ITEM], tally)
    return tally.kept(place)


@dataclass(slots=True)
class _Tally:
    """What became of the findings so far."""

    new: dict[str, Record] = field(default_factory=dict)
    work: list[Any] = field(default_factory=list)
    superseded: list[str] = field(default_factory=list)
    known: int = 0
    refused: list[str] = field(default_factory=list)

    def refuse(self, kind: Kind, text: str, why: object) -> None:
        self.refused.append(f"{kind.replace('_', ' ')} {shorten(text, _SHOWN_CHARS)!r}: {why}")

    def kept(self, place: Place) -> Kept:
        now = place.engine.clock()
        lists: dict[str, list[Any]] = {name: [] for name in _LISTS.values()}
        for record in self.new.values():
            lists[_LISTS[MemoryType(record.kind)]].append(view(record, now))
        return Kept(**lists, work_items=self.work, known=self.known, superseded=self.superseded, refused=self.refused)


# -- what is new


def _fresh(place: Place, found: Sequence[Extracted], trusted: bool, tally: _Tally) -> list[Becoming]:
    """Those without a mark, each once."""
    items: dict[str, Becoming] = {}
    for one in found:
        mark = _mark_of(place, one)
        if mark in items:
            tally.known += 1
            continue
        try:
            items[mark] = _becoming(place, one, mark, trusted)
        except ValidationError as error:
            tally.refuse(one.kind, one.text, error)
    return _left(place, list(items.values()), tally)


def _mark_of(place: Place, one: Extracted) -> str:
    key = one.key or digest(str(one.turn), one.kind, one.quote, one.text)
    user = place.user or ""
    return f"mrk_heard_{digest(place.engine.project, place.agent, user, place.session, key)}"


def _becoming(place: Place, one: Extracted, mark: str, trusted: bool) -> Becoming:
    text = validate.text("text", one.text)
    fields = {name: validate.text(name, value) for name, value in one.fields.items() if value}
    doubted = () if not trusted else suspicious("\n".join((one.quote, text, *fields.values())))
    believed = trusted and not doubted
    provenance = Provenance(
        _ORIGINS[one.voice] if believed else Origin.CONTENT,
        Trust.LEARNED if believed else Trust.UNTRUSTED,
        (place.episode,) if place.episode else (),
        place.source,
    )
    told = {
        "quote": shorten(one.quote, _QUOTE_CHARS),
        "turn": one.turn,
        "speaker": one.speaker,
        "confidence": one.confidence,
        **({"model": one.model} if one.model else {}),
    }
    tags = ("decision",) if one.kind is Kind.DECISION else ()
    return Becoming(one, mark, text, fields, provenance, told, tags, _whose(place, one, trusted))


def _as_relayed(item: Becoming) -> Becoming:
    if item.provenance.origin is not Origin.USER:
        return item
    return replace(item, provenance=replace(item.provenance, origin=Origin.AGENT))


def _whose(place: Place, one: Extracted, trusted: bool) -> str:
    """Whose preference it is: that of whom it is kept for; where nobody says, or others speak, of who said it."""
    named = by_name(one.speaker, "") != "" and one.voice is Voice.PERSON
    if place.user and (trusted or not named):
        return place.user
    return one.speaker if named else "user"


def _marks(engine: Engine, items: Sequence[Becoming]) -> list[Record]:
    draft = Draft(kind="marker", body={"value": "heard"}, provenance=Provenance(Origin.SYSTEM))
    return [build(engine, draft, (), id=item.mark) for item in items]


def _left(place: Place, items: list[Becoming], tally: _Tally) -> list[Becoming]:
    """Those that nobody has kept yet."""
    held = {record.id for record in place.engine.store.get([item.mark for item in items])}
    tally.known += len(held)
    return [item for item in items if item.mark not in held]


# -- memories


def _put(
    place: Place, items: list[Becoming], preparing: Callable[[Place, Sequence[Becoming]], Preparing], tally: _Tally
) -> None:
    while items:
        result = _attempted(place, items, preparing(place, items))
        if result is not None:
            made, tally.superseded[len(tally.superseded) :] = result
            for item, (record, verb) in zip(items, made, strict=True):
                _count(item, record, verb, tally)
            return
        # Somebody told the same at the same time; what they did not keep is left.
        items = _left(place, items, tally)


def _attempted(place: Place, items: Sequence[Becoming], prepared: Preparing) -> tuple[list[Made], list[str]] | None:
    """What became of each, and the ids of what they took the place of; None when somebody else was faster."""
    engine = place.engine

    def attempt() -> tuple[tuple[list[Made], list[str]] | None, list[Record]]:
        if engine.store.get([item.mark for item in items]):
            return None, []
        made, changed = prepared()
        ended = [one.id for one in changed if one.status is Status.SUPERSEDED and one.version > 1]
        return (made, ended), [*changed, *_marks(engine, items)]

    return commit(engine, attempt)


def _count(item: Becoming, record: Record | None, verb: str, tally: _Tally) -> None:
    if record is None:
        tally.refuse(item.kind, item.text, verb)
    elif verb != "made" or record.id in tally.new:
        tally.known += 1
    else:
        tally.new[record.id] = record


# -- work


def _take_on(alma: ALMA, place: Place, items: Sequence[Becoming], tally: _Tally) -> None:
    """The tasks of others are not taken on: an agent would do them."""
    from ..progress import ProgressTracker

    engine, wanted = place.engine, []
    for item in items:
        if item.waits:
            tally.refuse(item.kind, item.text, "tasks in a text that is not trusted are not taken on")
        else:
            wanted.append(item)
    for item in wanted:
        id = _work_id(place, item)
        made = _begun(ProgressTracker(alma=alma), _work(place, item, id)) if id else []
        tally.known += not made
        tally.work += made
    if wanted:
        commit(engine, lambda: (None, _marks(engine, _left(place, wanted, _Tally()))))


def _begun(tracker: ProgressTracker, work: dict[str, Any]) -> list[Any]:
    """The work item; none when somebody else began the same at this moment."""
    try:
        return list(tracker.create_work_items([work]))
    except ValidationError:
        if tracker.engine.store.get([work["id"]]):
            return []
        raise


def _work_id(place: Place, item: Becoming) -> str | None:
    """An id that follows from what is to be done, so that nothing is begun twice; None while that is open.

    What was done and is asked for again is another piece of work.
    """
    name = f"wrk_{fingerprint(place.engine.project, place.agent, item.field('title', item.text))[:24]}"
    again = f"wrk_{item.mark[-24:]}"
    held = {record.id: record for record in place.engine.store.get([name, again])}
    if name not in held:
        return name
    done = held[name].body["status"] == "done" or held[name].status is not Status.ACTIVE
    return again if done and again not in held else None


def _work(place: Place, item: Becoming, id: str) -> dict[str, Any]:
    return {
        "id": id,
        "title": shorten(item.field("title", item.text), _TITLE_CHARS),
        "description": item.found.quote,
        "agent": place.agent,
        "tags": ["extracted"],
        "metadata": {**item.told, "source": place.source},
    }
