"""Remove secrets from a text before it is stored.

A *shape* is a secret by its form alone, such as a provider's own prefix. A *phrase* is known by what stands beside it
(`password=`, `--token`, "my password is …"), so its value must also look like a secret. The rules, their patterns and
the vocabulary are in `secret_rules.json`: hooks read it in each process, and `json` is already loaded there while
`tomllib` would cost several milliseconds. A pattern is compiled when it is first used.

A text is searched once per rule, so no pattern may look far from each of many starting points: repeats before a
required tail are bounded or cannot start inside themselves. The time stays linear in the text.
"""

from __future__ import annotations

import binascii
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache

with open(os.path.join(os.path.dirname(__file__), "secret_rules.json"), encoding="utf-8") as _file:
    DATA = json.load(_file)
COMMON_WORDS, FUNCTION_WORDS, _DESCRIPTIVE_WORDS = (
    frozenset(" ".join(DATA["words"][name]).split()) for name in ("common", "function", "descriptive")
)
DESCRIPTIONS = COMMON_WORDS | FUNCTION_WORDS | _DESCRIPTIVE_WORDS
Span = tuple[int, int]
_SHORTEST_SHAPE = 15
_LONGEST_NAME = 24
_SHORTEST_WRAPPED = 30
_NARROWEST_LINE = 60  # Nothing wraps shorter lines.
_WIDEST_LINE = 400  # No line of titles is longer.
_WIDEST_PADDING = 40
_PADDING = " \r\"'`*"
_SEPARATORS = ("|", ",", ";", "\t", "\n")
_TITLE_ENDS = frozenset((*_SEPARATORS, *_PADDING))


def redact(text: str) -> str:
    """Return the text with each secret replaced by ``[REDACTED:<name>]``."""
    text = _remove_secrets(text)
    if not text.isascii() and contains("invisible", text):
        # Zero-width characters can cut a secret in two. They go only if that uncovers one: emoji need them.
        visible = named_pattern("invisible").sub("", text)
        clear = _remove_secrets(visible)
        return text if clear == visible else clear
    return text


def name_value(fields: Mapping[str, object], field: str) -> str:
    """Return what the value of a field is called: in `{"name": "DB_PASSWORD", "value": …}`, DB_PASSWORD."""
    if field.lower() == "value":
        for title in ("name", "Name", "key", "Key"):
            name = fields.get(title)
            if isinstance(name, str) and matches("identifier", name):
                return name
    return field


def count_removed(before: str, after: str) -> dict[str, int]:
    """Return how many secrets of each kind `redact` removed from a text."""
    counts: dict[str, int] = {}
    if before != after:
        for text, step in ((before, -1), (after, 1)):
            for kind in named_pattern("mark").findall(text):
                counts[kind] = counts.get(kind, 0) + step
    return {kind: number for kind, number in counts.items() if number > 0}


def _remove_secrets(plain: str) -> str:
    text = ScannedText(plain)
    # A secret's removal can lay bare another (`a:b@c` chains), so repeat until nothing changes.
    for _ in range(6):
        unchanged = text.plain
        for rule in select_rules(text):
            pieces: list[str] = []
            done = 0
            for start, end in find_spans(rule, text):
                # Without a name of its own, it is called by the nearest word before it.
                before = text.plain[max(0, start - 60) : start].lower()
                nearest = max(DATA["names"], key=before.rfind)
                name = rule.id or (DATA["names"][nearest] if nearest in before else "secret")
                pieces += (text.plain[done:start], f"[REDACTED:{name}]")
                done = end
            if pieces:
                text = ScannedText("".join(pieces) + text.plain[done:])
        if text.plain == unchanged:
            break
    return text.plain


# -- whether a value looks like a secret


@cache
def compile_pattern(source: str) -> re.Pattern[str]:
    """Return a compiled pattern with `{link}` filled in."""
    return re.compile(source.replace("{link}", "".join(DATA["patterns"]["link"])))


@cache
def named_pattern(name: str) -> re.Pattern[str]:
    """Return the compiled pattern of this name in the data file."""
    return compile_pattern("".join(DATA["patterns"][name]))


def matches(name: str, value: str) -> bool:
    """Return whether the named pattern matches the start of the value."""
    return named_pattern(name).match(value) is not None


def contains(name: str, value: str) -> bool:
    """Return whether a value matches the named pattern anywhere."""
    return named_pattern(name).search(value) is not None


def is_placeholder(value: str) -> bool:
    """Return whether a value is a placeholder and not a secret."""
    if len(set(value)) < 3 or contains("placeholder", value):
        return True
    # Filled up with one character; but some tokens begin with many of one.
    return contains("filler", value) and len(named_pattern("filler").sub("", value)) < 24


def is_opaque(value: str) -> bool:
    """Return whether the value looks random: letters and digits are mixed as in no word with a number at its end."""
    if len(value) < 8 or len(set(value)) < 6 or " " in value or matches("words", value) or matches("camel_case", value):
        return False
    if contains("digit", value):
        return contains("letter", value) or len(value) >= 20
    return len(value) >= 20 and is_mixed_case(value) and "." not in value.strip(".")


def is_mixed_case(value: str) -> bool:
    """Return whether a value has both upper-case and lower-case letters."""
    return value != value.lower() and value != value.upper()


def is_description(word: str) -> bool:
    """Return whether people describe passwords with this word."""
    return word in DESCRIPTIONS or (len(word) > 4 and contains("description", word))


def is_passphrase(value: str, least: int) -> bool:
    """Return whether these words are a passphrase; prose of that length has function words or descriptions."""
    words = re.split("[ -]", value)
    if len(words) < least or not FUNCTION_WORDS.isdisjoint(words):
        return False
    return sum(map(is_description, words)) <= len(words) // 4


def _is_password(value: str, bare: bool, terse: bool) -> bool:
    """People choose passwords: a letter and a digit are enough; a lone word, only where no prose can be."""
    if len(value) < 4 or " " in value or value.lower() in COMMON_WORDS:
        return False
    if not terse and (matches("technical_term", value) or (bare and matches("camel_case", value))):
        return False
    if value.isdigit():
        return len(value) >= 6
    if not contains("letter", value):
        return False
    if contains("digit", value):
        return len(value) >= 5 or terse
    if contains("sign", value):
        return len(value) >= 6
    return terse or (not bare and len(value) >= 8 and value.islower() and value.isalpha())


def is_secret(value: str, family: str, bare: bool = True, terse: bool = False) -> bool:
    """Return whether a value is a secret, given what its name makes it.

    Args:
        family: "password", or the kind of a generated value.
        bare: the value is not in quotes.
        terse: the value is written where no prose and no code can be, as in `NAME=value`.
    """
    if family == "password":
        is_likely = _is_password(value, bare, terse)
    else:
        is_short_secret = terse and len(value) >= 6 and contains("digit", value) and contains("letter", value)
        is_likely = is_short_secret or is_opaque(value)
    if not is_likely or matches("path", value) or matches("reference" if bare else "quoted_reference", value):
        return False
    return not is_placeholder(value)


def is_telling(value: str, family: str) -> bool:
    """Return whether the value, found in a sentence, has a digit or a sign where no word has one."""
    if not (contains("digit", value) or (family == "password" and contains("prose_sign", value[:-1]))):
        return False
    return not matches("technical_term", value) and not matches("email", value) and is_secret(value, family)


def decode_base64(blob: str) -> str:
    """Return the ASCII text inside a base64 blob, or nothing."""
    bare = blob.rstrip("=")
    if "_" in bare:
        bare = bare.replace("-", "+").replace("_", "/")
    try:
        return binascii.a2b_base64(bare + "=" * (-len(bare) % 4)).decode("ascii")
    except ValueError:
        return ""


def is_card_number(value: str) -> bool:
    """Return whether the digits of a value have a valid card checksum."""
    digits = [int(sign) for sign in value if sign.isdigit()]
    total = sum(digits[-1::-2]) + sum(sum(divmod(2 * digit, 10)) for digit in digits[-2::-2])
    # The cards printed in every payment tutorial repeat one or two digits.
    return total % 10 == 0 and len(set(digits)) > 3


def is_iban(value: str) -> bool:
    """Return whether a value has the length and the checksum of an IBAN."""
    flat = value.replace(" ", "")
    number = "".join(str(int(sign, 36)) for sign in flat[4:] + flat[:4])
    return 15 <= len(flat) <= 34 and int(number) % 97 == 1


# -- where secrets are


class ScannedText:
    """A text and what many rules ask of it."""

    def __init__(self, plain: str) -> None:
        self.plain = plain
        self.folded = plain.lower() if plain.isascii() else fold_case(plain)
        words = plain.split()
        self.longest = max(map(len, words), default=0)
        self.long = " ".join([word for word in words if len(word) >= _SHORTEST_SHAPE])
        self._known: dict[tuple[str, ...], bool] = {}

    def has_any(self, words: tuple[str, ...]) -> bool:
        """Return whether one of these words is in the lower-case text. Rules that ask for the same share the answer."""
        if words not in self._known:
            self._known[words] = any(word in self.folded for word in words)
        return self._known[words]


def fold_case(text: str) -> str:
    """Lower case, character by character: what a pattern that ignores case takes for the same letter."""
    return text.replace("\u0130", "i").replace("\u0131", "i").replace("\u017f", "s").lower()


class SecretRule:
    """A rule that finds one kind of secret: the fields in `secret_rules.json` and their defaults."""

    id: str = ""  # What it is called in the text; without one, the word before the secret decides.
    keywords: tuple[str, ...] = ("",)  # Without one of these the pattern cannot match; in lower case with `fold`.
    pattern: str = ""  # Its group `s` is the secret, otherwise the whole match.
    fold: bool = False  # Case is ignored.
    needs: str = ""  # One of these characters must be in the text too.
    number: bool = False  # A long number must be in the text too: of a card or an account, maybe in groups.
    run: int = 0  # So many characters without a space must be in the text; if case matters, a keyword is among such.
    unless: str = ""  # This must not be in the text.
    also: tuple[str, ...] = ()  # One of these must be in the lower-case text too: rarer words than the keywords.
    anchor: str = ""  # A match begins where this pattern matches in the lower-case text.
    near: str = ""  # A match is near a match of this pattern in the lower-case text, if the group of that matched.
    within: str = ""  # A match is inside a group of this pattern.
    unless_before: str = ""  # The name of a pattern that must not be found in the text right before.
    value: str = ""  # How to find it: "next", "said", "assigned", "password", "column"; otherwise it is in the match.
    family: str = "token"
    terse: bool = False
    checks: tuple[str, ...] = ("real",)
    wrappable: bool = False  # Also looked for in base64.

    def __init__(self, fields: dict[str, object]) -> None:
        self.__dict__.update(fields)
        self.pattern = "".join(self.pattern)
        self.also = tuple(self.also)
        self.anchor = "".join(self.anchor)
        self.near = "".join(self.near)
        self.within = "".join(self.within)


RULES = tuple(SecretRule(group["defaults"] | fields) for group in DATA["groups"] for fields in group["rules"])
_BY_KEYWORD: tuple[dict[str, list[int]], ...] = ({}, {}, {})
for _number, _rule in enumerate(RULES):
    for _keyword in _rule.keywords:
        _BY_KEYWORD[0 if _rule.fold else 2 if _rule.run else 1].setdefault(_keyword, []).append(_number)


def select_rules(text: ScannedText) -> list[SecretRule]:
    """Return the rules that may match, in the order in which they are tried: a keyword and what else they ask for."""
    numbers: set[int] = set()
    for by_keyword, area in zip(_BY_KEYWORD, (text.folded, text.plain, text.long), strict=True):
        if area:
            numbers.update(*[matching for keyword, matching in by_keyword.items() if keyword in area])
    return [
        rule
        for rule in (RULES[number] for number in sorted(numbers))
        if text.longest >= rule.run
        and not (rule.unless and rule.unless in text.plain)
        and (not rule.number or contains("long_number", text.plain))
        and (not rule.needs or any(sign in text.plain for sign in rule.needs))
        and (not rule.also or text.has_any(rule.also))
    ]


def find_spans(rule: SecretRule, text: ScannedText) -> list[Span]:
    """Return where the secrets of one rule are."""
    if rule.value == "column":
        return find_cells(text)
    spans: list[Span] = []
    end = 0
    for match in _find_matches(rule, text):
        span = _find_secret(rule, match) if match.start() >= end else None
        if span and not _is_marked(text.plain, span[0]):
            end = _find_wrapped_end(text.plain, *span)
            spans.append((span[0], end))
    return spans


def _is_marked(text: str, start: int) -> bool:
    """Return whether this place is inside the mark of a secret that was removed."""
    before = text[max(0, start - 30) : start]
    return before.rfind("[REDACTED:") > before.rfind("]")


def _find_wrapped_end(text: str, start: int, end: int) -> int:
    """Return where a secret ends that goes on in the next lines, as a mail or a terminal wraps a long token."""
    if end - start < _SHORTEST_WRAPPED or text[end : end + 1] not in ("\n", "\r"):
        return end
    line_start = text.rfind("\n", max(0, start - _WIDEST_LINE), start) + 1
    line = text[line_start:end]
    indent = len(line) - len(line.lstrip())
    while rest := named_pattern("continuation").match(text, end):
        is_indented = len(rest["indent"]) > indent
        is_wrapped = len(rest["indent"]) == indent and len(line) >= _NARROWEST_LINE
        # A digest below a token is a line of its own.
        is_digest = matches("hexadecimal", rest["rest"]) and not matches("hexadecimal", text[start:end])
        if not (is_indented or is_wrapped) or is_digest or not is_opaque(rest["rest"]):
            break
        end = rest.end()
    return end


def _find_matches(rule: SecretRule, text: ScannedText) -> Iterator[re.Match[str]]:
    done = 0
    if rule.near:
        for near in compile_pattern(rule.near).finditer(text.folded):
            if near[1] is not None:
                begin, done = max(done, near.start() - _LONGEST_NAME), near.end()
                yield from compile_pattern(rule.pattern).finditer(text.plain, begin, done)
    elif rule.within:
        for area in compile_pattern(rule.within).finditer(text.plain):
            yield from compile_pattern(rule.pattern).finditer(text.plain, *area.span(area.lastindex or 0))
    elif rule.anchor:
        for anchor in compile_pattern(rule.anchor).finditer(text.folded):
            match = compile_pattern(rule.pattern).match(text.plain, anchor.start()) if anchor.start() >= done else None
            if match:
                done = match.end()
                yield match
    else:
        yield from compile_pattern(rule.pattern).finditer(text.plain)


def _find_secret(rule: SecretRule, match: re.Match[str]) -> Span | None:
    """Return where the secret beside or in a match is; nothing if the value does not pass the checks of its rule."""
    text, bare = match.string, True
    span: Span | None
    if rule.value == "assigned":
        span = _find_assigned(match)
    elif rule.value == "password":
        span = _find_password(match)
    else:
        if rule.value == "next":
            start, end, bare = _find_value(text, match.end())
        elif rule.value == "said":
            value_match = named_pattern("said_value").match(text, match.end())
            bare_end = match.end() + len(value_match[0].rstrip(".,;:)!?")) if value_match else match.end()
            start, end = _find_quoted(text, match.end()) or (match.end(), bare_end)
        else:
            start, end = match.span("s" if "s" in match.re.groupindex else 0)
        value = text[start:end].replace(" ", "") if rule.value and rule.terse and not bare else text[start:end]
        is_found = all(CHECKS[check](value, rule, bare) for check in rule.checks)
        span = (start, _find_end(text, start, end) if rule.value else end) if is_found else None
    if span and rule.unless_before and contains(rule.unless_before, text[max(0, match.start() - 600) : match.start()]):
        return None
    return span


CHECKS: dict[str, Callable[[str, SecretRule, bool], bool]] = {
    "real": lambda value, rule, bare: not is_placeholder(value),
    "literal": lambda value, rule, bare: value.lower() not in COMMON_WORDS and not matches("reference", value),
    "opaque": lambda value, rule, bare: is_opaque(value),
    # For prefixes that words may also carry: `sk-` is a CSS family, `hf_` a variable's.
    "opaque_part": lambda value, rule, bare: any(
        len(part) >= 12 and is_opaque(part) for part in re.split("[-_.]", value)
    ),
    "credentials": lambda value, rule, bare: ":" in decode_base64(value),
    "card_number": lambda value, rule, bare: is_card_number(value),
    "iban": lambda value, rule, bare: is_iban(value),
    "secret": lambda value, rule, bare: is_secret(value, rule.family, bare, rule.terse or not bare),
    "likely": lambda value, rule, bare: is_secret(value, rule.family, bare, rule.terse),
    "telling": lambda value, rule, bare: is_telling(value, rule.family),
    "wrapped": lambda value, rule, bare: _wraps_secret(value),
}


def _wraps_secret(value: str) -> bool:
    inner = decode_base64(value)
    if not inner or not re.sub(r"[\r\n\t]", " ", inner).isprintable():
        return False
    text = ScannedText(inner)
    # In an object, what is beside a value tells as much as its form.
    is_object = inner.lstrip()[:1] in ("{", "[")
    return any((rule.wrappable or (is_object and rule.value)) and find_spans(rule, text) for rule in select_rules(text))


def _find_value(text: str, pos: int) -> tuple[int, int, bool]:
    """Return where the value at `pos` starts and ends, and whether it is bare of quotes. It may be empty."""
    if text.startswith("\\", pos) and (continued := named_pattern("continued_line").match(text, pos)):
        pos = continued.end()
    opening = named_pattern("opening_quote").match(text, pos)
    if opening:
        pos = opening.end()
        close = text.find(opening["q"], pos, pos + 1024)
        if close > pos and "\n" not in text[pos:close]:
            return pos, close, False
    bare = named_pattern("bare_value").match(text, pos)
    cut = named_pattern("value_end").search(bare[0]) if bare else None
    return pos, pos + cut.start() if cut else bare.end() if bare else pos, True


def _find_end(text: str, start: int, end: int) -> int:
    """Values are judged by their first 200 characters; one that is a secret is removed whole."""
    rest = named_pattern("value_rest").match(text, end) if end - start >= 200 else None
    return rest.end() if rest else end


def _find_assigned(match: re.Match[str]) -> Span | None:
    """Return where the value is that a name such as `api_key` is given."""
    text, family = match.string, str(match.lastgroup)
    sign = named_pattern("assignment").match(text, match.end())
    if not sign:
        return None
    start, end, bare = _find_value(text, sign.end())
    value = text[start:end]
    before = text[max(0, match.start() - 80) : match.start()]
    is_option = "--" in before[-14:]
    # A shell's `--password='two words'`, or a password in quotes.
    if not bare and " " in value and (is_option or (family == "password" and _has_no_prose(value))):
        value = value.replace(" ", "")
    # NAME=value as in a shell, --name=value, or a.b.name=value: code and prose are not written so.
    is_terse = bare and sign["op"] == "=" and not sign["sp"] and start == sign.end()
    is_property = contains("digit", value) and contains("property_path", before)
    terse = is_terse and (match[0].isupper() or is_option or is_property)
    if sign["list"] and (not contains("digit", value) or matches("technical_term", value)):
        return None
    if family == "session" and matches("uuid", value):
        return None
    if len(value) < 16 and (family == "session" or match[0] == "KEY"):
        return None
    if text[end : end + 1] in ("(", "[") or not is_secret(value, family, bare, terse):
        return None
    return start, _find_end(text, start, end)


def _has_no_prose(value: str) -> bool:
    """Return whether a quoted value of some words is a password: with a digit or a sign, and without words of prose."""
    words = [word.strip(".,:;!?").lower() for word in value.split()]
    if len(words) > 5 or not contains("digit", value) or contains("amount", value):
        return False
    return not any(word in COMMON_WORDS or is_description(word) for word in words)


def find_cells(text: ScannedText) -> list[Span]:
    """Return where the secrets are in the columns of tables that are called `password`, `api_key` or alike."""
    plain, folded = text.plain, text.folded
    places: set[int] = set()
    for name in DATA["columns"]:
        end = 0
        while (start := folded.find(name, end)) >= 0:
            end = start + len(name)
            if folded[end : end + 1] not in _TITLE_ENDS:
                continue
            if folded[end : end + _WIDEST_PADDING].lstrip(_PADDING)[:1] in _SEPARATORS:
                line_start = plain.rfind("\n", max(0, start - _WIDEST_LINE), start) + 1
                if line_start or start <= _WIDEST_LINE:
                    places.add(line_start)
    spans: list[Span] = []
    done = 0
    for place in sorted(places):
        if place >= done:
            cells, done = _read_table(plain, place)
            spans += [span for span in cells if not _is_marked(plain, span[0])]
    return spans


def _read_table(text: str, start: int) -> tuple[list[Span], int]:
    """Return the secrets of the table whose first line begins at `start`, and where the table ends."""
    line_end = text.find("\n", start, start + 2 * _WIDEST_LINE)
    if line_end < 0:
        return [], start + 1
    header = text[start:line_end]
    separator = max("|,;\t", key=header.count)
    titles = [header[slice(*cell)].lower() for cell in _split_cells(header, separator)]
    columns: dict[int, str] = {}
    for number, title in enumerate(titles):
        if name := named_pattern("column_name").match(title):
            columns[number] = "password" if name["password"] else "token"
    # A Markdown table begins and ends with a bar.
    filled = titles if separator != "|" else list(filter(None, titles))
    is_header = len(filled) > 1 and all(filled) and all(matches("title", title) for title in filled)
    if not columns or not is_header:
        return [], start + 1
    spans: list[Span] = []
    place = line_end + 1
    while place < len(text):
        line_end = text.find("\n", place)
        line_end = len(text) if line_end < 0 else line_end
        row = text[place:line_end]
        if not matches("table_rule", row):
            cells = _split_cells(row, separator)
            if len(cells) != len(titles):
                break
            for number, family in columns.items():
                cell_start, cell_end = cells[number]
                if is_secret(row[cell_start:cell_end], family):
                    spans.append((place + cell_start, place + cell_end))
        elif not row.strip():
            break
        place = line_end + 1
    return spans, place


def _split_cells(line: str, separator: str) -> list[Span]:
    """Return where the cells of a line of a table are, without quotes and spaces around them."""
    cells: list[Span] = []
    start = end = 0
    quotes = 0
    for piece in line.split(separator):
        end += len(piece)
        quotes += piece.count('"')
        if quotes % 2 == 0:  # Otherwise the separator is inside quotes.
            cell = line[start:end]
            inner_start = start + len(cell) - len(cell.lstrip(_PADDING))
            cells.append((inner_start, max(inner_start, start + len(cell.rstrip(_PADDING)))))
            start = end + 1
        end += 1
    return cells


def _find_quoted(text: str, pos: int) -> Span | None:
    """Return where the text inside the quotes that open at `pos` starts and ends."""
    line = text[pos + 1 : pos + 160].partition("\n")[0]
    ends = [at for sign in DATA["quotes"].get(text[pos : pos + 1], "") if (at := line.find(sign)) > 0]
    if not ends:
        return None
    inner = line[: min(ends)]
    start = pos + 1 + len(inner) - len(inner.lstrip())
    return start, start + len(inner.strip())


def _find_password(match: re.Match[str]) -> Span | None:
    """Return where the password of a sentence is.

    "My password is too short" has the same form as a sentence that gives a password away. A value with a digit or a
    sign in it is taken for a secret. A plain word is taken for one only where it ends its clause and is not a word
    that people use to describe passwords. Plain words are judged in English only; in other languages they must be in
    quotes.
    """
    text, start, name = match.string, match.end(), (match["en"] or "").lower()
    is_said, is_listed = match["is"] is not None, match["sign"] is not None
    quoted = _find_quoted(text, start)
    if quoted and (is_said or is_listed):
        return quoted if _is_quoted_password(text[slice(*quoted)], "phrase" in name, is_said) else None
    bare = named_pattern("said_value").match(text, start)
    if bare is None:
        return quoted if quoted and name and _is_beside_password(match, name, quoted) else None
    value = bare[0].rstrip(".,;:)")
    if is_telling(value, "password"):
        return start, start + len(value)
    if not name or not (is_said or is_listed):
        return None
    value = value.rstrip("!?.")
    before = text[max(text.rfind("\n", 0, match.start()) + 1, match.start() - 120) : match.start()]
    rest = text[start : start + 160]
    if contains("code", before + rest.partition("\n")[0]):
        return None
    phrase = named_pattern("phrase").match(rest)
    if phrase and is_passphrase(phrase[0], 3 if "phrase" in name or "-" in phrase[0] else 4):
        return start, start + len(phrase[0])
    end = start + len(value)
    if len(value) < 4 or not named_pattern("clause_end").match(text, end) or contains("request", before):
        return None
    if value.lower() in DESCRIPTIONS or is_placeholder(value):
        return None
    if is_listed and contains("user_field", before):
        is_password = value.replace("_", "").replace("-", "").isalpha()
    elif not value.isalpha() or is_description(value.lower()):
        is_password = False
    else:
        is_password = value.islower() and len(value) >= 5 if is_listed else contains("owner", before)
    return (start, end) if is_password else None


def _is_quoted_password(value: str, is_phrase: bool, is_said: bool) -> bool:
    words = value.lower().split()
    if is_placeholder(value) or matches("reference", value):
        return False
    if len(words) == 1:
        return is_said and len(value) >= 4 and not is_description(words[0])
    is_prose = not FUNCTION_WORDS.isdisjoint(words) and not (is_phrase and not is_description(words[0]))
    return not is_prose and (is_said or len(words) > 2)


def _is_beside_password(match: re.Match[str], name: str, span: Span) -> bool:
    """Return whether quotes right after the word hold a password: `ssh pass "…"`, but not `pass "…" to the parser`."""
    value, text = match.string[slice(*span)], match.string
    if value.startswith("-") or matches("technical_term", value) or not is_secret(value, "password", bare=False):
        return False
    if name != "pass":
        return True
    if contains("hand_over", text[max(0, match.start() - 10) : match.start()]):
        return False
    if named_pattern("receiver").match(text, span[1]):
        return False
    has_sign = contains("digit", value) and contains("rare_sign", value)
    return has_sign or (is_opaque(value) and is_mixed_case(value))
