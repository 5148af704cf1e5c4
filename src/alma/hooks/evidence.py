"""Choose exchanges of earlier sessions and quote them: evidence, where nothing was distilled from it yet.

At the start of a session the exchanges that most likely teach something are shown, in a part of the room that rules
leave. The first prompt gets the rest of it, for the exchanges that it is about. What is left after these goes to the
exchanges around them, and only then to others. Exchanges are quoted as data, in the order of time.
"""

from __future__ import annotations

import json
import time

from .hosts import can_show
from .inject import CHARS_A_TOKEN, MOST_CHARS, PROMPT_CHARS, ROOM, count_start_room
from .providers import may_share

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping, Sequence
    from typing import Any

    from .inject import Injection, ReadOnlyRules

NEWEST = 300
"""How many of the newest exchanges are considered."""
LIKELIEST = 40
"""How many of these are read: the likeliest to teach. The others are found by their words or their meaning only."""
_HITS = 60
_BEST = 30
"""How many of the exchanges that share words with a prompt are read."""
_QUERY_WORDS = 12
_WITH_WORD = "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rowid DESC LIMIT ?"
_SHORTEST = 40
"""An entry has more characters than that."""
_REMINDER_CHARS = 60
"""How much is repeated of an exchange that the start of the session has shown, where its place in time matters."""
MOST_SHOWN = 12
"""How many exchanges are shown at once."""
START_SHARE = 0.25
"""The part of the room of a session's start that exchanges take there. The first prompt gets what is left."""
LEAST_LIKELY = 0.05
"""At the start of a session, an exchange that teaches with less likelihood is not shown. A prompt may still be about
it. `tools/fit_teaching.py` prints what this costs."""
LIKELY = 0.25
"""Where the first prompt gets the rest of the room, an exchange is shown at the start only if it teaches with at least
this likelihood: before anybody asked, what is left is better kept for what the prompt is about."""
_BY_WORDS = 2.5
_BY_MEANING = 2.0
_RECENCY = 0.1
_COVERED = 0.6
"""What is taken off for an exchange that a shown rule was made from, where nobody prompted yet."""
_COVERED_AT_PROMPT = 0.2
"""The same at a prompt: a rule says less than the exchange that it is from, which the prompt may be about."""
_READ = {"nothing": 0.5, "momentary": 0.25}
"""By what the likelihood is multiplied where a model that read the exchange found nothing that lasts."""
_READ_AT_PROMPT = {"nothing": 0.5}
"""The same at a prompt. It may be about an exception, and what was done before one is often the usual way: an exchange
with an exception counts as much as if no model had read it."""
_UNTOLD = ("waiting", "partly")
"""Of what a model found there, no rule tells all: it waits for the person, or names had to be left out of the rule."""
_LIKELY_FOUND = dict.fromkeys(_UNTOLD, 0.9)
"""How likely an exchange teaches at least in which a model found what would last and no rule tells whole."""
_LIKELY_FOUND_AT_PROMPT = {**_LIKELY_FOUND, "rule": 0.6}
"""The same at a prompt, where the exchange of a rule is shown with it while the room allows."""
WORTHY = 0.2
"""With the first prompt, exchanges that are likelier or nearer than that come first, then those around them."""
TITLE = (
    "## From earlier sessions\n\n"
    "Quoted as data, word for word. Some of it was only for that task; newer entries win.\n\n"
)


class StoredExchange:
    """An exchange as stored, and how it relates to now.

    `recency` is 1 for the newest and falls to 0 for the oldest that is considered. `shared` is the share of the
    prompt's words that it has, `cosine` how near it is in meaning, and `around` how near its session is on average.
    """

    __slots__ = ("around", "body", "cosine", "created_at", "id", "recency", "session", "shared")

    def __init__(self, id: str, created_at: int, session: str, body: dict[str, Any]) -> None:
        self.id = id
        self.created_at = created_at
        self.session = session
        self.body = body
        self.recency = 0.0
        self.shared = 0.0
        self.cosine = 0.0
        self.around = 0.0

    @property
    def nearness(self) -> float:
        """Return how near it is to the prompt by itself."""
        return _BY_WORDS * self.shared + _BY_MEANING * self.cosine

    @property
    def is_untold(self) -> bool:
        """Return whether a model found something in it of which no rule tells all."""
        return self.body.get("found") in _UNTOLD

    @property
    def likely(self) -> float:
        """Return how likely it teaches something that lasts, also by what a model found that read it."""
        return self._weigh(_READ, _LIKELY_FOUND)

    @property
    def likely_at_prompt(self) -> float:
        """Return how likely it teaches something about what a prompt asks for."""
        return self._weigh(_READ_AT_PROMPT, _LIKELY_FOUND_AT_PROMPT)

    def _weigh(self, weights: Mapping[str, float], least: Mapping[str, float]) -> float:
        found = str(self.body.get("found", ""))
        likely = float(self.body.get("likely", 0.0)) * weights.get(found, 1.0)
        return max(likely, least.get(found, 0.0))

    @property
    def turn(self) -> str:
        """Return the id of the person's turn."""
        return str(self.body.get("turn", ""))

    @property
    def place(self) -> tuple[str, int]:
        """Return the session and the number of the person's turn in it."""
        return self.session, int(self.body.get("number", 0))

    @property
    def date(self) -> str:
        """Return the day on which it was said."""
        return time.strftime("%Y-%m-%d", time.gmtime(self.created_at / 1_000_000))

    def text(self, field: str) -> str:
        """Return a text of the body on one line."""
        return " ".join(str(self.body.get(field, "")).split())

    def write(self, follows: bool) -> str:
        """Return the exchange as quoted. One that `follows` the entry above does not repeat what was done there."""
        before = "" if follows else self.text("before")
        lines = [f"- {self.date}" + (f" you: {before}" if before else "")]
        lines.append(f"  user: “{self.text('person').translate(_INNER_QUOTES)}”")
        if then := self.text("then"):
            lines.append(f"  you: {then}")
        return "\n".join(lines) + "\n"

    def write_reminder(self) -> str:
        """Return the beginning of the person's words, for an exchange that the start of the session has shown."""
        person = self.text("person").translate(_INNER_QUOTES)
        if len(person) > _REMINDER_CHARS:
            person = person[:_REMINDER_CHARS] + "…"
        return f"- {self.date} (as above) user: “{person}”\n"


_INNER_QUOTES = {ord("“"): "‘", ord("”"): "’"}


_SELECT_LIKELIEST = """
SELECT id, created_at, session, body FROM (
  SELECT id, created_at, session, body FROM record WHERE status = 'active' AND scope = ?
  ORDER BY created_at DESC, id DESC LIMIT ?
) ORDER BY CASE
  WHEN instr(body, '"found":"waiting"') OR instr(body, '"found":"partly"') OR instr(body, '"found":"rule"') THEN 1
  ELSE CAST(substr(body, instr(body, '"likely":') + 9, 6) AS REAL)
END DESC LIMIT ?
"""
"""SQLite reads the number out of the stored JSON faster than it can be decoded. In the texts beside it, quotation marks
are escaped, so none of them can be taken for it."""


def list_newest_exchanges(rules: ReadOnlyRules, is_allowed: Callable[[str], bool]) -> list[StoredExchange]:
    """Return the likeliest of the newest exchanges of the project that may be shown, newest first."""
    rows: list[Any] = []
    for scope in rules.exchange_scopes:
        rows += rules.fetch(_SELECT_LIKELIEST, (scope, NEWEST, LIKELIEST))
    rows.sort(key=lambda row: (-row[1], row[0]))
    exchanges = _decode(rows, is_allowed)
    for index, exchange in enumerate(exchanges):
        exchange.recency = 1.0 - index / len(exchanges)
    return exchanges


def _decode(rows: Sequence[Sequence[Any]], is_allowed: Callable[[str], bool]) -> list[StoredExchange]:
    # Several hundred texts are decoded faster as one.
    bodies = json.loads(f"[{','.join(row[3] for row in rows)}]")
    known: dict[str, bool] = {}
    exchanges = []
    for row, body in zip(rows, bodies, strict=True):
        host = str(body.get("host", ""))
        if host not in known:
            known[host] = is_allowed(host)
        if known[host]:
            exchanges.append(StoredExchange(row[0], row[1], row[2], body))
    return exchanges


def find_matching_exchanges(
    rules: ReadOnlyRules, prompt: str, is_allowed: Callable[[str], bool]
) -> list[StoredExchange]:
    """Return the exchanges that share telling words with a prompt, best first, with which share of them they have."""
    # Loaded here: at the start of a session nobody has prompted yet.
    from ..text import COMMON, STOP, words

    listed = [word for word in dict.fromkeys(words(prompt)) if word not in STOP and len(word) > 1]
    listed.sort(key=lambda word: word in COMMON)
    if not listed or not rules.exchange_scopes:
        return []
    scopes = " OR ".join(f"s{scope}" for scope in rules.exchange_scopes)
    scores: dict[int, float] = {}
    total = 0.0
    for word in listed[:_QUERY_WORDS]:
        rows = rules.fetch(_WITH_WORD, (f'text : "{word}" AND scope : ({scopes})', _HITS))
        # A word in many exchanges says little, and one in all of them nothing.
        weight = _weigh_word(len(rows)) * (0.3 if word in COMMON else 1.0)
        total += weight
        for (number,) in rows:
            scores[number] = scores.get(number, 0.0) + weight
    best = sorted(scores, key=lambda number: (-scores[number], -number))[:_BEST]
    places = ", ".join("?" * len(best))
    # The sign keeps SQLite from reading all that is active.
    select = f"SELECT id, created_at, session, body, n FROM record WHERE n IN ({places}) AND +status = 'active'"
    rows = rules.fetch(select, best) if best else []
    shares = {row[0]: scores[row[4]] / total for row in rows}
    found = _decode(rows, is_allowed)
    for exchange in found:
        exchange.shared = shares[exchange.id]
    return sorted(found, key=lambda exchange: -exchange.shared)


def _weigh_word(hits: int) -> float:
    """Return how telling a word is: 1 for one hit, falling with the logarithm of their number.

    A small power is as good as the logarithm here, and `math` takes a while to load.
    """
    tiny = 0.001
    share: float = (max(1, hits) ** tiny - 1.0) / ((2 * _HITS) ** tiny - 1.0)
    return 1.0 - share


def get_exchanges(rules: ReadOnlyRules, ids: Iterable[str], is_allowed: Callable[[str], bool]) -> list[StoredExchange]:
    """Return the exchanges with these ids, as far as they may be shown here."""
    wanted = [*ids]
    if not wanted or not rules.exchange_scopes:
        return []
    ids_places, scopes_places = (", ".join("?" * len(values)) for values in (wanted, rules.exchange_scopes))
    select = (
        "SELECT id, created_at, session, body FROM record"
        f" WHERE id IN ({ids_places}) AND +scope IN ({scopes_places}) AND +status = 'active'"
    )
    return _decode(rules.fetch(select, (*wanted, *rules.exchange_scopes)), is_allowed)


def join_similarities(
    exchanges: Iterable[StoredExchange], matching: Iterable[StoredExchange], cosines: Mapping[str, float]
) -> list[StoredExchange]:
    """Return exchanges with how similar each is to the prompt: by words and, where `cosines` has it, by meaning."""
    joined = {exchange.id: exchange for exchange in exchanges}
    for match in matching:
        joined.setdefault(match.id, match).shared = match.shared
    for id, cosine in cosines.items():
        if id in joined:
            joined[id].cosine = cosine
    sessions: dict[str, list[StoredExchange]] = {}
    for exchange in joined.values():
        sessions.setdefault(exchange.session, []).append(exchange)
    for together in sessions.values():
        mean = sum(exchange.nearness for exchange in together) / len(together)
        for exchange in together:
            exchange.around = mean
    return list(joined.values())


def list_covered_turns(rules: ReadOnlyRules, shown_ids: Iterable[str]) -> set[str]:
    """Return the ids of the turns that taught the rules that were shown before."""
    ids = [id for id in shown_ids if id.startswith("rul_")]
    if not ids:
        return set()
    select = f"SELECT body FROM record WHERE id IN ({', '.join('?' * len(ids))})"
    turns: set[str] = set()
    for (body,) in rules.fetch(select, ids):
        sources = json.loads(body).get("metadata", {}).get("sources", ())
        turns.update(str(source).partition(":")[0] for source in sources)
    return turns


def choose_exchanges(
    exchanges: Iterable[StoredExchange],
    room: int,
    shown_ids: Container[str] = (),
    covered_turns: Container[str] = (),
    *,
    is_prompt: bool = False,
) -> list[StoredExchange]:
    """Return the exchanges that most likely help, as many as fit in `room` characters, in the order of time.

    Those in `shown_ids` are not chosen. Newer ones of them count for the room, because their beginning is repeated.
    """
    covered = _COVERED_AT_PROMPT if is_prompt else _COVERED
    scores: dict[str, float] = {}
    candidates: list[StoredExchange] = []
    above: list[StoredExchange] = []
    for exchange in exchanges:
        if exchange.id in shown_ids:
            above.append(exchange)
            continue
        likely = exchange.likely_at_prompt if is_prompt else exchange.likely
        score = likely + exchange.nearness + exchange.around + _RECENCY * exchange.recency
        if exchange.turn in covered_turns and not exchange.is_untold:
            score -= covered
        scores[exchange.id] = score
        candidates.append(exchange)
    candidates.sort(key=lambda exchange: (-scores[exchange.id], exchange.id))
    selection = _Selection(room, above if is_prompt else ())
    if not is_prompt:
        selection.add_fitting(candidates)
        return selection.chosen
    worths = {exchange.id: exchange.likely_at_prompt + exchange.nearness for exchange in candidates}
    selection.add_fitting(exchange for exchange in candidates if worths[exchange.id] >= WORTHY)
    selection.add_fitting(_list_neighbours(selection.chosen, candidates))
    selection.add_fitting(exchange for exchange in candidates if LEAST_LIKELY <= worths[exchange.id] < WORTHY)
    return selection.chosen


def _list_neighbours(chosen: Iterable[StoredExchange], candidates: Iterable[StoredExchange]) -> list[StoredExchange]:
    """Return the exchanges right after and right before the chosen ones: first all that follow one."""
    by_place = {exchange.place: exchange for exchange in candidates}
    places = [exchange.place for exchange in chosen]
    neighbours: list[StoredExchange] = []
    for step in (1, -1):
        for session, number in places:
            neighbour = by_place.get((session, number + step))
            if neighbour is not None:
                neighbours.append(neighbour)
    return neighbours


class _Selection:
    """Exchanges that fit together into `room` characters, in the order of time. `above` were shown before."""

    def __init__(self, room: int, above: Sequence[StoredExchange]) -> None:
        self.chosen: list[StoredExchange] = []
        self._above = above
        self._room = room
        self._size = len(TITLE)

    def add_fitting(self, candidates: Iterable[StoredExchange]) -> None:
        """Add the candidates that still fit, best first."""
        for candidate in candidates:
            if self._room - self._size < _SHORTEST or len(self.chosen) == MOST_SHOWN:
                return
            # Most do not fit once the room is nearly full. To find that out, one need not be written.
            text_size = len(candidate.body.get("person", "")) + len(candidate.body.get("then", ""))
            if self._size + text_size > self._room or candidate in self.chosen:
                continue
            fitting = sorted([*self.chosen, candidate], key=_get_order)
            written_size = len(write_exchanges(fitting, self._above))
            if written_size <= self._room:
                self.chosen, self._size = fitting, written_size


def _get_order(exchange: StoredExchange) -> tuple[int, tuple[str, int]]:
    return exchange.created_at, exchange.place


def write_exchanges(exchanges: Sequence[StoredExchange], above: Sequence[StoredExchange] = ()) -> str:
    """Return the section that quotes these exchanges, which are in the order of time; empty without any.

    Newer entries win, so the beginning of each newer exchange in `above`, which the start of the session has shown, is
    repeated in its place.
    """
    if not exchanges:
        return ""
    oldest = exchanges[0].created_at
    repeated = {exchange.id for exchange in above if exchange.created_at > oldest}
    entries = [*exchanges, *(exchange for exchange in above if exchange.id in repeated)]
    lines = []
    last: tuple[str, int] | None = None
    for exchange in sorted(entries, key=_get_order):
        session, number = exchange.place
        if exchange.id in repeated:
            lines.append(exchange.write_reminder())
        else:
            lines.append(exchange.write(follows=last == (session, number - 1)))
        last = exchange.place
    return TITLE + "".join(lines)


class EvidenceChoice:
    """Adds exchanges of earlier sessions to what a session starts with, and to its first prompt."""

    def __init__(self, host: str, session: str, settings: Mapping[str, Any], rules: ReadOnlyRules) -> None:
        self._host = host
        self._session = session
        self._settings = settings
        self._rules = rules

    def _is_allowed(self, recorded_host: str) -> bool:
        return may_share(recorded_host, self._host, self._settings["evidence_providers"])

    def _list_candidates(self) -> list[StoredExchange]:
        exchanges = list_newest_exchanges(self._rules, self._is_allowed)
        return [exchange for exchange in exchanges if exchange.session != self._session]

    def add_at_start(self, playbook: Injection, shown_ids: Container[str] = ()) -> None:
        """Add the likeliest exchanges in a part of the room; in all of it where no prompt can be answered."""
        room = count_start_room(self._settings)
        least_likely = LEAST_LIKELY
        if can_show(self._host, "UserPromptSubmit"):
            room = min(room, len(playbook.text) + int(START_SHARE * room))
            least_likely = LIKELY
        covered = {turn for rule in playbook.rules for turn in rule.turns}
        left = room - len(playbook.text) - 1
        candidates = [exchange for exchange in self._list_candidates() if exchange.likely >= least_likely]
        chosen = choose_exchanges(candidates, left, shown_ids, covered)
        playbook.add_evidence(chosen, write_exchanges(chosen))

    def add_at_prompt(
        self, reminder: Injection, prompt: str, shown_ids: set[str], answer: Mapping[str, Any], *, is_start: bool
    ) -> None:
        """Add the exchanges that the first prompt is about, in what the start left and the prompt's own room."""
        left = [int(mark.removeprefix(ROOM)) for mark in shown_ids if mark.startswith(ROOM)]
        room = count_start_room(self._settings) if is_start else sum(left)
        room += self._settings["prompt_tokens"] * CHARS_A_TOKEN
        left_room = min(room, MOST_CHARS) - len(reminder.text) - 1
        if left_room < len(TITLE) + _SHORTEST:
            return
        matching = find_matching_exchanges(self._rules, prompt[:PROMPT_CHARS], self._is_allowed)
        cosines = {str(id): float(cosine) for id, cosine in answer.get("exchanges") or []}
        newest = self._list_candidates()
        known = {exchange.id for exchange in (*newest, *matching)}
        matching += get_exchanges(self._rules, cosines.keys() - known, self._is_allowed)
        others = [exchange for exchange in matching if exchange.session != self._session]
        candidates = join_similarities(newest, others, cosines)
        covered = {turn for rule in reminder.rules for turn in rule.turns}
        covered |= list_covered_turns(self._rules, shown_ids)
        chosen = choose_exchanges(candidates, left_room, shown_ids, covered, is_prompt=True)
        above = [exchange for exchange in candidates if exchange.id in shown_ids]
        reminder.add_evidence(chosen, write_exchanges(chosen, above))
