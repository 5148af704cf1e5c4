"""Which deeds of an agent a person accepted, so that a note may name them: the state "agreed".

A deed counts only if it succeeded, passes the screens and is close to the words that teach the note. It is accepted if
the person's next turn says so ("there, now I can read it"), or if it carried out a correction and the next turn does
not object to it. A bare yes accepts no more than what the agent's question named. Words that came from outside before
the agent used them vouch for nothing, whoever accepted the deed. In doubt a deed is not accepted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..coding.exchanges import Account, Deed
from ..coding.session import CodingSession, Exchange
from ..reading.local import LocalReader
from ..reading.port import Quote, Role, RuleProposal, SpokenTurn
from ..reading.replies import (
    ReplyKind,
    asks_question,
    find_objection,
    find_praise,
    is_general_question,
    is_ironic,
    read_quoted_reply,
    read_reply,
    share_telling_words,
)
from .accounts import is_persons, list_added_lines, list_exchanges
from .escape import find_suspicion
from .exchanges import OutsideWords, find_own_words
from .literals import AcceptedDeed, names_place, names_same_place
from .reversals import is_negated
from .safety import find_harm, find_weakening

_READER = LocalReader()
_BLANK = "▪"  # Stands for a word that came from outside.
_NEAR = (-1, 0, 1)  # The accounts around the turn that teaches: before it, after it, and after the next.
_MOST_DEEDS = 200
_SCREENED_CHARS = 2000


class Agreement(NamedTuple):
    """The deeds that a person accepted around a note, and what the agent did there before, with or without success."""

    accepted: tuple[AcceptedDeed, ...] = ()
    earlier: tuple[str, ...] = ()


class _Place(NamedTuple):
    """The account of a deed: what followed a turn. `number` is that of the turn; -1 before the first one."""

    number: int
    account: Account


class AcceptanceReader:
    """Tells which deeds of a session the person accepted."""

    def __init__(self, story: CodingSession) -> None:
        self._exchanges = list_exchanges(story)
        self._numbers = {exchange.turn.id: number for number, exchange in enumerate(self._exchanges)}
        self._outside = OutsideWords(story)
        self._texts: dict[int, str] = {}
        """What may be taken from the deeds that were read, by their offsets."""

    def find_agreement(self, proposal: RuleProposal, part: Sequence[Exchange]) -> Agreement:
        """Return what a proposal may name besides the person's words; `part` is what its indexes refer to."""
        number = self._numbers.get(part[proposal.turn].turn.id)
        if number is None or not is_persons(self._exchanges[number].turn):
            return Agreement()
        quotes = [(number, proposal.quote)]
        if proposal.accepted is not None:
            accepting = self._numbers.get(part[proposal.accepted.turn].turn.id, number)
            quotes.insert(0, (accepting, proposal.accepted.text))
        # A reader may not have quoted what is plain to see.
        quotes += [(near, self._find_praise(near)) for near in (number, number + 1)]
        accepted: list[AcceptedDeed] = []
        earlier: list[str] = []
        for place in self._list_places():
            is_near = self._is_near(place, number, proposal.deeds)
            for deed in place.account.deeds[-_MOST_DEEDS:]:
                text = self._read_deed(deed)
                if place.number <= number:
                    earlier.append(text)
                if deed.ok and text and is_near:
                    accepted += self._accept_deed(place, text, proposal, number, quotes)
        accepted += self._list_answered(number)
        return Agreement(tuple(accepted), tuple(filter(None, earlier)))

    def _list_places(self) -> Iterator[_Place]:
        """Yield all accounts of the session, in order."""
        for number in range(-1, len(self._exchanges)):
            account = self._exchanges[0].before if number < 0 else self._exchanges[number].then
            yield _Place(number, account)

    def _is_near(self, place: _Place, number: int, named: Sequence[Quote]) -> bool:
        """Return whether an account is around a turn, or has a deed that the note names."""
        is_around = place.number - number in _NEAR
        return is_around or any(_has_deed(place.account, quote.text) for quote in named)

    def _accept_deed(
        self, place: _Place, text: str, proposal: RuleProposal, number: int, quotes: Sequence[tuple[int, str]]
    ) -> Iterator[AcceptedDeed]:
        """Yield a deed if words of the person accept it."""
        turns = tuple(dict.fromkeys(self._name_turns(place.number, number)))
        reply = place.number + 1
        about = f"{text} {proposal.rule}"
        for turn, quote in quotes:
            if turn != reply or not self._has_words(turn, quote):
                continue
            words = find_own_words(self._exchanges[turn].turn.user_words)
            kind = read_quoted_reply(words, quote)
            if find_objection(words, about):
                continue
            if kind is ReplyKind.ACCEPTS:
                yield AcceptedDeed(text, "", quote, turns)
                return
            if kind is ReplyKind.ANSWERS:
                yield from self._accept_answered(place, text, quote, turns)
                return
        if place.number == number and self._carries_out(number, proposal.quote) and not self._is_refused(reply, about):
            yield AcceptedDeed(text, "", proposal.quote, turns)

    def _accept_answered(self, place: _Place, text: str, quote: str, turns: tuple[str, ...]) -> Iterator[AcceptedDeed]:
        """Yield what a bare yes accepts of a deed: all of it if nothing was asked, else what the question named.

        "Should I always regenerate the client?" asks about the deed that has to do with the client, and then the paths
        of the files that were changed are part of it.
        """
        question = asks_question("\n".join(place.account.messages[-1:]))
        is_general = is_general_question(question)
        is_meant = names_same_place(question, text) if names_place(question) else share_telling_words(question, text)
        if not question or (is_general and is_meant):
            yield AcceptedDeed(text, "", quote, turns)
            return
        yield AcceptedDeed(text, question, quote, turns)
        if is_general and not names_place(question):
            done = [self._read_deed(deed) for deed in place.account.deeds if deed.ok]
            paths = {deed.path for deed in place.account.deeds if deed.path}
            path = text.partition("\n")[0]
            if path in paths and any(share_telling_words(question, other) for other in done):
                yield AcceptedDeed(path, "", quote, turns)

    def _find_praise(self, number: int) -> str:
        """Return the sentence with which a turn accepts what was done before it; empty if none does."""
        if not 0 <= number < len(self._exchanges) or not is_persons(self._exchanges[number].turn):
            return ""
        return find_praise(find_own_words(self._exchanges[number].turn.user_words))

    def _carries_out(self, number: int, quote: str) -> bool:
        """Return whether words of a turn ask for something else than was done, so that what follows carries it out."""
        if not self._has_words(number, quote) or is_ironic(self._exchanges[number].turn.user_words):
            return False
        before = self._exchanges[number].before
        is_answer = number > 0 and bool(before.deeds or before.messages)
        return is_answer or is_negated(quote) or bool(_READER.find_rules([SpokenTurn(Role.USER, quote)]))

    def _is_refused(self, number: int, about: str) -> bool:
        """Return whether the turn after a deed may object to it. Without one, nobody did."""
        if number >= len(self._exchanges):
            return False
        turn = self._exchanges[number].turn
        return not is_persons(turn) or bool(find_objection(turn.user_words, about)) or is_ironic(turn.user_words)

    def _list_answered(self, number: int) -> Iterator[AcceptedDeed]:
        """Yield the deeds of a session, as far as a question names them to which a turn is the answer."""
        turn, before = self._exchanges[number].turn, self._exchanges[number].before
        question = asks_question("\n".join(before.messages[-1:]))
        words = find_own_words(turn.user_words)
        if not question or read_reply(words, question) is not ReplyKind.ANSWERS:
            return
        offset = before.offset + 1
        question = " ".join(self._blank_foreign(word, offset) for word in question.split())
        for place in range(-1, number + 1):
            account = self._exchanges[0].before if place < 0 else self._exchanges[place].then
            for deed in account.deeds[-_MOST_DEEDS:]:
                text = self._read_deed(deed)
                if deed.ok and text:
                    turns = tuple(dict.fromkeys(self._name_turns(place, number)))
                    yield AcceptedDeed(text, question, words[:300], turns)

    def _name_turns(self, *numbers: int) -> Iterator[str]:
        for number in numbers:
            if 0 <= number < len(self._exchanges):
                yield self._exchanges[number].turn.id

    def _has_words(self, number: int, quote: str) -> bool:
        """Return whether a person typed a quote in a turn themselves."""
        if not 0 <= number < len(self._exchanges) or not is_persons(self._exchanges[number].turn):
            return False
        own = find_own_words(self._exchanges[number].turn.user_words)
        return bool(quote) and _fold_text(quote) in _fold_text(own)

    def _read_deed(self, deed: Deed) -> str:
        """Return what may be taken from a deed, line by line; nothing of a command that the screens hold back."""
        if deed.offset not in self._texts:
            self._texts[deed.offset] = self._screen_deed(deed)
        return self._texts[deed.offset]

    def _screen_deed(self, deed: Deed) -> str:
        if deed.path:
            # What a note takes from an edit is screened as a part of the note.
            lines = [deed.path, *list_added_lines(deed)]
        else:
            command = deed.command[:_SCREENED_CHARS]
            is_harmful = find_weakening(command) or find_harm(command) or find_suspicion(command)
            lines = [] if is_harmful else deed.command.splitlines()
        kept = [" ".join(self._blank_foreign(word, deed.offset) for word in line.split()) for line in lines]
        return "\n".join(filter(None, kept))

    def _blank_foreign(self, word: str, offset: int) -> str:
        return _BLANK if self._outside.is_foreign(word, offset) else word


def _has_deed(account: Account, quote: str) -> bool:
    """Return whether an account has the deed that a quote names."""
    wanted = _fold_text(quote)
    for deed in account.deeds:
        own = _fold_text(f"{deed.path} {deed.written}" if deed.path else deed.command)
        if wanted and (wanted in own or (len(own) > 3 and own in wanted)):
            return True
    return False


def _fold_text(text: str) -> str:
    return " ".join(text.replace("`", "").replace("’", "'").split()).casefold()
