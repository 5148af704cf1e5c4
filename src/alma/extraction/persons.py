"""What people say of themselves, said of them: "I live in Berlin" is of use to others only with a name."""

from __future__ import annotations

import re

_ME = (
    (re.compile(r"^I(?:'m|\s+am)\b"), "{who} is"),
    (re.compile(r"^I(?:'ve|\s+have)(?=\s+(?:lived|worked|owned|been)\b)"), "{who} has"),
    (re.compile(r"^I\s+have\b"), "{who} has"),
    (re.compile(r"^My\b"), "{whose}"),
)
_DOES = re.compile(r"^I\s+(?P<adverb>(?:(?:currently|now|also|still|mostly|usually)\s+)*)(?P<verb>[a-z]+)\b")
_PAST = re.compile(r"(?:ed|was|grew|came|went|had|did|bought|sold|built|wrote|studied|taught)$")
_MINE = ((re.compile(r"\bmy\b"), "their"), (re.compile(r"\bme\b"), "them"), (re.compile(r"\bmyself\b"), "themselves"))


def of_speaker(text: str, who: str) -> str:
    """The sentence with the speaker's name, or "the user", for "I" and "my"."""
    text = text[:1].upper() + text[1:]
    for pattern, put in _ME:
        if pattern.match(text):
            return _rest(pattern.sub(put.format(who=who, whose=f"{who}'s"), text, count=1), who)
    found = _DOES.match(text)
    if not found:
        return text
    verb = found["verb"] if _PAST.search(found["verb"]) else _third(found["verb"])
    return _rest(f"{who} {found['adverb']}{verb}{text[found.end() :]}", who)


def _rest(text: str, who: str) -> str:
    head, tail = text[: len(who)], text[len(who) :]
    for pattern, put in _MINE:
        tail = pattern.sub(put, tail)
    return head + tail


def _third(verb: str) -> str:
    if verb == "have":
        return "has"
    if verb.endswith(("s", "sh", "ch", "x", "z", "o")):
        return f"{verb}es"
    return f"{verb[:-1]}ies" if verb.endswith("y") and verb[-2:-1] not in "aeiou" else f"{verb}s"
