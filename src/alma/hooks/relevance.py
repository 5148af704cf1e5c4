"""Find the rules that apply to a prompt or a tool call. If in doubt, none: a rule that does not fit does harm.

A rule fits if the text contains a name that the rule mentions (`pnpm`, `console.log`), the kind of work it is about
(a commit, a migration), or several of its distinctive words. Words that most texts contain do not count.
"""

from __future__ import annotations

import math
import re

from ..text import COMMON, STOP, stem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .inject import ReadOnlyRules, StoredRule

WORDS = 32
"""How many words of a text are looked up in the store."""
_READ = 6000
_LEAST_WORDS = 2
_SHARE = 0.4
_TRIGGER_SHARE = 0.6
_RARE = 0.3
"""The minimum weight of a word, however many rules contain it."""

# ASCII letters and digits form words of their own, so that a name is recognised inside a text of another script.
_WORD = re.compile(r"[A-Za-z0-9]+|[^\W_A-Za-z0-9]+")
_SPLIT_CASE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def _stem_list(text: str) -> frozenset[str]:
    return frozenset(map(stem, text.split()))


def _read_pairs(text: str) -> dict[str, str]:
    return dict(pair.split("=") for pair in text.split())


# Everyday words of any repository. They do not distinguish rules.
_EVERYDAY = _stem_list(
    """code file files folder function method class variable module package project repo repository app line lines
    error errors bug issue fix fixed update implement refactor feature value values data type types string return
    command commands script output input run running instead make makes ensure always never without default version
    users client server page button component library tool tools system config setting settings field fields object
    current existing implementation logic handle support explain look please thanks script call sure agent claude
    rule rules work working correct way directly separate single own edit editing write writing create creating
    open opening change date"""
)
_PLAIN = (frozenset(map(stem, COMMON)) | _EVERYDAY) - {"go"}
# Kinds of work that one word is enough to name, and words that are too vague on their own.
_WORK = _stem_list(
    """commit push rebase merge branch release changelog deploy migration lint docker dockerfile
    kubernetes terraform snapshot fixture mock benchmark docstring readme license dependency lockfile
    translation i18n accessibility telemetry screenshot typecheck format pr review backport hotfix seed
    cron webhook oauth graphql protobuf storybook e2e"""
)
_VAGUE_WORK = _stem_list("test database api query schema docs comment type import style")
# Different words for the same kind of work.
_SAME_WORK = {
    stem(word): stem(other)
    for word, other in _read_pairs(
        "migrate=migration deployment=deploy documentation=docs translate=translation releasing=release"
    ).items()
}
_EDITING = _stem_list("edit editing write touch change modify file folder")
"""Words for what a file-writing tool does, which its arguments do not contain."""
_LANGUAGES = _read_pairs(
    """ts=typescript tsx=typescript js=javascript jsx=javascript py=python rs=rust rb=ruby md=markdown
    yml=yaml tf=terraform kt=kotlin go=go sh=shell cs=csharp sql=sql"""
)
_ENOUGH = frozenset(map(stem, _LANGUAGES.values())) | _WORK
"""Words that are enough, each on its own, to state when a rule applies."""
# A language if it comes from a file's extension; elsewhere an ordinary word.
_ONLY_OF_FILES = frozenset(("go",))


class Occasion:
    """A prompt or a tool call, prepared for comparison with rules."""

    __slots__ = ("content", "file", "is_command", "literal", "stems", "words")

    def __init__(self, text: str, *, is_command: bool = False, content: str = "", file: str = "") -> None:
        self.is_command = is_command
        self.file = file.lower()
        """The name of the file that a tool works on."""
        self.literal = f" {text.lower()} "
        self.content = content.lower()
        """The text that a tool is about to write. Only names that a rule avoids are searched in it."""
        self.words = _list_words(_SPLIT_CASE.sub(" ", text))
        if "pr" in self.words:
            self.words += ["pull", "request"]
        self.stems = _stem_words(self.words) - (frozenset() if file else _ONLY_OF_FILES)
        if content:
            self.stems |= _EDITING


def read_prompt(text: str) -> Occasion:
    """Return a prompt for comparison. Of a long one, only the start and the end: the middle is mostly quoted text."""
    return Occasion(text if len(text) <= _READ else f"{text[: _READ * 2 // 3]} {text[-_READ // 3 :]}")


def read_tool_call(tool: str, arguments: object, cwd: str = "") -> Occasion:
    """Return a tool call for comparison: its command, or its path and the text to be written."""
    pairs = arguments.items() if isinstance(arguments, dict) else ()
    texts = {name: value for name, value in pairs if isinstance(value, str)}
    if "command" in texts:
        return Occasion(f"{texts['command'][:_READ]} {texts.get('description', '')[:200]}", is_command=True)
    path = next((texts[name] for name in ("file_path", "notebook_path", "path") if name in texts), "")
    content = " ".join(texts[name][:_READ] for name in ("new_string", "content", "new_source") if name in texts)
    # The parent folders are the same for every file and do not help.
    path = path.removeprefix(cwd).replace("\\", "/")
    file = path.rpartition("/")[2]
    about = " ".join((path, _LANGUAGES.get(file.rpartition(".")[2].lower(), ""), texts.get("url", "")[:200]))
    tool_words = tool.replace("__", " ").removeprefix("mcp ") if tool.startswith("mcp__") else ""
    return Occasion(f"{tool_words} {about}", is_command=True, content=content, file=file)


def _list_words(text: str) -> list[str]:
    """Return the words that may distinguish rules, each once, rare words first."""
    words = dict.fromkeys(word.lower() for word in _WORD.findall(text))
    return sorted((word for word in words if word not in STOP and len(word) > 1), key=lambda word: word in COMMON)


def _stem_words(words: Iterable[str]) -> frozenset[str]:
    return frozenset(_SAME_WORK.get(one, one) for one in map(stem, words))


def find_relevant(rules: ReadOnlyRules, occasion: Occasion, shown_ids: set[str], most: int) -> list[StoredRule]:
    """Return at most `most` rules that fit and are not in `shown_ids`, best first."""
    total = rules.count()
    if not total:
        return []
    words = occasion.words[:WORDS]
    # Names in the text that is to be written.
    words += [word for word in _list_words(occasion.content[:_READ]) if len(word) > 2][:WORDS]
    hits = {word: rules.find_numbers(word) for word in dict.fromkeys(words)}
    # The fewer rules contain a word, the more it weighs.
    weights = {
        stem(word): 1.0 if total < 10 else max(_RARE, 1.0 - math.log(len(numbers)) / math.log(total))
        for word, numbers in hits.items()
        if numbers
    }
    scores: dict[int, float] = {}
    for word, numbers in hits.items():
        for number in numbers:
            scores[number] = scores.get(number, 0.0) + weights[stem(word)] * (0.2 if word in COMMON else 1.0)
    best = rules.get_numbered(sorted(scores, key=lambda number: (-scores[number], -number)))
    fits = {rule: _score_fit(rule, occasion, weights) for rule in best if _is_due(rule, occasion, shown_ids)}
    return sorted(filter(fits.get, fits), key=lambda rule: (-fits[rule], rule.id))[:most]


def _is_due(rule: StoredRule, occasion: Occasion, shown_ids: set[str]) -> bool:
    """Return whether a rule may be shown: it is new to the context, or it was violated before and may be again."""
    if rule.id not in shown_ids:
        return True
    if not occasion.is_command or f"{rule.id}!" in shown_ids or not rule.violations:
        return False
    # No reminder is needed if the call does what the rule prefers and nothing that it avoids.
    text = f"{occasion.literal} {occasion.content} "
    preferred = [name for name in map(str.lower, rule.names("prefer")) if mentions_name(text, name)]
    for name in preferred:
        text = text.replace(name, " ")
    return not preferred or any(mentions_name(text, name.lower()) for name in rule.names("avoid"))


def _score_fit(rule: StoredRule, occasion: Occasion, weights: Mapping[str, float]) -> float:
    """Return how well a rule fits; 0 if it does not."""
    own = _stem_words(_list_words(f"{rule.text('trigger')} {rule.text('rule')}"))
    shared = own & occasion.stems
    score = sum(weights.get(word, 0.0) for word in shared - _PLAIN)
    names = _count_names(rule, occasion)
    if names:
        return 2.0 + names + score
    # By the kind of work, by when the rule applies, or by several distinctive words.
    work, all_work = (len(words & _WORK) + len(words & _VAGUE_WORK) / 2 for words in (shared, own))
    if (
        (shared & _WORK and work > all_work / 2)
        # A trigger such as “dates or timestamps” has two parts.
        or any(_fits_trigger(part, occasion) for part in rule.text("trigger").split(" or "))
        or (len(shared - _PLAIN) >= _LEAST_WORDS and score >= _SHARE * len(own - _PLAIN))
    ):
        return score + 0.1
    return 0.0


def _fits_trigger(trigger: str, occasion: Occasion) -> bool:
    """Return whether the text contains most distinctive words of a trigger; all its words if they are all common."""
    stems = _stem_words(_list_words(trigger))
    distinctive = stems - _PLAIN
    if len(distinctive) == 1 and distinctive.isdisjoint(_ENOUGH):
        return stems <= occasion.stems
    if distinctive:
        return len(distinctive & occasion.stems) >= _TRIGGER_SHARE * len(distinctive)
    return len(stems) >= _LEAST_WORDS and stems <= occasion.stems


def _count_names(rule: StoredRule, occasion: Occasion) -> int:
    """Return how many names that a rule prefers or avoids occur in the text."""
    names = avoided = {name.lower() for name in rule.names("avoid")}
    for name in rule.names("prefer"):
        # A person who types the preferred name needs no reminder, except of options that belong to it.
        if occasion.is_command or not name.isalpha():
            names = names | {name.lower().partition(" -")[0]}
    count = sum(mentions_name(occasion.literal, name) for name in names if _is_name(name, occasion.is_command))
    if occasion.is_command and rule.is_observation:
        # An observation applies to the command that failed.
        count += mentions_name(occasion.literal, rule.text("trigger").removeprefix("running ").lower() or "\0")
    for name in avoided if occasion.content else ():
        # In code, a name that is an ordinary word counts only if it is quoted, called or followed by a dot.
        if _is_name(name, False):
            count += mentions_name(occasion.content, name)
        elif name not in STOP:
            count += any(part in occasion.content for part in (f"'{name}'", f'"{name}"', f"{name}(", f"{name}."))
    text, (_, dot, ending) = f"{rule.text('trigger')} {rule.text('rule')} ".lower(), occasion.file.rpartition(".")
    if dot:
        count += mentions_name(text, occasion.file) or (bool(ending) and f" .{ending} " in text)
    return count


def _is_name(name: str, in_command: bool) -> bool:
    """Return whether a text is a name: `make` is one in a command, but an ordinary word in a sentence."""
    is_word = name.isalpha() and (name in STOP or (not in_command and stem(name) in _PLAIN))
    return len(name) > 1 and not is_word


def mentions_name(text: str, name: str) -> bool:
    """Return whether a text contains a name that is not part of another one."""
    start = text.find(name)
    while start >= 0:
        before, after = text[start - 1 : start], text[start + len(name) : start + len(name) + 1]
        if not (before.isalnum() or before in ("_", "-", ".", "/")) and not (after.isalnum() or after in ("_", "-")):
            return True
        start = text.find(name, start + 1)
    return False
