"""How something went: what was tried, for what, and whether it worked."""

from __future__ import annotations

import re

from ..engine.text import shorten
from ..types.kinds import Result
from . import doubts
from .scene import Found, Scene, sentence
from .types import Kind

_CHARS = 300
_WORKED = (
    r"(?:worked|works)(?!\s+(?:as|at|for|in|on|with|from|like\s+(?:this|that|so)|together|hard|around)\s(?!a\s+charm|"
    r"the\s+\w+\s+form))(?:\s+\w+){0,3}?|"
    r"(?:did\s+the\s+(?:trick|job))|(?:paid\s+off)|(?:helped(?:\s+a\s+lot)?)|succeeded|passed|"
    r"(?:went|gone)\s+(?:really\s+|very\s+|quite\s+)?(?:well|smoothly|fine|great|without\s+\w+)|(?:was|were|is|"
    r"are)\s+(?:a\s+)?(?:\w+\s+)?(?:success|successful|perfect|a\s+win)|"
    r"(?:the\s+)?(?:\w+\s+){0,3}(?:pass|passes|passed|succeed(?:s|ed)?)\b(?:\s+\w+){0,3}|"
    r"(?:made|makes|brought|got|cut|reduced|sped|dropped|halved|doubled|improved|caught|prevented|avoided|eliminated|"
    r"removed|stopped)\b.{3,}|"
    r"(?:the\s+)?(?:\w+\s+){1,3}(?:went\s+away|disappeared|is\s+gone|are\s+gone|stopped)|no\s+more\s+\w+.*|"
    r"(?:fixed|solved|resolved|cured|unblocked)\s.{3,}"
)
_FIXED = (
    r"(?:fixed|solved|resolved|cured|unblocked|sorted\s+out|got\s+rid\s+of|brought(?=\s+the\s.+\s(?:down|from|to)\b)|"
    r"sped\s+up|halved)"
)
_DOING = (
    r"(?!(?:regarding|according|including|coding|following|during|missing|existing|building|string|thing|nothing|"
    r"something|everything|meeting|morning|evening)\b)\w+ing\s(?!is\b|are\b|can\b)"
)
_FAILED = (
    r"(?:timed\s+out|failed|crashed|broke|hung|choked|errored|blew\s+up|backfired|"
    r"did\s*n[o']t\s+(?:work|help|fix|solve|pass|scale|change)|did\s+not\s+(?:work|help|fix|solve|pass|scale|change)|"
    r"does\s*n'?[o']?t\s+(?:work|help|fix)|never\s+worked|made\s+(?:it|things|everything)\s+worse|(?:was|were|"
    r"is)\s+(?:far\s+|way\s+|much\s+|just\s+)?too\s+(?:slow|expensive|big|fragile)|"
    r"(?:was|were)\s+(?:a\s+|an\s+)?(?:\w+\s+)?(?:disaster|failure|mistake|mess|fiasco|unsuccessful|rejected|slow)|"
    r"returned\s+(?:an?\s+)?(?:error|[45]\d\d)|rate[- ]limited|"
    r"ran\s+out\s+of|got\s+(?:stuck|rejected|blocked|rate)|led\s+to|caused|corrupted|kept\s+(?:crashing|failing|"
    r"hanging|breaking|timing\s+out)|deadlocked|locked\s+up)"
)
_TRIED = (
    r"(?:used|tried|applied|added|ran|did|replaced|switched|moved|split|wrapped|set|enabled|disabled|changed|rewrote|"
    r"put|took|went\s+with|chose|built|"
    r"introduced|raised|increased|lowered|reduced|batched|cached|mocked|stubbed|pinned|upgraded|downgraded|rolled|"
    r"wrote|made|started|implemented|ended\s+up\s+\w+ing|attempted)"
)
_WAY = (
    r"(?:\S+\s+){0,5}?(?:approach|attempt|idea|strategy|plan|trick|workaround|hack|solution|fix|method|way|"
    r"experiment|change|patch|upgrade|rollback|migration|refactor\w*|retry|cache|index)\b"
)
_WHO = (
    r"(?:(?:so|then|first|finally|ok|okay|well|and|also),?\s+)?(?:(?:i|we|the\s+team|they)(?:'ve|"
    r"\s+have)?\s+(?:just\s+|also\s+|then\s+|finally\s+|first\s+|already\s+)?)"
)
_JOIN = r"(?:\s*[,;:–—-]+\s*|\s+|\.\s+)(?:(?:and|but|which|that|so|yet|however|though|only)\s+)?(?:,\s*)?"
_REFER = (
    r"(?:it\s+all|it|this|that|they|which|everything|things)?\s*(?:has\s+|have\s+|had\s+|just\s+|all\s+|really\s+|"
    r"actually\s+|still\s+|then\s+|also\s+|immediately\s+|quickly\s+)?"
)

_DID_WELL = re.compile(
    rf"^\W*(?:{_WHO}(?P<did>{_TRIED})|(?P<bare>tried|"
    rf"used))\s+(?P<what>.{{2,160}}?){_JOIN}{_REFER}(?P<how>{_WORKED})\s*(?P<rest>.*)$",
    re.I,
)
_DID_BADLY = re.compile(
    rf"^\W*(?:{_WHO}(?P<did>{_TRIED})|(?P<bare>tried|used))\s+(?P<what>.{{2,160}}?)(?:\s*[,;:–—-]+\s*(?:but|and|"
    rf"which|yet|however|only)?|\s+(?:but|and|which|yet))\s*(?P<how>(?:(?:the|it|this|that|they|which|our|my|"
    rf"[\w'-]+)\s+){{0,4}}?{_FAILED})\s*(?P<rest>.*)$",
    re.I,
)
_THING_FIXED = re.compile(
    rf"^\W*(?P<what>(?:{_DOING}|(?:the|our|my|an?)\s{_WAY}).{{0,120}}?)\s+(?:(?:just|finally|really|completely|has|"
    rf"have)\s+)?{_FIXED}\s+(?P<task>.{{3,}})$",
    re.I,
)
_THING_WORKED = re.compile(
    rf"^\W*(?P<what>(?:{_DOING}|(?:the|our|my|this)\s).{{2,140}}?)\s+(?:(?:just|finally|really|also)\s+)?"
    r"(?P<how>worked(?!\s+(?:as|at|in|on|from|together|hard|around)\s)|did\s+the\s+(?:trick|job)|paid\s+off|"
    r"helped(?=\s*(?:$|a\s+lot|with\s+the))|succeeded|went\s+(?:really\s+|very\s+)?(?:well|smoothly|great|fine)|"
    r"was\s+an?\s+(?:\w+\s+)?success)\b(?P<rest>.*)$",
    re.I,
)
_THING_FAILED = re.compile(
    rf"^\W*(?P<what>(?:{_DOING}|(?:the|our|my|this)\s{_WAY}).{{0,140}}?)\s*"
    rf"(?P<how>\b{_FAILED})\s*(?P<rest>.*)$",
    re.I,
)
_NOT_ONE = re.compile(
    r"\b(?:will|'ll|going\s+to|should\s+(?:work|fix|help|pass)|want(?:ed)?\s+to\s+(?:try|use)|let\s+me|let's|"
    r"to\s+see\s+(?:if|whether)|whether|trying\s+to|tried\s+to|can|could|may|might|would|helped\s+(?:you|me|us)|"
    r"make\s+sure|you're|your|consider)\b|\.\.\.(?=.*\w)",
    re.I,
)
_CLAUSE = re.compile(r"\b(?:i|we|you|they|he|she)\s+\w|\b(?:is|are|was|were|who|that|which)\b", re.I)
_PURPOSE = re.compile(
    r"\s+(?:(?:to|in\s+order\s+to)\s+(?P<to>[a-z]\w*\s.+)|(?:for|on|in|with|during)\s+(?P<on>(?:the|our|my|this|a|an|"
    r"that|all|every|new|[A-Z])\b.*))$"
)
_ON = re.compile(
    r"^\W*(?:(?:\w+\s+){0,2}?)(?:on|for|in|with|during)\s+(?P<on>(?:the|our|my|this|a|an|all|that)\s+.+)$", re.I
)
_PLAIN = {
    did.replace("_", " "): do
    for did, do in (
        pair.split("/")
        for pair in """
    ran/run did/do took/take put/put went_with/use chose/choose rewrote/rewrite built/build wrote/write made/make
    split/split set/set used/use tried/ applied/apply attempted/ implemented/implement cached/cache
    replaced/replace enabled/enable disabled/disable changed/change moved/move introduced/introduce raised/raise
    increased/increase reduced/reduce lowered/lower upgraded/upgrade downgraded/downgrade batched/batch
    mocked/mock stubbed/stub pinned/pin rolled/roll wrapped/wrap added/add switched/switch started/start""".split()
    )
}
"""What was done, as it is told to be done."""


def outcome(plain: str, scene: Scene) -> Found | None:
    for pattern, result in (
        (_DID_BADLY, Result.FAILURE),
        (_THING_FAILED, Result.FAILURE),
        (_DID_WELL, Result.SUCCESS),
        (_THING_FIXED, Result.SUCCESS),
        (_THING_WORKED, Result.SUCCESS),
    ):
        found = pattern.match(plain)
        made = _made(found, result, scene) if found else None
        if made is not None:
            return None if _NOT_ONE.search(plain) or doubts.supposes(plain) else made
    return None


def _made(found: re.Match[str], result: Result, scene: Scene) -> Found | None:
    parts = found.groupdict()
    strategy, purpose = _strategy(parts.get("did") or parts.get("bare") or "", parts["what"])
    if not _telling(strategy) or _CLAUSE.search(parts["what"]):
        return None
    task = parts.get("task") or purpose or _on(parts.get("rest") or "")
    whole = _task(task or "", scene) or strategy
    fields = {"task": shorten(whole, _CHARS), "strategy_used": shorten(strategy, _CHARS), "outcome": str(result)}
    if result is Result.FAILURE:
        fields["error_message"] = shorten(sentence(f"{parts['how']} {parts.get('rest') or ''}"), _CHARS)
    verdict = "worked" if result is Result.SUCCESS else "failed"
    return Found(Kind.OUTCOME, shorten(f"{sentence(whole)}: {strategy} {verdict}", _CHARS), fields, 0.85)


def _strategy(did: str, what: str) -> tuple[str, str]:
    """What was done, and what for where that is said."""
    what = what.strip(" ,;:-–—")
    purpose = _PURPOSE.search(what)
    task = ""
    if purpose and len(what[: purpose.start()].split()) >= 1:
        task = (purpose["to"] or purpose["on"]).strip(" ,;:-–—")
        what = what[: purpose.start()] if purpose["to"] else what
    verb = _PLAIN.get(" ".join(did.lower().split()), did.lower())
    return sentence(f"{verb} {what}".strip()), task


def _telling(strategy: str) -> bool:
    words = strategy.lower().split()
    return (
        bool(words)
        and not (
            len(words) <= 2
            and words[-1]
            in ("it", "that", "this", "them", "things", "everything", "something", "one", "so", "best", "tests")
        )
        and words[0] not in ("it", "that", "this", "they", "there")
    )


def _on(rest: str) -> str:
    found = _ON.match(rest)
    return found["on"].strip(" .,;:") if found else ""


def _task(said: str, scene: Scene) -> str:
    """The request it was done for; the sentence's own words for it where nothing was asked."""
    asked = shorten(scene.task, _CHARS // 2).rstrip(".!? ")
    return asked or sentence(said.strip(" .,;:!"))
