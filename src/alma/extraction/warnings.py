"""What texts warn of and what they advise."""

from __future__ import annotations

import re

from . import doubts
from .scene import Found, Scene, sentence
from .types import Kind

_OPEN = (
    r"^\W*(?:(?:important|warning|caution|note|tip|lesson(?:\s+learned)?|gotcha|remember|please|hint|rule|"
    r"attention)\s*[:!,–—-]+\s*)*"
)
_NEVER = re.compile(
    _OPEN + r"(?:(?:we|you|one)\s+(?:should|must)\s+)?"
    r"(?P<how>never|don't|do\s+not|avoid|must\s+not|should\s+(?:never|not)|shouldn't|mustn't|beware\s+of|"
    r"stay\s+away\s+from|be\s+careful\s+with|refrain\s+from|stop)\s+"
    r"(?P<what>.{4,}?)(?:(?P<mark>\s*(?::|;|\s–|\s—|\s-|,)\s*|\s+(?=because\b|since\b|as\s+(?:it|they|this|that|"
    r"we)\b|otherwise\b|or\s+else\b|or\s+(?:it|they|you|we)\b)|\.\s+)(?P<why>.{4,}))?$",
    re.I,
)  # fmt: skip
_BAD = re.compile(
    _OPEN + r"(?P<what>(?:\w+ing\b|the\s|using\s|an?\s).{3,100}?)\s+(?:is|are|was|were|turned\s+out\s+to\s+be)\s+"
    r"(?:a\s+|an\s+)?(?:\w+\s+)?(?:bad\s+idea|mistake|anti-?pattern|trap|disaster|dangerous|harmful|terrible\s+idea)\b"
    r"(?:\s*[,:;–—-]\s*|\s+)?(?P<why>.*)$",
    re.I,
)
_INSTEAD = re.compile(
    r"(?:^|[.;,]\s*|\s–\s|\s—\s)(?:(?:use|prefer|do|write|try|go\s+with)\s+(?P<a>.{3,}?)\s+instead|"
    r"instead,?\s+(?:use\s+|of\s+that\s+)?(?P<b>.{3,}?))\W*$",
    re.I,
)
_MARKS = re.compile(r"^(?:because|since|as(?=\s+(?:it|they|this|that|we)\b))\s+", re.I)
_REASON = re.compile(
    r"^(?:it|they|this|that|we|our|the|customers?|users?|people|nobody|everybody|column|order|in\s+\w+|because|"
    r"since|otherwise|[a-z]+ing|\w+\s+\w+\s+(?:broke|lost|locked|caused|was|were|are|is))\b",
    re.I,
)
_NO_REASON = re.compile(r"^(?:use|prefer|do|write|try|see|run|then|and\s+|but\s+|or\s+(?!else))\b", re.I)
_ALWAYS = re.compile(
    _OPEN + r"(?:(?:we|you|one)\s+(?:should|must)\s+)?(?:always|make\s+sure\s+(?:to|that\s+you)|"
    r"be\s+sure\s+to|remember\s+to|it(?:'s|\s+is)\s+best\s+to|best\s+practice:?)\s+(?P<what>.{4,})$",
    re.I,
)
_WHEN = re.compile(
    _OPEN + r"(?P<when>(?:when|whenever|before|after|if|for|while)\s.{3,80}?),\s*"
    r"(?:always\s+|first\s+|please\s+|you\s+should\s+|it(?:'s|"
    r"\s+is)\s+best\s+to\s+)?(?P<what>(?P<verb>[a-z]+)\s.{3,})$",
    re.I,
)
_BEST = re.compile(
    _OPEN + r"(?P<what>.{3,100}?)\s+works?\s+(?:best|better|well)\s+(?P<when>(?:when|for|in|with|if|on)\s.{3,})$", re.I
)
_DOING = frozenset(
    """use run drop add check start stop disable enable set split test verify try keep make write create remove delete
    update read open close increase reduce prefer avoid take put turn restart rebuild clear flush lock wrap batch cache
    pin upgrade rotate review ask look begin measure profile log print call send merge rebase squash tag deploy roll
    commit push pull clone install switch move copy back export import wait retry skip do first build prefix escape
    quote validate ensure confirm compare replace""".split()
)


def anti_pattern(plain: str, scene: Scene) -> Found | None:
    """Read in texts; what a person says so to their agent is a rule."""
    if not scene.document:
        return None
    found = _NEVER.match(plain)
    if found:
        return _warned(found, scene)
    bad = _BAD.match(plain)
    if bad and not doubts.denies(plain):
        return _built(sentence(bad["what"]), _reason(bad["why"]), scene.following, 0.85)
    return None


def _warned(found: re.Match[str], scene: Scene) -> Found | None:
    what, why = found["what"], found["why"] or ""
    mark = (found["mark"] or "").strip()
    if why and mark == "," and not _REASON.match(why) and not _MARKS.match(why):
        # "Never edit a, b or c": the comma belongs to what is not to be done.
        what, why = f"{what}, {why}", ""
    if why and _NO_REASON.match(why):
        what, why = what, ""
    if re.match(r"(?:mind|forget|worry|hesitate|know)\b", what, re.I):
        return None
    # A reason in the next sentence is one, when it tells what happened.
    why = why or (scene.following if _HAPPENED.search(scene.following) else "")
    return _built(sentence(what), _reason(why), f"{found['why'] or ''}. {scene.following}", 0.9 if why else 0.7)


_HAPPENED = re.compile(
    r"\b(?:broke|broken|lost|locked|were|was|charged|crash\w*|fail\w*|leak\w*|corrupt\w*|overwritten|deleted|"
    r"took\s+down|caused|doubled|twice)\b",
    re.I,
)


def _reason(why: str) -> str:
    cut = _INSTEAD.search(why)
    return sentence(_MARKS.sub("", (why[: cut.start()] if cut else why).strip(" ,;:-–—")))


def _built(pattern: str, why: str, after: str, confidence: float) -> Found | None:
    if len(pattern) < 4:
        return None
    found = _INSTEAD.search(after)
    better = sentence(found["a"] or found["b"]) if found else ""
    text = f"Avoid: {pattern}"
    fields = {"pattern": pattern, "why_bad": why, "better_alternative": better}
    return Found(Kind.ANTI_PATTERN, f"{text}: {why}" if why else text, fields, confidence)


def heuristic(plain: str, scene: Scene) -> Found | None:
    if not scene.document:
        return None
    always = _ALWAYS.match(plain)
    if always:
        what = sentence(always["what"])
        when = re.search(r"\b((?:before|after|when|whenever|while|if)\s.{3,})$", what, re.I)
        condition = sentence(when[1]) if when else scene.heading or what
        return _advice(condition, what)
    when = _WHEN.match(plain)
    if when and when["verb"].lower() in _DOING:
        return _advice(sentence(when["when"]), sentence(when["what"]))
    best = _BEST.match(plain) or re.match(
        _OPEN + r"(?P<what>.{3,100}?)\s+works?\s+best\s+(?P<when>in\s.{3,})$", plain, re.I
    )
    return _advice(sentence(best["what"]), sentence(plain)) if best else None


def _advice(condition: str, strategy: str) -> Found:
    return Found(Kind.HEURISTIC, strategy, {"condition": condition, "strategy": strategy}, 0.75)
