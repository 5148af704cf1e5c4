"""A session as its hooks told it, with what no hook reports, and as the host's own transcript tells it: one story."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from alma.engine.capture import events, transcript
from alma.engine.capture.story import Story, tell

DATA = Path(__file__).parent / "data"


def by_hooks(name: str) -> Story:
    reported, damaged = events.parse((DATA / f"{name}.journal").read_bytes())
    assert damaged == []
    late = transcript.missed((DATA / f"{name}.jsonl").read_bytes().splitlines(keepends=True), ())
    end = reported[-1].offset
    return tell([*reported, *(replace(event, offset=end + place) for place, event in enumerate(late, start=1))])


def by_transcript(name: str) -> Story:
    with (DATA / f"{name}.jsonl").open("rb") as file:
        return tell(transcript.read(transcript.lines(file)))


def said(story: Story) -> list[tuple[str, str]]:
    # A subagent has a transcript of its own.
    return sorted((turn.speaker, turn.text.strip()) for turn in story.turns if turn.speaker != "subagent")


def test_the_same_was_said_at_the_terminal() -> None:
    hooks, host = by_hooks("at_the_terminal"), by_transcript("at_the_terminal")
    assert said(hooks) == said(host)
    assert sorted(one.user for one in hooks.heard) == sorted(one.user for one in host.heard)
    assert {one.user for one in hooks.heard if one.cut_in} == {one.user for one in host.heard if one.cut_in}


def test_the_same_was_done_at_the_terminal() -> None:
    hooks, host = by_hooks("at_the_terminal"), by_transcript("at_the_terminal")
    assert [(one.command, one.ok) for one in hooks.ran] == [(one.command, one.ok) for one in host.ran]
    assert [(one.name, one.what, one.tool) for one in hooks.signals] == [
        (one.name, one.what, one.tool) for one in host.signals
    ]


def test_the_same_was_said_before_and_after_resuming() -> None:
    hooks, host = by_hooks("resumed"), by_transcript("resumed")
    assert said(hooks) == said(host)
    assert [(note.text, note.about) for note in hooks.notes] == [(note.text, note.about) for note in host.notes]
    assert [(one.user, one.before) for one in hooks.heard] == [(one.user, one.before) for one in host.heard]
    assert hooks.ended
