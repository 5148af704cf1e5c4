"""Turns that state a rule in so many words. Only these become a rule at once; whatever else is found waits.

A turn is explicit when it is short, holds nothing but the person's own sentences (no paste, no quote, no list, no mail,
no ticket), and one of its sentences has one of a few forms: "use X instead of Y", "never push to main", "we use X, not
Y", "stop adding comments because …", "from now on …". In doubt it is not.
"""

from __future__ import annotations

import re

from .corrections import above_printout

_MOST_CHARS = 280
_READ_CHARS = 4000
_MOST_SENTENCES = 4

_FOREIGN = re.compile(
    r"""
      ```|~~~|<[A-Za-z/!][^>]*>|https?://|\[(?:image|pasted|truncated|\.\.\.)   # pastes, pages, tags
    | ^\s*(?:\#{1,6}\s|>|\||[-*•–]\s|\d{1,3}[.)]\s|\[[ x]\])                    # headings, quotes, tables, lists
    | ^\s*(?:from|to|cc|bcc|subject|date|sent|reply-to|re|fwd?|von|an|betreff|datum)\s*:\s?\S   # mail headers
    | ^\s*[\w ]{2,24}:\s*$                                                       # "Acceptance criteria:"
    | \b[A-Z][A-Z0-9]{1,9}-\d+\b|(?<!\w)\#\d+\b                                  # tickets
    | \b(?:ticket|jira|issue|epic|user\ story|acceptance\ criteria|requirement|guideline)s?\b
    | \b(?:wrote|writes|said|says|told\ me|asked\ (?:me|us)|according\ to|quote|slack|e-?mail|readme)\b
    | \b(?:claude|agents)\.md\b
    | ["“«„](?:[^"”»“\s]+\s+){2,}[^"”»“\s]+["”»“]                               # a quotation of several words
    """,
    re.VERBOSE | re.IGNORECASE | re.MULTILINE,
)
_HEDGED = re.compile(
    r"""\b(?:yet|until|till|maybe|perhaps|might|could|would|probably|someday|sometime|eventually|later|tomorrow|today
    |tonight|not\ sure|i\ guess|i\ think|i\ wonder|what\ if|unless\ you|for\ the\ moment|this\ time|just\ once
    |joking|kidding|as\ if|yeah|wow|brilliant|genius|great\ (?:idea|job)|good\ job|nice\ (?:job|one|work)|well\ done
    |congrat\w*|lovely|love\ it|clearly|obviously|apparently|of\ course|because\ that(?:'s|\ is)\ what|what\ could
    |sure(?:,|\ thing)|thanks\ (?:a\ lot|for)
    |users?|customers?|clients?|visitors?|admins?|players?
    |the\ (?:app|ui|page|button|form|site|product|system|service|api|server))\b
    |\?(?=\s|$)|…|\.\.\.|/s\b|[🙄😂🤣😅😉🙃😏]|\blol\b|\bhaha""",
    re.VERBOSE | re.IGNORECASE,
)
"""Doubt, "not yet", sarcasm, and what a product shall do for its users: none of it tells the agent how to work."""

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
        rf"\S.*(?:{_HERE}).*\b(?:not|never)\s+\S",
        # What never or always holds when the agent works.
        rf"(?:never|always|don't\s+ever|do\s+not\s+ever|avoid|only)\s+(?:ever\s+)?{_WORK}\b",
        rf"(?:never|always|don't|dont|do\s+not|avoid)\b.*(?:{_HERE})",
        rf"(?:don't|dont|do\s+not)\s+(?:ever\s+)?{_WORK}\s+(?!(?:it|that|this|them|these|those|there)\b)\S",
        rf"stop\s+{_WORK}\b",
        r"stop\s+\w+ing\b.*\bbecause\b",
        # Said to last.
        r"(?:from\s+now\s+on|from\s+here\s+on|going\s+forward|in\s+(?:the\s+)?future|as\s+a\s+rule)\s*,?\s*\S",
        r"remember\s*(?::|to\b|that\b)\s*\S",
        r"for\s+(?:the\s+rest\s+of\s+)?this\s+session\b",
    )
)
_LASTING_END = re.compile(
    rf"^{_LEAD}{_WORK}\b.*\b(?:from\s+now\s+on|going\s+forward|every\s+time|in\s+(?:the\s+)?future)[.!]*$",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?<=[.!;])\s+|\n+")
# "We moved to unittest, please don't use pytest": what the person adds to a statement of their own is said directly.
_CLAUSE = re.compile(r",\s+(?:so\s+)?(?:please\s+)?(?=(?:don't|dont|do\s+not|never|always|use|stop)\b)", re.IGNORECASE)
_OWN_STATEMENT = re.compile(rf"^{_LEAD}(?:we|i|it's|you)\b", re.IGNORECASE)


def is_explicit(turn: str) -> bool:
    """Whether a turn states a rule in a form that leaves no doubt. What a program printed below it is not looked at."""
    said = above_printout(turn[:_READ_CHARS]).strip()
    if not said or len(said) > _MOST_CHARS or _FOREIGN.search(said) or _HEDGED.search(said):
        return False
    sentences = [one.strip() for one in _SENTENCE.split(said.replace("’", "'")) if one.strip()]
    if len(sentences) > _MOST_SENTENCES:
        return False
    clauses = [part for one in sentences if _OWN_STATEMENT.search(one) for part in _CLAUSE.split(one)[1:]]
    return any(form.search(one) for one in (*sentences, *clauses) for form in (*_FORMS, _LASTING_END))
