"""When a rule comes into play: "committing", "running npm test"."""

from __future__ import annotations

import re

_WHEN = re.compile(
    r"\b(?:when(?:ever)?|before|after|once|every\s+time|each\s+time|if)\s+(?:you|i|we)\s+(?P<verb>[a-z]+)\b(?!'"
    r")(?P<rest>[^,.;:!?–—]{0,50})",
    re.I,
)
_WHEN_DOING = re.compile(r"\b(?:when|while|before|after)\s+(?P<doing>[a-z]+ing\b[^,.;:!?–—]{0,40})", re.I)
_WHEN_SAID = re.compile(
    r"\bwhen(?:ever)?\s+i\s+say\s+(?P<what>[`\"'“]?[\w -]{2,30}?[`\"'”]?)(?=\s*(?:,|run\b|i\s+mean\b|do\b|$))", re.I
)
_FOR = re.compile(
    r"^(?:for|in|with|on)\s++(?P<what>(?!this\b|now\b|the\s+rest|today|future|general|all\s+future)[\w`./ -]{3,3"
    r"0}?)\s*,",
    re.I,
)
_ORDER = re.compile(
    r"^(?:do\s+not|don't|never|always|avoid|stop|please)\s+(?:ever\s+|always\s+|directly\s+)?(?P<verb>[a-z]+)\b"
    r"(?!')(?P<rest>(?:[^,.;:!?–—]|\.(?=\w)){0,40})",
    re.I,
)
_TOPICS = tuple(
    (re.compile(pattern, re.I), what)
    for pattern, what in (
        (r"\bcommit message", "writing commit messages"),
        (r"\bcommit\w*\b", "committing"),
        (r"\bforce[- ]push|\bpush\w*\b", "pushing"),
        (r"\bchangelog (?:entry|entries|lines?)\b", "writing the changelog"),
        (r"\b(?:pull request|PR)s?\b", "opening a pull request"),
        (r"\bchangelog\b", "changing behaviour"),
        (r"\bmigrations?\b", "changing the database schema"),
        (r"\bdeploy\w*|\breleas(?:e|es|ing)\b(?! (?:mode|builds?|notes?|bot|branch\w*)\b)", "deploying"),
        (r"\b(?:run|running|skip|start)\b.*\btests?\b|\btest suite\b|\bpytest\b|\bvitest\b|\bjest\b", "running tests"),
        (r"\btests?\b|\bmocks?\b|\bmocking\b", "writing tests"),
        (
            r"\b(?:answer|reply|replies|respond|response|verbose|concise|brief|summar(?:y|ies)|apologi[sz]\w*)\b"
            r"|\bemojis?\b(?!\s+in\b)",
            "answering",
        ),
        (r"\bcomments?\b|\bdocstrings?\b", "writing comments"),
        (r"\breadme\b|\bdocs\b|\bdocumentation\b", "writing documentation"),
        (
            r"\bdependenc(?:y|ies)\b|\bpackage manager\b|\b(?:npm|pnpm|yarn|bun|pip|uv|poetry|conda)\b",
            "installing packages",
        ),
        (r"\bimports?\b|\bexports?\b", "writing imports and exports"),
        (r"\btype (?:hints?|annotations?)\b|\btypes\b", "writing types"),
        (r"(?<!/)\bdelet\w+\b|\brm -", "deleting files"),
        (r"\bsql\b|\bquer(?:y|ies)\b", "writing SQL"),
        (r"\blog(?:s|ging|ger)?\b", "logging"),
        (r"\bbranch(?:es)?\b", "naming branches"),
        (r"\bcolou?rs?\b|\bcss\b|\bstyles?\b|\bmargin\b|\bpadding\b|\bfont\b", "styling"),
    )
)
_WORDS = re.compile(r"[^\W\d_]{2}")
_NO_OBJECT = re.compile(r"^\s+(?:to|it|that|this|them|so|be)\b\s*$", re.I)
_DOUBLED = frozenset(
    "run commit get put set stop plan ship drop cut skip let begin swap log map wrap tag bet pin strip split format "
    "reformat submit permit omit refer scan step chop grab spin chat debug fit hit sit shut quit".split()
)
_TAIL = re.compile(
    r"(?<!\bto)\s+(?:without|unless|until|because|since|and|but|so|if|when|before|after|instead|not|directly|yourself|you|that|which"
    r"|on your own|by|please|anymore|any more|(?:always |also |first )?(?:run|use|ask|show|check|add|write|make|update"
    r"|tell|do)\b(?! (?:to|of|in|for)\b))\b.*$",
    re.I,
)


def trigger(rule: str, avoid: tuple[str, ...]) -> str:
    """Derived from the rule's own words; '' when they do not say."""
    for find in (_from_when, _from_order, _from_topic):
        found = find(rule)
        if found:
            return found[:80]
    return f"using {avoid[0]}" if avoid and "-" not in avoid[0].strip("-") else ""


def _from_when(rule: str) -> str:
    said = _WHEN_SAID.search(rule)
    if said:
        return f"the person says {said['what'].strip()}"
    doing = _WHEN_DOING.search(rule)
    if doing and not doing["doing"].lower().startswith(("asking", "telling", "checking with", "confirming")):
        return _TAIL.sub("", doing["doing"]).strip()
    when = _WHEN.search(rule)
    if when and when["verb"].lower() not in (
        "are",
        "is",
        "have",
        "do",
        "did",
        "ask",
        "tell",
        "want",
        "say",
        "approve",
        "can",
        "need",
    ):
        return (gerund(when["verb"]) + _TAIL.sub("", when["rest"])).strip()
    topic = _FOR.search(rule)
    return topic["what"].strip() if topic else ""


def _from_order(rule: str) -> str:
    found = _ORDER.search(rule)
    if not found or found["verb"].lower() in (
        "use",
        "be",
        "have",
        "do",
        "make",
        "give",
        "need",
        "using",
        "let",
        "put",
        "assume",
    ):
        return ""
    rest = _TAIL.sub("", found["rest"])
    verb = found["verb"].lower()
    if (not _WORDS.search(rest) and rest.strip()) or verb == "force":
        return _from_topic(rule)
    if rule[:5].lower() in ("avoid", "stop ") and not verb.endswith("ing"):
        return ""
    return (gerund(verb) + ("" if _NO_OBJECT.match(rest) else rest)).strip()


def _from_topic(rule: str) -> str:
    return next((what for pattern, what in _TOPICS if pattern.search(rule)), "")


def gerund(verb: str) -> str:
    verb = verb.lower()
    if verb.endswith("ing") and len(verb) > 5:
        return verb
    if verb.endswith("ie"):
        return verb[:-2] + "ying"
    if verb.endswith("e") and not verb.endswith(("ee", "oe", "ye")):
        return verb[:-1] + "ing"
    return verb + (verb[-1] if verb in _DOUBLED else "") + "ing"
