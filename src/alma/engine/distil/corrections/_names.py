"""The literal names a person says to use and not to use: tools, commands, options, files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from ...text import STOP, is_common

MOST = 4
_READ = 600
"""Characters that are searched."""

_TICKED = r"`[^`\n]{1,60}`|\"[^\"\n]{1,40}\"|“[^”\n]{1,40}”|(?<!\w)'[^'\n]{1,40}'|<[a-z][\w -]{1,30}>"
# Letters of other scripts follow a name without a space: "fetchを".
_BARE = (
    r"(?:(?<![A-Za-z0-9_])@?[A-Za-z_.~/$-][A-Za-z0-9_@./+#:-]*[A-Za-z0-9_](?:\+\+|/)?"
    r"|(?<![A-Za-z0-9_])[A-Za-z/](?![A-Za-z0-9_]))"
)
_PATH = r"(?<!\w)[\w.@~-]*(?:/[\w.@-]+)+/?"
_NAME = rf"(?:{_TICKED}|{_BARE}(?:[ \t]+{_BARE}){{0,2}})"
_ONE = rf"(?:{_TICKED}|{_BARE})"
_THE = r"(?:(?:the|a|an|our|your|my|raw|plain|any|new|existing|shared|old)\s+){0,2}"
_PLACE = r"(?:\s+(?:here|everywhere|now|please|for\s+\w+|in\s+(?:this|the|our)\s+\w+))?"
_NOT = r"(?:,|;|\s+[-–—])?\s*(?:and\s+)?(?:not|never|no|don't\s+use|do\s+not\s+use)\s+(?:with\s+|from\s+|in\s+|to\s+)?"
_USE = (
    r"(?:us(?:e|ing)|via|with|run|import\s+from|switch\s+to|stick\s+(?:to|with)|it's|it\s+is|is|are\s+on|we're\s+on"
    r"|call|need\s+to\s+be\s+in|are\s+in|say)"
)
_PAIRS = (
    rf"\b{_USE}\s+{_THE}(?P<yes>{_NAME}){_PLACE}{_NOT}{_THE}(?P<no>{_NAME})",
    rf"(?P<yes>{_NAME})\s*,?\s+(?:instead\s+of|rather\s+than|in\s+place\s+of|over)\s+(?:using\s+"
    rf"|the\s+){{0,2}}(?P<no>{_NAME})",
    rf"\b(?:don't|do\s+not|dont|never|stop|not|no)\s+(?:us(?:e|ing)\s+|import(?:ing)?\s+from\s+"
    rf"|run(?:ning)?\s+)?{_THE}(?P<no>{_NAME}){_PLACE}"
    rf"(?:\s+any\s?more)?(?:\s+(?:in|on|for)\s+\w+)?\s*(?:[,;.]|\s[-–—]|\bbut\b|\band\b)\s*(?:please\s+)?"
    rf"(?:us(?:e|ing)|import\s+from|run|it's|only|prefer|switch\s+to)\s+{_THE}(?P<yes>{_NAME})",
    rf"\breplace\s+(?P<no>{_NAME})\s+with\s+(?P<yes>{_NAME})",
    rf"^\W*(?:no\W+)?(?P<yes>{_ONE}),?\s+not\s+(?P<no>{_ONE})\W*$",
    rf"\b(?:don't|do\s+not|never)\s+(?:use\s+)?{_THE}(?P<no>{_ONE})\s*,\s*(?P<yes>{_ONE})\s+is\s+(?:enough"
    rf"|fine|better)",
    rf"\b(?:it's|is|are)\s+called\s+{_THE}(?P<yes>{_NAME})\s*,\s*not\s+{_THE}(?P<no>{_NAME})",
    rf"\b(?:go(?:es)?|belongs?|lives?|stored?|saved?|put|written)\s+(?:\w+\s+)?(?:to|in|into|under)\s+(?P<yes>{_TICKED}|{_PATH})"
    rf"\s*,\s*not\s+(?:to\s+|in\s+|into\s+|under\s+)?(?P<no>{_TICKED}|{_PATH})",
    rf"\bwrite\s+(?P<yes>{_TICKED})\s*,?\s+(?:not|never)\s+(?P<no>{_TICKED})",
    rf"\b(?:no|never)\s+(?P<no>{_ONE})(?:\s+\w+)?\s*[,;]\s*(?:we|i)\s+(?:always\s+|only\s+)?use\s+(?P<yes>{_ONE})",
    # Other languages that say it in the same order.
    rf"(?:用|使用|改用)\s*(?P<yes>{_ONE})\s*[，,]?\s*(?:而不是|不是|不用|别用|不要用|代替)\s*(?P<no>{_ONE})",
    rf"(?:不要再?用|别用|不用|不使用|不是)\s*(?P<no>{_ONE})\s*[，,。]?\s*(?:请|而是|要)?\s*(?:改?用|使用|换成|是)\s*(?P<yes>{_ONE})",
    rf"是\s*(?P<yes>{_ONE})\s*[，,]?\s*(?:而)?不是\s*(?P<no>{_ONE})",
    rf"(?:используй\w*|используем|применяй)\s+(?P<yes>{_ONE})\s*,?\s+(?:вместо|а\s+не)\s+(?P<no>{_ONE})",
    rf"не\s+(?:используй\w*|применяй)\s+(?P<no>{_ONE})\s*,\s*(?:а\s+)?(?:используй\w*\s+)?(?P<yes>{_ONE})",
    rf"\b(?:usa|utiliza|use|utilize)\s+(?P<yes>{_ONE})\s+(?:en\s+(?:lugar|vez)\s+de|em\s+vez\s+de"
    rf"|ao\s+invés\s+de|e\s+não|y\s+no)\s+(?P<no>{_ONE})",
    rf"\b(?:no|não)\s+(?:uses|use|utilices|utilize)\s+(?P<no>{_ONE})\s*,\s*(?:usa|use|utiliza"
    rf"|utilize)\s+(?P<yes>{_ONE})",
    rf"\b(?:benutze?|verwende\w*|nutze?n?|nimm|benutzen)\s+(?:bitte\s+|immer\s+|hier\s+)*(?P<yes>{_ONE})\s*,?\s+(?:statt|anstatt"
    rf"|anstelle\s+von|und\s+nicht|nicht)\s+(?P<no>{_ONE})",
    rf"\butilise\w*\s+(?:toujours\s+)?(?P<yes>{_ONE})\s*,?\s+(?:au\s+lieu\s+de|plutôt\s+que|et\s+pas|pas)\s+(?P<no>{_ONE})",
    rf"\bnepoužívej\s+(?P<no>{_ONE})\s*,\s*(?:používej|použij)\s+(?P<yes>{_ONE})",
    rf"\b(?:používej|použij|používáme)\s+(?P<yes>{_ONE})\s*,?\s+(?:místo|a?\s?ne)\s+(?P<no>{_ONE})",
    rf"(?P<no>{_ONE})\s*(?:ではなく|じゃなくて|でなく|の代わりに|말고|대신|이?\s?아니라)\s*(?P<yes>{_ONE})",
)
_INSTEAD = 1  # "X instead of Y": what comes last before it is the name
_YES = (
    rf"\b(?:always|please|you\s+(?:should|must|need\s+to)|just|we|only|use\s+the\s+existing)\s+use\s+"
    rf"(?P<yes>{_TICKED})",
    r"\b(?:use|reuse|run|using|call|with|it's|via)\s+(?:the\s+)?(?:existing\s+|shared\s+)?"
    r"(?P<yes>`[^`\n]{1,60}`)",
    rf"(?<!not )(?<!n't )(?<!never )(?<!não )(?<!dont )(?<!to )\buse\s+(?P<yes>{_ONE})(?=\s*(?:[.,;!]"
    rf"|$|for\b|here\b|in\s+(?:this|our)\b))",
    rf"\b(?:put|keep|store)\s+(?:it|them|that|those|these)\s+in\s+(?P<yes>{_BARE}\.\w+|{_TICKED})",
    rf"\bthe\s+convention\s+(?:here\s+)?is\s+(?P<yes>{_ONE})",
    rf"(?:^|[.;:,]\s)(?:\w+,\s)?run\s+(?P<yes>{_BARE}[ \t]+{_BARE})(?=\s*,?\s*(?:do\s+not|don't|not|never|instead)\b)",
)
_NO = (
    rf"\b(?:don't|do\s+not|dont|never|stop|no\s+more|avoid|quit)\s+(?:ever\s+)?(?:us(?:e|ing)"
    rf"|import(?:ing)?|call(?:ing)?|run(?:ning)?|commit(?:ting)?|leav(?:e|ing)|write\s+to|writing\s+to)\s+{_THE}"
    rf"(?P<no>{_TICKED}|{_BARE}(?:[ \t]+-{{1,2}}[\w-]+){{0,2}}(?=\s*(?:[.,;!](?:\s|$)|$|\b(?:in|on|for|here|any"
    rf"|files?|please|at|any ?more|directly|either|again|because|since|otherwise|and|or|as)\b)))",
    rf"\b(?:don't|do\s+not|dont|never|stop)\s+(?:ever\s+)?run(?:ning)?\s+(?P<no>{_BARE}[ \t]+{_BARE})"
    rf"(?=\s*(?:[.,;!](?:\s|$)|$|\b(?:yourself|on\s+your\s+own|by\s+yourself|here|please|again|directly)\b))",
    rf"(?:不要再?用|别用|禁止使用)\s*(?P<no>{_ONE})|не\s+используй\w*\s+(?P<no2>{_ONE})",
    rf"\bwhy\s+are\s+you\s+using\s+(?P<no>{_ONE})\?",
)
_EDGE = re.compile(r"^[\"'“”`]+|[\"'“”`.,:;!?]+$")
_NOT_NAMES = frozenset(
    "this that it them these those one ones something anything everything nothing someone same other another way thing "
    "things file files code test tests function functions it's there here so just only also please now what which any "
    "all each every instead of rather than not no and or but to in on for with without from by as at the a an "
    "unless until if when while yet style over none true false null".split()
)


# What can stand in for each other; a project has one of them.
_RIVALS = tuple(
    frozenset(group.split())
    for group in (
        "npm pnpm yarn bun",
        "pip pip3 uv poetry conda mamba pdm pipenv",
        "jest vitest mocha",
        "pytest unittest nose",
        "phpunit pest",
        "rspec minitest",
        "tabs spaces",
        "axios fetch ky",
        "docker podman",
        "make just task",
        "mvn maven gradle",
        "grep rg ag",
    )
)


_PROGRAMS = frozenset(
    "npm npx pnpm yarn bun pip pip3 uv uvx poetry docker podman git cargo conda python python3 sed awk apt brew "
    "kubectl terraform rg grep jest vitest pytest tsc eslint prettier ruff mypy psql nginx redis bash zsh curl wget "
    "axios mvn gradle ffmpeg webpack vite esbuild rspec phpunit composer".split()
)


def is_program(word: str) -> bool:
    """Programs that are written small wherever they stand."""
    return word in _PROGRAMS


def rivals(one: str, other: str) -> bool:
    first, second = one.lower().split()[:1], other.lower().split()[:1]
    return first != second and any(set(first + second) <= group for group in _RIVALS)


def names(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What to use, and what not to."""
    yes: dict[str, None] = {}
    no: dict[str, None] = {}
    for prefer, avoid in _found(text[:_READ]):
        for name, kept in ((prefer, yes), (avoid, no)):
            if name:
                kept.setdefault(name)
    return tuple(name for name in yes if name not in no)[:MOST], tuple(name for name in no if name not in yes)[:MOST]


@lru_cache(maxsize=3)
def _compiled(patterns: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    """Not while loading: most turns hold no rule."""
    return tuple(re.compile(pattern, re.I) for pattern in patterns)


def _found(text: str) -> Iterator[tuple[str, str]]:
    for number, pattern in enumerate(_compiled(_PAIRS)):
        for found in pattern.finditer(text):
            prefer, avoid = _named(found["yes"], tail=number == _INSTEAD), _named(found["no"])
            if prefer and avoid:
                yield prefer, avoid
            elif number == _INSTEAD and avoid != avoid.lower():
                # "X | None instead of Optional": what is wanted is no name, what is not wanted is.
                yield "", avoid
    for pattern in _compiled(_YES):
        for found in pattern.finditer(text):
            yield _named(found["yes"]), ""
    for pattern in _compiled(_NO):
        for found in pattern.finditer(text):
            yield "", _named(next(filter(None, found.groups()), ""))


def _named(raw: str, tail: bool = False) -> str:
    """The name within a phrase, or nothing: a common word alone is no name."""
    if raw[:1] == "<":
        return raw
    if raw[:1] in "`\"“'":
        return _EDGE.sub("", raw).strip()
    pieces = _EDGE.sub("", raw).split()
    kept = _tail(pieces) if tail else _head(pieces)
    if not kept or (len(kept) == 1 and kept[0].lower() not in _HEADS and is_common(kept[0].lower())):
        return ""
    return " ".join(kept)


def _head(pieces: list[str]) -> list[str]:
    kept: list[str] = []
    for piece in pieces:
        if piece.lower() in STOP or piece.lower() in _NOT_NAMES:
            # "Never restart it" names nothing.
            if len(kept) == 1 and piece.lower() in _OBJECTS and not is_program(kept[0]) and kept[0].isalpha():
                return []
            break
        kept.append(piece)
    return _command(kept)


_OBJECTS = frozenset("it them this that these those the a an any your my our".split())


def _tail(pieces: list[str]) -> list[str]:
    kept: list[str] = []
    for piece in reversed(pieces):
        if piece.lower() in STOP or piece.lower() in _NOT_NAMES or piece.lower() in ("use", "using", "prefer", "usa"):
            break
        kept.insert(0, piece)
    return _command(kept)


_HEADS = frozenset(
    "npm pnpm yarn bun pip uv poetry docker git make cargo go npx conda python python3 sed apt brew kubectl terraform "
    "rg grep".split()
)


def _command(kept: list[str]) -> list[str]:
    """Two or three words are one name if they begin like a command or go on with an option; else the first may be."""
    if len(kept) > 1 and kept[0].lower() not in _HEADS and not kept[1].startswith("-"):
        # "Hand-written retry loops" is a description; `docker-compose up` begins like a command.
        first, *joined = kept[0].split("-")
        described = first.isalpha() and kept[0].islower() and all(map(str.isalpha, joined)) and first not in _HEADS
        return [] if described else kept[:1]
    return kept
