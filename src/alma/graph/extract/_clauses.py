"""Who did what: relations between the entities and things of a sentence.

Precision comes first. What is denied, asked, supposed, wished for or said by somebody else is not taken for a fact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...types.graph import THING
from ._chunks import Chunk, Part
from ._verbs import BY_PEOPLE, OF_ORGANISATIONS, WITH_PREPOSITIONS, Form, type_of
from ._words import OF_PEOPLE, PRESENT, ROLES

_PEOPLE_AND = ("person", THING)
_PLACED = ("lives_in", "moved_to", "moved_from", "moves_to", "based_in", "located_in")
_EMPLOYED = ("works_at", "worked_at", "teaches_at", "studies_at", "graduated_from")


@dataclass(slots=True)
class Said:
    """A relation as a sentence says it, and what it lets us know of the kind of its ends."""

    subject: Chunk
    type: str
    object: Chunk
    subject_type: str = ""
    object_type: str = ""


@dataclass(slots=True)
class _Clause:
    """A verb, who does it, and what is known of it."""

    at: int
    subjects: list[Chunk]
    lemma: str
    past: bool
    passive: bool
    antecedent: Chunk | None = None
    """What "that" stands for when it is what the verb is done to."""
    factual: bool = True


def relations(row: Sequence[Chunk], *, question: bool = False, speaker: Chunk | None = None) -> list[Said]:
    """What a sentence says; nothing when it asks."""
    if question:
        return []
    reading = _Reading(row, speaker)
    found = [*_memberships(row), *_kin(row), *reading.copulas(), *reading.actions()]
    return [one for one in found if one.subject is not one.object]


def _nominal(one: Chunk | None) -> bool:
    return one is not None and one.part in (Part.ENTITY, Part.NOUN, Part.PRONOUN)


def _entity(one: Chunk | None, *types: str) -> bool:
    return (
        one is not None
        and one.part is Part.ENTITY
        and one.mention is not None
        and (not types or one.mention.type in types)
    )


def usable(one: Chunk) -> bool:
    """An entity, or a thing told closely enough to be known again."""
    if one.part is Part.ENTITY:
        return not one.headed
    return one.part is Part.NOUN and len(one.words) > 1


# -- said without a verb


def _memberships(row: Sequence[Chunk]) -> Iterator[Said]:
    """ "Alice from Acme Corp", "Alice of Acme"."""
    for at in range(len(row) - 2):
        first, link, second = row[at], row[at + 1], row[at + 2]
        if link.low not in ("from", "of", "at") or not _entity(first, "person") or not _entity(second):
            continue
        if at > 0 and row[at - 1].part in (Part.PREPOSITION, Part.VERB) and link.low != "from":
            continue
        if second.headed or any(one.part in (Part.VERB, Part.AUXILIARY) for one in row[max(0, at - 2) : at]):
            continue
        assert second.mention is not None
        if second.mention.type == "place":
            yield Said(first, "from", second)
        elif second.mention.type in ("organisation", "product", THING):
            yield Said(first, "works_at", second, object_type="organisation")


def _kin(row: Sequence[Chunk]) -> Iterator[Said]:
    """ "Gina's sister Holly"; "Holly, Gina's sister"."""
    for at in range(len(row) - 2):
        owner, mark, role = row[at : at + 3]
        if mark.part is not Part.OWNER or not _entity(owner) or role.part is not Part.NOUN or role.low not in ROLES:
            continue
        named = _bearer(row, at)
        if named is not None:
            yield Said(named, f"{_role(role.low)}_of", owner, "person", _owner_type(role.low))


def _bearer(row: Sequence[Chunk], at: int) -> Chunk | None:
    """Who is "Gina's sister", which stands here: named after it, before it, or by "is"."""
    places = [at + 3]
    if at > 1 and row[at - 1].part is Part.COMMA:
        places.append(at - 2)
    if at + 4 < len(row) and row[at + 3].low == "is":
        places.append(at + 4)
    for place in places:
        if place < len(row) and _entity(row[place], *_PEOPLE_AND) and not row[place].headed:
            return row[place]
    return None


_SAME_ROLE = {"mom": "mother", "mum": "mother", "dad": "father", "co-founder": "cofounder"}


def _role(low: str) -> str:
    return {"mom": "mother", "mum": "mother", "dad": "father", "co-founder": "cofounder"}.get(low, low).replace(
        "é", "e"
    )


def _owner_type(role: str) -> str:
    return "person" if role in OF_PEOPLE else ""


# -- said with one


class _Reading:
    def __init__(self, row: Sequence[Chunk], speaker: Chunk | None) -> None:
        self.row = row
        self.speaker = speaker
        self.clauses: dict[int, _Clause] = {}

    def _get(self, at: int) -> Chunk | None:
        return self.row[at] if 0 <= at < len(self.row) else None

    # "Jane is the CEO of Umbrella", "Frank is Gina's manager", "Victor has been at Siemens"

    def copulas(self) -> Iterator[Said]:
        for at, one in enumerate(self.row):
            if one.low not in ("is", "'s") and not (one.low == "been" and self._low(at - 1) == "has"):
                continue
            begin = at - 1 if one.low == "is" else at - 2
            subjects = self._subjects(begin)
            if not subjects or not self._plain(begin, at):
                continue
            after = at + 1
            while self._low(after) in ("the", "a", "an", "now", "currently", "our", "also"):
                after += 1
            for subject in subjects:
                yield from self._being(subject, after)

    def _being(self, subject: Chunk, at: int) -> Iterator[Said]:
        first, second, third = self._get(at), self._get(at + 1), self._get(at + 2)
        if first is None:
            return
        if first.low == "at" and _entity(subject, *_PEOPLE_AND) and _entity(second, "organisation", THING, "product"):
            assert second is not None
            yield Said(subject, "works_at", second, "person", "organisation")
        if first.low == "from" and _entity(subject, *_PEOPLE_AND) and _entity(second, "place"):
            assert second is not None
            yield Said(subject, "from", second, "person")
        owned = _entity(first) and second is not None and second.part is Part.OWNER
        if owned and third is not None and third.low in ROLES and self._ends(at + 3):
            yield Said(subject, f"{_role(third.low)}_of", first, "person", _owner_type(third.low))
        if first.part is Part.NOUN and second is not None and second.low in ("of", "at") and _entity(third):
            assert third is not None
            yield from self._office(subject, first.low, second.low, third)

    def _office(self, subject: Chunk, role: str, link: str, whole: Chunk) -> Iterator[Said]:
        if whole.headed:
            return
        if role in ROLES and link == "of":
            kind = "organisation" if role not in OF_PEOPLE else ""
            yield Said(subject, f"{_role(role)}_of", whole, "person", kind)
        elif role in ("part", "fork", "member", "capital") and link == "of":
            yield Said(subject, f"{role}_of", whole)
        elif link == "at" and _entity(subject, *_PEOPLE_AND):
            yield Said(subject, "works_at", whole, "person", "organisation")

    # everything else

    def actions(self) -> Iterator[Said]:
        for at, one in enumerate(self.row):
            if one.part is not Part.VERB:
                continue
            clause = self._clause(at)
            if clause is None:
                continue
            self.clauses[at] = clause
            if clause.factual:
                yield from self._acts(clause)

    def _clause(self, at: int) -> _Clause | None:
        verb = self.row[at].verb
        assert verb is not None
        place = at - 1
        helpers: list[Chunk] = []
        factual = True
        while (one := self._get(place)) is not None and one.part in (
            Part.ADVERB, Part.AUXILIARY, Part.NEGATION, Part.MODAL,
        ):  # fmt: skip
            factual &= one.part not in (Part.NEGATION, Part.MODAL)
            helpers += [one] if one.part is Part.AUXILIARY else []
            place -= 1
        if self._low(place) == "to":
            return None
        if factual and self._joined(place) and not helpers:
            return self._second(at, place)
        subjects, antecedent = self._who(place)
        if not subjects:
            return None
        passive = _passive(verb.forms, helpers)
        if not passive and not _finite(verb.forms, helpers, subjects):
            return None
        present = any(one.low in PRESENT for one in helpers) and (passive or Form.GERUND in verb.forms)
        past = (Form.PAST in verb.forms or bool(helpers)) and not present and Form.GERUND not in verb.forms
        if Form.GERUND in verb.forms:
            past = not any(one.low in PRESENT for one in helpers)
        factual &= self._plain(place, at)
        return _Clause(at, subjects, verb.lemma, past, passive, antecedent, factual)

    def _joined(self, place: int) -> bool:
        one = self._get(place)
        return one is not None and one.part is Part.AND

    def _second(self, at: int, place: int) -> _Clause | None:
        """ "reviewed this and merged that": who did the first did the second."""
        before = [clause for where, clause in self.clauses.items() if where < place]
        verb = self.row[at].verb
        assert verb is not None
        if not before:
            return None
        first = before[-1]
        if any(one.part in (Part.STOP, Part.RELATIVE) for one in self.row[first.at : place]):
            return None
        by = first.passive and self._low(at + 1) == "by"
        if not by and (first.passive or (Form.PARTICIPLE in verb.forms and Form.PAST not in verb.forms)):
            return None
        past = Form.PAST in verb.forms if not by else first.past
        return _Clause(at, first.subjects, verb.lemma, past, by, None, first.factual)

    def _who(self, place: int) -> tuple[list[Chunk], Chunk | None]:
        """Who does it, and what "that" stands for when it is done to that."""
        one = self._get(place)
        inner = self.clauses.get(place)
        if inner is not None and inner.antecedent is not None:
            # "The service that Jack wrote uses": what was written is what uses.
            return [inner.antecedent], None
        if one is not None and one.part is Part.RELATIVE:
            before = self._before(place)
            return ([before] if before is not None else []), None
        if one is not None and one.part is Part.COMMA:
            # "Fatima, our designer, prefers": what stands between the commas says who she is.
            back = place - 1
            while (held := self._get(back)) is not None and held.part is not Part.COMMA and place - back < 12:
                back -= 1
            if self._get(back) is None or any(
                held.part in (Part.SAYING, Part.STOP, Part.CONDITION) for held in self.row[back:place]
            ):
                return [], None
            return self._subjects(back - 1), None
        subjects = self._subjects(place)
        first = place - (0 if len(subjects) < 2 else 2 * (len(subjects) - 1))
        while (held := self._get(first - 1)) is not None and held.part is Part.DETERMINER:
            first -= 1
        link = self._get(first - 1)
        if subjects and link is not None and link.part is Part.RELATIVE:
            return subjects, self._before(first - 1)
        return subjects, None

    def _before(self, place: int) -> Chunk | None:
        one = self._get(place - 1)
        if one is not None and one.part is Part.COMMA:
            one = self._get(place - 2)
        return one if one is not None and one.part in (Part.ENTITY, Part.NOUN) else None

    def _subjects(self, place: int) -> list[Chunk]:
        """The one that ends here, and those that are named with it: "Karl, Lisa and Tom"."""
        last = self._get(place)
        if last is None or not _nominal(last) or last.headed:
            return []
        if last.part is Part.PRONOUN:
            return [self.speaker] if last.low == "i" and self.speaker is not None else []
        if last.part is Part.NOUN and self._part(place - 1) is not Part.DETERMINER:
            return []
        found = [last]
        at = place
        while (mark := self._get(at - 1)) is not None and mark.part in (Part.AND, Part.COMMA):
            other = self._get(at - 2)
            joined = len(found) > 1 or mark.part is Part.AND
            if other is None or other.part is not Part.ENTITY or last.part is not Part.ENTITY or not joined:
                break
            if (self._get(at - 3) or mark).part in (Part.VERB, Part.PREPOSITION, Part.SAYING):
                return [last] if mark.part is Part.AND and self._get(at - 3) is None else []
            found.insert(0, other)
            at -= 2
        link = self._get(at - 1)
        while link is not None and link.part is Part.DETERMINER:
            at -= 1
            link = self._get(at - 1)
        if link is not None and link.part is Part.PREPOSITION:
            return self._headed_by(at - 1)
        return found

    def _headed_by(self, link: int) -> list[Chunk]:
        """ "Alice from Acme Corp reviewed": it is Alice who did; "the crash in that file" is no name for it."""
        head = self._get(link - 1)
        if self._low(link) in ("from", "of", "at", "in") and _entity(head, "person", THING):
            assert head is not None
            return [head]
        return []

    def _plain(self, start: int, at: int) -> bool:
        """Nothing before it in the sentence makes it less than a fact."""
        for place in range(at):
            one = self.row[place]
            if one.part is Part.SAYING:
                return False
            if one.part is Part.CONDITION and place < at:
                return False
        return not any(one.part in (Part.NEGATION, Part.MODAL) for one in self.row[max(0, start) : at])

    def _acts(self, clause: _Clause) -> Iterator[Said]:
        at = clause.at + 1
        while (one := self._get(at)) is not None and one.part is Part.ADVERB:
            at += 1
        if clause.passive:
            yield from self._undergone(clause, at)
            return
        if clause.antecedent is not None and not _nominal(self._skip(at)):
            yield from self._told(clause, [clause.antecedent], "")
            return
        link = self._low(at)
        if (clause.lemma, link) in WITH_PREPOSITIONS:
            yield from self._told(clause, self._objects(at + 1), link)
            yield from self._onward(clause, at + 1)
            return
        one = self._get(at)
        if one is not None and one.part not in (Part.PREPOSITION, Part.STOP, Part.COMMA, Part.AND):
            yield from self._told(clause, self._objects(at), "")

    def _onward(self, clause: _Clause, at: int) -> Iterator[Said]:
        """ "moved from Boston to Seattle"."""
        following = self._low(at + 1)
        if (clause.lemma, following) in WITH_PREPOSITIONS:
            yield from self._told(clause, self._objects(at + 2), following)

    def _undergone(self, clause: _Clause, at: int) -> Iterator[Said]:
        link = self._low(at)
        if link == "by":
            doers = [one for one in self._objects(at + 1) if _entity(one)]
            for doer in doers:
                for subject in clause.subjects:
                    if usable(subject):
                        kind = type_of(clause.lemma, past=clause.past)
                        yield Said(doer, kind, subject, _doer_type(clause.lemma, doer), "")
        elif (clause.lemma, link) in WITH_PREPOSITIONS:
            yield from self._told(clause, self._objects(at + 1), link)

    def _told(self, clause: _Clause, objects: Sequence[Chunk], link: str) -> Iterator[Said]:
        kind = type_of(clause.lemma, past=clause.past, preposition=link)
        for subject in clause.subjects:
            for one in objects:
                named = clause.antecedent is one or self._told_of(one)
                if (usable(subject) or self._told_of(subject)) and (usable(one) or named):
                    of = _object_type(clause.lemma, kind)
                    yield Said(subject, kind, one, _doer_type(clause.lemma, subject), of)

    def _told_of(self, one: Chunk) -> bool:
        """Whether what follows it tells which one: "the PR that Bob submitted"."""
        return one.part is Part.NOUN and described(self.row, one) is not None

    def _objects(self, at: int) -> list[Chunk]:
        found: list[Chunk] = []
        while True:
            one = self._skip(at)
            if one is None or one.part not in (Part.ENTITY, Part.NOUN):
                return found
            at = self.row.index(one)
            following = self._get(at + 1)
            if following is not None and following.part is Part.OWNER:
                return found
            found.append(one)
            mark = self._get(at + 1)
            if mark is None or mark.part not in (Part.AND, Part.COMMA):
                return found
            nearer = self._get(at + 2)
            if mark.part is Part.COMMA and nearer is not None and nearer.part is Part.AND:
                at += 1
            if self._begins_clause(at + 2):
                return found
            at += 2

    def _begins_clause(self, at: int) -> bool:
        """ "fixed the parser and Bob merged it": what follows does something itself."""
        place = at
        while (one := self._get(place)) is not None and one.part in (Part.DETERMINER, Part.ENTITY, Part.NOUN):
            place += 1
        one = self._get(place)
        return place == at or (one is not None and one.part in (Part.VERB, Part.AUXILIARY, Part.MODAL, Part.SAYING))

    def _skip(self, at: int) -> Chunk | None:
        while (one := self._get(at)) is not None and one.part is Part.DETERMINER:
            at += 1
        return self._get(at)

    def _part(self, at: int) -> Part | None:
        one = self._get(at)
        return one.part if one is not None else None

    def _low(self, at: int) -> str:
        one = self._get(at)
        return one.low if one is not None else ""

    def _ends(self, at: int) -> bool:
        one = self._get(at)
        return one is None or one.part in (Part.STOP, Part.COMMA, Part.AND, Part.PREPOSITION)


def described(row: Sequence[Chunk], noun: Chunk) -> str | None:
    """ "PR that Bob submitted": a noun with the clause that tells which one it is."""
    at = next((place for place, one in enumerate(row) if one is noun), -1)
    after = list(row[at + 1 : at + 4])
    if at < 0 or len(after) < 3 or after[0].part is not Part.RELATIVE or not noun.words:
        return None
    if _entity(after[1]) and after[2].part is Part.VERB:
        return f"{noun.text} {after[0].text} {after[1].text} {after[2].text}"
    return None


def _passive(forms: frozenset[Form], helpers: Sequence[Chunk]) -> bool:
    be = any(one.low in ("is", "are", "was", "were", "been", "be", "being", "got", "gets") for one in helpers)
    return be and Form.PARTICIPLE in forms and Form.GERUND not in forms


def _finite(forms: frozenset[Form], helpers: Sequence[Chunk], subjects: Sequence[Chunk]) -> bool:
    if helpers:
        has = any(one.low in ("has", "have", "had") for one in helpers)
        be = any(one.low in ("is", "are", "was", "were", "been", "am") for one in helpers)
        return (has and Form.PARTICIPLE in forms) or (be and Form.GERUND in forms)
    return bool(forms & {Form.PAST, Form.PRESENT}) or (Form.BASE in forms and len(subjects) > 1)


def _doer_type(lemma: str, doer: Chunk) -> str:
    unsure = doer.mention is not None and doer.mention.type == THING
    return "person" if lemma in BY_PEOPLE and unsure else ""


def _object_type(lemma: str, kind: str) -> str:
    if kind in _PLACED:
        return "place"
    if kind in _EMPLOYED or lemma in OF_ORGANISATIONS:
        return "organisation"
    return "product" if lemma == "use" else ""
