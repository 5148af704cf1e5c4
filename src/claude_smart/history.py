"""What Claude Code itself keeps of past sessions, read for rules; offline, and only as proposals."""

from __future__ import annotations

import os
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from alma.engine.capture import history, transcript
from alma.engine.capture.events import Event, parse
from alma.engine.capture.story import Heard, Story, tell
from alma.engine.coding_sessions import mark_of, teachings
from alma.engine.rules import teaching
from alma.engine.transaction import commit
from alma.errors import NotFoundError
from alma.hooks.drain import Memory
from alma.hooks.identity import find_project
from alma.hooks.place import Place
from alma.hooks.privacy import public
from alma.hooks.project import locate
from alma.types.record import Record
from alma.types.rules import EVERYWHERE, LASTING

from .desk import Desk, shown
from .rules import count_noun, list_rules

_DAY = 86_400.0


@dataclass(slots=True)
class _Found:
    sessions: int = 0
    turns: int = 0
    unreadable: int = 0
    proposed: list[tuple[str, Record]] = field(default_factory=list)
    """Each with its project."""


def from_history(args: Namespace, desk: Desk) -> int:
    """Rules proposed from the transcripts, each with the words it comes from; they wait for review."""
    folder = args.folder or os.environ.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~/.claude")
    if not os.path.isdir(os.path.join(folder, "projects")):
        raise NotFoundError(
            f"{folder} holds no transcripts (no folder `projects`); name the Claude folder: --folder DIR"
        )
    newest = None if args.days is None else time.time() - args.days * _DAY
    files = [one for one in history.sessions(folder) if newest is None or one.modified >= newest]
    found = _Found()
    is_watched = not desk.as_json and sys.stderr.isatty()
    with desk.memory() as memory:
        for number, one in enumerate(files, 1):
            if is_watched:
                count = f"{number} of {len(files)} transcripts, {len(found.proposed)} rules proposed"
                print(f"\r{count} ", end="" if number < len(files) else "\n", file=sys.stderr)
            _take_in(desk.place, memory, one, found)
    _report(desk, found)
    return 0


def _take_in(place: Place, memory: Memory, one: history.HistoryFile, found: _Found) -> None:
    if mark_of(memory.engine(EVERYWHERE), one.session).offset:
        # It was recorded as it happened, and taught what it had to teach.
        return
    story = _story(str(one.path))
    if story is None:
        found.unreadable += 1
        return
    found.sessions += 1
    found.turns += len(story.turns)
    project = find_project(place, locate(one.cwd), remember=False) if one.cwd else ""
    lasting = [given for given in teachings(story, 0) if given.reach in LASTING]
    # What was said long ago, and not to this memory, waits for a person or for its repetition.
    proposed = [replace(given, sure=False) for given in lasting]
    if project and proposed:
        engine = memory.engine(project)
        made = commit(engine, teaching(engine, proposed))
        found.proposed += [(project, one.record) for one in made if one.record is not None and one.verb != "known"]


def _story(path: str) -> Story | None:
    try:
        with open(path, "rb") as file:
            events: list[Event] = [_public(event) for event in transcript.read(transcript.lines(file))]
    except OSError:
        return None
    return tell(events) if events else None


def _public(event: Event) -> Event:
    """Without what was marked as private; secrets are taken out where it is admitted."""
    return replace(event, data={name: _shown_part(value) for name, value in event.data.items()})


def _shown_part(value: Any) -> Any:
    if isinstance(value, str):
        return public(value)
    if isinstance(value, dict):
        return {name: _shown_part(item) for name, item in value.items()}
    return [_shown_part(item) for item in value] if isinstance(value, list) else value


def _report(desk: Desk, found: _Found) -> None:
    desk.say(f"Read {count_noun(found.sessions, 'session')} with {count_noun(found.turns, 'turn')}.")
    if found.unreadable:
        desk.say(f"{found.unreadable} transcripts held nothing that could be read.")
    for project in dict.fromkeys(project for project, _ in found.proposed):
        list_rules(desk, project, [one for key, one in found.proposed if key == project])
    desk.say("\nNone is used until you say so: claude-smart review" if found.proposed else "No rule was found in them.")
    desk.tell(
        {
            "sessions": found.sessions,
            "turns": found.turns,
            "unreadable": found.unreadable,
            "proposed": [shown(one) for _, one in found.proposed],
        }
    )


# -- the last turn


def last_heard(desk: Desk) -> Heard | None:
    """What the person said last in this session, or in this project."""
    for path in _newest(desk):
        with open(path, "rb") as file:
            events, _ = parse(file.read())
        story = tell(events)
        if story.heard and story.project == desk.project:
            return story.heard[-1]
    return None


def _newest(desk: Desk) -> Iterator[str]:
    if desk.session and os.path.exists(desk.place.journal(desk.session)):
        yield desk.place.journal(desk.session)
    try:
        names = [name for name in os.listdir(desk.place.sessions) if name.endswith(".jsonl")]
    except FileNotFoundError:
        return
    paths = [os.path.join(desk.place.sessions, name) for name in names]
    yield from sorted(paths, key=os.path.getmtime, reverse=True)
