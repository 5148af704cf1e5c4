"""Decide whether a value looks like a secret.

The vocabulary, the patterns and the rules are in `secret_rules.json`: hooks read it in each process, and `json` is
already loaded there while `tomllib` would cost several milliseconds. A pattern is compiled when it is first used.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from functools import cache

with open(os.path.join(os.path.dirname(__file__), "secret_rules.json"), encoding="utf-8") as _file:
    DATA = json.load(_file)
COMMON_WORDS, FUNCTION_WORDS, _DESCRIPTIVE_WORDS = (
    frozenset(" ".join(DATA["words"][name]).split()) for name in ("common", "function", "descriptive")
)
DESCRIPTIONS = COMMON_WORDS | FUNCTION_WORDS | _DESCRIPTIVE_WORDS


@cache
def compile_pattern(source: str) -> re.Pattern[str]:
    return re.compile(source.replace("{link}", "".join(DATA["patterns"]["link"])))


@cache
def named_pattern(name: str) -> re.Pattern[str]:
    return compile_pattern("".join(DATA["patterns"][name]))


def matches(name: str, value: str) -> bool:
    """Whether the named pattern matches the start of the value."""
    return named_pattern(name).match(value) is not None


def contains(name: str, value: str) -> bool:
    return named_pattern(name).search(value) is not None


def is_placeholder(value: str) -> bool:
    if len(set(value)) < 3 or contains("placeholder", value):
        return True
    # Filled up with one character; but some tokens begin with many of one.
    return contains("filler", value) and len(named_pattern("filler").sub("", value)) < 24


def is_opaque(value: str) -> bool:
    """Whether the value looks random: letters and digits are mixed as in no word with a number at its end."""
    if len(value) < 8 or len(set(value)) < 6 or " " in value or matches("words", value) or matches("camel_case", value):
        return False
    if contains("digit", value):
        return contains("letter", value) or len(value) >= 20
    return len(value) >= 20 and is_mixed_case(value) and "." not in value.strip(".")


def is_mixed_case(value: str) -> bool:
    return value != value.lower() and value != value.upper()


def is_description(word: str) -> bool:
    """Whether people describe passwords with this word."""
    return word in DESCRIPTIONS or (len(word) > 4 and contains("description", word))


def is_passphrase(value: str, least: int) -> bool:
    """Whether these words are a passphrase: prose of that length has a function word or two descriptions in it."""
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
    """Whether a value is a secret, given what its name makes it.

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
    """Whether the value, found in a sentence, has a digit or a sign where no word has one."""
    if not (contains("digit", value) or (family == "password" and contains("prose_sign", value[:-1]))):
        return False
    return not matches("technical_term", value) and not matches("email", value) and is_secret(value, family)


def decode_base64(blob: str) -> str:
    """Return the ASCII text inside a base64 blob, or nothing."""
    import binascii

    bare = blob.rstrip("=")
    if "_" in bare:
        bare = bare.replace("-", "+").replace("_", "/")
    try:
        return binascii.a2b_base64(bare + "=" * (-len(bare) % 4)).decode("ascii")
    except ValueError:
        return ""


def is_card_number(value: str) -> bool:
    digits = [int(sign) for sign in value if sign.isdigit()]
    total = sum(digits[-1::-2]) + sum(sum(divmod(2 * digit, 10)) for digit in digits[-2::-2])
    # The cards printed in every payment tutorial repeat one or two digits.
    return total % 10 == 0 and len(set(digits)) > 3


def is_iban(value: str) -> bool:
    flat = value.replace(" ", "")
    number = "".join(str(int(sign, 36)) for sign in flat[4:] + flat[:4])
    return 15 <= len(flat) <= 34 and int(number) % 97 == 1


CHECKS: dict[str, Callable[[str], bool]] = {
    "real": lambda value: not is_placeholder(value),
    "literal": lambda value: value.lower() not in COMMON_WORDS and not matches("reference", value),
    "opaque": is_opaque,
    # For prefixes that words may also carry: `sk-` is a CSS family, `hf_` a variable's.
    "opaque_part": lambda value: any(len(part) >= 12 and is_opaque(part) for part in re.split("[-_.]", value)),
    "credentials": lambda value: ":" in decode_base64(value),
    "card_number": is_card_number,
    "iban": is_iban,
}
