"""Answers for a person: tables and short lines, of what the commands found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..schema import type_of
from ..types.kinds import Episode, Memory, Outcome
from ..types.slice import Explanation
from .marks import HEADINGS, STYLES, bar, fit, proof, sentence
from .shapes import Column, Line, Shape, Table, line, stacked, table

if TYPE_CHECKING:
    from ..api.memories import Found, Match
    from ..doctor import Check
    from .learned import Learned, Tally

_MOST_LESSONS = 20
_ID = Column("id", "dim", wrap=False)
_DIM = Column("", "dim")


def listing(memories: Sequence[Memory], more: int = 0) -> Shape:
    if not memories:
        return line("nothing found", "dim")
    columns = (_ID, "type", "conf.", "memory", _DIM)
    made = table(*columns, caption=f"… and {more} more" if more else "")
    for memory in memories:
        kind = type_of(memory)
        faded = "" if memory.status == "active" else f"{memory.status}; "
        made.add(
            memory.id,
            line(kind.replace("_", " "), STYLES[kind]),
            f"{memory.confidence:.2f}",
            line(fit(sentence(memory))),
            faded + proof(memory),
        )
    return made


def matches(found: Sequence[Match]) -> Shape:
    if not found:
        return line("nothing found", "dim")
    made = table("near", "type", "memory", _ID)
    for one in found:
        kind = type_of(one.memory)
        told = stacked([line(fit(sentence(one.memory))), line(one.reason, "dim")])
        made.add(f"{one.score:.2f}", line(kind.replace("_", " "), STYLES[kind]), told, one.memory.id)
    return made


# -- retrieve


def found_memories(found: Found) -> Iterator[Shape]:
    if not found.total_items:
        yield line("nothing relevant is known for this task", "dim")
        yield from (line(f"always: {fit(sentence(rule))}") for rule in found.standing_rules)
        return
    scores = {why.memory_id: why.score for why in found.explanations}
    for kind, memories in _by_type(found).items():
        style = f"bold {STYLES[kind]}"
        made = table("score", "conf.", "memory", _DIM, _ID, title=HEADINGS[kind], title_style=style)
        for memory in memories:
            score, confidence = f"{scores[memory.id]:.3f}", f"{memory.confidence:.2f}"
            newer = "there is a newer one; " if memory.newer else ""
            made.add(score, confidence, _told(memory), newer + proof(memory), memory.id)
        yield made
    yield from (line(f"always: {fit(sentence(rule))}") for rule in found.standing_rules)
    recorded = f"retrieval {found.retrieval_id}, " if found.retrieval_id else ""
    yield line(f"{recorded}{found.retrieval_time_ms:.0f} ms", "dim")


def _told(memory: Memory) -> Line:
    """In one line; below a conversation the turns that were found in it."""
    said = memory.turns if isinstance(memory, Episode) else ()
    own = line(fit(sentence(memory)), "bold" if said else "")
    return stacked([own, *(line(fit(sentence(turn))) for turn in said)])


def _by_type(found: Found) -> Mapping[str, list[Memory]]:
    grouped: dict[str, list[Memory]] = {}
    for memory in found.memories:
        grouped.setdefault(type_of(memory), []).append(memory)
    return grouped


def explanations(found: Found) -> Iterator[Shape]:
    names = {memory.id: fit(sentence(memory)) for memory in found.memories}
    for why in found.explanations:
        yield factors(why, names[why.memory_id])


def factors(why: Explanation, name: str) -> Table:
    """What each factor gave. All but similarity count only as far as the memory is similar."""
    made = table("factor", "value", "weight", "gives", "", title=name, caption=why.reason)
    similar = why.factors["similarity"].value
    for factor, part in why.factors.items():
        gives = part.value * part.weight * (1.0 if factor == "similarity" else similar)
        made.add(factor, f"{part.value:.2f}", f"{part.weight:.2f}", f"{gives:.3f}", line(bar(gives, 0.6), "green"))
    made.add(line("score", "bold"), "", "", line(f"{why.score:.3f}", "bold"), "")
    return made


# -- learn


def learned_one(outcome: Outcome, learned: Sequence[Learned], count: Tally) -> Iterator[Shape]:
    yield line(f"recorded {outcome.id}")
    if learned:
        yield from map(lesson, learned)
        return
    held = f"this strategy: {count.successes} of {count.results} worked"
    waiting = f"; a heuristic forms at {count.needed} outcomes that mostly work" if count.results < count.needed else ""
    yield line(held + waiting, "dim")


def learned_many(outcomes: Sequence[Outcome], learned: Sequence[Learned]) -> Iterator[Shape]:
    yield line(f"recorded {len(outcomes)} outcome{'' if len(outcomes) == 1 else 's'}")
    yield from map(lesson, learned[:_MOST_LESSONS])
    if len(learned) > _MOST_LESSONS:
        yield line(f"… and {len(learned) - _MOST_LESSONS} more; --json lists all", "dim")
    if not learned:
        yield line("no lesson changed", "dim")


def lesson(one: Learned) -> Line:
    """`heuristic formed: …`, as it is shown when it happens."""
    kind = type_of(one.memory)
    style = STYLES[kind] if one.verb in ("formed", "restored") else "dim"
    mark = "★" if one.verb in ("formed", "restored") else "○"
    what = line(f"{mark} {kind.replace('_', '-')} {one.verb}: ", f"bold {style}")
    return what + line(fit(sentence(one.memory)), style) + line(f" ({one.why})", "dim")


# -- stats


def counts(counted: Mapping[str, Any]) -> Iterator[Shape]:
    whose = f", agent {counted['agent']}" if counted["agent"] else ""
    yield line(f"{counted['project_id']}{whose}: {counted['total_count']} memories in use", "bold")
    most = max(counted["by_type"].values(), default=0)
    made = table("type", Column("count", right=True), "")
    for kind, number in counted["by_type"].items():
        made.add(kind.replace("_", " "), str(number), line(bar(number, most), STYLES[kind]))
    yield made
    for label, numbers in (("status", counted["by_status"]), ("agent", counted["by_agent"])):
        if numbers:
            yield line(f"by {label}: " + ", ".join(f"{name} {number}" for name, number in numbers.items()))
    said = f"{counted['turn_count']} turns of conversations; " if counted["turn_count"] else ""
    yield line(f"{said}{counted['retrieval_count']} retrievals; embedder: {counted['embedder']}", "dim")


# -- doctor

_STATES = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "failed": ("✗", "bold red")}


def diagnosis(checks: Sequence[Check]) -> Iterator[Shape]:
    grid = table(Column(wrap=False), Column(wrap=False), Column())
    for check in checks:
        mark, style = _STATES[check.state]
        grid.add(line(mark, style), line(check.name, "bold"), line(check.detail))
        if check.fix:
            grid.add("", "", line(f"→ {check.fix}", style))
    yield grid
    tally = {state: sum(check.state == state for check in checks) for state in _STATES}
    yield line(f"\n{tally['ok']} well, {tally['warning']} to look at, {tally['failed']} broken", "bold")
