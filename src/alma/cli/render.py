"""Print answers: JSON for programs; lines, tables and cards for people.

`Output.show` prints any value: types in `SHOWN` in their own way, other dataclasses as a card of their fields, lists of
dataclasses as a table.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from operator import attrgetter
from textwrap import wrap
from typing import Any

from ..errors import ALMAError, ValidationError
from ..schema import plain, type_of
from ..text import shorten
from ..types.kinds import Memory, Outcome
from ..types.record import Evidence
from ..types.speech import quote_output

Progress = Callable[[int, int], None]
Row = Mapping[str, Any]

WIDTH = 100
"""The width if the output is not a terminal."""
_LONGEST = 300
_NOTHING: tuple[Any, ...] = (None, "", [], (), {})
_SECTION = 20
_BAR = 30
# Stored texts must not move the cursor, color the screen or change the writing direction.
_UNSEEN = dict.fromkeys([*range(9), *range(11, 32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A)])
_CODES = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "cyan": 36}
MARKS = {
    "done": "● green", "completed": "● green", "ended": "● dim", "review": "◑ cyan", "in_progress": "◐ yellow",
    "running": "◐ yellow", "open": "◐ green", "pending": "○ ", "cancelled": "○ dim", "blocked": "⊘ red",
    "failed": "✗ red", "failure": "✗ red", "success": "✓ green", "ok": "✓ green", "interrupted": "! yellow",
    "warning": "! yellow", "heuristic": " green", "anti_pattern": " red", "outcome": " yellow", "rule": " cyan",
}  # fmt: skip
"""The symbol and color of a status, and the color of a memory type."""
_COLUMNS = {
    "Artifact": "name kind size location run_id node_id",
    "Checkpoint": "number branch_id node_id created_at size state",
    "ConfidenceSignal": "recommendation predicted_success interval strategy occurrence_count historical_success_rate",
    "Domain": "name in_use preset description",
    "Entity": "name type aliases id",
    "ProgressLog": "created_at agent items_done items_total current_action current_item_id session_id",
    "Run": "status run_id workflow_id agent started_at ended_at",
    "Session": "state id goal last_seen",
    "SessionHandoff": "last_outcome session_id current_goal session_end",
    "Suggestion": "score keep.name other.name why",
    "WorkItem": "id status priority title agent claimed_by claimed_until waiting_for test_results archived",
}
"""The columns of a table; other types show all short fields."""
_LEFT_OUT = {"prompt", "embedding", "turns", "confidence_interval", "project_id"}
_LABELS = {
    "action_count": "actions", "attempt_count": "attempts", "better_alternative": "instead", "brier": "Brier score",
    "confidence_level": "confidence", "context_similarity": "closest success", "created_at": "created",
    "current_goal": "goal", "duration_ms": "duration", "ended_at": "ended", "error_message": "error",
    "extracted_count": "found", "items_total": "items", "item_type": "type", "occurrence_count": "tried",
    "relationships": "relations", "retrieval_count": "retrievals", "rules_of_engagement": "rules",
    "running_rate_brier": "Brier score of the running rate", "session_end": "ended", "session_start": "started",
    "started_at": "started", "strategy_used": "strategy", "success_count": "worked", "task_description": "task",
    "time_spent_ms": "time spent", "total_count": "memories", "turn_count": "turns", "updated_at": "updated",
    "why_bad": "why",
}  # fmt: skip
"""The names of fields in output for people, where they differ."""
_COUNTS = {
    "notes": "old notes deleted", "faded": "unused memories archived", "over_quota": "memories archived over a limit",
    "compressed": "conversations compressed", "merged": "memories merged, superseded or held back",
    "read": "new memories compared with older ones",
    "compared": "pairs compared", "apart": "pairs about different things", "waiting": "pairs that a model could decide",
    "problem": "why they wait",
}  # fmt: skip
"""The counts of upkeep and consolidation in plain words."""
_HEADINGS = {
    "heuristic": "heuristics", "anti_pattern": "anti-patterns", "outcome": "outcomes", "rule": "rules",
    "user_preference": "user preferences", "domain_knowledge": "facts", "episode": "conversations", "turn": "turns",
}  # fmt: skip
EMPTY = {
    "memories": "No memories found. Add one with `alma add`, or record an outcome with `alma learn`.",
    "matches": "No memories match.",
    "items": "No work items. Add one with `alma work add`.",
    "logs": "No progress logged yet. Log it with `alma session note --log`.",
    "entities": "No entities found. Run `alma graph build` to read new memories into the graph.",
    "paths": "No path between these entities. Pass a larger --depth to look further.",
    "suggestions": "No entities look the same.",
    "folders": "No trusted folders. Trust one with `alma trust`.",
    "tokens": "No tokens yet. Create one with `alma token add`; the first `alma serve` creates one too.",
    "rules": "No rules yet. Add one with `alma add rule`.",
    "authors": "No memory holds this text.",
    "differences": "No memory differs.",
    "runs": "No runs. Start one with `alma workflow start`.",
    "checkpoints": "No checkpoints. Save one with `alma workflow checkpoint`.",
    "artifacts": "No artifacts. Add one with `alma workflow link`.",
}
"""Messages for empty lists; the default is `No <key>.`"""


class Output:
    """Prints answers: JSON for programs; lines, tables and cards for people."""

    def __init__(self, *, as_json: bool = False, color: bool = True) -> None:
        self.as_json = as_json
        self.is_terminal = sys.stdout.isatty()
        is_wanted = self.is_terminal or bool(os.environ.get("FORCE_COLOR"))
        self.color = color and is_wanted and not os.environ.get("NO_COLOR")
        self.width = shutil.get_terminal_size().columns if self.is_terminal else WIDTH

    def error(self, error: ALMAError) -> None:
        """Print an error: as JSON on standard output, or as a line on standard error."""
        message = str(error)
        if self.as_json:
            print(format_json({"error": {"type": type(error).__name__, "message": message}}))
        else:
            sys.stdout.flush()
            print(f"error: {message}", file=sys.stderr)

    def confirm(self, question: str) -> bool:
        """Ask a yes/no question. Raise ValidationError if there is no terminal to ask on."""
        if self.as_json or not sys.stdin.isatty():
            plan = f"{question[0].lower()}{question[1:].rstrip('?')}"
            raise ValidationError(f"cannot ask for confirmation without a terminal; pass --yes to {plan}")
        print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
        return sys.stdin.readline().strip().lower() in ("y", "yes")

    def progress(self, done: int, total: int) -> None:
        """Draw a progress bar on standard error, if that is a terminal."""
        if sys.stderr.isatty():
            filled = _BAR * done // total if total else 0
            sys.stderr.write(f"\r\x1b[K{'━' * filled:<{_BAR}} {done}/{total}")
            sys.stderr.flush()

    def paint(self, text: str, style: str = "") -> str:
        """Return a text without control characters, in a style."""
        text = text.translate(_UNSEEN)
        codes = ";".join(str(_CODES[word]) for word in style.split())
        return f"\x1b[{codes}m{text}\x1b[0m" if self.color and codes and text else text

    def line(self, text: str, style: str = "") -> None:
        """Print a line."""
        print(self.paint(text, style))

    def table(self, rows: Sequence[Row]) -> None:
        """Print rows as aligned columns. On a terminal, the widest column is shortened to fit."""
        names = [name for name in rows[0] if any(row.get(name) not in (*_NOTHING, False) for row in rows)]
        # Work items are often created together: their ids differ only at the end.
        ids = shorten_ids([row["id"] for row in rows if "id" in row and not row["id"].startswith("wrk_")])
        lines = [[(format_label(re.sub(r"_id$|\.name$", "", name)), "dim") for name in names]]
        for row in rows:
            row = {**row, "id": ids.get(row["id"], row["id"])} if "id" in row else row
            lines.append([format_cell(name, row.get(name)) for name in names])
        widths = [max(len(line[at][0]) for line in lines) for at in range(len(names))]
        if self.is_terminal:
            widest = widths.index(max(widths))
            room = self.width - 2 * len(widths) - sum(widths)
            widths[widest] = max(20, widths[widest] + min(0, room))
        for line in lines:
            cells = zip(line, widths, strict=True)
            texts = [self.paint(f"{shorten(text, width):<{width}}", style) for (text, style), width in cells]
            print("  ".join(texts).rstrip())

    def section(self, name: str, items: Any) -> None:
        """Print a value under a heading; only the first items of a long list."""
        if items:
            self.line(f"\n{format_label(name)}", "bold")
            is_long = isinstance(items, list | tuple) and len(items) > _SECTION
            self.show(items[:_SECTION] if is_long else items)
            if is_long:
                self.line(f"… and {len(items) - _SECTION} more; --json lists all", "dim")

    def show(self, *values: Any) -> None:
        """Print values that are not empty. A function is called to print itself."""
        for value in values:
            name, is_list = type(value).__name__, isinstance(value, list | tuple)
            if callable(value):
                value(self)
            elif isinstance(value, str) and value:
                self.line(value)
            elif isinstance(value, Memory) or name == "WorkItem":
                self.table([list_cells(value)])
            elif name in SHOWN:
                SHOWN[name](self, value)
            elif not is_list and (value or is_dataclass(value)):
                self.show_card(value)
            elif is_list and has_parts(value) and type(value[0]).__name__ not in SHOWN.keys() - _COLUMNS.keys():
                self.table([list_cells(one) for one in value])
            elif is_list:
                self.show(*value if has_parts(value) else [f"  {format_value(one)}" for one in value])

    def show_card(self, value: Any) -> None:
        """Print the non-empty fields of an object: first simple values, then nested ones."""
        items = list_fields(value)
        if items.keys() >= {"items", "next"}:
            more = f"the next page: --cursor {items['next']}" if items["next"] else ""
            self.show(items["items"] or "Nothing found.", more)
            return
        if items and all(is_dataclass(item) for item in items.values()):
            self.table([{"": name, **list_cells(item)} for name, item in items.items()])
            return
        if items.get("dry_run") is False:
            del items["dry_run"]
        simple = {name: item for name, item in items.items() if item not in _NOTHING and not has_parts(item)}
        width = max((len(format_label(name)) for name in simple), default=0)
        for name, item in simple.items():
            label = format_label(name)
            for one in item if isinstance(item, list | tuple) and name != "interval" else [item]:
                is_cell = name in ("size", "status") and one is not None
                text = format_cell(name, one)[0] if is_cell else format_field(name, one)
                for line in text.splitlines():
                    for part in wrap(line, max(20, self.width - width - 4)) or [""]:
                        self.line(f"  {label:<{width}}  {part}")
                        label = ""
        for name, item in items.items():
            if has_parts(item):
                self.section(name, item)


def list_fields(value: Any) -> dict[str, Any]:
    """Return the fields of an object that are shown, by name."""
    if isinstance(value, Mapping):
        return dict(value)
    values = {one.name: getattr(value, one.name) for one in fields(value) if one.name not in _LEFT_OUT}
    if isinstance(value, Evidence):
        results = {1.0: "success", 0.0: "failure"}
        recent = [(datetime.fromtimestamp(at, UTC), results.get(worth, "partial")) for at, worth in value.recent]
        values["recent"] = [f"{format_value(at)}  {result}" for at, result in recent]
        values = {name: one for name, one in values.items() if one}
    if type(value).__name__ == "WorkItem":
        unused = {"tests_passing": "test_results", "time_spent_ms": "time_spent_ms", "attempt_count": "attempt_count"}
        values = {name: one for name, one in values.items() if values[unused.get(name, name)] or name not in unused}
    if type(value).__name__ == "ProgressSummary":
        # The time of the query, not of the work.
        del values["created_at"]
    if isinstance(value, Outcome) and value.error_message:
        # Mark program output, so that it does not read like our own words.
        values["error_message"] = quote_output(value.error_message)
    return values


def has_parts(value: object) -> bool:
    """Return whether a value has nested parts to show."""
    if isinstance(value, Mapping):
        return any((isinstance(one, Mapping | list | tuple) and one) or is_dataclass(one) for one in value.values())
    if isinstance(value, list | tuple):
        return bool(value) and (is_dataclass(value[0]) or isinstance(value[0], Mapping))
    return is_dataclass(value) and (len(fields(value)) > 3 or type(value).__name__ in _COLUMNS)


def list_cells(value: Any) -> Row:
    """Return the columns that a table shows for a value."""
    name = type(value).__name__
    if isinstance(value, Memory):
        shown = {"id": value.id, "type": type_of(value), "status": value.status, "confidence": value.confidence}
        return {**shown, "memory": describe_memory(value)}
    if name in ("Match", "MemoryEntry"):
        own = "score" if name == "Match" else "trust"
        return {own: getattr(value, own), **list_cells(value.memory)}
    if isinstance(value, Mapping) and "memories" in value:
        lines = [f"{one['verb']} {one['text']}" for one in value["memories"]]
        return {**{name: value[name] for name in ("change", "at", "by", "call")}, "memories": lines}
    if name in _COLUMNS:
        return {path: attrgetter(path)(value) for path in _COLUMNS[name].split()}
    items = list_fields(value).items()
    return {name: one for name, one in items if isinstance(one, list | tuple) or not has_parts(one)}


def format_cell(name: str, value: Any) -> tuple[str, str]:
    """Return the text of a table cell and its style."""
    text = format_field(name, value, "").translate(_UNSEEN)
    if name in ("status", "state", "last_outcome", "type"):
        mark, _, style = MARKS.get(text, " ").partition(" ")
        return f"{mark} {text if name == 'type' else text.replace('_', ' ')}".strip(), style
    if name == "size" and value is not None:
        return format_bytes(value), ""
    return shorten(text, _LONGEST), "dim" if name.endswith("id") else ""


# -- texts


def format_json(document: object) -> str:
    """Return a document as indented JSON."""
    return json.dumps(plain(document), ensure_ascii=False, indent=2)


def print_exact(text: str) -> Callable[[Output], None]:
    """Return a function that prints a text exactly as it is."""
    return lambda out: print(text)


def count(number: int, noun: str, several: str = "") -> str:
    """Return a number with its noun: `1 turn`, `2 turns`."""
    return f"{number} {noun if number == 1 else several or f'{noun}s'}"


def count_memories(number: int) -> str:
    """Return `1 memory` or `2 memories`."""
    return count(number, "memory", "memories")


def format_value(value: object, nothing: str = "none") -> str:
    """Return a value as text for people."""
    if isinstance(value, datetime):
        return f"{value.astimezone():%Y-%m-%d %H:%M:%S}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.2f}"
    if isinstance(value, list | tuple):
        return ", ".join(map(format_value, value))
    if isinstance(value, Mapping) or is_dataclass(value):
        texts = [f"{name} {format_value(one)}" for name, one in list_fields(value).items() if one not in _NOTHING]
        return ", ".join(texts[:_SECTION]) + (f" and {len(texts) - _SECTION} more" if len(texts) > _SECTION else "")
    return nothing if value in (None, "") else str(value)


def format_field(name: str, value: Any, nothing: str = "none") -> str:
    """Return a field's value as text; the name tells whether it is a time or test results."""
    if name in ("test_results", "test_status") and isinstance(value, Mapping):
        return ", ".join(f"{test} {'passed' if passed else 'failed'}" for test, passed in value.items()) or nothing
    if name.startswith("by_") and isinstance(value, Mapping):
        return format_value({key: number for key, number in value.items() if number}, nothing)
    if name == "interval" and isinstance(value, tuple):
        return " to ".join(map(format_value, value))
    if name.endswith("_ms") and isinstance(value, int | float):
        return format_duration(value)
    if isinstance(value, str) and name in ("recommendation", "signal_type"):
        return value.replace("_", " ")
    if name == "context_similarity" and not value:
        return "none"
    if isinstance(value, str) and (name == "at" or name.endswith(("_at", "_until"))):
        with suppress(ValueError):
            return format_value(datetime.fromisoformat(value))
    return format_value(value, nothing)


def format_label(name: str) -> str:
    """Return the name of a field for people."""
    return _LABELS.get(name, name.replace("_", " "))


def format_duration(milliseconds: float) -> str:
    """Return a duration such as `230 ms`, `2.1 s` or `3 min 37 s`."""
    seconds = milliseconds / 1000
    if seconds < 60:
        return f"{milliseconds:.0f} ms" if seconds < 1 else f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def format_bytes(number: int) -> str:
    """Return a size such as `1.2 MB`."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return count(number, "byte")


def shorten_ids(ids: Sequence[str]) -> dict[Any, str]:
    """Return ids shortened to unique prefixes of at least ten characters after the kind."""
    length = next((most for most in (14, 16, 20) if len({id[:most] for id in ids}) == len(set(ids))), 40)
    return {id: id[:length] for id in ids}


def draw_interval(mean: float, low: float, high: float, width: int = 24) -> str:
    """Draw a mean and its interval between 0 and 1: `······├───●──┤···`."""
    at, left, right = (round(value * (width - 1)) for value in (mean, low, high))
    marks = {**dict.fromkeys(range(left, right), "─"), right: "┤", left: "├", at: "●"}
    return "".join(marks.get(place, "·") for place in range(width))


def draw_belief(memory: Memory, width: int = 24) -> str:
    """Return the confidence of a memory with its interval."""
    return f"{memory.confidence:.2f} {draw_interval(memory.confidence, *memory.confidence_interval, width)}"


# -- memories

_SENTENCES = {
    "heuristic": "{condition}: {strategy}",
    "anti_pattern": "{condition}: avoid {pattern} ({why_bad}). Instead: {better_alternative}",
    "outcome": "{task_description}: {strategy_used} → {outcome} ({error_message})",
    "user_preference": "{user_id}, {category}: {preference}",
    "domain_knowledge": "{domain}: {fact}",
    "rule": "{trigger}: {rule} ({why})",
    "episode": "{title}",
    "turn": "{speaker}: {text}",
}


def describe_memory(memory: Memory) -> str:
    """Return a memory in one sentence."""
    values = {name: value or "" for name, value in list_fields(memory).items()}
    text = _SENTENCES[type_of(memory)].format_map(values)
    # Remove the punctuation around empty fields.
    return re.sub(r"^: | \(\)$|\. Instead: $", "", text) or f"session {values['session_id']}"


def show_retrieval(out: Output, retrieval: Any) -> None:
    """Print retrieved memories, a table for each type."""
    tables: dict[str, list[Row]] = {}
    for memory, why in zip(retrieval.memories, retrieval.explanations, strict=True):
        rows = tables.setdefault(_HEADINGS[type_of(memory)], [])
        rows.append({"score": f"{why.score:.3f}", **list_cells(memory)})
        rows += [{"memory": f"  {describe_memory(turn)}"} for turn in getattr(memory, "turns", ())]
    if not tables:
        out.line("No relevant memories for this task.", "dim")
    tables |= {"rules that always apply": [list_cells(one) for one in retrieval.standing_rules]}
    for heading, rows in tables.items():
        if rows:
            out.line(f"{heading}:", "bold")
            out.table(rows)
    if retrieval.retrieval_id and retrieval.memories:
        out.line(f"retrieval id {retrieval.retrieval_id} (pass it to `alma learn --retrieval-id`)", "dim")


def show_explanation(out: Output, why: Any) -> None:
    """Print how a memory was scored."""
    out.line(f"\n{why.memory_type.replace('_', ' ')} {why.memory_id}: {why.score:.3f}", "bold")
    out.show(why.factors)
    out.line(why.formula)
    out.line(why.reason, "dim")


def show_why(out: Output, why: Any) -> None:
    """Print whether a memory was retrieved, and why."""
    place = f", rank {why.rank}" if why.rank else ""
    out.line(f"{f'retrieved{place}' if why.retrieved else 'not retrieved'}: {why.reason}")
    out.show(why.explanation)


def show_lesson(out: Output, lesson: Any) -> None:
    """Print a lesson that changed."""
    kind = type_of(lesson.memory).replace("_", "-")
    text = f"★ {kind} {lesson.verb}: {shorten(describe_memory(lesson.memory), _LONGEST)} ({lesson.why})"
    out.line(text, "green" if lesson.verb in ("formed", "restored") else "yellow")


def show_checks(out: Output, checks: Sequence[Any]) -> None:
    """Print the checks of the doctor and their totals."""
    width = max(len(check.name) for check in checks)
    for check in checks:
        mark, style = MARKS[check.state].split()
        out.line(f"{mark} {check.name:<{width}}  {check.detail}", style)
        if check.fix:
            out.line(f"{'':<{width}}    → {check.fix}", style)
    tally = Counter(check.state for check in checks)
    out.line(f"\n{tally['ok']} ok, {count(tally['warning'], 'warning')}, {count(tally['failed'], 'error')}", "bold")


# -- other types


def show_calibration(out: Output, report: Any) -> None:
    """Print how good past predictions were."""
    if report.count:
        out.show_card(report)
    than = "better" if report.brier < report.running_rate_brier else "no better"
    verdict = f"Predictions are {than} than the running success rate"
    rough = f"{verdict}; this is a rough estimate, from fewer than 100 outcomes"
    few = f"Only {count(report.count, 'outcome')}; at least 20 are needed to judge predictions"
    out.line(few if report.count < 20 else rough if report.count < 100 else verdict)


def show_build(out: Output, built: Any) -> None:
    """Print what was read into the graph."""
    added = f"{count(built.entities, 'new entity', 'new entities')}, {count(built.relationships, 'new relation')}"
    ended = f", {built.ended} ended" if built.ended else ""
    out.line(f"read {built.read} of {count_memories(built.records)}: {added}{ended} (reader: {built.reader})")


def show_usage(out: Output, usage: Any) -> None:
    """Print model calls and the budget."""
    if usage.provider == "none" and not usage.days:
        out.line("No model is configured, and no calls were made.")
    else:
        out.show_card(usage)


def show_subgraph(out: Output, graph: Any) -> None:
    """Print relations, nearest first: `1 Tom ──works_at──▶ Globex since 2026-03-01`."""
    names = {one.id: shorten(one.name, 80) for one in graph.entities}
    lines = []
    for one in graph.relationships:
        step = max(graph.depths.get(end, 0) for end in (one.subject, one.object))
        times = {"since": one.valid_from, "until": one.valid_to}
        when = "".join(f"  {word} {time:%Y-%m-%d}" for word, time in times.items() if time)
        lines.append(f"{step}  {names.get(one.subject)} ──{one.type}──▶ {names.get(one.object)}{when}")
    out.line("\n".join(sorted(lines)) or f"{', '.join(names.values())}: no relations")
    if graph.truncated:
        out.line("There is more; pass a larger --limit.", "dim")


def show_path(out: Output, path: Any) -> None:
    """Print a path between two entities."""
    text = path.entities[0].name
    for one, before, after in zip(path.relationships, path.entities, path.entities[1:], strict=False):
        arrow = f"──{one.type}──▶" if one.subject == before.id else f"◀──{one.type}──"
        text += f" {arrow} {after.name}"
    out.line(text)


def show_checkpoint(out: Output, checkpoint: Any) -> None:
    """Print where a checkpoint was saved."""
    secrets = f"; secrets removed from {', '.join(checkpoint.redacted)}" if checkpoint.redacted else ""
    verb = "unchanged since" if checkpoint.unchanged else "saved"
    place = f"{checkpoint.run_id} on {checkpoint.branch_id}, after {checkpoint.node_id}"
    out.line(f"{verb} checkpoint {checkpoint.number} of {place}{secrets}")


def show_change(out: Output, change: Any) -> None:
    """Print an entry of a history and the fields it changed."""
    who, why = change.by and f" by {change.by}", change.why and f": {change.why}"
    out.line(f"{format_value(change.at)}  {change.verb}{'' if change.change else who}{why}")
    if change.change:
        out.line(f"    {change.change}: {change.call or 'changed'}{who}", "dim")
    for name, value in (("learned from", ", ".join(change.episodes)), ("reverts", change.reverts)):
        if value:
            out.line(f"    {name} {value}", "dim")
    for name in change.before | change.after:
        before, after = (format_field(name, one.get(name)) or "none" for one in (change.before, change.after))
        if not change.after and before == "none":
            continue
        # Current values of a memory are shown with the memory.
        text = f"{before} → {after}" if change.after else f"was {before}"
        for part in wrap(f"{format_label(name)}: {text}", max(20, out.width - 4)):
            out.line(f"    {part}")


_MARKS = {"added": "+", "restored": "+", "removed": "-", "deleted": "-"}


def show_difference(out: Output, difference: Any) -> None:
    """Print how a memory differs, in the colors of a diff."""
    mark = _MARKS.get(difference.what, "~")
    color = {"+": "green", "-": "red"}.get(mark, "")
    out.line(f"{mark} {difference.what} {difference.kind} {difference.id}", color)
    is_reworded = difference.what == "reworded"
    texts = (
        (("- ", difference.before), ("+ ", difference.after))
        if is_reworded
        else (("", difference.after or difference.before),)
    )
    for sign, text in texts:
        for row in wrap(text.replace("\n", ": "), max(20, out.width - 6)):
            out.line(f"    {sign}{row}")


def show_reverted(out: Output, reverted: Any) -> None:
    """Print what was undone, and how to redo it."""
    verb = "undid" if reverted.undo else "would undo"
    call = f"{reverted.call or 'a change'} of {format_value(reverted.at)}"
    if reverted.rest and reverted.change != reverted.import_id:
        call = f"one of {reverted.rest + 1} changes of {call}; the other {reverted.rest} still hold"
    if reverted.change == reverted.import_id:
        call = f"the import of {format_value(reverted.at)}"
    out.line(f"{verb} {call} ({reverted.change})")
    for reason in reverted.left:
        out.line(f"left: {reason}")
    out.show(list(reverted.memories))
    if reverted.undo:
        out.line(f"To redo it: alma revert {reverted.undo}", "dim")
    if reverted.rest and reverted.import_id and reverted.change != reverted.import_id:
        out.line(f"To undo the whole import: alma ingest --undo {reverted.import_id}", "dim")


def show_turning_point(out: Output, point: Any) -> None:
    """Print the change after which a task is advised differently."""
    who = f" by {point.by}" if point.by else ""
    out.line(f"{format_value(point.at)}  {point.call or 'a change'}{who} ({point.change})")
    for revision in point.revisions:
        out.line(f"    {revision.verb} {revision.record}{revision.why and f': {revision.why}'}")
    for title, ids in (("shown since then", point.gained), ("no longer shown", point.lost)):
        if ids:
            out.line(f"{title}: {', '.join(ids)}")
    out.line(f"found with {count(point.retrievals, 'retrieval')}. To undo it: alma revert {point.change}", "dim")


def show_author(out: Output, author: Any) -> None:
    """Print a memory and the change that brought its text in."""
    out.show(author.memory)
    show_change(out, author.change)


def show_report(out: Output, report: Any) -> None:
    """Print what a run of upkeep or of consolidation changed, with its counts in plain words."""
    values = {name: value for name, value in list_fields(report).items() if name != "ids"}
    values = values.pop("counts", {}) | values
    names = {name: name if isinstance(value, tuple) else _COUNTS.get(name, name) for name, value in values.items()}
    out.show_card({names[name]: value for name, value in values.items()})


def show_conflict(out: Output, conflict: Any) -> None:
    """Print a conflict: both sides with what speaks for them, and the commands that decide it."""
    out.line(f"\n{conflict.id}: {conflict.relation}, {conflict.probability:.2f} ({conflict.found_by} reader)", "bold")
    sides = zip((conflict.older, conflict.newer), conflict.evidence, conflict.episodes, strict=True)
    for name, (memory, evidence, episodes) in zip(("older", "newer"), sides, strict=True):
        counts = [f"{number} {what}" for what, number in list_fields(evidence).items() if isinstance(number, int)]
        about = [format_value(memory.updated_at), memory.origin, memory.status, memory.agent, *counts, *episodes]
        out.line(f"  {name}  {describe_memory(memory)}")
        out.line(f"         {memory.id}: {', '.join(filter(None, about))}", "dim")
    for keep in conflict.suggestions:
        scopes = ' --older-scope "In …" --newer-scope "In …"' if keep == "split" else ""
        out.line(f"  alma conflicts resolve {conflict.id[:14]} --keep {keep}{scopes}")


def show_diff(out: Output, text: str) -> None:
    """Print a diff in colors."""
    for row in text.split("\n"):
        out.line(row, {"+": "green", "-": "red", "@": "cyan"}.get(row[:1], ""))


SHOWN: dict[str, Callable[[Output, Any], None]] = {
    "Author": show_author,
    "Built": show_build,
    "Change": show_change,
    "Checkpoint": show_checkpoint,
    "Difference": show_difference,
    "EntityProfile": lambda out, profile: out.line(profile.text),
    "Erased": lambda out, erased: out.line(f"deleted {count(erased.count, 'checkpoint')}"),
    "Explanation": show_explanation,
    "RevertedChange": show_reverted,
    "RetrievedMemories": show_retrieval,
    "Lesson": show_lesson,
    "MemoryConflict": show_conflict,
    "Path": show_path,
    **dict.fromkeys(("Consolidation", "UpkeepReport"), show_report),
    "Ranked": lambda out, ranked: out.show(ranked.strategies),
    "ModelUsage": show_usage,
    "Report": show_calibration,
    "Run": lambda out, run: out.line(f"{run.status}  {run.run_id}  of {run.workflow_id}"),
    "Subgraph": show_subgraph,
    "TurningPoint": show_turning_point,
    "Text": lambda out, answer: print(answer.text),
    "Why": show_why,
}
