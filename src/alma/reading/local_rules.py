"""Finds the rules that a person states in an explicit form, in eight languages. The forms are in rule_forms.toml.

A rule is sure when the person typed one plain line of at most two sentences that is nothing but a lead-in ("no,",
"please"), an explicit form and perhaps a reason, without a hedge. "Never", "always", "we use X, not Y", "from now on"
and "no, use X instead of Y" are enough by themselves; "use X instead of Y", "don't …" and "stop adding …" need a
reason, "we" or "in this repo" beside them. A sentence with "never" or "always" is sure inside a longer message, too.
Any other form, or a turn that rejects what the assistant did, gives a candidate.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from ..types.kinds import Reach
from .local import cut_at_output, remove_pasted
from .port import Comparer, Pair, Role, RuleProposal, SpokenTurn, StoredText, Verdict

_LINE_CHARS = 200
_OWN_CHARS = 600
_SENTENCES = 6
_SURE_SENTENCES = 2
_NAME_WORDS = 3
_SHORT_WORDS = 2
_SHORT_CHARS = 3
_FORMS = ("lasting", "habit", "choice", "plain")
_EXPLICIT = ("lasting", "order", "policy")
"""The forms that say themselves that they hold beyond one case."""
_SCOPES = {"always": Reach.ALWAYS, "session": Reach.SESSION, "once": Reach.ONCE, "project": Reach.PROJECT}
_SENTENCE = re.compile(r"(?<=[.!;])\s+|(?<=[。！；])\s*|\n+")
_SPACE = re.compile(r"\s+")
_EDGE = " \t,.;:!?、，。！；：-–—"
_CODE = re.compile(r"[^\w'-]|\w[A-Z_\d]|^\W*(?:npm|pnpm|yarn|git|pip|uv)$")
_QUESTION = re.compile(r"[?？]\s*$")


@dataclass(frozen=True, slots=True)
class _Statement:
    """A rule as one line states it. `form` is empty where the line only rejects something."""

    rule: str
    form: str = ""
    reach: Reach = Reach.ONCE
    trigger: str = ""
    reason: str = ""
    prefer: str = ""
    other: str = ""
    is_rejection: bool = False
    is_explained: bool = False
    """Whether it says "because", "we", "always" or "in this repo", rejects what it replaces, or gives a reason."""
    is_complete: bool = True  # Whether the line is nothing but the rule and its reason.


@dataclass(frozen=True)
class _Language:
    """The compiled forms of one language."""

    data: Mapping[str, Any]
    patterns: dict[str, re.Pattern[str]] = field(default_factory=dict)

    @cached_property
    def boundary(self) -> str:
        return str(self.data.get("boundary", r"\b"))

    def find(self, name: str, template: str, text: str, index: int = 0) -> re.Match[str] | None:
        """Search a text for the entry `name`, put into a template where it says <>."""
        key = f"{name} {index} {template}"
        if key not in self.patterns:
            entry: Any = self.data
            for part in name.split("."):
                entry = entry.get(part, "")
            entry = entry[index] if isinstance(entry, list) else entry
            pattern = self.expand(template.replace("<>", f"(?:{entry or '(?!)'})").replace("<b>", self.boundary))
            self.patterns[key] = re.compile(pattern, re.IGNORECASE)
        return self.patterns[key].search(text)

    def expand(self, pattern: str) -> str:
        """Replace each <name> by the entry of that name."""
        is_spaced = bool(self.boundary)
        phrase = r"\S+(?: \S+){0,5}?" if is_spaced else r"[A-Za-z\d@./+#`_-][A-Za-z\d@./+#`_ -]{0,40}?"
        names = {"x": phrase, "y": phrase, "name_x": r"[\w`@./+#-]+", "name_y": r"[\w`@./+#-]+"}
        for name, part in names.items():
            pattern = pattern.replace(f"<{name}>", f"(?P<{name[-1]}>{part})")
        for name, entry in self.data.items():
            if isinstance(entry, str) and f"<{name}>" in pattern:
                pattern = pattern.replace(f"<{name}>", f"(?:{self.expand(entry)})")
        return pattern

    def match_form(self, name: str, text: str) -> re.Match[str] | None:
        matches = (self.find(name, "^<>", text, index) for index in range(len(self.data[name])))
        return next((match for match in matches if match), None)

    def drop_lead(self, text: str) -> str:
        """Return a text without "no, please" or "that's wrong." at its start."""
        for name, mark in (("lead", "*"), ("reject", "+"), ("lead", "*")):
            match = self.find(name, rf"^(?:<><b>[,.!:;、，。！–—-]{mark}(?:\s+|$|(?<=[,.!:;、，。！]))?)+", text)
            text = text[match.end() :] if match else text
        return text

    def clean_name(self, text: str) -> str:
        """Return a phrase as a plain name of at most three words, or nothing."""
        words = text.strip(_EDGE).replace("`", "").split()
        while words and self.find("articles", "^<>$", words[0]):
            words = words[1:]
        is_name = 0 < len(words) <= _NAME_WORDS and not any(self.find("filler", "^<>$", word) for word in words)
        return " ".join(words).strip(_EDGE) if is_name else ""

    def read_choice(self, text: str) -> tuple[str, str]:
        """Return the two names of a plain choice: what is wanted, and what is not."""
        match = self.match_form("choice", text)
        names = (self.clean_name(match["x"]), self.clean_name(match["y"])) if match else ("", "")
        return names if all(names) else ("", "")


@lru_cache(maxsize=1)
def _load_languages() -> tuple[Mapping[str, re.Pattern[str]], tuple[_Language, ...]]:
    loaded = tomllib.loads(Path(__file__).with_name("rule_forms.toml").read_text(encoding="utf-8"))
    shared = {name: re.compile(pattern) for name, pattern in loaded.pop("shared").items()}
    return shared, tuple(_Language(data) for data in loaded.values())


def find_rules(turns: Sequence[SpokenTurn], known: Sequence[StoredText], comparer: Comparer) -> list[RuleProposal]:
    """Return at most one proposal for each turn of the user."""
    proposals = []
    for index, turn in enumerate(turns):
        proposal = read_turn(turn.text, index) if turn.role is Role.USER else None
        if proposal is None:
            continue
        relations = comparer.compare([Pair(one.text, proposal.rule) for one in known])
        same = next((one.id for one, relation in zip(known, relations, strict=True) if relation.is_same), "")
        proposals.append(proposal._replace(known=same, verdict=Verdict.SAME if same else Verdict.UNRELATED))
    return proposals


def read_turn(text: str, turn: int = 0) -> RuleProposal | None:
    """Return the rule that one turn states: a sure one if the whole turn does, else a candidate."""
    line = cut_at_output(text).strip()
    is_line = 0 < len(line) <= _LINE_CHARS and "\n" not in line
    statement = _read_line(line) if is_line else None
    if statement and statement.form and statement.is_complete and _is_typed_plainly(line):
        return _make_proposal(statement, turn, line, is_self_contained(statement.rule) and _is_meant_to_last(statement))
    proposals = []
    shared = _load_languages()[0]
    is_message = bool(shared["plain_chars"].fullmatch(text.strip())) and not shared["no_message"].search(text)
    for sentence in _split_own_sentences(text):
        statement = _read_line(sentence)
        if statement is not None:
            is_explicit = statement.form in ("lasting", "policy") and statement.is_complete
            is_sure = is_explicit and is_message and _is_typed_plainly(sentence)
            proposals.append(_make_proposal(statement, turn, sentence, is_sure and is_self_contained(statement.rule)))
    return max(proposals, key=lambda one: one.is_sure, default=None)


def word_rule(text: str) -> str:
    """Return a person's words as a rule, whether or not they have an explicit form."""
    proposal = read_turn(text)
    if proposal is not None:
        return proposal.rule
    english = _load_languages()[1][0]
    return _reword(english, english.drop_lead(text.strip())[:_OWN_CHARS], "")


def find_choice(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names that a note prefers and avoids, where it states a plain choice."""
    for sentence in (text[:_LINE_CHARS], *_split_own_sentences(text)):
        for language in _load_languages()[1]:
            prefer, other = language.read_choice(language.drop_lead(sentence.replace("’", "'")))
            if prefer:
                return (prefer,), _list_avoided(prefer, other)
    return (), ()


def _list_avoided(prefer: str, other: str) -> tuple[str, ...]:
    """Return what a choice forbids. "Use `npm test --run`, not `npm test`" does not forbid `npm test`."""
    is_part = set(other.lower().split()) <= set(prefer.lower().split())
    return () if is_part else (other,)


def is_self_contained(rule: str) -> bool:
    """Return whether a rule can be followed by somebody who does not know the conversation."""
    words = [word.strip(_EDGE) for word in rule[:_LINE_CHARS].split()]
    for language in _load_languages()[1]:
        starts = words[1:3] if language.boundary else [rule[:6]]
        template = "^<>$" if language.boundary else "<>"
        if any(language.find("pointing", template, start) for start in starts):
            return False
        if words and language.find("moment", "^<>$", words[0]):
            return False
    return len(words) > 1 or (not rule.isascii() and len(rule) > _SHORT_CHARS)


def is_worth_reading(text: str) -> bool:
    """Return whether a turn could teach a rule at all: the person's own words are more than two."""
    own = remove_pasted(text)
    return len(own.split()) > _SHORT_WORDS or (not own.isascii() and len(own) > 2 * _SHORT_CHARS)


def _make_proposal(statement: _Statement, turn: int, quote: str, is_sure: bool) -> RuleProposal:
    return RuleProposal(
        turn=turn,
        rule=statement.rule,
        reach=statement.reach,
        quote=quote,
        is_sure=is_sure,
        is_correction=statement.is_rejection or statement.form in ("habit", "plain", ""),
        trigger=statement.trigger,
        reason=statement.reason,
        prefer=(statement.prefer,) if statement.prefer else (),
        avoid=_list_avoided(statement.prefer, statement.other),
    )


def _is_typed_plainly(line: str) -> bool:
    """Return whether a line has only the characters of a typed sentence, and no hedge, irony or quotation."""
    shared, languages = _load_languages()
    if not shared["plain_chars"].fullmatch(line) or shared["set_off"].search(line):
        return False
    return not any(language.find("doubt", "<b><><b>", line.replace("’", "'")) for language in languages)


def _is_meant_to_last(statement: _Statement) -> bool:
    """Return whether a whole line of the form says in words that it goes beyond one case, or gives a reason."""
    return statement.form in _EXPLICIT or statement.is_explained or statement.reach is Reach.ONCE


def _split_own_sentences(text: str) -> Iterator[str]:
    """Yield the first sentences of the person's own words that are no questions."""
    own = remove_pasted(text)[:_OWN_CHARS]
    for sentence in [one.strip() for one in _SENTENCE.split(own) if one.strip()][:_SENTENCES]:
        if len(sentence) <= _LINE_CHARS and not _QUESTION.search(sentence):
            yield sentence


@lru_cache(maxsize=512)
def _read_line(line: str) -> _Statement | None:
    """Return what a line states in the first language that knows its form."""
    text = _SPACE.sub(" ", line.replace("’", "'")).strip()
    if _QUESTION.search(text):
        return None
    readings = []
    for language in _load_languages()[1]:
        reading = _read_in(language, text) if language.find("script", "<>", text) else None
        if reading is not None and reading.form:
            return reading
        readings.append(reading)
    return next(filter(None, readings), None)


def _read_in(language: _Language, text: str) -> _Statement | None:
    is_rejection = language.find("reject", "^<><b>", text) is not None
    core, reason = _split_reason(language, language.drop_lead(text))
    core, reach = _split_scope(language, core)
    clause = language.find("when", "^<>", core)
    core = language.drop_lead(core[clause.end() :].strip() if clause else core)
    form = next((name for name in _FORMS if language.match_form(name, core)), "")
    if not form and reach not in (None, Reach.ONCE) and language.match_form("order", core):
        form = "order"
    here = language.find("scope.here", "<b><><b>", text)
    is_stated_here = here is not None and (" " in here[0] or not language.boundary)
    if not form and is_stated_here and language.match_form("policy", _SENTENCE.split(core)[0]):
        form = "policy"
    if not core or not (form or is_rejection):
        return None
    prefer, other = language.read_choice(core)
    is_general = here or _is_general(language, form, core)
    return _Statement(
        rule=_reword(language, core.strip(_EDGE), f"{clause[0].strip()} " if clause else ""),
        form=form,
        reach=reach or (Reach.PROJECT if is_general and form else Reach.ONCE),
        trigger=re.sub("^when(?:ever)? ", "", clause[0].strip(_EDGE), flags=re.IGNORECASE) if clause else "",
        reason=reason,
        prefer=prefer,
        other=other,
        is_rejection=is_rejection,
        is_explained=here is not None
        or any(language.find(name, "<b><><b>", text) for name in ("because", "general"))
        or (is_rejection if form == "choice" else bool(reason and language.find("literal", "<>", core))),
        is_complete=sum(map(bool, _SENTENCE.split(f"{core} {reason}"))) <= _SURE_SENTENCES,
    )


def _split_reason(language: _Language, text: str) -> tuple[str, str]:
    """Split a text into what it asks for and the reason that it gives."""
    if match := language.find("reason_first", "<>", text):
        return match["rest"], match["reason"]
    for name, before, keeps_word in (("because", "*", False), ("otherwise", "*", True), ("aside", "+", True)):
        match = language.find(name, rf"(?<=.)[,;.(、，。–—-]{before} ?<b>(?P<word><>)<b>[\s,]*", text)
        if match:
            reason = text[match.start("word") if keeps_word else match.end() :]
            return text[: match.start()], reason.strip(_EDGE + "()")
    first, *more = _SENTENCE.split(text, maxsplit=1)
    is_more_of_rule = not more or any(language.match_form(name, more[0]) for name in (*_FORMS, "order"))
    if is_more_of_rule and not (more and language.find("reason_start", "^<><b>", more[0])):
        return text, ""
    return (text, "") if language.match_form("choice", text) else (first, more[0].strip(_EDGE))


def _split_scope(language: _Language, text: str) -> tuple[str, Reach | None]:
    """Take the words that say how far a rule goes out of a text."""
    chosen = None
    for name, reach in _SCOPES.items():
        match = language.find(f"scope.{name}", r"[\s,、，]*<b>(?P<words><>)<b>[\s,:、，]*", text)
        # "Rename it everywhere" and "stop adding comments everywhere" are not about every project.
        is_phrase = name != "always" or not language.boundary or (match and " " in match["words"])
        if match and (is_phrase or any(language.match_form(form, text) for form in ("lasting", "choice"))):
            text = f"{text[: match.start()]} {text[match.end() :]}".strip()
            chosen = chosen or reach
    match = language.find("scope.here", r"^<><b>[\s,:、，]*|[\s,]*<b><>(?=[\s.!。！]*$)", text)
    return (text[: match.start()] + text[match.end() :]).strip() if match else text, chosen


def _is_general(language: _Language, form: str, core: str) -> bool:
    """Return whether a rule without a stated scope is about more than the moment."""
    if form == "lasting":
        return True
    if language.find("pointing", "<b><><b>", core):
        return False
    if form != "choice":
        return form in ("habit", "plain")
    # "Use the red one instead of the blue one" and "8081, not 8080" are about one case.
    match = language.match_form("choice", core)
    if match is None:
        return False
    other, *more = re.split(r"[,.;] ", match["y"], maxsplit=1)
    # "Use X instead of Y. Y breaks the build": what follows is about the same two.
    is_continued = more and f"{more[0]} ".startswith((f"{match['x']} ", f"{other} "))
    return all(
        language.clean_name(side) and not side.strip(_EDGE).isdecimal() and not language.find("articles", "^<> ", side)
        for side in (match["x"], other if is_continued else match["y"])
    )


def _reword(language: _Language, core: str, clause: str) -> str:
    """Word a rule as an instruction: "we use X" becomes "Use X", "stop running X" becomes "Don't run X"."""
    for pattern, wording in language.data["reword"]:
        core = re.sub(language.expand(pattern), wording, core, count=1, flags=re.IGNORECASE)
    if match := re.match(r"stop (\w+ing)\b", core, re.IGNORECASE):
        base = _find_base(language, match[1].lower())
        core = (f"don't {base}" if base else f"avoid {match[1]}") + core[match.end() :]
    core = (clause if language.boundary else clause.strip()) + core
    is_code = _CODE.search(core.split(" ", 1)[0].strip(_EDGE)) or not language.boundary
    return core if is_code else core[:1].upper() + core[1:]


def _find_base(language: _Language, gerund: str) -> str:
    """Return the verb of "running", where it is one that the language data lists."""
    root = gerund[:-3]
    forms = (root, f"{root}e", root[:-1] if root[-1:] == root[-2:-1] else root)
    return next((form for form in forms if language.find("verb", "^<>$", form)), "")
