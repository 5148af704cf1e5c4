"""Turns that state a rule in so many words. Only these become a rule at once; whatever else is found waits.

What is accepted is listed, not what is refused: one line of at most two sentences, in plain letters, that is nothing
but a lead-in ("no,", "please"), one of a few forms ("use X instead of Y", "never push to main", "we use X, not Y",
"stop adding comments because …", "from now on …"), and perhaps a reason. A second line, a name in front, a quote, a tag
or any other sign of a text that was pasted is no part of that.
"""

from __future__ import annotations

import re

from .corrections import above_printout

_MOST_CHARS = 200
_READ_CHARS = 4000
_MOST_SENTENCES = 2

_PLAIN = re.compile(
    r"""(?: [A-Za-zÀ-ÖØ-öø-ÿ0-9\x20(),.;!@/+=~_–—-]
    | (?<=[A-Za-z])['’](?=[A-Za-z])      # an apostrophe, not a quotation
    | (?<=[\w:]):(?=[\w:])               # test:unit, std::string, but no "key: value" and no "Bob: …"
    )+""",
    re.VERBOSE,
)
"""The characters of a typed sentence: no quotes, tags, entities, markdown, tables or hidden characters."""
_LINKED = re.compile(r"//|\s[-–—]+\s|\w[–—]\w")
"""Addresses, and what is set off by a dash, as a signature is."""
_HEDGED = re.compile(
    r"""\b(?:yet|until|till|maybe|perhaps|might|could|would|probably|someday|sometime|eventually|later|tomorrow|today
    |tonight|not\ sure|i\ guess|i\ think|i\ wonder|what\ if|unless\ you|for\ the\ moment|this\ time|just\ once
    |joking|kidding|as\ if|yeah|wow|brilliant|genius|great\ (?:idea|job)|good\ job|nice\ (?:job|one|work)|well\ done
    |congrat\w*|lovely|love\ it|clearly|obviously|apparently|of\ course|because\ that(?:'s|\ is)\ what|what\ could
    |sure(?:,|\ thing)|thanks\ (?:a\ lot|for)
    |wrote|writes|said|says|told\ (?:me|us|you)|asked\ (?:me|us|you)|according\ to|signed
    |users?|customers?|clients?|visitors?|admins?|players?
    |the\ (?:app|ui|page|button|form|site|product|system|service|api|server))\b
    |\?(?=\s|$)|…|\.\.\.|/s\b|[🙄😂🤣😅😉🙃😏]|\blol\b|\bhaha""",
    re.VERBOSE | re.IGNORECASE,
)
"""Doubt, "not yet", sarcasm, what others said, and what a product shall do for its users: none of it tells
the agent how to work."""

_LEAD = (
    r"(?:(?:no|nope|nah|wait|hey|hmm|ok|okay|please|pls|actually|sorry|btw|and|also|but|so|again|stop)\b[\s,.!:;–—-]*)*"
)
_HERE = (
    r"\b(?:in|for)\s+(?:this|our|the|all(?:\s+my|\s+our)?|every|my)\s+"
    r"(?:repo\w*|project\w*|codebase|code\s*base|monorepo|workspace)\b|\bhere\b"
)
_WORK = (
    r"(?:use|using|run|running|commit|committing|push|pushing|merge|merging|rebase|rebasing|squash|squashing|amend"
    r"|amending|install|installing|import|importing|edit|editing|touch|touching|modify|modifying|rename|renaming|format"
    r"|formatting|lint|mock|mocking|ask|answer|answering|explain|explaining|summari[sz]e|summari[sz]ing|deploy|deploying"
    r"|restart|restarting|write|writing|hardcode|hardcoding|refactor|refactoring|reformat|reformatting|delete|deleting"
    r"|remove|removing|leave|leaving|skip|skipping|guess|guessing|assume|assuming|add|adding|put|putting|create|creating|change|changing|name|keep|reply|respond|update|updating|bump|bumping|start"
    r"|starting|invent|drop|dropping|move|moving|mix|nest|disable|disabling|revert|reverting|generate|regenerate)"
)
_FORMS = tuple(
    re.compile(rf"^{_LEAD}{form}", re.IGNORECASE)
    for form in (
        # A choice between two, with both named.
        r"(?:always\s+|just\s+|only\s+)?(?:use|take|prefer|run|write|import|call|go\s+with|stick\s+(?:to|with))\s+\S.*"
        r"(?:\binstead(?:\s+of)?\b|\brather\s+than\b|,\s*(?:and\s+)?(?:not|never)\b|\bnot\s+\S|\bover\b)",
        r"(?:we|i)(?:\s+(?:always|only))?\s+(?:use|run|write|prefer|go\s+with)\s+\S.*"
        r"(?:\binstead(?:\s+of)?\b|\brather\s+than\b|\bnot\b|\bnever\b|\bover\b|\bto\s)",
        r"(?:we|i)\s+(?:don't|dont|do\s+not|never)\s+use\s+\S",
        r"(?:don't|dont|do\s+not|never)\s+use\s+\S.*\buse\s+\S",
        r"(?:i'd|i\s+would)\s+(?:rather|prefer)\b.*\b(?:than|over|instead|not)\b",
        r"no\s+\S.*,\s*(?:we\s+)?(?:use|write|run|prefer)\s+\S",
        rf"(?:{_HERE})\s*,?\s+(?:we\s+|i\s+)?(?:always\s+|only\s+)?(?:use|run|write|prefer)\s+\S.*\b(?:not|never)\s+\S",
        # What never or always holds when the agent works.
        rf"(?:never|always|don't\s+ever|do\s+not\s+ever|avoid|only)\s+(?:ever\s+)?{_WORK}\b",
        rf"(?:never|always|don't|dont|do\s+not|avoid)\b.*(?:{_HERE})",
        rf"(?:don't|dont|do\s+not)\s+(?:ever\s+)?{_WORK}\s+(?!(?:it|that|this|them|these|those|there)\b)\S",
        rf"stop\s+{_WORK}\b",
        r"stop\s+\w+ing\b.*\bbecause\b",
        # Said to last.
        r"(?:from\s+now\s+on|from\s+here\s+on|going\s+forward|in\s+(?:the\s+)?future|as\s+a\s+rule)\s*,?\s+(?:please\s+)?"
        rf"(?:{_WORK}|never|always|only|don't|dont|do\s+not|stop|avoid|prefer|we\s+use|we\s+don't\s+use)\b",
        r"remember\s+(?:to|that)\b\s*\S",
        r"for\s+(?:the\s+rest\s+of\s+)?this\s+session\b",
    )
)
_LASTING_END = re.compile(
    rf"^{_LEAD}{_WORK}\b.*\b(?:from\s+now\s+on|going\s+forward|every\s+time|in\s+(?:the\s+)?future)[.!]*$",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?<=[.!;])\s+")
_BEGINNING = re.compile(rf"^{_LEAD}", re.IGNORECASE)
_REASON = re.compile(r"(?:because|since|otherwise|it|that|they)\b", re.IGNORECASE)


def find_explicit(turn: str) -> str:
    """Return the words of a turn that state a rule in a form that leaves no doubt; empty when there are none.

    They are the one line of the turn, without what a program printed below it. A rule must be read from them alone.
    """
    said = above_printout(turn[:_READ_CHARS]).strip()
    if len(said) > _MOST_CHARS or not _PLAIN.fullmatch(said) or _HEDGED.search(said):
        return ""
    plain = said.replace("’", "'")
    asked = _BEGINNING.sub("", plain)
    first, *more = [one.strip() for one in _SENTENCE.split(asked)]
    if _LINKED.search(asked) or len(more) >= _MOST_SENTENCES or not (_has_form(first) or _has_form(plain)):
        return ""
    return said if all(_has_form(one) or _REASON.match(one) for one in more) else ""


def _has_form(sentence: str) -> bool:
    return any(form.search(sentence) for form in (*_FORMS, _LASTING_END))
