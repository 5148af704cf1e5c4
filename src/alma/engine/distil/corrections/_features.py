"""What a turn looks like to the detector: general traits of how it is said, never which words it is about."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ...text import STOP, stem, words
from ._cues import Said, Sentence, hear
from ._own import Own, own_words

_NAME = re.compile(
    r"`[^`\n]+`|(?<!\w)--?[a-z][\w-]+|\b[\w-]+\.[a-z]{1,4}\b|\b\w+[/\\]\w+|\b[a-z]+_\w+\b|\b[a-z]+[A-Z]\w+\b"
)
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_NUMBERED = re.compile(r"^\s*(?:\d{1,2}|[a-h])[.)]\s", re.M)
_INLINE_NUMBERED = re.compile(r"(?:^|\s)(?:1|a)[.)]\s.*?\s(?:2|b)[.)]\s", re.S)
_SHOUTED = re.compile(r"\b[A-Z]{2,}(?:'[A-Z]+)?\b")
_ASKS_BACK = re.compile(r"[?？]\s*+[\"')*_`]*+\s*+$")
_DONE = re.compile(
    r"\b(?:i(?:'ve| have)?|we(?:'ve)?) (?:now |also |just )?(?:added|updated|changed|fixed|created"
    r"|made|removed|moved|implemented|"
    r"refactored|replaced|set|modified|renamed|committed|deployed|installed|ran|edited|put|used)\b"
    r"|\b(?:should|will) now\b|"
    r"\b(?:done|complete[d]?|fixed|installed)\b|已|готов|исправл",
    re.I,
)
_ACTS = re.compile(r"tool use|\[code\]|```|cancelled|^\$ ", re.I | re.M)
_REQUEST_END = re.compile(
    r"\b(?:please (?:try|test|check|refresh|restart|run|let me know)|try (?:it|again)|let me know)\b", re.I
)
_TAIL = 400
# Said of the thing to be made, these ask nothing of the agent: "a button that never closes".
_ABOUT_THINGS = frozenset(
    "never always should should_be should_not forbid_any instead instead_of only not_contrast unneeded".split()
)
_STRONG = frozenset(
    "forbid always_do stop_doing from_now remember instead_of not_contrast prefer dislike told meant we_use ask_first "
    "you_should you_keep no_thing avoid".split()
)
_PUTS_RIGHT = frozenset("wrong bad revert too unneeded you_err told meant dislike why_you already you_keep".split())


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn as it was read: everything the parts of a reading are made from."""

    own: Own
    said: Said
    before: str


def turn(user: str, before: str) -> Turn:
    own = own_words(user)
    return Turn(own, hear(own.text), before)


def features(read: Turn) -> dict[str, float]:
    """Named numbers between 0 and 1; what is absent is 0."""
    found: dict[str, float] = {}
    _of_sentences(read.said, found)
    _of_shape(read, found)
    _of_before(read, found)
    _of_pairs(found)
    return found


def _of_sentences(said: Said, found: dict[str, float]) -> None:
    questions = 0
    for number, one in enumerate(said.sentences):
        asks = is_question(one.text, one.cues)
        questions += asks
        making = "task_first" in one.cues or ("relative" in one.cues and "want" in one.cues)
        telling = "says" in one.cues and "told" not in one.cues and "remember" not in one.cues
        for cue in one.cues:
            if telling and (cue in _STRONG or cue in _ABOUT_THINGS):
                found["told_text"] = 1.0
            elif making and cue in _ABOUT_THINGS:
                found["about_thing"] = 1.0
            elif asks and cue in _STRONG:
                found[f"{cue}_asked"] = 1.0
            else:
                found[cue] = 1.0
            if number == 0 and cue in _FIRST:
                found[f"{cue}_first"] = 1.0
    total = len(said.sentences) or 1
    found["questions"] = questions / total
    if said.sentences:
        found["ends_asking"] = float(is_question(said.sentences[-1].text, said.sentences[-1].cues))
        found["begins_asking"] = float(is_question(said.sentences[0].text, said.sentences[0].cues))


def is_question(text: str, cues: frozenset[str]) -> bool:
    return text.rstrip("\"')”»* ")[-1:] in ("?", "？") or "question" in cues


def _of_shape(read: Turn, found: dict[str, float]) -> None:
    text, sentences = read.own.text, read.said.sentences
    size = len(words(text)) + len(_CJK.findall(text)) * 0.5
    for name, least, most in _SIZES:
        if least <= size < most:
            found[name] = 1.0
    found["sentences"] = min(1.0, len(sentences) / 6)
    found["pasted"] = read.own.pasted
    found["printed"] = min(1.0, read.own.printed / 3)
    found["fenced"] = float(read.own.fenced)
    found["names"] = min(1.0, len(_NAME.findall(text)) / 3)
    found["mentions_file"] = float("@" in text)
    found["shouts"] = min(1.0, len(_SHOUTED.findall(text)) / 3) if text.upper() != text else 0.0
    found["exclaims"] = float("!" in text)
    found["trails_off"] = float("..." in text or "…" in text)
    found["bullets"] = min(1.0, sum(one.bulleted for one in sentences) / 4)
    found["foreign"] = float(read.said.tongue != "en")
    numbered = len(_NUMBERED.findall(text))
    found["numbered"] = float(numbered >= 2 or bool(_INLINE_NUMBERED.search(text)))
    found["one_clause"] = float(len(sentences) == 1 and "," not in text and "，" not in text)
    found["plain_rule"] = float(bool(sentences) and all(_is_order(one) for one in sentences))
    found["plain_question"] = float(bool(sentences) and all(is_question(one.text, one.cues) for one in sentences))
    puts = sum(cue in found for cue in _PUTS_RIGHT)
    found["puts_right"] = min(1.0, puts / 3)
    found["strong"] = min(1.0, sum(cue in found for cue in _STRONG) / 3)


def reach_features(read: Turn, found: Mapping[str, float]) -> dict[str, float]:
    """The same, and what bears on how far a rule goes, gathered from several cues each."""
    gathered = {f"{name}*": max(found.get(cue, 0.0) for cue in cues) for name, cues in _GATHERED.items()}
    return {**found, **gathered, "this*": float(bool(_THIS.search(read.own.text)))}


_THIS = re.compile(
    r"\b(?:don't|do not|not|just|use|put|make|change|revert|undo|move|in|is|like|need|want|delete|remove) "
    r"(?:this|that|it|these|those|them)\b|^(?:that|this|it|the) ",
    re.I,
)
_GATHERED = {
    name: tuple(cues.split())
    for name, cues in {
        "lasting": "from_now remember always always_do never",
        "vow": "always_do from_now remember never",
        "team": "we_use place",
        "habit": "you_keep stop_doing",
        "conduct": "agent_way ask_first",
        "ban": "forbid no_thing avoid",
        "taste": "prefer dislike",
        "shape": "should_be should_not in_there only you_should",
        "choice": "not_contrast instead_of",
        "meant": "meant told",
        "wrong": "wrong you_err why_you bad",
        "later": "session not_yet this_session",
        "use": "use keep_to",
        "fails": "fails still",
        "brief": "one_word few_words",
        "lengthy": "long very_long",
    }.items()
}


def _is_order(one: Sentence) -> bool:
    """An order about how to work, and nothing else in the sentence that asks for something to be made."""
    made = "task_first" in one.cues or "says" in one.cues
    return bool(one.cues & _VOWS) and not made and not is_question(one.text, one.cues)


_VOWS = frozenset(
    "forbid always_do stop_doing from_now remember prefer you_should we_use place avoid ask_first no_thing "
    "instead_of not_contrast when_rule this_session".split()
)
_SIZES = (("one_word", 0, 2), ("few_words", 2, 5), ("short", 5, 12), ("middling", 12, 30), ("long", 30, 60),
          ("very_long", 60, 1 << 30))  # fmt: skip


def _of_before(read: Turn, found: dict[str, float]) -> None:
    tail = read.before[-_TAIL:].strip()
    if not tail:
        return
    found["asked_back"] = float(bool(_ASKS_BACK.search(tail)))
    found["asked_list"] = float(read.before.count("?") >= 3 and len(_NUMBERED.findall(read.before)) >= 2)
    found["was_done"] = float(bool(_DONE.search(tail)))
    found["acted"] = float(bool(_ACTS.search(tail)))
    found["asked_to_try"] = float(bool(_REQUEST_END.search(tail)))
    own = {stem(word) for word in words(read.own.text) if word not in STOP and len(word) > 2}
    if own:
        known = {stem(word) for word in words(read.before[-2000:])}
        share = len(own & known) / len(own)
        found["overlap"] = share
        found["new_words"] = float(share == 0)


def _of_pairs(found: dict[str, float]) -> None:
    for name, parts in _PAIRS.items():
        value = 1.0
        for part in parts:
            value *= 1 - found.get(part[1:], 0.0) if part[0] == "-" else found.get(part, 0.0)
        if value:
            found[name] = value


_PAIRS = {
    "refuse+fails": ("refuse", "fails"),
    "refuse+asked_back": ("refuse", "asked_back"),
    "refuse+task": ("refuse", "task"),
    "refuse+alone": ("refuse", "few_words"),
    "refuse+says": ("refuse", "-fails", "-still", "-approve"),
    "refuse+just": ("refuse", "just"),
    "refuse+request": ("refuse", "request"),
    "approve+always": ("approve", "always"),
    "should+also": ("should", "also"),
    "fails+still": ("fails", "still"),
    "fails+alone": ("fails", "-puts_right", "-strong"),
    "i_see+fails": ("i_see", "fails"),
    "task+plain": ("task_first", "-puts_right", "-strong"),
    "task+revert": ("task", "revert"),
    "task+forbid": ("task_first", "forbid"),
    "forbid+short": ("forbid", "short"),
    "forbid+long": ("forbid", "very_long"),
    "use+instead": ("use", "instead_of"),
    "use+contrast": ("use", "not_contrast"),
    "use+place": ("use", "place"),
    "should_be+contrast": ("should_be", "not_contrast"),
    "you_err+fails": ("you_err", "fails"),
    "want+not": ("want", "dislike"),
    "approve+task": ("approve", "task"),
    "approve+forbid": ("approve", "forbid"),
    "approve+alone": ("approve", "-task", "-strong", "-puts_right"),
    "asks+puts_right": ("questions", "puts_right"),
    "asks+plain": ("questions", "-puts_right", "-strong"),
    "numbered+asked": ("numbered", "asked_list"),
    "fact+done": ("is_fact", "was_done"),
    "fact+acted": ("is_fact", "acted"),
    "still+too": ("still", "too"),
    "nothing": ("-strong", "-puts_right", "-refuse", "-should", "-always", "-never", "-forbid"),
    "long+plain": ("very_long", "-puts_right"),
    "review+long": ("review", "very_long"),
}
_FIRST = frozenset(
    "refuse forbid task_first question use always_do stop_doing not_contrast approve told wrong revert dislike should "
    "is_fact already unneeded keep_to".split()
)
