"""From a prompt to what there is to do: tasks with their order, and what must not be done or must hold at the end.

A point of a list is one task, whatever it says; a paragraph is read sentence by sentence and clause by clause. Code,
quotations and asides are told along and never cut. What is neither a request nor a prohibition is background, and goes
with the task it stands beside.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from ...engine.text import shorten
from ._blocks import Block, Code, Heading, Listing, Paragraph, Piece, Point, blocks
from ._clauses import Order, Sense, clauses, forbidding, opened, sense, sentences, stripped
from ._masking import mask, readable
from ._order import linked
from ._verbs import commands
from ._wording import TITLE_CHARS, hangs, item_type, prioritised, titled

MOST = 100
_GOAL_CHARS = 300
_DESCRIPTION_CHARS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    title: str
    description: str
    item_type: str = "task"
    priority: int = 50
    after: tuple[int, ...] = ()
    """The places in the list of what must be done first."""
    parent: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Expansion:
    goal: str
    tasks: tuple[Task, ...] = ()
    constraints: tuple[str, ...] = ()
    gates: tuple[str, ...] = ()


@dataclass
class Found:
    """A task while the prompt is still being read."""

    piece: Piece
    order: Order = Order.ANY
    parent: int | None = None
    group: str = ""
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    chained: bool = False
    """Stands in a list that is to be done one by one."""
    whole: str = ""
    """The sentence it is a part of."""
    told: str = ""
    """All of it, where it was not taken apart."""
    more: list[str] = field(default_factory=list)
    """What was said about it after it."""

    @property
    def own(self) -> str:
        """What says how soon it is wanted."""
        return " ".join([self.group, self.piece.text, *self.more])

    @property
    def description(self) -> str:
        if self.told:
            return self.told[:_DESCRIPTION_CHARS]
        said = [f"{self.group}: {self.piece.text}" if self.group else self.piece.text]
        said += [f"From: {self.whole}"] if self.whole else []
        return "\n".join([*self.before, *said, *self.after])[:_DESCRIPTION_CHARS]


_BOUNDS = re.compile(
    r"(?i)\b(?:constraints?|restrictions?|limitations?|out[ -]of[ -]scope|non[ -]?goals?|not (?:allowed"
    r"|in scope)|don['’]?ts"
    r"|do not|avoid|forbidden|ground rules)\b"
)
_GATES = re.compile(
    r"(?i)\b(?:acceptance criteri\w+|definition of done|done when|quality gates?|success criteri\w+|exit criteri\w+"
    r"|must (?:pass|hold))\b"
)
_BACKGROUND = re.compile(
    r"(?i)^(?:the )?(?:background|context|why|motivation|overview|introduction|current (?:behaviou?r|state)"
    r"|expected(?: "
    r"(?:behaviou?r|result))?|actual(?: (?:behaviou?r|result))?|steps to reproduce|to reproduce|reproduction"
    r"|environment"
    r"|examples?|for example|logs?|stack ?trace|traceback|error|references?|links?|see also|notes?|output|given|problem"
    r"|versions?|input|fyi)\b"
)
_GOAL = re.compile(r"(?i)^(?:the |our |my )?(?:goal|objective|aim|mission|purpose)s?$")
_IN_ORDER = re.compile(
    r"(?i)\bin (?:this|that|the (?:following|given)) order\b|\bone (?:after (?:the other|another)|by one)\b"
    r"|\bstep by step\b"
    r"|\bsequentially\b|\bin sequence\b|\bin order:?$"
)


def expand(prompt: str) -> Expansion:
    reader = _Reader()
    for block in blocks(prompt):
        reader.read(block)
    reader.finish()
    found = _bounded(reader.tasks or reader.as_one(prompt))
    links = linked(found)
    levels = prioritised([one.own for one in found])
    tasks = [_task(one, links[at], levels[at]) for at, one in enumerate(found)]
    return Expansion(
        goal=shorten(reader.goal or _gist(tasks) or prompt, _GOAL_CHARS),
        tasks=tuple(tasks),
        constraints=tuple(dict.fromkeys(reader.bounds)),
        gates=tuple(dict.fromkeys(reader.gates)),
    )


def _task(found: Found, after: tuple[int, ...], priority: int) -> Task:
    said = opened(found.piece)[0]
    request = stripped(said)
    title = titled(request)
    if len(request.text) < len(said.text):
        # "Could you ...?" asks for something to be done, not for an answer.
        title = title.rstrip("?")
    if not re.search(r"\w", title):
        title = shorten(found.description, TITLE_CHARS)
    if hangs(title) and (about := _about(found.before)):
        title = shorten(f"{title}: {about}", TITLE_CHARS)
    return Task(
        title=title,
        description=found.description,
        item_type=item_type(title),
        priority=priority,
        after=after,
        parent=found.parent,
    )


def _about(background: list[str]) -> str:
    """The first thing that was said before, where it is words."""
    return next((line.rstrip(". ") for line in background if line[:1].isalpha()), "")


def _gist(tasks: list[Task]) -> str:
    return "; ".join(task.title for task in tasks if task.parent is None)


def _bounded(found: list[Found]) -> list[Found]:
    """Of very many the last ones are kept together, so that nothing is lost."""
    if len(found) <= MOST:
        return found
    rest = found[MOST - 1 :]
    name = f"The remaining {len(rest)} points of the request"
    return [*found[: MOST - 1], Found(Piece(name, name), told="\n".join(f"- {one.description}" for one in rest))]


class _Reader:
    """Goes through the blocks of a prompt and remembers under which heading it is."""

    def __init__(self) -> None:
        self.tasks: list[Found] = []
        self.bounds: list[str] = []
        self.gates: list[str] = []
        self.goal = ""
        self._heading = ""
        self._lead = ""
        self._waiting: list[str] = []
        """Background that goes with the task to come."""

    def read(self, block: Block) -> None:
        if self._lead and not isinstance(block, Listing):
            self._unanswered()
        match block:
            case Heading():
                self._open(block)
            case Code():
                self._background(block.text)
            case Paragraph():
                self._lead = ""
                self._paragraph(block.piece)
            case Listing():
                self._listing(block.points)
                self._lead = ""

    def finish(self) -> None:
        if self._lead:
            self._unanswered()

    def as_one(self, prompt: str) -> list[Found]:
        """Nothing in it is plainly a request: then the whole is, unless it is a greeting or forbids something."""
        text = prompt.strip()
        if not text or self.bounds or self.gates or not re.search(r"\w", text):
            return []
        said = [one for block in blocks(text) if isinstance(block, Paragraph) for one in sentences(block.piece)]
        if said and all(len(one.text) < 30 and sense(one) is Sense.BACKGROUND and _is_greeting(one) for one in said):
            return []
        first = said[0] if said else Piece(text, text)
        return [Found(first, told=text)]

    def _open(self, heading: Heading) -> None:
        if heading.lead:
            self._lead = heading.text
            self.goal = self.goal or _plain_goal(heading.text)
            return
        self._heading, self._lead = heading.text, ""
        if not self.goal and not any(kind.search(heading.text) for kind in (_BOUNDS, _GATES, _BACKGROUND, _GOAL)):
            self.goal = _plain_goal(heading.text)

    def _unanswered(self) -> None:
        """ "Please fix this:" before code or a paragraph asks for something itself; before a list, the list does."""
        piece = Piece(self._lead, mask(self._lead))
        self._lead = ""
        if sense(piece) is Sense.REQUEST and not any(
            kind.search(piece.text) for kind in (_BOUNDS, _GATES, _BACKGROUND)
        ):
            self._request(piece)

    @property
    def _section(self) -> str:
        return self._lead or self._heading

    def _background(self, text: str) -> None:
        if self.tasks:
            self.tasks[-1].after.append(text)
        else:
            self._waiting.append(text)

    def _add(self, found: Found) -> int:
        found.before += self._waiting
        self._waiting = []
        self.tasks.append(found)
        return len(self.tasks) - 1

    # -- paragraphs

    def _paragraph(self, piece: Piece) -> None:
        if _GOAL.match(self._heading):
            self.goal, self._heading = piece.text, ""
            self._waiting.append(piece.text)
            return
        if _BACKGROUND.search(self._heading) and not self._lead:
            self._background(piece.text)
            return
        for one in sentences(piece):
            self._sentence(one)

    def _sentence(self, piece: Piece) -> None:
        meant = self._meant(piece)
        if meant is Sense.PROHIBITION:
            self.bounds.append(piece.text)
        elif meant is Sense.GATE:
            self.gates.append(piece.text)
        elif meant is Sense.REQUEST:
            self._request(piece)
        elif meant is Sense.QUESTION:
            self._add(Found(piece))
        elif not _is_greeting(piece):
            if meant is Sense.DETAIL and self.tasks:
                self.tasks[-1].more.append(piece.text)
            self._background(piece.text)

    def _request(self, piece: Piece) -> None:
        self.goal = self.goal or _plain_goal(piece.text)
        asked, forbidden = forbidding(piece)
        if forbidden is not None:
            self.bounds.append(forbidden.text)
        parts = clauses(asked)
        # "Urgent: fix this and that" is said of both.
        lead = piece.text[: len(asked.text) - len(opened(asked)[0].text)]
        for part in parts:
            whole = piece.text if len(parts) > 1 else ""
            self._add(Found(part.piece.strip(), part.order, whole=whole, more=[lead]))

    def _meant(self, piece: Piece) -> Sense:
        if _BOUNDS.search(self._section):
            return Sense.PROHIBITION
        return Sense.GATE if _GATES.search(self._section) else sense(piece)

    # -- lists

    def _listing(self, points: Iterable[Point], parent: int | None = None, group: str = "") -> None:
        chained = bool(_IN_ORDER.search(self._section) or (self.goal and _IN_ORDER.search(self.goal)))
        for point in points:
            self._point(point, parent, group, chained)

    def _point(self, point: Point, parent: int | None, group: str, chained: bool) -> None:
        if _BACKGROUND.search(self._section):
            self._background(_outline(point))
            return
        meant = self._meant_in_list(point)
        if meant is Sense.PROHIBITION:
            self.bounds.append(_outline(point))
        elif meant is Sense.GATE:
            self.gates.append(_outline(point))
        elif point.points and point.piece.masked.rstrip().endswith(":") and not point.boxed:
            name = point.piece.text.rstrip(": ")
            self._listing(point.points, parent, f"{group}: {name}" if group else name)
        elif not point.done or _open_below(point):
            self._task(point, parent, group, chained)

    def _meant_in_list(self, point: Point) -> Sense:
        if _BOUNDS.search(self._section):
            return Sense.PROHIBITION
        if _GATES.search(self._section):
            return Sense.GATE
        # In a list even "avoid N+1 queries" is work to do; only what plainly forbids is not.
        forbids = re.match(r"(?i)(?:please\s+)?(?:don['’]?t|do not|never)\b(?!\s+forget)", point.piece.masked)
        return Sense.PROHIBITION if forbids and not point.boxed else Sense.REQUEST

    def _task(self, point: Point, parent: int | None, group: str, chained: bool) -> None:
        _, order = opened(point.piece)
        below = [one for one in point.points if _is_task(one)]
        told = [_outline(one, "  ") for one in point.points if not _is_task(one)]
        own = self._add(
            Found(point.piece, order, parent, group, after=[*point.details, *told], chained=chained, more=point.details)
        )
        self._listing(below, own)


def _is_task(point: Point) -> bool:
    """A point below another is a part of the work when it says to do something; else it explains."""
    return point.boxed or commands(readable(stripped(opened(point.piece)[0]).masked))


def _open_below(point: Point) -> bool:
    return any(not one.done and (one.boxed or _open_below(one)) for one in point.points)


def _outline(point: Point, indent: str = "") -> str:
    below = [_outline(one, indent + "  ") for one in point.points]
    return "\n".join([f"{indent}- {point.piece.text}" if indent else point.piece.text, *point.details, *below])


_GREETED = re.compile(
    r"(?i)^(?:hi|hello|hey|thanks?|thank you|cheers|ok(?:ay)?|good (?:morning|afternoon|evening)|dear)\b"
)


def _is_greeting(piece: Piece) -> bool:
    return len(piece.text) < 40 and bool(_GREETED.match(piece.text))


def _plain_goal(text: str) -> str:
    """A line that says what all of it is for; "please do the following" does not."""
    return "" if re.search(r"(?i)\b(?:follow(?:ing|s)|todos?|tasks?|steps?|list|things|below)\b", text) else text
