"""What a person typed: sentence by sentence, without quotations, and whether each sentence licenses a use."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from typing import NamedTuple

from ..reading.replies import is_ironic
from ..text import COMMON, STOP

_QUOTED = re.compile(r"[\"“„«](?:[^\s\"“”„«»]+\s+){3,}[^\"“”„«»]*[\"”“»]")
_SENTENCE = re.compile(r"[^\n]+?(?:[.!?]+(?=\s|$)|[。！？]|$)", re.M)
_REQUEST = re.compile(
    r"\b(?:can|could|would|will)\s+(?:you|we|u)\s+(?!(?:please\s+)?(?:explain|tell|show|check|look|say|describe))"
    r"|\bwhy\s+(?:not|don'?t|didn'?t|aren'?t|isn'?t)\b|\b(?:shouldn'?t|don'?t|didn'?t)\s+(?:we|you|i)\b"
    r"|\b(?:how|what)\s+about\b|\b(?:kannst|könntest|würdest)\s+du\b|\b(?:peux-tu|pourrais-tu|puedes|podrías)\b"
    r"|能不能|能否|可以|请",
    re.I,
)
_DEED = re.compile(
    r"\W*(?:(?:hm+|so|wait|and|but|hey|ok|no)\W+)*(?:why\s+(?:did|do|does|is|are|was|were|have|has)\b"
    r"|what\s+(?:on\s+earth\s+|the\s+h\w+\s+)?(?:does|did|is|was|are|if)\b|(?:is|are)\s+(?!in\b|at\b|on\b|under\b|now\b|supposed\b|meant\b)\w"
    r"|(?:should|would|could|do|does|don'?t)\s+(?:we|i|you|they|it)\b|which\s+(?:one|of)\b"
    r"|where\s+did\b|who\s+(?!ever\b)\w|how\s+(?:come|did|does)\b|(?:did|does)\s+(?!not\b)\w|(?:was|were)\s+\w"
    r"|have\s+you\b)",
    re.I,
)
_ASKING_END = re.compile(r"[?？][!?！？]*\s*$")
_REPORT = re.compile(
    r"(?<!\bi )(?<!\bwe )\b(?:says|said|told|tells|thinks|suggests|recommends|wrote|writes|claims|printed"
    r"|according to)\b"
    r"|\b(?:readme|wiki|logs?|output|page|docs?|ticket|issue)\s+(?:has|had|have|contains?|lists?|mentions?|shows?)\b",
    re.I,
)
_AGENT_DEED = re.compile(
    r"(?<!\bwhen )(?<!\bbefore )(?<!\bafter )(?<!\bif )(?<!\bwhenever )(?<!\buntil )(?<!\bonce )"
    r"\byou\s+(?:just\s+|again\s+|always\s+|keep\s+|kept\s+|have\s+|had\s+)*"
    r"(?:ran|run|used|using|running|did|installed|added|wrote|put|changed|called|deleted|removed|ignored|made|went)\b"
    r"|\bi\s+(?:just\s+)?(?:saw|noticed|read|found)\b",
    re.I,
)
_REJECTION = re.compile(
    r"\b(?:no|without|rid\s+of|drop(?:ped)?|ditch(?:ed)?|removed?|uninstall(?:ed)?|avoid)\s+(?:the\s+|any\s+|all\s+)?\W{0,3}$",
    re.I,
)
_DISMISSAL = re.compile(
    r"[\W_]*(?:(?:'s|is|are|was|were|must|should|can|will|would|seems?|looks?|ist|sind|est|es)\s+)?"
    r"(?:(?:just|so|really|simply|way|been|to|bitte|please|be|a)\s+)*"
    r"(?:(?:not|never|nicht|pas)\b|(?:is|are|was|were|ca|wo|should|must)n['’]t\b|(?:does|did|do)(?:n['’]t| not)\s+work"
    r"|too\s+\w|zu\s+\w+\W*$|trop\s+\w|demasiado\s+\w|off\s+limits"
    r"|(?:wrong|bad|dead|gone|broken?|breaks|deprecated|obsolete|outdated|banned|forbidden|slow|flaky|terrible|awful"
    r"|removed|died|fail(?:s|ed)?|crash(?:es|ed)?|sucks?|mistake|history|suspicious|dangerous|malware|garbage|raus|weg|kaputt|verboten|tabu|interdit|prohibido)\b"
    r"|(?:out|go)\W*$)",
    re.I,
)
_DIFF = re.compile(r"^[+-](?:\s{2,}|[+-]).*$", re.M)
_LIMIT = re.compile(
    r"\b(?:only|just) (?:for )?(?:this|now|today|once)\b|\bfor (?:now|today|once|the moment)\b|\bthis (?:one )?time\b"
    r"|\b(?:for|in|on) (?:this|these|the) (?:\w+ ){0,2}(?:only|alone)\b|\bsolo (?:esta vez|por hoy|hoy)\b"
    r"|\bnur (?:dieses mal|diesmal|heute|jetzt|hier für)\b|\b(?:diesmal|ausnahmsweise|vorerst|desta vez|cette fois)\b"
    r"|\b(?:por ahora|por esta vez|por enquanto|pour l'instant)\b|\bтолько (?:сейчас|сегодня|в этот раз)\b|\bпока что\b"
    r"|这次|这一次|暂时|今回だけ|とりあえず",
    re.I,
)
_GENERAL = re.compile(
    r"\b(?:always|never|normally|usually|otherwise|by default|every time|we|our|immer|nie|sonst|normalerweise|wir"
    r"|siempre|nunca|normalmente|toujours|jamais|normalement|sempre|всегда|никогда|обычно)\b|总是|平时|一般|いつも|普段",
    re.I,
)
_LIST_ITEM = re.compile(r"\s*(?:[-*•]|\d+[.)])\s|\s{4,}\S")
_CLAUSE = re.compile(r"[,;–—]|\s-\s|\b(?:so|but|please)\b", re.I)
_OMISSION = re.compile(
    r"\byou\s+(?:(?:again|still|just|also)\s+)?(?:(?:did|have)(?:n['’]?t|\s+not)|forgot\s+to|never(?=\s+\w+ed\b))"
    r"\s+(?:(?:even|again|actually)\s+)?\w",
    re.I,
)
# "Good that you didn't": what was left out should stay so. No complaint asks for what cannot be undone.
_NO_COMPLAINT = re.compile(
    r"\b(?:good|nice|great|perfect|glad|happy|luck\w*|fortunate\w*|thank\w*|thx|cheers|phew|relie\w*|correct\w*|right"
    r"|exactly|fine|cool|well\s+done|at\s+least|as\s+(?:i|we)|like\s+(?:i|we)|better|best|love\w*|hope\w*|sure"
    r"|delet\w*|remov\w*|drop\w*|overwr\w*|eras\w*|reset\w*|wip\w+|disabl\w*|skip\w*|forc\w+|instal\w*|publish\w*"
    r"|push\w*|deploy\w*|merg\w*|destroy\w*|break\w*|broke|touch\w*|los[et]\w*|kill\w*|upload\w*|shar\w+|purg\w*"
    r"|sen[dt]\w*|e?mail\w*|pa(?:y|id)\w*|charg\w*|truncat\w*|clear\w*|releas\w*|spen[dt]\w*|buy\w*|bought|order\w*"
    r"|forbid\w*|forbad\w*|allow\w*|permit\w*|prohibit\w*|illegal|polic(?:y|ies)|privacy|secrets?|passwords?)\b",
    re.I,
)
_UNINFLECTED = frozenset(("https",))
"""Words that only look like an inflection of another one."""
_ENDINGS = ("s", "es", "ed", "d", "ing", "ly", "n", "en", "r")
_BEFORE_LETTER: dict[str, str | tuple[str, ...]] = {"d": "e", "r": "e", "n": ("e", "w")}
"""What stands before an ending of one letter."""


class TypedSentence(NamedTuple):
    """A sentence that a person typed.

    It licenses no use if it asks about a deed, is ironic or reports others' words. A complaint that the agent left
    something out ("you didn't read the old ones") asks for it, in ordinary words only.
    """

    text: str
    is_licensing: bool
    is_complaint: bool = False


def remove_quotations(text: str) -> str:
    """Return a text with its longer quotations, of four words or more, replaced by an ellipsis."""
    return _QUOTED.sub("“…”", text)


def is_limited(turn: str, quote: str) -> bool:
    """Return whether the sentence of a turn with a quote limits itself to the moment: "for this demo only, …"."""
    wanted = " ".join(quote.split()).casefold().rstrip(" .!?")
    for sentence in read_turn(turn):
        text = " ".join(sentence.text.split()).casefold()
        if wanted in text and _LIMIT.search(text) and not _GENERAL.search(text):
            return True
    return False


def remove_announced(text: str) -> str:
    """Return a text without the passages that a line with a colon at its end announces, as far as others wrote them.

    A list, and a single line, are what the person asks for, unless the line reports what somebody says.
    """
    own: list[str] = []
    lines = text.splitlines()
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        own.append(line)
        if not line.rstrip().endswith((":", "：")):
            continue
        start = next((place for place in range(number, len(lines)) if lines[place].strip()), len(lines))
        end = next((place for place in range(start, len(lines)) if not lines[place].strip()), len(lines))
        is_persons = end - start < 2 or all(_LIST_ITEM.match(item) for item in lines[start:end])
        if _REPORT.search(line) or not is_persons:
            number = end
    return "\n".join(own)


@lru_cache(maxsize=256)
def read_turn(turn: str) -> tuple[TypedSentence, ...]:
    """Return the sentences of a turn, without longer quotations."""
    own = _QUOTED.sub(" ", _DIFF.sub("", turn))
    sentences: list[TypedSentence] = []
    may_complain = not _NO_COMPLAINT.search(own) and not is_ironic(own)
    for match in _SENTENCE.finditer(own):
        for sentence in _read_sentence(match[0]):
            sentences += _split_complaint(sentence) if may_complain else [sentence]
    return tuple(sentences)


def _split_complaint(sentence: TypedSentence) -> list[TypedSentence]:
    """Return a sentence as its first clause and the rest if that clause complains about an omission."""
    clause, sign, rest = sentence.text.partition(",")
    # "You didn't change it, did you?" hopes so.
    is_asking = _ASKING_END.search(sentence.text) is not None
    if is_asking or _REPORT.search(clause) or not _OMISSION.search(clause):
        return [sentence]
    first = TypedSentence(clause, sentence.is_licensing, is_complaint=True)
    return [first, sentence._replace(text=rest)] if sign else [first]


def _read_sentence(text: str) -> list[TypedSentence]:
    """Return a sentence; a question that requests something in two parts, of which only the request licenses."""
    if _REPORT.search(text) or is_ironic(text):
        return [TypedSentence(text, is_licensing=False)]
    deed = _AGENT_DEED.search(text)
    if deed is not None:
        # "You used npm again, use pnpm": what follows the complaint is the person's wish.
        following = _CLAUSE.search(text, deed.end())
        if following is None:
            return [TypedSentence(text, is_licensing=False)]
        complaint, wish = text[: following.start()], text[following.end() :]
        return [TypedSentence(complaint, is_licensing=False), *_read_sentence(wish)]
    is_asking = _ASKING_END.search(text) is not None or _DEED.match(text) is not None
    if not is_asking:
        return [TypedSentence(text, is_licensing=True)]
    request = _REQUEST.search(text)
    if request is None:
        return [TypedSentence(text, is_licensing=False)]
    before, asked = text[: request.start()], text[request.start() :]
    return [TypedSentence(before, is_licensing=False), TypedSentence(asked, is_licensing=True)]


def split_rejection(before: str) -> str | None:
    """Return what stands before the words that reject what follows, as in "without npm"; None if there are none."""
    rejection = _REJECTION.search(before)
    return None if rejection is None else before[: rejection.start()]


def is_dismissed(after: str) -> bool:
    """Return whether the words after a word speak against it, as in "npm is too slow"."""
    return _DISMISSAL.match(after) is not None


@lru_cache(maxsize=1)
def _load_ordinary() -> frozenset[str]:
    words: set[str] = set()
    for name in ("ordinary_words.txt", "function_words.txt"):
        with open(os.path.join(os.path.dirname(__file__), name), encoding="utf-8") as file:
            words.update(file.read().split())
    return frozenset(words) | COMMON | STOP


def is_ordinary(word: str) -> bool:
    """Return whether a word, or what it is an inflection of, is ordinary in English or in programming, or grammar."""
    return not _load_ordinary().isdisjoint(list_bases(word))


def is_inflected(first: str, second: str) -> bool:
    """Return whether two words are inflections of the same word: "tests" and "testing", not "black" and "blackened"."""
    return not list_bases(first).isdisjoint(list_bases(second))


@lru_cache(maxsize=4096)
def list_bases(word: str) -> frozenset[str]:
    """Return a word and what it may be an inflection of."""
    bases = {word}
    if word in _UNINFLECTED:
        return frozenset(bases)
    for ending in _ENDINGS:
        root = word.removesuffix(ending)
        if root == word or len(root) < 3:
            continue
        # "Used", "given" and "known", but not "helperd": that is a name.
        if not root.endswith(_BEFORE_LETTER.get(ending, "")):
            continue
        bases.add(root)
        if ending in ("ed", "ing"):
            bases.add(root + "e")
            if root[-1] == root[-2]:
                bases.add(root[:-1])
        if ending in ("es", "ed") and root.endswith("i"):
            bases.add(root[:-1] + "y")
    return frozenset(bases)
