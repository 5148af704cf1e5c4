"""Let the agent in front of a person read what no reader has read, after the person typed /learn.

The person's command opens a request: it names the session, and how far which journals may be read. The agent is shown
these exchanges as a model is, and hands in notes once, from below the host of that session. A note passes the checks
of a model's answer, on the same exchanges, and is applied like one. What it names beside them is nobody's: nothing that
an agent hands in approves a candidate, confirms a rule or reaches beyond the project.
"""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from ..coding.events import Attendance, Event, extract_note, parse_command
from ..coding.session import Exchange
from ..engine import coding_sessions
from ..engine.accounts import describe_part, is_persons, list_exchanges
from ..engine.admit import clean
from ..engine.coding_sessions import (
    READS_LIKE_AN_ATTACK,
    CheckedProposals,
    ReadingProgress,
    SessionPart,
    collect_part,
    find_mark,
    is_candidate,
    list_progress,
    reads_like_attack,
)
from ..engine.context import Engine
from ..engine.escape import find_suspicion
from ..engine.rules import EVIDENCE_ENDS, Taught, exchange_id
from ..engine.transaction import Transaction, write
from ..errors import BusyError, ModelOutputError, ValidationError
from ..files import try_lock
from ..models.client import check
from ..people import read_records
from ..processes import list_lineage
from ..reading.model import check_notes, describe_exchanges, describe_known, load_prompt
from ..reading.port import RuleProposal, SpokenExchange, StoredText, Verdict
from ..text import digest, shorten
from ..types.kinds import EVERYWHERE, Reach
from ..types.record import Record, Status
from . import drain as drains
from .drain import Journal, ProjectMemories, drain, write_unread
from .origin import PROMPTS
from .paths import AGENT_READER, DataDir, is_model_allowed, read_settings
from .project import find_moved
from .providers import may_share
from .verify import JournalJudge

VALID_SECONDS = 1800.0
"""A request that is older is over."""
MOST_BYTES = 256 * 1024
MOST_CHARS = 17_000
"""So many characters of exchanges are shown at once. A host cuts the output of a command at 30,000."""
_KNOWN_CHARS = 3_000
"""So many characters of the notes that are known."""
_MOST_EXCHANGES = 25
_TAG = "learn_request"
_FORM = "notes"
_SHORT = 80
_OLD = "its exchange was read before, or the note is empty"
_REPEATED = "it repeats a note that is known"
_TWICE = "it was handed in twice"
_NOT_OPEN = (
    "no /learn of the user is open here: only after they typed /learn in this session may its agent read exchanges and "
    "hand in notes, once and within half an hour"
)


class RequestedPart(NamedTuple):
    """Which exchanges of a session were requested: the turns with these ids, between two positions of a journal.

    `end` is the size of the journal at that time: what was done later is not part of them.
    """

    session: str
    file: str
    since: int
    until: int
    end: int
    turns: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnRequest:
    """What a person asked the agent in front of them to read. `known` are the ids of notes, with a digest of each."""

    session: str
    project: str
    host: str
    """The coding agent that the person talks to."""
    source: str
    """What opened it: the id of the person's command. None opens a second request."""
    opened_at: float
    parts: tuple[RequestedPart, ...] = ()
    known: Mapping[str, str] = field(default_factory=dict)
    left: int = 0
    """How many turns are left for the next request."""
    is_open: bool = True


@dataclass(frozen=True, slots=True)
class Material:
    """The exchanges of a request as they are shown, the parts of sessions that they are from, and the known notes."""

    parts: list[SessionPart]
    exchanges: list[SpokenExchange]
    known: list[StoredText]

    @property
    def count(self) -> int:
        """Return how many exchanges were not read before."""
        return sum(not exchange.is_old for exchange in self.exchanges)

    def find_place(self, turn: int) -> tuple[int, int]:
        """Return the number of the part that an exchange is in, and its first exchange."""
        first = 0
        for number, part in enumerate(self.parts):
            if turn < first + len(part.exchanges):
                return number, first
            first += len(part.exchanges)
        raise IndexError(turn)


class RefusedNote(NamedTuple):
    """A note that failed a check: its place in what was handed in, its beginning, and why."""

    number: int
    text: str
    reason: str


@dataclass(slots=True)
class HandInReport:
    """The result of a hand-in: what the notes taught, which were refused, and what is left to read."""

    exchanges: int = 0
    left: int = 0
    accepted: int = 0
    taught: list[Taught] = field(default_factory=list)
    refined: list[Record] = field(default_factory=list)
    refused: list[RefusedNote] = field(default_factory=list)
    missed: int = 0
    """How many sessions another reader read in the meantime."""


def may_agent_read(data_dir: DataDir, words: str = "") -> bool:
    """Return whether /learn with these words lets the agent in front of the person read: no other reader may."""
    is_chosen = read_settings(data_dir)["reader"] == AGENT_READER
    return is_chosen or "--here" in words.split() or not is_model_allowed(data_dir)


# -- opening


def open_request(
    data_dir: DataDir, memory: ProjectMemories, project: str, session: str, host: str, source: str
) -> LearnRequest | None:
    """Open a request for what no reader has read in a project, newest sessions first. None if there is nothing.

    The caller must know that a person typed the command: `source` identifies it. It replaces an earlier request of the
    session, but no command opens two. What was recorded with another provider's agent is left out without leave.
    """
    engine = memory.engine(project)
    parts: list[SessionPart] = []
    requested: list[RequestedPart] = []
    left, room, places = 0, MOST_CHARS, _MOST_EXCHANGES
    for progress in _list_unread(data_dir, memory, project, session, host):
        content = _read_unread(data_dir, engine, progress) if room > 0 and places > 0 else None
        if content is None:
            left += progress.unread
            continue
        whole = _collect_unread(engine, content, progress)
        if not whole.turns:
            # None of it may be shown, so it is not offered again.
            nothing = CheckedProposals([], {}, is_complete=False)
            coding_sessions.apply_reading(engine, whole, nothing, progress)
            continue
        part = _cut_part(whole, room, places, is_first=not parts)
        left += coding_sessions.count_candidates(content.story, part.until)
        if not part.turns:
            room = 0
            continue
        room -= sum(map(_count_chars, _describe_part(part)))
        places -= len(part.exchanges)
        parts.append(part)
        turns = tuple(exchange.turn.id for exchange in part.exchanges)
        place = (progress.session, progress.file, part.since, part.until, content.size)
        requested.append(RequestedPart(*place, turns))
    if not parts:
        return None
    request = LearnRequest(
        session=session,
        project=project,
        host=host,
        source=source,
        opened_at=engine.clock().timestamp(),
        parts=tuple(requested),
        known={stored.id: digest(stored.text) for stored in _find_known(engine, parts)},
        left=left,
    )

    def step(tx: Transaction) -> LearnRequest | None:
        stored = tx.find(_request_id(session))
        if stored is not None and stored.body["value"]["source"] == source:
            return None
        place = {"session": session, "project": project, "tags": (_TAG,)}
        tx.set_marker(_request_id(session), {"value": asdict(request)}, **place)
        return request

    return write(engine, step)


def _request_id(session: str) -> str:
    return f"mrk_learn_{digest(session)}"


def _list_unread(
    data_dir: DataDir, memory: ProjectMemories, project: str, session: str, host: str
) -> list[ReadingProgress]:
    """Return the sessions of a project that are not read to their end: the present one, then the newest."""
    setting = read_settings(data_dir)["evidence_providers"]
    found = []
    moved: dict[str, str] = {}
    for progress in reversed(list_progress(memory.engine(EVERYWHERE))):
        if progress.project not in moved:
            moved[progress.project] = find_moved(data_dir, progress.project) or EVERYWHERE
        is_here = moved[progress.project] == project
        if is_here and progress.unread and may_share(progress.host, host, setting):
            found.append(progress)
    found.sort(key=lambda progress: progress.session != session)
    return found


def _read_unread(data_dir: DataDir, engine: Engine, progress: ReadingProgress) -> Journal | None:
    """Return the journal of a session with unread turns; None if it is gone."""
    content = drains.read_journal(data_dir, data_dir.journal_file(progress.session))
    mark = find_mark(engine, progress.session)
    is_same = content is not None and content.file == progress.file == mark.file
    return content if is_same else None


def _collect_unread(engine: Engine, content: Journal, progress: ReadingProgress) -> SessionPart:
    """Return what is unread of a session, as far as it may be shown to an agent with tools."""
    until = find_mark(engine, progress.session).offset
    own = [turn for turn in content.story.user_turns if progress.offset < turn.offset <= until and is_persons(turn)]
    first = next((number for number, turn in enumerate(own) if is_candidate(turn)), 0)
    if len(own) > first + _MOST_EXCHANGES:
        until = own[first + _MOST_EXCHANGES].offset
    part = collect_part(engine, content.story, progress.offset, until)
    return part._replace(exchanges=_drop_hidden(engine, part.exchanges))


def _drop_hidden(engine: Engine, exchanges: Sequence[Exchange]) -> list[Exchange]:
    """Return exchanges without those that read like an instruction, and those that the person deleted.

    They are deleted alone, or with the rule that they taught.
    """
    records = engine.store.get([exchange_id(exchange.turn.id) for exchange in exchanges])
    stored = {record.id: record for record in records}
    kept = []
    for exchange in exchanges:
        record = stored.get(exchange_id(exchange.turn.id))
        is_deleted = record is None or record.body["concern"] in EVIDENCE_ENDS
        if not is_deleted and not find_suspicion(exchange.turn.user_words):
            kept.append(exchange)
    return kept


def _cut_part(part: SessionPart, room: int, places: int, *, is_first: bool) -> SessionPart:
    """Return the first exchanges of a part that fit, and end it after the last of them.

    With `is_first`, one that was not read before fits in any case.
    """
    fitting: list[Exchange] = []
    for exchange, described in zip(part.exchanges, _describe_part(part), strict=True):
        room -= _count_chars(described)
        has_new = any(earlier.turn.offset > part.since for earlier in fitting)
        if (room < 0 or len(fitting) >= places) and (has_new or not is_first):
            break
        fitting.append(exchange)
    rest = part.exchanges[len(fitting) :]
    if not any(is_candidate(exchange.turn) for exchange in rest):
        return part._replace(exchanges=fitting)
    until = max([part.since, *(exchange.turn.offset for exchange in fitting)])
    return part._replace(exchanges=fitting, until=until)


def _describe_part(part: SessionPart) -> list[SpokenExchange]:
    """Return the exchanges of a part as a model is shown them, without lines that read like an instruction."""
    described = []
    for exchange in describe_part(part.exchanges, part.since):
        before, then = (
            tuple(line for line in lines if not find_suspicion(line))
            for lines in (exchange.did_before, exchange.did_then)
        )
        described.append(exchange._replace(did_before=before, did_then=then, session=part.story.session))
    return described


def _count_chars(exchange: SpokenExchange) -> int:
    return len(json.dumps(describe_exchanges([exchange]), ensure_ascii=False, indent=1))


def _find_known(engine: Engine, parts: Sequence[SessionPart]) -> list[StoredText]:
    """Return the rules of the project that hold and that all parts may name.

    A candidate waits for a person, and a rule of all projects is not this project's to replace, so none is listed.
    """
    shared = [stored for stored in parts[0].rules if all(stored in part.rules for part in parts)]
    records = engine.store.get([stored.id for stored in shared])
    own = [record for record in records if record.project == engine.project]
    active = {record.id for record in own if record.status is Status.ACTIVE}
    known = []
    room = _KNOWN_CHARS
    for stored in shared:
        if stored.id in active and len(stored.text) <= room:
            known.append(stored)
            room -= len(stored.text)
    return known


# -- finding


def find_request(data_dir: DataDir, memory: ProjectMemories) -> LearnRequest:
    """Return the open request of the session that runs this process. Raise ValidationError if there is none.

    Where the host has no slash commands, the request is opened here, if the person's last words were the command.
    """
    sessions = list_own_sessions(data_dir)
    for session in sessions:
        request = _read_request(memory, session)
        if request is not None and request.is_open and not _is_over(data_dir, memory, request):
            return request
    for session in sessions:
        opened = _open_from_journal(data_dir, memory, session)
        if opened is not None:
            return opened
    raise ValidationError(_NOT_OPEN)


def list_own_sessions(data_dir: DataDir) -> list[str]:
    """Return the sessions of the agent that runs this process: the nearest above it that a hook recorded."""
    records = list(read_records([data_dir.home]))
    for process in list_lineage():
        sessions = [record for record in records if record.process == process.identity]
        if sessions:
            sessions.sort(key=lambda record: record.written, reverse=True)
            return [record.session for record in sessions]
    return []


def _read_request(memory: ProjectMemories, session: str) -> LearnRequest | None:
    record = Transaction(memory.engine(EVERYWHERE)).find(_request_id(session))
    return None if record is None else _decode(record)


def _decode(record: Record) -> LearnRequest:
    value = record.body["value"]
    parts = tuple(RequestedPart(*part)._replace(turns=tuple(part[-1])) for part in value["parts"])
    return LearnRequest(**{**value, "parts": parts})


def _is_over(data_dir: DataDir, memory: ProjectMemories, request: LearnRequest) -> bool:
    age = memory.engine(EVERYWHERE).clock().timestamp() - request.opened_at
    content = drains.read_journal(data_dir, data_dir.journal_file(request.session))
    return not 0 <= age <= VALID_SECONDS or content is None or content.story.ended


def _open_from_journal(data_dir: DataDir, memory: ProjectMemories, session: str) -> LearnRequest | None:
    """Open the request of a host without slash commands, if the last thing that its person typed is /learn."""
    path = data_dir.journal_file(session)
    content = drains.read_journal(data_dir, path)
    if content is None or content.story.host in ("", "claude") or content.story.ended:
        return None
    command = find_last_command(data_dir, path)
    if command is None or not may_agent_read(data_dir, command.text("command_args")):
        return None
    if memory.engine(EVERYWHERE).clock().timestamp() - command.at > VALID_SECONDS:
        return None
    drain(data_dir, memory=memory, wait=5.0)
    project = find_moved(data_dir, content.story.project) or EVERYWHERE
    return open_request(data_dir, memory, project, session, content.story.host, command.id)


def find_last_command(data_dir: DataDir, path: str) -> Event | None:
    """Return the last prompt of a session if it is a person's /learn without a note; None for any other."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return None
    judge = JournalJudge(data_dir, path, data[: data.rfind(b"\n") + 1])
    last = next((event for event in reversed(judge.events) if event.name in PROMPTS and not event.agent_id), None)
    judged = {event.id: event for event in judge.judge()[0]}
    command = judged.get(last.id) if last is not None else None
    if command is None or command.doubt or command.attendance is not Attendance.PERSON:
        return None
    typed = parse_command(f"/{command.text('command_name').lstrip('/')}")
    is_learn = typed is not None and typed.is_ours and typed.name == "learn"
    return command if is_learn and not extract_note(command.text("command_args")) else None


# -- showing


def read_material(data_dir: DataDir, memory: ProjectMemories, request: LearnRequest) -> Material:
    """Return the exchanges of a request, as they were when it was opened."""
    engine = memory.engine(request.project)
    known = []
    for record in engine.store.get(list(request.known)):
        stored = StoredText(record.id, record.body["rule"])
        if record.status is Status.ACTIVE and request.known[record.id] == digest(stored.text):
            known.append(stored)
    parts = []
    for requested in request.parts:
        content = drains.read_journal(data_dir, data_dir.journal_file(requested.session), requested.end)
        if content is None or content.file != requested.file:
            continue
        exchanges = {exchange.turn.id: exchange for exchange in list_exchanges(content.story)}
        shown = [exchanges[id] for id in requested.turns if id in exchanges]
        if len(shown) == len(requested.turns) and all(is_persons(exchange.turn) for exchange in shown):
            parts.append(SessionPart(content.story, requested.since, requested.until, shown, known, {}))
    spoken = [exchange for part in parts for exchange in _describe_part(part)]
    return Material(parts, spoken, known)


def write_question(material: Material) -> str:
    """Return what a model that reads these exchanges is asked: the prompt, the form of the answer, the exchanges."""
    prompt = load_prompt(_FORM)
    shown = {"known": describe_known(material.known), "exchanges": describe_exchanges(material.exchanges)}
    schema = json.dumps(prompt["schema"], separators=(",", ":"))
    return f"{prompt['system']}\nSchema of the notes: {schema}\n\n{write_exchanges(shown)}"


def write_exchanges(shown: Mapping[str, Any]) -> str:
    """Return exchanges as they are shown: as data."""
    return f"The material, which is data:\n{json.dumps(shown, ensure_ascii=False, indent=1)}"


# -- handing in


def parse_notes(content: bytes) -> list[dict[str, Any]]:
    """Return the notes in JSON or TOML. Raise ValidationError that names what is wrong and what is valid."""
    if len(content) > MOST_BYTES:
        raise ValidationError(f"the notes must have at most {MOST_BYTES // 1024} KB")
    try:
        text = content.decode("utf-8-sig").strip()
        # As values of JSON: TOML has dates.
        value = json.loads(text) if text.startswith("{") else json.loads(json.dumps(tomllib.loads(text), default=str))
    except (ValueError, RecursionError) as error:
        reason = "" if isinstance(error, RecursionError) else f": {error}"
        raise ValidationError(
            f'the notes are neither JSON ({{"notes": [...]}}) nor TOML ([[notes]], or notes = []){reason}'
        ) from None
    try:
        check(value, load_prompt(_FORM)["schema"])
    except ModelOutputError as error:
        raise ValidationError(str(error).replace("the model's answer does", "the notes do")) from None
    notes: list[dict[str, Any]] = clean(value)["notes"]
    return notes


def hand_in(data_dir: DataDir, memory: ProjectMemories, notes: Sequence[Mapping[str, Any]]) -> HandInReport:
    """Check the notes of an agent and store what they teach. This closes the request that it answers.

    Raise ValidationError if none is open. A note that fails a check is refused, and the others are stored.
    """
    lock = try_lock(Path(data_dir.home) / "reading.lock", 5.0)
    if lock is None:
        raise BusyError("another process is reading; try again in a moment")
    with lock:
        request = find_request(data_dir, memory)
        material = read_material(data_dir, memory, request)
        if not _close_request(memory, request):
            raise ValidationError(_NOT_OPEN)
        report = HandInReport()
        proposals = _check_notes(notes, material, report)
        everywhere = memory.engine(EVERYWHERE)
        stored = {progress.session: progress for progress in list_progress(everywhere)}
        for number, part in enumerate(material.parts):
            reading = CheckedProposals(proposals.get(number, []), {}, is_complete=False)
            progress = stored.get(part.story.session)
            engine = memory.engine(request.project)
            changes = coding_sessions.apply_reading(engine, part, reading, progress) if progress else None
            if changes is None:
                report.missed += 1
                continue
            report.exchanges += len(part.turns)
            report.accepted += len(reading.proposals)
            report.taught += changes.taught
            report.refined += changes.refined
        write_unread(data_dir, everywhere)
        unread = _list_unread(data_dir, memory, request.project, request.session, request.host)
        report.left = sum(progress.unread for progress in unread)
        return report


def _close_request(memory: ProjectMemories, request: LearnRequest) -> bool:
    """Close a request. Return False if another process was faster."""

    def step(tx: Transaction) -> bool:
        record = tx.find(_request_id(request.session))
        stored = None if record is None else _decode(record)
        if stored is None or not stored.is_open or stored.source != request.source:
            return False
        tx.set_marker(_request_id(request.session), {"value": asdict(replace(stored, is_open=False))})
        return True

    return write(memory.engine(EVERYWHERE), step)


def _check_notes(
    notes: Sequence[Mapping[str, Any]], material: Material, report: HandInReport
) -> dict[int, list[RuleProposal]]:
    """Return the proposals that passed the checks by the number of their part; `report` gets the others."""
    proposals: dict[int, list[RuleProposal]] = {}
    texts: set[str] = set()
    for number, note in enumerate(notes, 1):
        dropped: Counter[str] = Counter()
        found = check_notes([note], material.exchanges, material.known, dropped)
        proposal = found[0] if found else None
        reason = next(iter(dropped), _OLD)
        if proposal is not None:
            text = " ".join(proposal.rule.casefold().split())
            reason = _find_objection(proposal, is_repeated=text in texts)
            texts.add(text)
        if proposal is None or reason:
            report.refused.append(RefusedNote(number, shorten(note["note"], _SHORT), reason))
            continue
        place, first = material.find_place(proposal.turn)
        part = material.parts[place]
        proposals.setdefault(place, []).append(_place_proposal(proposal, first, len(part.exchanges)))
    return proposals


def _find_objection(proposal: RuleProposal, *, is_repeated: bool) -> str:
    """Return why a note is refused that the exchanges support; empty if it is not."""
    if is_repeated:
        return _TWICE
    if proposal.verdict is Verdict.SAME:
        return _REPEATED
    return READS_LIKE_AN_ATTACK if reads_like_attack(proposal) else ""


def _place_proposal(proposal: RuleProposal, first: int, count: int) -> RuleProposal:
    """Return a proposal whose places count from the first exchange of its session, and that reaches no other project.

    A deed or an acceptance in another session is left out.
    """
    inside = range(first, first + count)
    deeds = tuple(deed._replace(turn=deed.turn - first) for deed in proposal.deeds if deed.turn in inside)
    accepted = proposal.accepted
    if accepted is not None:
        accepted = accepted._replace(turn=accepted.turn - first) if accepted.turn in inside else None
    reach = Reach.PROJECT if proposal.reach is Reach.ALWAYS else proposal.reach
    return proposal._replace(turn=proposal.turn - first, deeds=deeds, accepted=accepted, reach=reach)
