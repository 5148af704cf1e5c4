"""Which rules a prompt or a tool call has to do with. In doubt none: a rule that does not fit is worse than silence.

A rule fits when what it names (`pnpm`, `console.log`) stands there literally; when the sort of work it is about (a
commit, a migration) is named; or when several telling words of it are. What all texts share, they share in vain.
"""

from __future__ import annotations

import math
import re

from ..text import COMMON, STOP, stem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .glance import Glance, Rule

WORDS = 24
"""So many words of a text are looked up."""
_PLAIN_WORDS = 8
_READ = 6000
_LEAST_WORDS = 2
_SHARE = 0.4
_TRIGGER_SHARE = 0.6
_TOPIC_SHARE = 0.51
_RARE = 0.3
"""A word weighs so much at least, however many rules hold it."""

# Letters and digits of ASCII stand alone, so that a name is found inside a text of another script.
_WORD = re.compile(r"[A-Za-z0-9]+|[^\W_A-Za-z0-9]+")
_SPLIT_CASE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

# What people do all day in any repository: it tells no rule from another.
_EVERYDAY = frozenset(
    map(
        stem,
        """code file files folder function method class variable module package project repo repository app line lines
        error errors bug issue fix fixed update implement refactor feature value values data type types string return
        command commands script output input run running instead make makes ensure always never without default version
        users client server page button component library tool tools system config setting settings field fields object
        current existing implementation logic handle support explain look please thanks script call sure agent claude
        rule rules work working correct way directly separate single own edit editing write writing create creating
        open opening change date""".split(),
    )
)
_PLAIN = (frozenset(map(stem, COMMON)) | _EVERYDAY) - {"go"}
# A sort of work that a person names in one word. The second number: how little the word says alone.
_TOPICS = {
    stem(word): weight
    for weight, words in (
        (
            1.0,
            """commit push rebase merge branch release changelog deploy deployment migration migrate lint docker
            dockerfile kubernetes terraform snapshot fixture mock benchmark docstring readme license dependency lockfile
            translation i18n accessibility telemetry screenshot typecheck format pr review backport hotfix seed
            cron webhook oauth graphql protobuf storybook e2e""",
        ),
        (0.5, "test database api query schema documentation docs comment type import style"),
    )
    for word in words.split()
}
# Said of the same work, however it is said.
_SAME_WORK = {
    stem(word): stem(other)
    for word, other in (
        ("migrate", "migration"),
        ("deployment", "deploy"),
        ("documentation", "docs"),
        ("translate", "translation"),
        ("releasing", "release"),
    )
}
_EDITING = frozenset(map(stem, "edit editing write touch change modify file folder".split()))
"""What a tool that writes a file does, though its arguments do not say so."""
_LANGUAGES = {
    "ts": "typescript",
    "tsx": "typescript",
    "js": "javascript",
    "jsx": "javascript",
    "py": "python",
    "rs": "rust",
    "rb": "ruby",
    "md": "markdown",
    "yml": "yaml",
    "tf": "terraform",
    "kt": "kotlin",
    "go": "go",
    "sh": "shell",
    "cs": "csharp",
    "sql": "sql",
}
_ENOUGH = frozenset(map(stem, _LANGUAGES.values())) | {word for word, weight in _TOPICS.items() if weight >= 1}
"""The words that alone may say when a rule applies."""
# A language by its file's ending; elsewhere a word like any other.
_ONLY_OF_FILES = frozenset(("go",))


class Said:
    """What a rule is compared with."""

    __slots__ = ("content", "file", "is_command", "literal", "stems", "words")

    def __init__(self, text: str, *, is_command: bool = False, content: str = "", file: str = "") -> None:
        self.is_command = is_command
        self.file = file.lower()
        """The name of the file that a tool is about."""
        self.literal = f" {text.lower()} "
        self.content = content.lower()
        """What a tool is about to write: only what a rule avoids by name is looked for in it."""
        self.words = _telling(_SPLIT_CASE.sub(" ", text))
        if "pr" in self.words:
            self.words += ["pull", "request"]
        self.stems = _meant(self.words) - (frozenset() if file else _ONLY_OF_FILES)
        if content:
            self.stems |= _EDITING


def of_prompt(text: str) -> Said:
    """A long prompt says what it is about at its start and at its end; between them it quotes."""
    return Said(text if len(text) <= _READ else f"{text[: _READ * 2 // 3]} {text[-_READ // 3 :]}")


def of_tool(tool: str, given: Mapping[str, object], cwd: str = "") -> Said:
    """The command or the path of a tool call, and what is to be written."""
    texts = {name: value for name, value in given.items() if isinstance(value, str)}
    if "command" in texts:
        return Said(f"{texts['command'][:_READ]} {texts.get('description', '')[:200]}", is_command=True)
    path = next((texts[name] for name in ("file_path", "notebook_path", "path") if name in texts), "")
    written = " ".join(texts[name][:_READ] for name in ("new_string", "content", "new_source") if name in texts)
    # The folders above are the same for every file, and tell nothing.
    path = path.removeprefix(cwd).replace("\\", "/")
    file = path.rpartition("/")[2]
    about = " ".join((path, _LANGUAGES.get(file.rpartition(".")[2].lower(), ""), texts.get("url", "")[:200]))
    named = tool.replace("__", " ").removeprefix("mcp ") if tool.startswith("mcp__") else ""
    return Said(f"{named} {about}", is_command=True, content=written, file=file)


def _telling(text: str) -> list[str]:
    """The words that may tell rules apart, each once: those first that hardly any text has."""
    found = dict.fromkeys(word.lower() for word in _WORD.findall(text))
    kept = [word for word in found if word not in STOP and len(word) > 1]
    return sorted(kept, key=lambda word: word in COMMON)


def relevant(glance: Glance, said: Said, seen: set[str], most: int) -> list[Rule]:
    """At most so many rules that fit and were not seen yet, the best first."""
    asked = [*_askable(said), *_avoidable(said.content)]
    hits = {word: glance.holding(word) for word in dict.fromkeys(asked)}
    many = max(glance.count(), 1)
    weights = {stem(word): _weight(len(found), many) for word, found in hits.items() if found}
    scores: dict[int, float] = {}
    for word, found in hits.items():
        for number in found:
            scores[number] = scores.get(number, 0.0) + weights[stem(word)] * (0.2 if word in COMMON else 1.0)
    best = sorted(scores, key=lambda number: (-scores[number], -number))
    fitting = [(fit(rule, said, weights), rule) for rule in glance.numbered(best) if is_due(rule, said, seen)]
    ranked = sorted(((score, rule) for score, rule in fitting if score > 0), key=lambda one: (-one[0], one[1].id))
    return [rule for _, rule in ranked[:most]]


def is_due(rule: Rule, said: Said, seen: set[str]) -> bool:
    """Whether a rule may be told: it is new to the context, or was not followed before and is about to be broken."""
    if rule.id not in seen:
        return True
    return said.is_command and reminder(rule) not in seen and rule.violations > 0 and not _follows(rule, said)


def reminder(rule: Rule) -> str:
    """What marks a rule as brought up at a tool call, among the ids of the rules that a context holds."""
    return f"{rule.id}!"


def _follows(rule: Rule, said: Said) -> bool:
    """Whether a tool call does what the rule prefers and nothing of what it avoids."""
    text = f"{said.literal} {said.content} "
    wanted = [name for name in map(str.lower, rule.names("prefer")) if mentions(text, name)]
    for name in wanted:
        text = text.replace(name, " ")
    return bool(wanted) and not any(mentions(text, name.lower()) for name in rule.names("avoid"))


def _askable(said: Said) -> list[str]:
    """The words to look up: all that tell, and a few plain ones, which a trigger may consist of."""
    plain = [word for word in said.words if stem(word) in _PLAIN]
    return [word for word in said.words if word not in plain][:WORDS] + plain[:_PLAIN_WORDS]


def _avoidable(content: str) -> list[str]:
    """Of what is to be written, the words that look like names."""
    return [word for word in _telling(content[:_READ]) if len(word) > 2][:WORDS]


def _weight(holding: int, many: int) -> float:
    """How much a word tells: all when one rule in many holds it, little when most do."""
    if many < 10:
        return 1.0
    return max(_RARE, 1.0 - math.log(max(1, holding)) / math.log(many))


def fit(rule: Rule, said: Said, weights: Mapping[str, float]) -> float:
    """How well a rule fits; 0 when it does not."""
    named = _named(rule, said)
    own = _stems(f"{rule.text('trigger')} {rule.text('rule')}")
    shared = own & said.stems
    score = sum(weights.get(word, 0.0) for word in shared - _PLAIN)
    if named:
        return 2.0 + named + score
    passes = _by_topic(own, shared) or _by_trigger(rule.text("trigger"), said) or _by_words(own, shared, weights)
    return score + 0.1 if passes else 0.0


def _stems(text: str) -> frozenset[str]:
    return _meant(_telling(text))


def _meant(words: Iterable[str]) -> frozenset[str]:
    return frozenset(_SAME_WORK.get(one, one) for one in map(stem, words))


def _named(rule: Rule, said: Said) -> float:
    """How many of the names it prefers or avoids are mentioned."""
    avoided = {name.lower() for name in rule.names("avoid")}
    # A person who names what the rule prefers needs no rule, but perhaps the options that go with it.
    wanted = (name.lower() for name in rule.names("prefer") if said.is_command or not name.isalpha())
    names = {*map(_bare, wanted), *avoided}
    found = sum(mentions(said.literal, name) for name in names if _is_name(name, said.is_command))
    if said.is_command and rule.text("source") == "fix":
        # What failed once is told of by the command that did.
        found += mentions(said.literal, rule.text("trigger").removeprefix("running ").lower() or "\0")
    if said.content:
        found += sum(_is_written(said.content, name) for name in avoided)
    if said.file:
        found += _names_file(f"{rule.text('trigger')} {rule.text('rule')} ".lower(), said.file)
    return found


def _bare(name: str) -> str:
    """A command without its options: whoever runs it without them should know of them."""
    words = name.split()
    options = next((i for i, word in enumerate(words) if word.startswith("-")), len(words))
    return " ".join(words[:options]) if options else name


def _is_written(content: str, name: str) -> bool:
    """In code; a name that is a word like any other only where it is quoted, called or taken from."""
    if _is_name(name, False):
        return mentions(content, name)
    return name not in STOP and any(part in content for part in (f"'{name}'", f'"{name}"', f"{name}(", f"{name}."))


def _names_file(rule: str, file: str) -> bool:
    ending = f".{file.rpartition('.')[2]}" if "." in file else ""
    return ("." in file and mentions(rule, file)) or (len(ending) > 1 and f" {ending} " in rule)


def _is_name(name: str, in_command: bool) -> bool:
    """In a command `make` is a program; in a sentence it is a word like any other."""
    if not name.isalpha():
        return len(name) > 1
    return name not in STOP and len(name) > 1 and (in_command or stem(name) not in _PLAIN)


def mentions(text: str, name: str) -> bool:
    start = text.find(name)
    while start >= 0:
        before, after = text[start - 1 : start], text[start + len(name) : start + len(name) + 1]
        if not (before.isalnum() or before in ("_", "-", ".", "/")) and not (after.isalnum() or after in ("_", "-")):
            return True
        start = text.find(name, start + 1)
    return False


def _by_topic(own: Iterable[str], shared: Iterable[str]) -> bool:
    all_topics = sum(_TOPICS.get(word, 0.0) for word in own)
    named = [_TOPICS[word] for word in shared if word in _TOPICS]
    return bool(named) and max(named) >= 1.0 and sum(named) >= _TOPIC_SHARE * all_topics


def _by_trigger(trigger: str, said: Said) -> bool:
    """Any of the times it applies: “dates or timestamps” are two."""
    return any(_fits_trigger(_stems(part), said) for part in trigger.split(" or "))


def _fits_trigger(trigger: frozenset[str], said: Said) -> bool:
    """Most of what tells when it applies; all of it, where it says so in plain words only."""
    telling = trigger - _PLAIN
    if len(telling) == 1 and telling.isdisjoint(_ENOUGH):
        return trigger <= said.stems
    if telling:
        return len(telling & said.stems) >= _TRIGGER_SHARE * len(telling)
    plain = trigger - _EVERYDAY if len(trigger - _EVERYDAY) >= _LEAST_WORDS else trigger
    return len(plain) >= _LEAST_WORDS and plain <= said.stems


def _by_words(own: frozenset[str], shared: frozenset[str], weights: Mapping[str, float]) -> bool:
    telling = own - _PLAIN
    both = telling & shared
    weight = sum(weights.get(word, 0.0) for word in both)
    return len(both) >= _LEAST_WORDS and weight >= _SHARE * len(telling)
