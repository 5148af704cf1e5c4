"""What is asked, out of what was pasted.

A short ordinary question is left as it is. A whole prompt is cut down, step by step, to the part that asks: tagged
context, code, logs, earlier mail and set phrases go, the last question and the error's own line stay. Every step reads
the text once, and the steps are repeated until nothing changes, so that asking with the answer gives the same answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

_MOST = 1000
_SHORT = 400
"""Below this, code and data are what is asked about."""
_HEAD, _TAIL = 10_000, 30_000
"""Of more than a book's chapter the beginning and the end are enough: one says what to do, the other asks."""


def asked(query: str) -> str:
    flat = " ".join(query.split())
    if not _says(query):
        return flat[:_MOST].strip() or query[:_MOST]
    if len(flat) <= _MOST and not _pasted(query):
        return flat
    text = query if len(query) <= _HEAD + _TAIL else f"{query[:_HEAD]}\n{query[-_TAIL:]}"
    # Every pass but the first only takes away.
    while (kept := _cut(text)) != text:
        text = kept
    return text


def _pasted(query: str) -> bool:
    """Whether there is anything to look at more closely: cheap, since nearly every question is ordinary."""
    lower = query.lower()
    return (
        not " ".join(query.split()).isprintable()
        or any(mark in lower for mark in _MARKS)
        or any(len(word) >= _BLOB for word in query.split())
        or any(line.lstrip().startswith(_OPENINGS) for line in lower.split("\n"))
    )


def _cut(query: str) -> str:
    text = _pattern(_HIDDEN).sub(" ", query)
    for step in (_untagged, _last_turn, _unfenced, _unquoted, _traced, _without_blobs, _unframed, _calm):
        left = step(text)
        text = left if _says(left) else text
    return _asking(text)


@cache
def _pattern(source: str) -> re.Pattern[str]:
    # Compiled when the first pasted prompt comes, not when the module is loaded.
    return re.compile(source, re.IGNORECASE | re.MULTILINE)


def _says(text: str) -> bool:
    return any(mark.isalnum() for mark in text)


_FRAME = (
    r"\bI(?:'m|’m| am| was| wanted to| want to|'d like to)\s(?:just\s)?"
    r"(?:going (?:back to|through|over)|looking (?:back )?(?:at|through)|thinking (?:back )?(?:about|to|on)|checking|"
    r"follow(?:ing)? up on|revisiting)\s"
    r"(?:our|the|a|my)\s(?:previous|last|earlier|past|prior|recent)\s(?:conversation|chat|discussion|session|exchange)s?"
    r"(?:\s(?:about|on|regarding|with you))*|"
    r"(?:\band\s|\bbut\s)?\bI was wondering,?"
    r"(?:\sif you (?:could|can|might)(?:\splease)?\s(?:remind me|tell me)(?:\sof)?)?|"
    r"\b(?:can|could|would) you (?:please )?remind me(?:\sof)?\b|\bplease remind me(?:\sof)?\b"
)
_MARKS = (
    *(4 * mark for mark in "!?.,;:*=#~_+-"), "```", "</", "remind me", "wondering", " previous ", " last ", " earlier ",
    " past ", " prior ", " recent ", "traceback (", "assistant", "the following", "the question", "the query",
    "the above", "the provided", "the given", "step by step", "don't know", "don’t know", "do not know",
)  # fmt: skip
_OPENINGS = (">", "at ", "user", "human", "me:", "question", "query", "q:", "assistant", "ai", "system", "#", "*", "__")
_HIDDEN = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]"
_TAG = r"<([a-z][\w-]{0,40})(?:\s[^<>]{0,200})?>"
_CONTEXT = frozenset(
    """system-reminder system system_prompt system-prompt context documents document doc file files history transcript
    conversation tool_result tool-result function_results function_calls tool_use env environment environment_details
    instructions rules examples example thinking memory memories local-command-stdout command-output output log logs
    attachment attachments search_results results data""".split()
)
_ASKS = ("question", "query", "user_query", "user-query", "task", "prompt", "user", "request", "input")


def _untagged(text: str) -> str:
    """Without the blocks that only give context; what a tag calls the question is the question."""
    if "</" not in text:
        return text
    kept, at = [], 0
    unclosed: set[str] = set()
    asks = ""
    for found in _pattern(_TAG).finditer(text):
        name = found[1].lower()
        if found.start() < at or name in unclosed or (name not in _CONTEXT and name not in _ASKS):
            continue
        closing = text.find(f"</{found[1]}>", found.end())
        if closing < 0:
            unclosed.add(name)
        elif name in _ASKS:
            asks = text[found.end() : closing]
        else:
            kept.append(text[at : found.start()])
            at = closing + len(found[1]) + 3
    left = asks if _says(asks) else " ".join((*kept, text[at:]))
    return _pattern(r"</?[a-z][\w-]{0,40}(?:\s[^<>]{0,200})?/?>").sub(" ", left) if len(left) > _SHORT else left


_TURN = (
    r"^[ \t]{0,8}[*#]{0,4}[ \t]{0,4}"
    r"(user|human|me|question|query|q|assistant|ai|bot|system|answer|a|gpt|claude)[ \t]{0,4}:[*]{0,4}"
)
_PERSON = frozenset({"user", "human", "me", "question", "query", "q"})


def _last_turn(text: str) -> str:
    """What the person said last in a transcript."""
    turns = list(_pattern(_TURN).finditer(text))
    if not any(turn[1].lower() in _PERSON for turn in turns):
        return text
    ends = [turn.start() for turn in turns[1:]] + [len(text)]
    said = [text[turn.end() : end] for turn, end in zip(turns, ends, strict=True) if turn[1].lower() in _PERSON]
    return next((turn for turn in reversed(said) if _says(turn)), text)


def _unfenced(text: str) -> str:
    if "```" not in text:
        return text
    parts = text.split("```")
    if len(text) <= _SHORT or len(parts) < 3:
        return " ".join(part if i % 2 == 0 else _pattern(r"\A\w{1,12}\n").sub("", part) for i, part in enumerate(parts))
    # Of code the lines that fail are telling; the rest is found by what is said about it.
    return "\n".join(part if i % 2 == 0 else "\n".join(_errors(part)) for i, part in enumerate(parts))


def _unquoted(text: str) -> str:
    """Without the mail that is answered."""
    head = _pattern(r"^-{2,}\s*(?:original|forwarded) message\s*-{2,}|^_{10,}\s*$").split(text, maxsplit=1)[0]
    lines = (head if _says(head) else text).split("\n")
    kept = [line for line in lines if not line.lstrip().startswith(">") and not _attribution(line)]
    return "\n".join(kept)


def _attribution(line: str) -> bool:
    bare = line.strip().lower()
    return bare.startswith("on ") and bare.endswith("wrote:") and len(bare) < 200


_STACK = (
    r"^[ \t]*(?:File \"[^\"\n]{1,300}\", line \d+|at [\w$.<>\[\] /]{1,200}\(|at \S{1,300}:\d+|\.{3} \d+ more|"
    r"\d+: +(?:0x)?[0-9a-f]{4,}|goroutine \d+|#\d+ +0x|traceback \(|stack trace|caused by:\s*$|~*\^+~*\s*$)"
)
_ERROR = r"^.{0,80}?(?:\b|\w)(?:error|exception|panic(?:ked)?|fault|failure|fatal|failed)\b.{0,300}"


def _errors(text: str) -> list[str]:
    """The lines that name an error, the last few of them: a trace ends with what went wrong."""
    found = [line.strip() for line in text.split("\n") if len(line) < 2000 and _pattern(_ERROR).match(line)]
    return list(dict.fromkeys(found))[-2:]


def _traced(text: str) -> str:
    """Of a stack trace its error, and what was said around it."""
    lines = text.split("\n")
    frames = [bool(_pattern(_STACK).match(line[:500])) for line in lines]
    if sum(frames) < 2:
        return text
    errors = _errors(text)
    kept: list[str] = []
    for i, line in enumerate(lines):
        # Python shows the source line under each frame.
        source = i > 0 and frames[i - 1] and line[:4].isspace()
        if not frames[i] and not source and line.strip() not in errors:
            kept.append(line)
    return "\n".join((*kept, *errors))


_BLOB = 64
"""A word of so many characters is none."""
_DATA = r"^[ \t]*(?:[\]\[{}(),;]+|\"[^\"\n]{0,80}\"\s*:.*|[{\[].*[}\]],?)\s*$"


def _without_blobs(text: str) -> str:
    short = _pattern(rf"\S{{{_BLOB},}}").sub(lambda found: _brief(found[0]), text)
    if len(short) <= _SHORT:
        return short
    return "\n".join(line for line in short.split("\n") if not _pattern(_DATA).match(line[:20_000]))


def _brief(blob: str) -> str:
    """A long address without its parameters; a path as it is; anything else that long is not words."""
    if blob[:300].lower().find("://") > 0:
        return blob.partition("?")[0].partition("#")[0][:200]
    path = r"[\w.@~-]++(?:[/\\:][\w.@~-]++)*+"
    if (
        len(blob) <= 200
        and any(sign in blob for sign in "/\\.:")
        and _pattern(path).fullmatch(blob)
        and not _dense(blob)
    ):
        return blob
    return ""


def _dense(blob: str) -> bool:
    return max(map(len, re.split(r"[\W_]", blob))) > 40


_SET = (
    r"\byou are an? [^.\n]{0,60}assistant[^.\n]{0,300}(?:[.\n]|\Z)|"
    r"\b(?:please )?(?:answer|respond to) the (?:following )?(?:question|query)s?\b[^.:?\n]{0,200}[.:\n]|"
    r"\b(?:based|relying) (?:only )?on the (?:following|above|provided|given) [^.:?\n]{0,100}[.:,\n]|"
    r"\bif you (?:do not|don't|don’t) know[^.\n]{0,200}(?:[.\n]|\Z)|"
    r"\b(?:think|let's think|reason) step by step[.\n]?"
)


def _unframed(text: str) -> str:
    """Without the phrases that say nothing about what is asked."""
    left = _pattern(_FRAME).sub(" ", _pattern(_SET).sub(" ", text))
    return left.lstrip(" \n,;:.!?") if left != text else text


def _calm(text: str) -> str:
    less = _pattern(r"([!?.,;:*=#~_+-])\1{3,}").sub(lambda found: found[1] if found[1] in "!?." else " ", text)
    lines = (" ".join(line.split()) for line in less.split("\n"))
    joined = "\n".join(line for line in lines if line)
    if len(joined) > _MOST:
        return joined
    return " ".join(joined.split())


def _asking(text: str) -> str:
    """At most so many characters: the last questions and the errors, then what stands just before them."""
    if len(text) <= _MOST:
        return text
    errors = [line[:300] for line in _errors(text)][-2:]
    room = _MOST - sum(len(line) + 1 for line in errors)
    chosen = _last_questions(text, room // 2)
    rest = room - sum(len(sentence) + 1 for sentence in chosen)
    parts = [part for part in (*_ends(text, rest), *chosen, *errors) if part]
    return " ".join(" ".join(dict.fromkeys(parts)).split())[:_MOST].strip()


def _last_questions(text: str, room: int) -> list[str]:
    chosen: list[str] = []
    for sentence in _from_the_end(text):
        if sentence.endswith("?") and len(sentence) < room:
            chosen.insert(0, sentence)
            room -= len(sentence) + 1
        if len(chosen) == 3:
            break
    return chosen


def _from_the_end(text: str) -> Iterator[str]:
    for line in reversed(text[-20_000:].split("\n")):
        yield from reversed(re.split(r"(?<=[.?!])\s+", line.strip()))


def _ends(text: str, room: int) -> tuple[str, str]:
    """Its beginning, where a person says what to do with the rest, and its end."""
    if room < 80:
        return "", ""
    head = text[: room // 3]
    tail = text[-(room - len(head) - 2) :]
    return head.rpartition(" ")[0] or head, tail.partition(" ")[2] or tail
