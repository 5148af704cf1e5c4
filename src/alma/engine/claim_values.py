"""The values that facts give to things: of what sort each is, and whether two of them can only hold one at a time.

"Postgres" and "encrypted at rest" may both be said of a database, "Berlin" and "Germany" of where somebody lives. Only
two of one sort rule each other out, and in doubt they are of two.
"""

from __future__ import annotations

import re

from .distil.corrections import rivals
from .text import stem, words

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


_JOINS = frozenset(
    "to and from until till between am pm h o clock a an the of per every each about around at on in by".split()
)
_SMALL = frozenset(
    "at in on for to from by with without about after before during until per as than then and or but not no never "
    "very too quite rather still again also only when while if because since via under over behind within".split()
)
_NUMBER = re.compile(r"\d+")
_COUNTS = {
    name: str(at)
    for at, name in enumerate("zero one two three four five six seven eight nine ten eleven twelve".split())
}
_NAMELIKE = re.compile(r"^(?:the )?[\w`~/.:@+#-]+(?: [\w`./:@+#-]+){0,3}$")
_DAYS = re.compile(r"\b(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b")
_ADJECTIVES = re.compile(
    r"\b(?:fast|slow|new|old|big|small|good|bad|great|ready|done|broken|down|up|open|closed|safe|stable|unstable|"
    r"deprecated|public|private|optional|required|"
    r"free|available|important|simple|complex|empty|full|late|early|different|same|responsible|able|written|built|"
    r"made|used|based|long|short|hard|easy|tight|high|low|huge|tiny|cheap|cold|hot|dead|gone|busy|flaky|unknown|"
    r"fixed|secret|remote|once|twice)\b|\w+(?:ing|able|ible|ful|ous|ive|less|ed|ly)$"
)
# Somebody or something is German besides being somebody or something.
_ORIGINS = frozenset(
    """american argentinian asian australian austrian belgian brazilian british bulgarian canadian chinese croatian
    czech danish dutch egyptian english european finnish french german greek hungarian indian indonesian iranian irish
    israeli italian japanese korean latin mexican nigerian norwegian pakistani persian polish portuguese romanian
    russian scottish serbian slovak slovenian spanish swedish swiss thai turkish ukrainian vietnamese welsh arabic
    hebrew hindi catalan""".split()
)
# Who lives in a town lives in a country, too.
_REGIONS = frozenset(
    """afghanistan albania algeria argentina armenia austria
    azerbaijan bangladesh belarus belgium bolivia bosnia brazil bulgaria cambodia cameroon canada chile china colombia
    croatia cuba cyprus czechia denmark ecuador egypt england estonia ethiopia finland france georgia germany ghana
    greece guatemala hungary iceland india indonesia iran iraq ireland israel italy jamaica japan jordan kazakhstan
    kenya korea latvia lebanon lithuania malaysia malta mexico moldova mongolia morocco nepal netherlands nigeria
    norway pakistan panama paraguay peru philippines poland portugal romania russia scotland senegal serbia slovakia
    slovenia spain sweden switzerland syria taiwan tanzania thailand tunisia turkey uganda ukraine uruguay us usa uk
    venezuela vietnam wales alabama alaska arizona arkansas california colorado connecticut delaware florida hawaii
    idaho illinois indiana iowa kansas kentucky louisiana maine maryland massachusetts michigan minnesota mississippi
    missouri montana nebraska nevada ohio oklahoma oregon pennsylvania tennessee texas utah vermont virginia wisconsin
    wyoming ontario quebec bavaria saxony tuscany catalonia australia""".split()
)
_CONTINENTS = frozenset("africa america asia europe oceania scandinavia".split())
_NO_TOWN = frozenset("campus town home suburbia peace fear exile".split())


def rival(one: str, other: str) -> bool:
    """Two that do the same job, of which one is used."""
    first, second = one.split()[:1], other.split()[:1]
    known = rivals(one, other) or (first != second and any({*first, *second} <= group for group in _RIVALS))
    return known and kind(one) != "phrase" and kind(other) != "phrase"


def over_again(a: str, b: str) -> bool:
    """The same, or the same said more closely."""
    first, second = (set(words(one)) - _JOINS for one in (a, b))
    return first <= second or second <= first


def kind(value: str) -> str:
    """'number', 'day', 'name' or 'phrase'."""
    told = _digits(value)
    if re.search(r"(?<![a-z_-])\d", told) and not re.match(r"[a-z][\w-]*\d", told):
        return "number"
    if _DAYS.search(told):
        return "day"
    if re.match(r"an? |the \w+ \w", told) or not _SMALL.isdisjoint(told.split()):
        return "phrase"
    return "name" if _NAMELIKE.match(told) else "phrase"


def has_number(value: str) -> bool:
    return bool(_NUMBER.search(_digits(value)))


def is_bare_number(value: str) -> bool:
    return not unit(value)


def has_terms(value: str) -> bool:
    """It holds for a part only: "pnpm in the web app"."""
    return not _SMALL.isdisjoint(value.split())


def unit(value: str) -> frozenset[str]:
    told = (one for one in words(_NUMBER.sub(" ", _digits(value))) if one not in _JOINS)
    return frozenset("tls" if one == "https" else stem(one) for one in told)


def noun_like(value: str) -> bool:
    return not _ADJECTIVES.search(value) and _ORIGINS.isdisjoint(value.split())


def same_place(a: str, b: str) -> bool:
    """Both towns, or both countries; not one that may lie in the other."""
    first, second = ([not region.isdisjoint(one.split()) for region in (_REGIONS, _CONTINENTS)] for one in (a, b))
    places = not any(one.startswith("the ") or one in _NO_TOWN for one in (a, b))
    return first == second and places


def alike_in_writing(a: str, b: str) -> bool:
    """Two hosts, two paths, two addresses: `db2` and `db3`, `eu-west-1` and `us-east-1`."""
    first, second = _form(a), _form(b)
    return bool(first) and first == second


def _form(value: str) -> str:
    """Which signs it has that no plain word has; of a host with a number, what it is without."""
    if " " in value:
        return ""
    for sign in "@/":
        if sign in value:
            return sign
    if re.fullmatch(r"[a-z]+\d+", value):
        return value.rstrip("0123456789")
    return "".join(sorted({"#" if sign.isdigit() else sign for sign in value if sign in ".-_:" or sign.isdigit()}))


def _digits(value: str) -> str:
    return " ".join(_COUNTS.get(word, word) for word in value.split())
