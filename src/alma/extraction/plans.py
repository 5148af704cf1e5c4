"""What was decided, and what is still to be done."""

from __future__ import annotations

import re

from . import doubts
from .scene import Found, Scene, sentence
from .types import Kind

_WE = r"(?:we|i|the\s+(?:team|board|group|company|committee|council|family)|[\w-]+\s+and\s+i|our\s+team|management)"
_DECIDED = (
    re.compile(
        rf"\b{_WE}(?:'ve|\s+have|\s+has|\s+had)?\s+(?:just\s+|now\s+|finally\s+|already\s+|all\s+|also\s+)*"
        r"(?:decided|agreed|chose|chosen|settled|opted|picked(?!\s+(?:up|out|on|at|off|it))|voted|resolved|"
        r"committed)\s+(?P<what>(?!with\b|it\b|that\s+up\b)(?:on|to|that|for|against|not|in\s+favou?r)?\b.{3,})",
        re.I,
    ),
    re.compile(
        rf"\b{_WE}(?:'re|\s+are|'ll\s+be|\s+will\s+be|\s+went|'ll|\s+will)\s+(?:going\s+(?:to\s+go\s+)?with|"
        rf"go\s+with|going\s+for|standardi[sz]ing\s+on|using|with)\s+(?P<what>.{{2,}})",
        re.I,
    ),
    re.compile(r"^\W*(?:the\s+|our\s+|final\s+)*decision\s*(?::|is|was)\s+(?:made\s+)?(?:to\s+)?(?P<what>.{4,})", re.I),
    re.compile(
        r"^\W*(?:ok(?:ay)?|so|right|fine|good|great|alright)?\W*let's\s+(?:go\s+with|stick\s+(?:with|to)|"
        r"settle\s+on|standardi[sz]e\s+on)\s+(?P<what>(?!it\b|that\b|this\b(?!\s\w)|the\s+(?:first|second|third|"
        r"last|other)\b|option\b|your\b).{2,})",
        re.I,
    ),
    re.compile(
        r"\b(?:it\s+(?:was|has\s+been|is)\s+(?:decided|agreed)|"
        r"(?:the\s+)?(?:final\s+)?decision\s+was\s+made)\s+(?P<what>(?:to|that|on|not|against)\b.{4,})",
        re.I,
    ),
)
_POINTS = re.compile(
    r"^(?:to\s+\w+\s+|on\s+|for\s+)?(?:this|that|it|them|those|these)\b(?!\s+(?:all|every|the|we|our|\w+\s+goes))", re.I
)
_CUE = re.compile(
    r"decid|decision|agreed|chose|settled|opted|picked|voted|resolved|committed|go(?:ing)?\s+with|went\s+with|"
    r"going\s+for|standardi|stick|using",
    re.I,
)
_SETTLED = re.compile(r"\b(?:that's\s+settled|it's\s+settled|is\s+settled|final\s+decision|that's\s+decided)\b", re.I)
_ADR = re.compile(r"^\W*(?:\d+\W*)?(?:the\s+)?(?:decisions?|decided|outcome|resolution)\W*$", re.I)
_RULES_ALL = re.compile(rf"^\W*{_WE}\s+(?:will|shall|use|adopt|choose|keep|are\s+going\s+to)\b", re.I)


def decision(plain: str, scene: Scene) -> Found | None:
    likely = _CUE.search(plain)
    found = next((one for one in (pattern.search(plain) for pattern in _DECIDED) if one), None) if likely else None
    under = bool(_ADR.match(scene.heading)) and bool(_RULES_ALL.match(plain))
    if not under and (found is None or (_loose(found) and not _SETTLED.search(plain))):
        return None
    if doubts.passing(plain) or (found is not None and _POINTS.search(found["what"])):
        return None
    text = sentence(plain)
    return Found(Kind.DECISION, text, {"fact": text, "domain": "decisions"}, 0.9)


def _loose(found: re.Match[str]) -> bool:
    """ "We'll be using it" says what is being done now; only "going with" and the like say that it was chosen."""
    told = found[0].lower()
    return bool(re.search(r"(?:will be|'ll be|are|'re) using|(?:'ll|will) with", told)) or bool(
        re.match(r"(?:it|that|this|so|them)\b\W*$", found["what"], re.I)
    )


# -- work

_LABELLED = re.compile(
    r"^\W*(?:todo|to-do|to\s+do|fixme|action\s+items?|next\s+steps?|follow[- ]?ups?|still\s+to\s+do|"
    r"remaining(?:\s+work)?|left\s+to\s+do|open\s+(?:task|item)s?|note\s+to\s+self|"
    r"outstanding)\s*(?:\([^)]*\))?\s*[:–—-]\s*(?P<what>\S.{2,})",
    re.I,
)
_TAGGED = re.compile(r"^\W*(?:TODO|FIXME|XXX)\b[\s:(\w)]{0,3}\s+(?P<what>[a-zA-Z].{3,})")
_ASKED = tuple(
    re.compile(pattern, re.I)
    for pattern in (
        r"(?:(?:^|[,.;:]\s*|\b(?:and|so|please|also|then|you|ok)\s+)remind\s+me\s+(?:\w+\s+){0,3}?(?:to|about|"
        r"that\s+(?:i|we)\s+(?:need|have)\s+to)|don't\s+let\s+me\s+forget\s+to|i\s+must\s+not\s+forget\s+to|"
        r"let's\s+not\s+forget\s+to)\s+(?P<what>.{3,})",
        r"\b(?:i|we|someone|somebody)\s+(?:still|also\s+still|eventually|really)\s+(?:need|needs|have|has|ought|"
        r"got)\s+to\s+(?P<what>(?!(?:consider|think|decide|figure|know|understand|see|be|learn|find\s+out|get|"
        r"work\s+on\s+it|do\s+(?:it|that))\b).{3,})",
        r"\b(?:i|we)(?:'ve)?\s+(?:need|have|got)\s+to\s+(?P<what>(?:remember\s+to\s+)?(?:book|renew|call|email|send|"
        r"buy|pay|schedule|order|submit|file|pick\s+up|return|cancel|reply|register|add|rotate|update|write|migrate|"
        r"remove|fix|replace|test|document|clean|set\s+up|upgrade|review|prepare|finish|move|check|"
        r"ship)\b.{2,}?(?:\b(?:before|by|next|this\s+week|tomorrow|on\s+(?:mon|tues|wednes|thurs|fri|satur|sun)day|"
        r"soon|later|until|at\s+some\s+point|eventually)\b.*))$",
        r"\b(?:i|we)\s+should\s+(?:still\s+|also\s+|eventually\s+|really\s+|"
        r"probably\s+)?(?P<what>.{3,}?\s+(?:at\s+some\s+point|eventually|later|some\s+day|someday|one\s+day|soon|"
        r"next\s+(?:week|sprint|month)|before\s+.+|when\s+(?:we|i)\s+have\s+time))\W*$",
        r"^\W*(?:later|eventually|at\s+some\s+point|next\s+(?:week|sprint|month)|tomorrow|after\s+(?:the|"
        r"this)\s+\w+),?\s+(?:i|we)\s+(?:should|need\s+to|must|have\s+to|want\s+to)\s+(?P<what>.{3,})",
        r"^\W*(?P<thing>(?:the|our|my|all|these|those)\s.{2,80}?)\s+(?:still|also)\s+(?:need|needs|have|"
        r"has)\s+to\s+be\s+(?P<done>\w+)(?P<rest>.*)$",
        r"^\W*(?P<thing>(?:the|our|my|all)\s.{2,80}?)\s+(?:has|have|is|are)(?:n't|"
        r"\s+not)\s+(?:been\s+)?(?:\w+)\s+yet\b.*\b(?:needs?\s+to\s+be\s+done|must\s+be\s+done|to\s+do|todo)\b",
    )
)
_OPEN_WORK = re.compile(
    r"^\W*(?:todo|to-do|fixme|still\s+to\s+do|remaining|left\s+to\s+do|open\s+(?:task|item)s?|outstanding|"
    r"action\s+items?)\b",
    re.I,
)
"""What an assistant says of its own work; its advice begins with "Follow up" and "Next step", too."""
_REMARK = re.compile(
    r"\b(?:i|we)\s+should\s+(?:also\s+|probably\s+)?(?:mention|note|say|point\s+out|clarify|add\s+that|ask|tell|"
    r"know|be)\b",
    re.I,
)
_REMIND = re.compile(r"^\W*(?:(?:and|also|please|oh|ok)\W+)*don't\s+forget\s+to\s+(?P<what>.{3,})$", re.I)
_FORGET = re.compile(r"^\W*don't\s+forget\s*[:,–—-]\s*(?P<what>.*\b(?:need|have|must|still|add|fix|update)\b.*)$", re.I)


def work_item(plain: str, scene: Scene) -> Found | None:
    if scene.box == "done":
        return None
    if scene.box == "open":
        return _item(plain, 0.95)
    labelled = _LABELLED.match(plain) or _TAGGED.match(plain) or _FORGET.match(plain)
    if labelled and (scene.person or _OPEN_WORK.match(plain)):
        return _item(labelled["what"], 0.95)
    if doubts.past(plain) and not re.search(r"\byet\b", plain):
        return None
    if not scene.person or _REMARK.search(plain):
        return None
    for pattern in (*_ASKED, *((_REMIND,) if scene.to_agent else ())):
        found = pattern.search(plain)
        if found:
            parts = found.groupdict()
            title = parts.get("what") or " ".join(
                filter(None, (parts.get("done"), parts.get("thing"), parts.get("rest")))
            )
            return _item(title or parts["thing"], 0.85)
    return None


def _item(title: str, confidence: float) -> Found | None:
    text = sentence(title)
    return Found(Kind.WORK_ITEM, text, {"title": text}, confidence) if len(text) >= 4 else None
