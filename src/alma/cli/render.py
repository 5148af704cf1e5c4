"""Show answers: one JSON document for programs; lines, tables and cards for people.

`Output.show` finds in `SHOWN` how to show a value of some type. Any other dataclass becomes a card of its fields, and a
list of them a table.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from textwrap import wrap
from typing import Any, NamedTuple

from ..errors import ALMAError, ValidationError
from ..text import shorten
from ..types.kinds import Episode, Memory, Outcome, Turn
from ..types.speech import quote_output

Piece = str | tuple[str, str]
"""A text, perhaps with its style."""
Progress = Callable[[int, int], None]

PIPED_WIDTH = 100
_LONGEST = 300
_BAR = 30
_SECTION = 20
# What others wrote, such as the name of a branch, must not move the cursor, colour the screen or turn letters around.
_HIDDEN_SIGNS = (*range(32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_UNSEEN = {code: None for code in _HIDDEN_SIGNS if chr(code) not in "\n\t"}
_CODES = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "blue": 34, "magenta": 35, "cyan": 36}
MARKS = {
    "done": ("●", "green"), "completed": ("●", "green"), "ended": ("●", "dim"), "review": ("◑", "cyan"),
    "in_progress": ("◐", "yellow"), "running": ("◐", "yellow"), "open": ("◐", "green"), "pending": ("○", ""),
    "cancelled": ("○", "dim"), "blocked": ("⊘", "red"), "failed": ("✗", "red"), "failure": ("✗", "red"),
    "success": ("✓", "green"), "ok": ("✓", "green"), "interrupted": ("!", "yellow"), "warning": ("!", "yellow"),
}  # fmt: skip
"""The sign and the colour of every status."""
_COLUMNS = {
    "Artifact": "name kind size location run_id node_id",
    "Checkpoint": "number branch_id node_id created_at size state",
    "Domain": "name in_use preset description",
    "Entity": "name type aliases id",
    "ProgressLog": "created_at agent items_done items_total current_action current_item_id session_id",
    "Run": "status run_id workflow_id agent started_at ended_at",
    "Session": "state id goal last_seen",
    "SessionHandoff": "last_outcome session_id current_goal session_end",
    "Suggestion": "score keep.name other.name why",
}
"""What a table shows of each; of others, all that is short."""
_LEFT_OUT = {"prompt", "embedding", "text", "turns", "confidence_interval", "project_id"}
_QUIET = ("_at", "_ms", "_until", "_since", "attempt_count", "held", "notes", "tests_passing")
_SIZES = ("size", "bytes")
_EMPTY = {
    "memories": "nothing found",
    "matches": "nothing found",
    "items": "no work items",
    "logs": "no session has noted how far it is; `alma session note --log` does",
    "entities": "nobody and nothing of that name; `alma graph build` reads what is new",
    "paths": "nothing is known that joins these two; --depth looks further",
    "suggestions": "no two look alike",
    "folders": "no folder is trusted yet",
    "tokens": "no token yet; `alma serve` makes the first, `alma token add` another",
}
_GRAPH_WORDS = re.compile(r"; (?:build_graph|alma\.graph\.update\(\)) reads what is new.*")


class Styled(NamedTuple):
    text: str
    style: str


class Output:
    def __init__(self, *, as_json: bool = False, color: bool = True) -> None:
        self.as_json = as_json
        self.is_terminal = sys.stdout.isatty()
        is_wanted = bool(os.environ.get("FORCE_COLOR")) or self.is_terminal
        self.color = color and is_wanted and not os.environ.get("NO_COLOR")
        self.width = shutil.get_terminal_size().columns if self.is_terminal else PIPED_WIDTH
        self.find_item: Callable[[str], Any] = lambda id: None

    # -- answers

    def answer(self, value: Any, key: str = "", verb: str = "") -> None:
        """Print a value: as JSON under its key where that was asked for, otherwise for a person."""
        is_list = isinstance(value, list)
        document = {"count": len(value), key: value} if key and is_list else {key: value} if key else value
        if not self.answers_json(document):
            if is_list and not value:
                self.line((_EMPTY.get(key, f"no {key}"), "dim"))
            else:
                self.show(value, verb)

    def answers_json(self, document: object) -> bool:
        """Print the document if JSON was asked for; False means that a person is waiting for something readable."""
        if self.as_json:
            self.print(format_json(document))
        return self.as_json

    def report(self, document: object, text: str) -> int:
        """Print the document if JSON was asked for, otherwise the text; return the exit code of success."""
        if not self.answers_json(document):
            self.print(text)
        return 0

    def error(self, error: ALMAError) -> None:
        message = _GRAPH_WORDS.sub("; `alma graph build` reads what is new", str(error))
        if not self.answers_json({"error": {"type": type(error).__name__, "message": message}}):
            sys.stdout.flush()
            print(f"error: {message}", file=sys.stderr)

    def confirm(self, question: str) -> bool:
        """Ask; refuse where nobody can answer."""
        if self.as_json or not sys.stdin.isatty():
            raise ValidationError(f"{question} There is nobody to ask here; pass --yes to go ahead without asking")
        print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
        return sys.stdin.readline().strip().lower() in ("y", "yes")

    @contextmanager
    def progress(self, what: str) -> Iterator[Progress]:
        """Report how far it is on standard error, if that is a terminal."""

        def report(done: int, total: int) -> None:
            filled = _BAR * done // total if total else 0
            sys.stderr.write(f"\r\x1b[K{what} {'━' * filled}{' ' * (_BAR - filled)} {done}/{total}")
            sys.stderr.flush()

        is_shown = sys.stderr.isatty()
        try:
            yield report if is_shown else lambda done, total: None
        finally:
            sys.stderr.write("\r\x1b[K" if is_shown else "")

    # -- lines

    def print(self, text: str = "") -> None:
        """Print a text exactly as it is."""
        print(text)

    def line(self, *pieces: Piece) -> None:
        print("".join(self._paint(piece) for piece in pieces))

    def _paint(self, piece: Piece) -> str:
        text, style = (piece, "") if isinstance(piece, str) else piece
        text = text.translate(_UNSEEN)
        codes = ";".join(str(_CODES[word]) for word in style.split())
        return f"\x1b[{codes}m{text}\x1b[0m" if self.color and codes and text else text

    def heading(self, text: str) -> None:
        self.line((f"\n{text}", "bold"))

    def few(self, title: str, texts: Sequence[str], number: int = 0, style: str = "yellow") -> None:
        """Print a title with a count and the first few texts."""
        number = number or len(texts)
        if texts:
            self.line((f"{title}: {number}", style))
        for text in texts[:5]:
            self.line(f"  {fit(text)}")
        if number > 5 and texts:
            self.line((f"  … and {number - 5} more; --json lists them", "dim"))

    def table(self, rows: Sequence[Sequence[Piece]], head: Sequence[str] = (), indent: str = "") -> None:
        """Print aligned columns, one line a row; on a terminal the widest column gives way."""
        lines = [[(cell, "") if isinstance(cell, str) else cell for cell in row] for row in rows]
        columns = [[fit(row[at][0].translate(_UNSEEN)) for row in lines] for at in range(len(lines[0]) if lines else 0)]
        widths = [max(len(text) for text in (*column, *head[at : at + 1])) for at, column in enumerate(columns)]
        if self.is_terminal and widths:
            room = self.width - len(indent) - 2 * len(widths) - sum(widths)
            widest = widths.index(max(widths))
            widths[widest] = max(20, widths[widest] + min(0, room))
        is_number = [all(re.fullmatch(r"[-\d.,%]*", text) for text in column) for column in columns]
        titles = [[(name, "dim") for name in head]] if head and lines else []
        for row in (*titles, *lines):
            cells = []
            for (text, style), width, right in zip(row, widths, is_number, strict=True):
                text = shorten(text.translate(_UNSEEN), width)
                gap = " " * (width - len(text))
                cells.append(f"{gap if right else ''}{self._paint((text, style))}{'' if right else gap}")
            print(f"{indent}{'  '.join(cells)}".rstrip())

    def card(self, rows: Iterable[tuple[str, Any]], indent: str = "  ") -> None:
        """Print names and values; several values of a name are printed below each other, and empty ones not at all."""
        kept = [(name.replace("_", " "), value) for name, value in rows if value not in (None, "", [], (), {})]
        names = max((len(name) for name, _ in kept), default=0)
        for name, value in kept:
            if isinstance(value, Mapping) and value and all(isinstance(one, bool) for one in value.values()):
                marks = {True: ("✓", "green"), False: ("✗", "red")}
                value = [Styled(f"{marks[ok][0]} {test}", marks[ok][1]) for test, ok in value.items()]
            for one in value if isinstance(value, list | tuple) else [value]:
                text, style = one if isinstance(one, Styled) else (format_value(one), "")
                for line in text.splitlines():
                    for part in wrap(line, max(20, self.width - names - len(indent) - 2)) or [""]:
                        self.line(indent, (f"{name:<{names}}", "dim"), "  ", (part, style))
                        name = ""

    # -- any value

    def show(self, value: Any, verb: str = "", brief: bool = False) -> None:
        name = type(value).__name__
        if isinstance(value, list | tuple):
            show_list(self, value)
        elif isinstance(value, Memory):
            if verb:
                self.print(f"{verb} {value.id}")
            show_memories(self, [value])
        elif name == "WorkItem":
            show_item(self, value, verb, brief)
        elif name in SHOWN:
            SHOWN[name](self, value)
        elif isinstance(value, Mapping):
            self.card(value.items())
        else:
            show_card(self, value)


def show_card(out: Output, value: Any) -> None:
    """Show the fields of a dataclass: first what is short, then what has parts of its own."""
    items = [(one.name, getattr(value, one.name)) for one in fields(value) if one.name not in _LEFT_OUT]
    items = [(name, format_bytes(item) if name in _SIZES and item is not None else item) for name, item in items]
    has_parts = {
        name: is_table(item) if isinstance(item, list | tuple) else is_structured(item) for name, item in items
    }
    out.card((name, item) for name, item in items if not has_parts[name])
    for name, item in items:
        if has_parts[name]:
            out.heading(name.replace("_", " "))
            is_long = isinstance(item, list | tuple) and len(item) > _SECTION
            out.show(item[:_SECTION] if is_long else item, brief=True)
            if is_long:
                out.line((f"  … and {len(item) - _SECTION} more; --json lists all", "dim"))


def is_table(items: Sequence[Any]) -> bool:
    return bool(items) and (is_dataclass(items[0]) or isinstance(items[0], Mapping))


def is_structured(value: object) -> bool:
    """Tell whether a value has parts of its own; a few figures have none."""
    if isinstance(value, Mapping):
        return any(isinstance(one, Mapping | list | tuple) and one for one in value.values())
    return is_dataclass(value) and (len(fields(value)) > 3 or type(value).__name__ in _COLUMNS)


def show_list(out: Output, values: Sequence[Any]) -> None:
    first, name = values[0], type(values[0]).__name__
    if isinstance(first, Memory):
        show_memories(out, values)
    elif name == "Match":
        scores = {one.memory.id: f"{one.score:.2f}" for one in values}
        show_memories(out, [one.memory for one in values], scores=scores)
    elif name == "WorkItem":
        show_items(out, values)
    elif name in SHOWN and name not in _COLUMNS:
        for value in values:
            SHOWN[name](out, value)
    elif isinstance(first, Mapping):
        out.table([[format_cell(name, one[name], out) for name in first] for one in values], list(first), "  ")
    elif is_dataclass(first):
        short = [one.name for one in fields(first) if not is_structured(getattr(first, one.name))]
        names = _COLUMNS[name].split() if name in _COLUMNS else [one for one in short if one not in _LEFT_OUT]
        rows = [[format_cell(one, read_path(value, one), out) for one in names] for value in values]
        out.table(rows, [one.removesuffix("_id").replace("_", " ").replace(".name", "") for one in names], "  ")
    else:
        for value in values:
            out.line(f"  {format_value(value)}")


def read_path(value: Any, path: str) -> Any:
    for name in path.split("."):
        value = getattr(value, name)
    return value


def format_cell(name: str, value: Any, out: Output) -> Piece:
    if name in ("status", "state", "last_outcome") and isinstance(value, str):
        return mark_status(value)
    if name == "current_item_id" and value:
        item = out.find_item(value)
        return value if item is None else str(item.title)
    if name in _SIZES and value is not None:
        return format_bytes(value)
    if name == "state":
        return shorten(", ".join(value), 60)
    if isinstance(value, datetime):
        return format_age(value)
    text = "" if value is None else format_value(value)
    return (text, "dim") if name.endswith("id") else text


# -- texts


def fit(text: str, most: int = _LONGEST) -> str:
    return shorten(text, most)


def format_json(document: object) -> str:
    from ..schema import plain

    return json.dumps(plain(document), ensure_ascii=False, indent=2)


def count(number: int, noun: str, several: str = "") -> str:
    """Return `1 turn`, `2 turns`."""
    return f"{number} {noun if number == 1 else several or f'{noun}s'}"


def count_memories(number: int) -> str:
    return count(number, "memory", "memories")


def format_value(value: object) -> str:
    if isinstance(value, datetime):
        return f"{value.astimezone():%Y-%m-%d %H:%M:%S}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.2f}"
    if isinstance(value, list | tuple):
        return ", ".join(map(format_value, value))
    if is_dataclass(value):
        value = {one.name: getattr(value, one.name) for one in fields(value)}
    if isinstance(value, Mapping):
        told = [f"{name} {format_value(item)}" for name, item in value.items() if item not in (None, "", [], {})]
        return ", ".join(told[:_SECTION]) + (f" and {len(told) - _SECTION} more" if len(told) > _SECTION else "")
    return "none" if value in (None, "") else str(value)


def format_span(seconds: float) -> str:
    """Return `3 d`, `2 h`, `40 min`, `5 s`: the greatest unit that fits."""
    for size, name in ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")):
        if seconds >= size:
            return f"{int(seconds // size)} {name}"
    return "0 s"


def format_age(at: datetime) -> str:
    seconds = (datetime.now(UTC) - at).total_seconds()
    if seconds < 0:
        return f"{at.astimezone():%Y-%m-%d}"
    return "just now" if seconds < 60 else f"{format_span(seconds)} ago"


def format_bytes(number: int) -> str:
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return count(number, "byte")


def shorten_ids(ids: Sequence[str]) -> dict[str, str]:
    """Return the shortest beginnings, ten signs or more after the kind, by which these ids can be told apart."""
    for length in (14, 16, 20):
        if len({id[:length] for id in ids}) == len(set(ids)):
            return {id: id[:length] for id in ids}
    return {id: id for id in ids}


def mark_status(status: str) -> tuple[str, str]:
    mark, style = MARKS.get(status, ("", ""))
    return f"{mark} {status.replace('_', ' ')}".strip(), style


def draw_bar(value: float, most: float, width: int = _BAR) -> str:
    """Return a length; anything above nothing shows."""
    return "" if value <= 0 or most <= 0 else "█" * max(1, round(width * value / most))


def draw_interval(mean: float, low: float, high: float, width: int = 24) -> str:
    """Return where between 0 and 1 a belief is, and how sure it is: `······├───●──┤···`."""
    at, left, right = (round(value * (width - 1)) for value in (mean, low, high))
    marks = {**dict.fromkeys(range(left, right), "─"), right: "┤", left: "├", at: "●"}
    return "".join(marks.get(place, "·") for place in range(width))


def draw_belief(memory: Memory, width: int = 24) -> str:
    return f"{memory.confidence:.2f} {draw_interval(memory.confidence, *memory.confidence_interval, width)}"


# -- memories

STYLES = {
    "heuristic": "green", "anti_pattern": "red", "domain_knowledge": "cyan", "user_preference": "magenta",
    "outcome": "yellow", "rule": "magenta", "episode": "blue", "turn": "blue",
}  # fmt: skip
_HEADINGS = {
    "user_preference": "what the user wants", "rule": "what the user has taught", "heuristic": "what worked before",
    "anti_pattern": "what to avoid", "domain_knowledge": "what is known", "outcome": "what happened before",
    "episode": "what was said before", "turn": "what was said before",
}  # fmt: skip


_SENTENCES = {
    "heuristic": "{condition}: {strategy}",
    "anti_pattern": "{condition}: not {pattern} ({why_bad}). Instead: {better_alternative}",
    "outcome": "{task_description}: {strategy_used} → {outcome} ({error_message})",
    "user_preference": "{user_id}, {category}: {preference}",
    "domain_knowledge": "{domain}: {fact}",
    "rule": "{trigger}: {rule} ({why})",
    "episode": "{title}",
    "turn": "{speaker}: {text}",
}
_SUPPORT = {
    "heuristic": "worked {success_count} of {occurrence_count}",
    "anti_pattern": "failed {occurrence_count} times",
    "outcome": "",
    "user_preference": "{source}",
    "domain_knowledge": "{source}",
    "rule": "{source}, {reach}; followed {followed}, violated {violated}",
    "episode": "{turn_count} turns, {started_at:%Y-%m-%d}",
    "turn": "{said_at:%Y-%m-%d}",
}


def name_type(memory: Memory) -> str:
    from ..schema import type_of

    return type_of(memory)


def describe_memory(memory: Memory) -> str:
    """Return what a memory says, in a sentence."""
    values = {one.name: getattr(memory, one.name) or "" for one in fields(memory)}
    if "error_message" in values:
        values["error_message"] = quote_output(values["error_message"])
    text = _SENTENCES[name_type(memory)].format_map(values)
    # What is empty leaves its marks behind.
    return re.sub(r"^: | \(\)$| Instead: $", "", text) or f"session {values['session_id']}"


def describe_support(memory: Memory) -> str:
    """Return what speaks for a memory, in a few words."""
    notes = [] if memory.status == "active" else [memory.status]
    notes += ["there is a newer one"] if memory.newer else []
    if getattr(memory, "occurrence_count", 1):
        values = {one.name: getattr(memory, one.name) for one in fields(memory)}
        dates = {name: value.astimezone() for name, value in values.items() if isinstance(value, datetime)}
        notes.append(_SUPPORT[name_type(memory)].format_map(values | dates))
    return "; ".join(filter(None, notes))


def show_memories(
    out: Output, memories: Sequence[Memory], more: int = 0, scores: Mapping[str, str] | None = None, indent: str = ""
) -> None:
    """Show memories, one to a line; a conversation with the turns that were found in it."""
    short = shorten_ids([memory.id for memory in memories])
    rows: list[list[Piece]] = []
    for memory in memories:
        kind = name_type(memory)
        label = (kind.replace("_", " "), STYLES[kind])
        about, support = describe_memory(memory), (describe_support(memory), "dim")
        score = [scores[memory.id]] if scores else []
        rows.append([(short[memory.id], "dim"), *score, label, f"{memory.confidence:.2f}", about, support])
        for turn in memory.turns if scores and isinstance(memory, Episode) else ():
            rows.append(["", "", "", "", f"  {describe_memory(turn)}", ""])
    out.table(rows, indent=indent)
    if more:
        out.line((f"… and {more} more", "dim"))


def show_retrieval(out: Output, found: Any, explain: bool = False) -> None:
    scores = {why.memory_id: f"{why.score:.3f}" for why in found.explanations}
    groups: dict[str, list[Memory]] = {}
    for memory in found.memories:
        groups.setdefault(name_type(memory), []).append(memory)
    for kind, memories in groups.items():
        out.line((_HEADINGS[kind], f"bold {STYLES[kind]}"))
        show_memories(out, memories, 0, scores, "  ")
    if not found.total_items:
        out.line(("nothing relevant is known for this task", "dim"))
    for rule in found.standing_rules:
        out.line(f"always: {fit(describe_memory(rule))}")
    if found.total_items:
        recorded = f"retrieval {found.retrieval_id}, " if found.retrieval_id else ""
        out.line((f"{recorded}{found.retrieval_time_ms:.0f} ms", "dim"))
    texts = {memory.id: fit(describe_memory(memory)) for memory in found.memories}
    for why in found.explanations if explain else ():
        show_factors(out, why, texts[why.memory_id])


def show_factors(out: Output, why: Any, title: str) -> None:
    """Show what each factor gave. All but similarity count only as far as the memory is similar."""
    out.heading(title)
    similar = why.factors["similarity"].value
    rows: list[list[Piece]] = []
    for name, part in why.factors.items():
        gives = part.value * part.weight * (1.0 if name == "similarity" else similar)
        bar = (draw_bar(gives, 0.6), "green")
        rows.append([name, f"{part.value:.2f}", f"{part.weight:.2f}", f"{gives:.3f}", bar])
    out.table([*rows, ["score", "", "", f"{why.score:.3f}", ""]], ("factor", "value", "weight", "gives", ""))
    out.line((why.reason, "dim"))


def show_why(out: Output, why: Any) -> None:
    verdict = (f"retrieved, in place {why.rank}", "green") if why.retrieved else ("not retrieved", "yellow")
    out.line(verdict, f": {why.reason}")
    if why.explanation is not None:
        show_factors(out, why.explanation, why.memory_id)


def show_lessons(out: Output, lessons: Sequence[Any], most: int = 20) -> None:
    for one in lessons[:most]:
        kind, is_new = name_type(one.memory), one.verb in ("formed", "restored")
        style, mark = (STYLES[kind], "★") if is_new else ("dim", "○")
        what = (f"{mark} {kind.replace('_', '-')} {one.verb}: ", f"bold {style}")
        out.line(what, (fit(describe_memory(one.memory)), style), (f" ({one.why})", "dim"))
    if len(lessons) > most:
        out.line((f"… and {len(lessons) - most} more; --json lists all", "dim"))


def show_memory(out: Output, memory: Memory, background: Any, history: Sequence[Any]) -> None:
    """Show all that is known of one memory."""
    kind = name_type(memory)
    out.line((kind.replace("_", " "), f"bold {STYLES[kind]}"), f" {memory.id} ({memory.status})")
    rows = {
        one.name: getattr(memory, one.name) for one in fields(memory) if one.name not in (*_LEFT_OUT, "id", "status")
    }
    if isinstance(memory, Turn):
        rows["text"] = memory.text
    if isinstance(memory, Outcome) and memory.error_message:
        rows["error_message"] = quote_output(memory.error_message)
    evidence = {one.name: getattr(background.evidence, one.name) for one in fields(background.evidence)}
    counts = {name: number for name, number in evidence.items() if isinstance(number, int) and number}
    source = background.provenance
    rows |= {
        "confidence": draw_belief(memory),
        "evidence": ", ".join(f"{name} {number}" for name, number in counts.items()) or "none yet",
        "came_from": f"{source.origin}{f', {source.source}' if source.source else ''} ({source.trust})",
        "embedder": background.embedder or "none (words only)",
        "version": background.version,
    }
    out.card(rows.items())
    if background.related:
        out.heading({"outcome": "counts for", "turn": "said in"}.get(kind, "learned from"))
        show_memories(out, background.related, indent="  ")
    for turn in memory.turns if isinstance(memory, Episode) else ():
        out.line((f"\n  {turn.speaker}", "bold"), (f"  {format_value(turn.said_at)}  {turn.id}", "dim"))
        for text in turn.text.splitlines():
            out.line(f"    {text}")
    if history:
        out.heading("history")
    for change in history:
        before = ", ".join(f"{name} was {value!r}" for name, value in change.before.items())
        why = f" ({change.why})" if change.why else ""
        out.line(f"  {format_value(change.at)}  {change.verb}{why}{f': {before}' if before else ''}")


def show_checks(out: Output, checks: Sequence[Any]) -> None:
    width = max(len(check.name) for check in checks)
    for check in checks:
        mark, style = MARKS[check.state]
        out.line((mark, style), (f" {check.name:<{width}}", "bold"), f"  {check.detail}")
        if check.fix:
            out.line((f"{'':<{width}}    → {check.fix}", style))
    tally = Counter(check.state for check in checks)
    out.heading(f"{tally['ok']} ok, {count(tally['warning'], 'warning')}, {count(tally['failed'], 'error')}")


# -- work


def line_item(out: Output, item: Any, before: str = "") -> None:
    """Show a work item in one line."""
    mark, style = MARKS[item.status]
    out.line(before, (f"{mark} ", style), fit(item.title), (f"  {item.id}", "dim"))


def name_item(out: Output, id: str) -> str:
    item = out.find_item(id)
    return id if item is None else f"{fit(item.title, 60)!r} ({item.status.replace('_', ' ')})"


def describe_item(out: Output, item: Any) -> str:
    """Return what one would want to know of a work item at a glance."""
    notes = ["archived"] if item.archived else []
    notes += [item.item_type.replace("_", " ")] if item.item_type != "task" else []
    if item.claimed_by and item.claimed_until:
        left = (item.claimed_until - datetime.now(UTC)).total_seconds()
        has_it = f"{item.claimed_by} has it for {format_span(left)} more"
        notes.append(has_it if left > 0 else f"{item.claimed_by}'s claim ran out")
    elif item.agent:
        notes.append(item.agent)
    notes += [f"waits for {name_item(out, id)}" for id in item.waiting_for]
    if item.tests:
        passing = sum(item.test_results.get(name, False) for name in item.tests)
        notes.append(f"{passing} of {count(len(item.tests), 'test')} passing")
    notes += [f"#{tag}" for tag in item.tags]
    return "; ".join(notes)


def show_items(out: Output, items: Sequence[Any], indent: str = "") -> None:
    short = shorten_ids([item.id for item in items])
    rows: list[list[Piece]] = []
    for item in items:
        about = (describe_item(out, item), "dim")
        rows.append([(short[item.id], "dim"), mark_status(item.status), str(item.priority), item.title, about])
    out.table(rows, indent=indent)


def show_item(out: Output, item: Any, verb: str = "", brief: bool = False) -> None:
    if brief:
        return line_item(out, item)
    about = describe_item(out, item)
    out.line(
        (f"{verb}  " if verb else "", "bold"), mark_status(item.status), f"  {item.title}", (f"  {item.id}", "dim")
    )
    if about:
        out.line((f"  {about}", "dim"))
    if not verb:
        told = {"id", "title", "status", "archived", "tests", "tests_passing", "waiting_for", *_LEFT_OUT}
        rows = {one.name: getattr(item, one.name) for one in fields(item) if one.name not in told}
        rows |= {name: [f"{name_item(out, id)}  {id}" for id in rows[name]] for name in ("blocks", "blocked_by")}
        out.card(rows.items())
    return None


def show_item_history(out: Output, history: Sequence[Any]) -> None:
    out.heading("history")
    for one in history:
        names = [name for name in {**one.before, **one.after} if not name.endswith(_QUIET)]
        values = ", ".join(
            f"{name.replace('_', ' ')} {fit(format_value(one.before.get(name)), 60)} → "
            f"{fit(format_value(one.after.get(name)), 60)}"
            for name in names
        )
        why, by = f"{one.why}; " if one.why else "", f" (by {one.by})" if one.by else ""
        out.line(f"  {format_value(one.at)}  {one.verb}  {why}{values}", (by, "dim"))


def show_next(out: Output, found: Any, agent: str | None) -> None:
    item = found.item
    if item is None:
        others = f"; {count(found.waiting, 'item')} open, but blocked, being worked on or another agent's"
        out.line((f"nothing is free to be worked on{others if found.waiting else ''}", "dim"))
        return
    show_items(out, [item])
    if item.description:
        out.line(fit(item.description, 600))
    if item.claimed_by is None:
        who = agent or item.agent
        out.line((f"take it: alma work claim {item.id} --agent {shlex.quote(who) if who else 'NAME'}", "dim"))


def show_progress(out: Output, found: Any) -> None:
    """Show all items as one bar, by status; each status that any item has shows."""
    whose = f", {found.agent}'s items" if found.agent else ""
    if not found.items_total:
        out.line((f"{found.project_id}{whose}: no work items; `alma work add` makes one", "dim"))
        return
    done = f"{found.items_done} of {count(found.items_total, 'item')} done ({found.completion_percentage:.0f}%)"
    out.line((f"{found.project_id}{whose}: ", "bold"), done)
    fills = {"done": "█", "review": "▓", "in_progress": "▒", "pending": "░", "blocked": "×", "failed": "!"}
    counts = {status: found.by_status[status] for status in fills if found.by_status.get(status)}
    wide = {status: max(1, round(60 * number / found.items_total)) for status, number in counts.items()}
    wide[max(wide, key=lambda status: wide[status])] += 60 - sum(wide.values())
    out.line(*((fills[status] * wide[status], MARKS[status][1]) for status in counts))
    named = (f"{fills[status]} {status.replace('_', ' ')} {number}" for status, number in counts.items())
    out.line("   ".join(named))
    for heading, items in (("in progress", found.current), ("blocked", found.blocked)):
        if items:
            out.heading(heading)
            show_items(out, items, "  ")


# -- predictions


def show_signal(out: Output, signal: Any) -> None:
    """Show how likely a strategy is to work, and why."""
    styles = {"strong_yes": "bold green", "yes": "green", "neutral": "", "caution": "yellow", "avoid": "bold red"}
    style, (low, high) = styles[signal.recommendation], signal.interval
    advice = (signal.recommendation.replace("_", " "), style)
    out.line(advice, (f"  {fit(signal.strategy)}", "bold"), (f"  for: {fit(signal.context)}", "dim"))
    belief = draw_interval(signal.predicted_success, low, high, 40)
    out.line(f"{signal.predicted_success:>4.0%}  ", (belief, style), (f"  {low:.0%} to {high:.0%}", "dim"))
    record = "it was never tried; this is what is known of similar strategies and tasks"
    if signal.occurrence_count:
        record = f"tried {count(signal.occurrence_count, 'time')}, {signal.historical_success_rate:.0%} of them worked"
    out.line((record, "dim"))
    for mark, reasons in ((("▼ ", "red"), signal.risk_signals), (("▲ ", "green"), signal.opportunity_signals)):
        for one in reasons:
            ids = one.source.split(", ") if one.source else []
            more = f" and {len(ids) - 2} more" if len(ids) > 2 else ""
            out.line(mark, fit(one.description), (f"  {', '.join(ids[:2])}{more}", "dim"))


def show_calibration(out: Output, report: Any) -> None:
    few = 20
    if report.count < few:
        so_far = f"only {count(report.count, 'outcome')} so far" if report.count else "there are no outcomes yet"
        out.line((f"{so_far}; {few} or more are needed to say how good predictions are", "yellow"))
    if not report.count:
        return
    out.line((f"{count(report.count, 'outcome')}, each predicted from what was known before it", "bold"))
    brier = f"Brier score {report.brier:.3f}, share so far {report.running_rate_brier:.3f}"
    out.line(f"{brier}; calibration error {report.calibration_error:.3f}; right side of 50%: {report.accuracy:.0%}")
    rows: list[list[Piece]] = []
    for one in report.bins:
        far = abs(one.predicted - one.observed)
        style = "green" if far <= 0.1 else "yellow" if far <= 0.2 else "red"
        at, came = (round(value * 30) for value in (one.predicted, one.observed))
        marks = {**dict.fromkeys(range(min(at, came), max(at, came)), "─"), at: "◇", came: "●"}
        places = "".join(marks.get(place, "·") for place in range(31))
        rows.append([f"{one.low:.0%} to {one.high:.0%}", (places, style), f"{one.observed:.0%}", f"of {one.count}"])
    out.table(rows)
    than = "better" if report.brier < report.running_rate_brier else "no better"
    sure = "" if report.count >= 100 else "; with fewer than 100 outcomes this is rough"
    verdict = f". The predictions are {than} than the share of successes so far{sure}." if report.count >= few else ""
    out.line((f"◇ predicted  ● came true{verdict}", "dim"))


# -- the graph


def show_relations(out: Output, relations: Iterable[Any], names: Mapping[str, str]) -> None:
    """Show `Tom ──works_at──▶ Globex  since 2026-03-01`."""
    for one in relations:
        since = f"  since {one.valid_from:%Y-%m-%d}" if one.valid_from else ""
        until = f"  until {one.valid_to:%Y-%m-%d}" if one.valid_to else ""
        subject, object = (fit(names.get(end, end), 80) for end in (one.subject, one.object))
        out.line((f"  {subject}", "cyan"), f" ──{one.type}──▶ ", (object, "cyan"), (since + until, "dim"))


def show_subgraph(out: Output, found: Any) -> None:
    names = {one.id: one.name for one in found.entities}
    if not found.relationships:
        out.line(f"{', '.join(names.values())}: no relations")
    steps: dict[int, list[Any]] = {}
    for one in found.relationships:
        steps.setdefault(max(found.depths.get(one.subject, 0), found.depths.get(one.object, 0)), []).append(one)
    for far, relations in sorted(steps.items()):
        out.line((f"{count(far, 'step')} away", "bold"))
        show_relations(out, relations, names)
    if found.truncated:
        out.line(("there is more; --limit shows it", "dim"))


def show_path(out: Output, path: Any) -> None:
    text = path.entities[0].name
    for one, before, after in zip(path.relationships, path.entities, path.entities[1:], strict=False):
        text += f" ──{one.type}──▶ " if one.subject == before.id else f" ◀──{one.type}── "
        text += after.name
    out.line(text)


# -- rules in files


def show_diff(out: Output, text: str) -> None:
    styles = {"+": "green", "-": "red", "@": "cyan"}
    for row in text.split("\n"):
        out.line((row, styles.get(row[:1], "")))


def show_rule_export(out: Output, report: Any, check: bool) -> None:
    if check and report.diff:
        show_diff(out, report.diff)
    size = f"{count(report.items, 'item')}, {report.size} of {report.limit}"
    state = "is not current" if check and report.changed else "is current"
    if not (report.written or report.items or report.changed):
        out.line(("there is nothing to write", "bold"))
    else:
        out.line((f"wrote {report.path}: {size}" if report.written else f"{report.path} {state}: {size}", "bold"))
    out.few("edited by hand and not imported", report.hand_edits)
    if report.hand_edits:
        out.line((f"  alma rules import {report.path} takes it over", "dim"))
    out.few("left out", [f"{fit(one.text, 100)}: {one.why}" for one in report.left_out])


def show_rule_import(out: Output, report: Any) -> None:
    if report.changes:
        show_diff(out, report.diff)
    else:
        out.line((f"{report.path} says nothing new", "bold"))
    if waiting := sum(one.waits for one in report.changes):
        waits = "waits" if waiting == 1 else "wait"
        out.line((f"{waiting} of them {waits} for you: alma rules list --status candidate", "yellow"))
    if report.newer:
        out.line((f"{count(report.newer, 'item')} the memory knows better by now", "dim"))
    if report.replaced:
        out.line((f"contradicted, and replaced: {', '.join(report.replaced)}", "yellow"))
    out.few("no items, and passed over", report.ignored)
    if any(one.verb == "conflict" and not one.done for one in report.changes):
        out.line(("both changed: --prefer file or --prefer memory says who is right", "bold red"))


# -- by type


def show_checkpoint(out: Output, made: Any) -> None:
    verb = "unchanged since" if made.unchanged else "kept"
    out.line(
        (f"{verb} checkpoint {made.number}", "bold"), f" of {made.run_id} on {made.branch_id}, after {made.node_id}"
    )
    secrets = f"; without the secrets at {', '.join(made.redacted)}" if made.redacted else ""
    out.line((f"  {format_bytes(made.size)}; {made.id}{secrets}", "dim"))


SHOWN: dict[str, Callable[[Output, Any], None]] = {
    "Archived": lambda out, it: out.print(f"archived {count(it.count, 'item')}" if it.count else "nothing to archive"),
    "Checkpoint": show_checkpoint,
    "ConfidenceSignal": show_signal,
    "DeletedDomain": lambda out, it: out.print(f"deleted {it.name}"),
    "DeletedItem": lambda out, it: out.print(f"erased {it.id}"),
    "Erased": lambda out, it: out.print(f"erased {count(it.count, 'checkpoint')}" if it.count else "nothing to erase"),
    "Found": show_retrieval,
    "Path": show_path,
    "ProgressSummary": show_progress,
    "Ranked": lambda out, it: show_list(out, it.strategies),
    "Report": show_calibration,
    "Run": lambda out, it: out.line(mark_status(it.status), (f"  {it.run_id}", "bold"), f"  of {it.workflow_id}"),
    "Subgraph": show_subgraph,
    "EntityProfile": lambda out, it: out.line(it.text),
    "Text": lambda out, it: out.print(it.text),
    "Why": show_why,
}
