"""Why a sentence states nothing: it asks, supposes, guesses, jokes, denies, or tells what somebody else said."""

from __future__ import annotations

import re

from .pieces import VEIL

_ASKS = re.compile(
    r"\?\s*[\"')\]]*\s*$|^\W*(?:(?:and|but|so|ok|hey|hi|well),?\s+)?(?:"
    r"(?:what|who|whom|whose|where|when|why|how|which)\s+(?:is|are|was|were|do|does|did|can|could|should|would|will|"
    r"has|have|if|"
    r"about|many|much|long|come|kind|exactly|would|the|we|i|you)\b"
    r"|(?:is|are|was|were|do|does|did|can|could|should|would|will|has|have|am|may|shall)(?:n't)?\s+"
    r"(?:i|you|we|he|she|it|they|there|this|that|these|those|the|a|an|my|our|your|any|anyone|somebody|someone)\b)",
    re.I,
)
_SUPPOSES = re.compile(
    r"^\W*(?:(?:and|but|so|ok|well|or),?\s+)?(?:if|suppose|supposing|imagine|assum(?:e|ing)|let's\s+(?:say|assume|"
    r"pretend|imagine)"
    r"|pretend|say\s+we|what\s+if|hypothetically|in\s+theory|theoretically|were\s+(?:we|i|it)\s+to|had\s+(?:we|i)\s"
    r"|for\s+(?:example|instance)|e\.g\.|in\s+case|unless|once\s+(?:we|i|you)|as\s+soon\s+as|until\s)\b"
    r"|\b(?:would|could)\s+(?:be|have|make|mean|help|work|run|take|need|break|also|then|probably|just|use|move|go|do|"
    r"switch|try|"
    r"add|put|get|like\s+(?:us|them)\s+to)\b|\b(?:hypothetical(?:ly)?|wish\s+(?:we|i|it))\b",
    re.I,
)
_GUESSES = re.compile(
    r"\b(?:maybe|perhaps|probably|possibly|presumably|supposedly|apparently|allegedly|reportedly|likely|might|"
    r"not\s+sure|unsure|"
    r"i\s+(?:think|guess|believe|suppose|assume|suspect|imagine|bet|doubt|hope|wonder|don't\s+(?:know|think|remember|"
    r"recall))|"
    r"we\s+(?:think|guess|believe|assume|suspect|hope)|think\s+(?:i|we)(?:'ll|'d|\s+will|\s+might|\s+should)|"
    r"considering|thinking\s+(?:of|about)|afaik|iirc|afair|imho|if\s+i\s+(?:remember|recall)|as\s+far\s+as\s+i|"
    r"seems?|seemed|looks\s+like|sounds\s+like|could\s+be|may\s+(?:be|have|not)|should\s+be\s+(?:on|in|at|around|"
    r"about)|rumou?r\w*|no\s+idea|"
    r"or\s+something|or\s+so|kind\s+of|sort\s+of|who\s+knows)\b",
    re.I,
)
_JOKES = re.compile(
    r"\b(?:lol|lmao|rofl|haha\w*|hehe\w*|jk|just\s+kidding|kidding|joking|as\s+if|yeah\s+right|sarcasm)\b|[😂🤣😜😉]|"
    r"(?<!\S)/s\s*$",
    re.I,
)
_OTHERS = (
    r"(?:(?i:(?:he|she|they|it|someone|somebody|everyone|everybody|people)(?:\s+(?:on|in|at|from)(?:\s+\w+){1,3}?)?)|"
    r"[A-Z]\w+(?:\s[A-Z]\w+)?|(?i:the|our|my|their|this|that|a|an|some|many|most)\s+(?:[\w-]+\s+){0,3}?[\w-]+|"
    r"(?i:(?:here's|here\s+is|this\s+is|that's)\s+what)\s+(?:[\w-]+\s+){0,3}?[\w-]+)"
)
_HEARSAY = re.compile(
    r"\b(?:according\s+to|(?:i|we)(?:'ve|\s+have)?\s+(?:just\s+)?(?:heard|read|was\s+told|were\s+told|got\s+told)|"
    r"word\s+is|rumou?r|"
    r"(?:is|are|was)\s+said\s+to|it\s+is\s+said|in\s+(?:his|her|their)\s+(?:words|opinion|view)|allegedly|"
    r"from\s+what\s+i)\b"
    r"|\b(?i:(?:he|she|they|someone|somebody|everyone|everybody|people))\s+(?:\w+\s+)?(?:say|says|said|told|tells|"
    r"mention\w*|claim\w*|think|thinks|thought|believe\w*|"
    r"wrote|writes|argue\w*|insist\w*|suggest\w*|recommend\w*|want|wants|wanted|asked|asks)\b",
    re.I,
)
_TOLD_BY = re.compile(
    rf"^\W*(?:(?:but|and|so|well|yesterday|today)\W+)?{_OTHERS}\s+(?:(?:just|also|once|always|already|has|have|had|"
    rf"then)\s+)?(?:say|says|said|told|tells|"
    r"mention(?:s|ed)?|claim(?:s|ed)?|think|thinks|thought|believe[sd]?|wrote|writes|argue[sd]?|insist(?:s|ed)?|"
    r"suggest(?:s|ed)?|recommend(?:s|ed)?|reckon(?:s|ed)?|announced|reported|wants?\s+(?:us|me|you)|asked|explained|"
    r"posted|complain(?:s|ed)?)\b"
)
_OF_ONESELF = re.compile(r"^\W*(?:I|We|You|This|That|It)\b")
_SAID = re.compile(
    rf"(?:\b(?:say|says|said|saying|wrote|writes|reads|read|states?|stated|called\s+out|quote|quoting|text|message|"
    rf"error)\b\W*{VEIL})|^\W*{VEIL}",
    re.I,
)
_TASK_TEXT = re.compile(
    r"^\W*(?:please\s+|can\s+you\s+|could\s+you\s+)?(?:translate|summari[sz]e|rephrase|paraphrase|rewrite|proofread|"
    r"correct|explain|"
    r"analy[sz]e|classify|review|write|draft|compose|generate|create|make\s+up|invent|tell\s+me)\b(?:[^.:]{0,80}:|"
    r"\b.{0,80}\b"
    r"(?:that\s+says|saying|about|where|in\s+which)\b)",
    re.I,
)
_DENIES = re.compile(
    r"\b(?:not|never|neither|nor|none|nobody|nothing|nowhere|hardly|barely|without\s+any|cannot)\b|n't\b|"
    r"\bno\s+(?!longer\b)\w",
    re.I,
)
_OVER = re.compile(
    r"\bno\s+longer\b|\bnot\b.{0,40}\bany\s*more\b|n't\b.{0,40}\bany\s*more\b|\b(?:stopped|quit)\s+\w+ing\b", re.I
)
_PAST = re.compile(
    r"\bused\s+to\b|\b(?:was|were|had|did)\b(?!\s+(?:renamed|moved|migrated|replaced|born|founded|decided|agreed))|"
    r"\b(?:yesterday|last\s+(?:week|month|year|night|time|summer|winter)|ago|back\s+then|formerly|previously|"
    r"in\s+the\s+past|at\s+the\s+time)\b",
    re.I,
)
_AHEAD = re.compile(
    r"\b(?:will|'ll|shall|going\s+to|gonna|plan(?:ning|s)?\s+to|want\s+to|wants\s+to|hope\s+to|about\s+to|soon|"
    r"eventually|next\s+(?:week|month|year|quarter)|"
    r"tomorrow|someday|one\s+day)\b",
    re.I,
)
_PASSING = re.compile(
    r"\b(?:today|tonight|right\s+now|at\s+the\s+moment|for\s+now|currently\s+(?:down|broken|failing)|"
    r"this\s+(?:morning|afternoon|evening|once|time)|just\s+this\s+once|"
    r"(?:for|in|during)\s+this\s+(?:session|chat|conversation)(?:\s+only)?|again|temporarily|"
    r"for\s+the\s+time\s+being)\b",
    re.I,
)


def asks(plain: str) -> bool:
    return bool(_ASKS.search(plain))


def supposes(plain: str) -> bool:
    return bool(_SUPPOSES.search(plain))


def guesses(plain: str) -> bool:
    return bool(_GUESSES.search(plain))


def jokes(plain: str) -> bool:
    return bool(_JOKES.search(plain))


def hearsay(plain: str) -> bool:
    if _OF_ONESELF.match(plain):
        return bool(_HEARSAY.search(plain))
    return bool(_HEARSAY.search(plain) or _TOLD_BY.match(plain) or _SAID.search(plain))


def material(plain: str) -> bool:
    """Text that is handed over to be worked on."""
    return bool(_TASK_TEXT.match(plain))


def denies(plain: str) -> bool:
    return bool(_DENIES.search(plain)) and not over(plain)


def over(plain: str) -> bool:
    """Says that something has ended, which is a fact of its own."""
    return bool(_OVER.search(plain))


def past(plain: str) -> bool:
    return bool(_PAST.search(plain))


def ahead(plain: str) -> bool:
    return bool(_AHEAD.search(plain))


def passing(plain: str) -> bool:
    """Holds for the moment only."""
    return bool(_PASSING.search(plain))


def doubt(plain: str) -> str:
    """Why nothing at all is stated by this sentence; empty when something may be."""
    for reason, test in _TESTS:
        if test(plain):
            return reason
    return ""


_TESTS = (
    ("question", asks),
    ("joke", jokes),
    ("hearsay", hearsay),
    ("material", material),
    ("hypothetical", supposes),
    ("uncertain", guesses),
)
