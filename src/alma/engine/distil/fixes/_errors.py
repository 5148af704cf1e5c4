"""What an error says was wrong with the command itself.

Each sign is the way programs word it, at the place where they word it, so that a source file or a log that happens to
speak of errors does not count.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# A kind and how it is said, one a line; `{x}` is what it is about, perhaps in quotes. The first that is found counts.
_SIGNS = r"""
separator    The token '(?P<x>&&|\|\|)' is not a valid statement separator
separator    ParserError: [^\n]*\n[^\n]*InvalidEndOfLine
comment      command not found: (?P<x>\#)
glob         no matches found: (?P<x>\S+)
program      command not found: {x}
program      ^(?:[^\n:]*: )?(?:line \d+: |\d+: )?{x}: (?:command )?not found\s*$
program      [Tt]he term '(?P<x>[^']+)' is not\s+recogni[sz]ed
program      '(?P<x>[^']+)' is not recogni[sz]ed as an internal or external command
program      exec: {x}: executable file not found
program      \bspawn {x} ENOENT
program      ^(?:/usr/bin/)?env: {x}: No such file or directory
program      ^fish: Unknown command:? {x}
option       (?:illegal|invalid|unknown|unrecogni[sz]ed|no such|unsupported) (?:command[- ]line )?{o}
option       unexpected argument ['"`](?P<x>-[^'"`]+)['"`] found
option       flag provided but not defined: {x}
option       \b[Oo]ption {x} (?:is )?(?:not recogni[sz]ed|unknown|does not exist|not supported|ambiguous)
option       parameter cannot be found that matches parameter name '(?P<x>[^']+)'
subcommand   {x} is not a \w+ command
subcommand   [Uu]nknown (?:sub)?command:? {x}
subcommand   [Nn]o such (?:sub)?command:? {x}
subcommand   [Uu]nrecogni[sz]ed subcommand:? {x}
subcommand   [Mm]issing script:? {x}
subcommand   Task {x} not found in
subcommand   No rule to make target {x}
subcommand   [Cc]ommand {x} not found
subcommand   invalid choice: {x}
subcommand   [Uu]nknown (?:target|recipe|task|script):? {x}
subcommand   does not contain recipe {x}
module       \bNo module named {x}
module       Cannot find (?:module|package) {x}
module       cannot load such file -- {x}
module       no required module provides package {x}
place        not a git repository
place        [Cc]ould not (?:find|locate) (?:a )?[`'"]?(?P<x>[\w-]+\.(?:toml|json|mod|xml|gradle|py)|Gemfile|Podfile)
place        [Nn]o (?P<x>package\.json|pyproject\.toml|Gemfile|Podfile|Dockerfile|[Mm]akefile)\b[^\n]{0,40}found
place        ENOENT[^\n]*(?P<x>package\.json)
place        no configuration file provided|[Cc]annot find main module|(?P<x>go\.mod) file not found
place        does not contain a Gradle build|no targets specified and no makefile
path         (?:^|[\s:'"`])(?P<x>[^\s:'"`][^:\n'"`]{0,200}?)['"`’]?: (?:open: )?[Nn]o such file or directory
path         [Nn]o such file or directory(?: \(os error \d+\))?:? ['"`]?(?P<x>[^\s'"`]+)
path         can't (?:cd to|open(?: file)?) ['"]?(?P<x>[^\s'":]+)
path         (?:cannot access|cannot open|cannot stat|can't read) ['"`‘]?(?P<x>[^\s'"`’:]+)
path         Cannot find path '(?P<x>[^']+)'
path         Could not find (?:a part of the path|file) '(?P<x>[^']+)'
path         [Tt]he system cannot find the (?:path|file) specified
path         pathspec '(?P<x>[^']+)' did not match
path         file or directory not found: (?P<x>\S+)
path         ENOENT: no such file or directory[^\n']*'(?P<x>[^']+)'
path         ^(?:[\w./-]+: )+(?P<x>\S+): Not a directory
path         [Nn]o such (?:container|service|image|volume|network|remote)[: ]+['"`]?(?P<x>[^\s'"`]+)
path         ['"`](?P<x>[^'"`\n]+)['"`] does not appear to be a git repository
role         role "(?P<x>[^"]+)"\s+does\s+not\s+exist
role         (?:Access denied|authentication failed) for user ['"](?P<x>[^'"]+)
database     database "(?P<x>[^"]+)"\s+does\s+not\s+exist
database     Unknown database '(?P<x>[^']+)'
schema       no such (?:table|column): (?P<x>[\w.]+)
schema       (?:relation|column) "(?P<x>[^"]+)" does not exist
schema       Unknown (?:column|table) '(?P<x>[^']+)'
schema       Table '(?P<x>[^']+)' doesn't exist
upstream     has no upstream branch|no tracking information for the current branch|No configured push destination
permission   [Pp]ermission denied|EACCES|[Oo]peration not permitted|EPERM|[Aa]ccess is denied
permission   a password is required|are you root\?|must be (?:run as )?root|running scripts is disabled
managed      externally[- ]managed[- ]environment
peers        ERESOLVE|conflicting peer dependency|unable to resolve dependency tree
port         EADDRINUSE(?:[^\n]*:(?P<x>\d{2,5})\b)?|[Aa]ddress already in use|port is already allocated
port         [Pp]ort (?P<x>\d{2,5})[^\n]{0,30}(?:in use|allocated|taken|occupied)
hang         [Ww]atch [Uu]sage|[Ww]a(?:iting|tching) for file changes|\bwatch mode\b
hang         [Pp]ress (?:q|h|a|`?ctrl)[^\n]{0,30}(?:quit|help|exit|stop)
hang         (?:[Cc]ommand|[Pp]rocess|[Ee]xecution|[Oo]peration)[^\n]{0,30}timed out|timed out after
hang         [Ee]xit code:? (?:124|137|143)\b
terminal     not a (?:tty|TTY|terminal)|is not a TTY|requires (?:an )?interactive|terminal prompts disabled
encoding     Encoding::\w+Error|Unicode(?:Decode|Encode)Error|invalid byte sequence|unsupported locale setting
memory       heap out of memory|Cannot allocate memory|OutOfMemoryError
certificate  CERTIFICATE_VERIFY_FAILED|self[- ]signed certificate|unable to get local issuer|SSL certificate problem
version      [Uu]nsupported (?:class file|engine|Java)|ERR_OSSL_EVP_UNSUPPORTED|Unable to locate a Java Runtime
version      requires? (?:[Nn]ode|[Pp]ython|[Jj]ava|[Rr]uby|Go|PHP)(?:\.js)?(?: version)? ?[<>=v\d]
interpreter  bad interpreter|[Ee]xec format error|cannot execute binary file|invalid option name|[Bb]ad substitution
quoting      unexpected EOF while looking for matching|[Uu]nterminated quoted string|unmatched ["'`]|event not found
quoting      parse error near|syntax error near unexpected token|unexpected end of file|^(?:dquote|quote|heredoc)>
quoting      [Mm]issing (?:closing|the terminator)|Unexpected token '[^'\n]{1,40}' in expression or statement
quoting      ^(?:curl: \(3\)|sed: -e expression|sed: \d+: |awk: syntax error|jq: error|rg: regex parse error)
quoting      ^grep: (?:invalid|Unmatched|unmatched|repetition)
usage        the following (?:required )?arguments (?:are|were) (?:required|not provided)|requires an argument
usage        missing (?:required )?(?:argument|operand|parameter|option|flag)|you must (?:specify|provide|pass)
usage        [Nn]eed to specify how to reconcile|refusing to |use (?:-f|--force)\b|too many arguments|not fully merged
usage        ^[Uu]sage: \S+
daemon       Cannot connect to the Docker daemon|[Cc]onnection refused|ECONNREFUSED|could not connect to server
"""
_QUOTED = r"[\"'‘’`“]?(?P<x>[^\s\"'‘’`“”:]{1,120})[\"'‘’`”]?"
_OPTION = (
    r"(?:option|argument|flag|switch|parameter)s?(?: --(?= \w)|:)?\s?"
    r"[\"'‘`“]?(?P<x>-{0,2}[A-Za-z][^\s:,\"'’`”]*)"
)


@dataclass(frozen=True)
class Complaint:
    """The kind of error, what it is about, and the line that says so."""

    kind: str
    about: str
    said: str


def _compiled() -> tuple[tuple[str, re.Pattern[str]], ...]:
    rows = (line.split(None, 1) for line in _SIGNS.strip().splitlines())
    return tuple(
        (kind, re.compile(sign.strip().replace("{x}", _QUOTED).replace("{o}", _OPTION), re.M)) for kind, sign in rows
    )


_PATTERNS = _compiled()
_FINE = re.compile(r"^\s*Exit [Cc]ode: 0\b|^Error: \(none\)$|\bexit(?:ed with)?(?: code| status)?[: ]+0\b", re.M)
_WELL = re.compile(r"\bPASSED\b|^\s*(?:ok|PASS)\s|^0 (?:issues|errors|problems)|BUILD SUCCESSFUL", re.M)
# What was wrong was in the files, not in the command.
_IN_THE_CODE = re.compile(
    r"AssertionError|^E\s{1,8}\S|^\s*>\s+assert\b|--- FAIL:|^FAIL\b|^FAILED \S|\d+ (?:failed|failing)\b"
    r"|^\s*at \S+ \(\S+:\d+:\d+\)|Traceback \(most recent call last\)|^\S+\.\w{1,5}[:(]\d+(?:[:,]\d+)?\)?:? "
    r"|\berror TS\d+|[Tt]ype error:|^error(?:\[E\d+\])?: (?:expected|cannot find|mismatched)"
    r"|^(?:\w+\.)*(?:Type|Name|Attribute|Value|Key|Index|Reference|Syntax|Range|Runtime|Indentation)Error\b"
    r"|cannot find symbol|undefined: \w|undeclared|is not assignable|[Cc]ompilation (?:failed|error)|[✕✗]"
    r"|^\s*\d+ problems?\b|^panic: ",
    re.M,
)
_FAILED = re.compile(
    r"(?i)\b(?:errors?|fatal|failed|failure|fail|cannot|can't|could not|couldn't|unable|invalid|denied|refused|missing"
    r"|not found|exception|timed out|aborted|exit code:? [1-9]|not permitted|not supported)\b"
)
_SYNTAX = re.compile(r"SyntaxError|IndentationError|syntax error|unexpected token", re.I)
_LISTING = re.compile(
    r"^(?:\S+?[:-])?\d+[:-]\s?.*$|^[+-](?!\s*(?:CategoryInfo|FullyQualified|~)).*$|^\s*(?://|/\*|\*|<!--).*$|^@@.*$",
    re.M,
)
_BROKEN = re.compile(r"\s*\n\s*")
_SPOKEN = re.compile(
    r"^\S*?:?\d+: (?:command not found|no matches found|permission denied|no such file|parse error|event not found"
    r"|bad substitution|[\w./-]+: (?:command )?not found)"
)


def complaint(error: str) -> Complaint | None:
    """What the error holds against the command, or None: then it holds something against the code, or nothing."""
    if _FINE.search(error):
        return None
    text = _without_listings(error)
    for kind, pattern in _PATTERNS:
        match = pattern.search(text)
        if match:
            # A terminal breaks long lines, even inside a name.
            about = _BROKEN.sub("", (match.groupdict().get("x") or "").strip())
            return Complaint(kind, about, _line(text, match.start(), match.end()))
    return None


def unclear(error: str) -> bool:
    """It failed, and the error says neither why nor that the code was wrong."""
    if _FINE.search(error) or _WELL.search(error) or in_the_code(error):
        return False
    return not error.strip() or bool(_FAILED.search(_without_listings(error)))


def in_the_code(error: str) -> bool:
    return bool(_IN_THE_CODE.search(error))


def is_syntax(error: str) -> bool:
    return bool(_SYNTAX.search(error))


def _without_listings(error: str) -> str:
    """The error without what a search or a diff printed: that is what stands in files."""
    if "\n" not in error:
        return error
    return _LISTING.sub(lambda match: match[0] if _SPOKEN.match(match[0]) else "", error)


def _line(text: str, start: int, end: int) -> str:
    first = text.rfind("\n", 0, start) + 1
    last = text.find("\n", end)
    return " ".join(text[first : last if last >= 0 else len(text)].split())
