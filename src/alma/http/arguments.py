"""What comes over the network, before anything is done with it: sound JSON."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import unquote

from ..errors import ValidationError
from ..operations import DEEPEST

PROJECT_NAME = r"(?:[A-Za-z0-9._~@:+-]|%[0-9A-Fa-f]{2}){1,600}"
"""A project in a header: percent-encoded, because a header holds no other characters."""


def decoded(body: bytes) -> dict[str, Any]:
    """The object in a request's body; none is an empty one."""
    if not body:
        return {}
    try:
        value = json.loads(body.decode("utf-8"), parse_constant=_no_number)
    except UnicodeDecodeError as error:
        raise ValidationError(f"the body is not UTF-8: {error.reason} at byte {error.start}") from None
    except RecursionError:
        raise ValidationError(_too_deep()) from None
    except ValueError as error:
        raise ValidationError(f"the body is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ValidationError('the body must be a JSON object of arguments, such as {"agent": "dev"}')
    _sound(value)
    return value


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no number in JSON")


def _too_deep() -> str:
    return f"the body is nested deeper than {DEEPEST} levels"


def _sound(value: Any) -> None:
    """What Python's reader lets through and others choke on: depth, numbers beyond any range, halves of characters."""
    level: list[Any] = [value]
    depth = 0
    while level:
        if depth > DEEPEST:
            raise ValidationError(_too_deep())
        depth += 1
        inner: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                inner += one
                inner += one.values()
            elif isinstance(one, list):
                inner += one
            else:
                _sound_value(one)
        level = inner


def _sound_value(one: Any) -> None:
    if isinstance(one, str) and not one.isascii():
        try:
            one.encode("utf-8")
        except UnicodeEncodeError as error:
            raise ValidationError(f"a text holds half a character (a lone surrogate) at {error.start}") from None
    elif isinstance(one, int | float):
        try:
            finite = abs(float(one)) < float("inf")
        except OverflowError:
            finite = False
        if not finite:
            raise ValidationError("a number is too large")


def project(given: str) -> str:
    """The project that the header names."""
    if not re.fullmatch(PROJECT_NAME, given):
        raise ValidationError("the header Alma-Project must be a project's name, percent-encoded")
    try:
        return unquote(given, errors="strict")
    except UnicodeDecodeError:
        raise ValidationError("the header Alma-Project is not percent-encoded UTF-8") from None
