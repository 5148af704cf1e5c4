"""Which rules a prompt or a tool call has to do with. In doubt none: a rule that does not fit is worse than silence.

A rule fits when what it names (`pnpm`, `console.log`) stands there literally; when the sort of work it is about (a
commit, a migration) is named; or when several telling words of it are. Words that most texts have do not count.
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
"""So many words of a text are looked up."""
_READ = 6000
_LEAST_WORDS = 2
_SHARE = 0.4
_TRIGGER_SHARE = 0.6
_RARE = 0.3
"""A word weighs so much at least, however many rules hold it."""

# Letters and digits of ASCII stand alone, so that a name is found inside a text of another script.
_WORD = re.compile(r"[A-Za-z0-9]+|[^\W_A-Za-z0-9]+")
_SPLIT_CASE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def _stem_list(text: str) -> frozenset[str]:
    return frozenset(map(stem, text.split()))


def _read_pairs(text: str) -> dict[str, str]:
    return dict(pair.split("=") for pair in text.split())


# What people do all day in any repository: it tells no rule from another.
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
# A sort of work that a person names in one word, and words that say little of it alone.
_WORK = _stem_list(
    """commit push rebase merge branch release changelog deploy migration lint docker dockerfile
    kubernetes terraform snapshot fixture mock benchmark docstring readme license dependency lockfile
    translation i18n accessibility telemetry screenshot typecheck format pr review backport hotfix seed
    cron webhook oauth graphql protobuf storybook e2e"""
)
_VAGUE_WORK = _stem_list("test database api query schema docs comment type import style")
# Said of the same work, however it is said.
_SAME_WORK = {
    stem(word): stem(other)
    for word, other in _read_pairs(
        "migrate=migration deployment=deploy documentation=docs translate=translation releasing=release"
    ).items()
}
_EDITING = _stem_list("edit editing write touch change modify file folder")
"""What a tool that writes a file does, though its arguments do not say so."""
_LANGUAGES = _read_pairs(
    """ts=typescript tsx=typescript js=javascript jsx=javascript py=python rs=rust rb=ruby md=markdown
    yml=yaml tf=terraform kt=kotlin go=go sh=shell cs=csharp sql=sql"""
)
_ENOUGH = frozenset(map(stem, _LANGUAGES.values())) | _WORK
"""The words that alone may say when a rule applies."""
# A language by its file's ending; elsewhere a word like any other.
_ONLY_OF_FILES = frozenset(("go",))


class Occasion:
    """A prompt or a tool call, as a rule is compared with it."""

    __slots__ = ("content", "file", "is_command", "literal", "stems", "words")

    def __init__(self, text: str, *, is_command: bool = False, content: str = "", file: str = "") -> None:
        self.is_command = is_command
        self.file = file.lower()
        """The name of the file that a tool is about."""
        self.literal = f" {text.lower()} "
        self.content = content.lower()
        """What a tool is about to write: only what a rule avoids by name is looked for in it."""
        self.words = _list_words(_SPLIT_CASE.sub(" ", text))
        if "pr" in self.words:
            self.words += ["pull", "request"]
        self.stems = _stem_words(self.words) - (frozenset() if file else _ONLY_OF_FILES)
        if content:
            self.stems |= _EDITING


def read_prompt(text: str) -> Occasion:
    """A long prompt says what it is about at its start and at its end; between them it quotes."""
    return Occasion(text if len(text) <= _READ else f"{text[: _READ * 2 // 3]} {text[-_READ // 3 :]}")


def read_tool_call(tool: str, arguments: object, cwd: str = "") -> Occasion:
    """Return the command or the path of a tool call, and what is to be written."""
    pairs = arguments.items() if isinstance(arguments, dict) else ()
    texts = {name: value for name, value in pairs if isinstance(value, str)}
    if "command" in texts:
        return Occasion(f"{texts['command'][:_READ]} {texts.get('description', '')[:200]}", is_command=True)
    path = next((texts[name] for name in ("file_path", "notebook_path", "path") if name in texts), "")
    written = " ".join(texts[name][:_READ] for name in ("new_string", "content", "new_source") if name in texts)
    # The folders above are the same for every file, and tell nothing.
    path = path.removeprefix(cwd).replace("\\", "/")
    file = path.rpartition("/")[2]
    about = " ".join((path, _LANGUAGES.get(file.rpartition(".")[2].lower(), ""), texts.get("url", "")[:200]))
    named = tool.replace("__", " ").removeprefix("mcp ") if tool.startswith("mcp__") else ""
    return Occasion(f"{named} {about}", is_command=True, content=written, file=file)


def _list_words(text: str) -> list[str]:
    """Return the words that may tell rules apart, each once: those first that hardly any text has."""
    words = dict.fromkeys(word.lower() for word in _WORD.findall(text))
    return sorted((word for word in words if word not in STOP and len(word) > 1), key=lambda word: word in COMMON)


def _stem_words(words: Iterable[str]) -> frozenset[str]:
    return frozenset(_SAME_WORK.get(one, one) for one in map(stem, words))


def find_relevant(rules: ReadOnlyRules, occasion: Occasion, seen: set[str], most: int) -> list[StoredRule]:
    """Return at most so many rules that fit and were not seen yet, the best first."""
    asked = occasion.words[:WORDS]
    # Names in what is to be written.
    asked += [word for word in _list_words(occasion.content[:_READ]) if len(word) > 2][:WORDS]
    hits = {word: rules.find_numbers(word) for word in dict.fromkeys(asked)}
    total = max(rules.count(), 1)
    # A word tells all when one rule in many holds it, little when most do.
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
    fits = {rule: _score_fit(rule, occasion, weights) for rule in best if _is_due(rule, occasion, seen)}
    return sorted(filter(fits.get, fits), key=lambda rule: (-fits[rule], rule.id))[:most]


def _is_due(rule: StoredRule, occasion: Occasion, seen: set[str]) -> bool:
    """Return whether a rule may be shown: it is new to the context, or was broken before and is about to be again."""
    if rule.id not in seen:
        return True
    if not occasion.is_command or f"{rule.id}!" in seen or not rule.violations:
        return False
    # Nothing to remind of where the call does what the rule prefers and nothing of what it avoids.
    text = f"{occasion.literal} {occasion.content} "
    wanted = [name for name in map(str.lower, rule.names("prefer")) if mentions(text, name)]
    for name in wanted:
        text = text.replace(name, " ")
    return not wanted or any(mentions(text, name.lower()) for name in rule.names("avoid"))


def _score_fit(rule: StoredRule, occasion: Occasion, weights: Mapping[str, float]) -> float:
    """Return how well a rule fits; 0 when it does not."""
    own = _stem_words(_list_words(f"{rule.text('trigger')} {rule.text('rule')}"))
    shared = own & occasion.stems
    score = sum(weights.get(word, 0.0) for word in shared - _PLAIN)
    names = _count_names(rule, occasion)
    if names:
        return 2.0 + names + score
    # By the sort of work, by when it applies, or by several telling words.
    work, all_work = (len(words & _WORK) + len(words & _VAGUE_WORK) / 2 for words in (shared, own))
    if (
        (shared & _WORK and work > all_work / 2)
        # “dates or timestamps” are two times at which it applies.
        or any(_fits_trigger(part, occasion) for part in rule.text("trigger").split(" or "))
        or (len(shared - _PLAIN) >= _LEAST_WORDS and score >= _SHARE * len(own - _PLAIN))
    ):
        return score + 0.1
    return 0.0


def _fits_trigger(trigger: str, occasion: Occasion) -> bool:
    """Return whether most of what tells when a rule applies is there; all of it, where it has plain words only."""
    stems = _stem_words(_list_words(trigger))
    telling = stems - _PLAIN
    if len(telling) == 1 and telling.isdisjoint(_ENOUGH):
        return stems <= occasion.stems
    if telling:
        return len(telling & occasion.stems) >= _TRIGGER_SHARE * len(telling)
    return len(stems) >= _LEAST_WORDS and stems <= occasion.stems


def _count_names(rule: StoredRule, occasion: Occasion) -> int:
    """Return how many of the names that a rule prefers or avoids are mentioned."""
    names = avoided = {name.lower() for name in rule.names("avoid")}
    for name in rule.names("prefer"):
        # A person who names what the rule prefers needs no rule, but perhaps the options that go with it.
        if occasion.is_command or not name.isalpha():
            names = names | {name.lower().partition(" -")[0]}
    count = sum(mentions(occasion.literal, name) for name in names if _is_name(name, occasion.is_command))
    if occasion.is_command and rule.is_observation:
        # What failed once is told of by the command that did.
        count += mentions(occasion.literal, rule.text("trigger").removeprefix("running ").lower() or "\0")
    for name in avoided if occasion.content else ():
        # In code; a name that is a word like any other only where it is quoted, called or taken from.
        if _is_name(name, False):
            count += mentions(occasion.content, name)
        elif name not in STOP:
            count += any(part in occasion.content for part in (f"'{name}'", f'"{name}"', f"{name}(", f"{name}."))
    text, (_, dot, ending) = f"{rule.text('trigger')} {rule.text('rule')} ".lower(), occasion.file.rpartition(".")
    if dot:
        count += mentions(text, occasion.file) or (bool(ending) and f" .{ending} " in text)
    return count


def _is_name(name: str, in_command: bool) -> bool:
    """In a command `make` is a program; in a sentence it is a word like any other."""
    is_word = name.isalpha() and (name in STOP or (not in_command and stem(name) in _PLAIN))
    return len(name) > 1 and not is_word


def mentions(text: str, name: str) -> bool:
    """Return whether a name stands in a text, and not as a part of another one."""
    start = text.find(name)
    while start >= 0:
        before, after = text[start - 1 : start], text[start + len(name) : start + len(name) + 1]
        if not (before.isalnum() or before in ("_", "-", ".", "/")) and not (after.isalnum() or after in ("_", "-")):
            return True
        start = text.find(name, start + 1)
    return False
