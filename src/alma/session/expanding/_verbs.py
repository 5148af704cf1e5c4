"""Words that a request begins with. English; what is not listed is told by what follows it."""

from __future__ import annotations

import re

CLEAR = frozenset(
    """add adapt adjust adopt allow analyse analyze apply arrange assess assign attach avoid bring bump calculate cancel
    categorise categorize choose clarify classify collect combine compare compile compose compute configure confirm
    connect consider consolidate construct contact convert correct create customise customize decide define delete
    deliver deploy deprecate describe detect determine develop diagnose disable discuss distribute download drop
    eliminate enable encrypt enhance ensure establish estimate evaluate examine execute expand explain explore expose
    extend extract fetch figure finalise finalize find finish fix gather generate get give go handle hide identify
    implement improve include increase incorporate inform insert inspect install integrate introduce investigate keep
    launch learn look maintain make manage migrate minimise minimize modernise modernize modify negotiate notify obtain
    optimise optimize organise organize outline parse perform pick prepare prevent prioritise prioritize produce
    propose prove provide provision publish put read rebase rebuild recommend reconcile redesign reduce refactor
    refine reformat register reject remind remove rename render reorganise reorganize repair replace replicate
    reproduce resolve respond restructure resume revert revise rewrite rotate round-trip send separate simplify skip
    solve speak speed specify stabilise stabilize standardise standardize start stop store strengthen submit suggest
    summarise summarize talk teach tell think throw tighten translate troubleshoot tune turn type undo unify uninstall
    update upgrade upload use validate verify visualise visualize write""".split()
)
EITHER = frozenset(
    """alert answer archive ask attempt audit backup balance benchmark book branch break build cache call change check
    clean cleanup clear clone close code comment commit complete contract copy cover cut debug demo design document
    draft edit email end experiment export feature file fill filter follow format fork group guard guide harden help
    hook host import index interview invite iterate label lay leave let lint link list load lock log mail map mark
    measure merge migrate mock model monitor mount move name note offer open order package paginate patch pause ping
    pitch place plan plot point port post present print process profile program project prototype pull push query
    queue quote rank rate record release reply report request rerun research reset restart restore retry return review
    rework roll run sample save scale scan schedule scope score screen script search secure seed serve set setup shape
    share ship show shrink sign simulate sketch sort spawn split spike squash stage start state stream stub study style
    subscribe support survey swap switch sync tag take target test tidy time touch trace track train transfer transform
    trigger trim try vet view visit wait walk warm watch wire work wrap""".split()
)
ALONE = frozenset(
    "deploy commit push merge release ship test report stop rebase publish celebrate refactor retry restart".split()
)
"""Verbs that ask for something without an object: 'run the tests and deploy'."""

OBJECT = frozenset(
    """the a an all any each every both either it its them this that these those our my your his her their some more
    another one two three several whether if how why what which where when who everything anything nothing something us
    me""".split()
)
NEVER = frozenset(
    """the a an this that these those it its he she they we i you my your our their his her there here and or but if
    when while where who what which why how is are was were be been am do does did has have had can could will would
    shall should may might must not no yes in on at by for from with without to of as into about over under after
    before since because so then than also both either all any some each every everything nothing only just very
    currently recently today yesterday right now once until unless although though""".split()
)
_WORD = re.compile(r"[^\W\d_][\w'’-]*")
_FINITE = re.compile(
    r"(?i)^\S+(?:\s+\S+){0,2}?\s+(?:is|are|was|were|has|have|had|fails?|failed|does|doesn['’]t|do|don['’]t|isn['’]t"
    r"|aren['’]t|won['’]t|should|must|can|cannot|can['’]t|will|takes?|seems?|looks?|shows|keeps|needs?|breaks"
    r"|crashes)\b"
)


def first_word(text: str) -> str:
    found = _WORD.match(text)
    return found[0].casefold() if found else ""


def words(text: str) -> list[str]:
    return [found.casefold() for found in _WORD.findall(text)]


def is_verb(word: str) -> bool:
    return word in CLEAR or word in EITHER


def commands(text: str) -> bool:
    """Whether a sentence begins with a verb that tells somebody to do something."""
    said = words(text[:200])
    if not said or said[0] in NEVER:
        return False
    if said[0] in CLEAR:
        return True
    if said[0] in EITHER:
        return not _FINITE.match(text)
    return len(said) > 1 and said[1] in _TELLING and not said[0].endswith(("s", "ing", "ed", "ly"))


_TELLING = frozenset("the a an all every each our my it them this these those both".split())
"""After an unknown word these say that it was a verb: 'frobnicate the widget'."""


def goes_on(text: str, parallel: bool) -> bool:
    """Whether what follows a conjunction is another thing to do. A word that is a noun as well needs an object that
    cannot be taken for the rest of its name ('test the scripts', not 'test scripts'), or others like it before."""
    said = words(text[:200])
    if not said or not is_verb(said[0]):
        return False
    if len(said) == 1:
        return said[0] in ALONE
    if re.match(r"\S+\s*(?:,|and\b|or\b|&|/)", text):
        return False
    return said[0] in CLEAR or parallel or said[1] in OBJECT
