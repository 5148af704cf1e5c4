"""Ask the model to reword notes that would wait for review because of a word without a source.

A model sometimes adds a name that nobody typed or used to a note that is otherwise right: a library, a kind of file, an
example. It gets the words that have no source, and the words and deeds that the note may use. Its answer is checked
like any other note.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ..coding.session import Exchange
from ..ports import Model
from ..reading.model import ModelReader
from ..reading.port import NoteToReword, Rewording, RuleProposal, Verdict
from ..types.kinds import LASTING
from ..types.record import Record
from .acceptance import AcceptanceReader
from .accounts import is_persons
from .admit import clean
from .basis import ProposalBasis, collect_words, find_basis, remove_foreign
from .coding_sessions import CheckedProposals, SessionPart, find_live_rules, reads_like_attack, weakens_safety
from .context import Engine
from .literals import find_literals
from .transaction import Transaction

_TARGET = re.compile(r"[/\\@$`]|(?<!\S)-|\w\.[a-z]{2}")
"""Matches parts of addresses, paths, options and commands."""
_MOST_NOTES = 10
_PERSON_CHARS = 600
_DEEDS_CHARS = 1500
_TURNS_BEFORE = 1
_TURNS_AFTER = 2


def reword_refused(engine: Engine, model: Model, part: SessionPart, reading: CheckedProposals) -> CheckedProposals:
    """Return a reading in which lasting notes with words from nowhere are worded again, as far as that helps."""
    checker = _Checker(engine, part)
    proposals = list(reading.proposals)
    refused: dict[int, ProposalBasis] = {}
    for number, proposal in enumerate(proposals):
        if not _may_be_reworded(proposal) or not checker.find_basis(proposal).untyped:
            continue
        # A reason that is left out needs no source.
        finding = checker.find_basis(proposal._replace(reason=""))
        if not finding.untyped:
            proposals[number] = finding.proposal
        elif len(refused) < _MOST_NOTES:
            refused[number] = finding
    if not refused:
        return reading._replace(proposals=proposals)
    notes = [_describe_refused(part.exchanges, finding) for finding in refused.values()]
    for number, rewording in zip(refused, ModelReader(model).reword_notes(notes), strict=True):
        proposals[number] = checker.choose_wording(proposals[number], rewording)
    return reading._replace(proposals=proposals)


def _may_be_reworded(proposal: RuleProposal) -> bool:
    """Return whether other words may help a note. One whose reason leads somewhere waits for the person as it is."""
    # One that repeats a known rule is stored in the words of that rule.
    is_new = proposal.reach in LASTING and proposal.verdict is not Verdict.SAME
    return is_new and not _TARGET.search(proposal.reason) and not weakens_safety(proposal.rule)


class _Checker:
    """Finds what the proposals of a part rest on."""

    def __init__(self, engine: Engine, part: SessionPart) -> None:
        self._exchanges = part.exchanges
        self._words = collect_words(part.story, part.until)
        self._acceptance = AcceptanceReader(part.story)
        self._rules: dict[str, Record] = {rule.id: rule for rule in find_live_rules(Transaction(engine))}

    def find_basis(self, proposal: RuleProposal) -> ProposalBasis:
        """Return what a proposal rests on."""
        stored = self._rules.get(proposal.known)
        return find_basis(self._exchanges, proposal, self._words, stored, self._acceptance)

    def choose_wording(self, proposal: RuleProposal, rewording: Rewording) -> RuleProposal:
        """Return a proposal in other words if they pass the checks, else as it was."""
        if not rewording.note:
            return proposal
        kept_literals = {literal.words for literal in find_literals(rewording.note)}
        is_partial = any(literal.words not in kept_literals for literal in find_literals(proposal.rule))
        reworded = proposal._replace(rule=rewording.note, trigger=rewording.trigger, is_partial=is_partial)
        for candidate in (reworded, reworded._replace(reason="")):
            if not self.find_basis(candidate).untyped and not reads_like_attack(candidate):
                return candidate
        return proposal


def _describe_refused(exchanges: Sequence[Exchange], finding: ProposalBasis) -> NoteToReword:
    """Return a note as the model is shown it, with the words around it and the accepted deeds."""
    proposal = finding.proposal
    first = max(0, proposal.turn - _TURNS_BEFORE)
    turns = [exchange.turn for exchange in exchanges[first : proposal.turn + _TURNS_AFTER + 1]]
    person = [remove_foreign(turn.user_words)[:_PERSON_CHARS] for turn in turns if is_persons(turn)]
    return NoteToReword(
        note=proposal.rule,
        trigger=proposal.trigger,
        refused=tuple(finding.untyped),
        person=tuple(str(clean(words)) for words in person),
        deeds=tuple(_list_deeds(finding)),
    )


def _list_deeds(finding: ProposalBasis) -> Iterator[str]:
    """Yield the accepted deeds, each once, as many as there is room for."""
    room = _DEEDS_CHARS
    for text in dict.fromkeys(deed.text for deed in finding.words.deeds):
        room -= len(text)
        if room < 0:
            return
        yield str(clean(text))
