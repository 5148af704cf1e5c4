"""What a person wants: of themselves (a preference), and of how the agent works (a correction, which is a rule)."""

from __future__ import annotations

import re

from ..reading.local_rules import is_self_contained, read_turn
from ..reading.port import RuleProposal
from ..types.rules import Reach
from . import doubts
from .scene import Found, Scene, sentence
from .types import Kind

_ADVERB = (
    r"(?:really\s+|much\s+|generally\s+|usually\s+|definitely\s+|strongly\s+|personally\s+|actually\s+|just\s+|"
    r"always\s+|also\s+|would\s+|do\s+|absolutely\s+|quite\s+|very\s+much\s+|honestly\s+)*"
)
_OPEN = (
    r"^\W*(?:(?:and|but|also|so|ok|okay|well|btw|by\s+the\s+way|fyi|just\s+so\s+you\s+know|note\s+that|"
    r"remember(?:\s+that)?|please\s+remember(?:\s+that)?|for\s+the\s+record|hi|hey|hello)\W+)*"
)
_THING = (
    r"(?!it\b|that\b|this\b|(?:seeing|watching|holding|using|having)\s+(?:them|it|this|that)\b|all\s+the\b|how\b|"
    r"your\b|(?:the|that|this|these|those|your|both|all)\s+(?:(?:of\s+)?(?:the|your|these)\s+)?(?:way|ideas?|look|"
    r"new|results?|first|second|third|last|latter|former|suggestions?|direction|concept|approach|sound|thought|part|"
    r"options?|tips?|recommendations?|plan|fact)\b|what\b|when\s+you\b|if\b|where\b|to\s+(?:know|see|ask|build|"
    r"create|make|add|get|have\s+you|understand|be\s+able|explore|try|learn|focus|hear|find|start|look|incorporate|"
    r"include|discuss|share|plan|do|go)\b|some\s|more\s|any\s|you\b|them\b|those\b|these\b|one\b)"
)
_PREFERS = tuple(
    re.compile(_OPEN + pattern, re.I)
    for pattern in (
        rf"i\s*(?:'d|would)?\s*{_ADVERB}(?:prefer|favou?r)\s+(?!not\s+to\s+(?:say|speculate|answer)|that\s+you\s|"
        rf"if\s|it\s+if|the\s+(?:first|second|third|last|latter|former|other))",
        r"i\s*(?:'d|would)\s+(?:much\s+)?rather\s+(?:have|use|sit|get|not|be|see|read|work|write|keep|go|travel|"
        r"pay|eat|drink|stay|take|avoid)\b",
        rf"i\s+{_ADVERB}(?:like\s+(?!the\b(?!.*\b(?:better|more|most)\b))|love\s+(?!the\b(?!.*\b(?:better|more|"
        rf"most)\b)|to\s+help)|enjoy\s+(?!the\b)|adore\s){_THING}",
        rf"i\s+{_ADVERB}(?:hate|dislike|detest|loathe|don't\s+(?:really\s+)?(?:like|enjoy|want|eat|"
        rf"drink)\s+(?!to\s+(?:know|say)|it|that|this)|do\s+not\s+(?:like|want|eat|drink)|can't\s+stand|"
        rf"cannot\s+stand|avoid)\s*{_THING}",
        r"(?:please\s+|just\s+|you\s+can\s+|you\s+may\s+)*call\s+me\s+(?!back|when|if|at|on|tomorrow|later|today|"
        r"crazy|paranoid)",
        r"my\s+(?:\w+\s+)?(?:preference|favou?rite\b.{0,40}?|preferred\s.{2,40}?|pronouns?)\s+(?:is|are)\s",
        r"i(?:'m|\s+am)\s+(?:an?\s+)?(?:\w+\s+)?(?:vegan|vegetarian|pescatarian|kosher|halal|lactose[- ]intolerant|"
        r"gluten[- ]free|coeliac|celiac|teetotal(?:ler)?|left[- ]handed|colou?r[- ]?blind|diabetic|allergic\s+to)\b",
        r"i(?:'m|\s+am)\s+(?:a\s+(?:big|huge)\s+fan|not\s+a\s+(?:big\s+|huge\s+)?fan|fond|sensitive)\s+(?:of|"
        r"to)\s+(?!that|this|it\b)",
        r"i\s+(?:always|usually|never)\s+(?:take|drink|eat|order|book|fly|travel|sit|wear|pay|choose|pick|buy|"
        r"listen|read|watch)\b",
        r"(?:mornings?|afternoons?|evenings?|mondays?|tuesdays?|wednesdays?|thursdays?|fridays?|weekends?|weekdays?|"
        r"(?:\w+\s+){0,3}(?:mornings?|afternoons?|evenings?|calls?|meetings?|emails?|days?|time))\s+(?:work|works|"
        r"suit|suits)\s+(?:best\s+|better\s+)?(?:for\s+)?me\b",
        r"i\s+(?:don't|do\s+not|never)\s+(?:eat|drink|smoke|fly|work\s+on)\s",
        r"i\s+want\s+(?:all\s+|every\s+|my\s+|your\s+)(?:answers?|repl(?:y|ies)|responses?|emails?|reports?|"
        r"summar(?:y|ies)|dates?|times?|units?)\b",
    )
)  # fmt: skip
_OF_NOW = re.compile(
    r"\b(?:the\s+(?:first|second|third|last|latter)\s+(?:one|option)|option\s+\w|this\s+(?:one|version|design|"
    r"draft)|your\s+(?:answer|idea|suggestion))\b",
    re.I,
)

_CATEGORIES = tuple(
    (name, re.compile(rf"\b(?:{words})\b", re.I))
    for name, words in (
        ("identity", r"call\s+me|my\s+name|pronouns?"),
        (
            "food",
            r"vegan|vegetarian|allergic|lactose|gluten|eat|drink|coffee|tea|food|meals?|cheese|wine|kosher|halal|"
            r"pescatarian|breakfast|lunch|dinner",
        ),
        (
            "communication",
            r"answers?|answered|replies|reply|responses?|language|tone|bullets?|bullet\s+points?|summar\w+|emails?|"
            r"explanations?|emoji\w*|jokes?|english|german|french|spanish|formal|concise|short|brief|verbose",
        ),
        (
            "code_style",
            r"tabs?|spaces?|indent\w*|commits?|commit\s+messages?|tests?|pytest|unittest|functions?|classes|types?|"
            r"typing|imports?|quotes|semicolons?|lint\w*|format\w*|snake_case|camelCase|comments?|code",
        ),
        (
            "tools",
            r"vim|emacs|editor|ide|dark\s+mode|light\s+mode|terminal|shell|npm|pnpm|yarn|uv|docker|git|vs\s*code|"
            r"mac|linux|windows",
        ),
        (
            "schedule",
            r"mornings?|afternoons?|evenings?|meetings?|calls?|mondays?|tuesdays?|wednesdays?|thursdays?|fridays?|"
            r"weekends?|calendar|appointments?",
        ),
        ("travel", r"seat|flights?|fly|hotel|travel|trains?|aisle|window"),
        ("units", r"celsius|fahrenheit|metric|imperial|kilomet\w+|miles|kilos?|pounds?|24[- ]hour|dates?|iso"),
    )
)


def preference(plain: str, scene: Scene) -> Found | None:
    if not scene.person or scene.document or doubts.passing(plain) or _OF_NOW.search(plain):
        return None
    if plain[:1] in "\"“'«" or not any(pattern.match(plain) for pattern in _PREFERS):
        return None
    text = sentence(plain)
    category = next((name for name, words in _CATEGORIES if words.search(plain)), "general")
    return Found(Kind.PREFERENCE, text, {"preference": text, "category": category}, 0.9)


# -- what the agent is to do

_STANDING = re.compile(
    r"\b(?:from\s+(?:now|here)\s+on(?:wards?)?|going\s+forward|in\s+(?:the\s+)?future|henceforth|always|never|"
    r"every\s+time|whenever|at\s+all\s+times|"
    r"each\s+time|before\s+(?:every|each|any)|after\s+(?:every|each)|in\s+this\s+(?:repo\w*|project|codebase)|"
    r"in\s+all\s)\b",
    re.I,
)
_ORDER = re.compile(
    r"^\W*(?:(?:and|but|also|so|ok|okay|well|good|great|no|nope|wait|sorry|hey|please|pls|btw|remember|again|nice|"
    r"perfect|thanks|important|note|rule|"
    r"from\s+(?:now|here)\s+on(?:wards?)?|going\s+forward|in\s+(?:the\s+)?future|next\s+time|henceforth)\W+)*"
    r"(?:always|never|don't|do\s+not|dont|stop\s+\w+ing|avoid|make\s+sure|be\s+sure|ensure|you\s+(?:should|must|"
    r"need\s+to|have\s+to|are\s+not|may\s+not|can't|cannot)|"
    r"please\s+(?:always|never|don't|do\s+not|use|keep|put|ask|write|run|add)|use|prefer|keep|put|write|ask|run|"
    r"update|add|name|format|commit|i\s+(?:always\s+)?(?:want|need|expect)\s+you\s+to|"
    r"we\s+(?:always|never|only)\s|(?:only|not)\s|when\s.{3,60},\s*(?:always|never|use|don't|do\s+not|run|ask)|"
    r"(?:whenever|every\s+time|each\s+time)\s"
    r".{3,60},\s*[a-z]+|.{3,60}?\s(?:must|should|has\s+to|have\s+to)\s+(?:always|never))\b",
    re.I,
)
_CONTRARY = re.compile(
    r"^\W*(?:no|nope|wrong|that's\s+(?:wrong|not\s+right)|not\s+\w+)\b[,.!:;\s-]+\S|"
    r"^.{0,100}\b(?:instead\s+of\s.{2,40}|rather\s+than\s.{2,40}|,?\s+not\s+[\w`./-]+)\W*$",
    re.I,
)
_MOMENT = re.compile(
    r"^\W*(?:never\s+mind|nevermind|don't\s+(?:worry|bother|know|do\s+(?:that|this|it)|forget\s+(?:to|the|that)|"
    r"you\s+think)|do\s+not\s+worry|no\s+(?:problem|worries|idea|thanks)|"
    r"(?:use|take|try|pick|keep|do|put|make|run|add|ask)\s+(?:it|that|this|the\s+(?:other|first|second|third|last|"
    r"same)|one|option|them)\b|not\s+(?:that|this|yet|now|really|sure))|\b(?:anything|nothing|everything|"
    r"something)\s+else\b",
    re.I,
)
_STATES = re.compile(
    r"^\W*(?:(?:no|nope|and|but|so|actually|to\s+correct\s+myself)\W+)*(?:i|this|that|it|there|he|she|they|a|an)\b",
    re.I,
)
_PLAY = re.compile(
    r"^\W*(?:imagine|pretend|act\s+(?:as|like)|play\s+the\s+role|you\s+are\s+(?:now\s+)?an?\s|role[- ]?play|"
    r"let's\s+play)\b",
    re.I,
)
_POINTS_BACK = re.compile(
    r"^(?:please\s+)?(?:don't|do\s+not|stop|never|always|avoid)\s+(?:do(?:ing)?\s+)?(?:that|this|it|"
    r"so)(?:\s+(?:again|please))?\W*$",
    re.I,
)
_NOT_THAT = re.compile(
    r"^\W*(?:please\s+)?(?:don't|do\s+not|stop)\s+(?:do(?:ing)?\s+)?(?:that|this|it)\s*[,;:–—-]+\s*(?=\w+\s)", re.I
)
_BLAMES = re.compile(r"^\W*(?:(?:and|but|hey|again|ugh|no)\W+)*you\s+(?!are\b|can\b|may\b|should\b|could\b)\w+", re.I)
_DONE = re.compile(r"\b(?:you|we)\s+(?:(?:never|always)\s+\w+ed|should(?:n't|\s+not)?\s+have|could\s+have)\b", re.I)


def correction(plain: str, scene: Scene) -> Found | None:
    """A rule, when the person's own sentence orders something that is to last."""
    if (
        not scene.to_agent
        or not scene.person
        or scene.document
        or doubts.passing(plain)
        or _MOMENT.search(_NOT_THAT.sub("", plain))
        or _DONE.search(plain)
        or scene.play
    ):
        return None
    plain = _NOT_THAT.sub("", plain)
    if _POINTS_BACK.match(plain) and _BLAMES.match(scene.earlier):
        return _blamed(scene)
    standing, order, contrary = (bool(one.search(plain)) for one in (_STANDING, _ORDER, _CONTRARY))
    if not order and (not contrary or _STATES.match(plain)):
        return None
    reading = read_turn(plain)
    rule = reading.rule if reading else sentence(plain)
    if _POINTS_BACK.match(rule) or not _lasts(reading, standing=standing, order=order, contrary=contrary):
        return None
    sure = standing or (reading is not None and reading.is_sure)
    return _rule(
        reading, rule, sentence(reading.reason) if reading and reading.reason else _why(plain), 0.9 if sure else 0.6
    )


def _blamed(scene: Scene) -> Found:
    """ "You put emojis into every heading. Stop doing that." """
    told = re.sub(r"^.*?\byou\s+(?:(?:keep|always|still|just|again)\s+)*", "", scene.earlier, count=1, flags=re.I)
    rule = f"Do not do this: {told.rstrip('.! ')}"
    return Found(Kind.CORRECTION, rule, {"rule": rule, "reach": str(Reach.PROJECT), "label": "correction"}, 0.7)


def plays(plain: str) -> bool:
    """Sets up a game or a role: what is ordered in it holds in it."""
    return bool(_PLAY.match(plain))


def whole(said: str, before: str) -> Found | None:
    """A short turn heard as one, when the detector of corrections is sure of it."""
    if doubts.passing(said) or _MOMENT.search(said) or _DONE.search(said):
        return None
    reading = read_turn(said)
    if reading is None or not reading.is_sure or reading.reach not in (Reach.PROJECT, Reach.ALWAYS):
        return None
    if _POINTS_BACK.match(reading.rule) or not is_self_contained(reading.rule):
        return None
    return _rule(reading, reading.rule, reading.reason, 0.8)


def _rule(reading: RuleProposal | None, rule: str, why: str, confidence: float) -> Found:
    fields = {
        "rule": rule,
        "trigger": reading.trigger if reading else "",
        "why": why,
        "reach": str(Reach.ALWAYS if reading and reading.reach is Reach.ALWAYS else Reach.PROJECT),
        "label": "preference" if reading and not reading.is_correction else "correction",
    }
    return Found(Kind.CORRECTION, rule, fields, confidence)


def _lasts(reading: RuleProposal | None, *, standing: bool, order: bool, contrary: bool) -> bool:
    if reading is not None and reading.reach is Reach.SESSION:
        return False
    if standing and order:
        return True
    return reading is not None and reading.is_sure and (reading.reach in (Reach.PROJECT, Reach.ALWAYS) or contrary)


_BECAUSE = re.compile(
    r"(?:,\s*(?:it|that|this|they|we)\s|:\s*(?:it|that|this|they|we)\s|\b(?:because|since)\s)(?P<why>.{4,})$", re.I
)


def _why(plain: str) -> str:
    found = _BECAUSE.search(plain)
    return sentence(plain[found.start() :].lstrip(" ,:")) if found else ""
