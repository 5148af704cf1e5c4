"""What was read, found and asked, for a person."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .marks import amount, bar, counted, fit
from .shapes import Column, Line, Shape, line, stacked, table

if TYPE_CHECKING:
    from ..knowledge import DayOfUse, Ingested, Learnt, ModelUsage, Place, Reading

_FEW = 5
_SEVERAL = 50
_READ = ("files", "conversations", "messages", "documents", "sections")
_BEFORE = {"known": "known already", "unchanged": "unchanged", "files unchanged": "files unchanged"}
_ELSEWHERE = {"skipped", "damaged", "refused", "waiting"}
_KINDS = {
    "outcome": "yellow",
    "preference": "magenta",
    "correction": "bright_magenta",
    "decision": "cyan",
    "fact": "cyan",
    "anti_pattern": "red",
    "heuristic": "green",
    "work_item": "blue",
}


# -- ingest


def ingested(result: Ingested, root: Path) -> Iterator[Shape]:
    counts = result.counts
    read = [counted(counts[name], name.removesuffix("s")) for name in _READ if counts.get(name)]
    yield line(f"read {', '.join(read)}" if read else "there was nothing to read", "bold")
    yield from _new(counts, dry_run=result.dry_run)
    if counts.get("waiting"):
        would = "would wait" if result.dry_run else "wait"
        yield line(f"{counts['waiting']} of them {would} for you, as words of others: alma list --status candidate")
    before = [f"{counts[name]} {said}" for name, said in _BEFORE.items() if counts.get(name)]
    if before:
        yield line(", ".join(before), "dim")
    yield from _formats(Counter(result.files.values()))
    yield from _skipped(result.skipped, counts.get("skipped", 0), root)
    yield from _few("damaged, and passed over", _placed(result.damaged, root), counts.get("damaged", 0), "yellow")
    yield from _few("not kept", result.refused, counts.get("refused", 0), "yellow")
    if result.left_out:
        said = ", ".join(f"{what} {number}" for what, number in sorted(result.left_out.items()))
        yield line(f"read, and left out on purpose: {said}", "dim")
    yield from _few("to know", result.notes, len(result.notes))


def _new(counts: Mapping[str, int], *, dry_run: bool) -> Iterator[Shape]:
    told = {*_READ, *_BEFORE, *_ELSEWHERE}
    new = {name: number for name, number in counts.items() if name not in told}
    if not new:
        yield line("nothing would be new" if dry_run else "nothing is new")
        return
    yield line("would be new (nothing was kept):" if dry_run else "new:")
    most = max(new.values())
    made = table(Column(wrap=False), Column(right=True), Column())
    for name, number in sorted(new.items(), key=lambda pair: -pair[1]):
        made.add(f"  {name.replace('_', ' ')}", str(number), line(bar(number, most), "green"))
    yield made


def _formats(files: Mapping[str, int]) -> Iterator[Shape]:
    if files:
        most = sorted(files.items(), key=lambda pair: (-pair[1], pair[0]))
        yield line("formats: " + ", ".join(f"{format} {number}" for format, number in most))


def _skipped(skipped: Sequence[Place], number: int, root: Path) -> Iterator[Shape]:
    """By the reason: a folder of code has thousands for the same one."""
    if not skipped:
        return
    paths: dict[str, list[str]] = {}
    for one in skipped:
        paths.setdefault(one.reason, []).append(_below(one.path, root))
    yield line(f"skipped {number}:")
    made = table(Column(right=True), Column(wrap=False), Column(style="dim"))
    for reason, named in sorted(paths.items(), key=lambda pair: -len(pair[1])):
        shown = ", ".join(fit(one, 60) for one in named[:2])
        made.add(f"  {len(named)}", fit(reason, 60), shown + (", …" if len(named) > 2 else ""))
    yield made
    if number > len(skipped):
        yield line(f"  … and {number - len(skipped)} more", "dim")


def _placed(places: Iterable[Place], root: Path) -> list[str]:
    return [": ".join(filter(None, (_below(one.path, root), one.place, one.reason))) for one in places]


def _few(title: str, told: Sequence[str], number: int, style: str = "") -> Iterator[Shape]:
    if told:
        yield line(f"{title}: {number}", style)
        yield from (line(f"  {fit(one)}") for one in told[:_FEW])
        if number > _FEW:
            yield line(f"  … and {number - _FEW} more; --json lists them", "dim")


def _below(path: str, root: Path) -> str:
    try:
        below = str(Path(path).relative_to(root))
    except ValueError:
        return path
    return Path(path).name if below == "." else below


def to_be_read(plan: Reading) -> Iterator[Shape]:
    root = Path(plan.root)
    would = counted(len(plan.files), "file")
    yield line(f"{would} would be read ({amount(plan.bytes)})" if plan.files else "nothing would be read", "bold")
    if plan.files:
        made = table(Column("format", wrap=False), Column("size", right=True, wrap=False), "file", Column("", "dim"))
        for one in plan.files[:_SEVERAL]:
            whose = "" if one.own else "others' words: what they say waits"
            made.add(line(one.format, "cyan"), amount(one.bytes), _below(one.path, root), whose)
        yield made
        if len(plan.files) > _SEVERAL:
            yield line(f"… and {len(plan.files) - _SEVERAL} more; --json lists all", "dim")
        yield from _formats(plan.formats)
    yield from _skipped(plan.skipped, len(plan.skipped), root)


# -- learn-from


def learnt(found: Learnt, *, turns: bool) -> Iterator[Shape]:
    if found.findings:
        yield _findings(found, turns)
    what = counted(found.extracted_count, "finding") if found.extracted_count else "nothing was found"
    if found.dry_run:
        yield line(f"{what}; nothing was kept", "bold")
    else:
        yield line(f"{what}: {found.new} new, {found.known} known already" if found.extracted_count else what, "bold")
    if found.superseded:
        yield line(f"took the place of {', '.join(found.superseded)}")
    if found.episode_id:
        yield line(f"the conversation is kept as {found.episode_id}")
    yield from _few("left out", found.skipped, len(found.skipped), "yellow")
    yield from _by_model(found)


def _findings(found: Learnt, turns: bool) -> Shape:
    made = table(Column("kind", wrap=False), "what, and the words it came from", Column("sure", right=True))
    for one in found.findings:
        place = f" (message {one['turn'] + 1})" if turns else ""
        told = stacked([line(fit(one["text"])), line(f"“{fit(one['quote'])}”{place}", "dim")])
        kind = line(one["kind"].replace("_", " "), _KINDS.get(one["kind"], ""))
        made.add(kind, told, f"{one['confidence']:.2f}")
    return made


def _by_model(found: Learnt) -> Iterator[Line]:
    if found.model:
        yield line(f"asked: {found.model}", "dim")
    if found.fallback:
        yield line(f"rules had to do without the model: {fit(found.fallback)}", "yellow")
    if found.dropped:
        said = ", ".join(f"{why} {number}" for why, number in found.dropped.items())
        yield line(f"the model's findings that were dropped: {said}", "dim")


# -- usage


def used(found: ModelUsage) -> Iterator[Shape]:
    asked = f"{found.provider} {found.model}".strip()
    yield line("no language model is asked" if found.provider == "none" else f"asked: {asked}", "bold")
    if found.provider != "none":
        yield line(f"left of today's budget: {_left(found)}")
    if not found.days:
        yield line("none was ever asked", "dim")
        return
    made = table(
        Column("day", wrap=False),
        "model",
        *(Column(name, right=True) for name in ("calls", "failed", "tokens in", "tokens out", "US$")),
    )
    for day in found.days:
        for row in _rows(day):
            made.add(*row)
    yield made


def _rows(day: DayOfUse) -> Iterator[tuple[str, ...]]:
    for at, one in enumerate(day.models):
        figures = (one.calls, one.failed, one.tokens_in, one.tokens_out)
        yield (day.day if at == 0 else "", one.model, *(f"{figure:,}" for figure in figures), f"{one.cost:.4f}")


def _left(found: ModelUsage) -> str:
    limits, left = found.limits, found.left
    said = [
        f"{have:,} of {most:,} {name}"
        for name, have, most in (("calls", left.calls, limits.calls), ("tokens", left.tokens, limits.tokens))
        if have is not None and most is not None
    ]
    if left.cost is not None and limits.cost is not None:
        said.append(f"{left.cost:.2f} of {limits.cost:.2f} US$")
    return ", ".join(said) or "as much as you like"
