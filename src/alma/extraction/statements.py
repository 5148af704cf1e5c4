"""Facts: what is, where it is, whose it is, what is used for what. Only what can be understood alone, and lasts."""

from __future__ import annotations

import re

from . import doubts
from .persons import of_speaker
from .scene import Found, Scene, sentence
from .types import Kind

_OPEN = re.compile(
    r"^\W*(?:(?:and|but|also|so|ok|okay|well|btw|by\s+the\s+way|fyi|for\s+your\s+information|just\s+so\s+you\s+know|"
    r"so\s+you\s+know|note(?:\s+that)?|remember(?:\s+that)?|"
    r"keep\s+in\s+mind(?:\s+that)?|for\s+(?:context|the\s+record|reference)|context|update|correction|actually|"
    r"in\s+fact|important|reminder|good|great|no|yes|hi|hello|hey|as\s+of\s+(?:today|now|"
    r"\d{4}\S*))\b\s*[,:;!.–—-]*\s+)+",
    re.I,
)
_LABEL = re.compile(
    r"^\W*(?:fyi|note|remember|context|for\s+(?:context|the\s+record|reference)|keep\s+in\s+mind|important|reminder|"
    r"update)\b",
    re.I,
)
_PRONOUN = re.compile(
    r"^(?P<it>it|he|she|they|(?:this|that|these|those)(?!\s+(?:repo|project|codebase|team|company|app|service|library|package)\w*\b))\b(?P<rest>(?:'s|'re)?\s.+)$",
    re.I,
)

_NAME = (
    r"(?:(?!(?:I|I'm|I've|I'd|I'll|We|We're|We've|You|Let's|It's|That's|There's|Here's|What's|A|An|In|On|At|If|As|By|"
    r"To|For|With|From|After|Before|The|My|Our|Your|This|That|These|Those|All|Every|Each|Both|His|Her|Their|Its|Some|"
    r"Any|No)\b)[A-Z][\w.+#&'-]*(?:\s+(?:[A-Z][\w.+#&'-]*|of|and|the|\d[\w.]*))*)"
)
_NOT = (
    r"(?!(?i:is|are|was|were|be|been|has|have|had|do|does|did|should|must|can|could|will|would|may|might|shall|to|"
    r"that|which|who|because|if|when|but|or|so|it|i|i'm|i've|i'd|you|we|they|not|just|only|definitely|really)\b)"
)
_DEFINITE = (
    rf"(?:(?:the|our|my|your|this|all|every|each|both|his|her|their)\s+(?:{_NOT}[^\s,;:]+\s+){{0,6}}?{_NOT}[^\s,;:]+?)"
)
_PLURAL = (
    r"(?:[A-Z][a-z]+(?:\s+[a-z-]+){0,3}?s|[A-Z][a-z]+\s+(?:data|traffic|state|info|information|content|code|logs?))"
)
_SUBJECT = rf"(?P<subject>(?i:{_DEFINITE})|{_NAME}|{_PLURAL}|[a-z][\w./@-]*[\d_./-][\w./-]*)"
_ADV = (
    r"(?:\s+(?:now|currently|always|usually|only|also|still|actually|just|normally|typically|mainly|mostly|all|both|"
    r"exactly))*"
)

_HELD = (
    r"called|named|written|hosted|deployed|stored|kept|located|based|built|owned|maintained|managed|run|responsible|"
    r"limited|capped|restricted|scheduled|"
    r"configured|set|due|made|licensed|versioned|published|generated|backed|encrypted|signed|protected|mounted|"
    r"documented|renamed|replaced|served|billed|"
    r"charged|organi[sz]ed|known|short|available|reachable|accessible|part|married|engaged|from|allowed|required|"
    r"supported|deprecated|compiled|"
    r"replicated|partitioned|powered|implemented|tracked|handled|logged|expressed|measured|counted|in\s+charge|open|"
    r"closed"
)
_VALUE = (
    r"(?:\d|[\"'`~/$€£#]|https?:|an?\s+\w|the\s+\w|[A-Z][\w.+-]*|(?:in|on|at|under|behind|from|between|by|for|with|"
    r"within|of|per)\s+\S|one\s|two\s|three\s|four\s|five\s|six\s|"
    r"seven\s|eight\s|nine\s|ten\s|twelve\s|every\s|called\s|[\w-]+[.@/_:-]\w|[a-z]+\d|(?:mon|tues|wednes|thurs|fri|"
    r"satur|sun)day|midnight|noon|monthly|weekly|daily)"
)
_STATE = re.compile(
    r"^(?:(?:now|currently|always|still|actually|just|also|really|very|too|so|quite|pretty|a\s+bit|a\s+little|"
    r"completely|totally|all|again|already|almost|even|much|way)\s+)*"
    r"(?:broken|failing|failed|slow|down|up|red|green|wrong|ready|done|great|good|fine|ok|okay|missing|nice|bad|long|"
    r"short|empty|full|late|early|new|old|big|small|"
    r"hard|easy|difficult|weird|strange|ugly|beautiful|awful|terrible|amazing|confusing|unclear|clear|correct|"
    r"incorrect|right|true|false|working|crashing|hanging|stuck|"
    r"dead|alive|gone|back|here|there|over|off|happy|sad|tired|sick|busy|sorry|sure|afraid|glad|important|necessary|"
    r"possible|impossible|able|trying|going|getting|"
    r"looking|thinking|wondering|having|being|using|a\s+(?:bit|little|lot|mess|bug|problem|disaster|joke|nightmare|"
    r"pain|shame|pity|good|bad|great|nice|big|huge|small|real|"
    r"weird|strange|terrible|new|lie|question|test|typo|mistake|must|no-brainer)|an?\s+(?:issue|error|improvement|"
    r"example|option|idea|exception|interesting|important|easy|awful|amazing)|the\s+(?:problem|"
    r"issue|question|point|reason|same|best|worst|right|wrong|one|case|way|thing|first|only\s+problem|bug|cause|"
    r"culprit)|in\s+(?:the\s+way|trouble|danger|progress|conflict)|"
    r"on\s+(?:fire|hold|track|my\s+way|it)|at\s+(?:risk|fault)|for\s+(?:you|me|now)|under\s+(?:attack|load)|"
    r"of\s+(?:course|no))\b",
    re.I,
)
_IS = re.compile(rf"^{_SUBJECT}(?P<verb>(?:'s|'re|\s+(?:is|are))){_ADV}\s+(?P<value>(?:{_VALUE}|(?:{_HELD})\b).*)$")
_DOES = re.compile(
    rf"^{_SUBJECT}{_ADV}\s+(?P<verb>lives?|runs?|sits?|stays?|resides?|listens?|depends?|uses?|requires?|needs?|"
    rf"supports?|costs?|takes?|expires?|belongs?|reports?|owns?|"
    r"handles?|expects?|returns?|accepts?|contains?|starts?|begins?|ends?|opens?|closes?|works?|speaks?|studies|"
    r"teaches|plays?|manages?|leads?|maintains?|"
    r"writes?|reads?|stores?|keeps?|sends?|happens?|allows?|means|stands?|consists?|includes?|serves?|covers?|"
    r"points?|refers?|has|have|holds?|targets?|ships?|"
    r"connects?|talks?|prefers|likes|loves|eats|drinks|owes|pays?|earns?|drives?|fits?|lasts?|arrives?|leaves?|"
    r"departs?|exposes?|goes|go|comes?|provides?|"
    r"generates?|produces?|publishes|deploys?|builds?|caches?|retries|logs?|rotates?|syncs?|backs\s+up|falls\s+back|"
    r"defaults?|maps?|resolves?|limits?|caps?|bills?|charges?)"
    r"\s+(?P<value>\S.*)$"
)
_WE = re.compile(
    r"^(?P<subject>(?i:we|our\s+(?:team|company|office|group)))(?P<verb>(?:'re|\s+are)\s+(?:on|in|at|based|located|"
    r"using|running|hosted|called)\b|\s+(?:always\s+|only\s+|usually\s+|currently\s+|now\s+|all\s+|mostly\s+|"
    r"also\s+)?"
    r"(?i:use|run|deploy|host|store|keep|ship|release|publish|log|target|support|require|follow|bill|charge|have|"
    r"write|build|test|track|manage|maintain|work|meet|develop|sell|serve|employ|own|offer|"
    r"provide|monitor|version|cache|sign|back\s+up|freeze|document|rotate|review|merge|plan|pay|hire|buy|outsource|"
    r"operate|open|close))\s+(?P<value>\S.*)$"
)
_I = re.compile(
    r"^(?P<subject>i)(?P<verb>(?:'m|\s+am)\s+(?:an?|the|from|in\s+charge|responsible|based|born|married|engaged|\d+|"
    r"on\s+the|allergic|called|named|working\s+(?:at|for|as)|studying|living|learning|training)\b|"
    r"\s+(?:currently\s+|now\s+|also\s+|still\s+|mostly\s+|usually\s+)?(?:live|work|study|teach|speak|own|have|"
    r"drive|play|run|lead|manage|maintain|use|grew\s+up|was\s+born|come\s+from|moved|collect|volunteer|coach|sing|"
    r"paint|cook|practi[sc]e|train|write)\b|'ve\s+(?:lived|worked|owned|been\s+(?:living|working\s+(?:at|for|as|in)|"
    r"married|studying|learning|playing|using|subscribed|a\s|an\s))\b)\s*(?P<value>\S.*)$",
    re.I,
)
_MOVED = re.compile(
    rf"^(?:(?P<we>(?i:we|the\s+team|our\s+team))(?:'ve|\s+have|\s+has)?\s+(?:just\s+|recently\s+|now\s+|finally\s+|"
    rf"already\s+)?(?P<verb>moved|migrated|switched|changed|renamed|replaced|upgraded|transferred|ported|"
    rf"consolidated)\s+(?P<value>\S.*)"
    rf"|{_SUBJECT}\s+(?:was|were|has\s+been|have\s+been|has|have|is\s+now|are\s+now|got|(?=moved\s+to))\s*(?:now\s+|"
    rf"just\s+|"
    rf"recently\s+)?(?P<verb2>moved|migrated|renamed|replaced|upgraded|switched|changed|transferred|increased|raised|"
    rf"lowered|reduced|extended|shortened)\s+(?P<value2>(?:to|by|from|with|into)\s.*))$"
)
_TO = re.compile(r"\b(?:to|by|with|into)\s+\S", re.I)
_TASKLIKE = re.compile(
    r"\b(?:i\s+(?:want|need|have)\s+(?:a|an|to|you|some|the|this|that|your|help)\b|i\s+(?:still\s+|also\s+|"
    r"just\s+)?have\s+(?:a|an|no|the|some|one|another|two)\s+(?:question|problem|issue|idea|bug|error|request|task|"
    r"doubt|list|table|function|file|script|string|array|dataset|csv|json|class|component|list|feeling|meeting|"
    r"question)s?\b|"
    r"i(?:'m|\s+am)\s+(?:trying|working\s+on|getting|having|looking|going|using|seeing|a\s+(?:bit|little|beginner|"
    r"newbie)|on\s+it|the\s+one)|i\s+run\s+(?:into|it|the|this|npm|pip|git)|i\s+(?:work|use|write)\s+(?:on\s+it|it|"
    r"this|that)|"
    r"i\s+have\s+(?:been|tried|done|this|these|to))\b",
    re.I,
)
_VAGUE = re.compile(r"^(?:the|this|that|our|my|your)\s+(?:function|variable|method|code|line|loop|test|tests|"
                    r"button|page|form|file|query|output|input|result|error|bug|problem|issue|answer|thing|"
                    r"one|other|"
                    r"weather|time|day|food|movie|game|idea|question|meeting|point|first|second|"
                    r"third|last|next|above|below|following|example|section|chapter|document|"
                    r"page|article|guide|tutorial|diff|change|fix|commit|pr)s?$", re.I)  # fmt: skip
_ONLY_THING = re.compile(
    r"^(?:gotta|gonna|wanna|having|being|i|i'm|i've|i'd|i'll|we|we're|we've|we'll|let's|it's|that's|"
    r"this(?!\s+(?:repo|project|codebase|team|company|app|service|library|package))|"
    r"that|these|those|it|there|here|he|she|they|you|one|what|who|which|something|anything|everything|nothing|some|"
    r"many|most|"
    r"few|people|someone|everyone|nobody|let|see|please|thanks|sorry|yes|no|ok|maybe|if|when|where|why|how|because|"
    r"since|although|while|for|also|then|so|but|and|or|not|never|always|just|only|even|still|add|use|run|make|fix|"
    r"test|write|create|check|try|set|get|put|give|show|tell|ask|send|call|move|keep|remove|delete|update|change|"
    r"install|open|close|start|stop)\b",
    re.I,
)
_PERFECT = re.compile(
    r"^(?:also\s+|just\s+|really\s+|definitely\s+|already\s+|always\s+|never\s+|recently\s+|finally\s+)*(?:been|"
    r"made|done|become|got(?:ten)?|taken|given|gone|come|seen|\w+ed|to)\b",
    re.I,
)
_ABOUT_US = re.compile(r"^(?:your|our|we|this\s+(?:repo\w*|project|codebase))\b", re.I)
"""What an assistant may state as known here: of the world it knows more than needs to be kept."""
_MOST_CHARS = 220


def fact(plain: str, scene: Scene) -> Found | None:
    labelled = bool(_LABEL.match(plain))
    bare = _OPEN.sub("", plain).strip()
    bare, completed = _completed(_first_clause(bare), scene)
    if (
        not bare
        or len(bare) > _MOST_CHARS
        or _TASKLIKE.search(bare)
        or _POINTS.search(bare)
        or doubts.denies(bare)
        or doubts.ahead(bare)
        or doubts.passing(bare)
    ):
        return None
    if not scene.person and not _ABOUT_US.match(bare):
        return None
    made = _moved(bare) or _over(bare) or _personal(bare, scene) or _ours(bare, scene) or _stated(bare, scene)
    if made is None:
        return None
    subject, confidence = made
    if doubts.past(bare) and not (
        _MOVED.match(bare) or doubts.over(bare) or re.match(r"i\s+(?:grew|was\s+born|moved)", bare, re.I)
    ):
        return None
    text = sentence(bare)
    domain = "user" if subject.lower() in ("i", "my") else "project"
    if domain == "user":
        text = of_speaker(text, scene.who)
    return Found(
        Kind.FACT,
        text,
        {"fact": text, "domain": domain},
        confidence - (0.15 if completed else 0.0) + (0.05 if labelled else 0.0),
    )


def _first_clause(bare: str) -> str:
    """ "We use Redis for sessions, and it works well" states its beginning."""
    found = _FURTHER.search(bare)
    return bare[: found.start()] if found and len(bare[: found.start()].split()) >= _FEW else bare


def _agrees(subject: str, verb: str) -> bool:
    """ "All the hard work paid off" has no verb where one seems to stand: one thing works, several work."""
    several = subject.lower().endswith(("s", "data", "people", "children", "team", "staff", "everyone"))
    return several or verb.endswith("s") or " and " in subject


def _known(subject: str, found: re.Match[str]) -> bool:
    """In talk, something in particular: "our build server", "Ana", or a value that is one."""
    contracted = found["verb"].startswith("'")
    if _OWN.match(subject):
        return not contracted
    name = all(word[:1].isupper() for word in subject.split()) and not subject.lower().endswith(("ing", "s"))
    return name or bool(_CONCRETE.search(found["value"]))


_OWN = re.compile(r"(?:the|our|my|this|all|every|each|both|his|her|their)\s", re.I)
_CONCRETE = re.compile(r"\d|`|(?<=\s)[A-Z][\w+#-]*|^[A-Z][\w+#-]*|\w[./_@]\w")
_VERB = re.compile(
    r"(?:is|are|was|were|has|had|can|will|would|should|could|really|definitely|do|does|did|a\s+lot|so\s+much|guts)\b",
    re.I,
)
_FEW = 3
_FURTHER = re.compile(
    r"\s*[,;–—]\s*(?:(?:but|and|so|because|although|though|since|yet)\s+)?(?:i|i'm|i've|i'd|i'll|it|it's|we|we're|"
    r"we've|she|she's|he|he's|they|they're|that|that's|this|which|"
    r"especially|but)\b|\s+(?:but|and|so|because)\s+(?:i|i'm|i've|i'd|it|it's|we|we're|we've|they|she|he)\b|"
    r"\s+[-–—]\s+",
    re.I,
)
_POINTS = re.compile(
    r"\b(?:use|using|have|own|play|run|keep|store|need|with|of|for|to|in|on|at)\s+(?:it|this|that|them|those|these|"
    r"most\s+of\s+(?:those|them|these)|the\s+same)\b(?!\s+(?:repo\w*|project|codebase|file|folder|company|team|"
    r"order))|^both\s+\w+s?\s",
    re.I,
)
_LATELY = re.compile(r"\b(?:lately|recently|these\s+days|a\s+lot)\b", re.I)


def subject_of(plain: str) -> str:
    """What a sentence is about, so that a pronoun after it can be understood; empty where that is unclear."""
    bare = _OPEN.sub("", plain).strip()
    found = _IS.match(bare) or _DOES.match(bare)
    if not found or _ONLY_THING.match(found["subject"]) or _PRONOUN.match(bare):
        return ""
    return found["subject"]


def _completed(bare: str, scene: Scene) -> tuple[str, bool]:
    """ "It runs on port 8080" says nothing alone: the pronoun gives way to what it stands for, or nothing is said."""
    found = _PRONOUN.match(bare)
    if not found:
        return bare, False
    who = found["it"].lower()
    if not scene.subject or who in ("this", "that", "these", "those"):
        return "", False
    person = scene.subject[:1].isupper() and not scene.subject.lower().startswith(
        ("the ", "our ", "my ", "all ", "every ")
    )
    if (who in ("he", "she")) != person and who != "they":
        return "", False
    return f"{scene.subject}{found['rest']}", True


def _moved(bare: str) -> tuple[str, float] | None:
    found = _MOVED.match(bare)
    if not found or not _TO.search(found["value"] or found["value2"] or ""):
        return None
    value = (found["value"] or found["value2"]).lower()
    if re.match(r"(?:it|that|this|them|on|the\s+(?:button|function|variable|code|line|import|test|file))\b", value):
        return None
    return ("we" if found["we"] else found["subject"]), 0.85


def _over(bare: str) -> tuple[str, float] | None:
    if (
        doubts.over(bare)
        and re.match(rf"^(?:we|i|the\s|our\s|my\s|{_NAME})", bare, re.I)
        and not _ONLY_THING.match(bare)
    ):
        return bare.split()[0], 0.8
    return None


def _personal(bare: str, scene: Scene) -> tuple[str, float] | None:
    if not scene.person or scene.document:
        return None
    found = _I.match(bare)
    if (
        not found
        or _LATELY.search(bare)
        or (found["verb"].strip().lower().endswith("have") and _PERFECT.match(found["value"]))
    ):
        return None
    return "I", 0.85


def _ours(bare: str, scene: Scene) -> tuple[str, float] | None:
    found = _WE.match(bare)
    if not found or re.match(
        r"(?:it|this|that|them|these|those|to\b|a\s+(?:problem|bug|question|meeting|issue)|an\s+(?:issue|error)|"
        r"no\b|some\b)",
        found["value"],
        re.I,
    ):
        return None
    return "we", 0.85


def _stated(bare: str, scene: Scene) -> tuple[str, float] | None:
    found = _IS.match(bare)
    if found:
        if _STATE.match(found["value"]):
            return None
    else:
        found = _DOES.match(bare)
        if found and not _agrees(found["subject"], found["verb"]):
            return None
    if not found:
        return None
    subject = found["subject"]
    if _ONLY_THING.match(subject) or _VAGUE.match(subject) or _VERB.match(found["value"]):
        return None
    if scene.person and (subject.lower().startswith("your ") or not (scene.document or _known(subject, found))):
        return None
    if re.match(r"(?:it|this|that|them)\b\W*$", found["value"], re.I) or (
        found["verb"].strip().lower() in ("has", "have") and _PERFECT.match(found["value"])
    ):
        return None
    mine = subject.lower().startswith("my ")
    return ("my" if mine else subject), 0.8
