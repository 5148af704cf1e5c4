"""What is known by how it is written: addresses, files, commands, packages, issues, handles."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ._words import FILE_END, PROGRAMS


@dataclass(frozen=True, slots=True)
class Mention:
    start: int
    end: int
    name: str
    type: str
    sure: bool = True


_URL = re.compile(r"\b(?:https?|ftp|ssh|git|wss?)://[^\s<>\"'`\])}]+", re.IGNORECASE)
_CODE = re.compile(r"`([^`\n]{1,200})`")
_ISSUE = re.compile(
    r"(?<![\w/&#])(?:(?:PR|MR|GH|[Ii]ssue|[Pp]ull request|[Tt]icket|[Bb]ug) ?)?#\d{1,7}\b|\b[A-Z][A-Z0-9]+-\d{1,6}\b"
)
_HANDLE = re.compile(r"(?<![\w@/.])@[A-Za-z][\w-]{1,38}(?![\w@/.]\w)")
_PATH = re.compile(r"(?<![\w@/.:-])(?:~|\.{1,2})?/?(?:[\w.@*+-]+/)+[\w.@*+-]*\w|(?<![\w@/.:-])[~/][\w.-]+(?:/[\w.-]+)*")
_FILE = re.compile(r"(?<![\w@/.-])\.?[\w*-]+(?:\.[\w-]+)*\.[A-Za-z][A-Za-z0-9]{0,9}\b(?![\w/(-])")
_INSTALL = re.compile(
    r"\b(?:pip3?|pipx|uv|npm|yarn|pnpm|cargo|brew|apt|apt-get|gem|go)\s+(?:install|add|i|get)\s+(?:-[\w-]+\s+)*"
    r"([@\w][\w./@\[\]-]*\w|\w)"
)
_IMPORT = re.compile(r"\b(?:import|imports|importing)\s+([a-z_][\w.]*)\b(?! (?:the|a|an|all|from|it))")
_PACKAGE = re.compile(r"\b([a-z][\w.-]*[\w])\s+(?:package|library|module|crate|gem)\b")
_DASHED = re.compile(r"(?<![\w/.@-])[a-z][a-z0-9]*(?:[-_][a-z0-9]+)+(?![\w/.@(-])")
_NAMED_SO = re.compile(r"^[a-z][\w.-]*$")
_NO_PACKAGE = frozenset(
    """the a an this that our your my his her their its new old same single logging shared small python standard
    internal common other third-party whole test tests each every any one first main local public own core
    helper native""".split()
)
_SYSTEM = re.compile(
    r"-(?:service|api|server|worker|db|client|app|ui|web|backend|frontend|gateway|proxy|cli|lib|core|sdk|bot|job|queue)$"
)
STANDARD = re.compile(r"^(?:UTF|ISO|SHA|RFC|MD|AES|RSA|HTTP|TLS|IEEE|COVID|GPT|MP|CVE|X|H|K|A|B|F)-\d+$")


def mentions(text: str) -> list[Mention]:
    """From left to right, none inside another; what is surer comes first."""
    return apart(text, _all(text))


def apart(text: str, found: Iterable[Mention]) -> list[Mention]:
    """Those that do not overlap an earlier one, from left to right. One without a name only takes its place."""
    taken = bytearray(len(text))
    kept = []
    for one in found:
        if not any(taken[one.start : one.end]):
            taken[one.start : one.end] = b"\x01" * (one.end - one.start)
            kept.append(one)
    return sorted((one for one in kept if one.name), key=lambda one: one.start)


def _all(text: str) -> Iterator[Mention]:
    for found in _URL.finditer(text):
        url = found[0].rstrip(".,;:!?")
        # What carries a name and a password is nobody's business.
        if "@" not in url.split("/")[2]:
            yield Mention(found.start(), found.start() + len(url), url, "url")
        else:
            yield Mention(found.start(), found.start() + len(url), "", "url")
    for found in _CODE.finditer(text):
        yield Mention(found.start(), found.end(), *_code(found[1].strip()))
    for found in _ISSUE.finditer(text):
        if not STANDARD.match(found[0]):
            yield Mention(found.start(), found.end(), found[0], "issue")
    for found in _INSTALL.finditer(text):
        yield Mention(found.start(1), found.end(1), found[1], "package")
    for pattern in (_PATH, _FILE):
        for found in pattern.finditer(text):
            if _is_file(found[0], pattern is _PATH):
                yield Mention(found.start(), found.end(), found[0], "file")
    for found in _HANDLE.finditer(text):
        yield Mention(found.start(), found.end(), found[0], "person")
    for pattern in (_IMPORT, _PACKAGE):
        for found in pattern.finditer(text):
            if found[1] not in _NO_PACKAGE:
                yield Mention(found.start(1), found.end(1), found[1], "package", sure=pattern is _IMPORT)
    for found in _DASHED.finditer(text):
        if _SYSTEM.search(found[0]):
            yield Mention(found.start(), found.end(), found[0], "thing")


def _code(told: str) -> tuple[str, str]:
    """What stands between backticks."""
    first = told.split()[0] if told.split() else ""
    if " " in told:
        known = first.rsplit("/", 1)[-1] in PROGRAMS or first.startswith("./")
        return (told, "command") if known else ("", "thing")
    if _is_file(told, "/" in told):
        return told, "file"
    if told in PROGRAMS:
        return told, "command"
    if _NAMED_SO.match(told):
        return told, "package"
    return told, "thing"


def _is_file(told: str, path: bool) -> bool:
    if FILE_END.search(told):
        return True
    if not path or told.count("/") == 0:
        return False
    parts = told.strip("~./").split("/")
    # "and/or", "he/she", "1/2" are no paths; "src/alma" may be, with a second sign that it is.
    return (told.startswith(("~/", "./", "../", "/")) and len(told) > 3) or (
        len(parts) > 2 and all(len(one) > 1 for one in parts)
    )
