"""From an error and two command lines to a sentence."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from ._change import Change, best, change, installs, kinship, same_ecosystem
from ._errors import Complaint, in_the_code, is_syntax, unclear
from ._shell import CARRIERS, Line, Part, name, plain

_FORM_CHARS = 110
_WORD_CHARS = 48


@dataclass(frozen=True)
class Told:
    rule: str
    family: str
    prefer: tuple[str, ...] = ()
    avoid: tuple[str, ...] = ()
    inline: bool = False
    """About code that was given on the command line."""


@dataclass(frozen=True)
class Case:
    """All there is to judge by."""

    command: str
    before: Line
    after: Line
    complaint: Complaint | None
    error: str

    @property
    def about(self) -> str:
        return self.complaint.about if self.complaint else ""

    @cached_property
    def part(self) -> Part:
        """The part that failed: the one the error is about, else the first of which another form worked."""
        about = self.about
        if about:
            for part in self.before.parts:
                if any(_is(word, about) for word in part.words):
                    return part
        for part in self.before.main:
            other = best(part, self.after)
            if other and other.words != part.words:
                return part
        return next((part for part in self.before.main if best(part, self.after)), self.before.main[0])

    @cached_property
    def change(self) -> Change | None:
        other = best(self.part, self.after)
        return change(self.part, other, self.before, self.after) if other else None

    @property
    def family(self) -> str:
        return self.part.family or " ".join(self.part.words[:2])

    @property
    def folder(self) -> str:
        """Where it was run the second time, if that was said and was elsewhere."""
        moved = self.after.folder and self.after.folder != self.before.folder
        return self.after.folder if moved and any(map(self._again, self.after.main)) else ""

    def _again(self, part: Part) -> bool:
        return any(kinship(own, part) >= 1 for own in self.before.main)


def tell(case: Case) -> Told | None:
    inline = _inline(case)
    if inline:
        return inline
    if case.complaint is None:
        return _unexplained(case)
    return _BY_KIND.get(case.complaint.kind, _another_form)(case)


# --- by what the error says ------------------------------------------------------------------------


def _program(case: Case) -> Told | None:
    missing = case.about
    part = case.part
    if not any(_is(word, missing) for word in part.words):
        return _backticks(case, missing)
    here = f"There is no `{missing}` here"
    if name(missing) in CARRIERS:
        return _carrier(case, missing)
    if case.folder and not _carried(case, missing):
        return Told(f"`{missing}` is not in every folder: first `cd {case.folder}`.", case.family)
    instead = _carried(case, missing) or _in_its_place(case, part)
    if instead:
        return Told(f"{here}: use `{instead}`.", case.family, (instead,), (missing,))
    installed = installs(case.after)
    if installed and name(missing) in {name(word) for word in (*installed.split(), *case.after.words)}:
        return Told(f"{here}: first `{_short(installed)}`.", case.family, (_short(installed),))
    return None


def _carrier(case: Case, missing: str) -> Told | None:
    """`timeout 5 run.sh`: what it was to carry ran without it, or was carried by another."""
    inner = Part(case.part.bare)
    other = next((part for part in case.after.parts if kinship(inner, part) > 0), None)
    if other is None:
        return None
    instead = other.words[0] if other.words[0] in CARRIERS else ""
    told = f"use `{instead}`" if instead else "run the command without it"
    rule = f"There is no `{missing}` here: {told}."
    return Told(rule, name(missing), (instead,) if instead else (), (missing,))


def _backticks(case: Case, missing: str) -> Told | None:
    if not re.search(rf"`[^`]*{re.escape(missing)}[^`]*`", case.command):
        return None
    rule = f"The shell runs what stands in backticks inside double quotes: put none into the text of `{case.family}`."
    return Told(rule, case.family) if case.change else None


def _carried(case: Case, missing: str) -> str:
    """The missing program by a path, or run by another: `./gradlew`, `python -m pytest`, `docker exec db psql`."""
    for part in case.after.main:
        for at, word in enumerate(part.words[:8]):
            if name(word) == name(missing) and (at or word != missing):
                return _short(" ".join(part.words[: at + 1]))
    return ""


def _in_its_place(case: Case, part: Part) -> str:
    """What stands where the missing program stood; the words after it show where that is."""
    words = part.bare
    for other in case.after.main:
        own, theirs = list(words), list(other.bare)
        while len(own) > 1 and len(theirs) > 1 and plain(own[-1]) == plain(theirs[-1]):
            own.pop()
            theirs.pop()
        if len(own) == 1 and len(words) > 1 and len(theirs) <= 4 and theirs[0] != own[0]:
            return " ".join(theirs)
    nearest = best(part, case.after) if part.bare else None
    if nearest and nearest.program != part.program:
        return nearest.family
    alone = [other for other in case.after.main if _shared_words(part, other) > 1]
    return alone[0].family if alone and alone[0].program != part.program else ""


def _option(case: Case) -> Told | None:
    found = case.change
    if found is None or not found.swapped:
        return None
    option = next((word for word in case.part.words if _is_option(word, case.about)), case.about)
    if option in found.worked.words:
        return _another_form(case)
    rule = f"`{case.family}` has no `{option}` here"
    added = _added(found)
    if added:
        return Told(f"{rule}: use `{added}`.", case.family, (added,), (option,))
    return Told(f"{rule}: leave it out.", case.family, avoid=(option,))


def _subcommand(case: Case) -> Told | None:
    if case.folder:
        return _place(case)
    other = next((part for part in case.after.main if part.program == case.part.program), None)
    other = other or (case.change.worked if case.change else None)
    if other is None or other.words == case.part.words:
        return None
    form = _form(other)
    return Told(f"There is no `{case.about}` here: use `{form}`.", case.family, (form,), (case.about,))


def _separator(case: Case) -> Told | None:
    sign = case.about or "&&"
    if sign not in case.before.operators or sign in case.after.operators or case.change is None:
        return None
    instead = "use `;`" if ";" in case.after.operators else "run the commands one by one"
    extra = ""
    flags = [(word, new) for word in case.change.removed for new in case.change.added if word[0] == new[0] == "-"]
    if flags:
        extra = f", and `{case.change.worked.program} {flags[0][1]}` instead of `{flags[0][0]}`"
    prefer = (";",) if ";" in case.after.operators else ()
    return Told(f"Windows PowerShell here rejects `{sign}`: {instead}{extra}.", "several commands", prefer, (sign,))


def _comment(case: Case) -> Told | None:
    if not case.change:
        return None
    return Told("zsh takes a `#` comment line for a command: send the command without the comment.", case.family)


def _glob(case: Case) -> Told | None:
    if case.change is None:
        return None
    pattern = case.about
    rule = f"zsh stops at a pattern that matches no file (`{_cut(pattern)}`)"
    for word in case.change.worked.words:
        if word != plain(word) and ("*" in word or "?" in word) and _alike_option(word, pattern):
            return Told(f"{rule}: quote it, as in `{_cut(word)}`.", case.family, (word,), (pattern,))
    form = _form(case.change.worked)
    return Told(f"{rule}: use `{form}`.", case.family, (), (pattern,))


def _path(case: Case) -> Told | None:
    about = case.about
    if not case.change:
        return None
    base = name(about)
    if about and base not in case.command and in_the_code(case.error):
        return None
    if case.folder:
        return _place(case)
    made = next((part for part in case.after.parts if part.program in ("mkdir", "touch", "New-Item")), None)
    if made and made.program != case.part.program:
        return Told(f"`{_cut(about)}` may not be there: first `{_form(made)}`.", case.family)
    old = next((word for word in case.change.removed if about and plain(word).endswith(about)), "")
    old = old or next((word for word in case.change.removed if base and base in plain(word)), "")
    new = next((word for word in case.change.added if base and name(word) == base), "")
    new = new or _nearest(old, case.change.added)
    if old and new:
        rule = f"Use `{_cut(new)}`, not `{_cut(old)}`: that is not there."
        return Told(rule, case.family, (plain(new),), (plain(old),))
    if not case.change.removed and not case.change.added:
        return None
    missing = about or (case.change.removed or ("it",))[0]
    return Told(f"`{_cut(missing)}` is not there: use `{_form(case.change.worked)}`.", case.family, (), (missing,))


def _module(case: Case) -> Told | None:
    installed = installs(case.after)
    if installed and same_ecosystem(case.before, installed):
        first = _short(installed)
        return Told(f"Module `{case.about}` may be missing: first `{first}`.", case.family, (first,))
    found = case.change
    if found is None:
        return None
    if found.env:
        return _another_form(case)
    start, other = found.failed.words[:2], found.worked.words[:2]
    if start[:1] != other[:1] and _shared_words(found.failed, found.worked):
        form = _form(found.worked)
        return Told(f"`{start[0]}` does not see module `{case.about}`: use `{form}`.", case.family, (form,))
    return _place(case) if case.folder else None


def _place(case: Case) -> Told | None:
    if case.folder:
        where = f"`{_cut(case.folder)}`"
        what = f"`{_cut(case.about)}` is not found elsewhere" if case.about else "it does not work elsewhere"
        return Told(f"Run `{case.family}` in {where} (`cd {_cut(case.folder)}` first): {what}.", case.family)
    return _another_form(case) if case.change and case.change.telling else None


def _database(case: Case) -> Told | None:
    found = case.change
    kind = case.complaint.kind if case.complaint else ""
    if found is None or not (found.added or found.removed):
        return None
    pairs = _valued(found.worked.words, found.added)
    if kind != "schema" and pairs and case.about:
        rule = f"There is no {kind} `{case.about}`: use `{_short(' '.join(pairs))}`."
        # With its option: the bare name of a role is a word like any other.
        wrong = " ".join(_valued(found.failed.words, found.removed)) or case.about
        return Told(rule, case.family, (_short(" ".join(pairs)),), (wrong,))
    look = next((word for word in found.added if _LOOKS.search(word)), "")
    if look:
        return Told(f"Look first with `{_cut(plain(look))}`: there is no `{case.about}`.", case.family)
    return Told(f"There is no `{case.about}`: use `{_form(found.worked)}`.", case.family, (), (case.about,))


_LOOKS = re.compile(r"\.(?:schema|tables)\b|\\d|(?i:\b(?:describe|show|pragma|information_schema|sqlite_master)\b)")


def _code_or_form(case: Case) -> Told | None:
    """An error that code can make as well: a lesson only if the command changed in a telling way."""
    return _another_form(case) if case.change and (case.change.telling or _mentioned(case)) else None


def _unexplained(case: Case) -> Told | None:
    found = case.change
    if found is None or not found.swapped or not unclear(case.error):
        return None
    if not (found.telling or case.folder) or not (found.only_flags or found.carried):
        return None
    return _another_form(case)


def _inline(case: Case) -> Told | None:
    """Code given on the command line that did not parse, and did as a file."""
    found = case.change
    flag = next((word for word in case.part.words if word in ("-c", "-e", "-E")), "")
    if not flag or found is None or not is_syntax(case.error) or flag in found.worked.words:
        return None
    rule = f"Code that does not fit one line fails in `{found.failed.program} {flag}`: write it to a file and run that."
    return Told(rule, f"{found.failed.program} {flag}", avoid=(f"{found.failed.program} {flag}",), inline=True)


# --- another form ----------------------------------------------------------------------------------

_PROBLEMS = {
    "permission": "`{0}` is not permitted here as it was",
    "managed": "The system's Python takes no packages",
    "peers": "`{0}` fails on peer dependencies here",
    "port": "The port is taken",
    "hang": "`{0}` does not end by itself here",
    "terminal": "`{0}` has no terminal here",
    "encoding": "`{0}` needs another encoding here",
    "memory": "`{0}` runs out of memory here",
    "certificate": "`{0}` does not trust the certificate here",
    "version": "`{0}` needs another version here",
    "interpreter": "`{0}` cannot be run that way here",
    "quoting": "The shell or the program misreads `{0}` as it was",
    "usage": "`{0}` needs more said here",
    "upstream": "The branch has no upstream",
    "daemon": "`{0}` does not reach the server as it was",
}


def _another_form(case: Case) -> Told | None:
    found = case.change
    kind = case.complaint.kind if case.complaint else ""
    if found is None:
        return None
    problem = _PROBLEMS.get(kind, "`{0}` fails here as it was").format(case.family)
    if found.env:
        env = " ".join(found.env[:3])
        return Told(
            f"{problem}: set `{_short(env)}`, as in `{_short(f'{env} {_form(found.worked)}')}`.", case.family, (env,)
        )
    added = _added(found)
    if found.carried:
        form = _form(found.worked)
        return Told(f"{problem}: use `{form}`.", case.family, (form,))
    if added or found.requoted:
        form = _form(found.worked) if found.requoted or len(_form(found.worked)) <= 60 else added
        avoid = tuple(word for word in found.removed if word.startswith("-"))[:2]
        return Told(f"{problem}: use `{form}`.", case.family, (added,) if added else (), avoid)
    if found.removed:
        gone = _short(" ".join(found.removed))
        return Told(f"{problem}: leave out `{gone}`.", case.family, avoid=(gone,))
    return _place(case) if case.folder else None


def _mentioned(case: Case) -> bool:
    """Whether the error names what the second form has and the first had not."""
    new = case.change.added if case.change else ()
    return any(len(plain(word)) > 3 and plain(word) in case.error for word in new)


def _added(found: Change) -> str:
    words = _valued(found.worked.words, found.added)
    words = [word for word in words if word not in found.worked.family.split()]
    return _short(f"{found.worked.family} {' '.join(words)}") if words else ""


def _valued(words: Sequence[str], chosen: Sequence[str]) -> list[str]:
    """The chosen words, each value with the flag before it."""
    out: list[str] = []
    for at, word in enumerate(words):
        if word in chosen:
            before = words[at - 1] if at else ""
            if before.startswith("-") and not word.startswith("-") and before not in chosen:
                out.append(before)
            out.append(word)
    return out


def _form(part: Part) -> str:
    return _short(" ".join(_cut(word) for word in part.words))


def _cut(word: str) -> str:
    flat = " ".join(word.split())
    return flat if len(flat) <= _WORD_CHARS * (2 if "/" in flat else 1) else flat[: _WORD_CHARS - 1] + "…"


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _FORM_CHARS else flat[: _FORM_CHARS - 1].rstrip() + "…"


def _is(word: str, about: str) -> bool:
    bare = plain(word)
    return bare == about or name(word) == name(about) or _is_option(word, about) or bare.endswith("/" + about)


def _is_option(word: str, about: str) -> bool:
    if not word.startswith(("-", "/")) or not about:
        return False
    if len(about.lstrip("-")) == 1:
        return bool(re.match(r"-[A-Za-z]*$", word)) and about.lstrip("-") in word
    return word.split("=")[0].lstrip("-") == about.split("=")[0].lstrip("-")


def _alike_option(word: str, pattern: str) -> bool:
    return word.split("=")[0] == pattern.split("=")[0] or plain(word) == pattern


def _shared_words(one: Part, other: Part) -> int:
    mine = {plain(word) for word in one.words if not word.startswith("-")}
    return len(mine & {plain(word) for word in other.words})


def _nearest(old: str, new: Sequence[str]) -> str:
    """Of the new words the one most like the old: a path that was mistyped."""
    import difflib

    near = difflib.get_close_matches(plain(old), [plain(word) for word in new], 1, 0.5) if old else []
    return next((word for word in new if near and plain(word) == near[0]), "")


_BY_KIND: dict[str, Callable[[Case], Told | None]] = {
    "program": _program,
    "option": _option,
    "subcommand": _subcommand,
    "separator": _separator,
    "comment": _comment,
    "glob": _glob,
    "path": _path,
    "module": _module,
    "place": _place,
    "role": _database,
    "database": _database,
    "schema": _database,
    "permission": _code_or_form,
    "hang": _code_or_form,
    "encoding": _code_or_form,
    "memory": _code_or_form,
    "daemon": _code_or_form,
    "port": _code_or_form,
}
