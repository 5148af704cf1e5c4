"""A person's own words in a turn: what was pasted, quoted, printed by a machine or written by a host is left out.

Only a person's own words make a rule. A log line that says "never use this", a quoted style guide or a page with
instructions in it is about something; it asks nothing of the agent.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

MOST = 4000
"""Characters that are looked at: more is a paste, whatever it holds."""

# Control characters, half characters, and what changes the direction of writing or is not seen at all.
_UNSEEN = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]"
)
_FENCE = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[ \t]*$|\Z)", re.S | re.M)
_INLINE_FENCE = re.compile(r"```.*?(?:```|\Z)", re.S)
_BLOCK_TAG = re.compile(r"<([A-Za-z][\w:-]*)(?:\s[^<>]*)?>.*?</\1\s*>", re.S)
_OPEN_TAG = re.compile(
    r"<(?:system|command|local-command|task-notification|user-prompt|ide_)[\w:-]*(?:\s[^<>]*)?>.*", re.S
)
_URL = re.compile(r"@?\bhttps?://\S+")
_MADE_BY_HOST = re.compile(
    r"\s*(?:\[request interrupted|this session is being continued from|caveat: the messages below|<task-notification"
    r"|\[image[ :#]|api error\b|\(no content\)|you are (?:an? |the )?(?:\w+ )?(?:agent|assistant|expert)\b.{0,80}\n)",
    re.I,
)
_DOCUMENT = re.compile(r"\s*#{1,3} \S.*\n\s*+\S")
_LETTERS = r"[^\W\d_]"
_QUOTED = re.compile(
    rf"(?<![\w\"])\"(?=\S)[^\"\n]{{1,600}}(?<=\S)\"(?!\w)|“[^”\n]{{1,600}}”|«[^»\n]{{1,600}}»|「[^」\n]{{1,300}}」"
    rf"|(?<![\w'])'(?=\S)[^'\n]{{1,300}}(?:(?<={_LETTERS})'(?={_LETTERS})[^'\n]{{1,300}})*(?<=\S)'(?!\w)"
)
_QUOTE_WORDS = 3

# Lines that programs print and lines that are program text.
_PRINTED = re.compile(
    r"""\s*(?:
      [\[(]?\d{4}-\d\d-\d\d[ T]?|[\[(]?\d\d[:.]\d\d[:.]\d\d|\[\d\d/\d\d/\d\d
    | at\s+\S+\s*\(|at\s+\S+:\d+|at\s+\S+\.\w+:\d+|File\s+"[^"]+",\s+line\s+\d+|Traceback\ \(most
      |During\ handling\ of\ the\ above
    | (?:[\w.]*(?:Error|Exception|Warning|Panic|Fault|Interrupt))\b\s*[:\[(]
    | (?:npm|pnpm|yarn|bun)\s+(?:ERR!?|WARN|error|warning|notice)\b
    | (?i:fatal|error|warning|hint|remote|debug|panic|failed|caused\ by|stderr|stdout|exit\ code
      |type\ error|build\ error)\s*(?:\[[\w:-]+\])?:\s
    | (?:ERROR|WARN|WARNING|INFO|DEBUG|TRACE|FATAL|FAIL|PASS|FAILED|PASSED)\b[\s:|\]]
    | (?:error|warning)\[\w+\]|E\s{2,}\S|\S+:\d+:\d+[\s:-]|\S+\(\d+,\d+\):|>?\s*\d+\s*[|│]|[│╭╰├└┌×▲▶✓✗✔✖⚠❌✅🔍📊]\s*
    | \$\s+\S|PS\ [A-Z]:\\|[\w.-]+@[\w.-]+:[^\s]*[\$\#]|>{3}\s|\(\w+\)\s+\$\s
    | (?:added|removed|changed|audited)\s+\d+\s+packages?\b
    | @@\s-\d|diff\ --git\s|index\s[0-9a-f]{7}|(?:\+\+\+|---)\s[ab]/|[+-]\s{2,}\S
    )""",
    re.X,
)
_PROGRAM = re.compile(
    r"""\s*(?:
      (?:export\s+)?(?:default\s+)?(?:async\s+)?(?:def|class|function|func|fn|interface|enum|struct
        |namespace)\s+\w+\s*[(<:{]
    | (?:export\s+)?(?:const|let|var|val)\s++[\w{}\[\], ]++(?::\s*+[^\s=]++)?\s*+=
    | (?:from\s+[\w.]+\s+)?import\s+(?:[\w.]+(?:\s+as\s+\w+)?(?:\s*,\s*\w+)*\s*;?$|[\w*{}, ]+\s+from\s+["'])
    | (?:if|for|while|switch|catch)\s*\(.*\)\s*+\{?\s*+$|(?:return|throw|raise|yield|await)\b[^.]*[;(){}\]]\s*$
      |\}.*$|\{\s*$|[)\]};,]+\s*$
    | (?:public|private|protected|static)\s+\w+.*[;{(]|//\s|/\*|\*/|\#!\s*/|\#include\s|--\s\w.*;\s*$|@\w+\(.*\)\s*$
    | (?:SELECT|INSERT\s+INTO|UPDATE|DELETE\s+FROM|CREATE\s+(?:TABLE|DATABASE|USER|INDEX)|ALTER\s+TABLE
      |GRANT|DROP\s+TABLE)\s.*;\s*$
    | <\/?\w[^>]*>\s*$|[.\#]?[\w-]++(?:\s*+[,>.\#][,>.\#\s]*+[\w-]++)*+\s*+\{\s*$|[\w-]+\s*:\s*[^:\s][^:]*;\s*$
      |["'][\w-]+["']\s*:\s*\S
    | [A-Z][A-Z0-9_]{2,}=\S*\s*$|\w+(?:\.\w+)*\s*[+-]?=\s*\S+.*[;)\]]?\s*$|\w[\w.]*\([^)]*\);?\s*$
    )""",
    re.X,
)
_SYMBOL = re.compile(r"[^\w\s.,!?'’\"()\-:/`@]")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


@dataclass(frozen=True, slots=True)
class Own:
    """What a person said themselves, a paragraph a line, and how much of the turn was something else."""

    text: str
    pasted: float
    fenced: bool
    printed: int
    """How many lines look printed by a program, or like program text."""


NOTHING = Own("", 1.0, False, 0)


@lru_cache(maxsize=256)
def own_words(user: str) -> Own:
    text = _UNSEEN.sub("", user[:MOST].replace("\r", "\n"))
    if _MADE_BY_HOST.match(text) or _DOCUMENT.match(text):
        return NOTHING
    whole = len(text.split()) or 1
    text = _INLINE_FENCE.sub("\n", _FENCE.sub("\n", text))
    fenced = "```" in user[:MOST]
    text = _OPEN_TAG.sub(" ", _BLOCK_TAG.sub(_without_tag, text))
    text = _URL.sub(" ", text)
    lines, printed = _lines(text)
    said = _unquoted("\n".join(lines))
    return Own(said, 1 - min(1.0, len(said.split()) / whole), fenced, printed)


def _without_tag(found: re.Match[str]) -> str:
    """A short piece between tags such as <b>…</b> is a manner of speaking; a block is something put in."""
    inner = found[0]
    return inner if len(inner) <= 60 and "\n" not in inner and found[1] in ("b", "i", "code", "em", "strong") else " "


def _lines(text: str) -> tuple[list[str], int]:
    kept, printed, within = [], 0, False
    for line in text.split("\n"):
        plain = line.strip()
        if not plain:
            continue
        # What is indented below a line of a program belongs to it.
        within = plain.startswith(">") or _is_printed(line) or (within and line[:1] in " \t" and plain[0] not in "-*•")
        if within:
            printed += 1
        else:
            kept.append(plain)
    return (kept, printed) if not _is_continued(kept, printed) else (_first_lines(text), printed)


def above_printout(text: str) -> str:
    """What stands above the first line that a program printed: with a traceback pasted below, what the person said."""
    lines = text.split("\n")
    first = next((at for at, line in enumerate(lines) if line.strip() and _is_printed(line)), len(lines))
    return "\n".join(lines[:first])


def _first_lines(text: str) -> list[str]:
    return [line.strip() for line in above_printout(text).split("\n") if line.strip()]


def _is_printed(line: str) -> bool:
    if _PRINTED.match(line) or _PROGRAM.match(line):
        return True
    if _CJK.search(line):
        return False
    bare = line.replace(" ", "")
    return len(bare) > 12 and len(_SYMBOL.findall(bare)) > 0.18 * len(bare)


def _is_continued(kept: list[str], printed: int) -> bool:
    """A long print-out leaves a few lines that look like speech; they belong to it."""
    return printed >= 4 and len(kept) <= printed / 4 and not any(line[-1:] in "?？" for line in kept)


def _unquoted(text: str) -> str:
    return _QUOTED.sub(_short_quote, text) if any(mark in text for mark in "\"“«「'") else text


def _short_quote(found: re.Match[str]) -> str:
    """A quoted name or label is kept, it is what is spoken of; a quoted sentence is someone else's."""
    inner = found[0][1:-1].strip()
    size = len(inner.split()) if not _CJK.search(inner) else len(inner) // 3
    return found[0] if size <= _QUOTE_WORDS else "“…”"
