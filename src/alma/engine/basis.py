"""What a note that a model proposes rests on: the person's own words, and deeds of the agent that the person accepted.

A note whose literals are all in the person's words is stated. One whose other literals are in accepted deeds is agreed.
The rest waits for the person.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..coding.events import Attendance
from ..coding.session import NOTED, CodingSession, Exchange, SessionTurn
from ..reading.local import remove_pasted
from ..reading.port import RuleProposal
from ..types.kinds import Basis
from ..types.record import Record, Status, Trust
from .acceptance import AcceptanceReader, Agreement
from .admit import clean
from .exchanges import OutsideWords
from .literals import AcceptedDeed, SessionWords, find_literals, find_untyped, list_used_deeds, names_place
from .typed_statements import remove_announced


class ProposalBasis(NamedTuple):
    """What a proposal rests on: the words it may be made of, the deeds that it names, and what nobody typed or did."""

    proposal: RuleProposal
    words: SessionWords
    untyped: list[str]
    deeds: tuple[AcceptedDeed, ...] = ()


def find_basis(
    exchanges: Sequence[Exchange],
    proposal: RuleProposal,
    words: SessionWords,
    stored: Record | None,
    acceptance: AcceptanceReader,
) -> ProposalBasis:
    """Return what a proposal rests on. A reason or an occasion in strange words is left out: neither holds it back."""
    turn = exchanges[proposal.turn].turn
    stated = _lend_avoided(_lend_words(words, turn, stored), stored)
    choices = [proposal, *_shorten_proposal(proposal)]
    for choice in choices:
        if not _list_untyped(choice, stated):
            return ProposalBasis(choice, stated, [])
    agreement = acceptance.find_agreement(proposal, exchanges)
    agreed = _lend_avoided(_add_deeds(stated, stored, agreement), stored)
    for choice in choices:
        if not _list_untyped(choice, agreed):
            deeds = list_used_deeds((choice.rule, choice.trigger, choice.reason), agreed)
            # Without accepted deeds, it names what the agent did only to forbid it.
            used = tuple(deeds) or agreed.deeds[:1] or (AcceptedDeed("", quote=proposal.quote),)
            return ProposalBasis(choice, agreed, [], used)
    return ProposalBasis(proposal, agreed, _list_untyped(proposal, agreed))


def _shorten_proposal(proposal: RuleProposal) -> Iterator[RuleProposal]:
    """Yield a proposal without its reason, and without its occasion too.

    A reason that names a place is not left out, nor an occasion that names anything.
    """
    if names_place(proposal.reason):
        return
    without_reason = proposal._replace(reason="")
    if proposal.reason:
        yield without_reason
    if proposal.trigger and not find_literals(proposal.trigger):
        yield without_reason._replace(trigger="")


def _add_deeds(words: SessionWords, stored: Record | None, agreement: Agreement) -> SessionWords:
    """Return the words with the deeds that were accepted, now or for the agreed rule that a proposal replaces."""
    deeds = agreement.accepted
    if stored is not None and stored.status is Status.ACTIVE and stored.body.get("basis") == Basis.AGREED:
        deeds = (*deeds, AcceptedDeed(stored.body["rule"], quote=stored.body.get("accepted", "")))
    return words._replace(deeds=deeds, avoided=agreement.earlier)


def _lend_avoided(words: SessionWords, stored: Record | None) -> SessionWords:
    """Return the words with those of the rule in force that a proposal replaces: the new one may forbid the old way."""
    if stored is None or stored.status is not Status.ACTIVE:
        return words
    return words._replace(avoided=(*words.avoided, stored.body["rule"]))


def collect_words(story: CodingSession, until: int) -> SessionWords:
    """Return the person's own words of a session up to an offset: typed, without what they pasted."""
    typed = [
        one.user_words
        for one in story.user_turns
        if one.offset <= until and one.attendance is Attendance.PERSON and one.is_typed
    ]
    notes = [one for one in story.signals if one.name == NOTED and one.offset <= until]
    typed += [one.text for one in notes if one.attendance is Attendance.PERSON]
    outside = OutsideWords(story)
    own = tuple(filter(None, map(remove_foreign, typed)))
    return SessionWords(own, is_outside=outside.is_foreign_word, is_spoken=outside.is_spoken)


def remove_foreign(text: str) -> str:
    """Return what a person typed, without what they pasted or announced as the words of others."""
    return remove_announced(remove_pasted(text))


def _lend_words(words: SessionWords, turn: SessionTurn, stored: Record | None) -> SessionWords:
    """Return the words with those of the rule that a proposal replaces, if it holds and the person stated it."""
    if stored is None or stored.status is not Status.ACTIVE or stored.provenance.trust is not Trust.TRUSTED:
        return words
    if stored.body.get("basis") == Basis.AGREED:
        return words
    return words._replace(typed=(*words.typed, f"{remove_foreign(turn.user_words)}\n{stored.body['rule']}"))


def _list_untyped(proposal: RuleProposal, words: SessionWords) -> list[str]:
    """Return the literals of a proposal that nobody typed or did, without secrets."""
    texts = (proposal.rule, proposal.trigger, proposal.reason)
    return [str(clean(one)) for one in find_untyped(texts, words)]
