"""The port that every reader of natural language implements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple, Protocol, TypeVar

from ..errors import ModelTimeoutError
from ..types.kinds import Reach, Result

T = TypeVar("T")


class Verdict(StrEnum):
    """How two texts relate."""

    SAME = "same"
    REPLACES = "replaces"
    CONTRADICTS = "contradicts"
    VARIANT = "variant"
    UNRELATED = "unrelated"
    UNSURE = "unsure"


class PairKind(StrEnum):
    """What the texts of a pair are: actions, whose tense does not matter, or facts, whose tense does."""

    ACTION = "action"
    FACT = "fact"


class Pair(NamedTuple):
    """Two texts to compare. `second` is the newer one.

    With details that only one of them has, the question is whether the other says these too, in other words.
    """

    first: str
    second: str
    about: PairKind = PairKind.ACTION
    only_first: tuple[str, ...] = ()
    only_second: tuple[str, ...] = ()


class Relation(NamedTuple):
    """How the second text of a pair relates to the first.

    `probability` is how likely the verdict is true. 0 means that the reader gave no answer.
    `is_checked` is whether the details that only one of them has were compared one by one.
    """

    verdict: Verdict
    probability: float
    is_checked: bool = False

    @property
    def is_same(self) -> bool:
        """Return whether both texts say the same."""
        return self.verdict is Verdict.SAME


UNSURE = Relation(Verdict.UNSURE, 0.0)


class Role(StrEnum):
    """Who spoke in a turn."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class SpokenTurn:
    """One turn of a session or conversation. `speaker` is a name, if there is one."""

    role: Role
    text: str
    speaker: str = ""
    at: datetime | None = None


class StoredText(NamedTuple):
    """A rule or memory that is stored already."""

    id: str
    text: str


class Quote(NamedTuple):
    """Words that were copied from an exchange; `turn` is its index."""

    turn: int
    text: str


class SpokenExchange(NamedTuple):
    """What an agent had done, what the person said to it, and what the agent did then, as a model is shown it.

    An account is a list of lines. Without `did_before`, it is the `did_then` of the exchange before. `is_old` is
    whether it was read before, and only explains the others.
    """

    person: str
    did_before: tuple[str, ...] = ()
    did_then: tuple[str, ...] = ()
    session: str = ""
    is_old: bool = False


class RuleProposal(NamedTuple):
    """A rule that a person taught, with the words that show it.

    `turn` is the index of the user's turn. `known` is the stored rule that it repeats, replaces or contradicts, as
    `verdict` says. `general` is a broader rule that the words only suggest: never more than a candidate. A rule that is
    not `is_sure` is a candidate, too. `prefer` and `avoid` are the commands and names that the rule wants and forbids.
    `deeds` are what the agent did that the rule names, and `accepted` the words with which the person accepted that.
    `is_partial` is whether names had to be left out of it, so that the words of the session say more.
    """

    turn: int
    rule: str
    reach: Reach
    quote: str
    is_sure: bool = False
    is_correction: bool = True
    trigger: str = ""
    reason: str = ""
    general: str = ""
    prefer: tuple[str, ...] = ()
    avoid: tuple[str, ...] = ()
    known: str = ""
    verdict: Verdict = Verdict.UNRELATED
    deeds: tuple[Quote, ...] = ()
    accepted: Quote | None = None
    is_partial: bool = False


class NoteToReword(NamedTuple):
    """A note that names what nobody typed or did, and what it may be made of instead.

    `refused` are the words without a source. `person` are the words of the person around the note, and `deeds` what
    the agent did there and the person accepted.
    """

    note: str
    trigger: str
    refused: tuple[str, ...]
    person: tuple[str, ...]
    deeds: tuple[str, ...]


class Rewording(NamedTuple):
    """A note in other words. An empty `note` means that nothing is left of it that could be followed."""

    note: str
    trigger: str = ""


class Topic(StrEnum):
    """What kind of memory a statement becomes."""

    FACT = "fact"
    PREFERENCE = "preference"
    OUTCOME = "outcome"
    DECISION = "decision"
    WARNING = "warning"
    TASK = "task"
    RULE = "rule"


class MemoryProposal(NamedTuple):
    """A memory in a turn of a conversation. A later value with the same `subject` and `attribute` replaces it."""

    turn: int
    topic: Topic
    text: str
    quote: str
    subject: str = ""
    attribute: str = ""
    value: str = ""
    when: str = ""
    task: str = ""
    strategy: str = ""
    result: Result | None = None
    reason: str = ""
    instead: str = ""
    replaces: str = ""


class Repair(NamedTuple):
    """A command that failed, what it printed, and a later command that worked."""

    failed: str
    output: str
    worked: str


class Observation(NamedTuple):
    """The lesson of a repair. Without a note, the change of the command did not make it work."""

    repair: Repair
    note: str = ""


class Task(NamedTuple):
    """One task of a plan."""

    title: str
    description: str = ""
    after: tuple[int, ...] = ()  # The indexes of the tasks that must be done before.


class TaskPlan(NamedTuple):
    """The tasks of a request, and the constraints that hold for all of them."""

    tasks: tuple[Task, ...]
    constraints: tuple[str, ...] = ()


class Entities(NamedTuple):
    """The names in a text with their types, and (subject, relation, object) for what it says about them."""

    names: tuple[tuple[str, str], ...] = ()
    relations: tuple[tuple[str, str, str], ...] = ()


class GistLine(NamedTuple):
    """A line of the gist of a conversation: the indexes of the turns it comes from, and words that one contains."""

    text: str
    turns: tuple[int, ...]
    quote: str


class Comparer(Protocol):
    """Compares texts."""

    def compare(self, pairs: Sequence[Pair]) -> list[Relation]:
        """Return one relation for each pair, in order."""
        ...


class Reader(Comparer, Protocol):
    """Reads natural language. It proposes; the engine decides, counts and can undo."""

    def find_rules(self, turns: Sequence[SpokenTurn], known: Sequence[StoredText] = ()) -> list[RuleProposal]:
        """Return the rules that the person of a coding session taught."""
        ...

    def find_notes(self, exchanges: Sequence[SpokenExchange], known: Sequence[StoredText] = ()) -> list[RuleProposal]:
        """Return what the person of a coding session taught, as notes that can be followed without it.

        `turn` of a proposal is the index of the exchange. None unless the reader can read what the agent did.
        """
        return []

    def reword_notes(self, notes: Sequence[NoteToReword]) -> list[Rewording]:
        """Return each note in words that it may be made of, in order; empty ones if the reader cannot write."""
        return [Rewording("") for _ in notes]

    def find_memories(self, turns: Sequence[SpokenTurn], known: Sequence[StoredText] = ()) -> list[MemoryProposal]:
        """Return the memories that a conversation contains."""
        ...

    def explain_repairs(self, repairs: Sequence[Repair]) -> list[Observation]:
        """Return one observation for each repair, in order."""
        ...

    def plan_tasks(self, prompt: str) -> TaskPlan:
        """Split a request into tasks and the constraints that hold for all of them."""
        ...

    def find_entities(self, texts: Sequence[str], speakers: Sequence[str] = ()) -> list[Entities]:
        """Return the entities and relations of each text, in order. `speakers` are who "I" is in each of them."""
        ...

    def write_gists(self, conversations: Sequence[Sequence[SpokenTurn]]) -> list[list[GistLine]]:
        """Return the lines of the gist of each conversation, in order; none unless the reader can write."""
        return [[] for _ in conversations]


def ask_in_time(question: Callable[[], T], seconds: float) -> T:
    """Return what `question` returns, or raise ModelTimeoutError. A late answer is discarded."""
    # Loaded where a model is asked.
    from concurrent.futures import Future
    from threading import Thread

    answer: Future[T] = Future()

    def ask() -> None:
        try:
            answer.set_result(question())
        except BaseException as error:  # noqa: BLE001 - raised again where the caller waits
            answer.set_exception(error)

    Thread(target=ask, name="alma-foreground", daemon=True).start()
    try:
        return answer.result(seconds)
    except TimeoutError as error:
        raise ModelTimeoutError(f"no answer within {seconds:g} seconds") from error
