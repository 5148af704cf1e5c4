"""Source files that an agent looks at: which of their text is code, and which is addressed to readers.

An agent imitates the code of the repository that it works in. What a comment, a string or a sentence says is addressed
to readers, as on a page, and so is all text of documents and of other people's packages. `find_reader_text` returns
that part of a tool's output. Output that cannot be attributed to a source file counts whole.
"""

from __future__ import annotations

import json
import os
import re
import shlex

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Hooks load this module, and have no time for `typing`.
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

_CODE = frozenset(
    """py pyi js jsx mjs cjs ts tsx go rs rb java kt kts c h cc cpp hpp cs swift php scala clj ex exs erl hs ml lua r jl
    sql css scss vue svelte dart zig nim pl pm sh bash zsh fish ps1 tf proto graphql""".split()
)
_SHELL_CODE = frozenset("sh bash zsh fish ps1".split())
_OF_OTHERS = frozenset(
    """node_modules bower_components vendor vendored third_party third-party thirdparty site-packages dist-packages
    venv .venv .tox .git .cargo pods dist downloads""".split()
)
_READERS = frozenset("read read_file readfile view view_file open_file".split())
_SEARCHERS = frozenset("grep grep_search search_file_content".split())
_SHELLS = frozenset("bash shell run_shell_command run_terminal_cmd exec_command local_shell execute_command".split())
_PATHS = ("file_path", "filePath", "absolute_path", "path")

_COMMENTS = ("#", "//", "/*", "*", "--", ";", "%", "<!--", '"""', "'''", "REM ", '"')
_LINE_NUMBER = "0123456789\t →|:"
# These are compiled when a text needs them: a hook has no time for patterns that it does not use.
_STRING = r'"(?:[^"\\]|\\.)*"' r"|'(?:[^'\\]|\\.)*'" r"|`(?:[^`\\]|\\.)*`"
_OPEN_STRING = r"[\"`].*"
_COMMENT = r"(?:^|\s)(?://|#|--\s|/\*|<!--).*"
_WORD = r"-{0,2}[^\W\d_][\w./@'-]*(?:\(\))?[.!?]?"
_UNSPACED = r"[\u2e80-\uffef]"
_MOST_WORDS = 2
_LONGEST_LINE = 400
_KEYWORDS = frozenset(
    """abstract alias and as assert async await begin bool boolean break byte case catch char class
    const constexpr constructor continue data debugger declare def default defer del delete do
    double dyn elif else elsif end enum ensure error except export extends extern false final
    finally float fn for foreach from fun func function global go goto if impl implements import
    in include infer inline instanceof int int64 interface internal is keyof lambda let long
    loop match mod module move mut namespace new nil none nonlocal not null number object open
    operator or out override package pass private protected protocol pub public raise readonly
    record ref require rescue return sealed self short static str string struct super switch
    table template then this throw throws trait true try type typedef typeof undefined union
    unless unsafe unsigned use using val var virtual void when where while with yield""".split()
)
_ADDRESSING_WORDS = frozenset(
    """the you your we our must always never please should every instead immer niemals bitte muss müssen siempre nunca
    debes toujours jamais devez sempre всегда никогда нужно""".split()
)

_BUILD_FILES = frozenset(("makefile", "gnumakefile", "justfile", ".justfile"))
_MANIFESTS = frozenset(("package.json", "composer.json"))
_DOCUMENTS = frozenset("readme notes note todo changelog changes history news install contributing hacking".split())
_TARGET = r"(?:\d+[:\t→]\s*)?@?([A-Za-z][\w-]*)\s*:(?!=)"
_NUMBERED = r"(?m)^\s*\d+[\t→]"

_OPERATOR = r"[();<>|&]+"
_NESTED = r"[`\n\r]|\$[({]"
_SILENCED = r"\s2>(?:/dev/null|&1)(?=\s|$)"
_MOST_CHARS = 2000
_LISTERS = frozenset("ls ll find fd tree pwd which".split())
_RUNNING = ("-exec", "-ok", "--exec", "-printf", "-fprint")
_VIEWERS = frozenset("cat head tail nl less bat".split())
_FILTERS = frozenset("head tail sort uniq wc".split())
_COUNT = r"-?[nc]?\d+|-[a-z]|--lines=\d+"
_LINES = r"['\"]?\d+(?:,\+?\d+)?p['\"]?"
_MATCH = r"(?P<path>[^\s:]+?\.\w+):(?:\d+:)?(?P<text>.*)"
_CONTEXT = r"(?P<path>[^\s:]+?\.\w+)-\d+-(?P<text>.*)"
_ONE_FILE = r"(?:[^\s:]+\.\w+[:-])?(?:\d+[:-])?"
_PATH_AGAIN = r"[\w./ -]*\.\w{1,9}[:-](?:\d|\S+:)"
_SEARCH_FLAGS = {"grep": "rRnHiEwFPlcsIvEL", "rg": "niwFlcSsuUP", "ag": "iwlcsQ"}
_SEARCH_VALUES = {"grep": "eABCm", "rg": "eABCmgtT", "ag": "ABCm"}
_SEARCH_WORDS = (
    *("--include=", "--exclude=", "--exclude-dir=", "--color=never", "--line-number", "--recursive"),
    *("--ignore-case", "--no-heading", "--glob=", "--type=", "--hidden", "--files-with-matches", "--count"),
)


def is_source(path: str) -> bool:
    """Return whether a path is that of source code, and not of somebody else's package."""
    return path.rpartition(".")[2].lower() in _CODE and not _is_of_others(path)


def _is_of_others(path: str) -> bool:
    return not _OF_OTHERS.isdisjoint(path.replace("\\", "/").lower().split("/"))


# -- the text of one file


def remove_code(text: str, path: str) -> str:
    """Return what a file says to its readers: of source code, its comments, sentences and strings of several words."""
    if not is_source(path):
        return text
    is_shell = path.rpartition(".")[2].lower() in _SHELL_CODE
    parts: list[str] = []
    for line in text.split("\n"):
        parts += _list_reader_text(line, is_shell)
    return "\n".join(parts)


def _list_reader_text(line: str, is_shell: bool) -> Iterator[str]:
    """Yield the parts of a line of source code that are addressed to readers."""
    bare = line.lstrip(_LINE_NUMBER)
    if len(bare) > _LONGEST_LINE or bare.startswith(_COMMENTS):
        yield line
        return
    if is_shell:
        # A script is made of commands, which look like sentences.
        yield from re.findall(_COMMENT, bare)
        return
    strings = re.findall(_STRING, bare)
    code = re.sub(_STRING, '""', bare)
    code = re.sub(_OPEN_STRING, "", code.replace('""', " = "))
    comments = re.findall(_COMMENT, code)
    code = re.sub(_COMMENT, "", code)
    if _is_prose(code):
        yield line
        return
    yield from comments
    yield from (string for string in strings if len(string.split()) > 1 or "://" in string)
    # A string or a comment may go on in the next line.
    if rest := re.search(_OPEN_STRING, re.sub(_STRING, "", bare)):
        yield rest[0]


def _is_prose(code: str) -> bool:
    """Return whether a line without its strings and comments reads like a sentence, or like a command in one."""
    tokens = code.split()
    if re.search(_UNSPACED, code):
        return True
    run = longest = 0
    for token in tokens:
        word = token.strip(".,:;!?()").casefold()
        if word in _ADDRESSING_WORDS:
            return True
        run = run + 1 if re.fullmatch(_WORD, token) and word not in _KEYWORDS else 0
        longest = max(longest, run)
    is_all = bool(tokens) and longest == len(tokens)
    is_name = len(tokens) == 1 and not re.search(r"\w[-/]\w", code)
    return longest > _MOST_WORDS or (is_all and not is_name)


def list_own_names(text: str, path: str) -> list[str]:
    """Return the names of the targets of a build file, or of the scripts of a package: they are there to be used."""
    name = path.rpartition("/")[2].lower()
    if _is_of_others(path):
        return []
    if name in _BUILD_FILES:
        return [match[1] for line in text.split("\n") if (match := re.match(_TARGET, line))]
    if name in _MANIFESTS:
        try:
            scripts = json.loads(re.sub(_NUMBERED, "", text)).get("scripts")
        except (ValueError, AttributeError):
            return []
        return [*scripts] if isinstance(scripts, dict) else []
    return []


# -- what a tool showed


class ReaderText:
    """What a tool's output says to its readers, and names in it that are there to be used."""

    __slots__ = ("names", "text")

    def __init__(self, text: str, names: Sequence[str] = ()) -> None:
        self.text = text
        self.names = names


def find_reader_text(tool: str, arguments: Mapping[str, Any], output: str, folder: str) -> ReaderText:
    """Return what the result of a call says to its readers: all of it, unless it shows files of the repository.

    `folder` is where the agent was. A tool of another server may call itself as it likes, so only known names count.
    """
    tool = tool.lower()
    path = next((str(arguments[name]) for name in _PATHS if arguments.get(name)), "")
    if tool in _READERS:
        return ReaderText(remove_code(output, path), list_own_names(output, path))
    if tool in _SEARCHERS:
        return _read_matches(output, [path or "."], folder)
    if tool in _SHELLS:
        command = arguments.get("command") or arguments.get("cmd")
        return _read_command(command, output, folder) if isinstance(command, str) else ReaderText(output)
    return ReaderText(output)


def lists_names(command: str) -> bool:
    """Return whether a command only prints the names of files and folders."""
    words, _ = _split_command(command, "")
    return bool(words) and _is_listing(words)


def _is_listing(words: Sequence[str]) -> bool:
    if words[:2] in (["git", "status"], ["git", "ls-files"]):
        return True
    runs = words[0] == "fd" and not {"-x", "-X"}.isdisjoint(words)
    return words[0] in _LISTERS and not runs and not any(word.startswith(_RUNNING) for word in words)


def _read_command(command: str, output: str, folder: str) -> ReaderText:
    words, folder = _split_command(command, folder)
    if not words:
        return ReaderText(output)
    program = words[0]
    if words[:2] == ["git", "grep"]:
        words, program = ["grep", "-r", *words[2:]], "grep"
    if program in _VIEWERS:
        files = [word for word in words[1:] if not re.fullmatch(_COUNT, word)]
        return _read_files(output, files, folder)
    if program == "sed" and words[1:2] == ["-n"] and re.fullmatch(_LINES, " ".join(words[2:3])):
        return _read_files(output, words[3:], folder)
    if program in _SEARCH_FLAGS:
        searched = _find_searched(program, words[1:])
        return _read_matches(output, searched, folder) if searched else ReaderText(output)
    return ReaderText(output)


def _are_counts(words: Sequence[str]) -> bool:
    return all(re.fullmatch(_COUNT, word) for word in words)


def _split_command(command: str, folder: str) -> tuple[list[str], str]:
    """Return the words of a command that does one thing, and the folder in which it runs; no words for another.

    It may change the folder before, and its output may be sorted or cut.
    """
    command = re.sub(_SILENCED, "", command.strip())
    if len(command) > _MOST_CHARS or re.search(_NESTED, command):
        return [], ""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        words = list(lexer)
    except ValueError:
        return [], ""
    if words[:1] == ["cd"] and words[2:3] == ["&&"]:
        place = _place_inside(words[1], folder)
        folder = os.path.join(folder, place) if place is not None else ""
        words = words[3:] if place is not None else []
    parts: list[list[str]] = [[]]
    for word in words:
        if word == "|":
            parts.append([])
        else:
            parts[-1].append(word)
    is_plain = all(part[:1] and part[0] in _FILTERS and _are_counts(part[1:]) for part in parts[1:])
    is_plain = is_plain and not any(re.fullmatch(_OPERATOR, word) for part in parts for word in part)
    return (parts[0], folder) if is_plain else ([], "")


def _place_inside(path: str, folder: str) -> str | None:
    """Return a path relative to the folder of the agent; None outside of it, and in other people's packages."""
    if path.startswith("~") or "$" in path or _is_of_others(f"{folder}/{path}"):
        return None
    if os.path.isabs(path):
        if not folder or not f"{path}/".startswith(folder.rstrip("/") + "/"):
            return None
        path = os.path.relpath(path, folder)
    place = os.path.normpath(path)
    return None if place.startswith("..") else place


def _read_files(output: str, files: Sequence[str], folder: str) -> ReaderText:
    """Return what files say that a command printed one after the other."""
    places = [_place_inside(file, folder) for file in files]
    if len(places) == 1 and places[0]:
        return ReaderText(_read_own(output, places[0]), list_own_names(output, places[0]))
    is_code = bool(places) and all(place and _is_plain_source(place) for place in places)
    return ReaderText(remove_code(output, str(places[0]))) if is_code else ReaderText(output)


def _is_plain_source(path: str) -> bool:
    """Return whether a path is that of source code other than a script of a shell, which may be planted."""
    return is_source(path) and path.rpartition(".")[2].lower() not in _SHELL_CODE


def _read_own(text: str, path: str) -> str:
    return remove_code(text, path) if _is_plain_source(path) else text


def _find_searched(program: str, words: Sequence[str]) -> list[str]:
    """Return the files and folders that a search names; none if its output may have another form."""
    flags, values = _SEARCH_FLAGS[program], _SEARCH_VALUES[program]
    has_pattern = is_value = False
    is_recursive = program != "grep"
    named: list[str] = []
    for word in words:
        if is_value:
            is_value = False
        elif word.startswith("--"):
            if not word.startswith(_SEARCH_WORDS):
                return []
            is_recursive = is_recursive or word == "--recursive"
        elif word.startswith("-") and len(word) > 1:
            letters = word[1:].rstrip("0123456789")
            if any(letter not in flags for letter in letters[:-1]) or letters[-1:] not in flags + values:
                return []
            has_pattern = has_pattern or letters.endswith("e")
            is_recursive = is_recursive or "r" in letters.lower()
            is_value = letters == word[1:] and letters[-1] in values
        else:
            named.append(word)
    files = named if has_pattern else named[1:]
    return ["."] if not files and is_recursive else files


def _read_matches(output: str, searched: Sequence[str], folder: str) -> ReaderText:
    """Return what the lines say that a search found. Each line names its file, unless one file was searched."""
    places = [_place_inside(file, folder) for file in searched]
    if all(place and _is_plain_source(place) for place in places):
        lines = [line[_find_text(line) :] for line in output.split("\n")]
        return ReaderText(remove_code("\n".join(lines), str(places[0])))
    # Without the name of its file, a line could say that it is from another one.
    only = places[0] if len(places) == 1 else "."
    if only is None or _may_be_document(only):
        return ReaderText(output)
    parts: list[str] = []
    for line in output.split("\n"):
        match = re.fullmatch(_MATCH, line) or re.fullmatch(_CONTEXT, line)
        path = _place_inside(match["path"], folder) if match else None
        is_within = path is not None and (only == "." or path.startswith(f"{only}/"))
        if match is None or path is None or not is_within or re.match(_PATH_AGAIN, match["text"]):
            parts.append(line)
        elif _is_plain_source(path):
            parts.append(remove_code(match["text"], path))
        else:
            parts.append(line)
    return ReaderText("\n".join(filter(None, parts)))


def _may_be_document(place: str) -> bool:
    """Return whether what a search names may be a document and not a folder."""
    name = place.rpartition("/")[2]
    return name.isupper() or name.lower() in _DOCUMENTS or "." in name.strip(".")


def _find_text(line: str) -> int:
    match = re.match(_ONE_FILE, line)
    return match.end() if match else 0
