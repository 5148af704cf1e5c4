"""What a fact claims of what: two facts conflict when they give one thing two values that cannot both hold.

In doubt they do not conflict: a fact too many is seen and put away, one taken away is missed. Only some attributes
have one value at a time (where something lives, what it costs, which tool does a job); what somebody speaks, likes or
owns has many.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from . import claim_values as values
from .text import STOP, normalise, stem, words


@dataclass(frozen=True, slots=True)
class Claim:
    subject: frozenset[str]
    """The telling words of what it is about; empty: of everything."""
    head: str
    """The noun among them that says what sort of thing it is."""
    attribute: str
    value: str
    changed: bool = False
    """It says itself that this was otherwise before."""
    gone: str = ""
    """The value that it says no longer holds."""
    by: str = ""
    """The small word before the value: what is run by somebody is run on something, too."""
    proper: bool = False
    """The value is written with a capital, as names are."""


_OPEN = re.compile(
    r"^\W*(?:(?:note(?: that)?|remember(?: that)?|fyi|update|correction|actually|as of (?:today|now|\w+ \d{4}|"
    r"\d{4}\S*)|from now on|starting \w+"
    r"|and|but|so|ok|no|yes|now|since \w+|we (?:have |'ve )?(?:decided|agreed|chose)(?: now)? that)\b[\s,:;.–—-]*)+"
)
_DECIDED = re.compile(
    r"^(?:we|i|the team|our team|it was)(?: have| has|'ve)? (?:decided|agreed|chosen|chose|opted|settled)(?: (?:to|"
    r"on|for))?(?: (?:use|using|go with|going with))? "
)
_NOW = re.compile(
    r"\b(?:now|currently|nowadays|these days|as of today|from now on|instead|only|exactly|actually|usually|always|"
    r"just|mainly|mostly) ?\b"
)
_CHANGE = re.compile(
    r"\b(?:now|from now on|as of|no longer|instead|changed|moved|switched|migrated|renamed|replaced|"
    r"not .{1,40} any ?more)\b"
)
_TO = r"(?: from (?P<gone>.+?))? (?:to|into|over to|onto) (?P<value>.+?)"
_WE = r"(?:we|i|they|the team|our team|our company)(?:'ve| have| has)?"
_MOVE = r"(?:moved|migrated|switched|changed|ported|transferred|renamed|upgraded)"

_USE = re.compile(rf"^{_WE} (?:use|run|have) (?P<value>.+?) (?:for|as) (?P<subject>.+)$")
_USED_BY = re.compile(r"^(?P<subject>.+?) uses (?P<value>.+?)$")
_BARE_USE = re.compile(rf"^{_WE} use (?P<value>[\w.+#/@-]+(?: [\w.+#/@-]+)?)$")
_MOVED = re.compile(rf"^{_WE} (?:just |recently )?{_MOVE} (?P<subject>(?!from\b|to\b).+?){_TO}$")
_SWITCHED = re.compile(
    rf"^{_WE} (?:just |recently )?{_MOVE}(?: from (?P<gone>.+?))? to (?P<value>.+?)(?: for (?P<subject>.+))?$"
)
_REPLACED = re.compile(rf"^{_WE} replaced (?P<gone>.+?) (?:with|by) (?P<value>.+?)(?: (?:for|in) (?P<subject>.+))?$")
_WAS_MOVED = re.compile(
    rf"^(?P<subject>.+?) (?:was|were|has been|have been|has|have|is|are) (?:{_MOVE}|raised|increased|lowered|reduced|"
    rf"extended){_TO}$"
)
_OVER = re.compile(
    rf"^(?:{_WE} )?(?P<over>no longer (?P<verb>use|support|run|deploy|have)) (?P<value>.+?)(?: (?:for|"
    rf"as) (?P<subject>.+))?$"
)
_LIVES = re.compile(
    r"^(?P<subject>.+?) (?:live|lives|reside|resides|sit|sits|(?:is|are) based) (?P<prep>in|on|at|under) (?P<value>.+)$"
)
_HABIT = re.compile(
    r"^we (?P<subject>release|deploy|ship|meet|publish|bill|rotate \w+|back up|review) (?:every|each|at|after|for|"
    r"within) (?P<value>.+)$"
)
_PLACE = re.compile(
    r"^(?P<subject>.+?) (?:(?:is|are)(?: (?:hosted|located|deployed|stored|kept|running))?) (?P<prep>in|on|at|to|"
    r"under) (?P<value>.+)$"
)
_RUNS = re.compile(
    r"^(?P<subject>.+?) (?:run|runs|listen|listens|is reachable|is available|is exposed) (?:on|at|under) (?P<value>.+)$"
)
_WORKS = re.compile(r"^(?P<subject>.+?) (?:work|works)(?: (?P<prep>at|for|as)) (?P<value>.+)$")
_ONE = (
    "cost costs take takes expire expires start starts begin begins end ends open opens close closes last "
    "lasts require requires happen happens allow allows accept accepts return returns report reports belong belongs "
    "has have retry retries keep keeps"
).split()
_DOES = re.compile(rf"^(?P<subject>.+?) (?P<verb>{'|'.join(_ONE)}) (?P<value>.+)$")
_BY = re.compile(
    r"^(?P<subject>.+?) (?:is|are) (?P<verb>owned|maintained|managed|led|run|called|named|written|limited|capped|set|"
    r"due|scheduled|billed|versioned|licensed)(?: (?P<prep>by|in|to|at|on|for|under))? (?P<value>.+)$"
)
_IS = re.compile(r"^(?P<subject>.+?) (?P<verb>is|are) (?P<value>.+)$")
_PREFERS = re.compile(
    r"^(?:i|we|the user)(?:'d| would)? prefers? (?P<value>.+?) (?:over|to|rather than|"
    r"instead of) (?P<gone>.+?)(?: (?:in|for) (?:this|our|my) \w+)?$"
)
_CALL = re.compile(r"^(?:please )?(?P<verb>call me|my name is) (?P<value>[\w' -]{1,40})$")

_GENERIC = frozenset(
    map(
        stem,
        """service system app application component module project server site website software tool job piece part
        stuff our my the all""".split(),
    )
)
# Of these a thing has one at a time. Of customers, hobbies and languages it may have many.
_PERSONS = frozenset(
    """owner lead leader manager boss head contact landlord doctor dentist teacher coach sponsor chair president ceo
    cto mentor supervisor wife husband partner fiancee fiance""".split()
)
_SLOTS = _PERSONS | frozenset(
    """provider vendor supplier name branch version database db ci region host cloud framework editor format timezone
    zone currency bank address email password url domain license licence plan tier backend registry repo repository
    title colour color theme font deadline date day window port key id ip number price budget limit default os platform
    broker queue cache storage bucket cluster namespace environment shell orm linter formatter tracker employer job
    role position team school university street city country birthday weight height age size""".split()
)
# Names of these are written small.
_SMALL_NAMES = frozenset("branch shell colour color theme font".split())
# "My sister" may be one of three.
_KIN = frozenset(
    """brother sister son daughter child kid cousin aunt uncle nephew niece friend colleague coworker flatmate roommate
    neighbour neighbor cat dog pet""".split()
)
_ONE_OF_MANY = _KIN | frozenset("customer client student patient guest".split())
_NUMBERS_ONLY = frozenset(map(stem, _ONE))


@lru_cache(maxsize=2048)
def claim(text: str) -> Claim | None:
    """What a sentence claims; None when it is not known to claim a thing of which there is one at a time."""
    flat = normalise(text).strip("\"'“”")
    if len(flat) > 300 or "?" in flat or ". " in flat:
        return None
    changed = bool(_CHANGE.search(flat))
    flat = _OPEN.sub("", flat)
    over = _OVER.match(flat)
    if over:
        return _made(
            over,
            f"{'use' if over['verb'] in ('use', 'run', 'have') else over['verb']}",
            over["value"],
            True,
            over["value"],
        )
    flat = _DECIDED.sub("we use ", " ".join(_NOW.sub("", flat).split()))
    for pattern, attribute in _PATTERNS:
        found = pattern.match(flat)
        made = _of(found, attribute, changed) if found else None
        if made is not None:
            return replace(made, proper=_is_proper(made.value, text))
    return None


def _is_proper(value: str, text: str) -> bool:
    first = value.removeprefix("the ").split(" ")[0]
    found = [one for one in re.finditer(re.escape(first), text, re.IGNORECASE) if first]
    return bool(found) and any(sign.isupper() for sign in found[-1].group())


_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (_CALL, "name"),
    (_PREFERS, "prefer"),
    (_MOVED, "*"),
    (_SWITCHED, "*"),
    (_REPLACED, "*"),
    (_WAS_MOVED, "*"),
    (_USE, "use"),
    (_BARE_USE, "use"),
    (_BY, ""),
    (_LIVES, "live"),
    (_HABIT, "habit"),
    (_PLACE, "at"),
    (_RUNS, "run"),
    (_WORKS, "work"),
    (_DOES, ""),
    (_USED_BY, "use"),
    (_IS, "is"),
)


def _of(found: re.Match[str], attribute: str, changed: bool) -> Claim | None:
    parts = found.groupdict()
    if attribute == "work":
        attribute = f"work {'at' if parts['prep'] in ('at', 'for') else 'as'}"
    attribute = attribute or stem(parts["verb"])
    if attribute == "is" and parts["verb"] == "are" and not values.has_number(parts["value"]):
        return None
    if attribute == "name":
        # Alexander may be called Al.
        return Claim(frozenset({"i"}), "name", parts["verb"], parts["value"])
    return _made(found, attribute, parts["value"], changed or attribute == "*", parts.get("gone") or "")


def _made(found: re.Match[str], attribute: str, value: str, changed: bool, gone: str) -> Claim | None:
    said = found.groupdict().get("subject") or ""
    subject = _subject(said)
    if said and not subject:
        return None
    by = found.groupdict().get("prep") or ""
    return Claim(subject, _head(said), attribute, _value(value), changed, _value(gone), by)


def _subject(text: str) -> frozenset[str]:
    if re.match(r"(?:i|my|me)\b", text):
        own = {"i"}
    elif re.match(r"(?:it|this|that|they|these|those|there|he|she|what|which|who|one|you|someone)\b", text):
        return frozenset()
    else:
        own = set()
    told = {stem(word) for word in words(text) if word not in STOP} | own
    return frozenset(told - _GENERIC or told)


def _head(subject: str) -> str:
    """ "The owner of the payments module" is an owner, "the payments module owner", too."""
    found = words(re.split(r" (?:of|for|in|on|at|under|behind) ", subject)[0])
    return found[-1] if found else ""


def _value(text: str) -> str:
    return text.strip(" .,;:\"'`")


def conflict(new: str, old: str) -> bool:
    """Whether a new fact says that an older one no longer holds."""
    ours, theirs = claim(new), claim(old)
    if ours is None or theirs is None or normalise(new) == normalise(old):
        return False
    return (_says_gone(ours, theirs) if ours.gone else False) or _other_value(ours, theirs)


def _says_gone(ours: Claim, theirs: Claim) -> bool:
    if theirs.value != ours.gone or (ours.attribute not in ("*", theirs.attribute) and theirs.attribute != "*"):
        return False
    if ours.attribute == "prefer":
        # Who prefers Rust to Python may still prefer Python to Ruby.
        return theirs.gone == ours.value
    if ours.value != ours.gone and values.has_terms(ours.value):
        return False
    return not ours.subject or ours.subject == theirs.subject


def _other_value(ours: Claim, theirs: Claim) -> bool:
    if not ours.subject or ours.subject != theirs.subject or values.over_again(ours.value, theirs.value):
        return False
    attribute = _shared(ours.attribute, theirs.attribute)
    if not attribute or ours.gone == ours.value:
        return False
    if (ours.head in _ONE_OF_MANY or _KIN & ours.subject) and not ours.changed:
        return False
    kind = values.kind(ours.value)
    if kind != values.kind(theirs.value) or kind in ("phrase", "day"):
        return False
    if kind == "number":
        bare = attribute == "return" and values.is_bare_number(ours.value)
        return values.unit(ours.value) == values.unit(theirs.value) and not bare
    return _other_name(ours, theirs, attribute)


def _other_name(ours: Claim, theirs: Claim, attribute: str) -> bool:
    if values.rival(ours.value, theirs.value):
        return True
    if attribute == "use":
        return ours.changed and _unknown(ours, theirs)
    if ours.by and theirs.by and ours.by != theirs.by:
        return False
    if not (values.noun_like(ours.value) and values.noun_like(theirs.value)) or attribute in _NUMBERS_ONLY:
        return False
    return _ONE_NAME.get(attribute, _of_one_sort)(ours, theirs)


def _of_one_sort(ours: Claim, theirs: Claim) -> bool:
    """Both are names as people and products have them, or both are written as hosts and paths are."""
    written = values.alike_in_writing(ours.value, theirs.value)
    return written or (ours.proper and theirs.proper)


def _is_another(ours: Claim, theirs: Claim) -> bool:
    if ours.head not in _SLOTS:
        return False
    small = ours.head in _SMALL_NAMES and not ours.proper and not theirs.proper
    return small or _of_one_sort(ours, theirs)


def _is_elsewhere(ours: Claim, theirs: Claim) -> bool:
    """What is in Go may be in Frankfurt, too."""
    moved = ours.changed and ours.proper and theirs.proper and values.same_place(ours.value, theirs.value)
    return moved or values.alike_in_writing(ours.value, theirs.value)


def _lives_elsewhere(ours: Claim, theirs: Claim) -> bool:
    if ours.attribute != theirs.attribute and "*" not in (ours.attribute, theirs.attribute):
        # Where a person is and where they live are two things; where a file or a database is, is one.
        return values.alike_in_writing(ours.value, theirs.value)
    return ours.proper == theirs.proper and values.same_place(ours.value, theirs.value)


def _runs_elsewhere(ours: Claim, theirs: Claim) -> bool:
    """What runs on a cloud may run on Kubernetes, too."""
    return values.alike_in_writing(ours.value, theirs.value)


def _works_elsewhere(ours: Claim, theirs: Claim) -> bool:
    return ours.proper == theirs.proper and (ours.proper or ours.changed)


def _is_called(ours: Claim, theirs: Claim) -> bool:
    return ours.proper == theirs.proper or ours.attribute == "*"


def _only_changed(ours: Claim, theirs: Claim) -> bool:
    return ours.changed and _of_one_sort(ours, theirs)


_ONE_NAME: Mapping[str, Callable[[Claim, Claim], bool]] = {
    "is": _is_another,
    "at": _is_elsewhere,
    "live": _lives_elsewhere,
    "run": _runs_elsewhere,
    "work at": _works_elsewhere,
    "work as": _only_changed,
    "written": _only_changed,
    "call": _is_called,
    "nam": _is_called,
    "call me": _is_called,
    "my name is": _is_called,
}


_MOVABLE = ("use", "at", "live", "run", "is", "*", "call", "nam", "limit", "cap")


def _shared(ours: str, theirs: str) -> str:
    """A move may be of where something is, of what it is or of what is used for it: what it was tells which."""
    if ours == "*" or theirs == "*":
        other = theirs if ours == "*" else ours
        return other if other in _MOVABLE else ""
    if {ours, theirs} == {"at", "live"}:
        return "live"
    return ours if ours == theirs else ""


def _unknown(ours: Claim, theirs: Claim) -> bool:
    """Nothing speaks for their being of different sorts: said of one job, the later one has taken over."""
    from .distil.corrections import is_program

    return is_program(ours.value) == is_program(theirs.value)
