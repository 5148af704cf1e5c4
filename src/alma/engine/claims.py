"""What a fact claims of what: two facts conflict when they give one thing two values that cannot both hold.

In doubt they do not conflict: a fact too many is seen and put away, one taken away is missed. Only some attributes
have one value at a time (where something lives, what it costs, which tool does a job); what somebody speaks, likes or
owns has many.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from .distil.corrections import rivals
from .text import STOP, normalise, stem, words


@dataclass(frozen=True, slots=True)
class Claim:
    subject: frozenset[str]
    """The telling words of what it is about; empty: of everything."""
    head: str
    """The noun among them that says what sort of thing it is."""
    attribute: str
    value: str
    changed: bool = False
    """It says itself that this was otherwise before."""
    gone: str = ""
    """The value that it says no longer holds."""


_OPEN = re.compile(
    r"^\W*(?:(?:note(?: that)?|remember(?: that)?|fyi|update|correction|actually|as of (?:today|now|\w+ \d{4}|"
    r"\d{4}\S*)|from now on|starting \w+"
    r"|and|but|so|ok|no|yes|now|since \w+|we (?:have |'ve )?(?:decided|agreed|chose)(?: now)? that)\b[\s,:;.–—-]*)+"
)
_DECIDED = re.compile(
    r"^(?:we|i|the team|our team|it was)(?: have| has|'ve)? (?:decided|agreed|chosen|chose|opted|settled)(?: (?:to|"
    r"on|for))?(?: (?:use|using|go with|going with))? "
)
_NOW = re.compile(
    r"\b(?:now|currently|nowadays|these days|as of today|from now on|instead|only|exactly|actually|usually|always|"
    r"just|mainly|mostly) ?\b"
)
_CHANGE = re.compile(
    r"\b(?:now|from now on|as of|no longer|instead|changed|moved|switched|migrated|renamed|replaced|"
    r"not .{1,40} any ?more)\b"
)
_TO = r"(?: from (?P<gone>.+?))? (?:to|into|over to|onto) (?P<value>.+?)"
_WE = r"(?:we|i|they|the team|our team|our company)(?:'ve| have| has)?"
_MOVE = r"(?:moved|migrated|switched|changed|ported|transferred|renamed|upgraded)"

_USE = re.compile(rf"^{_WE} (?:use|run|have) (?P<value>.+?) (?:for|as) (?P<subject>.+)$")
_USED_BY = re.compile(r"^(?P<subject>.+?) uses (?P<value>.+?)$")
_BARE_USE = re.compile(rf"^{_WE} use (?P<value>[\w.+#/@-]+(?: [\w.+#/@-]+)?)$")
_MOVED = re.compile(rf"^{_WE} (?:just |recently )?{_MOVE} (?P<subject>(?!from\b|to\b).+?){_TO}$")
_SWITCHED = re.compile(
    rf"^{_WE} (?:just |recently )?{_MOVE}(?: from (?P<gone>.+?))? to (?P<value>.+?)(?: for (?P<subject>.+))?$"
)
_REPLACED = re.compile(rf"^{_WE} replaced (?P<gone>.+?) (?:with|by) (?P<value>.+?)(?: (?:for|in) (?P<subject>.+))?$")
_WAS_MOVED = re.compile(
    rf"^(?P<subject>.+?) (?:was|were|has been|have been|has|have|is|are) (?:{_MOVE}|raised|increased|lowered|reduced|"
    rf"extended){_TO}$"
)
_OVER = re.compile(
    rf"^(?:{_WE} )?(?P<over>no longer (?P<verb>use|support|run|deploy|have)) (?P<value>.+?)(?: (?:for|"
    rf"as) (?P<subject>.+))?$"
)
_LIVES = re.compile(
    r"^(?P<subject>.+?) (?:live|lives|reside|resides|sit|sits|(?:is|are) based) (?:in|on|at|under) (?P<value>.+)$"
)
_HABIT = re.compile(
    r"^we (?P<subject>release|deploy|ship|meet|publish|bill|rotate \w+|back up|review) (?:every|each|at|after|for|"
    r"within) (?P<value>.+)$"
)
_PLACE = re.compile(
    r"^(?P<subject>.+?) (?:(?:is|are)(?: (?:hosted|located|deployed|stored|kept|running))?) (?P<prep>in|on|at|to|"
    r"under) (?P<value>.+)$"
)
_RUNS = re.compile(
    r"^(?P<subject>.+?) (?:run|runs|listen|listens|is reachable|is available|is exposed) (?:on|at|under) (?P<value>.+)$"
)
_WORKS = re.compile(r"^(?P<subject>.+?) (?:work|works)(?: (?P<prep>at|for|as)) (?P<value>.+)$")
_ONE = (
    "cost costs take takes expire expires start starts begin begins end ends open opens close closes last "
    "lasts require requires happen happens allow allows accept accepts return returns report reports belong belongs "
    "has have retry retries keep keeps"
).split()
_DOES = re.compile(rf"^(?P<subject>.+?) (?P<verb>{'|'.join(_ONE)}) (?P<value>.+)$")
_BY = re.compile(
    r"^(?P<subject>.+?) (?:is|are) (?P<verb>owned|maintained|managed|led|run|called|named|written|limited|capped|set|"
    r"due|scheduled|billed|versioned|licensed)(?: (?:by|in|to|at|on|for|under))? (?P<value>.+)$"
)
_IS = re.compile(r"^(?P<subject>.+?) (?P<verb>is|are) (?P<value>.+)$")
_PREFERS = re.compile(
    r"^(?:i|we|the user)(?:'d| would)? prefers? (?P<value>.+?) (?:over|to|rather than|"
    r"instead of) (?P<gone>.+?)(?: (?:in|for) (?:this|our|my) \w+)?$"
)
_CALL = re.compile(r"^(?:please )?(?:call me|my name is) (?P<value>[\w' -]{1,40})$")

_GENERIC = frozenset(
    map(
        stem,
        """service system app application component module project server site website software tool job piece part
        stuff our my the all""".split(),
    )
)
# Of these a thing has one at a time. Of customers, hobbies and languages it may have many.
_SLOTS = frozenset(
    """owner lead leader manager boss head contact provider vendor supplier name branch version database db ci
    region host cloud framework editor format timezone zone currency bank landlord doctor dentist teacher coach
    address email password url domain license licence plan tier backend registry repo repository title colour
    color theme font deadline date day window port key id ip number price budget limit default os platform
    broker queue cache storage bucket cluster namespace environment shell orm linter formatter sponsor chair
    president ceo cto mentor supervisor tracker wife husband partner fiancee fiance employer job role position
    team school university street city country birthday weight height age size""".split()
)
_RIVALS = tuple(
    frozenset(group.split())
    for group in (
        "mysql mariadb postgresql postgres sqlite oracle mssql mongodb mongo dynamodb cockroachdb "
        "cassandra couchdb db2 firestore",
        "kafka rabbitmq sqs nats pulsar activemq zeromq kinesis",
        "redis memcached valkey dragonfly",
        "aws azure gcp heroku digitalocean hetzner fly render",
        "jenkins circleci travis teamcity buildkite drone bamboo",
        "netlify vercel cloudflare",
        "react vue svelte angular solid ember",
        "express fastify koa hapi",
        "django flask fastapi rails laravel spring",
        "sqlalchemy prisma typeorm sequelize drizzle",
        "slack teams discord mattermost",
        "jira linear trello asana",
        "github gitlab bitbucket gitea",
        "terraform pulumi cloudformation",
        "elasticsearch opensearch solr meilisearch typesense",
        "rest graphql grpc soap",
        "stripe paypal adyen braintree",
        "okta auth0 keycloak cognito",
        "datadog grafana newrelic splunk",
        "webpack vite parcel rollup esbuild",
        "vim emacs vscode",
    )
)


def _rival(one: str, other: str) -> bool:
    first, second = one.split()[:1], other.split()[:1]
    return rivals(one, other) or (first != second and any({*first, *second} <= group for group in _RIVALS))


_JOINS = frozenset(
    "to and from until till between am pm h o clock a an the of per every each about around at on in by".split()
)
_NUMBER = re.compile(r"\d+")
_COUNTS = {
    name: str(at)
    for at, name in enumerate("zero one two three four five six seven eight nine ten eleven twelve".split())
}
_NAMELIKE = re.compile(r"^(?:the )?[\w`~/.:@+#-]+(?: [\w`./:@+#-]+){0,3}$")
_DAYS = re.compile(r"\b(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b")


@lru_cache(maxsize=2048)
def claim(text: str) -> Claim | None:
    """What a sentence claims; None when it is not known to claim a thing of which there is one at a time."""
    flat = normalise(text).strip("\"'“”")
    if len(flat) > 300 or "?" in flat or ". " in flat:
        return None
    changed = bool(_CHANGE.search(flat))
    flat = _OPEN.sub("", flat)
    over = _OVER.match(flat)
    if over:
        return _made(
            over,
            f"{'use' if over['verb'] in ('use', 'run', 'have') else over['verb']}",
            over["value"],
            True,
            over["value"],
        )
    flat = _DECIDED.sub("we use ", " ".join(_NOW.sub("", flat).split()))
    for pattern, attribute in _PATTERNS:
        found = pattern.match(flat)
        made = _of(found, attribute, changed) if found else None
        if made is not None:
            return made
    return None


_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (_CALL, "name"),
    (_PREFERS, "prefer"),
    (_MOVED, "*"),
    (_SWITCHED, "*"),
    (_REPLACED, "*"),
    (_WAS_MOVED, "*"),
    (_USE, "use"),
    (_BARE_USE, "use"),
    (_BY, ""),
    (_LIVES, "live"),
    (_HABIT, "habit"),
    (_PLACE, "at"),
    (_RUNS, "run"),
    (_WORKS, "work"),
    (_DOES, ""),
    (_USED_BY, "use"),
    (_IS, "is"),
)


def _of(found: re.Match[str], attribute: str, changed: bool) -> Claim | None:
    parts = found.groupdict()
    if attribute == "work":
        attribute = f"work {'at' if parts['prep'] in ('at', 'for') else 'as'}"
    attribute = attribute or stem(parts["verb"])
    if attribute == "is" and parts["verb"] == "are" and not _NUMBER.search(_digits(parts["value"])):
        return None
    if attribute == "name":
        return Claim(frozenset({"i"}), "name", "name", parts["value"])
    return _made(found, attribute, parts["value"], changed or attribute == "*", parts.get("gone") or "")


def _made(found: re.Match[str], attribute: str, value: str, changed: bool, gone: str) -> Claim | None:
    said = found.groupdict().get("subject") or ""
    subject = _subject(said)
    if said and not subject:
        return None
    return Claim(subject, _head(said), attribute, _value(value), changed, _value(gone))


def _subject(text: str) -> frozenset[str]:
    if re.match(r"(?:i|my|me)\b", text):
        own = {"i"}
    elif re.match(r"(?:it|this|that|they|these|those|there|he|she|what|which|who|one|you|someone)\b", text):
        return frozenset()
    else:
        own = set()
    told = {stem(word) for word in words(text) if word not in STOP} | own
    return frozenset(told - _GENERIC or told)


def _head(subject: str) -> str:
    """ "The owner of the payments module" is an owner, "the payments module owner", too."""
    found = words(re.split(r" (?:of|for|in|on|at|under|behind) ", subject)[0])
    return found[-1] if found else ""


def _value(text: str) -> str:
    return text.strip(" .,;:\"'`")


def conflict(new: str, old: str) -> bool:
    """Whether a new fact says that an older one no longer holds."""
    ours, theirs = claim(new), claim(old)
    if ours is None or theirs is None or normalise(new) == normalise(old):
        return False
    return (_says_gone(ours, theirs) if ours.gone else False) or _other_value(ours, theirs)


def _says_gone(ours: Claim, theirs: Claim) -> bool:
    if theirs.value != ours.gone or (ours.attribute not in ("*", theirs.attribute) and theirs.attribute != "*"):
        return False
    return not ours.subject or ours.subject == theirs.subject or not theirs.subject


def _other_value(ours: Claim, theirs: Claim) -> bool:
    if not ours.subject or ours.subject != theirs.subject or _over_again(ours.value, theirs.value):
        return False
    attribute = _shared(ours.attribute, theirs.attribute)
    if not attribute or ours.gone == ours.value:
        return False
    if attribute == "use":
        return _rival(ours.value, theirs.value) or (
            ours.changed and _kind(ours.value) == _kind(theirs.value) == "name" and _unknown(ours, theirs)
        )
    if attribute == "live" and ours.attribute != theirs.attribute and not _is_place_of_things(ours.value, theirs.value):
        return False
    if attribute == "is" and _kind(ours.value) == "name" and ours.head not in _SLOTS:
        return False
    return _comparable(ours.value, theirs.value)


def _is_place_of_things(a: str, b: str) -> bool:
    """A server or a folder; where a person is and where they live are two things."""
    return all(re.search(r"[\d_/.-]", value) for value in (a, b))


_MOVABLE = ("use", "at", "live", "run", "is", "*", "call", "nam", "limit", "cap")


def _shared(ours: str, theirs: str) -> str:
    """A move may be of where something is, of what it is or of what is used for it: what it was tells which."""
    if ours == "*" or theirs == "*":
        other = theirs if ours == "*" else ours
        return other if other in _MOVABLE else ""
    if {ours, theirs} == {"at", "live"}:
        return "live"
    return ours if ours == theirs else ""


def _unknown(ours: Claim, theirs: Claim) -> bool:
    """Nothing speaks for their being of different sorts: said of one job, the later one has taken over."""
    from .distil.corrections._names import is_program

    return is_program(ours.value) == is_program(theirs.value)


def _over_again(a: str, b: str) -> bool:
    """The same, or the same said more closely."""
    first, second = (set(words(one)) - _JOINS for one in (a, b))
    return first <= second or second <= first


def _digits(value: str) -> str:
    return " ".join(_COUNTS.get(word, word) for word in value.split())


def _kind(value: str) -> str:
    told = _digits(value)
    if re.search(r"(?<![a-z_-])\d", told) and not re.match(r"[a-z][\w-]*\d", told):
        return "number"
    if _DAYS.search(told):
        return "day"
    if re.match(r"an? |the \w+ \w", told):
        return "phrase"
    return "name" if _NAMELIKE.match(told) else "phrase"


def _comparable(a: str, b: str) -> bool:
    """Two of the same sort, of which a thing has one: two numbers of one unit, two names, two days."""
    kind = _kind(a)
    if kind != _kind(b) or kind in ("phrase", "day"):
        return False
    if kind == "number":
        return _unit(a) == _unit(b)
    return _noun_like(a) and _noun_like(b)


def _unit(value: str) -> frozenset[str]:
    return frozenset(stem(one) for one in words(_NUMBER.sub(" ", _digits(value))) if one not in _JOINS)


_ADJECTIVES = re.compile(
    r"\b(?:fast|slow|new|old|big|small|good|bad|great|ready|done|broken|down|up|open|closed|safe|stable|unstable|"
    r"deprecated|public|private|optional|required|"
    r"free|available|important|simple|complex|empty|full|late|early|different|same|responsible|able|written|built|"
    r"made|used|based)\b|\w+(?:ing|able|ful|ous|ive)$"
)


def _noun_like(value: str) -> bool:
    return not _ADJECTIVES.search(value)
