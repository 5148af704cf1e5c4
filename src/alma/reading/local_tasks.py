"""Splits a request into tasks by its structure: list items, headed sections, imperative sentences and "then".

Lists and sections are read in any language, sentences in English. Code blocks and quoted lines are never read; they
stay in the description of the task before them. A request without visible structure is one task.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import pairwise

from .local import join_longest_first, load_vocabulary, match_any
from .port import Task, TaskPlan

_words = partial(load_vocabulary, "tasks.json")
_find = partial(match_any, "tasks.json")
_SECTIONS = ("constraint", "background")
_MAX_TASKS = 100
_MAX_CHARS = 100_000
_TITLE_CHARS = 100
_SENTENCE_CHARS = 2_000
_DESCRIPTION_CHARS = 20_000
_FENCE = re.compile(r"\s*(```|~~~)")
_HEADING = re.compile(r"#{1,6}\s+(.+)|\*\*([^*]+)\*\*:?\s*$|([^.!?]{1,80})[:：]\s*$")
_ITEM = re.compile(
    r"(\s*)(?:[-*•·–+](?=\s)|\(?(?:\d{1,3}|[a-zA-Z])[.)](?=\s)|[①-⑳]|\d{1,3}[、．]|TODO:?|(?=\[[ xX]\]))\s*"
    r"(?:\[([ xX])\]\s*)?(.+)"
)
_INLINE_ITEM = re.compile(r"(?<=\S)\s+(?=\(?[2-9]\)\s)")
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+|(?<=[。！？])|\n+")
_LITERAL = re.compile(r"`[^`]*`|\"[^\"]*\"|“[^”]*”|\([^()]*\)")
_WORD = re.compile(r"\w[\w'-]*")
_NO_VERBS = frozenset(
    "about after against also as at before behind beside between by during for from if in inside into of on only onto "
    "or over than through to under until up when where while with within without not even just maybe is was".split()
)


@dataclass
class _Draft:
    title: str
    lines: list[str] = field(default_factory=list)
    after: tuple[int, ...] = ()


def plan_tasks(prompt: str) -> TaskPlan:
    """Return the tasks of a request in the order of the text, and what it forbids or demands of all of them."""
    text = prompt[:_MAX_CHARS].replace("’", "'").strip()
    parser = _Parser()
    for line in _INLINE_ITEM.sub("\n", text).splitlines():
        parser.read_line(line.rstrip())
    parser.close_section()
    # Sections are tasks where nothing in them asks for one.
    drafts = parser.tasks or (parser.sections if len(parser.sections) > 1 else [])
    if not drafts and not parser.constraints and _WORD.search(text):
        drafts = [_Draft(text, [text])]
    if len(drafts) > _MAX_TASKS:
        rest = drafts[_MAX_TASKS - 1 :]
        lines = [f"- {line}" for draft in rest for line in draft.lines]
        drafts = [*drafts[: _MAX_TASKS - 1], _Draft(f"The remaining {len(rest)} points of the request", lines)]
    tasks = [Task(_make_title(one.title), "\n".join(one.lines)[:_DESCRIPTION_CHARS], one.after) for one in drafts]
    return TaskPlan(tuple(tasks), tuple(dict.fromkeys(parser.constraints)))


class _Parser:
    """Reads a request line by line. `_section` is the kind of the last heading: task, constraint or background.

    A line that ends with a colon is a heading for the list below it. Without a list it is a task where it asks for one.
    """

    def __init__(self) -> None:
        self.tasks: list[_Draft] = []
        self.sections: list[_Draft] = []
        self.constraints: list[str] = []
        self._background: list[str] = []
        self._in_fence = False
        self._indent = -1
        self._start_section("")

    def read_line(self, line: str) -> None:
        is_fence = _FENCE.match(line) is not None
        self._in_fence ^= is_fence
        if self._in_fence or is_fence or line.lstrip().startswith(">"):
            self._settle_lead()
            self._add_background(line)
        elif item := _ITEM.match(line):
            self._lead = ""
            self._read_item(len(item[1].expandtabs(4)), item[3], is_done=item[2] in ("x", "X"))
        elif line.strip() and line[0].isspace() and self._indent >= 0:
            self._add_background(line.strip())
        elif heading := _HEADING.match(line):
            self.close_section()
            self._start_section((heading[1] or heading[2] or heading[3]).strip(), is_lead=heading[3] is not None)
        elif line.strip():
            self._settle_lead()
            if self._indent >= 0 and self._is_lead:
                self._start_section("")
            self._indent = -1
            self._read_paragraph(line.strip())

    def close_section(self) -> None:
        self._settle_lead()
        if self._section == "task" and _WORD.search(self._heading) and self._body:
            self.sections.append(_Draft(self._heading, self._body))

    def _start_section(self, heading: str, *, is_lead: bool = False) -> None:
        self._heading, self._is_lead, self._body = heading, is_lead, list[str]()
        self._section = next((kind for kind in _SECTIONS if _find(f"{kind}_headings").match(heading)), "task")
        self._lead = heading if is_lead and self._section == "task" and any(_split_tasks(heading)) else ""
        self._is_ordered = bool(_find("in_order").search(heading))
        self._first, self._indent, self._is_group = len(self.tasks), -1, False

    def _settle_lead(self) -> None:
        for title, order in list(_split_tasks(self._lead)) if self._lead else ():
            self._add_task(self._lead, title, order)
        self._lead = ""

    def _read_item(self, indent: int, text: str, *, is_done: bool) -> None:
        is_nested = 0 <= self._indent < indent
        if self._section == "background" or (is_nested and not self._is_group and self._section == "task"):
            self._add_background(f"- {text}")
        elif self._section == "constraint" or _is_constraint(text):
            self.constraints.append(text)
        elif text.endswith((":", "：")):
            self._indent, self._is_group = indent, True
            return
        elif not is_done:
            self._add_task(text, *_read_opener(text))
        if not is_nested:
            self._indent, self._is_group = indent, False

    def _read_paragraph(self, text: str) -> None:
        for sentence in _SENTENCE_END.split(text):
            if self._section == "constraint" or _is_constraint(sentence, is_sentence=True):
                self.constraints.append(sentence.strip().rstrip("."))
                continue
            request, _, forbidden = sentence.partition(", but ")
            if forbidden and _is_constraint(forbidden):
                self.constraints.append(forbidden.strip().rstrip("."))
                sentence = request
            tasks = list(_split_tasks(sentence)) if self._section == "task" else []
            for title, order in tasks:
                self._add_task(sentence, title, order)
            if not tasks:
                self._add_background(sentence)
                self._body.append(sentence)

    def _add_task(self, line: str, title: str, order: str) -> None:
        if not _WORD.search(title):
            self._add_background(line)
            return
        number = len(self.tasks)
        previous = range(number) if order == "last" else range(max(0, number - 1), number)
        is_after = bool(order) or (self._is_ordered and number > self._first)
        self.tasks.append(_Draft(title, [*self._background, line.strip()], tuple(previous) if is_after else ()))
        self._background = []

    def _add_background(self, line: str) -> None:
        (self.tasks[-1].lines if self.tasks else self._background).append(line)


def _split_tasks(sentence: str) -> Iterator[tuple[str, str]]:
    """Yield the title and order of each task of a sentence; nothing where it asks for nothing."""
    text, order = _read_opener(sentence)
    is_question = text.rstrip().endswith("?")
    if not _starts_with_verb(text):
        if is_question and order == "" and len(text.split()) > 3:
            yield text, ""
        return
    if len(text) > _SENTENCE_CHARS:
        yield text, order
        return
    masked = _LITERAL.sub(lambda match: "_" * len(match[0]), text)
    start = 0
    for match in re.finditer(r"[,;]?\s+(?:and\s+)?then\s+|[,;]\s+(?:and\s+)?|\s+and\s+", masked):
        if _is_boundary(masked, start, match):
            yield text[start : match.start()], order
            start, order = match.end(), "follow" if "then" in match[0] else ""
    yield text[start:].rstrip("?") if is_question else text[start:], order


def _is_boundary(masked: str, start: int, match: re.Match[str]) -> bool:
    """Return whether a new task begins after a comma, "and" or "then" between two clauses."""
    before, after = _WORD.findall(masked[start : match.start()].lower()), _WORD.findall(masked[match.end() :].lower())
    if "then" in match[0] and len(after) > 1 and after[1] in _words("determiners"):
        # "…, then mend the selectors": a word before "the" that is no verb we know, and no preposition.
        return after[0] not in _words("determiners") and after[0] not in _NO_VERBS
    if not after or after[0] not in _words("verbs"):
        return False
    if "then" in match[0] or ";" in match[0]:
        return True
    if not before or before[-1] in _words("verbs") or (len(after) > 1 and after[1] in ("and", "or")):
        return False
    # "a script to read and print", "a form that lets users log in and …": the verb belongs to the inner clause.
    if any(word in ("that", "which", "who", "if", "when") for word in before) or any(
        first == "to" and second in _words("verbs") for first, second in pairwise(before)
    ):
        return False
    return "," in match[0] or len(after) == 1 or after[1] in _words("determiners") or after[1].startswith("_")


def _read_opener(text: str) -> tuple[str, str]:
    """Strip "please", "could you", "then" from the start; return the rest, and "follow" or "last" for its order."""
    order, text = "", text.strip()
    while match := _opener().match(text):
        order = match.lastgroup if match.lastgroup in ("follow", "last") else order
        text = text[match.end() :]
    return text, order


@lru_cache(maxsize=1)
def _opener() -> re.Pattern[str]:
    groups = (f"(?P<{one}>{join_longest_first(_words(one))})" for one in ("follow", "last", "openers"))
    return re.compile(rf"(?:{'|'.join(groups)})(?:[,!.:]?\s+|(?<=:))(?=\S)", re.IGNORECASE)


def _starts_with_verb(text: str) -> bool:
    first = _WORD.match(text.lower())
    return first is not None and first[0] in _words("verbs")


def _is_constraint(text: str, *, is_sentence: bool = False) -> bool:
    text, _ = _read_opener(text)
    if _find("constraint").match(text) or text.startswith(tuple(_words("constraint_unspaced"))):
        return True
    return is_sentence and not _starts_with_verb(text) and bool(_find("constraint_inside").search(text))


def _make_title(text: str) -> str:
    """Return the first sentence that has a word, as one line."""
    sentence = next((one for one in _SENTENCE_END.split(text) if _WORD.search(one)), text)
    line = " ".join(sentence.split()).rstrip(".;,:")
    line = line[:1].upper() + line[1:]
    return line if len(line) <= _TITLE_CHARS else line[: _TITLE_CHARS - 1].rstrip() + "…"
