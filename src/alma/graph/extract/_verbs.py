"""Verbs that tie one thing to another, in all their forms."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cache

_REGULAR = """accept acquire add address adopt advise approve archive assign assist attend audit author automate block
book borrow call cancel clone close coach collect commit configure contact convert cover create debug deliver deploy
deprecate design develop discover document edit email employ enable evaluate export extend fix follow found
generate handle help hire host hug implement import improve inherit inspect install instruct interview introduce
invent invite join kiss launch like love maintain manage marry mentor merge migrate monitor move name nominate
notify open order organise organize outline override own patch pay phone plan polish power prefer present
produce promote propose provide publish pull purchase push raise recommend redesign refactor reject release
rename rent repair replace report request require rescue resolve restart revert review rewrite sponsor start
stop submit suggest supervise support supply teach test text thank train translate trigger update upgrade use
verify visit walk watch wrap work live depend rely belong graduate study reply talk collaborate contribute
connect subscribe listen apply consist point resign retire relocate complain react respond"""
_IRREGULAR = """adopt:adopted beat:beat:beaten begin:began:begun bring:brought break:broke:broken build:built buy:bought
catch:caught choose:chose:chosen draw:drew:drawn drive:drove:driven feed:fed fight:fought find:found
forget:forgot:forgotten forgive:forgave:forgiven get:got:gotten give:gave:given hate:hated hold:held keep:kept
know:knew:known lead:led leave:left lend:lent lose:lost make:made meet:met oversee:oversaw:overseen read:read
rebuild:rebuilt run:ran:run see:saw:seen sell:sold send:sent set:set shoot:shot show:showed:shown sing:sang:sung
speak:spoke:spoken spend:spent split:split steal:stole:stolen teach:taught throw:threw:thrown
understand:understood wear:wore:worn win:won write:wrote:written overwrite:overwrote:overwritten
rewrite:rewrote:rewritten withdraw:withdrew:withdrawn base:based locate:located relate:related inspire:inspired"""
_DOUBLED = frozenset("commit submit plan stop admit permit ship drop swap map tag log wrap debug hug program".split())
WITH_PREPOSITIONS = {
    ("work", "at"): "works_at", ("work", "for"): "works_at", ("work", "with"): "works_with", ("live", "in"): "lives_in",
    ("depend", "on"): "depends_on", ("rely", "on"): "relies_on", ("report", "to"): "reports_to",
    ("belong", "to"): "belongs_to", ("move", "to"): "moves_to", ("move", "from"): "moves_from",
    ("relocate", "to"): "moves_to", ("graduate", "from"): "graduates_from", ("study", "at"): "studies_at",
    ("teach", "at"): "teaches_at", ("run", "on"): "runs_on", ("connect", "to"): "connects_to",
    ("talk", "to"): "talks_to", ("speak", "to"): "talks_to", ("collaborate", "with"): "works_with",
    ("contribute", "to"): "contributes_to", ("migrate", "to"): "migrates_to", ("migrate", "from"): "migrates_from",
    ("subscribe", "to"): "subscribes_to", ("meet", "with"): "meets", ("resign", "from"): "leaves",
    ("retire", "from"): "retires_from", ("consist", "of"): "consists_of", ("listen", "to"): "listens_to",
    ("apply", "to"): "applies_to", ("point", "to"): "points_to", ("base", "in"): "based_in", ("base", "on"): "based_on",
    ("write", "in"): "written_in", ("locate", "in"): "located_in", ("marry", "to"): "married_to",
    ("relate", "to"): "related_to", ("inspire", "by"): "inspired_by", ("reply", "to"): "replies_to",
    ("join", "with"): "joins",
}  # fmt: skip
STILL = frozenset({"based_in", "based_on", "written_in", "located_in", "married_to", "related_to"})
"""Said of a thing by "is" and a participle."""
_PAST = {"runs_on": "ran_on", "teaches_at": "taught_at", "meets": "met", "leaves": "left"}
DONE = frozenset("write create build design found invent author discover draw".split())
"""Over when it is told, whatever the tense."""
BY_PEOPLE = frozenset(
    """review write fix join approve reject email hire marry prefer like love hate mentor merge submit design propose
    visit teach live graduate study report refactor interview coach manage lead phone text thank adopt wear read push
    open close deploy implement author found organise organize attend debug redesign oversee supervise"""
    .split()
)  # fmt: skip
OF_ORGANISATIONS = frozenset("join found acquire resign retire".split())


class Form(StrEnum):
    BASE = "base"
    PRESENT = "present"
    PAST = "past"
    PARTICIPLE = "participle"
    GERUND = "gerund"


@dataclass(frozen=True, slots=True)
class Verb:
    lemma: str
    forms: frozenset[Form]


def _third(lemma: str) -> str:
    if lemma.endswith(("s", "x", "z", "ch", "sh", "o")):
        return f"{lemma}es"
    if lemma.endswith("y") and lemma[-2] not in "aeiou":
        return f"{lemma[:-1]}ies"
    return f"{lemma}s"


def _ed(lemma: str) -> str:
    if lemma.endswith("e"):
        return f"{lemma}d"
    if lemma.endswith("y") and lemma[-2] not in "aeiou":
        return f"{lemma[:-1]}ied"
    return f"{lemma}{lemma[-1]}ed" if lemma in _DOUBLED else f"{lemma}ed"


def _ing(lemma: str) -> str:
    if lemma.endswith("e") and not lemma.endswith(("ee", "ye", "oe")):
        return f"{lemma[:-1]}ing"
    return f"{lemma}{lemma[-1]}ing" if lemma in _DOUBLED | {"run", "get", "win", "set"} else f"{lemma}ing"


@cache
def _pasts() -> dict[str, str]:
    told = {one: _ed(one) for one in _REGULAR.split()}
    return told | {parts[0]: parts[1] for one in _IRREGULAR.split() if (parts := one.split(":"))}


@cache
def verbs() -> dict[str, Verb]:
    """By form. What may be several forms of several verbs is the first, with all its forms."""
    found: dict[str, tuple[str, set[Form]]] = {}

    def put(form: str, lemma: str, kind: Form) -> None:
        held = found.setdefault(form, (lemma, set()))
        if held[0] == lemma:
            held[1].add(kind)

    irregular = {parts[0]: parts[-1] for one in _IRREGULAR.split() if (parts := one.split(":"))}
    for lemma, past in _pasts().items():
        put(past, lemma, Form.PAST)
        put(irregular.get(lemma, past), lemma, Form.PARTICIPLE)
        put(_third(lemma), lemma, Form.PRESENT)
        put(_ing(lemma), lemma, Form.GERUND)
        put(lemma, lemma, Form.BASE)
    return {form: Verb(lemma, frozenset(kinds)) for form, (lemma, kinds) in found.items()}


def type_of(lemma: str, *, past: bool, preposition: str = "") -> str:
    """`works_at`, `reviewed`, `wrote`."""
    if preposition:
        told = WITH_PREPOSITIONS[lemma, preposition]
        if not past or told in STILL:
            return told
        if told in _PAST:
            return _PAST[told]
        head, _, rest = told.partition("_")
        stem = next((one for one in _pasts() if _third(one) == head), head)
        return f"{_pasts().get(stem, head)}_{rest}" if rest else _pasts().get(stem, head)
    done = past or lemma in DONE
    # A verb that is not in the list is met only in its past.
    return _pasts().get(lemma, lemma) if done else _third(lemma)
