"""Closed classes of English words: what the parser treats as grammar rather than as content."""

from __future__ import annotations

import re

# Written before tokenising. General abbreviations and set phrases; left side is a regular expression.
_PHRASES = {
    r"end[- ]to[- ]end": "e2e",
    r"one (?:by one|at a time|after (?:the other|another))": "successively",
    r"(?:in place of|instead of|rather than|as opposed to|in lieu of|in preference to)": "<instead>",
    r"(?:prior to|ahead of|in advance of)": "before",
    r"(?:do not|don't|dont) forget to": "",
    r"(?:make sure|be sure|remember|try|take care)(?: to| that| you)+": "",
    r"(?:it is|it's) (?:not allowed|forbidden) to": "do not",
    r"(?:it is|it's) (?:fine|ok|okay|allowed) to": "",
    r"(?:must|should|may|can|do|does|did|is|are|was|were|will|would|could|has|have) ?n['o]t": "not",
    r"(?:cannot|can't|won't|dont|shan't)": "not",
    r"no longer": "not",
    r"(?:get|gets|got|getting) rid of": "remove",
    r"not only": "",
    r"(?:say|says|said|saying) no to": "reject",
    r"(?:leave|keep) (?:it|them) (?:as (?:it is|they are)|alone)": "keep",
    r"once more": "again",
    r"(?:all at once|at once|in one (?:go|step)|in a single (?:go|step))": "wholesale",
    r"(?:and )?(?:nothing else|no others?)": "<only>",
    r"nothing (?:but|other than)": "<only>",
    r"(?:at most|no more than|not more than|at the latest|up to|a maximum of|maximum)": "<max>",
    r"(?:at least|no less than|not less than|no fewer than|a minimum of|minimum)": "<min>",
    r"(?:and |but )?(?:only )?(?:after (?:that|it|this|them|which)(?=\s*(?:[,;.]|$))"
    r"|afterwards?|thereafter|subsequently|later)": "<later>",
    r"(?:and |but )?(?:only )?then": "<then>",
    r"(?:only )?(?:after|once|when) it (?:is|has been) done": "<later>",
    r"only (?:after|once)": "<after>",
    r"(?:as soon as possible|asap|right away|straight away|right now)": "early",
    r"as soon as": "<after>",
    r"per ?cent": "percent",
    r"once (?=(?:an?|per|each|every)\b)": "",
    r"every time|each time": "always",
    r"no matter": "regardless",
    r"(?:begin|start|starts|begins) (?:with|by|from)": "<first>",
    r"in order to": "to",
}  # fmt: skip
PHRASES = tuple((re.compile(rf"(?<!\S)(?:{left})(?![\w'-])"), f" {right} ") for left, right in _PHRASES.items())
# Phrases are looked for only where one of these stands: most texts hold few of them.
PHRASE_HINT = re.compile(
    r"end[- ]to|one |of\b|than|prior|forget|sure|remember|try|care|it is|it's|n['o]t\b|no |nothing|most|least|latest"
    r"|max|min|up to|after|then|later|subseq|only|soon|per|once|time|begin|start|order|opposed|prefer|cannot|won't|dont"
)

ABBREVIATIONS = {
    "db": "database", "dbs": "database", "config": "configuration", "configs": "configuration", "env": "environment",
    "repo": "repository", "repos": "repository", "docs": "documentation", "doc": "documentation", "temp": "temporary",
    "tmp": "temporary", "app": "application", "apps": "application", "auth": "authentication", "k8s": "kubernetes",
    "dev": "development", "prod": "production", "info": "information", "lib": "library", "libs": "library",
    "var": "variable", "vars": "variable", "param": "parameter", "params": "parameter", "dir": "directory",
    "dirs": "directory", "msg": "message", "perf": "performance", "admin": "administrator",
    "admins": "administrator", "cert": "certificate", "certs": "certificate", "stats": "statistics",
    "sync": "synchronize", "async": "asynchronous", "pr": "pull-request", "prs": "pull-request", "mail": "email",
    "mails": "email", "emails": "email", "spec": "specification", "virtualenv": "venv", "lockfile": "lock-file",
    "dataset": "data-set", "datasets": "data-set", "max": "maximum", "min": "minimum",
}  # fmt: skip

FUNCTION = frozenset(
    "a an the this that these those there here it its they them their theirs he she his her him we us our ours you"
    " your yours i me my mine one's who whom whose which what whatever is are was were be been being am do does did"
    " done has have had having will would shall should can could may might must ought to of and or as at by for from"
    " in into on onto with within than so such too very also even still just please each every all any some"
    " if when while whenever where per about around against between among across over under through during"
    " upon via up out off down let lets then else both either own always using ever ones"
    " ourselves yourself themselves itself myself s t ll re ve d m".split()
)
# A negator's reach ends at these; "of" is not one of them ("no use of force").
BREAKS = frozenset(
    "in on at by for from into onto with within to as if when while whenever where during via through over under"
    " because since so and or but which who whose per between among across against upon unless although using".split()
)
PREPOSITION_ORDER = frozenset({"before", "after", "once", "following", "until"})
NEGATORS = frozenset("not never no none neither nor cannot nobody nothing avoid stop quit cease refrain don't".split())
# Verbs that take their object away: "delete the cache" is to the cache what "do not use" is.
REMOVERS = frozenset(
    "remove delete drop disable exclude skip omit ignore forbid ban prohibit reject refuse decline disallow prevent"
    " block leave_out keep_out rule_out strip eliminate discard abandon suppress mute silence turn_off switch_off"
    " shut_off lack hide withhold cancel revoke deny leave_off free erase purge bypass".split()
)
LIGHT = frozenset(
    "use make do have get give take set keep run let put be go apply perform ensure need want should always using"
    " employ utilize utilise new way thing own such different whole full every all any case work just simple"
    " people somebody everybody someone anyone everyone person".split()
)
WITHOUT = frozenset({"without", "except", "excluding", "minus", "sans", "<instead>", "unless"})
EXCLUSIVE = frozenset({"only", "solely", "exclusively", "merely", "<only>", "just"})
PARTICLES = frozenset("up down out off away back on in over".split())
# on, in and over are prepositions unless one of these verbs stands before them.
PARTICLE_VERBS = frozenset("turn switch power log sign opt plug hand carry pass move check fail start".split())
DIRECTIONS = {"up": "down", "on": "off", "in": "out", "down": "up", "off": "on", "out": "in"}
# Verbs that leave things as they are; against a verb that acts they usually mean the contrary.
PASSIVE = frozenset(
    "keep leave stay remain continue wait trust accept assume ignore rely tolerate stick retain maintain let".split()
)
# "whatever", "for ever": the text sets a condition aside.
CONCESSIVE = frozenset(
    "whatever however regardless forever anyway everything anything everybody everyone wholesale possible"
    " despite".split()
)
DIRECTIONAL = {
    "from": "from", "out": "from", "off": "from", "to": "to", "into": "to", "onto": "to", "in": "in", "on": "in",
    "over": "over", "above": "over", "under": "under", "below": "under",
}  # fmt: skip
PREFERENCE = frozenset("prefer favour favor choose value pick hire rank put select like".split())

# Antonyms any thesaurus gives, some of which WordNet lacks. An entry must be an antonym out of context: pairs that
# are contrary only in some task ("trust"/"check", "real"/"mock") were tried and left out, they fit the data at hand.
_CONTRARIES = """
new old|new existing|local remote|real fake|genuine fake|manual automatic|manual automated|early late|start end
start stop|begin end|begin stop|morning evening|day night|single multiple|all none|every none|public private
static dynamic|synchronous asynchronous|accept reject|accept refuse|accept decline|merge split|merge separate
combine separate|together separate|together apart|same different|same other|same another|keep discard|keep delete
keep remove|allow forbid|allow prohibit|allow deny|allow block|permit forbid|grant deny|grant revoke|free paid
internal external|inside outside|inner outer|small big|small large|short long|brief long|fixed variable
explicit implicit|required optional|mandatory optional|fast slow|quick slow|cheap expensive|show hide|reveal hide
open close|open closed|lock unlock|eager lazy|strict lenient|strict loose|simple complex|narrow broad|narrow wide
specific general|specific generic|minimum maximum|low high|lower raise|lower higher|reduce increase|reduce raise
decrease increase|shrink grow|add remove|add subtract|include exclude|include omit|insert delete|attach detach
enable disable|activate deactivate|mute unmute|push pull|upload download|send receive|import export
encrypt decrypt|compress decompress|mount unmount|install uninstall|subscribe unsubscribe|upgrade downgrade
promote demote|centralize distribute|pessimistic optimistic|positive negative|success failure|pass fail
primary secondary|first last|next previous|front back|top bottom|head tail|left right|ascending descending
forward backward|online offline|individual collective|custom standard|parallel sequential|parallel serial
concurrent sequential|temporary permanent|always never|stateful stateless|mutable immutable|relative absolute
soft hard|light heavy|weak strong|careful careless|safe unsafe|safe dangerous|formal informal|direct indirect
stop continue|pause continue|pause resume|halt continue|hire fire|rich poor|warm cold|hot cold|wet dry|light dark
full empty|full partial|whole part|entire partial|complete partial|majority minority|expert novice|senior junior
global local|visible hidden|human machine|buy sell|win lose|succeed fail|answer ignore|speed delay
"""
CONTRARIES = frozenset(
    (left, right)
    for line in _CONTRARIES.split("\n")
    for left, _, right in (item.partition(" ") for item in line.split("|"))
    if right
)
