"""The kinds of record: the fields of a body, its searchable text, and the memory that a user sees.

A kind is declared once. A memory is a dataclass whose fields say where they come from: `stored` in the body of the
record, `taken` from an attribute of the record, or `derived` from the record by a function. How a record becomes a
memory, what is searched, what is embedded, and which fields may be edited follow from that. A new field of a memory is
declared here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from operator import attrgetter
from typing import Any, NamedTuple

from ..text import index_unspaced
from . import speech
from .record import Belief, Origin, Record
from .speech import is_quoted_output, quote_output
from .times import from_iso, from_micros

EVERYWHERE = "everywhere"  # The project whose rules hold in all projects.
TEAM = "team"  # The source, and a tag, of the copies of what a team's server sent.
TEAM_AGENT = "team-server"  # Whom these copies belong to: nothing that looks for own rules finds them.
NEWER = "newer"  # In the metadata of a rule: the id of a newer one that may replace it, until a person decides.
# The names in metadata that the engine keeps its own marks under; a repetition does not change them.
OWN_METADATA = frozenset(
    [*"accepted content disputes doubt repeats resembles server session sessions sources taught".split(), NEWER]
)
PROMOTED_FROM = "promoted_from"  # The key, in a body and in shown metadata, for the agent whose memory was promoted.


class Reach(StrEnum):
    """Where a rule applies: once, in this session, in this project, or always."""

    ONCE = "once"
    SESSION = "session"
    PROJECT = "project"
    ALWAYS = "always"


LASTING = (Reach.PROJECT, Reach.ALWAYS)  # A rule with such a reach holds beyond its session.


class RuleSource(StrEnum):
    """Where a rule comes from."""

    NOTE = "note"
    CORRECTION = "correction"
    PREFERENCE = "preference"
    FIX = "fix"
    EDIT = "edit"
    DENIAL = "denial"
    MODEL = "model"
    IMPORT = "import"


class Basis(StrEnum):
    """What a rule rests on, once it holds."""

    STATED = "stated"  # Its literals are in the person's own words.
    AGREED = "agreed"  # Literals of it are deeds of the agent, which the person accepted.


MACHINE_TAUGHT = (RuleSource.FIX, RuleSource.DENIAL)  # The reason of such a rule is what a program printed.


class OnRepeat(StrEnum):
    """What happens to a field when somebody adds a memory that is already stored. An empty value changes nothing."""

    KEEP = "keep"  # The stored value stays.
    REPLACE = "replace"  # The new value takes its place, unless its source is trusted less.
    UNION = "union"  # Both are kept; of one name, the value that `REPLACE` would choose.


Body = Mapping[str, Any]
Read = Callable[[Any], Any] | None
Decode = Callable[[Record, Belief], "Memory"]


class Kind(NamedTuple):
    """`text` is what is searched, `passages` what is embedded, `decode` gives what is shown."""

    name: str
    prefix: str
    fields: tuple[str, ...]  # What the body holds.
    text: Callable[[Body], str] = lambda body: ""
    passages: Callable[[Body], tuple[str, ...]] = lambda body: ()
    decode: Decode | None = None
    editable: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()  # The texts that may be empty.
    # The fields by which a memory is recognised when it is added again; without any, each one is new.
    unique: tuple[str, ...] = ()
    # The optional fields of an explicit key: within the first unique field, a key has one active value.
    keys: tuple[str, ...] = ()
    passing: bool = False  # A note that a power cut may take, and that may wait in memory while others write.
    # It tells an agent what a person wants: in force only if a person said it or accepted it.
    is_gated: bool = False
    # What a repetition does to each field, by its stored name.
    on_repeat: Mapping[str, OnRepeat] = {}


def stored_field(
    name: str = "",
    *,
    on_repeat: OnRepeat = OnRepeat.REPLACE,
    read: Read = None,
    derive: Callable[[Record], Any] | None = None,
    default: Any = MISSING,
    default_factory: Any = MISSING,
    **marks: int,
) -> Any:
    """Return a field that the body holds, under `name` where it has another name there.

    The marks are `searched`, `embedded`, `editable`, `unique` and `key`. `searched` fields form the searched text in
    ascending order, those with equal numbers as they are declared; the embedded ones follow the same order. `read`
    turns the JSON value into the field's; with `derive` a function makes it from the record. `on_repeat` says what
    happens to it when the memory is added again.
    """
    source = {"taken": derive} if derive else {}
    metadata = {"stored": name, "on_repeat": on_repeat, "read": read, **marks, **source}
    return field(default=default, default_factory=default_factory, metadata=metadata)


def record_field(
    path: str,
    read: Read = None,
    default: Any = MISSING,
    *,
    internal: bool = False,
    on_repeat: OnRepeat = OnRepeat.KEEP,
) -> Any:
    """Return a field that is an attribute of the record, such as "evidence.successes".

    An `internal` field is not part of the JSON form of the memory.
    """
    metadata = {"taken": attrgetter(path), "on_repeat": on_repeat, "read": read, "internal": internal}
    return field(default=default, repr=not internal, compare=not internal, metadata=metadata)


def derived_field(function: Callable[[Record], Any], default: Any = MISSING) -> Any:
    """Return a field that a function makes from the record."""
    return field(default=default, metadata={"taken": function})


def declare(
    name: str,
    prefix: str,
    memory: type[Memory] | None = None,
    more: str = "",
    *,
    searched: str = "",
    unique: str = "",
    text: Callable[[Body], str] | None = None,
    passages: Callable[[Body], tuple[str, ...]] | None = None,
    extra_text: Callable[[Body], str] | None = None,
    passing: bool = False,
    is_gated: bool = False,
) -> Kind:
    """Return a kind. `more` names what the body holds beside the memory's fields, separated by spaces.

    A kind without a memory names its `searched` and `unique` fields. `extra_text` is searched after the fields; `text`
    and `passages` replace what the fields say.
    """
    marked: dict[str, dict[str, Any]] = {}
    on_repeat: dict[str, OnRepeat] = {}
    for part in fields(memory) if memory else ():
        if "on_repeat" in part.metadata:
            on_repeat[part.metadata.get("stored") or part.name] = part.metadata["on_repeat"]
        if "stored" in part.metadata and part.name != "metadata":
            optional = {"optional": True} if part.default == "" else {}
            marked[part.metadata["stored"] or part.name] = {**part.metadata, **optional}
    marked |= {one: {} for one in more.split()}
    for mark, names in (("searched", searched), ("unique", unique)):
        for number, one in enumerate(names.split()):
            marked[one][mark] = number

    def select(mark: str) -> tuple[str, ...]:
        return tuple(one for one in marked if mark in marked[one])

    search = sorted(select("searched"), key=lambda one: marked[one]["searched"])
    embed = [one for one in search if "embedded" in marked[one]]
    return Kind(
        name,
        prefix,
        tuple(marked),
        text or _join_fields(search, extra_text),
        # The vector of a memory's own words is the last.
        passages or (lambda body: (*list_wordings(body), *(str(body[one]) for one in embed if body.get(one)))),
        _make_decoder(memory) if memory else None,
        editable=select("editable"),
        optional=select("optional"),
        unique=select("unique"),
        keys=select("key"),
        passing=passing,
        is_gated=is_gated,
        on_repeat=on_repeat,
    )


def list_wordings(body: Body) -> list[str]:
    """Return the other wordings of a memory, which it took over from those that were merged into it."""
    return [text for text, _ in body.get("wordings", {}).values()]


def _join_fields(names: list[str], extra_text: Callable[[Body], str] | None) -> Callable[[Body], str]:
    def join(body: Body) -> str:
        lines = [str(body[name]) for name in names if body.get(name)]
        lines += list_wordings(body)
        extra = extra_text(body) if extra_text else ""
        text = "\n".join([*lines, extra] if extra else lines)
        return text if text.isascii() else index_unspaced(text)

    return join


def _make_decoder(memory: type[Memory]) -> Decode:
    # Read once: a retrieval decodes many records.
    declared = [(one, one.metadata, one.metadata.get("read")) for one in fields(memory)]
    from_record = [(one.name, marks["taken"], read) for one, marks, read in declared if "taken" in marks]
    from_body = [
        (one, marks["stored"] or one.name, read)
        for one, marks, read in declared
        if "stored" in marks and "taken" not in marks
    ]

    def decode(record: Record, belief: Belief) -> Memory:
        body = record.body
        values = {name: read(take(record)) if read else take(record) for name, take, read in from_record}
        for one, name, read in from_body:
            # A body that was written before the field existed leaves it to its default.
            if name in body or (one.default is MISSING and one.default_factory is MISSING):
                values[one.name] = read(body[name]) if read else body[name]
        return memory(confidence=belief.mean, confidence_interval=(belief.low, belief.high), **values)

    return decode


class MemoryType(StrEnum):
    """The types of memories that users see."""

    HEURISTIC = "heuristic"
    OUTCOME = "outcome"
    USER_PREFERENCE = "user_preference"
    DOMAIN_KNOWLEDGE = "domain_knowledge"
    ANTI_PATTERN = "anti_pattern"
    EPISODE = "episode"
    RULE = "rule"


class Result(StrEnum):
    """How a task went."""

    SUCCESS = "success"
    PARTIAL = "partial"
    FAILURE = "failure"

    @property
    def value_of(self) -> float:
        """Return the result as a number: 1 for a success, 0.5 for a partial success, 0 for a failure."""
        return {"success": 1.0, "partial": 0.5, "failure": 0.0}[self]


class FeedbackSignal(StrEnum):
    """Feedback on a memory that was retrieved."""

    USED = "used"
    IGNORED = "ignored"
    THUMBS_UP = "thumbs_up"
    THUMBS_DOWN = "thumbs_down"


# --- what fields are derived from ------------------------------------------------------------------


def last_stated(record: Record) -> datetime:
    """Return when a fact or preference was last stated; one that was stored later began when it was stated."""
    return record.updated_at if record.valid_from is None else max(record.valid_from, record.created_at)


def _find_last_result(record: Record) -> datetime:
    recent = record.evidence.recent
    return from_micros(round(recent[-1][0] * 1_000_000)) if recent else record.updated_at


def _measure_success(record: Record) -> float:
    evidence = record.evidence
    return (evidence.successes + 0.5 * evidence.partials) / evidence.results if evidence.results else 0.0


def _read_metadata(record: Record) -> dict[str, Any]:
    """Return the caller's metadata, with the agent that a promoted memory came from."""
    author = record.body.get(PROMOTED_FROM)
    return {**record.body.get("metadata", {}), **({PROMOTED_FROM: author} if author else {})}


@dataclass(frozen=True, slots=True)
class Wording:
    """Other words of a memory that was merged into another, and where it came from."""

    text: str
    origin: str


def _read_wordings(record: Record) -> tuple[Wording, ...]:
    return tuple(Wording(text, origin) for text, origin in record.body.get("wordings", {}).values())


_COUNT = re.compile(r"failed \d+ of \d+ times")


def quoted_why(record: Record) -> str:
    """Return the reason of a warning or a rule, quoted where a program gave it.

    New ones are quoted when they are written; earlier versions stored what the program printed as it was.
    """
    learned = record.kind == "anti_pattern" and record.provenance.origin is Origin.OUTCOME
    why = str(record.body["why" if record.kind == "rule" else "why_bad"] or "")
    if not learned and not (record.kind == "rule" and record.body["source"] in MACHINE_TAUGHT):
        return why
    return why if is_learned_reason(why) else quote_output(why)


def is_learned_reason(why: str) -> bool:
    """Return whether a warning's reason was formed from outcomes: quoted program output or a count of failures."""
    return is_quoted_output(why) or _COUNT.fullmatch(why) is not None


# --- memories --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """The fields that all memories have."""

    id: str = record_field("id")
    agent: str = record_field("agent")
    project_id: str = record_field("project")
    # The user it belongs to; empty: every user sees it.
    user_id: str = record_field("user", default="")
    status: str = record_field("status", str, default="active")
    # Where it came from: user, agent, tool, content or import. What comes from tool and content is only quoted.
    origin: str = record_field("provenance.canonical_source", default="user")
    confidence: float = 1.0
    confidence_interval: tuple[float, float] = (1.0, 1.0)
    created_at: datetime = record_field("created_at")
    updated_at: datetime = record_field("updated_at")
    tags: tuple[str, ...] = record_field("tags", default=(), on_repeat=OnRepeat.UNION)
    metadata: Mapping[str, Any] = stored_field(on_repeat=OnRepeat.UNION, default_factory=dict, derive=_read_metadata)
    # What memories that were merged into it say in other words.
    wordings: tuple[Wording, ...] = derived_field(_read_wordings, default=())
    # When retrieved: the id of a newer memory that seems to be about the same thing; the newest, if several do.
    newer: str = ""


@dataclass(frozen=True, slots=True)
class Similar:
    """Another wording of a strategy, counted on its own."""

    strategy: str
    success_count: int
    occurrence_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Heuristic(Memory):
    """When `condition`, do `strategy`."""

    condition: str = stored_field(searched=1, embedded=True, editable=True)
    strategy: str = stored_field(searched=2, embedded=True, editable=True)
    # When retrieved: strategies for the same sort of task that may be the same in other words.
    similar: tuple[Similar, ...] = ()
    occurrence_count: int = record_field("evidence.results", default=0)
    success_count: int = record_field("evidence.successes", default=0)
    success_rate: float = derived_field(_measure_success, default=0.0)
    last_validated: datetime = derived_field(_find_last_result)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Memory):
    """One recorded task attempt: the strategy that was used, and the result."""

    task_type: str = stored_field(default="")
    task_description: str = stored_field("task", searched=1, embedded=True)
    strategy_used: str = stored_field("strategy", searched=2, embedded=True)
    outcome: Result = stored_field(read=Result)
    duration_ms: int | None = stored_field(default=None)
    error_message: str | None = stored_field("error", searched=3, default=None)
    user_feedback: str | None = stored_field("feedback", searched=4, default=None)
    retrieval_id: str | None = stored_field("retrieval", default=None)
    # When retrieved: strategies that may be the same in other words.
    similar: tuple[Similar, ...] = ()
    timestamp: datetime = record_field("created_at")

    @property
    def success(self) -> bool:
        """Return whether the task succeeded completely."""
        return self.outcome is Result.SUCCESS


@dataclass(frozen=True, slots=True, kw_only=True)
class UserPreference(Memory):
    """A preference that a user stated, such as how answers should look."""

    user_id: str = record_field("user")
    category: str = stored_field(on_repeat=OnRepeat.KEEP, searched=1, editable=True, unique=True)
    preference: str = stored_field(on_repeat=OnRepeat.KEEP, searched=2, embedded=True, editable=True, unique=True)
    source: str = record_field("provenance.source")
    # The explicit key, if one was given: a later preference with it replaces this one.
    attribute: str = stored_field(on_repeat=OnRepeat.KEEP, key=True, default="")
    timestamp: datetime = derived_field(last_stated)  # When it was last stated.


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainKnowledge(Memory):
    """A fact about a domain."""

    domain: str = stored_field(on_repeat=OnRepeat.KEEP, searched=1, editable=True, unique=True)
    fact: str = stored_field(on_repeat=OnRepeat.KEEP, searched=2, embedded=True, editable=True, unique=True)
    source: str = record_field("provenance.source")
    subject: str = stored_field(on_repeat=OnRepeat.KEEP, key=True, default="")
    # With `subject` the explicit key, if one was given: a later fact with it replaces this one.
    attribute: str = stored_field(on_repeat=OnRepeat.KEEP, key=True, default="")
    last_verified: datetime = derived_field(last_stated)  # When it was last stated.


@dataclass(frozen=True, slots=True, kw_only=True)
class AntiPattern(Memory):
    """A strategy to avoid when `condition`, with the reason and an alternative."""

    pattern: str = stored_field(searched=2, embedded=True, editable=True)
    condition: str = stored_field(searched=1, embedded=True, editable=True, default="")
    why_bad: str = stored_field(searched=3, editable=True, derive=quoted_why)
    better_alternative: str = stored_field(editable=True, default="")
    occurrence_count: int = record_field("evidence.failures", default=0)
    # How often it was tried; 0 if unknown, as in a memory that a server sent.
    trial_count: int = record_field("evidence.results", default=0, internal=True)
    last_seen: datetime = derived_field(_find_last_result)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(Memory):
    """A rule that a person taught with a correction or a note, or accepted."""

    rule: str = stored_field(searched=2, embedded=True, editable=True, unique=True)
    # When it applies; empty: whenever its words fit.
    trigger: str = stored_field(searched=1, embedded=True, editable=True, default="")
    why: str = stored_field(searched=3, editable=True, derive=quoted_why, default="")
    # A wider reach widens the rule; a narrower one does not narrow it.
    reach: Reach = stored_field(on_repeat=OnRepeat.KEEP, read=Reach)
    source: RuleSource = stored_field(on_repeat=OnRepeat.KEEP, read=RuleSource)
    said: str = stored_field(on_repeat=OnRepeat.KEEP, default="")  # The words that taught it.
    basis: Basis = stored_field(on_repeat=OnRepeat.KEEP, read=Basis, default=Basis.STATED)
    # The words with which the person accepted what the agent had done.
    accepted: str = stored_field(on_repeat=OnRepeat.KEEP, default="")
    session_id: str = record_field("session", default="")  # The session it holds in; empty: in all.
    followed: int = record_field("evidence.successes", default=0)
    violated: int = record_field("evidence.failures", default=0)
    # How often the person had to repeat it.
    repeats: int = derived_field(lambda record: int(record.body.get("metadata", {}).get("repeats", 0)), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn(Memory):
    """One turn of a conversation."""

    session_id: str = record_field("session")
    episode_id: str = derived_field(lambda record: record.links[0])
    index: int = stored_field()  # Its place in the conversation, from 0.
    speaker: str = stored_field()
    text: str = stored_field()
    said_at: datetime = record_field("created_at")


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode(Memory):
    """A conversation."""

    session_id: str = record_field("session")
    title: str = stored_field(on_repeat=OnRepeat.KEEP, editable=True, default="")
    speakers: tuple[str, ...] = stored_field(on_repeat=OnRepeat.UNION, read=tuple, default=())
    turn_count: int = stored_field("turns", on_repeat=OnRepeat.KEEP, default=0)
    started_at: datetime = record_field("created_at")
    ended_at: datetime = stored_field(derive=lambda record: from_iso(record.body["ended_at"]) or record.created_at)
    # Retrieved: the turns that matter, as they were said. From `get`: all of them. In a list: none.
    turns: tuple[Turn, ...] = ()


# --- kinds -----------------------------------------------------------------------------------------

_ALL = (
    declare("heuristic", "heu", Heuristic, "task_type"),
    declare("outcome", "out", Outcome),
    declare("user_preference", "pre", UserPreference, is_gated=True),
    declare("domain_knowledge", "kno", DomainKnowledge),
    declare("anti_pattern", "ant", AntiPattern, "task_type"),
    # `line` is the rule as hosts are shown it, `cues` the words that make it relevant: made when it is written, because
    # a hook has no time to.
    declare(
        "rule",
        "rul",
        Rule,
        "line cues prefer avoid",
        extra_text=lambda body: " ".join((*body["prefer"], *body["avoid"])),
        is_gated=True,
    ),
    # A command that failed and another form of it that worked: what an agent did, for hooks to quote. It is no rule.
    declare(
        "observation",
        "obs",
        more="failed worked failures successes trigger source prefer avoid concern line",
        searched="trigger failed worked",
        unique="failed worked",
    ),
    # What a coding agent had done, what the person said to it and what the agent did then: evidence for hooks to quote.
    declare(
        "exchange",
        "exc",
        more="turn number before person then likely concern host",
        searched="person before then",
        unique="turn",
        passages=lambda body: (f"{body['person']}\n{body['before']}\n{body['then']}"[:1200],),
    ),
    # A strategy group gathers the results of one way of doing one sort of task, whatever they say; the heuristic or
    # anti-pattern formed from it has the group's evidence and links to it. Its wordings are the tasks of groups that
    # were merged into it, `similar` are the ids of groups that may be of the same strategy in other words. Each passage
    # is short enough for one vector, so that vectors and fields correspond.
    declare(
        "strategy",
        "str",
        more="strategy task task_type errors label similar",
        searched="strategy task",
        passages=lambda body: tuple(
            text[:600] for text in (body["strategy"], body["task"], *list_wordings(body)) if text
        ),
    ),
    # What a reader found out about two memories that look alike, and what was decided; linked to both.
    declare("comparison", "cmp", more="verdict probability is_checked decision by at rejected"),
    # What the embedder read about a memory and older ones that look alike, by their ids; linked to all of them.
    declare("likeness", "lik", more="reader pairs", passing=True),
    # A conversation and its turns. The turns are what is searched; the episode holds what its people said in one piece,
    # because a conversation about something says it here and there.
    declare(
        "episode",
        "epi",
        Episode,
        "next said gist",
        text=lambda body: "\n".join(filter(None, (body["title"], body.get("said")))),
    ),
    declare(
        "turn",
        "trn",
        Turn,
        text=lambda body: speech.by_name(str(body["speaker"]), str(body["text"])),
        passages=lambda body: speech.passages(str(body["speaker"]), str(body["text"])),
    ),
    # The agent's working day. What their values are like is known to the features that keep them.
    declare(
        "work_item",
        "wrk",
        more="title description item_type status priority parent_id blocks blocked_by started_at completed_at "
        "time_spent_ms attempt_count tests tests_passing notes claimed_by claimed_until waiting_for test_results "
        "estimate_minutes working_since held",
        searched="title description",
    ),
    declare("progress_log", "plg", more="total done in_progress blocked current action actions outcomes session_start"),
    declare(
        "session",
        "ses",
        more="goal started_at ended_at last_seen actions decisions files state blockers next_steps risks tests "
        "confidence action_count owner",
    ),
    declare(
        "handoff",
        "hof",
        more="last_action last_outcome goal decisions files blockers next_steps tests confidence risks started_at "
        "ended_at left_out",
        searched="goal last_action",
    ),
    declare("checkpoint", "chk", more="workflow run node branch number state digest parent base size redacted"),
    declare("run", "run", more="run workflow status started_at ended_at"),
    declare("artifact", "art", more="name path kind size digest workflow run node"),
    declare("domain_schema", "dom", more="name schema"),
    # The graph: an entity's tags are what it is found by, a relation's tags and key its ends and its type; both link to
    # the records they come from.
    declare(
        "entity",
        "ent",
        more="entity name type aliases attributes confidence absorbed",
        text=lambda body: "\n".join((body["name"], *body["aliases"])),
    ),
    declare("relation", "rel", more="relation subject type object attributes confidence"),
    declare("retrieval", "ret", more="task shown mode", passing=True),
    # Its id is made from the idempotency key, so that two processes cannot both write the first one.
    declare("receipt", "rcp", more="arguments outcome"),
    declare("change", "chg", more="record verb why before"),
    # The former values of everything that one write changed for one agent and user; its key names the write.
    declare("changeset", "chs", more="call run after by was reverts undone made_in"),
    # An event on its way to a webhook, which is its key: ACTIVE while it waits, RETIRED when it is given up.
    declare("delivery", "dlv", more="event attempts next_at error", passing=True),
    declare("tombstone", "tom", more="record kind salt sketch others made_in"),
    declare("marker", "mrk", more="value"),
)

KINDS: Mapping[str, Kind] = {kind.name: kind for kind in _ALL}
MEMORY_KINDS: tuple[str, ...] = tuple(MemoryType)
READABLE_KINDS: tuple[str, ...] = (*MEMORY_KINDS, "turn")  # What has an id that a person may ask for.
