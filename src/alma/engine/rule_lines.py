"""How a rule reads: the line that hosts are shown, the occasion in front of it, and the words that make it relevant."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..text import content_words, is_common, shorten, stem, stems
from ..types.kinds import MACHINE_TAUGHT, list_wordings
from ..types.speech import is_quoted_output, quote_output

LINE_CHARS = 400
_TRIGGER_CHARS = 100
_TRIGGER_WORDS = 14
_LEADS = frozenset(
    "when whenever before after if unless until while during once in inside within for on at with without under".split()
)
_SUBJECTS = frozenset("you i we they it he she somebody someone anybody claude".split())
_PREDICATES = frozenset(
    """is are was were has have does fail fails break breaks hang hangs crash crashes change changes pass passes start
    starts end ends run runs exist exists ask asks say says need needs use uses""".split()
)
_ACTIVITY = re.compile(r"[a-z]*[aeiouy][a-z]*ing")
_ANY_WORK = frozenset(map(stem, ("using", "doing", "making", "working")))
# A phrase that ends with one of these words is cut off: "when using", "running tests without".
_OPEN_ENDED = frozenset(
    """a an the this that these those my your our its to of in on at by for from with without into about and or but
    nor so as than because since when if while before after until unless using doing making having being getting is
    are was were be not no""".split()
)
_SENTENCE_END = re.compile(r"[.!?;:…]\s|[!?;:…]$|\n")
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_PAIRS = (("(", ")"), ("[", "]"), ("{", "}"), ("“", "”"))


def format_line(body: Mapping[str, Any]) -> str:
    """Return the rule as one line of Markdown that cannot break out of its list."""
    # Loaded here: its patterns take a while to compile.
    from .escape import escape

    rule, why = escape(str(body["rule"])), str(body["why"])
    if why and body.get("source") in MACHINE_TAUGHT and not is_quoted_output(why):
        why = quote_output(why)
    why = escape(why)
    occasion = escape(describe_occasion(str(body["trigger"]), str(body["rule"])))
    when = f"**{occasion}:** " if occasion else ""
    because = f" *Why:* {why}" if why and why.lower() not in rule.lower() else ""
    wordings = "".join(f" (also: {escape(text)})" for text in list_wordings(body))
    rule += wordings if len(when + rule + wordings) <= LINE_CHARS else ""
    if len(when + rule + because) > LINE_CHARS and is_quoted_output(why):
        # Cut in two, a quotation would not end where it should.
        because = ""
    return shorten(f"{when}{rule}{because}", LINE_CHARS)


def describe_occasion(trigger: str, rule: str) -> str:
    """Return the trigger as the phrase in front of its rule ("When committing"), without a colon.

    It is empty when the phrase would not read well, or when the rule already says it.
    """
    phrase = " ".join(trigger.split()).rstrip(" ,.:;")
    words = [word.lower() for word in _WORD.findall(phrase)]
    topics = stems(phrase) - _ANY_WORK
    if (
        not words
        or len(phrase) > _TRIGGER_CHARS
        or len(words) > _TRIGGER_WORDS
        or words[-1] in _OPEN_ENDED
        or _SENTENCE_END.search(trigger.strip().rstrip(",.:;"))
        or any(phrase.count(quote) % 2 for quote in '`"')
        or any(phrase.count(opening) != phrase.count(closing) for opening, closing in _PAIRS)
        or (topics and topics <= stems(rule))
    ):
        return ""
    if words[0] in _LEADS or not words[0].isascii():
        return phrase[0].upper() + phrase[1:]
    is_activity = phrase[0].isalpha() and _ACTIVITY.fullmatch(words[0]) is not None
    is_clause = len(words) > 1 and (words[0] in _SUBJECTS or not _PREDICATES.isdisjoint(words[1:]))
    return f"{'When' if is_activity or is_clause else 'For'} {phrase}"


def dress_rule(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body with the line that hosts are shown, and the words and names that make it relevant."""
    names = [str(name).lower() for name in (*body["prefer"], *body["avoid"])]
    rule_stems = [stem(word) for word in content_words(f"{body['trigger']} {body['rule']}") if not is_common(word)]
    return {**body, "line": format_line(body), "cues": list(dict.fromkeys((*names, *rule_stems)))[:24]}
